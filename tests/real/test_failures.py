"""Something is down, and the user is told or taken elsewhere."""

import pytest
from support.client import Client
from support.guacd import Guacd
from support.waiting import until

_FAILED = "Host failed before the desktop stood, trying the next"


@pytest.mark.parametrize("down", ["rds-a", "rds-b"])
def test_with_one_host_down_the_user_lands_on_the_other(start_gateway, nobody_listens, farm, make_user, visit, down):
    up = farm.other(down)
    gateway = start_gateway(hosts=[nobody_listens(h.id) if h.id == down else h for h in farm.hosts])
    alice = make_user("alice")
    assert visit(gateway, alice, hint=up.id).host == up.id
    assert len(farm.logons(alice)) == 1


@pytest.mark.brokered
@pytest.mark.parametrize("ill, way", [("rds-a", "closes"), ("rds-b", "resets")])
def test_with_a_host_that_fails_when_it_is_used_the_user_lands_on_the_other(
    start_gateway, hangs_up, farm, make_user, visit, ill, way
):
    well = farm.other(ill)
    gateway = start_gateway(hosts=[hangs_up(h.id, way) if h.id == ill else h for h in farm.hosts])
    saved = None
    # Whoever is on the well host makes the other one look better to the next.
    for name in ["ann", "ben", "cleo"]:
        user = make_user(name)
        visited = visit(gateway, user)
        assert visited.host == well.id
        placed = gateway.placements(user)
        if len(placed) == 2:
            saved = visited
            break
    assert saved, "nobody was sent to the host that fails"
    assert [line["host"] for line in placed] == [ill, well.id]
    assert placed[0]["tunnel"] == placed[1]["tunnel"]
    [failed] = [line for line in gateway.lines(_FAILED) if line["tunnel"] == placed[0]["tunnel"]]
    assert (failed["host"], failed["attempt"]) == (ill, 1)
    assert failed["status"] in (0x202, 0x203, 0x207, 0x208), failed
    # The page got one clean start: each guacd opens with `audio`, and the first one said `error` in the end.
    opcodes = saved.client.opcodes
    assert {"ready", "error", "disconnect"}.isdisjoint(opcodes), opcodes[:40]
    assert opcodes[:opcodes.index("sync")].count("audio") <= 1, opcodes[:40]
    gateway.leave(saved.client)
    [ended] = gateway.ended(placed[0])
    assert (ended["phase"], ended["attempts"]) == ("stood", 2)


@pytest.mark.brokered
def test_with_every_host_down_the_user_is_told_so(start_gateway, nobody_listens, make_user):
    gateway = start_gateway(hosts=[nobody_listens("rds-a"), nobody_listens("rds-b")])
    with Client(gateway.address, gateway.rdp(make_user("alice"))) as client:
        client.until(lambda: "disconnect" in client.opcodes, 15, "the refusal is complete")
        assert client.error == 0x208


@pytest.mark.brokered
def test_with_guacd_down_the_user_is_told_so(start_gateway, nobody_listens, make_user):
    gateway = start_gateway(guacd=nobody_listens("guacd"))
    with Client(gateway.address, gateway.rdp(make_user("alice"))) as client:
        # That the client exists shows that `ready` came first.
        client.until(lambda: "disconnect" in client.opcodes, 10, "the refusal is complete")
        assert client.ready
        assert client.error == 0x208
        assert client.opcodes == ["error", "disconnect"]


@pytest.mark.brokered
def test_with_guacd_killed_the_user_returns_to_the_session_left_behind(start_gateway, farm, make_user, visit, tmp_path):
    guacd = Guacd(tmp_path)
    try:
        gateway = start_gateway(guacd=guacd)
        alice = make_user("alice")
        left = visit(gateway, alice)
        guacd.stop()
        until(lambda: left.client.ended, 15, lambda: "the page hears of the end")
        [ended] = gateway.ended(gateway.placements(alice)[-1])
        assert (ended["by"], ended["phase"]) == ("guacd", "stood")
        guacd = Guacd(tmp_path, guacd.port)
        back = visit(gateway, alice, left.host)
        assert (back.host, back.kind) == (left.host, "reconnected")
        assert len(farm.logons(alice)) == 2
    finally:
        guacd.stop()
