"""What the clients dial: sessionguard itself, or guacd directly while developing. Used by conftest.py.

Both offer the same few methods, so that a test reads the same either way; `hint` names the host that
direct mode takes, and sessionguard, which decides for itself, never sees it.
"""

import json
import os
import subprocess
from pathlib import Path

from .process import Process
from .waiting import until

_REPO = Path(__file__).resolve().parents[3]

_RDP = {"security": "any", "ignore-cert": "true", "color-depth": "24"}


def binary():
    """The sessionguard under test, or None where none was built."""
    named = os.environ.get("SESSIONGUARD_BIN")
    candidates = [named] if named else [_REPO / "target" / kind / "sessionguard" for kind in ("release", "debug")]
    return next((Path(c).resolve() for c in candidates if Path(c).is_file()), None)


def environment():
    """The caller's; SESSIONGUARD_* in it are settings of these tests, not of the program."""
    return {k: v for k, v in os.environ.items() if not k.startswith("SESSIONGUARD_")}


def log_lines(text, message):
    """Lines of a log with that message, as flat dictionaries."""
    found = []
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # half written, or not a log line
        entry = {**entry, **entry.pop("fields", {})}
        if entry.get("message") == message:
            found.append(entry)
    return found


def credentials(user):
    return {"username": user.name, "password": user.password, **_RDP}


def unmapped(host, port, **more):
    """Parameters of a connection that no resource matches."""
    return {"hostname": host, "port": str(port), **more}


class Sessionguard:
    """A running `sessionguard serve` with one farm of the given hosts, each anything with id, host, port."""

    direct = False

    def __init__(self, run_dir, guacd, hosts):
        self._dir = run_dir
        config = run_dir / "sessionguard.toml"
        config.write_text(self.adjusted(_config(run_dir, guacd, hosts)))
        self.process = Process("sessionguard", [binary(), "serve", "--config", config],
                               run_dir / "sessionguard.log", env=environment())
        self.process.until(lambda: self.lines("Listening"), 15, "says where it listens")
        host, _, port = self.lines("Listening")[0]["address"].rpartition(":")
        self.address = (host, int(port))

    def adjusted(self, config):
        """The configuration, with whatever a kind of gateway has different."""
        return config

    def rdp(self, user, hint=None):
        """Parameters of a connection to the published desktop."""
        return {"hostname": "sessionguard:resource=office-desktop", **credentials(user)}

    def lines(self, message):
        """Log lines with that message, as flat dictionaries."""
        return log_lines(self.process.text(), message)

    def placements(self, user):
        return [line for line in self.lines("Placed") if user.name in str(line.get("user"))]

    def ended(self, placed):
        """The line of the end of a placed tunnel, once it is there."""
        def lines():
            return [line for line in self.lines("Tunnel ended") if line["tunnel"] == placed["tunnel"]]
        return until(lines, 15, lambda: f"tunnel ends\n{self.process.tail()}")

    def leave(self, client):
        """Closes the tunnel and waits until sessionguard has seen it: scores count open tunnels."""
        ended = len(self.lines("Tunnel ended"))
        client.close()
        until(lambda: len(self.lines("Tunnel ended")) > ended, 15, lambda: f"tunnel ends\n{self.process.tail()}")

    def told(self, *arguments):
        """What its command line says, as JSON where that is asked for."""
        run = subprocess.run([binary(), *arguments, "--config", self._dir / "sessionguard.toml"],
                             capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout) if "json" in arguments else run.stdout.strip()

    def enrolled(self, host, path):
        """The file with the key of a host's agent, made by the agent's own hand from a token."""
        token, key = path / "token", path / "agent.key"
        token.touch(mode=0o600)
        token.write_text(self.told("keys", "create", "--role", "enrollment", "--host", host.id))
        subprocess.run([binary(), "agent", "enroll", "--server", self.url, "--token-file", token, "--key-file", key],
                       check=True, capture_output=True)
        return key

    @property
    def url(self):
        self.process.until(lambda: self.lines("API ready"), 15, "says where its API is")
        return "http://" + self.lines("API ready")[0]["address"]

    def stop(self):
        self.process.stop()


class Direct:
    """guacd without anything before it."""

    direct = True

    def __init__(self, run_dir, guacd, hosts):
        self.address = (guacd.host, guacd.port)
        self._hosts = hosts

    def rdp(self, user, hint=None):
        host = next(h for h in self._hosts if hint in (None, h.id))
        return unmapped(host.host, host.port, **credentials(user))

    def leave(self, client):
        client.close()

    def stop(self):
        pass


def _config(run_dir, guacd, hosts):
    q = json.dumps  # a JSON string is a TOML string
    head = f"""\
[guacd]
address = {q(f"{guacd.host}:{guacd.port}")}
[[listen]]
address = "127.0.0.1:0"
[health]
listen = "127.0.0.1:0"
[store]
path = {q(str(run_dir / "sessionguard.redb"))}
[broker]
lease_seconds = 900
[probe]
interval = "1s"
timeout = "1s"
[api]
listen = "127.0.0.1:0"
[log]
format = "json"
[[farms]]
id = "office"
name = "Office"
[[resources]]
name = "Office Desktop"
kind = "desktop"
farm_id = "office"
guacamole_connection_name = "Office Desktop"
"""
    return head + "".join(f"""\
[[hosts]]
id = {q(host.id)}
address = {q(host.host)}
port = {host.port}
farm_ids = ["office"]
""" for host in hosts)
