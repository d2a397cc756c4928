"""Calls are whole however a server numbers, names and cuts their pieces.

The forms are those of public reports; the sources stand beside them (repository and number).
"""

# ruff: noqa: E501  a form stands on one line, to be compared with its neighbours

from __future__ import annotations

import json
from typing import Any

from tests.case_tables import walk_cases
from tests.fakes.openai_server import OpenAIServer, Say
from tests.llm.sample_requests import answer, provider, request
from zoea.llm.messages.call_pieces import CallPieces
from zoea.llm.providers.anthropic_stream import MessageStreamDecoder
from zoea.model.request import ToolSpec

NORTH, SOUTH = "north", "south"
TOOLS = frozenset({NORTH, SOUTH, "northeast"})
NO_INDEX: Any = object()


def p(name: str | None = None, arguments: Any = None, index: Any = 0, id: Any = NO_INDEX) -> dict[str, Any]:
    """One piece; what is left out of the call is left out of it."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    piece: dict[str, Any] = {"type": "function", "function": function}
    if index is not NO_INDEX:
        piece["index"] = index
    if id is not NO_INDEX:
        piece["id"] = id
    return piece


ONE, TWO = '{"km": 1}', '{"km": 2}'
BOTH = [(NORTH, {"km": 1}), (SOUTH, {"km": 2})]
TWICE = [(NORTH, {"km": 1}), (NORTH, {"km": 2})]
SEVEN = [(NORTH, {"km": 7})]

FORMS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, dict[str, Any]]]]] = {
    # The shared case of one index without ids: su-kaka/gcli2api#406, NousResearch/hermes-agent#62937,
    # huggingface/smolagents#1958.
    "index 0, no id, two tools": ([p(NORTH, ONE), p(SOUTH, TWO)], BOTH),
    "index 0, id '', one tool twice": ([p(NORTH, ONE, id=""), p(NORTH, TWO, id="")], TWICE),
    "no index, no id, no arguments": ([p(NORTH, "", NO_INDEX), p(SOUTH, "", NO_INDEX)], [(NORTH, {}), (SOUTH, {})]),
    "index 0, no id, no arguments": ([p(NORTH, ""), p(SOUTH, "")], [(NORTH, {}), (SOUTH, {})]),
    "index 0, other ids": ([p(NORTH, ONE, id="a"), p(SOUTH, TWO, id="b")], BOTH),
    # The shared case of pieces under another index: dirac-run/dirac#215.
    "index grows": ([p(NORTH, "", 0, "a"), p(None, '{"km"', 1), p(None, ": 7}", 2)], SEVEN),
    "begins at 1, goes on at 0": ([p(NORTH, "", 1, "a"), p(None, '{"km": 7}', 0)], SEVEN),
    "index as a text": ([p(NORTH, "", "0", "a"), p(None, '{"km": 7}', "0")], SEVEN),
    "id under one index, arguments under the one before": (  # danny-avila/LibreChat#13987
        [p(NORTH, "", 2, "a"), p(None, "", 1), p(None, '{"km"', 1), p(None, ": 7}", 1)],
        SEVEN,
    ),
    # The shared case of an empty identity: anomalyco/opencode#37841, #43328.
    "empty id and name in the rest": ([p(NORTH, "", 0, "a"), p("", '{"km"', 0, ""), p("", ": 7}", 0, "")], SEVEN),
    "null id in the rest": ([p(NORTH, "", 0, "a"), p(None, '{"km": 7}', 0, None)], SEVEN),
    "two of one tool under one index with ids": ([p(NORTH, ONE, id="a"), p(NORTH, TWO, id="b")], TWICE),  # apache/maka#1976
    "parallel pieces between each other": (  # QwenLM/Qwen-Agent#943
        [p(NORTH, "", 0, "a"), p(SOUTH, "", 1, "b"), p(None, '{"km"', 0), p(None, '{"km"', 1), p(None, ": 1}", 0), p(None, ": 2}", 1)],
        BOTH,
    ),
    "no index, ids at the beginning": (  # SamSaffron/term-llm#314, jin-bo/agentao#117
        [p(NORTH, '{"km"', NO_INDEX, "a"), p(None, ": 1}", NO_INDEX), p(SOUTH, '{"km"', NO_INDEX, "b"), p(None, ": 2}", NO_INDEX)],
        BOTH,
    ),
    "some with an index": ([p(NORTH, ONE, 0, "a"), p(SOUTH, '{"km"', NO_INDEX, "b"), p(None, ": 2}", NO_INDEX)], BOTH),  # jin-bo/agentao#117
    "head under 0, its rest under 1": (  # agno-agi/agno#8880
        [p(NORTH, ONE, 0, "a"), p(SOUTH, "", 0, "b"), p(None, '{"km": 2}', 1)],
        BOTH,
    ),
    "known id under another index": ([p(NORTH, '{"km"', 0, "a"), p(None, ": 7}", 3, "a")], SEVEN),  # agno-agi/agno#8880
    "index 0 and fragments for each": (  # LibreChat-AI/agents#260, ollama/ollama#15457
        [p(NORTH, '{"km"', 0, "a"), p(None, ": 1}", 0), p(SOUTH, '{"km"', 0, "b"), p(None, ": 2}", 0)],
        BOTH,
    ),
    "index 0 and fragments for each, without ids": (
        [p(NORTH, '{"km"'), p(None, ": 1}"), p(SOUTH, '{"km"'), p(None, ": 2}")],
        BOTH,
    ),
    "null index": ([p(NORTH, '{"km"', None, "a"), p(None, ": 7}", None)], SEVEN),  # openai/openai-python#3246
    "name cut": ([p("nor", "", 0, "a"), p("th", "", 0), p(None, '{"km": 7}', 0)], SEVEN),
    "name of another tool first": ([p("north", "", 0, "a"), p("east", "", 0), p(None, ONE, 0)], [("northeast", {"km": 1})]),
    "name in each piece": ([p(NORTH, '{"km"', 0, "a"), p(NORTH, ": 7}", 0, "a")], SEVEN),
    "name in each piece, no id": ([p(NORTH, '{"km"'), p(NORTH, ": 7}")], SEVEN),
    "another id in each piece": ([p(NORTH, '{"km"', 0, "a"), p(None, ": 7}", 0, "b")], SEVEN),
    "id after the name": ([p(NORTH, "", 0), p(None, '{"km": 7}', 0, "a")], SEVEN),
    "arguments again at the end": ([p(NORTH, '{"km"', 0, "a"), p(None, ": 7}", 0), p(None, '{"km": 7}', 0)], SEVEN),
    "more of the arguments in each piece": ([p(NORTH, '{"km"', 0, "a"), p(None, '{"km": ', 0), p(None, '{"km": 7}', 0)], SEVEN),
    "an empty object first": ([p(NORTH, "{}", 0, "a"), p(None, '{"km": 7}', 0)], SEVEN),
    "arguments of two joined by the server": ([p(NORTH, ONE + TWO, 0, "a")], TWICE),  # huggingface/smolagents#1569
    "arguments as an object": ([p(NORTH, {"km": 7}, NO_INDEX)], SEVEN),
    "blank pieces after the end": ([p(NORTH, '{"km": 7}', 0, "a"), p(None, "", 0), p(None, " ", 0)], SEVEN),
    "a number for an id": ([p(NORTH, '{"km"', 0, 7), p(None, ": 7}", 1, 7)], SEVEN),
    "arguments before the name": ([p(None, '{"km"', 0, "a"), p(NORTH, ": 7}", 0)], SEVEN),  # vercel/ai#14722
    "all arguments before the name": ([p(None, '{"km": 7}', 0, "a"), p(NORTH, "", 0)], SEVEN),
    "an empty name first": ([p("", "", 0, "a"), p(NORTH, '{"km": 7}', 0)], SEVEN),  # vercel/ai#16507
    "an empty name first, then the whole call": ([p("", "", 0, "a"), p(NORTH, '{"km": 7}', 0, "a")], SEVEN),  # jjang-ai/vmlx#244
    "a brace with the name": ([p(NORTH, "{", 0, "a"), p(None, '"km":', 0), p(None, "7", 0), p(None, "}", 0)], SEVEN),  # agentjido/req_llm#801
    "name and arguments apart in one delta": ([p(NORTH, None, 0, "a"), p(None, '{"km": 7}', 0)], SEVEN),  # vllm-project/vllm#42683
    "the same index twice in the first delta": ([p(NORTH, "", 0, "a"), p(None, '{"km"', 0), p(None, ": 7}", 0)], SEVEN),  # openai/openai-python#3201
    "name in three pieces": ([p("no", "", 0, "a"), p("rt", "", 0), p("h", '{"km": 7}', 0)], SEVEN),  # NVIDIA-NeMo/Switchyard#785
    "no index in the rest": ([p(NORTH, "", 0, "a"), p(None, '{"km": 7}', NO_INDEX)], SEVEN),  # AstrBotDevs/AstrBot#6692
    "an empty piece of arguments first": ([p(NORTH, "", 0, "a"), p(None, "", 0), p(None, '{"km": 7}', 0)], SEVEN),  # BerriAI/litellm#39288
    "no index, whole": ([p(NORTH, ONE, NO_INDEX, "a"), p(SOUTH, TWO, NO_INDEX, "b")], BOTH),  # EricLBuehler/mistral.rs#1507
    "arguments as an object, twice": ([p(NORTH, {"km": 1}, 0, "a"), p(NORTH, {"km": 2}, 0, "b")], TWICE),
    "no arguments at all": ([p(NORTH, None, 0, "a"), p(SOUTH, None, 1, "b")], [(NORTH, {}), (SOUTH, {})]),
    "null arguments": ([{"index": 0, "id": "a", "function": {"name": NORTH, "arguments": None}}], [(NORTH, {})]),
    "one id, head again at the end": ([p(NORTH, '{"km"', 0, "a"), p(None, ": 7}", 0), p(NORTH, "", 0, "a")], SEVEN),
    "index 1 first": ([p(NORTH, ONE, 1, "a"), p(SOUTH, TWO, 2, "b")], BOTH),
    "whole arguments again, of each of two": (  # lidge-jun/opencodex#361
        [p(NORTH, "", 0, "a"), p(None, ONE, 0), p(None, ONE, 0), p(SOUTH, "", 1, "b"), p(None, TWO, 1), p(None, TWO, 1)],
        BOTH,
    ),
    "arguments with the name, then again": ([p(NORTH, ONE, 0, "a"), p(None, ONE, 0)], [(NORTH, {"km": 1})]),  # 64bit/async-openai#329
    "counted from 1, side by side": (  # AstrBotDevs/AstrBot#9593
        [p(NORTH, "", 1, "a"), p(SOUTH, "", 2, "b"), p(None, ONE, 1), p(None, TWO, 2)],
        BOTH,
    ),
    "one index, other ids, rest in between": (  # google-deepmind/amplio#3
        [p(NORTH, '{"km"', 0, "a"), p(SOUTH, '{"km"', 0, "b"), p(None, ": 1}", 0, "a"), p(None, ": 2}", 0, "b")],
        BOTH,
    ),
    "an id in the first piece alone": ([p(NORTH, "", 0, "a"), p(None, '{"km"', 0, None), p(None, ": 7}", 0, None)], SEVEN),  # sigoden/aichat#1522
    "calls in reverse": ([p(NORTH, "", 1, "a"), p(SOUTH, "", 0, "b"), p(None, TWO, 0), p(None, ONE, 1)], BOTH),
}  # fmt: skip


@walk_cases("title", FORMS)
def test_pieces_become_the_calls_that_were_meant(title: str) -> None:
    pieces, meant = FORMS[title]
    joined = CallPieces(TOOLS)
    for piece in pieces:
        joined.add(piece)
    calls = joined.answer_calls(is_cut=False)
    assert [(call.name, json.loads(call.arguments)) for call in calls] == meant
    assert not any(call.broken for call in calls)


async def test_the_wire_knows_the_names_of_its_tools() -> None:
    deltas = [p(NORTH, ""), p(SOUTH, "")]
    frames = [f"data: {json.dumps({'choices': [{'delta': {'tool_calls': [one]}}]})}\n\n".encode() for one in deltas]
    end = b'data: {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}\n\n'
    async with OpenAIServer(Say(raw=(*frames, end))) as server:
        source = provider("openai", server.base_url)
        found = await answer(source, request(tools=(ToolSpec(NORTH, "", {}), ToolSpec(SOUTH, "", {}))))
        await source.close()
    assert [call.name for call in found.calls] == [NORTH, SOUTH]


async def test_the_call_of_the_form_before_tools_is_read() -> None:
    deltas = [{"name": NORTH, "arguments": ""}, {"arguments": '{"km": 7}'}]
    frames = [f"data: {json.dumps({'choices': [{'delta': {'function_call': one}}]})}\n\n".encode() for one in deltas]
    end = b'data: {"choices": [{"delta": {}, "finish_reason": "function_call"}]}\n\n'
    async with OpenAIServer(Say(raw=(*frames, end))) as server:
        source = provider("openai", server.base_url)
        found = await answer(source, request(tools=(ToolSpec(NORTH, "", {}),)))
        await source.close()
    assert [(call.name, call.arguments) for call in found.calls] == [(NORTH, '{"km":7}')]


def test_blocks_that_all_claim_index_0_are_blocks_of_their_own() -> None:
    def event(kind: str, **more: Any) -> bytes:
        return f"data: {json.dumps({'type': kind, 'index': 0, **more})}\n\n".encode()

    reader = MessageStreamDecoder("p", "m")
    for id, name, arguments in (("a", NORTH, ONE), ("b", SOUTH, TWO)):
        reader.feed(
            event("content_block_start", content_block={"type": "tool_use", "id": id, "name": name, "input": {}})
        )
        reader.feed(event("content_block_delta", delta={"type": "input_json_delta", "partial_json": arguments}))
    reader.feed(event("message_delta", delta={"stop_reason": "tool_use"}))
    assert [(one.name, json.loads(one.arguments)) for one in reader.answer().calls] == BOTH
