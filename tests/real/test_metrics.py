"""What Prometheus itself says of the page it would read."""

import subprocess
import urllib.request

import pytest

from support.client import Client

_BROKEN = """\
# TYPE sessionguard_broken counter
sessionguard_broken{farm="office} 1
"""


def _judged(page):
    """promtool's exit code and words on a page."""
    done = subprocess.run(["promtool", "check", "metrics"], input=page, text=True, capture_output=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.brokered
def test_promtool_has_nothing_to_say_of_the_metrics(gateway, make_user):
    alice = make_user("alice")
    with Client(gateway.address, gateway.rdp(alice)) as client:
        client.until_desktop()
        address = gateway.lines("Health and metrics ready")[0]["address"]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            kind, page = answer.headers["Content-Type"], answer.read().decode()
    assert kind.startswith("text/plain; version=0.0.4"), kind
    assert 'sessionguard_placements_total{farm="office",resource="office-desktop",result="placed"} 1\n' in page
    assert alice.name not in page
    assert _judged(page) == (0, "")
    # It would have: of a page that cannot be read, and of a name without a help text.
    code, said = _judged(_BROKEN)
    assert code != 0 and said, said
    code, said = _judged(page.replace("# HELP sessionguard_store_up", "# NOTE sessionguard_store_up"))
    assert code != 0 and "sessionguard_store_up" in said, said
