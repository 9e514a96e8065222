"""The real binary between a scripted Guacamole, a scripted guacd and scripted hosts, and what it tells
Prometheus meanwhile."""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time
import uuid

import pytest

from mounted import BINARY, DEADLINE, eventually
from rendered import REPO, ran, tool
from wire import Wire

# An X.224 connection confirm that selects TLS.
CONFIRM = bytes([3, 0, 0, 19, 14, 0xD0, 0, 0, 0x12, 0x34, 0, 2, 0, 8, 0, 1, 0, 0, 0])
NAMES = (REPO / "guac-protocol/tests/data/args/rdp-1.6.0.txt").read_text().split()
PASSWORD = "tRsk4-9fWq-71bd"


class Listener:
    """Takes connections, each in a thread, until it is closed."""

    def __init__(self, port=0):
        self.socket = socket.create_server(("127.0.0.1", port))
        self.port = self.socket.getsockname()[1]
        self.open = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                self.open.append(connection)
                threading.Thread(target=self.attended, args=(connection,), daemon=True).start()

    def attended(self, connection):
        with contextlib.suppress(OSError, EOFError, ValueError):
            self.attend(connection)

    def close(self):
        """Nobody listens there any more, and what was open is cut."""
        # Only a shutdown wakes who accepts.
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for connection in self.open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Host(Listener):
    def attend(self, connection):
        with connection:
            if connection.recv(64):
                connection.sendall(CONFIRM)
                connection.recv(64)


class Guacd(Listener):
    """Polite; `status`: how it lets everybody down, `failures`: how many the host fails yet, `pause`: seconds before
    its first word."""

    def __init__(self):
        self.status, self.failures, self.pause = None, 0, 0
        super().__init__()

    def attend(self, connection):
        wire = Wire(connection)
        wire.hear("select")
        time.sleep(self.pause)
        wire.say("args", *NAMES)
        wire.hear("connect")
        wire.say("ready", f"${uuid.uuid4()}")
        if self.status or self.failures:
            self.failures = max(0, self.failures - 1)
            wire.say("error", "Aborted. See logs.", str(self.status or 519))
            connection.shutdown(socket.SHUT_RDWR)
            return
        wire.say("sync", "12345")
        while True:
            wire.next()


class Visitor:
    """One click. `refused` is the status it was told, where it got no desktop."""

    def __init__(self, port, user, resource="office"):
        self.wire = Wire(socket.create_connection(("127.0.0.1", port), timeout=DEADLINE))
        self.wire.say("select", "rdp")
        names = self.wire.hear("args")
        for settings in [("size", "640", "480", "96"), ("audio",), ("video",), ("image", "image/png"), ("name", user)]:
            self.wire.say(*settings)
        known = {"hostname": f"sessionguard:resource={resource}", "username": user, "password": "not told"}
        self.wire.say("connect", *(each if each.startswith("VERSION_") else known.get(each, "") for each in names))
        self.refused = None
        while True:
            said, *arguments = self.wire.next()
            if said == "error":
                self.refused = int(arguments[1])
            if said in ("sync", "error"):
                return

    def leave(self):
        self.wire.socket.close()


