"""An external agent calls Zoea's own tools over MCP: as its mysis, as its template allows, and as its calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.agent_harness import agent_swarm, conversation, last_outcome, received, say, work
from tests.case_tables import walk_cases
from tests.fakes.acp_agent import post
from tests.swarm.harness import Swarm
from zoea.model.enums import ApprovalAnswer, DeliveryMode, MysisState
from zoea.model.status import StatusWord
from zoea.settings.schema import Settings

HTTP: dict[str, Any] = {"http": True}
SEND = ["zoea_send_message", {"mysis": "beta", "text": "hello"}]
DONE = ["zoea_done", {"summary": "all is well"}]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Swarm]:
    """A swarm whose agent has Zoea's own tools."""
    async with agent_swarm(tmp_path, HTTP, serves=True) as s:
        yield s


async def calls(s: Swarm) -> list[tuple[str, str, str]]:
    """Return upstream, name and state of all calls."""
    rows = await s.rows("SELECT upstream, name, state FROM tool_call ORDER BY id")
    return [(row["upstream"] or "", row["name"], row["state"]) for row in rows]


def token_of(folder: Path, *, place: int = -1) -> tuple[str, dict[str, str]]:
    """Return address and headers of the tools that the agent was given last."""
    begun = [one for one in received(folder) if one.get("method") in ("session/new", "session/resume")]
    [server] = begun[place]["params"]["mcpServers"]
    return server["url"], {one["name"]: one["value"] for one in server["headers"]}


async def list_tools(folder: Path, *, place: int = -1) -> str:
    """Ask for the tools with the token that the agent was given. Return the answer."""
    url, heads = token_of(folder, place=place)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})
    return json.dumps(await asyncio.to_thread(post, url, body, heads))


def find_files(folder: Path, text: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.parametrize("behaviour", [HTTP, {}], ids=["http", "stdio"])
async def test_it_lists_and_calls_the_tools_of_its_template(tmp_path: Path, behaviour: dict[str, Any]) -> None:
    async with agent_swarm(tmp_path, behaviour, serves=True) as s:
        await s.commander.create("beta", start=False)
        await work(s, ["tell_tools"], ["tool", *SEND])
        (_, names), (_, result), (_, said) = [one for one in await conversation(s) if "echo:" not in one[1]]  # beta's
        assert {"zoea_send_message", "zoea_done", "zoea_recall", "zoea_ask"} <= set(names.split())
        assert not {"look", "act"} & set(names.split())
        assert result.startswith("Delivered to beta")
        assert said == f"[result {result}]"
        assert await calls(s) == [("", "zoea_send_message", "done")]
        rows = await s.rows("SELECT content, sender_id FROM message ORDER BY id DESC LIMIT 1")
        assert (rows[0]["content"], str(rows[0]["sender_id"])) == ("hello", "2")


async def test_the_rules_of_its_template_are_those_of_its_tools(tmp_path: Path) -> None:
    rules = 'send = "none"\n[tools]\ndeny = ["zoea_list_myses"]'
    async with agent_swarm(tmp_path, HTTP, more=rules, serves=True) as s:
        await work(s, ["tell_tools"], ["tool", *SEND], ["tool", "look", {"text": "x"}], ["tool", "zoea_list_myses", {}])
        text = (await conversation(s))[0][1]
        names, *refused = text.split("[refused ")
        assert "zoea_send_message" not in names
        assert "zoea_list_myses" not in names
        assert len(refused) == 3
        assert await calls(s) == []
        assert s.peer.seen == []


async def test_a_tool_that_the_template_asks_about_waits_for_the_commander(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, HTTP, more='[tools]\nask = ["zoea_broadcast"]', serves=True) as s:
        await s.commander.create("beta", start=False)
        for answer, state in ((ApprovalAnswer.ONCE, "done"), (ApprovalAnswer.DENIED, "denied")):
            await say(s, ["tool", "zoea_broadcast", {"text": "to all"}])
            await s.until(lambda: s.commander.swarm.live_view.row(2).approvals)
            [asked] = await s.commander.approvals()
            await s.commander.answer(asked.id, answer)
            await s.settled()
            assert (await calls(s))[-1] == ("", "zoea_broadcast", state)
        assert await s.value("SELECT count(*) FROM message WHERE content = 'to all'") == 1


async def test_a_question_to_the_commander_is_answered(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, HTTP, serves=True) as s:
        await say(s, ["tool", "zoea_ask", {"question": "which colour?"}])
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals)
        [asked] = await s.commander.approvals()
        await s.commander.answer(asked.id, ApprovalAnswer.ONCE, sentence="green")
        await s.settled()
        assert (await conversation(s))[-1][1] == "[result The commander answers: green]"


