"""Clients that others wrote, in other languages: guacamole-lite, and the library inside Guacamole itself."""

from contextlib import ExitStack

import pytest
from support.foreign import guacamole_common, guacamole_lite

_COMMON = {version: guacamole_common(version) for version in ("1.3.0", "1.6.0")}


_ALL = {"guacamole-lite": guacamole_lite, **{f"guacamole-common-{v}": click for v, click in _COMMON.items()}}


@pytest.mark.parametrize("click", _ALL.values(), ids=_ALL)
def test_it_completes_its_handshake_and_sees_a_drawn_desktop(click, gateway, farm, make_user, tmp_path):
    alice = make_user("alice")
    with click(gateway.address, gateway.rdp(alice)) as client:
        client.until_desktop()
        client.until(lambda: client.opcodes.count("sync") >= 3, 10, "pictures go on when they are answered")
        client.picture.image().save(tmp_path / "foreign.png")
    assert client.error is None
    logons = farm.logons(alice)
    assert len(logons) == 1, "one click, one RDP logon in the whole farm"
    if not gateway.direct:
        [placed] = gateway.placements(alice)
        assert placed["host"] == logons[0].host
        [ended] = gateway.ended(placed)
        assert (ended["phase"], ended["by"]) == ("stood", "guacamole")


@pytest.mark.parametrize("version", _COMMON)
def test_guacamole_is_given_the_id_and_the_version_it_asked_for(version, gateway, make_user):
    with _COMMON[version](gateway.address, gateway.rdp(make_user("alice"))) as client:
        connection, spoken = client.until(lambda: client.noted("ready"), 30, "the handshake is complete")
    assert connection.startswith("$") and len(connection) == 37
    assert spoken == "VERSION_1_3_0", "the guacd here is 1.3.0"


@pytest.mark.brokered
@pytest.mark.parametrize("version", _COMMON)
def test_guacamole_reads_a_refusal_as_what_it_is(version, gateway, make_user):
    lost = {**gateway.rdp(make_user("alice")), "hostname": "sessionguard:resource=ofice-desktop"}
    with _COMMON[version](gateway.address, lost) as client:
        assert client.until(lambda: client.noted("failed"), 30, "the refusal") == ["RESOURCE_NOT_FOUND"]
        client.until(lambda: client.ended, 10, "the program ends")
    assert client.noted("ready"), "an error behind `ready`, which is the page's to show"
    assert client.error == 0x204


@pytest.mark.brokered
@pytest.mark.parametrize("version", _COMMON)
def test_guacamole_throws_what_it_may_try_elsewhere(version, start_gateway, nobody_listens, make_user):
    gateway = start_gateway(hosts=[nobody_listens("rds-a"), nobody_listens("rds-b")])
    with _COMMON[version](gateway.address, gateway.rdp(make_user("alice"))) as client:
        assert client.until(lambda: client.noted("failed"), 30, "the exception") == ["UPSTREAM_UNAVAILABLE"]


@pytest.mark.brokered
@pytest.mark.parametrize("version", _COMMON)
def test_guacamole_notices_nothing_of_a_host_that_failed_before_another_gave_the_desktop(
    version, start_gateway, hangs_up, farm, make_user
):
    gateway = start_gateway(hosts=[hangs_up("rds-a"), farm.host("rds-b")])
    tried = []
    # Whoever is on the well host makes the other one look better to the next.
    with ExitStack() as pages:
        for name in ["ann", "ben", "cleo"]:
            user = make_user(name)
            page = pages.enter_context(_COMMON[version](gateway.address, gateway.rdp(user)))
            page.until_desktop()
            page.until(lambda: page.opcodes.count("sync") >= 3, 10, "pictures go on when they are answered")
            placed = gateway.placements(user)
            tried.append([line["host"] for line in placed])
            if tried[-1] == ["rds-a", "rds-b"]:
                break
        else:
            pytest.fail(f"nobody was sent to the host that fails: {tried}")
        assert [logon.host for logon in farm.logons(user)] == ["rds-b"], "one click, one logon"
        # No exception, no second `ready`, no error for the page.
        assert [first for first, *_ in page.notes] == ["ready"]
        assert {"ready", "error", "disconnect"}.isdisjoint(page.opcodes)
    [ended] = gateway.ended(placed[0])
    assert (ended["phase"], ended["attempts"], ended["by"]) == ("stood", 2, "guacamole")


@pytest.mark.brokered
def test_guacamole_lite_hands_its_page_a_refusal(gateway, make_user):
    lost = {**gateway.rdp(make_user("alice")), "hostname": "sessionguard:resource=ofice-desktop"}
    with guacamole_lite(gateway.address, lost) as client:
        client.until(lambda: client.error, 30, "the refusal")
    assert client.error == 0x204
