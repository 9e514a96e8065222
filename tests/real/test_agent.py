"""What a real xrdp host's agent tells, through real logons: to an API that records, and to the broker."""

import json
import pwd
import tempfile
from datetime import datetime
from pathlib import Path

import pytest

from support.agent import Agent, RecordingApi
from support.client import Client
from support.gateway import credentials, unmapped
from support.waiting import until

pytestmark = pytest.mark.brokered

AT_ONCE = 20  # seconds on a busy machine; the agent looks every second and otherwise tells every 300


@pytest.fixture
def api():
    api = RecordingApi()
    yield api
    api.stop()


@pytest.fixture
def host(farm):
    return farm.host("rds-a")


@pytest.fixture
def agent(run_dir, host, api):
    path = Path(tempfile.mkdtemp(prefix="agent-", dir=run_dir))
    agent = Agent(host, api, path, ["message", "disconnect", "logoff"])
    agent.process.until(lambda: api.reports, 20, "reports")
    yield agent
    agent.stop()


@pytest.fixture
def log_on(guacd, host):
    clients = []

    def click(user):
        clients.append(Client((guacd.host, guacd.port), unmapped(host.host, host.port, **credentials(user))))
        return clients[-1].until_desktop()

    yield click
    for client in clients:
        if not client.ended:
            client.close()


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def test_logon_disconnect_reconnect_and_logoff_are_each_told_at_once(agent, api, host, make_user, log_on, tmp_path):
    ann, bob = make_user("ann"), make_user("bob")
    first = api.reports[0]
    assert first["health"]["score"] == 100 or not all(c["ok"] for c in first["health"]["checks"]), first["health"]
    assert first["health"]["rdp_listener_ok"] and first["sessions"] == []

    client = log_on(ann)
    session = api.until_session(ann, "Active", seconds=AT_ONCE)
    assert "domain" not in session and "disconnected_since" not in session
    assert session["client_name"] == "Guacamole RDP", "as guacd calls itself"
    # The connection is there before its session is, by as long as signing in takes.
    signing_in = moment(session["logon_at"]) - moment(session["connect_at"])
    assert abs(signing_in.total_seconds()) < 30, session

    others = log_on(bob)
    api.until_session(bob, "Active")
    assert api.until_session(ann, "Active", since=len(api.reports) - 1)["id"] == session["id"]

    seen = len(api.reports)
    client.close()
    left = api.until_session(ann, "Disconnected", since=seen)
    assert (left["id"], left["logon_at"]) == (session["id"], session["logon_at"])
    assert left["disconnected_since"] >= left["connect_at"]
    assert api.until_session(bob, "Active", since=len(api.reports) - 1), "his session is his own"

    seen = len(api.reports)
    log_on(ann)
    back = api.until_session(ann, "Active", since=seen)
    assert (back["id"], back["logon_at"]) == (session["id"], session["logon_at"]), "the very session"
    assert back["connect_at"] > session["connect_at"] and "disconnected_since" not in back
    kinds = lambda: [entry.kind for entry in host.logons() if entry.user == ann.name]
    until(lambda: len(kinds()) > 1, 20, "xrdp writes down the second logon")
    assert kinds() == ["created", "reconnected"]

    seen = len(api.reports)
    result = api.command(others.close, id="off-1", type="logoff", user=ann.name, session_id=session["id"])
    assert result["ok"], result
    gone = api.until_gone(ann, seen)
    assert [s["user"] for s in gone["sessions"]] == [bob.name]
    ended = f"++ terminated session:  username {ann.name}"
    log = host.dir / "sesman.log"
    until(lambda: ended in log.read_text(errors="replace"), 20, "xrdp writes down that the session ended")
    # For whoever looks at this run, and for tests/data/heartbeats.
    told = next(r for r in api.reports[seen:] if r["command_results"])
    disconnected = next(r for r in api.reports if any(s["state"] == "Disconnected" for s in r["sessions"]))
    for name, report in ("disconnected", disconnected), ("command-result", told):
        (tmp_path / f"{name}.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    assert len(api.reports) < 20, "changes and results alone are told within the interval"


def test_messages_and_disconnections_reach_the_session_they_name(agent, api, make_user, log_on):
    ann, bob = make_user("ann"), make_user("bob")
    a, b = log_on(ann), log_on(bob)
    api.until_session(ann, "Active")
    api.until_session(bob, "Active")
    # An answer carries a command: something must be reported first.
    nudges = [log_on(make_user(name)).close for name in ("carol", "dave")]

    result = api.command(nudges.pop(), id="m-1", type="message", user=ann.name, message="-the host restarts at $(date)")
    assert result["ok"], result
    uid = lambda user: pwd.getpwnam(user.name).pw_uid
    assert "xmessage" in agent.programs_of(uid(ann))
    assert "xmessage" not in agent.programs_of(uid(bob))

    seen = len(api.reports)
    result = api.command(nudges.pop(), id="d-1", type="disconnect", user=bob.name)
    assert result["ok"], result
    api.until_session(bob, "Disconnected", since=seen)
    until(lambda: b.ended, 15, "his tunnel ends")
    assert not a.ended
    assert api.until_session(ann, "Active", since=len(api.reports) - 1)


@pytest.fixture
def reporting(run_dir, farm, gateway):
    """Both hosts' agents, enrolled by token and heard by the gateway."""
    agents = []
    for host in farm.hosts:
        path = Path(tempfile.mkdtemp(prefix="agent-", dir=run_dir))
        key = gateway.enrolled(host, path)
        agents.append(Agent(host, gateway, path, ["logoff"], "2s", key))
    heard = lambda: all(host["agent"] for host in gateway.told("hosts", "-o", "json")["hosts"])
    until(heard, 20, lambda: f"both agents are heard\n{gateway.process.tail()}")
    yield
    for agent in agents:
        agent.stop()


def test_placement_follows_what_the_agents_report(reporting, gateway, farm, host, make_user, log_on, visit):
    ann, bob = make_user("ann"), make_user("bob")
    sessions = lambda: [(s["host"], s["state"])
                        for s in gateway.told("sessions", "--user", ann.name, "-o", "json")["sessions"]]
    leases = lambda: gateway.told("leases", "--user", ann.name, "-o", "json")["leases"]

    # Past Guacamole, and on the host that a stranger would not be sent to.
    outside, crowd = log_on(ann), log_on(bob)
    until(lambda: sessions() == [(host.id, "active")], 20, lambda: f"{sessions()}\n{gateway.process.tail()}")
    outside.close()
    until(lambda: sessions() == [(host.id, "disconnected")], 20, lambda: f"{sessions()}\n{gateway.process.tail()}")
    scores = {h["id"]: h["newcomer"][0]["score"] for h in gateway.told("hosts", "-o", "json")["hosts"]}
    assert scores[host.id] < scores[farm.other(host.id).id], scores
    assert leases() == [], "nothing but the report says where the user is"

    back = visit(gateway, ann)
    assert (back.host, back.kind) == (host.id, "reconnected")
    assert gateway.placements(ann)[0]["reason"] == "disconnected session there"
    gateway.leave(back.client)
    until(lambda: sessions() == [(host.id, "disconnected")], 20, lambda: f"{sessions()}\n{gateway.process.tail()}")
    # Of an end the store is told a moment later.
    until(lambda: [lease["state"] for lease in leases()] == ["lingering"], 20, "a session left behind keeps its lease")

    gateway.told("sessions", "logoff", host.id, "--user", ann.name)
    until(lambda: leases() == [], 30, lambda: f"{leases()} {sessions()}\n{gateway.process.tail()}")
    assert sessions() == []
    done = gateway.lines("Command answered")
    assert [(line["kind"], line["ok"]) for line in done] == [("logoff", True)], done
    crowd.close()
