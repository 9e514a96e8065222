"""Alert rules and dashboard. The real binary is driven into each situation, and promtool evaluates the rules
over what it tells then: exactly the alerts that are named fire. A series is what was scraped before, then what
was scraped in the situation for as long as the rule waits, with counters going on at the same pace."""

import re
import time

import pytest

from judged import ALERTS, RULES, case, promtool
from mounted import eventually
from rendered import REPO, ran, tool
from scene import Broker, Guacd, Host, Postgres, farm

SHOWN = {}


def shows(*alerts):
    """Each of these alerts fires in the test, in a case that it hands to `judge`."""
    def noted(test):
        SHOWN.update(dict.fromkeys(alerts, test.__name__))
        return pytest.mark.shows(*alerts)(test)
    return noted


class Judge:
    def __init__(self):
        self.cases, self.fired = [], set()

    def fires(self, *alerts, over):
        self.cases.append(case(f"{len(self.cases)}: {', '.join(alerts) or 'nothing'}", alerts, over))
        self.fired |= set(alerts)

    def quiet(self, over):
        self.fires(over=over)


@pytest.fixture
def judge(request, tmp_path):
    judge = Judge()
    yield judge
    marked = request.node.get_closest_marker("shows")
    assert judge.fired == set(marked.args if marked else ()), judge.fired
    code, said = promtool(tmp_path, judge.cases)
    assert judge.cases and code == 0, said


@pytest.fixture
def stage():
    """guacd and two hosts."""
    guacd, hosts = Guacd(), {"rds1": Host(), "rds2": Host()}
    yield guacd, hosts
    for each in [guacd, *hosts.values()]:
        each.close()


def test_the_rules_are_rules_and_each_says_what_to_do():
    tool("promtool")
    ran("promtool", "check", "rules", str(ALERTS))
    for name, rule in RULES.items():
        assert rule["labels"]["severity"] in ("critical", "warning"), name
        told = rule["annotations"]
        assert told["summary"] and len(told["description"]) > 60, name
        assert told["runbook"] == f"deploy/guides/troubleshooting.md#{name.lower()}"


def test_each_alert_is_shown_to_fire():
    assert set(SHOWN) == set(RULES)