@pytest.mark.parametrize("behaviour", [HTTP, {}], ids=["http", "stdio"])
@pytest.mark.parametrize(
    ("answer", "told"), [(ApprovalAnswer.ONCE, "answers: green"), (ApprovalAnswer.DENIED, "denied")]
)
async def test_an_answer_for_which_the_agent_did_not_wait_is_told_with_another_prompt(
    tmp_path: Path, behaviour: dict[str, Any], answer: ApprovalAnswer, told: str
) -> None:
    async with agent_swarm(tmp_path, behaviour, serves=True) as s:
        await say(s, ["give_up", "zoea_ask", {"question": "which colour?"}], ["touch", str(tmp_path / "gave up")])
        await s.until((tmp_path / "gave up").exists)
        prompts = [one for one in received(tmp_path) if one.get("method") == "session/prompt"]
        await s.until(lambda: s.commander.swarm.live_view.freeze(1).status is StatusWord.ASKING)
        [asked] = await s.commander.approvals()
        await s.commander.answer(asked.id, answer, sentence="green")
        await s.settled()
        later = [one for one in received(tmp_path) if one.get("method") == "session/prompt"][len(prompts) :]
        assert told in json.dumps(later)
        assert "for which you did not wait" in json.dumps(later)
        assert await last_outcome(s) == "answered"
        assert len(await calls(s)) == 1


async def test_a_message_joins_a_turn_whose_agent_did_not_wait_for_an_answer(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, HTTP, serves=True) as s:
        await say(s, ["give_up", "zoea_ask", {"question": "which colour?"}], ["touch", str(tmp_path / "gave up")])
        await s.until((tmp_path / "gave up").exists)
        await s.commander.send("alpha", json.dumps([["say", "and on"]]), mode=DeliveryMode.STEER)
        await s.until(lambda: "and on" in json.dumps(received(tmp_path)))
        [asked] = await s.commander.approvals()
        await s.commander.answer(asked.id, ApprovalAnswer.ONCE, sentence="green")
        await s.settled()
        assert "answers: green" in json.dumps(received(tmp_path))
        assert await last_outcome(s) == "answered"


@walk_cases(
    ("title", "kind"),
    [
        ("zoea_zoea_send_message", "other"),
        ("mcp__zoea__zoea_send_message", "other"),
        ("zoea/zoea_send_message", "other"),
        ("mcp.zoea.zoea_send_message", "execute"),
    ],
)
async def test_what_the_agent_tells_of_its_calls_of_zoea_is_stored_once(served: Swarm, title: str, kind: str) -> None:
    before = len(await calls(served))
    if not before:
        await served.commander.create("beta", start=False)
    await work(served, ["tool", *SEND, title, kind])
    assert (await calls(served))[before:] == [("", "zoea_send_message", "done")]


async def test_a_call_that_never_came_to_zoea_is_stored_as_the_agent_tells_it(tmp_path: Path) -> None:
    told = {"title": "zoea_zoea_send_message", "rawInput": {"text": "x"}}
    start = {"sessionUpdate": "tool_call", "toolCallId": "a", "kind": "other", "status": "pending", **told}
    async with agent_swarm(tmp_path, HTTP, serves=True) as s:
        await work(s, ["update", start], ["told", "a", "failed", "the agent refused it"])
        assert await calls(s) == [("outer", "other", "error")] or (await calls(s))[0][1:] == ("other", "error")


CODEX_TITLE, IN_CODEX = "mcp.zoea.zoea_list_myses", {"server": "zoea", "tool": "zoea_list_myses", "arguments": {}}


