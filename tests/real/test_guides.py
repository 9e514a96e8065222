"""The first hour as deploy/guides/adopt.md tells it, on guacd and xrdp hosts: observe, pilot, and back."""

import json
import re
import tempfile
from pathlib import Path

import pytest

from support import gateway as gateways

_ADOPT = Path(__file__).resolve().parents[2] / "deploy/guides/adopt.md"

pytestmark = pytest.mark.brokered


class Adopted(gateways.Sessionguard):
    """Runs by the configuration of the guide, at the addresses that are here."""

    def __init__(self, run_dir, guacd, hosts):
        self._guacd, self._hosts, self._run_dir = guacd, hosts, run_dir
        super().__init__(run_dir, guacd, hosts)

    def adjusted(self, config, mode="observe"):
        block = re.search(r"```toml sessionguard\.toml\n(.*?)```", _ADOPT.read_text(), re.DOTALL).group(1)
        here = {'"observe"': f'"{mode}"', "127.0.0.1:4832": "127.0.0.1:0",
                "127.0.0.1:4822": f"{self._guacd.host}:{self._guacd.port}",
                "rds.example.com": self._hosts[0].host}
        for there, address in here.items():
            assert there in block, f"{there} is in the guide no more"
            block = block.replace(there, address)
        for nth, host in enumerate(self._hosts, 1):
            address = f'address = "10.0.0.1{nth}"'
            assert address in block
            block = block.replace(address, f'address = "{host.host}"\nport = {host.port}')
        return block + f"""
[store]
path = {json.dumps(str(self._run_dir / "sessionguard.redb"))}
[probe]
interval = "1s"
timeout = "1s"
[api]
listen = "127.0.0.1:0"
[health]
listen = "127.0.0.1:0"
[log]
format = "json"
"""

    def rdp(self, user, hint=None):
        """What the connection said before anybody thought of sessionguard."""
        first = self._hosts[0]
        return gateways.unmapped(first.host, first.port, **gateways.credentials(user))

    def set_mode(self, mode):
        (self._run_dir / "sessionguard.toml").write_text(self.adjusted("", mode))
        self.told("reload")

    def id_of(self, host):
        """What the guide calls it."""
        return f"rds{[one.id for one in self._hosts].index(host) + 1}"


@pytest.fixture
def adopted(run_dir, guacd, farm, users):
    gateway = Adopted(Path(tempfile.mkdtemp(prefix="adopted-", dir=run_dir)), guacd, farm.hosts)
    yield gateway
    gateway.stop()


def test_the_first_hour_as_the_guide_tells_it(adopted, farm, make_user, visit):
    first = farm.hosts[0].id
    ann, bob = make_user("ann"), make_user("bob")

    # Observed: the desktop it always was, whatever would have been chosen.
    seen = visit(adopted, ann)
    assert seen.host == first
    [would] = adopted.lines("Would place")
    assert ann.name in would["user"] and would["host"] in ("rds1", "rds2")
    assert adopted.lines("Placed") == []
    assert "observed only" in adopted.told("explain", "--user", ann.name, "--last")

    # Piloted: a closed tab is come back to, also in drain, and nobody new is sent there.
    adopted.set_mode("broker")
    placed = visit(adopted, bob)
    adopted.leave(placed.client)
    adopted.told("drain", adopted.id_of(placed.host), "--reason", "trying it")
    back = visit(adopted, bob)
    assert (back.host, back.kind) == (placed.host, "reconnected")
    carl = visit(adopted, make_user("carl"))
    assert carl.host == farm.other(placed.host).id
    adopted.told("online", adopted.id_of(placed.host))

    # And back: the next one goes where its connection says, and the open desktops stay.
    adopted.set_mode("observe")
    assert visit(adopted, make_user("dora")).host == first
    assert len(adopted.told("tunnels", "--user", bob.name, "-o", "json")["tunnels"]) == 1
