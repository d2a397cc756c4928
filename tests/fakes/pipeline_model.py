"""A model for the pipeline of `documentation/examples/pipeline`: it plans, works and validates."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.openai_server import Call, Say
from tests.fakes.wire_server import Received

PLAN = {
    "summary": "Keep the cookie",
    "plan": "Set the cookie's path.",
    "acceptance_criteria": [{"id": "A1", "criterion": "The login lasts"}],
}
WORK = {"summary": "Set the path", "can_validate": True}
REWORK = "The cookie has no expiry date."


def result(status: str) -> dict[str, Any]:
    errors = [] if status == "PASS" else [REWORK]
    return {"approved": not errors, "errors": errors, "criteria_results": [{"id": "A1", "status": status}]}


def play_role(request: Received) -> Say:
    """Answer as the role of the request: the first plan misses its schema, the first work is rejected."""
    messages = request.json["messages"]
    system, last = messages[0]["content"], messages[-1]
    if "Your role is planner" in system:
        is_second = "does not match the output schema" in text_of(last)
        return Say(json.dumps(PLAN if is_second else {"summary": "Keep the cookie"}))
    if "Your role is worker" in system:
        return Say(json.dumps(WORK))
    if "This is your turn 1 in" not in system:
        return Say(json.dumps(result("PASS")))
    if last["role"] == "tool":
        return Say(json.dumps(result("FAIL")))
    return Say(calls=(Call("zoea_publish", json.dumps({"topic": "REWORK_NEEDED", "text": REWORK})),))


def approve_at_once(request: Received) -> Say:
    """Answer as `play_role` does, with a validator that approves the first work."""
    if "Your role is validator" in request.json["messages"][0]["content"]:
        return Say(json.dumps(result("PASS")))
    return play_role(request)


def text_of(message: dict[str, Any]) -> str:
    """Return the text of a message, which may stand in parts."""
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())