class Broker:
    """A running broker with a folder of its own; `each` is what every host's table
    says besides, `settings` are other tables, `log` is where its lines go."""

    def __init__(self, folder, guacd, hosts={}, each="", listen="", settings={}, more="",
                 binary=BINARY, log=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config = self.folder / "sessionguard.toml"
        self.hosts = hosts
        tables = {
            "log": 'format = "json"', "store": f'path = "{self.folder}/store.redb"',
            "guacd": f'address = "127.0.0.1:{guacd.port}"', "probe": 'interval = "1s"\ntimeout = "1s"',
            "health": 'listen = "127.0.0.1:0"', "api": f'listen = "off"\nsocket = "{self.folder}/admin.sock"',
        } | settings
        text = "".join(f"[{name}]\n{keys}\n" for name, keys in tables.items())
        self.config.write_text(f'{text}[[listen]]\naddress = "127.0.0.1:0"\n{listen}\n{more}')
        self.farm = self.folder / "conf.d" / "farm.toml"
        self.farm.parent.mkdir(exist_ok=True)
        self.farm.write_text(farm(hosts, more=each))
        self.log = log or self.folder / "log"
        with open(self.folder / "log", "w") as said:
            self.reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=said)
        self.process = subprocess.Popen([binary, "serve", "--config", str(self.config)], stderr=self.reader.stdin)
        self.reader.stdin.close()
        self.line("Listening")
        self.port = int(self.lines("Listening")[0]["address"].rsplit(":")[-1])
        self.health = int(self.line("Health and metrics ready")["address"].rsplit(":")[-1])
        for host in hosts:
            self.figure(f'sessionguard_host_state{{host="{host}",state="unknown"}}', 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in [self.process, self.reader]:
            each.kill()
            each.wait()

    def run(self, *command):
        ran(BINARY, *command, "--config", str(self.config))

    def lines(self, message):
        found = []
        text = self.log.read_text() if self.log.exists() else ""
        for line in text.split("\n")[:-1]:
            line = json.loads(line)
            if line["message"].startswith(message):
                found.append(line)
        return found

    def line(self, message):
        def found():
            assert self.process.poll() is None, (self.folder / "log").read_text()
            return self.lines(message)
        return eventually(f"the log says {message!r}", found)[-1]

    def visit(self, user, resource="office"):
        return Visitor(self.port, user, resource)

    def scrape(self):
        return scraped(self.health)

    def figure(self, series, value):
        """Scrapes until it is so, and that scrape."""
        def found():
            figures = self.scrape()
            return figures if figures.get(series) == value else None
        return eventually(f"{series} is {value}", found)

    def post(self, path, body, **headers):
        asking = Local(str(self.folder / "admin.sock"))
        asking.request("POST", path, json.dumps(body), {"Content-Type": "application/json"} | headers)
        answer = asking.getresponse()
        told = json.loads(answer.read())
        assert answer.status == 200, told
        return told

    def heartbeat(self, host, number, users=()):
        """What the agent of a healthy host says who has these users on it."""
        sessions = [{"id": user, "state": "Active", "user": user, "domain": ""} for user in users]
        told = self.post("/api/v1/agents/heartbeat", {
            "protocol_version": 4, "agent_id": host, "boot_id": f"start of {host}", "seq": number,
            "server": {"hostname": host, "os": "Windows", "uptime_seconds": 100, "memory_total": 1000,
                       "memory_available": 900, "cpu_percent": 1.0},
            "health": {"score": 100, "rdp_listener_ok": True, "checks": []},
            "sessions": sessions, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }, **{"X-Agent-ID": host})
        assert told["taken"], told


class Local(http.client.HTTPConnection):
    """HTTP over the admin socket."""

    def __init__(self, path):
        super().__init__("x", timeout=DEADLINE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DEADLINE)
        self.sock.connect(self.path)


def farm(hosts, name="office", more=""):
    text = f'[[farms]]\nid = "{name}"\n'
    for resource in ["office", "sage"]:
        text += f'[[resources]]\nid = "{resource}"\nkind = "desktop"\nfarm_id = "{name}"\n'
    for id, host in hosts.items():
        text += f'[[hosts]]\nid = "{id}"\naddress = "127.0.0.1"\nport = {host.port}\nfarm_ids = ["{name}"]\n{more}'
    return text


def scraped(port):
    """Figures by series, in their order."""
    asking = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    asking.request("GET", "/metrics")
    answer = asking.getresponse()
    text = answer.read().decode()
    assert answer.status == 200, text
    figures = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            figures[series] = float(value)
    return figures


class Postgres:
    """A server of its own on a loopback port."""

    def __init__(self, folder):
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
        if not found or os.geteuid() != 0:
            pytest.skip("needs PostgreSQL, and root to run it as somebody else")
        tool("setpriv")
        self.programs = found[-1]
        self.data = pathlib.Path(folder) / "data"
        # PostgreSQL refuses to be root.
        for each in [self.data.parent, *self.data.parent.parents[:2]]:
            each.chmod(0o755)
        self.data.mkdir()
        shutil.chown(self.data, "nobody", "nogroup")
        self.run("initdb", "-U", "sessionguard", "-A", "trust", "--no-sync")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.start()
        ran("psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "sessionguard", "-d", "postgres", "-qc",
            "CREATE DATABASE sessionguard")

    def run(self, program, *arguments):
        ran("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", str(self.programs / program),
            "-D", str(self.data), *arguments)

    def start(self):
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.data} -c fsync=off"
        self.run("pg_ctl", "-w", "-l", str(self.data / "log"), "-o", options, "start")

    def stop(self):
        if (self.data / "postmaster.pid").exists():
            self.run("pg_ctl", "-w", "-m", "immediate", "stop")

    def signalled(self, number):
        """All its processes, as where its machine stands still."""
        parent = (self.data / "postmaster.pid").read_text().split("\n")[0]
        for pid in [parent, *ran("pgrep", "-P", parent).split()]:
            os.kill(int(pid), number)

    @contextlib.contextmanager
    def still(self):
        self.signalled(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signalled(signal.SIGCONT)

    def settings(self):
        return {"store": f'kind = "postgres"\naddress = "127.0.0.1:{self.port}"\npool_size = 2\nquery_timeout = "2s"\n'
                         f'degraded = "existing-lease"\npassword_file = "{self.password()}"\n'
                         f'path = "{self.data.parent}/unused.redb"'}

    def password(self):
        path = self.data.parent / "database.password"
        path.write_text(PASSWORD)
        path.chmod(0o600)
        return path
