"""The pods of all three shapes, played: guacd's with sessionguard beside it, Guacamole's with sessionguard in it, and
sessionguard's own, twice, on a real PostgreSQL. With the real guacd, two real xrdp hosts with desktops open, the
kubelet's probes from the node, the swap of a ConfigMap, and an end in the kubelet's order."""

import pytest

from cluster import Cluster, stays
from guacamole import Guacamole
from mounted import DEADLINE, Container, eventually
from rendered import broker as broker_of
from rendered import containers, named, pod, rendered
from test_container import hosts, waits

GUACD = ["/opt/guacamole/sbin/guacd", "-f", "-b", "0.0.0.0", "-l", "4822", "-L", "info"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        for name, last in [("rds1", 31), ("rds2", 32)]:
            cluster.host(name, last)
        yield cluster
    finally:
        cluster.end()


def waiting(name):
    """The preStop of a container, but for the time in which the cluster hears of its end."""
    (script,) = waits(name)
    return script.removeprefix("sleep 15\n")


def is_waited_for(process):
    """Whether a preStop has not returned for longer than one of its looks takes."""
    return stays(3, lambda: process.poll() is None)


def takes_an_edit(container, pod_of, more):
    """Swaps the ConfigMap, and waits until it is in force."""
    container.swap(container.map | {"farm.toml": container.map["farm.toml"] + more})
    eventually("the edit", lambda: "rds3" in hosts(container, pod_of))


THIRD = '\n[[hosts]]\nid = "rds3"\naddress = "rds3.example.com"\nfarm_ids = ["office"]\nmode = "maintenance"\n'


def test_guacds_pod_stays_until_its_last_desktop_is_closed(cluster, tmp_path):
    objects = rendered("kustomize", "guacd-pod")
    deployment, _ = broker_of(objects)
    (sidecar,) = pod(deployment)["initContainers"]
    # A native sidecar: it is up first, on the pod's loopback, where nobody gets past sessionguard.
    ours, guacd = cluster.guacd(15, sidecar["command"], "127.0.0.1", 4823)
    container = Container(objects, tmp_path)
    broker = cluster.broker(container, ours, tmp_path / "log")
    guacamole = cluster.pod(16)
    assert not guacamole.takes(ours.address, 4823)
    user = cluster.users.make("eve")
    page, logon = cluster.desktop(guacamole, user, ours.address)
    assert logon.kind == "created"
    takes_an_edit(container, ours, THIRD)

    broker.stop()
    eventually("not ready", lambda: cluster.node.asked(ours.address, 9823, "/readyz") == 503)
    assert cluster.node.asked(ours.address, 9823, "/livez") == 200, "a drain is no reason to be killed"
    eventually("no more accepts", lambda: not guacamole.takes(ours.address, 4822))
    for x in [20, 30, 40]:
        page.moves(x)
    assert broker.process.poll() is None and guacd.process.poll() is None
    page.leave()
    assert broker.process.wait(timeout=DEADLINE) == 0
    # It is the sidecar's turn.
    guacd.stop()
    guacd.process.wait(timeout=DEADLINE)


def test_guacamoles_pod_stays_until_its_last_desktop_is_closed(cluster, tmp_path):
    objects = rendered("kustomize", "guacamole-pod")
    guacd_pod, guacd = cluster.guacd(20, GUACD)
    cluster.serve(guacd=[guacd_pod.address])
    ours = cluster.pod(10)
    container = Container(objects, tmp_path)
    broker = cluster.broker(container, ours, tmp_path / "log")
    assert not cluster.node.takes(ours.address, 4822), "nobody but Guacamole reaches it"

    user = cluster.users.make("ann")
    page, logon = cluster.desktop(ours, user, "127.0.0.1")
    assert logon.kind == "created"
    takes_an_edit(container, ours, THIRD)
    page.moves(20)

    # The pod is deleted: its main container is asked to stop, which waits for the desktop.
    prestop = ours.spawned("sh", "-c", waiting("guacamole"))
    for x in [30, 40]:
        page.moves(x)
    assert is_waited_for(prestop), "a desktop is open"
    assert cluster.node.asked(ours.address, 9823, "/readyz") == 200, "the sidecar is told last"
    # Whoever reloads the page meanwhile comes back to what they left.
    page.leave()
    page, again = cluster.desktop(ours, user, "127.0.0.1")
    assert (again.host, again.kind) == (logon.host, "reconnected")
    page.moves(50)
    page.leave()
    assert prestop.wait(timeout=DEADLINE) == 0
    # Guacamole has ended, and it is the sidecar's turn. guacd has never noticed.
    broker.stop()
    assert broker.process.wait(timeout=DEADLINE) == 0
    assert guacd.process.poll() is None


def test_one_of_two_replicas_leaves_and_then_a_guacd_and_no_desktop_ends(cluster, tmp_path):
    objects = rendered("kustomize", "own-deployment")
    manifest = containers(pod(named(objects, "Deployment", "guacd")))[0]["command"]
    guacds = [cluster.guacd(last, manifest) for last in [21, 22]]
    cluster.serve(guacd=[each.address for each, _ in guacds])
    cluster.database(40)
    replicas = []
    for last in [11, 12]:
        ours = cluster.pod(last)
        folder = tmp_path / str(last)
        folder.mkdir()
        container = Container(objects, folder)
        container.environment |= {"SESSIONGUARD_LISTEN__ADVERTISE": ours.address}
        replicas.append((ours, container, cluster.broker(container, ours, tmp_path / f"log-{last}")))
    (first, _, leaving), (second, _, staying) = replicas
    guacamole = cluster.pod(13)

    user = cluster.users.make("bob")
    page, logon = cluster.desktop(guacamole, user, first.address)
    assert logon.kind == "created"
    for ours, container, _ in replicas:
        takes_an_edit(container, ours, THIRD)
    # A share link may lead to the other one.
    joined = Guacamole(guacamole.connected(second.address, 4822), page.id, {})
    joined.moves(15)
    joined.leave()

    # The first pod is deleted. The preStop of the manifest is a sleep, while which the Service forgets it.
    leaving.stop()
    eventually("not ready", lambda: cluster.node.asked(first.address, 9823, "/readyz") == 503)
    assert cluster.node.asked(first.address, 9823, "/livez") == 200, "a drain is no reason to be killed"
    eventually("no more accepts", lambda: not guacamole.takes(first.address, 4822))
    for x in [20, 30]:
        page.moves(x)
    # Through the other one the user comes to the same host, and others come somewhere.
    other, _ = cluster.desktop(guacamole, cluster.users.make("carl"), second.address)
    assert leaving.process.poll() is None
    page.leave()
    assert leaving.process.wait(timeout=DEADLINE) == 0
    page, again = cluster.desktop(guacamole, user, second.address)
    assert (again.host, again.kind) == (logon.host, "reconnected")

    # A guacd leaves: its name forgets it, and its preStop waits for the desktops that it has.
    busy = [each for each in guacds if is_busy(each[0])]
    assert busy, "somebody has the desktops"
    going, program = busy[0]
    cluster.serve(guacd=[each.address for each, _ in guacds if each is not going])
    prestop = going.spawned("sh", "-c", waiting("guacd"))
    assert is_waited_for(prestop)
    newcomer, _ = cluster.desktop(guacamole, cluster.users.make("dora"), second.address)
    for one in [page, other, newcomer]:
        one.moves(60)
    for one in [page, other]:
        one.leave()
    assert prestop.wait(timeout=DEADLINE) == 0
    program.stop()
    program.process.wait(timeout=DEADLINE)
    # Who came meanwhile is at the other guacd, and stays.
    newcomer.moves(70)
    newcomer.leave()
    staying.stop()
    assert staying.process.wait(timeout=DEADLINE) == 0


def is_busy(guacd):
    """Whether the preStop would wait."""
    look = waiting("guacd").split("while ")[1].split("; do")[0]
    return guacd.inside("sh", "-c", look).returncode == 0
