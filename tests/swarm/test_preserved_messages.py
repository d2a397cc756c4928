"""Every request of the strategy `window` holds a kept message word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.swarm.harness import Swarm, call, script, swarm
from tests.swarm.test_window_strategy import contents, settings, talk
from zoea.model.enums import Role
from zoea.model.errors import UsageError
from zoea.model.request import Answer, AnswerCall
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence.preserved_memories import MOST_PRESERVED
from zoea.tools import ToolPolicy

WORDS = "Lanterns by the eastern pier are lit at dusk, one after another."


async def newest_id(s: Swarm, role: str = "user") -> int:
    return int(await s.value("SELECT max(id) FROM memory WHERE role = ?", role))


async def test_a_kept_message_stays_word_for_word_after_its_neighbours_are_summarised(tmp_path: Path) -> None:
    answers = [Answer(text=f"answer {n}") for n in range(1, 12)]
    async with swarm(tmp_path, script(*answers), settings=settings()) as s:
        await s.commander.create("alpha", start=False)
        await talk(s, 1, 3)
        await s.ask("alpha", WORDS)
        kept = await newest_id(s)
        await s.api.preserve(kept)
        await talk(s, 5, 8)
        s.clock.by(3_600)
        await talk(s, 9, 22)  # after so many new messages the summary covers it
        assert contents(s.provider.requests[-1].messages).count(WORDS) == 1

        await s.api.preserve(kept, False)
        await talk(s, 23, 23)
        assert WORDS not in contents(s.provider.requests[-1].messages)


async def test_a_kept_result_stands_with_its_call(tmp_path: Path) -> None:
    answers = [Answer(calls=(call("look", "far"),)), *[Answer(text=f"answer {n}") for n in range(1, 12)]]
    async with swarm(tmp_path, script(*answers), settings=settings()) as s:
        await s.ask("alpha", "hello")
        await talk(s, 2, 3)
        await s.api.preserve(await newest_id(s, "tool"))
        await talk(s, 4, 8)
        s.clock.by(3_600)
        await talk(s, 9, 22)
        shown = s.provider.requests[-1].messages
        place = next(at for at, message in enumerate(shown) if message.role is Role.TOOL)
        assert shown[place - 1].calls[0].id == shown[place].call_id


async def test_a_mysis_keeps_what_it_was_told_by_a_tool_of_its_own(tmp_path: Path) -> None:
    answers = [Answer(calls=(AnswerCall("zoea_remember", "{}"),)), Answer(text="kept")]
    policy = ToolPolicy(remembers=True)
    async with swarm(tmp_path, script(*answers), settings=settings(), policy=policy) as s:
        await s.ask("alpha", WORDS)
        assert await s.value("SELECT content FROM memory WHERE preserved = 1") == WORDS
        assert "zoea_remember" in {tool.name for tool in s.provider.requests[0].tools}


async def test_a_mysis_cannot_keep_a_message_of_another_one(tmp_path: Path) -> None:
    answers = [Answer(text="hi"), Answer(calls=(AnswerCall("zoea_remember", '{"id": 1}'),)), Answer(text="no")]
    async with swarm(tmp_path, script(*answers), settings=settings(), policy=ToolPolicy(remembers=True)) as s:
        for name in ("alpha", "beta"):
            await s.commander.create(name, start=False)
            await s.commander.send(name, "hello")
            await s.settled(name)
        assert await s.value("SELECT count(*) FROM memory WHERE preserved = 1") == 0
        assert "there is no message 1" in await s.value("SELECT content FROM memory WHERE role = 'tool'")


async def test_an_unknown_message_is_refused_with_the_way_to_find_ids(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="hi"))) as s:
        await s.commander.create("alpha", start=False)
        with pytest.raises(UsageError, match="there is no message 77"):
            await s.api.preserve(77)


async def test_a_mysis_keeps_a_bounded_number_of_messages(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="hi")), settings=settings()) as s:
        await s.commander.create("alpha", start=False)
        await talk(s, 1, 1)
        await s.store.write(lambda conn: many(conn, 1))
        with pytest.raises(UsageError, match=f"keeps {MOST_PRESERVED} messages already"):
            await s.api.preserve(await newest_id(s, "assistant"))


def many(conn: WriterConnection, mysis_id: int) -> None:
    """Give the mysis as many kept messages as it can have."""
    conn.execute(
        "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
        " INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, tokens, created_at, preserved)"
        " SELECT ?, (SELECT min(id) FROM turn), i, 'user', 'direct', 'x', 1, 1, 1 FROM n",
        (99 + MOST_PRESERVED, mysis_id),
    )
