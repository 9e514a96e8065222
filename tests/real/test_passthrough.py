"""Connections that no resource matches go through as if nothing were there."""

from support.client import Client
from support.gateway import credentials, unmapped

_COLOURS = r'for i in $(seq 16 231); do printf "\033[48;5;%dm  " $i; done; printf "\033[0m\n"; exec sleep 60'


def test_an_unmapped_vnc_connection_passes_through(gateway, vnc, tmp_path):
    with Client(gateway.address, unmapped(vnc.host, vnc.port), protocol="vnc") as client:
        client.until_desktop()
        client.picture.image().save(tmp_path / "vnc.png")
    assert gateway.direct or not gateway.lines("Placed")


def test_an_unmapped_ssh_connection_passes_through(gateway, ssh, make_user, tmp_path):
    alice = make_user("alice")
    # A command in place of a shell: the cube colours, which nothing else draws.
    parameters = unmapped(ssh.host, ssh.port, username=alice.name, password=alice.password, command=_COLOURS)
    with Client(gateway.address, parameters, protocol="ssh") as client:
        try:
            client.until(client.picture.cube_drawn, 30, "the terminal is drawn")
        finally:
            client.picture.image().save(tmp_path / "ssh.png")
    ssh.process.until(lambda: f"Accepted password for {alice.name}" in ssh.process.text(), 10, "saw the login")
    assert gateway.direct or not gateway.lines("Placed")


def test_an_unmapped_rdp_connection_goes_to_the_host_it_names(gateway, farm, make_user):
    alice = make_user("alice")
    host = farm.host("rds-b")
    with Client(gateway.address, unmapped(host.host, host.port, **credentials(alice))) as client:
        client.until_desktop()
    assert [(entry.host, entry.kind) for entry in farm.logons(alice)] == [("rds-b", "created")]
    assert gateway.direct or not gateway.lines("Placed")
