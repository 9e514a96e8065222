"""What the manifests come to, whichever tool makes them."""

import functools
import pathlib
import shutil
import subprocess
import tempfile

import pytest
import yaml

REPO = pathlib.Path(__file__).resolve().parents[2]
KUBERNETES = REPO / "deploy" / "kubernetes"
CHART = REPO / "deploy" / "helm" / "sessionguard"

# What is taken in a shape's kustomization, beside what is there; and the chart's values for the same.
SHAPES = {
    "guacd-pod": ("guacd-pod", {}, ["shape=guacd-pod", "store.kind=embedded", "replicas=1"]),
    "guacamole-pod": ("guacamole-pod", {}, ["shape=guacamole-pod", "store.kind=embedded", "replicas=1"]),
    "own-deployment": ("own-deployment", {}, []),
}
EVERYTHING = {"# - ../../components/": "- ../../components/"}
DATABASE = {"components/embedded-store": "components/postgresql"}
ALL = ["api.enabled=true", "podMonitor.enabled=true"]
VARIANTS = SHAPES | {
    "guacd-pod, all, database": (
        "guacd-pod", EVERYTHING | DATABASE, ["shape=guacd-pod", "replicas=1", *ALL]),
    "guacamole-pod, all, database": (
        "guacamole-pod", EVERYTHING | DATABASE, ["shape=guacamole-pod", "replicas=1", *ALL]),
    "own-deployment, all": ("own-deployment", EVERYTHING, ALL),
}
TOOLS = ["kustomize", "helm"]


def tool(*names):
    """The first of them that is there."""
    for name in names:
        if shutil.which(name):
            return name
    pytest.skip(f"needs {' or '.join(names)}")


def ran(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, **more)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


@functools.cache
def kustomized(variant):
    shape, changes, _ = VARIANTS[variant]
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "kubernetes"
        shutil.copytree(KUBERNETES, copy)
        path = copy / "shapes" / shape / "kustomization.yaml"
        text = path.read_text()
        for old, new in changes.items():
            assert old in text, f"{path} has no {old}"
            text = text.replace(old, new)
        path.write_text(text)
        return kustomization(path.parent)


def kustomization(folder):
    name = tool("kubectl", "kustomize")
    made = ran(name, "kustomize" if name == "kubectl" else "build", str(folder))
    return list(yaml.safe_load_all(made))


@functools.cache
def helmed(variant):
    tool("helm")
    return list(chart(*VARIANTS[variant][2]))


def chart(*values):
    settings = [word for value in values for word in ("--set", value)]
    made = ran("helm", "template", "test", str(CHART), "--kube-version", "1.33.0", *settings)
    return [each for each in yaml.safe_load_all(made) if each]


def rendered(by, variant):
    return {"kustomize": kustomized, "helm": helmed}[by](variant)


def of_kind(objects, kind):
    return [each for each in objects if each["kind"] == kind]


def named(objects, kind, name):
    found = [each for each in of_kind(objects, kind) if each["metadata"]["name"] == name]
    assert len(found) == 1, f"{len(found)} of {kind} {name}"
    return found[0]


def pod(deployment):
    return deployment["spec"]["template"]["spec"]


def containers(spec):
    return [*spec.get("initContainers", []), *spec["containers"]]


def broker(objects):
    """The pod with sessionguard in it, and the container."""
    for deployment in of_kind(objects, "Deployment"):
        for container in containers(pod(deployment)):
            if container["name"] == "sessionguard":
                return deployment, container
    raise AssertionError("no container sessionguard")


def selected(objects, labels):
    """The Deployments whose pods have all these labels."""
    return [
        each
        for each in of_kind(objects, "Deployment")
        if labels.items() <= each["spec"]["template"]["metadata"]["labels"].items()
    ]
