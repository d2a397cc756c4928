"""Resume and ask: a new session of a mysis, and questions to what a mysis knew, as commits tell it."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from tests.swarm.harness import Swarm, script, swarm
from tests.swarm.test_commit_capture import read_chain, read_messages
from tests.swarm.test_forks import TALK, check_calls, talk, told
from zoea.chain.collection import find_unreached
from zoea.model.enums import MysisState
from zoea.model.errors import MissingBlob, MysisMissing, RevisionError, SwarmFull, UsageError
from zoea.model.request import Answer, ModelRequest
from zoea.queries.commit_history import read_history
from zoea.settings.schema import Settings
from zoea.store.database_file import connect_reader
from zoea.swarm.commit_commands import CommitCommands


def contexts(s: Swarm) -> CommitCommands:
    return CommitCommands(s.commander)


async def say(s: Swarm, name: str, text: str) -> ModelRequest:
    """Send a message, and return the first request of the turn that it opens."""
    before = len(s.provider.requests)
    await s.commander.send(name, text)
    await s.settled(name)
    return s.provider.requests[before]


@pytest.mark.parametrize("strategy", ["turns", "window"])
async def test_a_resumed_mysis_is_asked_with_its_whole_conversation_once(tmp_path: Path, strategy: str) -> None:
    settings = Settings.model_validate({"context": {"strategy": strategy}})
    async with swarm(tmp_path, script(*TALK), settings=settings) as s:
        await talk(s)
        stored = await s.rows("SELECT role, content FROM memory ORDER BY turn_id, seq")
    async with swarm(tmp_path, script(Answer(text="Back."), Answer(text="On.")), settings=settings) as s:
        view = await contexts(s).resume("@alpha")
        assert (view.name, view.id, view.state) == ("alpha", 1, MysisState.RUNNING)
        first = await say(s, "alpha", "still there?")
        later = await say(s, "alpha", "and now?")
        sessions = await s.rows("SELECT start_commit FROM ctx_session ORDER BY session_id")
        tip = await s.value("SELECT commit_seq FROM ctx_origin WHERE mysis_id = 1")
    assert told(first) == [*((row["role"], row["content"]) for row in stored), ("user", "still there?")]
    check_calls(first.messages)
    assert [text for _, text in told(later)].count("Back.") == 1
    assert told(later)[: len(stored)] == told(first)[:-1], "all of it has room in later turns too"
    assert sessions[-1]["start_commit"] == tip
    chain = read_chain(tmp_path / "zoea.db", "@alpha")
    assert [one.parent for one in chain[1:]] == [one.seq for one in chain[:-1]], "one branch"


async def test_a_mysis_that_rests_while_it_runs_is_resumed_in_a_new_session(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK)) as s:
        await talk(s)
        before = await s.value("SELECT count(*) FROM session")
        await contexts(s).resume("alpha")
        assert await s.value("SELECT count(*) FROM session") == before + 1


async def test_the_branch_of_a_deleted_mysis_makes_a_new_one_under_its_name(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK)) as s:
        await talk(s)
        await s.commander.delete("alpha")
        view = await contexts(s).resume("@alpha")
        assert (view.name, view.id) == ("alpha", 2)
        request = await say(s, "alpha", "back?")
        again = await contexts(s).resume("deleted/alpha-1")
        assert again.name == "alpha-2"
        with pytest.raises(MysisMissing):
            await contexts(s).resume("@gamma")
    assert ("assistant", "Found iron at 7.") in told(request)


async def test_what_cannot_be_read_starts_fresh_only_where_that_is_allowed(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK)) as s:
        await talk(s)
        await s.commander.stop("alpha")
        await s.store.write(lambda conn: conn.execute("UPDATE blob SET data = x'00'"))
        with pytest.raises(MissingBlob, match="damaged") as refused:
            await contexts(s).resume("alpha")
        assert "--allow-fresh" in refused.value.hint
        view = await contexts(s).resume("alpha", allow_fresh=True)
        assert view.state is MysisState.RUNNING
        await say(s, "alpha", "Who are you?")
        commits = await s.rows("SELECT tags FROM ctx_note ORDER BY commit_seq DESC, id DESC LIMIT 1")
        assert commits[0]["tags"] == '["fresh"]', "what it did not know is recorded"
        assert await s.value("SELECT fresh_at > 0 FROM ctx_origin WHERE mysis_id = 1")
        await s.commander.stop("alpha")
        await contexts(s).resume("alpha", allow_fresh=True)
        again = await say(s, "alpha", "And now?")
        assert told(again)[-1] == ("user", "And now?")


@pytest.mark.parametrize("asks", [False, True], ids=["a fork", "an answer in a thread"])
async def test_a_later_session_stays_in_the_history_of_the_mysis_that_it_was_made_from(
    tmp_path: Path, asks: bool
) -> None:
    async with swarm(tmp_path, script(*TALK, *[Answer(text="Well.")] * 3)) as s:
        await talk(s)
        if asks:
            made = (await contexts(s).ask("@alpha", "What is wrong?", thread="t")).mysis.name
            await s.settled(made)
            await contexts(s).ask("@alpha", "Why so?", thread="t")
        else:
            made = (await s.commander.create("", commit="@alpha")).name
            await say(s, made, "Go on.")
            await contexts(s).resume(made)
            await say(s, made, "And now?")
        await s.settled(made)
        history = await asyncio.to_thread(read_history, s.path, 1, 100)
        tip = read_chain(s.path, f"@{made}")[-1]
    assert tip.seq in {one.seq for one in history.commits}


async def test_a_question_leaves_a_ticket_where_a_person_put_it(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK[:4], *[Answer(text="Well.")] * 3)) as s:
        await talk(s)
        known = read_chain(s.path, "@alpha")[-2]
        one = await contexts(s).ask(known.id, "What is wrong?", ticket="tkt-7")
        await s.settled(one.mysis.name)
        answer = read_chain(s.path, "ticket/tkt-7")[-1]
        assert answer.id != known.id, "a new ticket names the answer"
        await contexts(s).name_commit("tkt-7", answer.id)
        two = await contexts(s).ask("tkt-7", "Why so?")
        await s.settled(two.mysis.name)
        assert read_chain(s.path, "ticket/tkt-7")[-1].id == answer.id
        three = await contexts(s).ask("tkt-7", "And now?", ticket="tkt-7")
        await s.settled(three.mysis.name)
        assert read_chain(s.path, "ticket/tkt-7")[-1].id == read_chain(s.path, three.ref)[-1].id


async def test_two_discussions_of_one_commit_know_nothing_of_each_other(tmp_path: Path) -> None:
    answers = (*TALK[:4], Answer(text="The first."), Answer(text="The other."), Answer(text="More of the first."))
    async with swarm(tmp_path, script(*answers)) as s:
        await talk(s)
        commit = read_chain(s.path, "@alpha")[-2]
        one = await contexts(s).ask(commit.id, "What is wrong?", thread="finding-1")
        await s.settled(one.mysis.name)
        other = await contexts(s).ask(commit.id, "And here?", thread="finding-2")
        await s.settled(other.mysis.name)
        before = len(s.provider.requests)
        again = await contexts(s).ask(commit.id, "Why so?", thread="finding-1")
        await s.settled(again.mysis.name)
        request = s.provider.requests[before]
        assert (one.context, other.context) == (commit.id, commit.id)
        assert again.mysis.id == one.mysis.id != other.mysis.id
        assert await s.value("SELECT count(*) FROM mysis WHERE state = 'running' AND id > 1") == 0
        texts = [text for _, text in told(request)]
        assert texts.count("What is wrong?") == texts.count("The first.") == 1
        assert texts[-1] == "Why so?"
        assert not {"And here?", "The other."} & set(texts)
        chains = [read_chain(s.path, ref) for ref in (again.ref, other.ref)]
        for chain, thread in zip(chains, ("finding-1", "finding-2"), strict=True):
            assert commit in chain
            assert {made.provenance.thread_id for made in chain if made.seq > commit.seq} - {None} == {thread}
        assert read_messages(s.path, again.ref)[-1].content == "More of the first."
        assert read_chain(s.path, "@alpha")[-2] == commit


async def test_a_thread_goes_on_when_the_mysis_that_answered_was_deleted(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK[:4], Answer(text="The first."), Answer(text="The second."))) as s:
        await talk(s)
        one = await contexts(s).ask("@alpha", "What is wrong?")
        await s.settled(one.mysis.name)
        await s.commander.delete(one.mysis.name)
        two = await contexts(s).ask("@alpha", "Why so?", thread=one.thread)
        await s.settled(two.mysis.name)
        assert two.mysis.id != one.mysis.id
        assert ("assistant", "The first.") in told(s.provider.requests[-1])
        with pytest.raises(UsageError, match="empty"):
            await contexts(s).ask("@alpha", " ")
        with pytest.raises(UsageError, match="thread"):
            await contexts(s).ask("@alpha", "x", thread="a/b")


async def test_a_ticket_names_what_was_known_for_it_and_is_asked(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK[:4], Answer(text="A leak."), Answer(text="Of memory."))) as s:
        await talk(s)
        earlier, tip = read_chain(s.path, "@alpha")[-2:]
        assert await contexts(s).name_commit("tkt-7", earlier.id) == "ticket/tkt-7"
        one = await contexts(s).ask("tkt-7", "What is wrong?", ticket="tkt-7")
        await s.settled(one.mysis.name)
        assert one.context == earlier.id
        newest = read_chain(s.path, "ticket/tkt-7")[-1]
        assert newest == read_chain(s.path, one.ref)[-1], "the newest commit of the ticket"
        assert newest.provenance.ticket_id == "tkt-7"
        again = await contexts(s).ask("tkt-7", "Of what?")
        await s.settled(again.mysis.name)
        commits = read_chain(s.path, again.ref)
        assert (again.context, commits[-1].provenance.ticket_id) == (newest.id, "tkt-7"), "it goes on for the ticket"
        assert tip.provenance.ticket_id is None
        since = await s.value("SELECT max(created_at) + 1 FROM ctx_reflog")
        await contexts(s).name_commit(one.ref, "")
        await contexts(s).name_commit(again.ref, "")
        for asked in (one, again):
            await s.commander.delete(asked.mysis.name)
        with closing(connect_reader(s.path)) as conn:
            assert not {one.seq for one in commits} & set(find_unreached(conn, since)), "a ticket keeps its commits"
        with pytest.raises(UsageError, match="cannot be a ticket"):
            await contexts(s).ask("@alpha", "x", ticket="seven")
        assert await contexts(s).name_commit("tkt-7", "") == "ticket/tkt-7"
        with pytest.raises(RevisionError):
            await contexts(s).ask("tkt-7", "Gone?")


async def test_a_mysis_that_answers_a_question_counts_among_the_myses_of_the_swarm(tmp_path: Path) -> None:
    few = Settings.model_validate({"swarm": {"max_myses": 2}})
    async with swarm(tmp_path, script(*TALK[:4], Answer(text="A leak.")), settings=few) as s:
        await talk(s)
        one = await contexts(s).ask("@alpha", "What is wrong?", thread="finding")
        await s.settled(one.mysis.name)
        with pytest.raises(SwarmFull):
            await contexts(s).ask("@alpha", "And here?", thread="other")
        again = await contexts(s).ask("@alpha", "Why so?", thread="finding")
        await s.settled(again.mysis.name)
        assert again.mysis.id == one.mysis.id, "the next question of a thread needs no room"
