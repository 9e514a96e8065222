"""Connections that no resource matches go through as if nothing were there."""

from support.client import Client
from support.gateway import credentials, unmapped


def test_an_unmapped_vnc_connection_passes_through(gateway, vnc, tmp_path):
    with Client(gateway.address, unmapped(vnc.host, vnc.port), protocol="vnc") as client:
        client.until_desktop()
        client.picture.image().save(tmp_path / "vnc.png")
    assert gateway.direct or not gateway.lines("Placed")


def test_an_unmapped_rdp_connection_goes_to_the_host_it_names(gateway, farm, make_user):
    alice = make_user("alice")
    host = farm.host("rds-b")
    with Client(gateway.address, unmapped(host.host, host.port, **credentials(alice))) as client:
        client.until_desktop()
    assert [(entry.host, entry.kind) for entry in farm.logons(alice)] == [("rds-b", "created")]
    assert gateway.direct or not gateway.lines("Placed")
