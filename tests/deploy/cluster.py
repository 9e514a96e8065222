"""A cluster on one machine, as far as its pods notice: each has a network of its own with an address, a
bridge lies between them, the node is outside of them all, and Services are names with the addresses of
whoever is ready."""

import contextlib
import pathlib
import shutil
import subprocess
import tempfile
import time
from collections import Counter

import pytest

from guacamole import Guacamole
from mounted import DEADLINE, PASSWORD, Network, Program, apart, eventually, network_of, networks
from rendered import ran, tool
from support.users import Users
from support.xrdp import XrdpHost

# For documents; nobody is there, and nobody but these namespaces has it.
NODE = "192.0.2.1"
# What every desktop is opened with.
RDP = {"hostname": "sessionguard:resource=office-desktop", "security": "any", "ignore-cert": "true"}


class Pod(Network):
    """A network that lives as long as its pause process, as in a real one."""

    def __init__(self, address):
        self.address = address
        self.pause = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self.pid = self.pause.pid
        apart(self.pause)
        ran("nsenter", "--net", "--target", str(self.pid), "ip", "link", "set", "lo", "up")

    def ip(self, *words):
        ran("nsenter", "--net", "--target", str(self.pid), "ip", *words)

    def end(self):
        self.pause.kill()
        self.pause.wait()


class Cluster:
    def __init__(self, folder):
        networks()
        self.folder = pathlib.Path(folder)
        self.ending = contextlib.ExitStack()
        # Changed in place, so that everybody sees it who has it mounted.
        self.names = self.folder / "hosts"
        self.services = {}
        self.serve()
        self.node = Pod(NODE)
        self.ending.callback(self.node.end)
        self.node.ip("link", "add", "bridge", "type", "bridge")
        self.node.ip("addr", "add", f"{NODE}/24", "dev", "bridge")
        self.node.ip("link", "set", "bridge", "up")
        # The users' homes, which they must reach themselves.
        self.homes = pathlib.Path(tempfile.mkdtemp(prefix="sessionguard-deploy-", dir="/var/tmp"))
        self.homes.chmod(0o755)
        self.ending.callback(shutil.rmtree, self.homes, ignore_errors=True)
        self.users = Users(self.homes)
        self.ending.callback(self.users.remove_all)
        self.hosts = []

    def serve(self, **services):
        """What these names mean from now on; the others mean what they meant."""
        self.services |= services
        lines = ["127.0.0.1 localhost"]
        lines += [f"{address} {name}" for name, all in self.services.items() for address in all]
        self.names.write_text("\n".join(lines) + "\n")

    def pod(self, last):
        pod = Pod(f"192.0.2.{last}")
        self.ending.callback(pod.end)
        self.node.ip("link", "add", f"veth{last}", "type", "veth", "peer", "name", "eth0", "netns", str(pod.pid))
        self.node.ip("link", "set", f"veth{last}", "master", "bridge", "up")
        pod.ip("addr", "add", f"{pod.address}/24", "dev", "eth0")
        pod.ip("link", "set", "eth0", "up")
        return pod

    def started(self, pod, command, environment, log):
        """A program in a pod, to which Services are names."""
        script = f"mount --bind {self.names} /etc/hosts && exec \"$0\" \"$@\""
        where = ["nsenter", "--net", "--target", str(pod.pid), "unshare", "--mount", "sh", "-c", script]
        program = Program([*where, *command], environment, log)
        self.ending.enter_context(program)
        return program

    def host(self, name, last):
        """A real xrdp in a pod of its own."""
        tool("xrdp")
        tool("Xvnc")
        pod = self.pod(last)
        with network_of(pod.pid):
            # Of its own it has a /tmp, where none of its files would be seen.
            host = XrdpHost(name, pod.address, self.homes, port=3389)
        self.ending.callback(host.stop)
        self.serve(**{f"{name}.example.com": [pod.address]})
        self.hosts.append(host)
        return host

    def guacd(self, last, command, address=None, port=4822):
        """The real guacd in a pod, with the manifest's words; it listens on the pod's address, or another."""
        tool("guacd")
        pod = self.pod(last)
        program, *arguments = command
        assert program.endswith("/guacd")
        environment = {"HOME": str(self.folder), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        guacd = self.started(pod, ["guacd", *arguments], environment, self.folder / f"guacd-{last}")
        # Its children, one a tunnel, end with it.
        self.ending.callback(end, guacd.process)
        eventually("guacd", lambda: pod.takes(address or pod.address, port))
        return pod, guacd

    def broker(self, container, pod, log):
        """sessionguard in a pod; its store and socket are in the volume of the manifest."""
        state = pathlib.Path(container.real("/var/lib/sessionguard"))
        container.environment |= {"SESSIONGUARD_STORE__PATH": str(state / "sessionguard.redb")}
        broker = self.started(pod, container.command(["serve"]), container.environment, log)
        ports = container.ports()
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"]:
            asked = container.container[probe]["httpGet"]
            where = (pod.address, ports[asked["port"]], asked["path"])
            # As the kubelet does, from the node.
            eventually(str(where), lambda: self.node.asked(*where) == 200)
        return broker

    def desktop(self, pod, user, address):
        """Guacamole in that pod opens a desktop there; where its host says that it is, and in which way."""
        before = self.logons(user)
        page = Guacamole(pod.connected(address, 4822), "rdp",
                         RDP | {"username": user.name, "password": user.password})

        def logons():
            page.say("nop")
            return self.logons(user) - before

        (logon,) = eventually("a logon", logons).elements()
        return page, logon

    def logons(self, user):
        return Counter(each for host in self.hosts for each in host.logons() if each.user == user.name)

    def database(self, last):
        """A real PostgreSQL in a pod of its own, with the role and the database that the manifests name."""
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
        if not found:
            pytest.skip("needs PostgreSQL")
        tool("setpriv")
        pod = self.pod(last)
        data = self.homes / "database"
        data.mkdir()
        shutil.chown(data, "nobody", "nogroup")
        somebody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        ran(*somebody, str(found[-1] / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "--no-sync")
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 192.0.2.0/24 scram-sha-256\n")
        settings = {"listen_addresses": pod.address, "unix_socket_directories": data, "fsync": "off"}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        database = self.started(pod, [*somebody, str(found[-1] / "postgres"), "-D", str(data), *words], None,
                                self.folder / "database")
        # SIGINT, which waits for nobody.
        self.ending.callback(end, database.process, signal_number=2)
        ask = ["psql", "-h", str(data), "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-q", "-c"]
        eventually("a database", lambda: subprocess.run([*ask, "SELECT 1"], capture_output=True).returncode == 0)
        ran(*ask, f"CREATE ROLE sessionguard LOGIN PASSWORD '{PASSWORD}'")
        ran(*ask, "CREATE DATABASE sessionguard OWNER sessionguard ENCODING 'UTF8' TEMPLATE template0")
        self.serve(postgresql=[pod.address])
        return pod

    def end(self):
        self.ending.close()


def end(process, signal_number=15):
    if process.poll() is None:
        process.send_signal(signal_number)
        process.wait(timeout=DEADLINE)


def stays(seconds, holds):
    """Whether something goes on for so long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not holds():
            return False
        time.sleep(0.1)
    return True
