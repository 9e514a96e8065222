"""The chart: the same objects as the kustomizations, and values that are checked."""

import json
import subprocess
import tomllib

import pytest
import yaml

from rendered import CHART, VARIANTS, broker, chart, helmed, kustomized, named, pod, ran, tool

ORDERED = {"volumes", "volumeMounts", "env", "ports"}


def plain(objects):
    """What both must agree in: without the order of what has names, and texts by their meaning."""
    def walk(value, key=None):
        if isinstance(value, dict):
            return {name: walk(each, name) for name, each in value.items()}
        if isinstance(value, list):
            walked = [walk(each) for each in value]
            return sorted(walked, key=lambda each: each["name"]) if key in ORDERED and all(
                isinstance(each, dict) and "name" in each for each in walked) else walked
        if key and key.endswith(".toml"):
            return tomllib.loads(value)
        # A name with a hash of what is inside.
        return "sessionguard-store" if key == "name" and str(value).startswith("sessionguard-store-") else value

    return {(each["kind"], walk(each)["metadata"]["name"]): walk(each) for each in objects}


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_makes_what_the_kustomization_makes(variant):
    by_chart, by_hand = plain(helmed(variant)), plain(kustomized(variant))
    assert by_chart.keys() == by_hand.keys()
    for name, made in by_hand.items():
        assert by_chart[name] == made, name


def test_it_is_linted():
    tool("helm")
    ran("helm", "lint", "--strict", "--kube-version", "1.33.0", str(CHART))


def refused(*values):
    tool("helm")
    settings = [word for value in values for word in ("--set", value)]
    done = subprocess.run(["helm", "template", "test", str(CHART), "--kube-version", "1.33.0", *settings],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    return done.stderr


@pytest.mark.parametrize("value, why", [
    ("shap=guacd-pod", "shap"),
    ("shape=guacd", "shape"),
    ("store.kind=sqlite", "kind"),
    ("store.postgres.address=db", "address"),
    ("drainHours=eight", "drainHours"),
    ("networkPolicy.hostPorts={99999}", "hostPorts"),
])
def test_values_that_mean_nothing_are_refused(value, why):
    assert why in refused(value)


def test_several_with_a_file_each_are_refused():
    assert "place one user twice" in refused("store.kind=embedded")


def test_the_time_tunnels_have_is_one_value():
    tool("helm")
    objects = chart("drainHours=2")
    deployment, _ = broker(objects)
    assert pod(deployment)["terminationGracePeriodSeconds"] == 2 * 3600 + 600
    settings = named(objects, "ConfigMap", "sessionguard")["data"]["sessionguard.toml"]
    assert tomllib.loads(settings)["broker"]["drain_timeout"] == "2h"


def test_further_settings_are_mounted_behind_the_others():
    tool("helm")
    objects = chart('settings=[broker]\nmode = "observe"\n')
    deployment, _ = broker(objects)
    (config,) = [each["configMap"] for each in pod(deployment)["volumes"] if "configMap" in each]
    assert {"key": "settings.toml", "path": "conf.d/settings.toml"} in config["items"]
    settings = named(objects, "ConfigMap", "sessionguard")["data"]["settings.toml"]
    assert tomllib.loads(settings) == {"broker": {"mode": "observe"}}


def test_every_value_is_in_the_schema_and_explained():
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    def walk(schema, values, path):
        assert schema["additionalProperties"] is False, path
        assert set(schema["properties"]) - {"global"} == set(values), path
        for name, value in values.items():
            if isinstance(value, dict) and "properties" in schema["properties"][name]:
                walk(schema["properties"][name], value, f"{path}{name}.")
    walk(schema, values, "")
