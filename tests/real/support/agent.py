"""`sessionguard agent` on a real xrdp host, and an API that records what it says. Used by test_agent.py."""

import json
import os
import shutil
import signal
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from . import net
from .gateway import binary
from .process import Process
from .waiting import until

_TOKEN = "sg-real-agent-token"


class RecordingApi:
    """The broker's part of a heartbeat: keeps the reports, hands out commands."""

    def __init__(self):
        self.reports = []
        self._commands = []
        self._lock = threading.Lock()
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                report = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                known = (self.headers["X-Agent-ID"], self.headers["Authorization"]) == ("rds-a", f"Bearer {_TOKEN}")
                answer = api.take(report) if known and self.path == "/api/v1/agents/heartbeat" else {"error": "no"}
                body = json.dumps(answer).encode()
                self.send_response(200 if known else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer((net.address(31), 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = "http://{}:{}".format(*self._server.server_address)

    def take(self, report):
        with self._lock:
            self.reports.append(report)
            commands, self._commands = self._commands, []
        return {"server_time": "2026-01-01T00:00:00Z", "commands": commands}

    def command(self, nudge, **command):
        """Hands a command out with the answer to what `nudge` makes the agent report; returns its result."""
        command = {"expires_at": "2026-01-01T00:05:00Z", **command}
        with self._lock:
            self._commands.append(command)
        nudge()

        def result():
            return next((r for report in self.reports for r in report["command_results"]
                         if r["id"] == command["id"]), None)
        return until(result, 30, lambda: f"result of {command}; last report {self.reports[-1:]}")

    def until_session(self, user, state, since=0, seconds=20):
        """Waits for a report, of those after the first `since`, that shows the user so; returns that session."""
        def look():
            return next((s for report in self.reports[since:] for s in report["sessions"]
                         if (s["user"], s["state"]) == (user.name, state)), None)
        return until(look, seconds, lambda: f"{user.name} {state}; last report {self.reports[-1:]}")

    def until_gone(self, user, since, seconds=20):
        def look():
            return next((r for r in self.reports[since:] if all(s["user"] != user.name for s in r["sessions"])), None)
        return until(look, seconds, lambda: f"{user.name} gone; last report {self.reports[-1:]}")

    def stop(self):
        self._server.shutdown()
        self._server.server_close()


class Agent:
    """The agent inside an xrdp host's namespaces, where that host is all there is."""

    def __init__(self, host, api, path, commands, interval="300s", key=None):
        # The host has a /tmp of its own, which may cover the binary's place.
        program = path / "sessionguard"
        shutil.copy2(binary(), program)
        if key is None:
            key = path / "agent.key"
            key.touch(mode=0o600)
            key.write_text(json.dumps({"agent_id": host.id, "token": _TOKEN}))
        self._secret = json.loads(key.read_text())["token"]
        q = json.dumps  # a JSON string is a TOML string
        config = path / "agent.toml"
        config.write_text(f"""\
server = {q(api.url)}
key_file = {q(str(key))}
state_file = {q(str(path / "state.json"))}
interval = {q(interval)}
commands = {q(commands)}
profile_store = {q(str(path))}
[log]
format = "json"
level = "debug"
""")
        self._init = _only_child(host.process.pid)
        self.process = Process("agent", ["nsenter", "--target", self._init, "--mount", "--pid",
                                         program, "agent", "--config", config], path / "agent.log")

    def programs_of(self, uid):
        """What runs on the host as that user."""
        shown = subprocess.run(["nsenter", "--target", self._init, "--mount", "--pid", "ps", "-U", str(uid), "-o", "comm="],
                               capture_output=True, text=True)
        return shown.stdout.split()

    def stop(self):
        # nsenter passes no signal on; it ends with the program it waits for.
        if self.process.running():
            os.kill(int(_only_child(self.process.pid)), signal.SIGTERM)
            until(lambda: not self.process.running(), 10, "the agent ends")
        assert self._secret not in self.process.text(), "the key is in the agent's log"


def _only_child(pid):
    children = lambda: subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
    return until(children, 10, f"a child of process {pid}")[0]
