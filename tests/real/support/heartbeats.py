"""Read by schemathesis where test_api.py asks as a host's agent: of all texts, a heartbeat names its own host."""

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    if case.path.endswith("/agents/heartbeat") and isinstance(body, dict) and isinstance(body.get("agent_id"), str):
        body["agent_id"] = "rds1"
