"""From requests to chat completions: what each server needs, without what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.llm.sample_requests import SCAN, assistant, call, request, result, system, user
from zoea.llm.messages.message_rules import EMPTY, NO_OUTPUT, OPENING
from zoea.llm.model_traits import Trait, trait_in
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.providers.openai_request import body_of, effort_of, forms_in
from zoea.model.enums import ToolMode
from zoea.model.request import NO_RESPONSE, ModelRequest, RequestMessage
from zoea.model.values import Native

PLAIN = ProviderConfig("openai", model="reef-1")


def body(
    asked: ModelRequest, config: ProviderConfig = PLAIN, *traits: Trait, without_thinking: bool = False
) -> dict[str, Any]:
    return body_of(asked, config, provider="reefnet", traits=frozenset(traits), without_thinking=without_thinking)


def test_a_loop_slice_goes_out_with_zoeas_own_ids() -> None:
    sent = body(request(system(), user(), assistant("I look.", call()), result("ore"), tools=(SCAN,)))
    assert sent["messages"] == [
        {"role": "system", "content": "You are a mysis."},
        {"role": "user", "content": "Report."},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "scan", "arguments": '{"sector":"a"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "ore"},
    ]
    assert sent["tools"] == [
        {
            "type": "function",
            "function": {"name": "scan", "description": "Look around", "parameters": SCAN.input_schema},
        }
    ]


def test_the_output_limit_and_usage_are_always_requested() -> None:
    sent = body(request(max_output_tokens=77))
    assert (sent["max_tokens"], sent["stream"], sent["stream_options"]) == (77, True, {"include_usage": True})
    assert "temperature" not in sent
    assert "tools" not in sent


def test_system_messages_become_one_and_nothing_is_put_before_a_history() -> None:
    sent = body(request(system("One."), assistant("", call()), result(), system(" "), system("Two."), user()))
    assert [one["role"] for one in sent["messages"]] == ["system", "assistant", "tool", "user"]
    assert sent["messages"][0]["content"] == "One.\n\nTwo."


@walk_cases(
    ("trait", "said", "opened"),
    [
        (Trait.USER_FIRST, (assistant("Earlier."), user()), True),
        (Trait.USER_FIRST, (assistant("", call()), result(), user()), False),
        (Trait.USER_BEFORE_CALLS, (assistant("", call()), result(), user()), True),
        (Trait.USER_BEFORE_CALLS, (assistant("Earlier."), user()), False),
        (Trait.USER_FIRST, (user(), assistant("so"), user()), False),
    ],
)
def test_a_user_message_comes_first_if_the_server_demands_it(
    trait: Trait, said: tuple[RequestMessage, ...], opened: bool
) -> None:
    first = body(request(system(), *said), PLAIN, trait)["messages"][1]
    assert (first == {"role": "user", "content": OPENING}) is opened


@walk_cases(
    ("text", "said", "trait"),
    [
        ("After the system message, roles must alternate", assistant("Earlier."), Trait.USER_FIRST),
        ("After the system message, roles must alternate", assistant("", call()), Trait.MERGED_USERS),
        ("The first message must be from the user", assistant("Earlier."), Trait.USER_FIRST),
        (
            "Please ensure that function call turn comes immediately after a user turn",
            assistant("", call()),
            Trait.USER_BEFORE_CALLS,
        ),
    ],
)
def test_a_refused_history_teaches_what_must_come_first(text: str, said: RequestMessage, trait: Trait) -> None:
    sent = body(request(system(), said, result(), user(), tools=(SCAN,)))
    assert trait_in(400, text, forms_in(sent, ToolMode.AUTO), frozenset()) is trait
    assert trait_in(400, text, forms_in(sent, ToolMode.AUTO), frozenset({trait})) in (None, Trait.MERGED_USERS)


def test_no_message_is_sent_empty() -> None:
    sent = body(request(user(" "), assistant(""), user(), assistant("", call()), result("")))
    assert [one["content"] for one in sent["messages"]] == [EMPTY, NO_RESPONSE, "Report.", None, NO_OUTPUT]


def test_a_request_without_messages_gets_an_opening_message() -> None:
    assert body(request(system()))["messages"][-1] == {"role": "user", "content": OPENING}


@pytest.mark.parametrize(
    ("told", "sent"), [("no such sector", "Error: no such sector"), ("error: lost", "error: lost")]
)
def test_a_failed_result_says_so(told: str, sent: str) -> None:
    asked = request(user(), assistant("", call()), result(told, is_error=True))
    assert body(asked)["messages"][-1]["content"] == sent


def test_the_requests_own_temperature_and_options_win() -> None:
    config = ProviderConfig("openai", temperature=0.2, options={"seed": 1, "top_p": 0.9})
    sent = body(request(temperature=0.0, options={"seed": 2}), config)
    assert (sent["temperature"], sent["seed"], sent["top_p"]) == (0.0, 2, 0.9)
    assert body(request(), config)["temperature"] == 0.2


def test_the_model_of_the_provider_is_used_if_the_request_names_none() -> None:
    assert body(request(model=""))["model"] == "reef-1"


@walk_cases(
    ("thinking", "effort"),
    [(None, None), (True, None), ("on", None), ("high", "high"), (False, "none"), ("off", "none"), (2048, None)],
)
def test_a_thinking_setting_that_names_an_effort_is_sent_as_effort(
    thinking: bool | int | str | None, effort: str | None
) -> None:
    assert effort_of(thinking) == effort
    config = ProviderConfig("openai", thinking=thinking)
    assert body(request(), config).get("reasoning_effort") == effort
    assert "reasoning_effort" not in body(request(), config, without_thinking=True)


def test_reasoning_goes_back_beside_its_calls_to_the_families_that_want_it() -> None:
    said = (user(), assistant("", call(), reasoning="why"), result(), assistant("done", reasoning="so"))
    wanted = body(request(*said), PLAIN, Trait.REASONING_BACK)["messages"]
    assert [one.get("reasoning_content") for one in wanted] == [None, "why", None, None]
    filled = body(request(*said[:-1], assistant("done")), PLAIN, Trait.REASONING_FILLED)["messages"]
    assert [one.get("reasoning_content") for one in filled] == [None, "why", None, " "]
    assert all("reasoning_content" not in one for one in body(request(*said))["messages"])
    assert all(
        "reasoning_content" not in one
        for one in body(request(*said), PLAIN, Trait.REASONING_BACK, without_thinking=True)["messages"]
    )


def test_native_blocks_go_back_unchanged_to_their_own_provider_and_model() -> None:
    blocks = [
        {"type": "detail", "detail": {"type": "reasoning.encrypted", "data": "x"}},
        {"type": "extra", "position": 0, "extra_content": {"google": {"thought_signature": "s"}}},
        {"type": "extra", "position": 7, "extra_content": {}},
    ]
    native = Native("reefnet", "deepseek-chat", json.dumps(blocks))
    said = (user(), assistant("", call(), reasoning="why", native=native), result())
    sent = body(request(*said, model="deepseek-chat"))["messages"][1]
    assert sent["reasoning_details"] == [{"type": "reasoning.encrypted", "data": "x"}]
    assert "reasoning_content" not in sent
    assert sent["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "s"}}
    assert "reasoning_details" not in body(request(*said, model="kimi-k2"))["messages"][1]
    assert "reasoning_details" not in body(request(*said, model="deepseek-chat"), without_thinking=True)["messages"][1]


def test_each_request_of_a_turn_begins_with_the_one_before() -> None:
    said = [system(), user(), assistant("", call()), result(), assistant("", call("c2")), result("gold", "c2")]
    shorter = body(request(*said[:4]))["messages"]
    assert body(request(*said))["messages"][: len(shorter)] == shorter


@walk_cases(
    ("trait", "gone", "there"),
    [
        (Trait.NO_STREAM_OPTIONS, "stream_options", "max_tokens"),
        (Trait.COMPLETION_TOKENS, "max_tokens", "max_completion_tokens"),
        (Trait.NO_TEMPERATURE, "temperature", "max_tokens"),
        (Trait.NO_TOOLS, "tools", "response_format"),
    ],
)
def test_refused_options_are_left_out(trait: Trait, gone: str, there: str) -> None:
    sent = body(request(tools=(SCAN,), temperature=0.5), PLAIN, trait)
    assert gone not in sent
    assert there in sent


def test_a_strict_template_gets_neighbouring_messages_as_one() -> None:
    asked = request(user("a"), user("b"), assistant("c"), assistant("d"), assistant("", call()), result(), user("e"))
    sent = body(asked, PLAIN, Trait.MERGED_USERS)["messages"]
    assert [one["content"] for one in sent] == ["a\n\nb", "c\n\nd", None, "ore", "e"]


@walk_cases(
    ("status", "text", "trait"),
    [
        (400, "Unknown field: stream_options", Trait.NO_STREAM_OPTIONS),
        (400, "'max_tokens' is unknown. Use 'max_completion_tokens' instead.", Trait.COMPLETION_TOKENS),
        (400, "Unsupported value: 'temperature' does not support 0.5", Trait.NO_TEMPERATURE),
        (404, "No endpoints found that support tool use", Trait.NO_TOOLS),
        (500, "tools param requires --jinja flag", Trait.NO_TOOLS),
        (500, "Conversation roles must alternate user/assistant", Trait.MERGED_USERS),
        (400, "something else", None),
        (429, "does not support tools", None),
        (500, "temperature sensor broke", None),
    ],
)  # fmt: skip
def test_a_refusal_teaches_what_to_leave_out(status: int, text: str, trait: Trait | None) -> None:
    sent = body(request(tools=(SCAN,), temperature=0.5))
    assert trait_in(status, text, forms_in(sent, ToolMode.AUTO), frozenset()) is trait
    if trait is not None:
        again = trait_in(status, text, forms_in(sent, ToolMode.AUTO), frozenset({trait}))
        assert again is (Trait.NO_SYSTEM if trait is Trait.MERGED_USERS else None)


def test_tools_stay_native_if_set() -> None:
    native = ProviderConfig("openai", tool_mode=ToolMode.NATIVE)
    sent = body(request(tools=(SCAN,)), native, Trait.NO_TOOLS)
    assert "tools" in sent
    assert trait_in(400, "does not support tools", forms_in(sent, ToolMode.NATIVE), frozenset()) is None
