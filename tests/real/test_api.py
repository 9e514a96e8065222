"""The API as its own document has it: schemathesis asks everything that the document allows and much that it
does not, and must find nothing. Needs neither guacd nor xrdp: the host is a stand-in that answers probes."""

import contextlib
import json
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from support import gateway as gateways
from support import net

pytestmark = pytest.mark.brokered

# What an RDP host says to a connection request: that it serves RDP, and with TLS.
_CONFIRM = bytes([3, 0, 0, 19, 14, 0xD0, 0, 0, 0x12, 0x34, 0, 2, 0, 8, 0, 1, 0, 0, 0])

_EXAMPLES = 25

# Everybody has room at once: the question is what is said, not who is placed.
_ROOM = """\
[broker]
max_pending_logons = 1000
slow_start = "0s"
"""


@pytest.fixture
def host():
    """Something that answers probes as an RDP host does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def answer():
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer, contextlib.suppress(OSError):
                    peer.recv(64)
                    peer.sendall(_CONFIRM)

        threading.Thread(target=answer, daemon=True).start()
        yield SimpleNamespace(id="rds1", host="127.0.0.1", port=listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def broker(run_dir, host, tmp_path):
    guacd = SimpleNamespace(host="127.0.0.1", port=net.free_port("127.0.0.1"))
    more = tmp_path / "conf.d"
    more.mkdir()
    # Configured keys: those that are made it would find in the list, and revoke.
    lines = [_ROOM, "[api]"]
    for role in ("admin", "broker"):
        (tmp_path / f"{role}.key").write_text(secrets.token_hex(32))
        (tmp_path / f"{role}.key").chmod(0o600)
        lines.append(f"{role}_key_file = {json.dumps(str(tmp_path / f'{role}.key'))}")
    (more / "room.toml").write_text("\n".join(lines) + "\n")
    broker = gateways.Sessionguard(tmp_path, guacd, [host])
    yield broker
    broker.stop()


@pytest.mark.parametrize("role", ["admin", "broker", "agent"])
def test_schemathesis_finds_nothing(broker, tmp_path, role):
    broker.process.until(lambda: broker.lines("API ready"), 15, "serves the API")
    [ready] = broker.lines("API ready")
    document = f"http://{ready['address']}/api/v1/openapi.json"
    key, more, env = _asking_as(role, broker, tmp_path)
    seed = int(os.environ.get("SESSIONGUARD_SEED") or random.randrange(2**32))
    print(f"SESSIONGUARD_SEED={seed}")
    asked = subprocess.run(
        [Path(sys.executable).with_name("schemathesis"), "--config-file", Path(__file__).with_name("schemathesis.toml"),
         "run", document, "--header", f"Authorization: Bearer {key}",
         "--seed", str(seed), "--max-examples", str(_EXAMPLES), *more, *_PATHS[role]],
        cwd=tmp_path, env={**os.environ, **env}, capture_output=True, text=True, timeout=900)
    assert asked.returncode == 0, f"seed {seed}\n{asked.stdout[-20000:]}\n{asked.stderr}"
    assert "No issues found" in asked.stdout, asked.stdout[-3000:]
    assert "panicked" not in broker.process.text()
    if role == "agent":
        [host] = broker.told("hosts", "-o", "json")["hosts"]
        assert host["agent"], f"not one heartbeat was taken: {host}"


def _asking_as(role, broker, path):
    """A key of that role, and what schemathesis must be told besides."""
    if role != "agent":
        return (path / f"{role}.key").read_text(), [], {}
    key = broker.told("keys", "create", "--role", "agent", "--host", "rds1")
    hooks = Path(__file__).parent / "support" / "heartbeats.py"
    return key, ["--header", "X-Agent-ID: rds1"], {"SCHEMATHESIS_HOOKS": str(hooks)}


# Each role asks for what it may; that it gets nothing else is the suite's to show.
_PATHS = {
    "admin": ["--exclude-path-regex", "^/api/v1/(broker|agents)/"],
    "broker": ["--include-path-regex", "^/api/v1/(broker/|openapi)"],
    "agent": ["--include-path-regex", "^/api/v1/(agents/|openapi|whoami)"],
}
