"""Checkpoints, snapshots and compactions that a person asks for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.swarm.harness import call, script, swarm
from tests.swarm.test_commit_capture import read_chain, read_messages, with_capture
from tests.swarm.test_compaction_commits import read
from tests.swarm.test_forks import TALK, fork, talk, told
from tests.swarm.test_resume_and_ask import contexts
from zoea.chain.commit import Checkpoint, CommitType
from zoea.model.enums import MysisState, Role
from zoea.model.errors import MysisMissing, UsageError
from zoea.model.request import Answer
from zoea.queries.stored_swarm import read_mysis_view
from zoea.settings.schema import Settings


async def test_a_checkpoint_holds_what_no_policy_committed_and_nothing_twice(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK), settings=with_capture("explicit")) as s:
        await talk(s)
        assert read_chain(s.path, "@alpha") == []
        made = await contexts(s).checkpoint("@alpha", summary="Knows the north")
        (commit,) = read_chain(s.path, "@alpha")
        assert (made, commit.checkpoint, commit.note.summary) == (commit.id, Checkpoint.EXPLICIT, "Knows the north")
        assert await contexts(s).checkpoint("alpha") == "", "nothing is new"
        stored = [row["content"] for row in await s.rows("SELECT content FROM memory ORDER BY turn_id, seq")]
        assert [one.content for one in read_messages(s.path, "@alpha")] == stored


async def test_a_checkpoint_in_a_turn_is_made_with_the_next_that_is_stored(tmp_path: Path) -> None:
    slow = Answer(text="I look.", calls=(call("look", "north"),))
    async with swarm(tmp_path, script(slow, Answer(text="Done.")), settings=with_capture("every:50")) as s:
        await s.commander.create("alpha")
        await s.commander.send("alpha", "find iron")
        asked = asyncio.create_task(contexts(s).checkpoint("alpha", summary="half way"))
        await s.settled()
        made = await asked
        chain = read_chain(s.path, "@alpha")
        assert [one.id for one in chain][:1] == [made]
        assert chain[0].note.summary == "half way"
        await s.commander.stop("alpha")
        stored = [row["content"] for row in await s.rows("SELECT content FROM memory ORDER BY turn_id, seq")]
        assert [one.content for one in read_messages(s.path, "@alpha")] == stored


async def test_a_checkpoint_in_a_turn_holds_what_no_policy_committed_before(tmp_path: Path) -> None:
    slow = Answer(text="I look.", calls=(call("look", "north"),))
    async with swarm(tmp_path, script(Answer(text="Ready."), slow), settings=with_capture("explicit")) as s:
        await s.commander.create("alpha")
        await s.ask("alpha", "wake up")
        s.peer.gates["look"] = asyncio.Event()
        await s.commander.send("alpha", "find iron")
        await s.until(lambda: s.peer.running)
        asked = asyncio.create_task(contexts(s).checkpoint("alpha", summary="half way"))
        await s.run_due()
        s.peer.gates["look"].set()
        made = await asked
        chain = read_chain(s.path, "@alpha")
        assert (chain[-1].id, chain[-1].note.summary) == (made, "half way")
        texts = ["wake up", "Ready.", "find iron", "I look.", "look did north"]
        assert [one.content for one in read_messages(s.path, "@alpha")] == texts
        await s.commander.stop("alpha")


async def test_a_snapshot_bounds_what_is_read_and_is_left_out_to_the_root(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK)) as s:
        await talk(s, "find iron")
        whole = read_messages(s.path, "@alpha")
        middle = read_chain(s.path, "@alpha")[0]
        made = await contexts(s).snapshot("@alpha")
        await s.ask("alpha", "and in the south?")
        chain = read_chain(s.path, "@alpha")
        snapshot = next(one for one in chain if one.id == made)
        assert (snapshot.kind, read(s.path, snapshot)) == (CommitType.SNAPSHOT, whole)
        assert read(s.path, chain[-1]) == read(s.path, chain[-1], to_root=True)
        beside = await contexts(s).snapshot(middle.id)
        assert read_chain(s.path, f"snapshot/ctx-{middle.digest.hex()[:8]}")[-1].id == beside
        assert read_chain(s.path, "@alpha") == chain


async def test_a_compaction_by_hand_stands_beside_the_branch_and_is_paid_as_background_work(tmp_path: Path) -> None:
    settings = Settings.model_validate({"context": {"summary": "model"}})
    answers = (*TALK[:4], Answer(text="Iron lies in the north."), Answer(text="From the summary."))
    async with swarm(tmp_path, script(*answers), settings=settings) as s:
        await talk(s)
        before = read_chain(s.path, "@alpha")
        made = await contexts(s).compact("@alpha")
        (ref,) = [row["name"] for row in await s.rows("SELECT name FROM ctx_ref WHERE name LIKE 'compact/%'")]
        compaction = read_chain(s.path, ref)[-1]
        assert (compaction.id, compaction.kind, compaction.parent) == (made, CommitType.COMPACTION, before[-1].seq)
        assert read_chain(s.path, "@alpha") == before
        (entry,) = read(s.path, compaction)
        assert "Iron lies in the north." in entry.content
        assert compaction.note.model
        assert (await s.rows("SELECT purpose FROM request ORDER BY id"))[-1]["purpose"] == "summary"
        assert await s.value("SELECT count(*) FROM spend WHERE scope = 'background' AND used_tokens > 0") == 1
        request = await fork(s, ref, "go on")
        assert (await s.commander.view()).myses[-1].name == "alpha-2"
        assert [one.role for one in request.messages if one.role is not Role.SYSTEM] == [Role.USER, Role.USER]
        assert "Iron lies in the north." in told(request)[0][1]


async def test_what_a_compaction_by_hand_spends_is_shown_at_once(tmp_path: Path) -> None:
    settings = Settings.model_validate({"context": {"summary": "model"}})
    async with swarm(tmp_path, script(*TALK[:4], Answer(text="Iron lies in the north.")), settings=settings) as s:
        await talk(s)
        before = (await s.commander.mysis("alpha")).tokens
        await contexts(s).compact("@alpha")
        shown = (await s.commander.mysis("alpha")).tokens
        assert before < shown == read_mysis_view(s.path, "alpha").tokens


async def test_a_compaction_without_a_model_chooses_lines_and_needs_no_mysis(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK)) as s:
        await talk(s, "error: the drill at port 8443 broke")
        tip = read_chain(s.path, "@alpha")[-1]
        await s.commander.delete("alpha")
        with pytest.raises(MysisMissing):
            await contexts(s).compact(tip.id)
        await contexts(s).compact(tip.id, extract=True)
        ref = f"compact/ctx-{tip.digest.hex()[:8]}"
        assert await contexts(s).name_commit(ref, "") == ref, "the name of a compaction can be removed"
        await contexts(s).compact(tip.id, extract=True)
        assert "8443" in read(s.path, read_chain(s.path, ref)[-1])[0].content


async def test_a_picked_call_that_was_carried_out_brings_its_result(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK, Answer(text="Ready."))) as s:
        await talk(s)
        asked = next(one for one in read_chain(s.path, "@alpha") if "called" in one.note.summary)
        said = [one.content for one in read_messages(s.path, "@alpha") if one.role is Role.TOOL]
        await s.commander.create("beta", start=True)
        await s.ask("beta", "wake up")
        await contexts(s).pick(asked.id, "beta")
        known = read_messages(s.path, "@beta")
    assert [one.content for one in known[-2:]] == said[:2] == ["look did north", "act did dig"]


async def test_what_one_mysis_learned_is_picked_for_another(tmp_path: Path) -> None:
    answers = (*TALK, Answer(text="Ready."), Answer(text="At 7."))
    async with swarm(tmp_path, script(*answers)) as s:
        await talk(s)
        learned = read_chain(s.path, "@alpha")[-1]
        texts = [one.content for one in read_messages(s.path, "@alpha")]
        await s.commander.create("beta", start=True)
        await s.ask("beta", "wake up")
        before = [one.content for one in read_messages(s.path, "@beta")]
        made = await contexts(s).pick(learned.id, "beta")
        picked = read_chain(s.path, "@beta")[-1]
        assert (picked.id, picked.note.tags, picked.provenance.principal) == (made, ("picked",), "beta")
        assert picked.message_count == learned.message_count + 1, "its result, with the answer that made the call"
        view = await s.commander.mysis("beta")
        assert view.state is MysisState.RUNNING, "as before"
        await s.ask("beta", "where is iron?")
        shown = [text for _, text in told(s.provider.requests[-1])]
        own = texts[-picked.message_count :]
        assert shown == [*before, *own, "where is iron?"]
        for revision, why in ((made, "knows ctx-"), ("@beta~1", "knows ctx-")):
            with pytest.raises(UsageError, match=why):
                await contexts(s).pick(revision, "beta")
        with pytest.raises(MysisMissing):
            await contexts(s).pick(learned.id, "gamma")
