"""guacd's pod, played: a network of its own with the real guacd on its loopback, sessionguard beside it with
the rendered configuration, and an end as the kubelet brings it about: sessionguard is told first, and guacd,
a native sidecar, once it has ended."""

import signal

import pytest

from guacamole import Guacamole
from mounted import DEADLINE, POD_IP, eventually
from rendered import broker, containers, pod, rendered, tool
from test_container import started

SCREEN = 5907


def on_the_screen(running):
    """A connection to a VNC server, which is passed through."""
    return Guacamole(running.connected(POD_IP, 4822), "vnc", {"hostname": "127.0.0.1", "port": str(SCREEN)})


@pytest.fixture
def played(tmp_path):
    tool("guacd")
    tool("Xvnc")
    objects = rendered("kustomize", "guacd-pod")
    deployment, _ = broker(objects)
    (sidecar,) = pod(deployment)["initContainers"]
    container, running = started("guacd-pod", tmp_path)
    with running, open(tmp_path / "others", "w") as log:
        running.says("Listening")
        # As the manifest has it, but for where the program is.
        program, *arguments = sidecar["command"]
        assert program.endswith("/guacd") and sidecar["restartPolicy"] == "Always"
        guacd = running.spawned("guacd", *arguments, stdout=log, stderr=log)
        screen = running.spawned("Xvnc", "-displayfd", "1", "-rfbport", str(SCREEN), "-SecurityTypes", "None",
                                 "-localhost", "-geometry", "640x480", stdout=log, stderr=log)
        try:
            eventually("guacd and the screen", lambda: running.takes("127.0.0.1", 4823)
                       and running.takes("127.0.0.1", SCREEN))
            yield running, guacd
        finally:
            for process in [guacd, screen]:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                process.wait(timeout=DEADLINE)


def test_a_pod_that_leaves_lets_its_tunnels_go_on(played):
    running, guacd = played
    assert not running.takes(POD_IP, 4823), "nobody gets past sessionguard"
    user = on_the_screen(running)
    user.moves(10)
    assert running.asked(POD_IP, 9823, "/readyz") == 200
    # The preStop of the manifest is a sleep; then the main container's SIGTERM.
    running.stop()
    eventually("not ready", lambda: running.asked(POD_IP, 9823, "/readyz") == 503)
    assert running.asked(POD_IP, 9823, "/livez") == 200, "a drain is no reason to be killed"
    eventually("no more accepts", lambda: not running.takes(POD_IP, 4822))
    for x in [20, 30, 40]:
        user.moves(x)
    assert running.process.poll() is None and guacd.poll() is None
    user.leave()
    assert running.process.wait(timeout=DEADLINE) == 0
    # It is the sidecar's turn.
    assert guacd.poll() is None


def test_guacd_told_first_would_have_ended_them(played):
    """Why it is a sidecar: as a container beside sessionguard it gets SIGTERM at the same time."""
    running, guacd = played
    user = on_the_screen(running)
    user.moves(10)
    guacd.send_signal(signal.SIGTERM)
    with pytest.raises((EOFError, ConnectionError)):
        while True:
            user.hear("sync")


def test_both_kinds_of_containers_are_played_in_the_manifests_order():
    deployment, container = broker(rendered("kustomize", "guacd-pod"))
    order = [each["name"] for each in containers(pod(deployment))]
    assert order == ["guacd", "sessionguard"] and container in pod(deployment)["containers"]
