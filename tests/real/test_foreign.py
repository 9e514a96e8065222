"""Clients that others wrote, in other languages: guacamole-lite, and the library inside Guacamole itself."""

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
def test_guacamole_lite_hands_its_page_a_refusal(gateway, make_user):
    lost = {**gateway.rdp(make_user("alice")), "hostname": "sessionguard:resource=ofice-desktop"}
    with guacamole_lite(gateway.address, lost) as client:
        client.until(lambda: client.error, 30, "the refusal")
    assert client.error == 0x204
