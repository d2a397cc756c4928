"""Models write summaries of commits while the swarm rests."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.swarm.harness import call, script, swarm
from tests.swarm.test_commit_capture import read_chain
from zoea.model.request import Answer
from zoea.runtime.idle_summaries import SECONDS, run_idle_summaries
from zoea.settings.schema import Settings


def with_summaries(**chain: object) -> Settings:
    return Settings.model_validate({"context": {"summary": "model"}, "chain": chain})


async def test_a_swarm_at_rest_writes_the_summaries_that_are_missing_as_background_work(tmp_path: Path) -> None:
    answers = script(Answer(text="Found iron."), Answer(text="It found iron in the north."))
    async with swarm(tmp_path, answers, settings=with_summaries(summarise_idle=True)) as s:
        await s.commander.create("alpha")
        await s.ask("alpha", "find iron")
        async with run_idle_summaries(s.commander, s.clock):

            def is_summarised() -> bool:
                s.clock.by(SECONDS)
                return all(one.note.model for one in read_chain(s.path, "@alpha"))

            await s.until(is_summarised)
        assert "It found iron in the north." in read_chain(s.path, "@alpha")[-1].note.summary
        assert (await s.rows("SELECT purpose FROM request ORDER BY id"))[-1]["purpose"] == "summary"
        assert await s.value("SELECT count(*) FROM spend WHERE scope = 'background' AND used_tokens > 0") == 1


@pytest.mark.parametrize("is_wanted", [False, True])
async def test_without_the_setting_or_while_a_mysis_works_none_is_written(tmp_path: Path, is_wanted: bool) -> None:
    answers = script(
        Answer(text="Ready."), Answer(text="I look.", calls=(call("look", "north"),)), Answer(text="Done.")
    )
    async with swarm(tmp_path, answers, settings=with_summaries(summarise_idle=is_wanted)) as s:
        await s.commander.create("alpha")
        await s.ask("alpha", "wake up")
        if is_wanted:
            s.peer.gates["look"] = asyncio.Event()
            await s.commander.send("alpha", "find iron")
            await s.until(lambda: s.peer.running)
        async with run_idle_summaries(s.commander, s.clock):
            for _ in range(3):
                await s.run_due(SECONDS)
        assert not [one for one in read_chain(s.path, "@alpha") if one.note.model]
        if is_wanted:
            s.peer.gates["look"].set()
            await s.settled()
