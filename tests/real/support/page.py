"""The broker's page in a real browser, before a real broker with scripted hosts. Used by test_page.py.

Scripted, because a page is about what hosts are like: full, dead, in drain. They answer the probe and
nothing else; the guacd before them shakes hands and keeps the tunnel open.
"""

import json
import os
import socket
import subprocess
import threading
import urllib.request
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from . import net
from .gateway import binary, environment, log_lines
from .process import Process, die_with_pytest
from .waiting import until

_REPO = Path(__file__).resolve().parents[3]
_AXE = _REPO / "tests" / ".cache" / "axe-core" / "node_modules" / "axe-core" / "axe.min.js"
SCREENSHOTS = Path(os.environ.get("SESSIONGUARD_SCREENSHOTS", _REPO / "tests" / ".cache" / "screenshots"))

_PATIENCE = 30
_NAMES = ["VERSION_1_5_0", "hostname", "port", "username", "domain", "password", "remote-app",
          "remote-app-dir", "remote-app-args", "initial-program", "load-balance-info", "client-name"]
_CONFIRM = bytes([3, 0, 0, 19, 14, 0xD0, 0, 0, 0x12, 0x34, 0, 2, 0, 8, 0, 1, 0, 0, 0])


def _accepting(address, serve):
    """A listener whose connections are served in threads; closing it ends all of that."""
    listener = socket.create_server((address, 0))

    def accept():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_serving, args=(serve, connection), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener


def _serving(serve, connection):
    try:
        with connection:
            serve(connection)
    except OSError:
        pass  # the other side left


class ScriptedHost:
    """Answers the question whether RDP is served here, until it is stopped."""

    def __init__(self, id, farm, last):
        self.id, self.farm, self.host = id, farm, net.address(last)
        self._listener = _accepting(self.host, self._answer)
        self.port = self._listener.getsockname()[1]

    @staticmethod
    def _answer(connection):
        if connection.recv(64):
            connection.sendall(_CONFIRM)

    def stop(self):
        # Wakes the thread that accepts; closing alone would leave the port open until the next caller.
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()


def _write(connection, *elements):
    connection.sendall((",".join(f"{len(e)}.{e}" for e in elements) + ";").encode())


def _read(stream):
    """The next instruction's elements from a text stream; none at its end."""
    elements = []
    while True:
        length = ""
        while (character := stream.read(1)).isdigit():
            length += character
        if character != ".":
            return []
        elements.append(stream.read(int(length)))
        if stream.read(1) == ";":
            return elements


class ScriptedGuacd:
    def __init__(self):
        self.host = net.address(60)
        self._listener = _accepting(self.host, self._play)
        self.port = self._listener.getsockname()[1]

    @staticmethod
    def _play(connection):
        stream = connection.makefile(encoding="utf-8", newline="")
        while instruction := _read(stream):
            if instruction[0] == "select":
                _write(connection, "args", *_NAMES)
            elif instruction[0] == "connect":
                _write(connection, "ready", "$6f0f52b3-2c48-4b52-8f0d-1a86a1f0c001")
                _write(connection, "size", "0", "1024", "768")
                _write(connection, "sync", "1")
            elif instruction[0] == "disconnect":
                return

    stop = ScriptedHost.stop


class Visitor:
    """A user's click in Guacamole, and the tunnel that comes of it."""

    def __init__(self, address, username, resource, domain="corp"):
        parameters = {"hostname": f"sessionguard:resource={resource}", "username": username, "domain": domain}
        self._socket = socket.create_connection(address, timeout=_PATIENCE)
        self._stream = self._socket.makefile(encoding="utf-8", newline="")
        _write(self._socket, "select", "rdp")
        names = self.next("args")
        _write(self._socket, "size", "1024", "768", "96")
        for kind in ("audio", "video", "image"):
            _write(self._socket, kind)
        version, *names = names
        _write(self._socket, "connect", version, *[parameters.get(name, "") for name in names])
        self.next("ready")

    def next(self, opcode):
        """The arguments of the next instruction of that kind."""
        while instruction := _read(self._stream):
            if instruction[0] == opcode:
                return instruction[1:]
        raise AssertionError(f"the tunnel ended before {opcode}")

    def close(self):
        try:
            _write(self._socket, "disconnect")
        except OSError:
            pass  # ended already
        # The file holds the connection open, too.
        self._stream.close()
        self._socket.close()


