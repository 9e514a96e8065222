"""The units: accepted by systemd's own tools, hardened, and no stricter than the broker can live with."""

import os
import re
import shutil
import subprocess

from mounted import BINARY, DEADLINE, Running, eventually
from rendered import REPO, ran, tool

UNITS = REPO / "deploy" / "systemd"
INSTALLED = "/usr/local/bin/sessionguard"
# Of 100; what is left is the network and the right to raise its own limit of descriptors.
EXPOSURE = 15


def unit(name):
    """Section by section; a setting may stand more than once."""
    found = {}
    for line in (UNITS / name).read_text().splitlines():
        if section := re.fullmatch(r"\[(\w+)\]", line):
            current = found.setdefault(section.group(1), {})
        elif line and not line.startswith("#"):
            key, value = line.split("=", 1)
            current.setdefault(key, []).append(value)
    return found


def test_systemd_accepts_the_units(tmp_path):
    tool("systemd-analyze")
    for path in [*UNITS.glob("*.service"), *UNITS.glob("*.socket")]:
        text = path.read_text().replace(INSTALLED, BINARY)
        (tmp_path / path.name).write_text(text)
    units = [str(path) for path in tmp_path.iterdir()]
    assert len(units) == 2
    verify = ["systemd-analyze", "verify", "--recursive-errors=no", *units]
    done = subprocess.run(verify, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    # The check is one.
    service = tmp_path / "sessionguard.service"
    service.write_text(service.read_text().replace("WatchdogSec=60s", "WatchdogSec=soon"))
    done = subprocess.run(verify, capture_output=True, text=True, timeout=60)
    assert "Failed to parse sec value" in done.stderr


def test_the_service_is_exposed_to_little():
    tool("systemd-analyze")
    ran("systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE}",
        str(UNITS / "sessionguard.service"))


def test_its_user_can_be_made(tmp_path):
    tool("systemd-sysusers")
    (tmp_path / "etc").mkdir()
    ran("systemd-sysusers", f"--root={tmp_path}", str(UNITS / "sessionguard.sysusers"))
    service = unit("sessionguard.service")["Service"]
    made = (tmp_path / "etc" / "passwd").read_text()
    assert made.startswith(f"{service['User'][0]}:")


def test_what_it_runs_is_understood_and_its_state_is_where_the_unit_makes_room(tmp_path):
    service = unit("sessionguard.service")["Service"]
    for setting in ["ExecStart", "ExecReload"]:
        program, subcommand, *arguments = service[setting][0].split()
        assert program == INSTALLED and arguments == ["--config", "/etc/sessionguard/sessionguard.toml"]
        ran(BINARY, subcommand, "--help")
    shown = ran(BINARY, "config", "show", "--config", str(REPO / "config" / "minimal.toml"))
    (path,) = re.findall(r'path = "(/var/lib/sessionguard/[^"]+)"', shown)
    assert os.path.dirname(path) == "/var/lib/" + service["StateDirectory"][0]
    # What it says of a configuration that cannot be used keeps it from being started again.
    broken = tmp_path / "sessionguard.toml"
    broken.write_text("nonsense")
    done = subprocess.run([BINARY, "serve", "--config", str(broken)], capture_output=True, timeout=DEADLINE)
    assert str(done.returncode) in service["RestartPreventExitStatus"]


def site(folder):
    """The smallest configuration, in a folder of its own as it is watched, its state beside."""
    config = folder / "config" / "sessionguard.toml"
    config.parent.mkdir()
    shutil.copy(REPO / "config" / "minimal.toml", config)
    environment = {"PATH": os.environ["PATH"], "SESSIONGUARD_STORE__PATH": str(folder / "store.redb")}
    return config, environment


def test_a_socket_of_systemds_own_making_is_served(tmp_path):
    tool("systemd-socket-activate")
    (address,) = unit("sessionguard.socket")["Socket"]["ListenStream"]
    ip, port = address.rsplit(":", 1)
    config, environment = site(tmp_path)
    command = ["systemd-socket-activate", "--listen", address,
               *(f"--setenv={name}={value}" for name, value in environment.items()),
               BINARY, "serve", "--config", str(config)]
    with Running(command, environment, tmp_path / "log") as running:
        running.says("Listening on")
        assert "Room for tunnels" not in running.told()
        # The first one wakes it, and is served by it: what is no protocol of ours gets an answer.
        with running.connected(ip, int(port)) as woken:
            woken.sendall(b"3.foo;")
            assert woken.recv(7) == b"5.error"
        running.stop()
        assert running.process.wait(timeout=DEADLINE) == 0


def members(sets):
    """What a set of system calls comes to."""
    found, waiting = set(), list(sets)
    while waiting:
        shown = ran("systemd-analyze", "syscall-filter", "--no-pager", waiting.pop())
        names = [line.strip() for line in shown.splitlines()[1:] if line.strip() and "#" not in line]
        waiting += [name for name in names if name.startswith("@")]
        found |= {name for name in names if not name.startswith("@")}
    return found


def test_the_filter_of_system_calls_lets_the_broker_work(tmp_path):
    tool("systemd-analyze")
    tool("strace")
    allowed = set()
    for line in unit("sessionguard.service")["Service"]["SystemCallFilter"]:
        words = line.removeprefix("~").split()
        calls = members(word for word in words if word.startswith("@"))
        calls |= {word for word in words if not word.startswith("@")}
        allowed = allowed - calls if line.startswith("~") else allowed | calls
    assert "mount" not in allowed and "read" in allowed
    config, environment = site(tmp_path)
    traced = ["strace", "-f", "-qq", "-e", "signal=none", "-o"]
    # The whole way of a tunnel, and then what only the service does.
    subprocess.run([*traced, str(tmp_path / "demo"), BINARY, "demo"], check=True, capture_output=True, timeout=120)
    # With -D the process is the broker's own, and who traces it ends with it.
    command = ["strace", "-D", "-f", "-q", "-e", "signal=none", "-o", str(tmp_path / "serve"),
               BINARY, "serve", "--config", str(config)]
    with Running(command, environment, tmp_path / "log") as running:
        running.says("Listening")
        asked = [BINARY, "reload", "--config", str(config)]
        eventually("a reload", lambda: running.inside(*asked, env=environment).returncode == 0)
        running.stop()
        assert running.process.wait(timeout=DEADLINE) == 0
    eventually("the whole trace", lambda: re.search(
        rf"^{running.process.pid} +\+\+\+ exited", (tmp_path / "serve").read_text(), re.MULTILINE))
    used = set()
    for trace in ["demo", "serve"]:
        used |= set(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)[( ]", (tmp_path / trace).read_text(), re.MULTILINE))
    assert {"accept4", "inotify_add_watch"} <= used
    assert used - allowed == set()
