"""First turns of a mysis: messages, tools, stored rows and model requests."""

from __future__ import annotations

from pathlib import Path

from tests.swarm.harness import call, script, swarm
from zoea.model.enums import MysisState
from zoea.model.request import Answer


async def test_a_message_starts_an_idle_mysis_and_is_answered(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="hello back"))) as s:
        receipt = await s.tell("alpha", "hello")
        assert receipt.lines[0].status == "started"
        await s.settled()
        assert s.state() is MysisState.RUNNING
        assert s.sent() == [[("user", "hello")]]
        assert await s.value("SELECT outcome FROM turn") == "answered"
        memories = await s.rows("SELECT role, content FROM memory ORDER BY turn_id, seq")
        assert memories == [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hello back"}]
        assert (await s.commander.receipt(receipt.message_id)).lines[0].status == "answered"


async def test_text_beside_tool_calls_is_kept_and_results_stand_in_call_order(tmp_path: Path) -> None:
    replies = script(
        Answer(text="let me look", calls=(call("look", "one"), call("look", "two"))), Answer(text="seen both")
    )
    async with swarm(tmp_path, replies) as s:
        await s.ask("alpha", "look twice")
        rows = await s.rows("SELECT role, content, seq FROM memory ORDER BY turn_id, seq")
        assert [(row["role"], row["content"]) for row in rows] == [
            ("user", "look twice"),
            ("assistant", "let me look"),
            ("tool", "look did one"),
            ("tool", "look did two"),
            ("assistant", "seen both"),
        ]
        assert s.peer.most_running == 2
        assert s.sent()[1][-3:] == [("assistant", "let me look"), ("tool", "look did one"), ("tool", "look did two")]


async def test_what_changes_things_runs_one_at_a_time(tmp_path: Path) -> None:
    replies = script(Answer(calls=(call("act", "one"), call("act", "two"))), Answer(text="done"))
    async with swarm(tmp_path, replies) as s:
        await s.ask("alpha", "act twice")
        assert s.peer.seen == [("act", "one"), ("act", "two")]
        assert s.peer.most_running == 1
