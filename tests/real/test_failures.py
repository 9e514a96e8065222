"""Something is down, and the user is told or taken elsewhere."""

import pytest
from support.client import Client


@pytest.mark.parametrize("down", ["rds-a", "rds-b"])
def test_with_one_host_down_the_user_lands_on_the_other(start_gateway, nobody_listens, farm, make_user, visit, down):
    up = farm.other(down)
    gateway = start_gateway(hosts=[nobody_listens(h.id) if h.id == down else h for h in farm.hosts])
    alice = make_user("alice")
    assert visit(gateway, alice, hint=up.id).host == up.id
    assert len(farm.logons(alice)) == 1


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
