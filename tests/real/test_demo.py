"""The demo with the real guacd and real hosts, through its tap."""

import re
import subprocess

import pytest
from support import gateway as gateways
from support.client import Client
from support.gateway import credentials
from support.process import Process

pytestmark = pytest.mark.brokered


@pytest.fixture
def real(guacd, farm):
    """The options that name the real components."""
    hosts = ",".join(f"{host.host}:{host.port}" for host in farm.hosts)
    return ["--guacd", f"{guacd.host}:{guacd.port}", "--hosts", hosts]


@pytest.fixture
def stay(tmp_path):
    """Starts a demo that stays; a function from options to the program and where it listens."""
    started = []

    def start(*options):
        argv = [gateways.binary(), "demo", "--stay", "--listen", "127.0.0.1:0", *options]
        demo = Process("demo", argv, tmp_path / "demo.log")
        started.append(demo)
        asked = r"GUACD_HOSTNAME=(\S+) GUACD_PORT=(\d+)"
        found = demo.until(lambda: re.search(asked, demo.text()), 15, "says where it listens")
        demo.until(lambda: "Ctrl-C" in demo.text(), 15, "has said all")
        return demo, (found[1], int(found[2]))

    yield start
    for demo in started:
        demo.stop()


def test_it_stays_for_guacamole_and_shows_what_is_sent(stay, real, farm, make_user):
    alice = make_user("alice")
    demo, address = stay(*real)
    parameters = {"hostname": "sessionguard:resource=office-desktop", **credentials(alice)}
    with Client(address, parameters) as client:
        client.until_desktop()
    [logon] = farm.logons(alice)
    host = farm.host(logon.host)
    # Whoever is told `ready` has been shown before; the end comes a moment after the client's.
    demo.until(lambda: "closed; " in demo.text(), 15, "shows the end")
    assert demo.interrupt() == 0
    text = demo.text()
    for expected in ["select rdp", "size 1024 768 96", f"hostname = {host.host}", f"port = {host.port}",
                     "values not shown: ", "answered: ready $", "chosen by: best score", "1 connections to guacd"]:
        assert expected in text, (expected, text)
    assert re.search(r"values not shown: .*username, password", text), text
    assert alice.password not in text
    sent = [line for line in text.splitlines() if "chosen by" not in line and "opens" not in line]
    assert alice.name not in "\n".join(sent), "what is sent is shown without users"


def test_the_stand_in_draws_and_says_what_it_is(stay):
    demo, address = stay()
    assert "STAND-IN" in demo.text()
    parameters = {"hostname": "sessionguard:resource=sage", "username": "anna", "password": "hunter2-of-anna"}
    with Client(address, parameters) as client:
        client.until(lambda: "sync" in client.opcodes, 10, "a picture")
        assert "log" in client.opcodes
        # Letters upon the one rectangle.
        assert client.opcodes.count("rect") > 100 and len(client.picture.colours()) >= 2
        client.until(lambda: client.opcodes.count("nop") >= 2, 20, "it is kept alive")
    assert demo.interrupt() == 0
    assert "remote-app = ||Sage" in demo.text() and "hunter2" not in demo.text()


def test_it_plays_to_its_end_on_real_components(real, make_user, tmp_path):
    alice = make_user("alice")
    password = tmp_path / "password"
    password.write_text(alice.password + "\n")
    played = subprocess.run(
        [gateways.binary(), "demo", *real, "--username", alice.name, "--password-file", password],
        capture_output=True, text=True, timeout=180)
    assert played.returncode == 0, played.stdout + played.stderr
    assert "The guacd and the hosts were real" in played.stdout
    assert "as Guacamole sent them, not shown: username, password, ignore-cert" in played.stdout
    assert alice.password not in played.stdout and alice.name not in played.stdout
