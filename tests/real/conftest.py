"""Fixtures: the real components, started once a run, and a gateway of its own for each test.

Called by pytest (see run and README.md). SESSIONGUARD_DIRECT=1 leaves sessionguard out.
"""

import os
import shutil
import socket
import struct
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from support import gateway as gateways
from support import net
from support.client import Client
from support.guacd import Guacd
from support.ssh import SshHost
from support.users import Users
from support.vnc import VncHost
from support.xrdp import Farm

_DIRECT = os.environ.get("SESSIONGUARD_DIRECT") == "1"


def pytest_configure(config):
    config.addinivalue_line("markers", "brokered: shows what only sessionguard does; left out in direct mode")
    if not _DIRECT and gateways.binary() is None:
        raise pytest.UsageError("no sessionguard to test: build it (cargo build --release), name it in "
                                "SESSIONGUARD_BIN, or set SESSIONGUARD_DIRECT=1 to go straight to guacd")


def pytest_collection_modifyitems(items):
    if _DIRECT:
        for item in items:
            if item.get_closest_marker("brokered"):
                item.add_marker(pytest.mark.skip(reason="direct mode: no sessionguard"))


@pytest.fixture(scope="session")
def run_dir(request):
    """Logs, configurations and homes of this run; kept where a test failed."""
    # Not pytest's own directory: the test users must be able to reach their homes.
    path = Path(tempfile.mkdtemp(prefix="sessionguard-real-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    if request.session.testsfailed:
        print(f"\nlogs of this run: {path}")
    else:
        shutil.rmtree(path)


def _started(component):
    yield component
    component.stop()


@pytest.fixture(scope="session")
def guacd(run_dir):
    yield from _started(Guacd(run_dir))


@pytest.fixture(scope="session")
def vnc(run_dir):
    yield from _started(VncHost(run_dir))


@pytest.fixture(scope="session")
def ssh(run_dir, users):  # after `users`: their sessions end before they are removed
    yield from _started(SshHost(run_dir))


@pytest.fixture(scope="session")
def users(run_dir):
    home = run_dir / "home"
    home.mkdir()
    users = Users(home)
    yield users
    users.remove_all()


@pytest.fixture(scope="session")
def farm(run_dir, users):  # after `users`: their sessions end before they are removed
    yield from _started(Farm(run_dir))


@pytest.fixture
def start_gateway(run_dir, guacd, farm, users):
    """Starts a gateway, by default to the run's guacd and farm; all are stopped after the test."""
    started = []

    def start(guacd=guacd, hosts=farm.hosts):
        path = Path(tempfile.mkdtemp(prefix="gateway-", dir=run_dir))
        started.append((gateways.Direct if _DIRECT else gateways.Sessionguard)(path, guacd, hosts))
        return started[-1]

    yield start
    for gateway in started:
        gateway.stop()
    if not _DIRECT:
        for gateway in started:
            log = gateway.process.text()
            assert not any(user.password in log for user in users.made), "a password is in sessionguard's log"


@pytest.fixture
def gateway(start_gateway):
    return start_gateway()


@pytest.fixture
def make_user(users):
    return users.make


@pytest.fixture
def nobody_listens():
    """Makes something with id, host and port that refuses connections."""
    def make(id, host=net.address(41)):
        return SimpleNamespace(id=id, host=host, port=net.free_port(host))
    return make


@pytest.fixture
def hangs_up():
    """Makes something with id, host and port that answers as RDP does when asked, then "closes" or "resets"."""
    listeners = []

    def attend(connection, way):
        with connection:
            try:
                if not connection.recv(1024):
                    return
                connection.sendall(bytes([3, 0, 0, 19, 14, 0xD0, 0, 0, 0x12, 0x34, 0, 2, 0, 8, 0, 1, 0, 0, 0]))
                if way == "resets":
                    connection.recv(1)  # of a probe the end, of guacd the beginning of TLS
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass  # the other side was quicker

    def serve(listener, way):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=attend, args=(connection, way), daemon=True).start()

    def make(id, way="closes", host=net.address(42)):
        listener = socket.create_server((host, 0))
        listeners.append(listener)
        threading.Thread(target=serve, args=(listener, way), daemon=True).start()
        return SimpleNamespace(id=id, host=host, port=listener.getsockname()[1])

    yield make
    for listener in listeners:
        listener.close()


@dataclass
class Visit:
    """One click of a user that ended on a drawn desktop."""

    client: Client
    host: str  # the host's own log says so
    kind: str  # "created" or "reconnected"


@pytest.fixture
def visit(farm):
    """Clicks the published desktop, waits for it, and checks that the click was one logon in the farm."""
    clients = []

    def click(gateway, user, hint=None):
        before = Counter(farm.logons(user))
        client = Client(gateway.address, gateway.rdp(user, hint))
        clients.append(client)
        client.until_desktop(told=lambda: "\n".join(host.tail() for host in farm.hosts))
        logons = list((Counter(farm.logons(user)) - before).elements())
        assert len(logons) == 1, f"one click, yet the farm saw {logons}"
        return Visit(client, logons[0].host, logons[0].kind)

    yield click
    for client in clients:
        client.close()
