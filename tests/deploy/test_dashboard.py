"""The dashboard: Grafana's own types read it, and each of its expressions finds something in what the real binary
tells Prometheus."""

import json
import re
import subprocess

import pytest
import yaml

from judged import ALERTS, MONITORING, RULES, history, labelled, promtool
from rendered import REPO, ran, tool
from scene import Broker, Guacd, Host, Postgres
from test_monitoring import certificate

DASHBOARD = MONITORING / "dashboard.json"
BOARD = json.loads(DASHBOARD.read_text())
# What Prometheus adds to each series.
ADDED = {"job", "instance", "namespace"}
VARIABLES = {"$job": ".*", "$instance": ".*", "$__rate_interval": "5m"}
RESERVED = {"by", "on", "without", "ignoring", "and", "or", "unless", "bool", "group_left", "group_right"}


def expressions():
    for panel in BOARD["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for annotation in BOARD["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]


def plain(expression):
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    assert "$" not in expression, expression
    return expression


def asked(expression):
    """The series' names in an expression, each with the labels that are asked of it."""
    for name, selector in re.findall(r"(sessionguard_\w+)(?:\{([^}]*)\})?", expression):
        yield name, set(re.findall(r"(\w+)\s*[=!]~?", re.sub(r'"[^"]*"', '""', selector)))


def grouped(expression):
    """The labels it keeps, or goes by."""
    for labels in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", expression):
        yield from (label.strip() for label in labels.split(","))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Two scrapes of a broker that shares a database, speaks TLS, and has seen a host and a store fail."""
    folder = tmp_path_factory.mktemp("page")
    certificate(folder, 90)
    tls = f'[[listen]]\naddress = "127.0.0.1:0"\nsource = "tls"\ntls_cert_file = "{folder}/tls.crt"\n' \
          f'tls_key_file = "{folder}/tls.key"\n'
    guacd, hosts = Guacd(), {"rds1": Host(), "rds2": Host()}
    database = Postgres(folder)
    try:
        with Broker(folder / "a", guacd, hosts, each="max_sessions = 20\n", settings=database.settings(),
                    more=tls) as broker:
            before = broker.scrape()
            broker.heartbeat("rds1", 1)
            hosts["rds2"].close()
            broker.figure('sessionguard_host_state{host="rds2",state="dead"}', 1)
            visitors = [broker.visit("ann"), broker.visit("bob", "nothing")]
            assert [each.refused for each in visitors] == [None, 0x204]
            yield before, broker.figure('sessionguard_leases{state="live"}', 1)
    finally:
        database.stop()
        for each in [guacd, *hosts.values()]:
            each.close()


def read(path):
    return subprocess.run(["dashboard", str(path)], capture_output=True, text=True, timeout=60)


def test_grafana_knows_each_of_its_words(tmp_path):
    tool("dashboard")
    done = read(DASHBOARD)
    assert done.returncode == 0, done.stdout
    wrong = tmp_path / "dashboard.json"
    wrong.write_text(DASHBOARD.read_text().replace('"fieldConfig"', '"fieldsConfig"'))
    assert "fieldsConfig" in read(wrong).stdout


def test_its_panels_have_a_place_of_their_own_and_the_chosen_source():
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids) > 30
    taken = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["description"] and panel["targets"], panel["title"]
            sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
            assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources), panel["title"]


def test_its_expressions_are_promql(tmp_path):
    tool("promtool")
    rules = [{"record": f"panel:{number}", "expr": plain(expression)}
             for number, (_, expression) in enumerate(expressions())]
    path = tmp_path / "rules.yaml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in ran("promtool", "check", "rules", str(path))


def test_each_name_and_label_is_one_that_the_binary_tells(page):
    labels = {}
    for series in page[1]:
        name, _, rest = series.partition("{")
        labels.setdefault(name, set()).update(re.findall(r'(\w+)="', rest))
    every = set().union(*labels.values()) | ADDED
    rules = [(name, rule["expr"]) for name, rule in RULES.items()]
    for of, expression in [*expressions(), *rules]:
        found = list(asked(expression))
        assert found, of
        for name, wanted in found:
            assert name in labels, f"{of}: {name}"
            assert wanted <= labels[name] | ADDED, f"{of}: {name} has no {wanted - labels[name] - ADDED}"
        assert set(grouped(expression)) <= every, of


def test_each_expression_finds_something_in_what_was_scraped(page, tmp_path):
    series = [{"series": labelled(name, "a"), "values": values} for name, values in history(list(page), 20).items()]
    found = [{"expr": f"count({plain(expression)}) > bool 0", "eval_time": "25m", "exp_samples": [{"value": 1}]}
             for _, expression in expressions()
             # What changes is not there to be found.
             if not expression.startswith("changes")]
    tests = [{"interval": "1m", "input_series": series, "promql_expr_test": found}]
    code, said = promtool(tmp_path, tests)
    assert code == 0, said
    # It would notice.
    found[0]["expr"] = "count(sessionguard_nothing) > bool 0"
    code, said = promtool(tmp_path, tests)
    assert code == 1 and "sessionguard_nothing" in said


def test_the_rules_are_an_object_of_the_prometheus_operator_by_the_command_in_the_readme():
    readme = (MONITORING.parent / "README.md").read_text()
    command = re.search(r"^\(cat <<END.*?^END$", readme, re.M | re.S).group(0).replace("| kubectl apply -f -", "")
    made = yaml.safe_load(ran("sh", "-c", command, cwd=REPO))
    assert (made["apiVersion"], made["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert made["spec"] == yaml.safe_load(ALERTS.read_text())
