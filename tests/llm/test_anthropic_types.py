"""Requests to Anthropic fit the types of the vendor's own SDK."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import TypeAdapter

from tests.case_tables import walk_cases
from tests.fakes.anthropic_server import count_marks, refusal, signature
from tests.llm.sample_requests import SCAN, assistant, call, request, result, system, user
from zoea.llm.messages.message_rules import OPENING
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.providers.anthropic_request import body_of
from zoea.model.request import RequestMessage
from zoea.model.values import Native


@cache
def vendor_types() -> TypeAdapter[Any]:
    """Load the SDK where a test needs it: it takes a sixth of the time in which a worker collects all tests."""
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    return TypeAdapter(MessageCreateParamsStreaming)


def signed(*blocks: dict[str, Any]) -> Native:
    return Native("reefnet", "reef-1", json.dumps(blocks))


def thought(text: str = "why") -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature(text)}


USE: dict[str, Any] = {"type": "tool_use"}
BLANK: dict[str, Any] = {"type": "text", "text": "\n\n"}
HISTORY: dict[str, tuple[RequestMessage, ...]] = {
    "nothing": (),
    "an answer": (assistant("Earlier."),),
    "an empty answer": (assistant(" "),),
    "a slice of another model": (assistant("I look.", call("h1")), result("ore", "h1")),
    "a slice with thinking": (assistant("", call("h1"), native=signed(thought(), USE)), result("", "h1")),
    "a compacted slice": (
        assistant("cut", call("h1", arguments="{"), native=signed(thought(), {"type": "text", "text": "long"}, USE)),
        result("cut", "h1", is_error=True),
    ),
    "results alone": (assistant("", call("h1"), call("h2")), result("a", "h1"), result("b", "h2")),
}
LOOP = (
    assistant("", call("c1"), native=signed(thought("one"), BLANK, USE)),
    result("ore", "c1"),
    assistant("So.", call("c2"), native=signed({"type": "redacted_thinking", "data": "sig-x"}, USE)),
    result("", "c2"),
    user("Steered."),
)


def drained(value: Any) -> Any:
    """What the types keep of a value: lists are read lazily, and keys they do not know are left out."""
    if isinstance(value, dict):
        return {key: drained(inner) for key, inner in value.items()}
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        return value
    return [drained(inner) for inner in value]


def blocks_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for message in body["messages"] for block in message["content"]]


@walk_cases("thinking", [None, False, True, "high", 2000], ids=str)
@walk_cases("history", HISTORY)
@walk_cases("loop", [0, 2, 4, 5])
def test_every_request_of_a_turn_is_one_that_the_sdk_would_send(
    history: str, loop: int, thinking: bool | int | str | None
) -> None:
    asked = request(system(), *HISTORY[history], user(), *LOOP[:loop], tools=(SCAN, SCAN))
    body = body_of(asked, ProviderConfig("anthropic", thinking=thinking), provider="reefnet")
    assert drained(vendor_types().validate_python(body)) == body
    assert count_marks(body) <= 4
    assert body["messages"][0]["role"] == "user"
    assert all(block["text"].strip() for block in blocks_of(body) if block["type"] == "text")
    assert refusal(body) is None


@walk_cases(("history", "opened"), [("nothing", False), ("an answer", True), ("results alone", True)])
def test_a_user_message_stands_before_a_history_and_only_there(history: str, opened: bool) -> None:
    body = body_of(request(*HISTORY[history], user()), ProviderConfig("anthropic"), provider="reefnet")
    assert (body["messages"][0]["content"][0]["text"] == OPENING) is opened


def test_a_history_stays_the_same_bytes_as_the_turn_goes_on() -> None:
    config = ProviderConfig("anthropic", thinking=True)
    bodies = []
    for loop in (0, 2, 4):
        asked = request(system(), *HISTORY["a slice with thinking"], user(), *LOOP[:loop], tools=(SCAN,))
        body = body_of(asked, config, provider="reefnet")
        for block in blocks_of(body):
            block.pop("cache_control", None)
        bodies.append(body["messages"])
    for shorter, longer in pairwise(bodies):
        assert longer[: len(shorter)] == shorter


def test_a_key_the_sdk_does_not_know_would_be_found() -> None:
    body = body_of(request(user()), ProviderConfig("anthropic"), provider="reefnet")
    body["messages"][0]["content"][0]["colour"] = "coral"
    assert drained(vendor_types().validate_python(body)) != body