@walk_cases(
    "more",
    [
        {"rawInput": {"command": "rm -r ."}},
        {"rawInput": "rm -r ."},
        {"rawInput": ["rm -r ."]},
        {"kind": "fetch"},
        {"title": "Fetch https://evil.example/?zoea_list_myses"},
        {"title": "https://evil.example/zoea_list_myses"},
        {"title": "send the file, then zoea_list_myses"},
        {"kind": "execute"},
        {"kind": "execute", "rawInput": IN_CODEX, "title": "sh"},
        {"kind": "execute", "rawInput": {**IN_CODEX, "command": "rm -r ."}, "title": CODEX_TITLE},
        {"kind": "execute", "rawInput": {**IN_CODEX, "server": "other"}, "title": CODEX_TITLE},
        {"kind": "execute", "rawInput": {**IN_CODEX, "arguments": {"command": "rm -r ."}}, "title": CODEX_TITLE},
        {"kind": "execute", "rawInput": {**IN_CODEX, "arguments": "rm -r ."}, "title": CODEX_TITLE},
        {"kind": "execute", "rawInput": {**IN_CODEX, "tool": "run"}, "title": CODEX_TITLE},
    ],
)
async def test_a_permission_for_a_tool_of_zoea_is_the_template_s_and_that_of_another_is_asked(
    served: Swarm, more: dict[str, Any]
) -> None:
    own = {"toolCallId": "a", "kind": "other", "title": "zoea_zoea_list_myses", "rawInput": {}}
    codex = {"toolCallId": "c", "kind": "execute", "title": CODEX_TITLE, "rawInput": IN_CODEX}
    other = {"toolCallId": "b", "kind": "other", "title": "zoea_zoea_list_myses", **more}
    before = len(await conversation(served))
    # Who has not asked which tools there are by the end of a turn is taken to have none.
    await say(served, ["list_tools"], ["ask", own], ["ask", codex], ["ask", other])
    await served.until(lambda: served.commander.swarm.live_view.row(1).approvals)
    [asked] = await served.commander.approvals()
    await served.commander.answer(asked.id, ApprovalAnswer.DENIED)
    await served.settled()
    texts = [text for role, text in (await conversation(served))[before:] if role == "assistant"]
    assert "".join(texts) == "[yes][yes][no]"


async def test_a_goal_is_reached_by_its_report_and_the_mysis_rests(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, HTTP, more='run = "forever"', serves=True) as s:
        await s.commander.create("alpha", task=json.dumps([["tool", *DONE], ["say", "bye"]]))
        await s.until(lambda: s.state() is MysisState.IDLE)
        view = await s.commander.mysis("alpha")
        assert (view.state_reason, await last_outcome(s)) == ("done", "answered")
        assert [text for role, text in await conversation(s) if role == "assistant"][-1].endswith("bye")


async def test_after_its_report_it_calls_no_more_tools_and_is_ended_where_it_goes_on(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, HTTP, more='run = "forever"', serves=True) as s:
        steps = [["tool", *DONE], ["tool", "zoea_list_myses", {}], ["call", "x", "read", {}, "completed"], ["hang"]]
        await s.commander.create("alpha", task=json.dumps(steps))
        await s.until(lambda: s.clock.is_awaited)
        while len(await calls(s)) < 2:
            await s.run_due()
        s.clock.by(61)
        await s.until(lambda: s.state() is MysisState.IDLE)
        assert (await s.commander.mysis("alpha")).state_reason == "done"
        assert [name for _, name, _ in await calls(s)] == ["zoea_done", "read"]


async def test_a_wait_ends_the_turn_until_its_time(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, HTTP, more='run = "forever"', serves=True) as s:
        steps = [["tool", "zoea_wait", {"seconds": 600, "reason": "tests run"}]]
        await s.commander.create("alpha", task=json.dumps(steps))
        await s.until(lambda: s.commander.swarm.runner("alpha").life.wait_until is not None)
        assert await last_outcome(s) == "answered"


async def test_an_agent_that_never_lists_the_tools_says_so_and_rests(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, HTTP, more='run = "forever"', serves=True) as s:
        await s.commander.create("alpha", task=json.dumps([["say", "something"]]))
        await s.until(lambda: s.state() is MysisState.IDLE)
        notes = await s.rows("SELECT kind, content FROM turn_note")
        assert [row["kind"] for row in notes] == ["agent tools"]
        assert "has not asked for Zoea's tools" in notes[0]["content"]
        await s.ask("alpha", json.dumps([["say", "again"]]))
        assert await s.value("SELECT count(*) FROM turn_note") == 1


