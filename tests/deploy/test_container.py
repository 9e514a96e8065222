"""The real binary with what the manifests give it."""

import pathlib
import re
import shutil
import subprocess

import pytest

from mounted import DEADLINE, POD_IP, Container, Running, eventually
from rendered import (KUBERNETES, REPO, SHAPES, TOOLS, VARIANTS, broker, containers, kustomization, of_kind, pod,
                      rendered)

# No database is at hand here; what is probed does not depend on it.
WITHOUT_DATABASE = {"SESSIONGUARD_STORE__KIND": "embedded", "SESSIONGUARD_STORE__REPLICATED": "false"}


@pytest.mark.parametrize("by", TOOLS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_configuration_is_good(by, variant, tmp_path):
    said = Container(rendered(by, variant), tmp_path).check()
    assert "2 hosts, 1 farms, 1 resources, 0 warnings" in said


def test_the_readmes_own_kustomization_is_good(tmp_path):
    text = (REPO / "deploy" / "README.md").read_text()
    (example,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "sessionguard" / "deploy").mkdir(parents=True)
    shutil.copytree(KUBERNETES, mine / "sessionguard" / "deploy" / "kubernetes")
    (mine / "kustomization.yaml").write_text(example)
    (mine / "farm.toml").write_text('[[farms]]\nid = "mine"\n')
    objects = kustomization(mine)
    assert all(each["metadata"]["namespace"] == "guacamole" for each in objects)
    _, ours = broker(objects)
    assert ours["image"] == "registry.example/sessionguard:0.1.0"
    (tmp_path / "pod").mkdir()
    container = Container(objects, tmp_path / "pod")
    assert container.environment["SESSIONGUARD_STORE__ADDRESS"] == "db.example:5432"
    assert "0 hosts, 1 farms, 0 resources" in container.check(strict=False)


def started(variant, folder, by="kustomize"):
    container = Container(rendered(by, variant), folder)
    store = str(pathlib.Path(container.real("/var/lib/sessionguard")) / "sessionguard.redb")
    container.environment |= {"SESSIONGUARD_STORE__PATH": store}
    if "SESSIONGUARD_STORE__KIND" in container.environment:
        container.environment |= WITHOUT_DATABASE
    command = container.command(["serve"])
    return container, Running(command, container.environment, folder / "log")


@pytest.mark.parametrize("variant", [*SHAPES, "own-deployment, all"])
def test_probes_are_answered_edits_are_taken_and_sigterm_ends_it(variant, tmp_path):
    container, running = started(variant, tmp_path)
    ports = container.ports()
    with running:
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"]:
            asked = container.container[probe]["httpGet"]
            where = (POD_IP, ports[asked["port"]], asked["path"])
            eventually(str(where), lambda: running.asked(*where) == 200)
        assert running.asked(POD_IP, ports["health"], "/metrics") == 200
        # From where Guacamole is, and from nowhere else.
        in_the_pod = variant == "guacamole-pod"
        assert running.takes("127.0.0.1", ports["guacamole"])
        assert running.takes(POD_IP, ports["guacamole"]) is not in_the_pod
        # The API, which needs a certificate to be reached from outside.
        assert running.takes(POD_IP, 9822) is ("api" in ports)

        edited = container.map["farm.toml"] + '\n[[hosts]]\nid = "rds3"\naddress = "rds3.example.com"\nfarm_ids = ["office"]\n'
        container.swap(container.map | {"farm.toml": edited})
        eventually("the third host", lambda: "rds3" in hosts(container, running))

        running.stop()
        assert running.process.wait(timeout=DEADLINE) == 0


def hosts(container, running):
    asked = running.inside(*container.command(["hosts"]), env=container.environment)
    return asked.stdout


def waits(name):
    """The preStop of what would end tunnels with itself."""
    scripts = set()
    for variant in SHAPES:
        for deployment in of_kind(rendered("kustomize", variant), "Deployment"):
            for container in containers(pod(deployment)):
                command = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
                if container["name"] == name and command:
                    assert command[:2] == ["sh", "-c"]
                    scripts.add(command[2])
    return scripts


@pytest.mark.parametrize("name", ["guacd", "guacamole"])
def test_what_would_end_tunnels_waits_for_the_last_one(name, tmp_path):
    (script,) = waits(name)
    assert script.startswith("sleep 15\n")
    script = script.removeprefix("sleep 15\n")
    # sessionguard stands for whoever listens on 4822 in that network.
    container, running = started("guacamole-pod", tmp_path)
    with running:
        running.says("Listening")
        assert running.inside("sh", "-c", script).returncode == 0
        with running.connected("127.0.0.1", 4822):
            waiting = running.spawned("sh", "-c", script)
            with pytest.raises(subprocess.TimeoutExpired):
                waiting.wait(timeout=3)
        assert waiting.wait(timeout=DEADLINE) == 0