def test_the_guide_has_a_section_for_each_alert():
    guide = REPO / "deploy" / "guides" / "troubleshooting.md"
    if not guide.exists():
        return
    text = guide.read_text()
    anchors = {re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-") for each in re.findall(r"^#+ (.*)$", text, re.M)}
    anchors |= set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    missing = {name.lower() for name in RULES} - anchors
    assert not missing, missing


def test_what_is_well_is_quiet(judge, stage, tmp_path):
    guacd, hosts = stage
    with Broker(tmp_path / "a", guacd, hosts, each="max_sessions = 20\n") as broker:
        before = broker.scrape()
        for number, host in enumerate(hosts, 1):
            broker.heartbeat(host, number)
        visitors = [broker.visit(user) for user in ["ann", "bob", "carl"]]
        assert [each.refused for each in visitors] == [None] * 3
        judge.quiet(over=[before, broker.figure('sessionguard_leases{state="live"}', 3)])


@shows("SessionguardHostDown", "SessionguardFarmWithoutHost", "SessionguardRefusals")
def test_hosts_that_are_down(judge, stage, tmp_path):
    guacd, hosts = stage
    with Broker(tmp_path / "a", guacd, hosts) as broker:
        well = broker.scrape()
        hosts["rds1"].close()
        one = broker.figure('sessionguard_host_state{host="rds1",state="dead"}', 1)
        judge.fires("SessionguardHostDown", over=[well, one])
        hosts["rds2"].close()
        both = broker.figure('sessionguard_farm_hosts{farm="office",state="out"}', 2)
        judge.fires("SessionguardHostDown", "SessionguardFarmWithoutHost", over=[well, both])
        assert broker.visit("ann").refused == 0x208
        before = broker.scrape()
        assert broker.visit("bob").refused == 0x208
        judge.fires("SessionguardHostDown", "SessionguardFarmWithoutHost", "SessionguardRefusals",
                    over=[before, broker.scrape()])


@shows("SessionguardFarmNearlyFull", "SessionguardFarmFull")
def test_a_farm_that_fills(judge, stage, tmp_path):
    guacd, hosts = stage
    with Broker(tmp_path / "a", guacd, hosts, each="max_sessions = 6\n",
                settings={"broker": 'slow_start = "0s"'}) as broker:
        well = broker.scrape()
        visitors = [broker.visit(f"user{number}") for number in range(11)]
        judge.fires("SessionguardFarmNearlyFull",
                    over=[well, broker.figure('sessionguard_farm_seats{farm="office",state="free"}', 1)])
        visitors.append(broker.visit("last"))
        judge.fires("SessionguardFarmFull",
                    over=[well, broker.figure('sessionguard_farm_hosts{farm="office",state="full"}', 2)])
        assert [each.refused for each in visitors] == [None] * 12


@shows("SessionguardHostBreakerOpened")
def test_a_host_that_lets_users_down(judge, stage, tmp_path):
    guacd, hosts = stage
    with Broker(tmp_path / "a", guacd, hosts) as broker:
        before = broker.scrape()
        guacd.status = 519
        assert broker.visit("ann").refused and broker.visit("bob", "sage").refused
        opened = [f'sessionguard_breaker_openings_total{{host="{host}",cause="attempts"}}' for host in hosts]
        eventually("both opened", lambda: all(broker.scrape()[each] >= 1 for each in opened))
        # One may try now; whoever comes next would.
        after = broker.figure('sessionguard_farm_hosts{farm="office",state="open"}', 2)
        judge.fires("SessionguardHostBreakerOpened", over=[before, after])


@shows("SessionguardGuacdDown", "SessionguardGuacdFailing", "SessionguardHandshakeSlow")
def test_a_guacd_that_is_slow_and_then_gone(judge, stage, tmp_path):
    guacd, hosts = stage
    with Broker(tmp_path / "a", guacd, hosts) as broker:
        before = broker.scrape()
        guacd.pause = 3
        assert broker.visit("ann").refused is None
        judge.fires("SessionguardHandshakeSlow", over=[before, broker.scrape()])
        guacd.close()
        before = broker.scrape()
        assert broker.visit("bob").refused
        after = broker.figure("sessionguard_guacd_up", 0)
        judge.fires("SessionguardGuacdDown", "SessionguardGuacdFailing", over=[before, after])


@shows("SessionguardConfigurationNotReloaded", "SessionguardCertificateEnds", "SessionguardCertificateEnded")
def test_files_that_are_not_as_they_should_be(judge, stage, tmp_path):
    guacd, hosts = stage
    tls = f'tls_cert_file = "{tmp_path}/tls.crt"\ntls_key_file = "{tmp_path}/tls.key"'
    certificate(tmp_path, 90)
    with Broker(tmp_path / "a", guacd, hosts, listen=tls) as broker:
        well = broker.scrape()
        judge.quiet(over=[well, broker.scrape()])
        for days, alerts in [(5, ["Ends"]), (1, ["Ends", "Ended"])]:
            certificate(tmp_path, days)
            broker.run("reload")
            judge.fires(*(f"SessionguardCertificate{each}" for each in alerts), over=[well, broker.scrape()])
        certificate(tmp_path, 90)
        broker.farm.write_text("[[hosts]]\nid = 5\n")
        broken = broker.figure("sessionguard_config_last_reload_success", 0)
        broker.farm.write_text(farm(hosts))
        well = broker.figure("sessionguard_config_last_reload_success", 1)
        judge.fires("SessionguardConfigurationNotReloaded", over=[well, broken | ends(well)])


def ends(scrape):
    return {series: value for series, value in scrape.items() if "not_after" in series}


def certificate(folder, days):
    ran("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-subj", "/CN=sessionguard.example", "-days", str(days), "-keyout", f"{folder}/new.key",
        "-out", f"{folder}/new.crt")
    (folder / "new.key").chmod(0o600)
    for name in ["key", "crt"]:
        (folder / f"new.{name}").rename(folder / f"tls.{name}")


@shows("SessionguardTunnelsNearlyFull", "SessionguardTurnedAway")
def test_as_many_tunnels_as_there_may_be(judge, stage, tmp_path):
    guacd, hosts = stage
    with Broker(tmp_path / "a", guacd, hosts, settings={"limits": "max_tunnels = 2"}) as broker:
        before = broker.scrape()
        visitors = [broker.visit(user) for user in ["ann", "bob"]]
        full = broker.scrape()
        judge.fires("SessionguardTunnelsNearlyFull", over=[before, full])
        assert broker.visit("carl").refused
        judge.fires("SessionguardTunnelsNearlyFull", "SessionguardTurnedAway", over=[full, broker.scrape()])
        assert [each.refused for each in visitors] == [None] * 2


@shows("SessionguardAgentsDoubtful", "SessionguardAgentSilent")
def test_agents_that_contradict_each_other_and_that_are_silent(judge, stage, tmp_path):
    guacd, hosts = stage
    with Broker(tmp_path / "a", guacd, hosts) as broker:
        for host in hosts:
            broker.heartbeat(host, 1)
        well = broker.scrape()
        for host in hosts:
            broker.heartbeat(host, 2, ["ann"])
        doubtful = broker.figure('sessionguard_alarms{alarm="users-on-two-hosts"}', 1)
        judge.fires("SessionguardAgentsDoubtful", over=[well, doubtful])
        for host in hosts:
            broker.heartbeat(host, 3)
        broker.config.write_text(f"[broker]\noffline_after_seconds = 1\n{broker.config.read_text()}")
        broker.run("reload")
        silent = broker.figure('sessionguard_host_state{host="rds1",state="last-known"}', 1)
        silent = broker.figure('sessionguard_host_state{host="rds2",state="last-known"}', 1)
        judge.fires("SessionguardAgentSilent", over=[well, silent])


@shows("SessionguardDrainStuck")
def test_a_drain_that_does_not_end(judge, stage, tmp_path):
    guacd, hosts = stage
    hosts["rds2"].close()
    with Broker(tmp_path / "a", guacd, {"rds1": hosts["rds1"]}) as broker:
        broker.heartbeat("rds1", 1)
        well = broker.scrape()
        broker.run("drain", "rds1", "--force")
        empty = broker.figure('sessionguard_host_state{host="rds1",state="drain"}', 1)
        # The only host of its farm.
        judge.quiet(over=[well, empty | {'sessionguard_farm_hosts{farm="office",state="open"}': 1}])
        broker.heartbeat("rds1", 2, ["ann"])
        left = broker.figure('sessionguard_sessions{farm="office",host="rds1",state="active"}', 1)
        judge.fires("SessionguardDrainStuck", over=[well, left | {'sessionguard_farm_hosts{farm="office",state="open"}': 1}])


@shows("SessionguardRecordsLost", "SessionguardLogLinesLost")
def test_records_that_are_not_kept(judge, stage, tmp_path):
    guacd, hosts = stage
    with Broker(tmp_path / "a", guacd, hosts, settings={"log": 'format = "json"\naudit = "/dev/full"'}) as broker:
        before = broker.scrape()
        assert broker.visit("ann").refused is None
        after = broker.figure("sessionguard_audit_lines_lost_total", 1)
        judge.fires("SessionguardRecordsLost", over=[before, after])
        broker.reader.kill()
        broker.reader.wait()
        before = broker.scrape()
        assert broker.visit("bob").refused is None
        lost = eventually("lines are lost", lambda: more(broker.scrape(), before, "sessionguard_log_lines_lost_total"))
        judge.fires("SessionguardLogLinesLost", over=[before, lost | {audit: before[audit] for audit in before if "audit" in audit}])


def more(scrape, before, series):
    return scrape if scrape[series] > before[series] else None


@shows("SessionguardRestarts", "SessionguardAbsent")
def test_a_process_that_starts_again_and_again_and_one_that_is_gone(judge, stage, tmp_path):
    guacd, hosts = stage
    scrapes = []
    for _ in range(4):
        with Broker(tmp_path / "a", guacd, hosts) as broker:
            scrapes.append(broker.scrape())
    judge.quiet(over=scrapes[:2])
    judge.fires("SessionguardRestarts", over=scrapes)
    judge.fires("SessionguardAbsent", over=[scrapes[0], {}])


@shows("SessionguardStoreDown", "SessionguardStoreSlow", "SessionguardDegradedPlacements", "SessionguardReplicaAlone",
       "SessionguardReplicasDisagree")
def test_a_database_that_is_slow_and_then_gone_and_its_replicas(judge, stage, tmp_path):
    guacd, hosts = stage
    database = Postgres(tmp_path)
    settings = database.settings() | {"broker": 'placement_timeout = "5s"'}
    try:
        with (Broker(tmp_path / "a", guacd, hosts, settings=settings) as one,
              Broker(tmp_path / "b", guacd, hosts, settings=settings) as other):
            well = {"a": [one.scrape()] * 2, "b": [other.scrape()] * 2}
            judge.quiet(over=well)
            judge.fires("SessionguardReplicaAlone", over=[one.scrape()] * 2)
            other.farm.write_text(farm({"rds1": hosts["rds1"]}))
            odd = other.figure("sessionguard_config_generation", 2)
            judge.fires("SessionguardReplicasDisagree", over=well | {"b": [well["b"][0], odd]})
            assert one.visit("ann").refused is None
            before = one.scrape()
            with database.still():
                time.sleep(1)
            after = eventually("an answer took long", lambda: slower(one.scrape(), before))
            judge.fires("SessionguardStoreSlow", over=well | {"a": [before, after]})
            database.stop()
            # What was out as it stopped is answered at its deadline: slow as well, by right.
            away = paceless(one.figure("sessionguard_store_up", 0))
            judge.fires("SessionguardStoreDown", over=well | {"a": [paceless(after), away]})
            assert one.visit("ann").refused is None
            back = paceless(one.scrape())
            judge.fires("SessionguardStoreDown", "SessionguardDegradedPlacements", over=well | {"a": [away, back]})
    finally:
        database.stop()


def paceless(scrape):
    return {series: value for series, value in scrape.items() if "duration" not in series}


def slower(scrape, before):
    def late(figures):
        return sum(value * (-1 if 'le="0.5"' in series else 1) for series, value in figures.items()
                   if series.startswith("sessionguard_store_operation_duration_seconds_bucket")
                   and ('le="0.5"' in series or 'le="+Inf"' in series))
    return scrape if late(scrape) > late(before) else None


@shows("SessionguardPanics", "SessionguardDescriptorsShort", "SessionguardPlacementsHeld",
       "SessionguardLeasesHeldElsewhere")
def test_what_no_test_brings_about_cheaply_by_one_figure_of_a_scrape_that_is_changed_by_hand(judge, stage, tmp_path):
    guacd, hosts = stage
    with Broker(tmp_path / "a", guacd, hosts) as broker:
        well = broker.scrape()
    for alert, series, value in [
        ("Panics", "sessionguard_panics_total", 1),
        ("DescriptorsShort", "sessionguard_descriptors_open", well["sessionguard_descriptors_max"] - 100),
        ("PlacementsHeld", "sessionguard_placements_held", 1),
        ("LeasesHeldElsewhere", "sessionguard_leases_held_elsewhere_total", 1),
    ]:
        assert series in well
        judge.fires(f"Sessionguard{alert}", over=[well, well | {series: float(value)}])