class Site:
    """A broker whose API is served, with farms office (rds-1 to rds-3) and finance (fin-1)."""

    def __init__(self, run_dir):
        self._visitors, self._agents = [], {}
        self.guacd = ScriptedGuacd()
        self.hosts = {id: ScriptedHost(id, farm, last) for id, farm, last in
                      [("rds-1", "office", 61), ("rds-2", "office", 62), ("rds-3", "office", 63), ("fin-1", "finance", 64)]}
        self.config = run_dir / "sessionguard.toml"
        address = net.address(59)
        api = f"{address}:{net.free_port(address)}"  # the same after a restart
        self.config.write_text(_config(run_dir, self.guacd, self.hosts.values(), api))
        self._env = environment()
        self._log = run_dir / "sessionguard.log"
        self.start()

    def start(self):
        before = len(self.lines("API ready")) if self._log.exists() else 0
        self.process = Process("sessionguard", [binary(), "serve", "--config", self.config], self._log, env=self._env)
        self.process.until(lambda: len(self.lines("API ready")) > before and len(self.lines("Listening")) > before, 15, "says where it listens")
        self.url = f"http://{self.lines('API ready')[-1]['address']}/"
        host, _, port = self.lines("Listening")[-1]["address"].rpartition(":")
        self._address = (host, int(port))
        self._admin = self.key("admin-write")
        self.until_usable(*self.hosts)

    def lines(self, message):
        return log_lines(self._log.read_text(errors="replace"), message)

    def command(self, *arguments):
        """What `sessionguard` prints; it must succeed."""
        done = subprocess.run([binary(), *arguments, "--config", self.config], env=self._env, text=True,
                              capture_output=True, timeout=_PATIENCE, preexec_fn=die_with_pytest)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def key(self, role):
        return self.command("keys", "create", "--role", role).strip()

    def report(self, host, sessions):
        """A heartbeat of that host's agent, which must be taken."""
        key, seq = self._agents.get(host) or (self.command("keys", "create", "--role", "agent", "--host", host).strip(), 0)
        self._agents[host] = key, seq + 1
        body = {"protocol_version": 4, "agent_id": host, "boot_id": "b1", "seq": seq + 1, "sessions": sessions}
        request = urllib.request.Request(f"{self.url}api/v1/agents/heartbeat", data=json.dumps(body).encode(), headers={
            "Authorization": f"Bearer {key}", "X-Agent-ID": host, "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            assert json.load(answer)["taken"]

    def get(self, path):
        request = urllib.request.Request(f"{self.url}api/v1/{path}", headers={"Authorization": f"Bearer {self._admin}"})
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            return json.load(answer)

    def host(self, id):
        return self.get(f"hosts/{id}")

    def until_usable(self, *ids):
        until(lambda: all(self.host(id)["probe"] == "answering" for id in ids), _PATIENCE, lambda: f"hosts answer: {self.get('hosts')}")

    def visit(self, username, resource="office-desktop"):
        self._visitors.append(Visitor(self._address, username, resource))
        return self._visitors[-1]

    def stop(self):
        for visitor in self._visitors:
            visitor.close()
        if self.process.running():
            self.process.stop()
        for component in (self.guacd, *self.hosts.values()):
            component.stop()


def _config(run_dir, guacd, hosts, api):
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
drain_timeout = "0s"
[probe]
interval = "1s"
timeout = "1s"
[api]
listen = {q(api)}
[log]
format = "json"
[[farms]]
id = "office"
name = "Office"
[[farms]]
id = "finance"
name = "Finance"
[[resources]]
name = "Office Desktop"
kind = "desktop"
farm_id = "office"
[[resources]]
name = "Ledger"
kind = "desktop"
farm_id = "finance"
"""
    return head + "".join(f"""\
[[hosts]]
id = {q(host.id)}
address = {q(host.host)}
port = {host.port}
farm_ids = [{q(host.farm)}]
""" for host in hosts)


class Browser:
    """A headless Chromium. What it logs (a broken policy, an uncaught error) fails the test in `clean`."""

    def __init__(self, run_dir):
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                         "--disable-background-networking", "--disable-component-update", "--force-color-profile=srgb",
                         f"--user-data-dir={run_dir / 'chromium'}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.ChromeService("/usr/bin/chromedriver", log_output=str(run_dir / "chromedriver.log"))
        self.driver = webdriver.Chrome(options=options, service=service)
        self._logged = []

    def stop(self):
        self.driver.quit()

    def open(self, url, width=1280, height=860, media=()):
        """A page nobody has logged in to."""
        self.driver.get("about:blank")
        self._logged, _ = [], self.driver.get_log("browser")
        self._command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._command("Emulation.setEmulatedMedia", features=[{"name": n, "value": v} for n, v in media])
        self.driver.get(url)
        self.driver.execute_script("sessionStorage.clear()")
        self.driver.refresh()
        self.until("the key is asked for", lambda: self.one("#login").is_displayed())

    def _command(self, name, **parameters):
        return self.driver.execute_cdp_cmd(name, parameters)

    def resize(self, width, height):
        self._command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector="body"):
        """What is seen there."""
        return self.driver.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def focused(self):
        return self.driver.switch_to.active_element

    def press(self, *keys):
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def tab_to(self, what, fits, most=80):
        """Presses Tab until the element that has the focus fits, as somebody without a mouse does."""
        for _ in range(most):
            if fits(self.focused()):
                return
            self.press(Keys.TAB)
        raise AssertionError(f"{most} times Tab did not lead to {what}")

    def until(self, what, condition):
        return until(condition, _PATIENCE, lambda: f"{what}; on the page:\n{self.text()}\n{self.logged()}")

    def until_text(self, *texts, within="body"):
        for text in texts:
            self.until(f"{text!r} is shown", lambda: text in self.text(within))

    def log_in(self, key):
        self.one("#key").send_keys(key, Keys.ENTER)

    def enter(self, key):
        self.log_in(key)
        self.until("a view is shown", lambda: self.all("#view h1"))

    def view(self, name):
        self.driver.execute_script("location.hash = arguments[0]", f"#/{name}")

    def row(self, id, table="table"):
        """The cells' texts of one row, by column; nothing where there is none."""
        return self.driver.execute_script("""
            const heads = [...document.querySelectorAll(`#view ${arguments[1]} thead th`)].map((head) => head.textContent);
            const row = [...document.querySelectorAll(`#view ${arguments[1]} tbody tr`)].find((row) => row.cells[0].innerText === arguments[0]);
            return row && Object.fromEntries([...row.cells].map((cell, at) => [heads[at], cell.innerText]));""", id, table)

    def until_row(self, id, **wanted):
        """Waits for a row whose cells hold these texts."""
        def fits():
            row = self.row(id)
            return row and all(text in row[column] for column, text in wanted.items()) and row
        return self.until(f"the row {id} with {wanted}", fits)

    def logged(self):
        self._logged += self.driver.get_log("browser")
        return self._logged

    def clean(self, *expected):
        """Asserts that nothing was logged but what holds one of these texts."""
        others = [entry for entry in self.logged() if not any(text in entry["message"] for text in expected)]
        assert not others, others

    def screenshot(self, name):
        """The whole page, kept."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        path.write_bytes(self.driver.get_screenshot_as_png())
        assert path.stat().st_size > 5000
        return path

    def accessible(self):
        """Asserts that axe-core finds nothing: names, roles, labels, contrast, landmarks."""
        # Through the debugger, which the page's own policy does not bind.
        self._command("Runtime.evaluate", expression=_AXE.read_text())
        found = self.driver.execute_async_script("axe.run(document).then(arguments[0])")
        assert len(found["passes"]) > 15, "axe looked at next to nothing"
        faults = [(fault["id"], [node["target"] for node in fault["nodes"]], fault["nodes"][0]["failureSummary"]) for fault in found["violations"]]
        assert not faults, faults
