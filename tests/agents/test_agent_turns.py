"""Turns that an external agent carries out: what it tells is stored as what Zoea's own loop stores."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path, PurePath
from typing import Any

import pytest

from tests.agents.agent_harness import agent_swarm, conversation, last_outcome, received, say, work, work_anew
from tests.case_tables import walk_cases
from tests.swarm.harness import Swarm
from tests.swarm.test_commit_capture import read_messages
from zoea.agents import agent_session
from zoea.model.enums import DeliveryMode, MysisState
from zoea.queries.stored_swarm import read_mysis_view, read_swarm_view
from zoea.settings.schema import Settings


async def test_text_thoughts_and_calls_become_memories(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path) as s:
        await say(
            s,
            ["think", "hm"],
            ["say", "I look."],
            ["call", "c1", "read", {"path": "a.txt"}, "in_progress"],
            ["told", "c1", "completed", "three lines"],
            ["say", "It has "],
            ["say", "three lines."],
        )
        await s.settled()
        assert await last_outcome(s) == "answered"
        assert await conversation(s) == [
            ("assistant", "I look."),
            ("tool", "three lines"),
            ("assistant", "It has three lines."),
        ]
        assert await s.value("SELECT reasoning FROM memory WHERE role = 'assistant' ORDER BY id LIMIT 1") == "hm"
        [call] = await s.rows("SELECT name, state, arguments FROM tool_call")
        assert (call["name"], call["state"]) == ("read", "done")
        assert s.state() is MysisState.IDLE


@pytest.mark.parametrize(
    ("acp", "name"), [('agent = "opencode"', "opencode"), ("", PurePath(sys.executable).name)], ids=["named", "command"]
)
async def test_a_view_names_the_agent_that_plays_the_mysis(tmp_path: Path, acp: str, name: str) -> None:
    async with agent_swarm(tmp_path, acp=acp) as s:
        view = await s.commander.create("alpha", start=False)
        assert view.agent == name
        assert read_mysis_view(tmp_path / "zoea.db", "alpha").agent == name
        assert [one.agent for one in read_swarm_view(tmp_path / "zoea.db").myses] == [name]


async def test_calls_that_overlap_keep_their_own_results_and_order(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path) as s:
        await say(
            s,
            ["call", "a", "read", {"path": "a"}, "in_progress"],
            ["call", "b", "read", {"path": "b"}, "in_progress"],
            ["told", "b", "completed", "of b"],
            ["told", "a", "failed", "of a"],
            ["say", "done"],
        )
        await s.settled()
        assert await conversation(s) == [
            ("assistant", ""),
            ("tool", "of a"),
            ("assistant", ""),
            ("tool", "of b"),
            ("assistant", "done"),
        ]
        states = await s.rows("SELECT provider_call_id AS id, state FROM tool_call ORDER BY id")
        assert states == [{"id": "a", "state": "error"}, {"id": "b", "state": "done"}]
        entries = read_messages(s.path, "@alpha")
        assert [(one.content, one.position) for one in entries[1:]] == [
            ("", None), ("of a", 0), ("", None), ("of b", 0), ("done", None)
        ]  # fmt: skip


async def test_a_second_turn_uses_the_same_process_and_session(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path) as s:
        await work(s, ["say", "one"])
        await work(s, ["say", "two"])
        methods = [message.get("method") for message in received(tmp_path)]
        assert methods.count("initialize") == methods.count("session/new") == 1
        assert methods.count("session/prompt") == 2


async def test_the_first_prompt_is_preceded_by_the_prompt_of_the_template(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, more='prompt = "You are careful."') as s:
        await s.ask("alpha", "hello")
        [prompt] = [one["params"]["prompt"] for one in received(tmp_path) if one.get("method") == "session/prompt"]
        assert [block["text"] for block in prompt] == ["You are careful.", "hello"]
        assert await conversation(s) == [("assistant", "echo: hello")]


async def test_updates_before_the_session_is_known_and_after_the_end_are_kept(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, {"early": "early "}) as s:
        await work(s, ["say", "in time "], ["end_before", "late"])
        assert await conversation(s) == [("assistant", "early in time late")]


async def test_all_of_an_answer_may_come_after_the_end_of_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_session, "QUIET_S", 1.0)
    async with agent_swarm(tmp_path) as s:
        await work(s, ["end_before", "all of it", 0.1])
        assert await conversation(s) == [("assistant", "all of it")]


async def test_ids_of_calls_may_come_again(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path) as s:
        for text in ("first", "second"):
            step: list[list[Any]] = [
                ["call", "same", "search", {"q": text}, "in_progress"],
                ["told", "same", "completed", text],
            ]
            await work(s, *step, *step)
        assert [text for role, text in await conversation(s) if role == "tool"] == [
            "first",
            "first",
            "second",
            "second",
        ]


@pytest.mark.parametrize("status", ["pending", "in_progress"])
async def test_a_call_whose_end_is_not_told_is_unknown(tmp_path: Path, status: str) -> None:
    """A call that its agent refuses by itself is announced, and never told of again."""
    async with agent_swarm(tmp_path) as s:
        await work(s, ["call", "a", "execute", {"command": "make"}, status], ["say", "done"])
        assert await s.rows("SELECT state, arguments FROM tool_call") == [
            {"state": "unknown", "arguments": '{"command": "make"}'}
        ]
        assert await last_outcome(s) == "answered"


async def test_a_call_that_was_only_announced_is_told_with_its_arguments(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path) as s:
        await say(
            s,
            ["call", "a", "execute", {}, "pending"],
            ["update", {"sessionUpdate": "tool_call_update", "toolCallId": "a", "rawInput": {"command": "make"}}],
            ["told", "a", "completed", "ok"],
        )
        await s.settled()
        assert await s.value("SELECT arguments FROM tool_call") == '{"command": "make"}'


@walk_cases(
    ("reason", "outcome", "state"),
    [
        ("end_turn", "answered", MysisState.IDLE),
        ("max_tokens", "answered", MysisState.IDLE),
        ("max_turn_requests", "iteration_limit", MysisState.IDLE),
        ("cancelled", "cancelled", MysisState.IDLE),
        ("refusal", "failed", MysisState.ERRORED),
    ],
)
async def test_reasons_of_ends_are_outcomes(one_swarm: Swarm, reason: str, outcome: str, state: MysisState) -> None:
    assert [text for _, text in await work_anew(one_swarm, ["say", "text"], ["end", reason])] == ["text"]
    assert await last_outcome(one_swarm) == outcome
    assert one_swarm.state() is state


async def test_a_steer_interrupts_the_agent_and_joins_the_turn(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path) as s:
        await say(s, ["say", "I begin"], ["hang"])
        await s.until(lambda: s.commander.swarm.live_view.row(1).streaming == "I begin")
        await s.commander.send("alpha", '[["say", "as you say"]]', mode=DeliveryMode.STEER)
        await s.settled()
        assert await conversation(s) == [("assistant", "I begin"), ("assistant", "as you say")]
        assert await s.value("SELECT count(*) FROM turn") == 1
        assert await last_outcome(s) == "answered"


async def test_an_agent_that_is_deaf_to_a_steer_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_session, "CANCEL_S", 0.2)
    async with agent_swarm(tmp_path, {"deaf": True, "resume": True}) as s:
        await say(s, ["say", "I begin"], ["never_end"])
        await s.until(lambda: s.commander.swarm.live_view.row(1).streaming == "I begin")
        await s.commander.send("alpha", '[["say", "as you say"]]', mode=DeliveryMode.STEER)
        await s.settled()
        assert await conversation(s) == [("assistant", "I begin"), ("assistant", "as you say")]
        assert await s.value("SELECT count(*) FROM turn") == 1
        assert [one.get("method") for one in received(tmp_path)].count("session/resume") == 1


async def test_a_stop_cancels_the_turn_and_ends_the_process(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path) as s:
        await say(s, ["say", "I begin"], ["hang"])
        await s.until(lambda: s.commander.swarm.live_view.row(1).streaming == "I begin")
        await s.commander.stop("alpha")
        assert await last_outcome(s) == "cancelled"
        assert await conversation(s) == [("assistant", "I begin")]
        await s.until(lambda: s.commander.swarm.services.agents.running == 0)


async def test_usage_is_what_the_agent_tells(tmp_path: Path) -> None:
    told = {"sessionUpdate": "usage_update", "used": 500, "size": 1000, "cost": {"amount": 0.5, "currency": "USD"}}
    async with agent_swarm(tmp_path) as s:
        await work(s, ["say", "a"], ["end", "end_turn"])
        await work(s, ["update", told], ["say", "b"])
        await work(s, ["say", "c"])
        rows = await s.rows("SELECT provider, state, estimated_tokens AS tokens FROM request ORDER BY id")
        assert [row["state"] for row in rows] == ["estimated"] * 3
        assert rows[1]["tokens"] == 500
        assert {row["provider"] for row in rows} == {s.commander.swarm.live_view.row(1).answered_by}


async def test_a_raised_budget_answers_the_question_before_a_prompt(tmp_path: Path) -> None:
    budget = {"budget.mysis": 100, "budget.enforcement": "approve"}
    async with agent_swarm(tmp_path) as s:
        await s.create("alpha")
        await s.commander.configure("alpha", settings=budget)
        await say(s, ["say", "done"])
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals)
        await s.commander.configure("alpha", settings={"budget.mysis": 1_000_000})
        await s.settled()
        assert await last_outcome(s) == "answered"


async def test_a_spent_budget_refuses_the_next_prompt(tmp_path: Path) -> None:
    settings = Settings.model_validate({"budget": {"mysis": 1_000, "enforcement": "hard", "max_output_tokens": 256}})
    told = {"sessionUpdate": "usage_update", "used": 5_000, "size": 10_000}
    async with agent_swarm(tmp_path, settings=settings) as s:
        await work(s, ["update", told], ["say", "much"])
        await work(s, ["say", "more"])
        assert await last_outcome(s) == "budget"
        assert [text for _, text in await conversation(s)] == ["much"]


async def test_a_hold_keeps_the_prompt_back(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.hold(True)
        await say(s, ["say", "a"])
        await s.run_due()
        assert not [one for one in received(tmp_path) if one.get("method") == "session/prompt"]
        await s.commander.hold(False)
        await s.settled()
        assert await conversation(s) == [("assistant", "a")]


async def test_a_hold_that_begins_while_the_agent_starts_keeps_the_prompt_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = asyncio.Event()

    def prompted() -> bool:
        return any(one.get("method") == "session/prompt" for one in received(tmp_path))

    file = tmp_path / "begin"
    async with agent_swarm(tmp_path, {"begins_with": str(file)}) as s:
        await say(s, ["say", "done"])
        await s.until(lambda: any(one.get("method") == "session/new" for one in received(tmp_path)))
        await s.commander.hold(True)
        hold = s.commander.swarm.services.hold
        lifted = hold.lifted

        async def note_wait(mysis_id: int) -> None:
            waits.set()
            await lifted(mysis_id)

        monkeypatch.setattr(hold, "lifted", note_wait)
        file.touch()
        await s.until(waits.is_set)
        await s.run_due()
        assert not prompted()
        await s.commander.hold(False)
        await s.settled()
        assert prompted()


async def test_an_agent_without_a_word_is_no_answer(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path) as s:
        await work(s, ["end", "end_turn"])
        assert await conversation(s) == [("assistant", "(no response)")]


@walk_cases(
    ("block", "told"),
    [
        ({"type": "image", "data": "AAAA" * 500, "mimeType": "image/png"}, "[image image/png, 1,500 bytes]"),
        ({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}, "[audio audio/wav, 3 bytes]"),
        (
            {"type": "resource", "resource": {"uri": "file:///a.pdf", "blob": "AAAA"}},
            "[resource file:///a.pdf, 3 bytes]",
        ),
        ({"type": "resource", "resource": {"uri": "file:///a", "text": "all of it"}}, "all of it"),
        ({"type": "resource_link", "name": "a", "uri": "file:///a"}, "[a](file:///a)"),
    ],
    ids=["picture", "sound", "bytes", "text", "link"],
)
async def test_what_is_no_text_is_told_in_the_record(one_swarm: Swarm, block: dict[str, Any], told: str) -> None:
    ended = {"sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "completed"}
    new = await work_anew(
        one_swarm,
        ["call", "a", "read", {"path": "a"}, "in_progress"],
        ["update", {**ended, "content": [{"type": "content", "content": block}]}],
        ["update", {"sessionUpdate": "agent_message_chunk", "content": block}],
    )
    assert new[1:] == [("tool", told), ("assistant", told)]


async def test_plans_and_modes_are_notes_that_people_see(tmp_path: Path) -> None:
    plan: dict[str, Any] = {
        "sessionUpdate": "plan",
        "entries": [{"content": "look", "priority": "high", "status": "completed"}],
    }
    mode = {"sessionUpdate": "current_mode_update", "currentModeId": "code"}
    async with agent_swarm(tmp_path) as s:
        await work(s, ["update", plan], ["update", mode], ["say", "a"])
        notes = await s.rows("SELECT content FROM turn_note ORDER BY kind")
        assert [note["content"] for note in notes] == [
            "The agent changed its mode to code.",
            "The agent's plan:\n- [completed] look",
        ]
