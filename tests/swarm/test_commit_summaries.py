"""Summaries of commits that a model writes afterwards."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.swarm.harness import script, swarm
from tests.swarm.test_commit_capture import read_chain
from tests.swarm.test_forks import TALK, talk
from tests.swarm.test_resume_and_ask import contexts
from zoea.chain.commit_rows import read_notes, read_unsummarised
from zoea.model.errors import MysisMissing, UsageError
from zoea.model.request import Answer
from zoea.settings.schema import Settings
from zoea.store.database_file import connect_reader


async def test_a_summary_by_a_model_names_it_and_is_paid_as_background_work(tmp_path: Path) -> None:
    settings = Settings.model_validate({"context": {"summary": "model"}})
    async with swarm(tmp_path, script(*TALK[:4], Answer(text="It learned where iron lies.")), settings=settings) as s:
        await talk(s)
        first = read_chain(s.path, "@alpha")[0]
        assert first.note.summary, "a mechanical summary is there from the start"
        assert not first.note.model
        written = await contexts(s).summarise(first.id)
        again = read_chain(s.path, "@alpha")[0]
        assert "It learned where iron lies." in written
        assert (again.note.summary, bool(again.note.model)) == (written, True)
        assert await s.value("SELECT count(*) FROM spend WHERE scope = 'background' AND used_tokens > 0") == 1
        with closing(connect_reader(s.path)) as conn:
            assert [note.summary for _, note in read_notes(conn, first.seq)] == [first.note.summary, written]
            assert first.seq not in [one.seq for one in read_unsummarised(conn, 100)]
            tip = read_chain(s.path, "@alpha")[-1].seq
            assert read_unsummarised(conn, 100, tip) == read_chain(s.path, "@alpha")[:0:-1]


async def test_without_a_model_or_its_mysis_the_summary_stays(tmp_path: Path) -> None:
    settings = Settings.model_validate({"context": {"summary": "extract"}})
    async with swarm(tmp_path, script(*TALK), settings=settings) as s:
        await talk(s)
        first = read_chain(s.path, "@alpha")[0]
        with pytest.raises(UsageError, match="summar"):
            await contexts(s).summarise(first.id)
        await s.commander.delete("alpha")
        with pytest.raises(MysisMissing):
            await contexts(s).summarise(first.id)
        with closing(connect_reader(s.path)) as conn:
            assert [note.summary for _, note in read_notes(conn, first.seq)] == [first.note.summary]
