"""Traces, of a build with the feature otel: what a collector receives of real connections, what it never does, and
what the log says of them. The build costs most of the time here."""

import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading

import pytest

from mounted import BINARY, DEADLINE, eventually
from rendered import REPO
from scene import Broker, Guacd, Host


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """The binary with the feature. What else is built from here stays as it is."""
    if not shutil.which("cargo"):
        pytest.skip("needs cargo")
    debug = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target")) / "debug"
    built, folder = debug / "sessionguard", tmp_path_factory.mktemp("traced")
    before = shutil.copy2(built, folder / "before") if built.exists() else None
    try:
        done = subprocess.run(["cargo", "build", "--locked", "--features", "otel", "--bin", "sessionguard"], cwd=REPO,
                              capture_output=True, text=True, timeout=1200)
        assert done.returncode == 0, done.stderr
        yield shutil.copy2(built, folder / "sessionguard")
    finally:
        if before:
            built.unlink()
            shutil.copy2(before, built)


class Collector:
    """Takes OTLP, and keeps it."""

    def __init__(self):
        self.bodies = bodies = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                bodies.append((self.path, self.headers["Content-Type"], body.decode()))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self):
        """By name, in the order they began."""
        found = []
        for path, kind, body in self.bodies:
            assert (path, kind) == ("/v1/traces", "application/json")
            for resource in json.loads(body)["resourceSpans"]:
                named = attributes(resource["resource"])
                assert named["service.name"] == "sessionguard" and named["service.version"]
                found += [span for scope in resource["scopeSpans"] for span in scope["spans"]]
        return sorted(found, key=lambda span: int(span["startTimeUnixNano"]))

    def text(self):
        return "".join(body for _, _, body in self.bodies)


def attributes(of):
    return {each["key"]: next(iter(each["value"].values())) for each in of.get("attributes", [])}


@pytest.fixture
def stage():
    collector, guacd, hosts = Collector(), Guacd(), {"rds1": Host(), "rds2": Host()}
    yield collector, guacd, hosts
    collector.server.shutdown()
    for each in [guacd, *hosts.values()]:
        each.close()


def settings(port, more=""):
    return {"log": f'format = "json"\ntraces = "127.0.0.1:{port}"\n{more}'}


def ended(broker):
    """Told to end, which sends what is still there."""
    broker.process.send_signal(signal.SIGTERM)
    assert broker.process.wait(DEADLINE) == 0
    broker.reader.wait(DEADLINE)


def tree(spans, of=""):
    """Names and those below them, in order."""
    return [(span["name"], tree(spans, span["spanId"])) for span in spans if span.get("parentSpanId", "") == of]


def test_a_connection_is_one_trace_from_its_first_byte_to_its_last_line(traced, stage, tmp_path):
    collector, guacd, hosts = stage
    with Broker(tmp_path / "a", guacd, hosts, settings=settings(collector.port), binary=traced) as broker:
        # Said nothing, which is no connection of anybody's.
        socket.create_connection(("127.0.0.1", broker.port)).close()
        guacd.failures = 1
        visitor = broker.visit("ann")
        assert visitor.refused is None
        visitor.leave()
        broker.line("Tunnel ended")
        ended(broker)
        log = [json.loads(line) for line in broker.log.read_text().splitlines()]
    spans = collector.spans()
    assert tree(spans) == [("connection", [
        ("handshake", [("placement", [("claim", [])])]),
        ("attempt", []),
        ("placement", [("claim", [])]),
        ("attempt", []),
        ("relay", []),
    ])], spans
    (trace,) = {span["traceId"] for span in spans}
    by_id = {span["spanId"]: span for span in spans}
    for span in spans:
        begins, ends = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        above = by_id.get(span.get("parentSpanId"), span)
        assert int(above["startTimeUnixNano"]) <= begins <= ends <= int(above["endTimeUnixNano"]), span

    # The same as the log says, line by line.
    of_trace = [line for line in log if line.get("trace_id") == trace]
    assert all(line["span_id"] in by_id for line in of_trace)
    placed = [line for line in of_trace if line["message"] == "Placed"]
    (last,) = [line for line in of_trace if line["message"] == "Tunnel ended"]
    (connection,) = [span for span in spans if span["name"] == "connection"]
    assert last["span_id"] == connection["spanId"]
    told = attributes(connection)
    assert (told["tunnel"], told["by"], told["phase"]) == (last["tunnel"], "guacamole", "stood")
    assert int(told["attempts"]) == 2
    decided = [attributes(span) for span in spans if span["name"] == "placement"]
    for line, span in zip(placed, decided, strict=True):
        assert all(span[name] == line[name] for name in ["decision_id", "host", "farm", "resource", "reason"])
    attempts = [attributes(span) for span in spans if span["name"] == "attempt"]
    assert [each["result"] for each in attempts] == ["failed", "stood"]
    assert [each["host"] for each in attempts] == [line["host"] for line in placed]
    (relay,) = [attributes(span) for span in spans if span["name"] == "relay"]
    assert int(relay["to_guacamole"]) == last["to_guacamole"] > 0
    # What is of no connection is of no trace.
    assert not any("trace_id" in line for line in log if line["message"] in ("Listening", "Stopped"))
    # Nobody's name, nothing that Guacamole sent.
    assert "ann" in json.dumps(placed)
    for secret in ["ann", "not told", "Aborted"]:
        assert secret not in collector.text()


def test_a_refusal_is_an_error_and_users_are_named_where_that_is_wanted(traced, stage, tmp_path):
    collector, guacd, hosts = stage
    wanted = settings(collector.port, "traces_users = true\n")
    with Broker(tmp_path / "a", guacd, hosts, settings=wanted, binary=traced) as broker:
        assert broker.visit("ann", "nothing").refused == 0x204
        broker.line("Tunnel ended")
        visitor = broker.visit("bob")
        visitor.leave()
        eventually("both have ended", lambda: len(broker.lines("Tunnel ended")) == 2)
        ended(broker)
    refused, served = [span for span in collector.spans() if span["name"] == "connection"]
    assert refused["traceId"] != served["traceId"]
    assert refused["status"]["code"] == 2 and attributes(refused)["status"] == "RESOURCE_NOT_FOUND"
    assert served.get("status", {}).get("code", 0) == 0
    decided = {span["traceId"]: attributes(span) for span in collector.spans() if span["name"] == "placement"}
    assert decided[refused["traceId"]]["refusal"] == "unknown-resource"
    assert decided[served["traceId"]]["user"] == "bob"
    assert "not told" not in collector.text()


def test_a_collector_that_is_away_costs_nobody_anything_and_is_said_once(traced, stage, tmp_path):
    collector, guacd, hosts = stage
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Broker(tmp_path / "a", guacd, hosts, settings=settings(port), binary=traced) as broker:
        visitors = [broker.visit(user) for user in ["ann", "bob"]]
        assert [each.refused for each in visitors] == [None] * 2
        for each in visitors:
            each.leave()
        eventually("both have ended", lambda: len(broker.lines("Tunnel ended")) == 2)
        ended(broker)
        (said,) = broker.lines("Traces are lost: the collector does not take them")
        assert said["level"] == "WARN" and said["lost"] > 0


def test_what_was_built_without_says_so(tmp_path):
    config = tmp_path / "sessionguard.toml"
    config.write_text('[log]\ntraces = "127.0.0.1:4318"\n')
    done = subprocess.run([BINARY, "check", "--config", str(config)], capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 78
    assert "this sessionguard was built without traces" in done.stderr and "--features otel" in done.stderr
