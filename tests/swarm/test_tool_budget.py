"""Tools that do not fit: those used least are left out when the turn opens, and the plan tells which."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.types import ToolAnnotations

from tests.fakes.llm_clock import HandClock
from tests.swarm.harness import HandIds, Swarm, call, script, swarm
from zoea.context import FrozenTurn
from zoea.context.explain import explain, explain_data
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.enums import MysisState
from zoea.model.request import Answer, AnswerCall, Catalogue, ToolSpec
from zoea.queries.request_inspection import inspect_request, read_requests
from zoea.settings.schema import Settings
from zoea.swarm.turn.tool_budget import leave_out_tools, offer_tools
from zoea.tools import ToolPolicy, UpstreamConfig
from zoea.tools.policy import OwnTools, Send

FROZEN = FrozenTurn(1, 1, 1, max_tokens=1000, tools_tokens=1000)


def test_tools_that_fit_all_stay() -> None:
    assert leave_out_tools(FROZEN, {"dig": 2000, "fly": 1000}, 20, dict) is FROZEN


def test_tools_by_least_use_are_left_out_until_a_request_fits() -> None:
    sizes = {"dig": 2000, "fly": 2000, "zoea_wait": 400, "sell": 900}
    fitted = leave_out_tools(FROZEN, sizes, 20, lambda: {"dig": 3, "sell": 1})
    assert (fitted.left_out_tools, fitted.tools_tokens) == (("fly",), 825)
    less = leave_out_tools(FROZEN, sizes, 500, lambda: {"dig": 3, "sell": 1})
    assert (less.left_out_tools, less.tools_tokens) == (("fly", "sell", "dig"), 100)


def test_a_frozen_turn_remembers_what_it_left_out() -> None:
    frozen = leave_out_tools(FROZEN, {"dig": 4000, "fly": 1000}, 20, dict)
    assert FrozenTurn.from_json(frozen.to_json(), system="") == frozen
    catalogue = Catalogue((ToolSpec("dig", "", {}), ToolSpec("fly", "", {})), "all")
    offered = offer_tools(catalogue, frozen)
    assert [tool.name for tool in offered.tools] == ["fly"]
    assert offered.hash != catalogue.hash


def many_tools(count: int) -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("mine", log_level="ERROR")

    async def dig(depth: int = 1) -> str:
        return f"dug {depth}"

    for number in range(count):
        annotations = ToolAnnotations(read_only_hint=False, destructive_hint=False)
        server.add_tool(dig, name=f"dig_{number}", description="Digs. " * 130, annotations=annotations)
    return server


async def answered(s: Swarm, text: str, names: Sequence[str] = ("alpha",)) -> None:
    for name in names:
        await s.commander.send(name, text)
        await s.settled(name)
        assert s.state(name) is MysisState.RUNNING
    assert await s.value("SELECT count(*) FROM turn WHERE outcome IS NOT 'answered'") == 0


async def test_too_many_tools_never_fail_a_turn(tmp_path: Path) -> None:
    used = Answer(calls=(AnswerCall("dig_77", "{}"),))
    upstream = UpstreamConfig("mine", server=many_tools(100))
    async with swarm(tmp_path, script(used, Answer(text="dug")), upstreams=[upstream]) as s:
        await s.commander.create("alpha", start=False)
        await answered(s, "dig")
        offered = [tool.name for tool in s.provider.requests[0].tools]
        assert 0 < len([name for name in offered if name.startswith("dig_")]) < 100

        newest = read_requests(s.path, 1)[0]
        plan = inspect_request(s.path, newest.id).plan
        assert plan is not None
        assert set(plan.left_out_tools) | set(offered) >= {f"dig_{number}" for number in range(100)}
        assert not set(plan.left_out_tools) & set(offered)
        tools = plan.decision("tools")
        assert tools is not None
        assert tools.truncated
        assert "because its requests would not fit with them: dig_" in explain(plan)
        assert explain_data(plan)["left_out_tools"] == list(plan.left_out_tools)


async def test_a_tool_that_was_used_is_offered_before_others(tmp_path: Path) -> None:
    upstream = UpstreamConfig("mine", server=many_tools(100))
    replies = [Answer(text="fine")]
    # Not metered, because a learned ratio of tokens would change the room.
    provider = ScriptedProvider(lambda _: replies.pop(0), clock=HandClock(1))
    async with swarm(tmp_path, provider=provider, upstreams=[upstream]) as s:
        await s.commander.create("alpha", start=False)
        await answered(s, "hello")
        used = next(tool.name for tool in s.provider.requests[-1].tools if tool.name.startswith("dig_"))
        least = [tool.name for tool in s.provider.requests[-1].tools if tool.name.startswith("dig_")]
        replies += [Answer(calls=(AnswerCall(used, "{}"),)), Answer(text="dug"), Answer(text="fine")]
        await answered(s, "dig")
        await s.ask("alpha", "a longer order. " * 60)
        offered = [tool.name for tool in s.provider.requests[-1].tools]
        assert used in offered
        assert len([name for name in offered if name.startswith("dig_")]) < len(least)


async def test_a_mysis_that_is_alone_is_not_offered_the_tools_for_others(tmp_path: Path) -> None:
    answers = script(Answer(text="Hello."), Answer(calls=(call("zoea_list_myses"),)), Answer(text="Two of us."))
    async with swarm(tmp_path, answers, policy=ToolPolicy(own=OwnTools.SLIM)) as s:
        await s.ask("alpha", "Say hello.")
        await s.commander.create("beta", start=False)
        await s.ask("alpha", "Who else is here?")
        alone, together, *_ = ({tool.name for tool in request.tools} for request in s.provider.requests)
        assert together - alone == {"zoea_send_message", "zoea_broadcast", "zoea_list_myses"}
        assert alone < together
        await s.commander.delete("beta")
        await s.ask("alpha", "And now?")
        assert {tool.name for tool in s.provider.requests[-1].tools} == alone


def test_full_tools_and_messages_to_the_commander_are_offered_to_a_mysis_that_is_alone() -> None:
    assert ToolPolicy(own=OwnTools.FULL).tools_for_others == frozenset()
    assert ToolPolicy(own=OwnTools.SLIM, send=Send.COMMANDER).tools_for_others == {"zoea_list_myses"}


@pytest.mark.parametrize("is_alone", [True, False])
async def test_a_turn_that_is_resumed_offers_the_tools_that_it_opened_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_alone: bool
) -> None:
    uids = map(str, count())
    monkeypatch.setattr(HandIds, "uid", lambda _: next(uids))
    policy, settings = ToolPolicy(own=OwnTools.SLIM), Settings.model_validate({"nudge": {"without_goal": False}})
    async with swarm(tmp_path, script(Answer(text="Hello.")), policy=policy, settings=settings) as s:
        await s.commander.create("alpha", start=False)
        if not is_alone:
            await s.commander.create("beta", start=False)
        block = s.provider.block(after=0)
        await s.commander.send("alpha", "Say hello.")
        await block.reached.wait()
        opened = s.provider.requests[0]
    async with swarm(tmp_path, script(Answer(text="Hello.")), policy=policy, settings=settings) as s:
        if is_alone:
            await s.commander.create("beta", start=False)
        else:
            await s.commander.delete("beta")
        await s.commander.send("alpha", "Greet everybody.", is_task=True)
        await s.commander.start_all()
        await s.until(lambda: s.provider.requests)
        assert s.provider.requests[0].tools == opened.tools
        assert await s.value("SELECT count(DISTINCT catalogue_hash) FROM request WHERE turn_id = 1") == 1
        assert (await s.rows("SELECT id FROM turn"))[0] == {"id": 1}
