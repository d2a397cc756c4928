"""`tool.show`: tools of upstreams that stand as a line until they are needed, and calls of them as direct ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.types import ToolAnnotations

from tests.swarm.harness import Swarm, call, script, swarm
from tests.swarm.test_late_results import begin_call, wait_for_late
from zoea.context.explain import explain
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.enums import CALL_TOOL, FIND_TOOL, ApprovalAnswer, Outcome, ToolShow
from zoea.model.request import Answer, AnswerCall
from zoea.queries.request_inspection import inspect_request, read_requests
from zoea.settings.schema import Settings
from zoea.tools import OwnTools, ToolPolicy, UpstreamConfig

BY_NEED = ToolPolicy(show=ToolShow.SEARCH, own=OwnTools.SLIM)
SLIM = ("zoea_ask", "zoea_wait", "zoea_done", "zoea_recall", "zoea_read_memory")
"""The own tools of a mysis that is alone."""
PEERS = ("look", "act", "burn", "say_ticks")


def by_need(name: str, text: str = "x", **more: Any) -> AnswerCall:
    return AnswerCall(CALL_TOOL, json.dumps({"name": name, "arguments": {"text": text, **more}}), f"c-{name}-{text}")


def answers(*turns: Sequence[AnswerCall] | str) -> list[Answer]:
    return [Answer(text=one) if isinstance(one, str) else Answer(calls=tuple(one)) for one in turns]


def offered(s: Swarm, request: int = -1) -> list[str]:
    return [tool.name for tool in s.provider.requests[request].tools]


def listed(s: Swarm, request: int = -1) -> list[str]:
    """The names that stand as a line."""
    find = next((tool for tool in s.provider.requests[request].tools if tool.name == FIND_TOOL), None)
    return [line.split(":")[0][2:] for line in find.description.splitlines()[1:]] if find else []


async def told(s: Swarm, *texts: str) -> None:
    if "alpha" not in [one.mysis.name for one in s.commander.swarm.runners.values()]:
        await s.commander.create("alpha", start=False)
    for text in texts:
        await s.ask("alpha", text)


async def test_tools_stand_as_a_line_until_they_are_used_and_then_whole(tmp_path: Path) -> None:
    replies = answers([by_need("act")], "done", "fine", [call("look")], "seen", "fine")
    async with swarm(tmp_path, script(*replies), policy=BY_NEED) as s:
        await told(s, "go")
        assert offered(s, 0) == offered(s, 1) == [*SLIM, FIND_TOOL, CALL_TOOL]
        assert listed(s, 0) == list(PEERS)
        await told(s, "again")
        assert offered(s) == [*SLIM, FIND_TOOL, CALL_TOOL, "act"]
        assert listed(s) == ["look", "burn", "say_ticks"]
        await told(s, "look by its own name", "and now")
        assert offered(s) == [*SLIM, FIND_TOOL, CALL_TOOL, "look", "act"]
        assert s.peer.seen == [("act", "x"), ("look", "x")]


async def test_the_list_shrinks_when_the_earlier_turns_are_cut(tmp_path: Path) -> None:
    replies = answers([by_need("act")], "one", [by_need("look")], "two", "three", "four", "five")
    settings = Settings.model_validate({"context": {"keep_turns": 2}})
    async with swarm(tmp_path, script(*replies), policy=BY_NEED, settings=settings) as s:
        await told(s, "1", "2", "3")
        assert {"act", "look"} <= set(offered(s))
        await told(s, "4")
        frozen = [json.loads(row["frozen"]) for row in await s.rows("SELECT frozen FROM turn ORDER BY number")]
        assert [[turn for turn, _ in one["earlier"]] for one in frozen] == [[], [1], [1, 2], [3]]
        assert not {"act", "look"} & set(offered(s))


async def test_records_screen_and_model_know_only_the_inner_tool(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*answers([by_need("act", "this")], "done")), policy=BY_NEED) as s:
        await told(s, "go")
        [row] = await s.rows("SELECT name, upstream, arguments, state FROM tool_call")
        assert row == {"name": "act", "upstream": "peer", "arguments": '{"text": "this"}', "state": "done"}
        [shown] = [one for one in s.provider.requests[1].messages if one.calls]
        assert [(one.name, one.arguments) for one in shown.calls] == [("act", '{"text": "this"}')]
        assert ("tool", "act did this") in s.sent()[1]


async def test_a_search_shows_how_a_tool_is_called(tmp_path: Path) -> None:
    search = AnswerCall(FIND_TOOL, '{"query": "burn"}')
    async with swarm(tmp_path, script(*answers([search], "done")), policy=BY_NEED) as s:
        await told(s, "go")
        [(_, found)] = [one for one in s.sent()[1] if one[0] == "tool"]
        first = json.loads(found.splitlines()[0])
        assert (first["name"], list(first["arguments"])) == ("burn", ["text"])


async def test_an_approval_is_asked_for_the_inner_tool_and_its_grant_holds_for_both_ways(tmp_path: Path) -> None:
    replies = answers([by_need("burn", "a")], [call("burn", "b")], [by_need("burn", "c")], "done")
    async with swarm(tmp_path, script(*replies), policy=BY_NEED) as s:
        await s.tell("alpha", "go")
        row = s.commander.swarm.live_view.row(s.commander.swarm.runner("alpha").mysis.id)
        await s.until(lambda: row.approvals)
        [asked] = await s.commander.approvals()
        assert (asked.tool, asked.upstream, asked.arguments) == ("burn", "peer", '{"text": "a"}')
        assert s.peer.seen == []
        await s.commander.answer(asked.id, ApprovalAnswer.SESSION)
        await s.settled()
        assert s.peer.seen == [("burn", "a"), ("burn", "b"), ("burn", "c")]


async def test_a_denied_tool_is_neither_listed_nor_found_nor_called(tmp_path: Path) -> None:
    policy = ToolPolicy(show=ToolShow.SEARCH, deny=("burn",))
    search = AnswerCall(FIND_TOOL, '{"query": "burn"}')
    async with swarm(tmp_path, script(*answers([search], [by_need("burn")], "done")), policy=policy) as s:
        await told(s, "go")
        assert "burn" not in listed(s)
        _, searched, wrong = [text for role, text in s.sent()[2] if role in ("tool", "user")]
        assert "Burns." not in searched
        assert wrong.startswith("there is no tool burn")
        assert s.peer.seen == []


async def test_a_wrong_name_is_answered_with_the_tools_that_the_turn_offers(tmp_path: Path) -> None:
    wrong = [by_need("send_message"), by_need("xyz")]
    async with swarm(tmp_path, script(*answers(wrong, "alone", wrong, "together")), policy=BY_NEED) as s:
        await told(s, "go")
        await s.commander.create("beta", start=False)
        await told(s, "again")
        alone, together = ([text for _, text in s.sent()[place][-2:]] for place in (1, 3))
        assert alone[0].startswith("there is no tool send_message; there are: ")
        assert not [text for text in alone for name in ("zoea_send_message", "zoea_list_myses") if name in text]
        assert together[0].startswith("there is no tool send_message; did you mean zoea_send_message?")
        assert "zoea_list_myses" in together[1]


async def test_reading_calls_run_together_and_identical_ones_once_either_way(tmp_path: Path) -> None:
    calls = [by_need("look", "a"), call("look", "b"), by_need("look", "a"), call("look", "a")]
    async with swarm(tmp_path, script(*answers(calls, "done")), policy=BY_NEED) as s:
        await told(s, "go")
        assert sorted(s.peer.seen) == [("look", "a"), ("look", "b")]
        assert s.peer.most_running == 2


async def test_the_loop_guard_counts_calls_of_both_ways_together(tmp_path: Path) -> None:
    replies = answers([by_need("act")], [call("act")], [by_need("act")], [call("act")], "done")
    async with swarm(tmp_path, script(*replies), policy=BY_NEED) as s:
        await told(s, "go")
        assert await s.value("SELECT outcome FROM turn") == Outcome.LOOP
        assert "the same call 3 times, with the same result: act" in await s.value("SELECT content FROM turn_note")


async def test_a_secret_is_masked_in_both_ways_and_where_no_tool_is_named(tmp_path: Path) -> None:
    secret = "hunter2-canary"
    lost = AnswerCall(CALL_TOOL, json.dumps({"name": "actt", "arguments": {"password": secret}}), "lost")
    replies = answers([by_need("act", "a", password=secret)], [lost], "done")
    async with swarm(tmp_path, script(*replies), policy=BY_NEED) as s:
        await told(s, "go")
        stored = await s.rows("SELECT arguments FROM tool_call ORDER BY id")
        assert not any(secret in row["arguments"] for row in stored)
        assert "‹secret:" in stored[0]["arguments"]
        sent = [one.arguments for request in s.provider.requests for m in request.messages for one in m.calls]
        assert sent
        assert not any(secret in one for one in sent)


async def test_a_result_that_comes_late_belongs_to_the_inner_tool(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*answers([by_need("act", "slow")], "I see")), policy=BY_NEED) as s:
        gate = await begin_call(s)
        await s.commander.stop("alpha")
        gate.set()
        await wait_for_late(s)
        await s.commander.start("alpha")
        await told(s, "and now?")
        note = s.sent()[-1][-2][1]
        assert "act(" in note
        assert CALL_TOOL not in note
        assert note.endswith("was carried out:\nact did slow")


async def test_pinned_tools_stand_whole_and_own_tools_can_be_called_through_it(tmp_path: Path) -> None:
    policy = ToolPolicy(show=ToolShow.SEARCH, own=OwnTools.SLIM, pin=("say_*",))
    waits = AnswerCall(CALL_TOOL, '{"name": "zoea_wait", "arguments": {"seconds": 5}}')
    async with swarm(tmp_path, script(*answers([waits])), policy=policy) as s:
        await told(s, "go")
        assert offered(s) == [*SLIM, FIND_TOOL, CALL_TOOL, "say_ticks"]
        assert await s.value("SELECT outcome FROM turn") == Outcome.ANSWERED
        assert await s.value("SELECT name FROM tool_call") == "zoea_wait"


async def test_a_call_by_the_name_of_an_own_tool_that_is_not_offered_works(tmp_path: Path) -> None:
    policy = ToolPolicy(own=OwnTools.SLIM)
    search = AnswerCall("zoea_search_messages", '{"query": "beryllium"}')
    async with swarm(tmp_path, script(*answers("noted", [search], "found")), policy=policy) as s:
        await told(s, "The vein of beryllium is at s3", "Where is it?")
        assert "zoea_search_messages" not in offered(s)
        assert "The vein of beryllium" in dict(s.sent()[-1])["tool"]


async def test_a_template_that_denies_the_search_shows_all(tmp_path: Path) -> None:
    policy = ToolPolicy(show=ToolShow.SEARCH, deny=("zoea_*",))
    async with swarm(tmp_path, script(*answers("fine")), policy=policy) as s:
        await told(s, "go")
        assert offered(s) == list(PEERS)


async def test_the_plan_says_which_tools_stand_as_a_line_and_why(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*answers("fine")), policy=BY_NEED) as s:
        await told(s, "go")
        inspection = inspect_request(s.path, read_requests(s.path, 1)[0].id)
        assert inspection.plan is not None
        note = f"4 tools stand as one line each in {FIND_TOOL} (tool.show = search)."
        assert note in explain(inspection.plan).splitlines()
        assert FIND_TOOL in [tool.name for tool in inspection.tools]


def many_tools(count: int) -> UpstreamConfig:
    server: MCPServer[Any] = MCPServer("yard", log_level="ERROR")

    async def dig(depth: int = 1) -> str:
        return f"dug {depth}"

    for number in range(count):
        annotations = ToolAnnotations(read_only_hint=False, destructive_hint=False)
        server.add_tool(dig, name=f"dig_{number}", description="Digs. " * 60, annotations=annotations)
    return UpstreamConfig("yard", server=server)


@pytest.mark.parametrize(
    ("tools", "window", "why"),
    [
        (32, 50_000, "tool.show = auto: the schemas of "),
        (20, 8_192, "tool.show = auto: all schemas take "),
        (20, 50_000, ""),
        (2, 8_192, ""),
    ],
)
async def test_auto_shows_tools_by_need_where_they_take_much(tmp_path: Path, tools: int, window: int, why: str) -> None:
    policy = ToolPolicy(show=ToolShow.AUTO, own=OwnTools.SLIM)
    provider = ScriptedProvider(script(*answers("fine")), context_window=window)
    async with swarm(tmp_path, provider=provider, policy=policy, upstreams=[many_tools(tools)]) as s:
        await told(s, "go")
        assert (FIND_TOOL in offered(s)) == bool(why)
        note = await s.value("SELECT frozen ->> '$.tools_note' FROM turn")
        assert why in note if why else note == ""


async def test_the_counted_tokens_are_those_of_the_sent_tools(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*answers("fine")), policy=BY_NEED, upstreams=[many_tools(30)]) as s:
        await told(s, "go")
        sizes = [
            len(json.dumps({"name": one.name, "description": one.description, "parameters": one.input_schema}))
            for one in s.provider.requests[0].tools
        ]
        assert await s.value("SELECT frozen ->> '$.tools_tokens' FROM turn") == -(-sum(sizes) // 4)


async def test_where_the_used_tools_do_not_fit_the_least_used_stand_as_a_line_again(tmp_path: Path) -> None:
    calls = [AnswerCall(f"dig_{number}", "{}", f"c{number}") for number in range(30)]
    settings = Settings.model_validate({"budget": {"token_budget_per_agent": 4_000, "max_output_tokens": 500}})
    twice = [AnswerCall("dig_7", '{"depth": 2}', "twice")]
    replies = answers(calls, twice, "dug", "fine")
    yard = [many_tools(30)]
    async with swarm(tmp_path, script(*replies), policy=BY_NEED, settings=settings, upstreams=yard) as s:
        await told(s, "dig", "on")
        assert await s.value("SELECT count(*) FROM turn WHERE outcome = 'answered'") == 2
        shown = [name for name in offered(s) if name.startswith("dig_")]
        assert 0 < len(shown) < 30
        assert "dig_7" in shown
        assert set(shown) | set(listed(s)) >= {f"dig_{number}" for number in range(30)}
        assert set(SLIM) <= set(offered(s))
