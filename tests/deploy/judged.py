"""What promtool makes of the rules, on series that are made of scrapes."""

import json
import pathlib
import re
import subprocess
import time

import yaml

from rendered import REPO, tool

MONITORING = REPO / "deploy" / "monitoring"
ALERTS = MONITORING / "alerts.yaml"
RULES = {rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]}
# How long what was scraped first lasts, and what is neither first nor last; in minutes.
CALM, BETWEEN = 15, 10
# What rules compare with the time, which begins at zero for promtool.
MOMENT = "_not_after_seconds"


def minutes(text):
    number, unit = re.fullmatch(r"(\d+)([mh])", text).groups()
    return int(number) * {"m": 1, "h": 60}[unit]


def labelled(series, instance):
    """With what Prometheus adds."""
    name, _, labels = series.partition("{")
    return f'{name}{{instance="{instance}",job="sessionguard"{"," + labels if labels else "}"}'


def is_counter(name):
    return name.endswith(("_total", "_bucket", "_sum", "_count"))


def history(scrapes, span):
    """Series by name: the first scrape for a while, one after the other, and the last for `span` minutes. What is
    counted goes on as it came from the scrape before."""
    now, told = time.time(), {}
    for series in {series for scrape in scrapes for series in scrape}:
        name, parts = series.partition("{")[0], []
        for at, scrape in enumerate(scrapes):
            length = CALM if at == 0 else BETWEEN if at < len(scrapes) - 1 else span
            value, step = scrape.get(series), 0.0
            if value is None:
                parts.append(f"_x{length}")
                continue
            if name.endswith(MOMENT):
                value -= now
            if is_counter(name) and at == len(scrapes) - 1 and at > 0:
                # Less than before: the process is another one.
                step = max(0.0, value - scrapes[at - 1].get(series, value))
            parts.append(f"{value:.9f}+{step:.9f}x{length - 1}")
        told[series] = " ".join(parts)
    return told


def case(name, expected, scrapes):
    """One test of promtool's: `scrapes` of an instance, or those of several by their names, and the alerts that
    must fire in the end, and no other."""
    instances = scrapes if isinstance(scrapes, dict) else {"a": scrapes}
    longest = max([minutes(RULES[alert].get("for", "0m")) for alert in expected] or [30])
    span = longest + 8
    counts = {len(each) for each in instances.values()}
    assert len(counts) <= 1, counts
    before = sum(CALM if at == 0 else BETWEEN for at in range(max(counts, default=1) - 1))
    firing = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(expected)]
    return {
        "name": name, "interval": "1m",
        "input_series": [
            {"series": labelled(series, instance), "values": values}
            for instance, each in instances.items() for series, values in history(each, span).items()
        ],
        "promql_expr_test": [{
            "expr": 'max by (alertname) (ALERTS{alertstate="firing"})',
            "eval_time": f"{before + span - 1}m", "exp_samples": firing,
        }],
    }


def promtool(folder, tests, rules=ALERTS):
    """Exit code and words of `promtool test rules`."""
    tool("promtool")
    path = pathlib.Path(folder) / f"{time.monotonic_ns()}.yaml"
    # JSON is YAML, and quick.
    path.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr
