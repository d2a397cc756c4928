"""The worked example of the strategy `turns` runs through the swarm, up to the request."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.swarm.harness import call, plain, script, swarm
from zoea.model.enums import DeliveryMode
from zoea.model.request import Answer


async def test_the_worked_example_comes_out_exactly(tmp_path: Path) -> None:
    replies = script(
        Answer(calls=(call("act", "call_1"),)),
        Answer(calls=(call("act", "call_2"),)),
        Answer(text="never finished"),
        Answer(calls=(call("act", "login_call"),)),
        Answer(calls=(call("look", "status_call"),)),
        Answer(text="all is well"),
    )
    async with swarm(tmp_path, replies) as s:
        third = s.provider.block(after=0, when=lambda _: s.provider.calls == 3)
        await s.commander.create("alpha", template="nova", start=False)
        await s.commander.send("alpha", "user old")
        await third.reached.wait()
        # The old turn ends without an answer of its own, as in the example.
        await s.commander.send("alpha", "user new", mode=DeliveryMode.INTERRUPT)
        async with asyncio.timeout(10):
            await s.until(lambda: s.provider.calls == 6)
        await s.settled()
        last = s.provider.requests[-1].messages
        assert [(str(m.role), plain(m.content), [c.arguments for c in m.calls]) for m in last[1:]] == [
            ("assistant", "", ['{"text": "call_2"}']),
            ("tool", "act did call_2", []),
            ("user", "user new", []),
            ("assistant", "", ['{"text": "login_call"}']),
            ("tool", "act did login_call", []),
            ("assistant", "", ['{"text": "status_call"}']),
            ("tool", "look did status_call", []),
        ]
        assert last[0].role == "system"
        assert "## Critical Rules" in last[0].content
        assert await s.rows("SELECT outcome FROM turn ORDER BY number") == [
            {"outcome": "interrupted"},
            {"outcome": "answered"},
        ]
