"""Stored values beside text: provider blocks, pictures, settlements, left reservations."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.toolboxes import Faulty
from tests.swarm.harness import call, script, swarm
from zoea.model.request import Answer, AnswerCall
from zoea.model.values import Failure, Native
from zoea.swarm.persistence import row_values

BLOCKS = '[{"type": "thinking", "thinking": "hm — 漢字", "signature": "s1=="}]'


def test_native_blocks_come_back_as_they_were() -> None:
    native = Native("anthropic", 'a "model"', BLOCKS)
    assert row_values.native(row_values.native_text(native)) == native
    assert row_values.native_text(None) is None
    assert row_values.native(None) is None


def test_a_failure_comes_back_as_it_was() -> None:
    failure = Failure("ProviderError", "Title", "what — happened", "do this")
    assert row_values.failure(row_values.failure_text(failure)) == failure
    assert row_values.failure_text(None) is None


async def test_signed_thinking_is_replayed_within_its_turn_and_not_after(tmp_path: Path) -> None:
    native = Native("scripted", "m", BLOCKS)
    replies = script(Answer(calls=(call("act"),), reasoning="hm", native=native), Answer(text="done"))
    async with swarm(tmp_path, replies) as s:
        await s.ask("alpha", "go")
        await s.ask("alpha", "again")
        within, after = ([m.native for m in request.messages if m.calls] for request in list(s.provider.requests)[1:3])
        assert (within, after) == ([native], [None])


async def test_a_picture_in_a_result_is_kept_once_and_named_in_words(tmp_path: Path) -> None:
    look = Answer(calls=(AnswerCall("image", "{}"),))
    async with swarm(tmp_path, script(look, look, Answer(text="seen")), upstreams=[Faulty(tmp_path).config()]) as s:
        await s.ask("alpha", "go")
        assert await s.value("SELECT count(DISTINCT blob_id) FROM memory_blob") == 1
        assert await s.rows("SELECT media_type FROM memory_blob") == [{"media_type": "image/png"}] * 2
        assert "look:" in s.sent()[1][-1][1]
