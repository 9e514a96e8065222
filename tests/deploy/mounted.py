"""The broker's container as the kubelet would start it: files, variables, arguments; in a network
namespace of its own, with an address that stands for the pod's."""

import contextlib
import ctypes
import http.client
import os
import pathlib
import signal
import socket
import subprocess
import time

import pytest

from rendered import broker, named, pod, ran, tool

BINARY = os.environ.get("SESSIONGUARD_BINARY", "")
POD_IP = "192.0.2.10"
DEADLINE = 25
# Of setns(2).
NETWORK = 0x40000000
# Made up here, so that no manifest holds one.
PASSWORD = "Made-for-this-test-7319"


class Container:
    def __init__(self, objects, folder):
        self.folder = pathlib.Path(folder)
        deployment, self.container = broker(objects)
        volumes = {each["name"]: each for each in pod(deployment)["volumes"]}
        self.paths = {}
        for mount in self.container["volumeMounts"]:
            real = self.folder / mount["name"]
            real.mkdir()
            self.paths[mount["mountPath"]] = real
            volume = volumes[mount["name"]]
            if "configMap" in volume:
                self.map = named(objects, "ConfigMap", volume["configMap"]["name"])["data"]
                self.items = volume["configMap"]["items"]
                self.config = real
                self.swap(self.map)
            elif "secret" in volume:
                certificate(real)
        self.environment = {"PATH": os.environ["PATH"]} | {
            name: self.real(value) for name, value in variables(objects, self.container).items()
        }

    def real(self, value):
        """Where a path of the container is here."""
        for mounted, real in self.paths.items():
            if value == mounted or value.startswith(mounted + "/"):
                return str(real) + value[len(mounted):]
        return value

    def swap(self, data):
        """Puts a ConfigMap's files there as the kubelet does: a folder a version, and one symlink
        that is exchanged under the names that stay."""
        version = self.config / f"..{time.monotonic_ns()}"
        for item in self.items:
            path = version / item["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(data[item["key"]])
        (self.config / "..data_tmp").symlink_to(version.name)
        os.replace(self.config / "..data_tmp", self.config / "..data")
        for top in {item["path"].split("/")[0] for item in self.items}:
            if not (self.config / top).is_symlink():
                (self.config / top).symlink_to(f"..data/{top}")

    def command(self, subcommand):
        assert self.container["args"][0] == "serve"
        return [BINARY, *subcommand, *(self.real(each) for each in self.container["args"][1:])]

    def check(self, strict=True):
        done = subprocess.run(self.command(["check", *(["--strict"] if strict else [])]), env=self.environment,
                              capture_output=True, text=True, timeout=DEADLINE)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ports(self):
        return {each["name"]: each["containerPort"] for each in self.container["ports"]}


def variables(objects, container):
    found = {}
    for source in container.get("envFrom", []):
        found |= named(objects, "ConfigMap", source["configMapRef"]["name"])["data"]
    for variable in container.get("env", []):
        source = variable.get("valueFrom", {})
        if "secretKeyRef" in source:
            found[variable["name"]] = PASSWORD
        elif "fieldRef" in source:
            assert source["fieldRef"]["fieldPath"] == "status.podIP"
            found[variable["name"]] = POD_IP
        else:
            found[variable["name"]] = variable["value"]
    return found


def certificate(folder):
    ran("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-subj", "/CN=sessionguard.example", "-addext", "subjectAltName=DNS:sessionguard.example",
        "-days", "90", "-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt"))
    (folder / "tls.key").chmod(0o640)


@contextlib.contextmanager
def network_of(pid):
    """This thread in that process's network; sockets made here stay there, and so do programs."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(path):
        with open(path) as namespace:
            assert libc.setns(namespace.fileno(), NETWORK) == 0, os.strerror(ctypes.get_errno())

    with open("/proc/thread-self/ns/net") as home:
        enter(f"/proc/{pid}/ns/net")
        try:
            yield
        finally:
            assert libc.setns(home.fileno(), NETWORK) == 0


class Network:
    """What is asked from within the network of a process, `pid`."""

    pid = None

    def inside(self, *command, **more):
        return subprocess.run(["nsenter", "--net", "--target", str(self.pid), *command],
                              capture_output=True, text=True, timeout=DEADLINE, **more)

    def spawned(self, *command, **more):
        return subprocess.Popen(["nsenter", "--net", "--target", str(self.pid), *command], **more)

    def connected(self, address, port):
        """A socket in that network."""
        with network_of(self.pid):
            return socket.create_connection((address, port), timeout=DEADLINE)

    def takes(self, address, port):
        """Whether somebody listens there."""
        try:
            self.connected(address, port).close()
        except ConnectionRefusedError:
            return False
        return True

    def asked(self, address, port, path):
        """The status, 0 where nobody answers."""
        try:
            asking = http.client.HTTPConnection(address, port)
            asking.sock = self.connected(address, port)
            asking.request("GET", path)
            return asking.getresponse().status
        except OSError:
            return 0


def apart(process):
    """Waits until a process is in another network than ours: nothing of ours is to be dialled."""
    def is_apart():
        try:
            theirs = os.readlink(f"/proc/{process.pid}/ns/net")
        except OSError:
            return False
        return theirs != os.readlink("/proc/self/ns/net")

    eventually("a network of its own", is_apart)


def networks():
    """Skips where there can be none."""
    for name in ["unshare", "nsenter", "ip"]:
        tool(name)
    if os.geteuid() != 0:
        pytest.skip("needs root for a network namespace")


class Program:
    """A started command and its log, which is what it says on standard error."""

    def __init__(self, command, environment, log):
        self.log = open(log, "w+")
        self.process = subprocess.Popen(command, env=environment, stderr=self.log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()

    def says(self, text):
        eventually(f"the log says {text!r}", lambda: text in self.told())

    def told(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)


class Running(Program, Network):
    """A command in a network namespace of its own, until the with block ends."""

    def __init__(self, command, environment, log):
        networks()
        script = f"ip link set lo up && ip addr add {POD_IP}/32 dev lo && exec \"$0\" \"$@\""
        super().__init__(["unshare", "--net", "sh", "-c", script, *command], environment, log)
        self.pid = self.process.pid
        apart(self.process)


def eventually(what, holds):
    until = time.monotonic() + DEADLINE
    while True:
        found = holds()
        if found:
            return found
        assert time.monotonic() < until, f"not in time: {what}"
        time.sleep(0.05)