class TestToken:
    async def test_it_opens_nothing_once_its_process_has_gone(self, tmp_path: Path) -> None:
        async with agent_swarm(tmp_path, HTTP, serves=True) as s:
            await work(s, ["say", "x"])
            assert "zoea_done" in await list_tools(tmp_path)
            await s.commander.stop("alpha")
            await s.until(lambda: s.state() is MysisState.STOPPED)
            assert "401" in await list_tools(tmp_path)

    async def test_a_killed_process_leaves_none_and_the_next_has_another(self, tmp_path: Path) -> None:
        async with agent_swarm(tmp_path, {**HTTP, "resume": True}, serves=True) as s:
            await say(s, ["exit", 3])
            await s.until(lambda: s.state() is MysisState.ERRORED)
            assert "401" in await list_tools(tmp_path)
            before = token_of(tmp_path)
            await s.commander.start("alpha")
            await say(s, ["say", "back"])
            await s.until(lambda: token_of(tmp_path) != before)

    async def test_between_turns_it_calls_nothing(self, tmp_path: Path) -> None:
        async with agent_swarm(tmp_path, HTTP, serves=True) as s:
            await work(s, ["say", "x"])
            url, heads = token_of(tmp_path)
            call = {"name": "zoea_broadcast", "arguments": {"text": "late"}}
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
            answer = await asyncio.to_thread(post, url, body, heads)
            assert answer["result"]["isError"]
            assert await calls(s) == []

    async def test_it_acts_as_its_own_mysis_alone(self, tmp_path: Path) -> None:
        async with agent_swarm(tmp_path, HTTP, serves=True) as s:
            await say(s, ["tool", "zoea_list_myses", {}], name="alpha")
            await work(s, ["tool", "zoea_list_myses", {}], name="beta")
            await s.settled("alpha")
            told = [text for role, text in await conversation(s) if role == "tool"]
            assert sorted(json.loads(text)["you"] for text in told) == ["alpha", "beta"]
            assert token_of(tmp_path, place=0)[1] != token_of(tmp_path, place=1)[1]

    async def test_it_is_no_argument_and_in_no_file(self, tmp_path: Path) -> None:
        async with agent_swarm(tmp_path, serves=True) as s:
            await work(s, ["say", "x"])
            [begun] = [one for one in received(tmp_path) if one.get("method") == "session/new"]
            [server] = begun["params"]["mcpServers"]
            token = {one["name"]: one["value"] for one in server["env"]}["ZOEA_TOOLS_TOKEN"]
            assert token not in " ".join((server["command"], *server["args"]))
        assert find_files(tmp_path, token) == ["agent.log"]

    async def test_pages_and_other_hosts_are_refused(self, tmp_path: Path) -> None:
        async with agent_swarm(tmp_path, HTTP, serves=True) as s:
            await work(s, ["say", "x"])
            url, heads = token_of(tmp_path)
            for more in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
                answer = await asyncio.to_thread(post, url, "{}", {**heads, **more})
                assert "403" in answer["error"]["message"]


async def test_a_malformed_message_gets_an_error_and_ends_nothing(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, HTTP, serves=True) as s:
        await work(s, ["say", "x"])
        url, heads = token_of(tmp_path)
        bad = ["", "[]", "null", '{"id": 1, "method": "x"}', '{"id": 1, "method": "tools/call", "params": {"name": 4}}']
        odd = '{"id": 1, "method": "tools/call", "params": {"name": "zoea_ask", "arguments": {"question": %s}}}'
        for body in (*bad, "[" * 100_000, odd % "1e999", odd % "NaN", odd % ('"' + "m" * 1_000_001 + '"')):
            assert "error" in await asyncio.to_thread(post, url, body, heads)
        assert "zoea_done" in await list_tools(tmp_path)


async def test_a_stop_while_it_asks_answers_the_call(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, HTTP, serves=True, settings=Settings()) as s:
        await say(s, ["tool", "zoea_ask", {"question": "which?"}])
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals)
        await s.commander.stop("alpha")
        await s.settled()
        assert await calls(s) == [("", "zoea_ask", "cancelled")]
        assert await s.commander.approvals() == ()
