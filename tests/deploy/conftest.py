"""What is skipped for want of a tool makes the whole suite end with 10, loudly."""

import pytest

SKIPPED = 10


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    skipped = session.config.pluginmanager.get_plugin("terminalreporter").stats.get("skipped", [])
    if exitstatus == pytest.ExitCode.OK and skipped:
        session.exitstatus = SKIPPED


def pytest_terminal_summary(terminalreporter):
    if terminalreporter.stats.get("skipped"):
        terminalreporter.write_line("=" * 66)
        terminalreporter.write_line("PART OF THE DEPLOYMENT SUITE WAS SKIPPED: see the reasons above.")
        terminalreporter.write_line("=" * 66)
