"""Manifests: valid for every Kubernetes that has native sidecars, and what must hold in each."""

import ipaddress
import json
import re
import tomllib

import kubernetes_validate
import pytest

from rendered import TOOLS, VARIANTS, broker, containers, named, of_kind, pod, rendered, selected

VERSIONS = ["1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37"]
# Of the Prometheus operator, which no schema of Kubernetes knows.
FOREIGN = {"PodMonitor"}
# For what comes behind the last tunnel: leases, decisions, reports.
LAST_WORDS = 60


@pytest.fixture(params=VARIANTS)
def variant(request):
    return request.param


@pytest.fixture(params=TOOLS)
def objects(request, variant):
    return rendered(request.param, variant)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_accepts_it_strictly(version):
    everything = (each for by in TOOLS for variant in VARIANTS for each in rendered(by, variant))
    distinct = {json.dumps(each, sort_keys=True): each for each in everything}
    assert len(distinct) > 20
    for each in distinct.values():
        if each["kind"] not in FOREIGN:
            assert kubernetes_validate.validate(each, version, strict=True) == version


def test_the_validation_is_one():
    deployment, _ = broker(rendered("kustomize", "own-deployment"))
    wrong = deployment | {"spec": deployment["spec"] | {"replica": 1}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_every_pod_may_run_where_only_restricted_ones_may(objects):
    for deployment in of_kind(objects, "Deployment"):
        spec = pod(deployment)
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        assert all(kind not in volume for volume in spec["volumes"] for kind in ["hostPath", "nfs"])
        whole = spec["securityContext"]
        assert whole["runAsNonRoot"] is True and whole["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False and spec["enableServiceLinks"] is False
        for container in containers(spec):
            context = container["securityContext"]
            user = context.get("runAsUser", whole["runAsUser"])
            assert isinstance(user, int) and user >= 1000, container["name"]
            assert context["allowPrivilegeEscalation"] is False and context["privileged"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            # Guacamole's start script writes beside itself.
            assert context["readOnlyRootFilesystem"] is (container["name"] != "guacamole")
            assert all("hostPort" not in port for port in container.get("ports", []))
            assert not re.search(r":latest$|^[^:]+$", container["image"]), container["image"]


def test_no_secret_is_in_it_and_what_it_names_is_there(objects):
    assert not of_kind(objects, "Secret")
    for deployment in of_kind(objects, "Deployment"):
        spec = pod(deployment)
        for volume in spec["volumes"]:
            if "configMap" in volume:
                data = named(objects, "ConfigMap", volume["configMap"]["name"])["data"]
                keys = [item["key"] for item in volume["configMap"]["items"]]
                assert sorted(keys) == sorted(data), "a file that is not mounted, or not there"
            if "persistentVolumeClaim" in volume:
                named(objects, "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"])
        if "serviceAccountName" in spec:
            account = named(objects, "ServiceAccount", spec["serviceAccountName"])
            assert account["automountServiceAccountToken"] is False
        mounted = {volume["name"] for volume in spec["volumes"]}
        for container in containers(spec):
            assert {mount["name"] for mount in container["volumeMounts"]} <= mounted \
                if "volumeMounts" in container else True
            for variable in container.get("env", []):
                if re.search("PASSWORD|KEY$|TOKEN|SECRET", variable["name"]):
                    assert "value" not in variable or variable["value"].startswith("/")


def test_ports_and_selectors_lead_somewhere(objects):
    for service in of_kind(objects, "Service"):
        behind = selected(objects, service["spec"]["selector"])
        assert len(behind) == 1, service["metadata"]["name"]
        ports = {p["name"] for c in containers(pod(behind[0])) for p in c.get("ports", [])}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    for kind in ["PodDisruptionBudget", "PodMonitor"]:
        for each in of_kind(objects, kind):
            deployment, container = broker(objects)
            assert selected(objects, each["spec"]["selector"]["matchLabels"]) == [deployment]
            ports = {port["name"] for port in container["ports"]}
            assert all(end["port"] in ports for end in each["spec"].get("podMetricsEndpoints", []))
    for deployment in of_kind(objects, "Deployment"):
        for container in containers(pod(deployment)):
            ports = {port["name"] for port in container.get("ports", [])}
            for probe in ["startupProbe", "readinessProbe", "livenessProbe"]:
                asked = container.get(probe, {})
                for how in ["httpGet", "tcpSocket"]:
                    assert asked.get(how, {}).get("port", next(iter(ports), None)) in ports | {None}


def test_whoever_is_let_in_finds_a_port_and_guacd_is_reached_by_one_alone(objects):
    policies = of_kind(objects, "NetworkPolicy")
    let_in = {}
    for policy in policies:
        labels = policy["spec"]["podSelector"]["matchLabels"]
        for deployment in selected(objects, labels):
            ports = {p["containerPort"] for c in containers(pod(deployment)) for p in c.get("ports", [])}
            for rule in policy["spec"].get("ingress", []):
                for port in rule["ports"]:
                    assert port["port"] in ports, policy["metadata"]["name"]
        for rule in policy["spec"].get("ingress", []):
            for port in rule["ports"]:
                let_in.setdefault((policy["metadata"]["name"], port["port"]), []).append(rule.get("from"))
        for rule in policy["spec"].get("egress", []):
            for block in (to["ipBlock"] for to in rule.get("to", []) if "ipBlock" in to):
                ipaddress.ip_network(block["cidr"])
    # No authentication: nobody but the one in front of it.
    (only,) = let_in["guacd", 4822]
    assert len(only) == 1 and "podSelector" in only[0]
    deployment, _ = broker(objects)
    shielded = [each for each in policies if "Egress" in each["spec"]["policyTypes"]
                and deployment in selected(objects, each["spec"]["podSelector"]["matchLabels"])]
    out = [port["port"] for each in shielded for rule in each["spec"]["egress"] for port in rule["ports"]]
    assert {53, 3389} <= set(out)


def seconds(text):
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


def test_tunnels_have_their_time_to_end(objects):
    for deployment in of_kind(objects, "Deployment"):
        assert pod(deployment)["terminationGracePeriodSeconds"] >= 3600
    deployment, container = broker(objects)
    spec = pod(deployment)
    settings = tomllib.loads(named(objects, "ConfigMap", "sessionguard")["data"]["sessionguard.toml"])
    drain = seconds(settings["broker"]["drain_timeout"])
    before = 0
    for each in containers(spec):
        command = each.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["-", "0"])
        before = max(before, int(re.search(r"\d+", " ".join(command)).group()))
    assert before > 0, "endpoints need a while to hear of it"
    assert spec["terminationGracePeriodSeconds"] >= before + drain + LAST_WORDS
    # Who must outlive whom: the kubelet ends native sidecars last, and starts them first.
    outer = {"guacd-pod": "guacd", "guacamole-pod": "sessionguard"}
    sidecars = spec.get("initContainers", [])
    assert all(each["restartPolicy"] == "Always" for each in sidecars)
    shape = {"guacd": "guacd-pod", "guacamole": "guacamole-pod"}.get(deployment["metadata"]["name"])
    assert [each["name"] for each in sidecars] == ([outer[shape]] if shape else [])
    assert deployment["metadata"]["labels"]["sessionguard/container"] == (
        "sidecar" if container in sidecars else "main")


def test_one_file_has_one_process_and_several_share_a_database(objects):
    deployment, container = broker(objects)
    budget = named(objects, "PodDisruptionBudget", "sessionguard")["spec"]["maxUnavailable"]
    strategy = deployment["spec"]["strategy"]
    if of_kind(objects, "PersistentVolumeClaim"):
        assert deployment["spec"]["replicas"] == 1
        assert strategy == {"type": "Recreate"} and budget == 0
    else:
        assert strategy["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1} and budget == 1
        (source,) = container["envFrom"]
        store = named(objects, "ConfigMap", source["configMapRef"]["name"])["data"]
        assert store["SESSIONGUARD_STORE__REPLICATED"] == "true"


def test_health_is_asked_where_it_says_something_and_a_restart_comes_late(objects):
    _, container = broker(objects)
    probes = {name: container[name] for name in ["startupProbe", "readinessProbe", "livenessProbe"]}
    paths = {name: probe["httpGet"]["path"] for name, probe in probes.items()}
    assert paths == {"startupProbe": "/livez", "readinessProbe": "/readyz", "livenessProbe": "/livez"}
    live = probes["livenessProbe"]
    assert live["failureThreshold"] * live["periodSeconds"] >= 60
