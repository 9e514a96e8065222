"""The rotation of logs by logrotate itself, as the sample has it, while they are written."""

import json
import re

import pytest

from mounted import eventually
from rendered import REPO, ran, tool
from scene import Broker, Guacd, Host

SAMPLE = REPO / "deploy" / "logrotate" / "sessionguard"


@pytest.fixture
def stage():
    guacd, hosts = Guacd(), {"rds1": Host()}
    yield guacd, hosts
    for each in [guacd, *hosts.values()]:
        each.close()


def test_what_logrotate_moves_away_is_whole_and_what_follows_is_in_a_file_of_its_own(stage, tmp_path):
    tool("logrotate")
    guacd, hosts = stage
    folder = tmp_path / "logs"
    folder.mkdir(mode=0o750)
    rules = SAMPLE.read_text()
    # Of its user and group there is nobody here.
    rules, dropped = re.subn(r"^ *su .*\n", "", rules.replace("/var/log/sessionguard", str(folder)), flags=re.M)
    assert dropped == 1 and str(folder) in rules
    path = tmp_path / "rules"
    path.write_text(rules)
    path.chmod(0o644)
    log, audit = folder / "broker.log", folder / "audit.jsonl"
    settings = {"log": f'format = "json"\nfile = "{log}"\naudit = "{audit}"'}
    with Broker(tmp_path / "a", guacd, hosts, settings=settings, log=log) as broker:
        for number in range(3):
            assert broker.visit(f"user{number}").refused is None
            eventually("the user is in both", lambda: all(f"user{number}" in each.read_text() for each in [log, audit]))
            ran("logrotate", "--force", "--state", str(tmp_path / "state"), str(path))
        assert broker.visit("last").refused is None
        eventually("both are there again", lambda: log.exists() and audit.exists())
    for name, user in [("broker.log", lambda line: line["message"] == "Placed" and line["user"]),
                       ("audit.jsonl", lambda line: line.get("user.name"))]:
        found = {}
        for each in folder.glob(f"{name}*"):
            text = ran("zcat", str(each)) if each.suffix == ".gz" else each.read_text()
            found[each.name] = [user(line) for line in map(json.loads, text.splitlines()) if user(line)]
        # The one before stays as it is for once: lines may be on their way there.
        assert found == {name: ["last"], f"{name}.1": ["user2"], f"{name}.2.gz": ["user1"],
                         f"{name}.3.gz": ["user0"]}, found
