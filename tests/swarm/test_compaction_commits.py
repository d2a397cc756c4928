"""A summary that replaces the beginning of a conversation is a commit: what came before it stays in the chain."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.swarm.harness import script, swarm
from tests.swarm.test_commit_capture import read_chain
from tests.swarm.test_forks import TALK, fork, told
from tests.swarm.test_forks import talk as talk_of
from tests.swarm.test_model_summaries import PROSE, is_summary, model
from tests.swarm.test_window_strategy import settings, talk
from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import Checkpoint, CommitType, ContextCommit
from zoea.chain.entries import ContextEntry
from zoea.chain.verification import verify_chains
from zoea.context.window.conversation_summary import TITLE
from zoea.model.request import Answer
from zoea.queries.fork_costs import read_fork_cost
from zoea.runtime.first_request_estimate import FirstRequestEstimate, describe_first_request
from zoea.settings.paths import places
from zoea.settings.schema import Settings
from zoea.settings.template_library import Templates
from zoea.store.database_file import connect_reader

ANSWERS = [Answer(text=f"answer {n}") for n in range(1, 9)]


def read(path: Path, commit: ContextCommit, *, to_root: bool = False) -> tuple[ContextEntry, ...]:
    with closing(connect_reader(path)) as conn:
        assert list(verify_chains(conn)) == []
        return ChainReader(conn).read_messages(commit, to_root=to_root)


async def test_each_summary_of_the_window_is_a_commit_that_names_its_row(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*ANSWERS), settings=settings()) as s:
        await s.commander.create("alpha", start=False)
        await talk(s, 1, 8)
        chain = read_chain(s.path, "@alpha")
        made = [one for one in chain if one.kind is CommitType.COMPACTION]
        summaries = await s.rows("SELECT id, content FROM summary ORDER BY id")
        named = await s.rows("SELECT commit_seq, summary_id FROM ctx_compaction ORDER BY commit_seq")
        whole = [row["content"] for row in await s.rows("SELECT content FROM memory ORDER BY turn_id, seq")]
        assert made
        assert [(row["commit_seq"], row["summary_id"]) for row in named] == [
            (one.seq, row["id"]) for one, row in zip(made, summaries, strict=True)
        ]
        assert {one.checkpoint for one in made} == {Checkpoint.COMPACTION}
        newest, tip = made[-1], chain[-1]
        entries = [one.content for one in read(s.path, newest)]
        assert [text[:8] for text in entries[:2]] == ["number 1", "answer 1"]
        assert TITLE in entries[2]
        assert all(row["content"] for row in summaries)
        assert "keep record rec-0002x safe." in entries[2]
        to_root = [one.content for one in read(s.path, tip, to_root=True)]
        assert to_root == whole, "every message once, and no summary"
        later = [one.content for one in read(s.path, tip)]
        assert later[: len(entries)] == entries
        assert later[len(entries) :] == whole[whole.index(later[len(entries)]) :], "then all that came after"
        position = [one.seq for one in chain].index(newest.seq)
        assert chain[position - 1].kind is CommitType.DELTA, "what it covers was committed first"


async def test_a_policy_of_few_commits_commits_what_a_summary_covers_first(tmp_path: Path) -> None:
    rare = settings().model_copy(update={"chain": Settings.model_validate({"chain": {"capture": "every:50"}}).chain})
    async with swarm(tmp_path, script(*ANSWERS), settings=rare) as s:
        await s.commander.create("alpha", start=False)
        await talk(s, 1, 8)
        await s.commander.stop("alpha")
        chain = read_chain(s.path, "@alpha")
        whole = [row["content"] for row in await s.rows("SELECT content FROM memory ORDER BY turn_id, seq")]
        first = next(one for one in chain if one.kind is CommitType.COMPACTION)
        before = chain[[one.seq for one in chain].index(first.seq) - 1]
        assert (before.kind, before.checkpoint) == (CommitType.DELTA, Checkpoint.COMPACTION)
        assert [one.content for one in read(s.path, chain[-1], to_root=True)] == whole


async def test_what_a_fork_has_no_room_for_is_a_commit_at_the_beginning_of_its_branch(tmp_path: Path) -> None:
    small = Settings.model_validate({"inherited": {"max_tokens": 300}})
    async with swarm(tmp_path, script(*TALK), settings=small) as s:
        await talk_of(s, "find iron " * 300, "error: the drill at port 8443 broke", "and in the south?")
        tip = read_chain(s.path, "@alpha")[-1]
        request = await fork(s, "@alpha", "go on")
        chain = read_chain(s.path, "@alpha-2")
        compaction = chain[[one.seq for one in chain].index(tip.seq) + 1]
        assert (compaction.kind, compaction.parent) == (CommitType.COMPACTION, tip.seq)
        shown = [text for _, text in told(request)]
        assert [one.content for one in read(s.path, compaction)] == shown[:-1]
        assert [one.content for one in read(s.path, chain[-1])][: len(shown)] == shown
        assert len([one for one in chain if one.kind is CommitType.COMPACTION]) == 1


async def test_a_model_writes_the_summary_of_what_a_fork_has_no_room_for(tmp_path: Path) -> None:
    small = Settings.model_validate(
        {"inherited": {"max_tokens": 300}, "context": {"summary": "model"}, "llm": {"retries": 0}}
    )
    asks = model()
    async with swarm(tmp_path, provider=asks, settings=small) as s:
        await s.commander.create("alpha", start=False)
        for text in ("find iron " * 300, "error: the drill at port 8443 broke", "and in the south?"):
            await s.ask("alpha", text)
        tip = read_chain(s.path, "@alpha")[-1]
        made = await s.commander.create("", commit="@alpha")
        for text in ("go on", "and now?"):
            await s.commander.send(made.name, text)
            await s.settled(made.name)
        chain = read_chain(s.path, f"@{made.name}")
        compaction = chain[[one.seq for one in chain].index(tip.seq) + 1]
        rows = await s.rows("SELECT mysis_id FROM request WHERE purpose = 'summary'")
        spent = await s.value("SELECT used_tokens > 0 FROM spend WHERE scope = 'background' AND scope_id = 0 LIMIT 1")
    first, later = [one for one in asks.requests if not is_summary(one)][-2:]
    assert (compaction.kind, bool(compaction.note.model)) == (CommitType.COMPACTION, True)
    assert [row["mysis_id"] for row in rows] == [made.id], "once, paid by the mysis that is made"
    assert spent
    assert PROSE in first.messages[1].content
    assert PROSE in compaction.note.summary
    assert PROSE in later.messages[1].content
    assert "8443" in later.messages[1].content, "what the prose lost is appended"


async def test_without_budget_for_it_what_a_fork_has_no_room_for_is_summed_up_without_a_model(tmp_path: Path) -> None:
    poor = Settings.model_validate(
        {"inherited": {"max_tokens": 300}, "context": {"summary": "model"}, "budget": {"background": 1}}
    )
    async with swarm(tmp_path, provider=model(), settings=poor) as s:
        await s.ask("alpha", "find iron at port 8443. " * 300)
        request = await fork(s, "@alpha", "go on")
        chain = read_chain(s.path, "@alpha-2")
        assert await s.value("SELECT count(*) FROM request WHERE purpose = 'summary' AND state <> 'refused'") == 0
    (compaction,) = [one for one in chain if one.kind is CommitType.COMPACTION]
    assert compaction.note.model == ""
    assert "8443" in told(request)[0][1]


@pytest.mark.parametrize(
    ("summary", "provider", "most", "is_said"),
    [
        ("model", "", 300, True),
        ("auto", "ollama", 300, True),
        ("auto", "scripted", 300, False),
        ("extract", "ollama", 300, False),
        ("model", "", 0, False),
    ],
)
async def test_a_fork_says_before_that_a_model_writes_the_summary(
    tmp_path: Path, summary: str, provider: str, most: int, is_said: bool
) -> None:
    wanted = Settings.model_validate({"inherited": {"max_tokens": most}, "context": {"summary": summary}})
    async with swarm(tmp_path, script(*ANSWERS)) as s:
        await s.ask("alpha", "find iron " * 300)
        if provider:
            await s.store.write(lambda conn: conn.execute("UPDATE mysis SET provider = ?", (provider,)))
        tip = read_chain(s.path, "@alpha")[-1]
        with closing(connect_reader(s.path)) as conn:
            cost = read_fork_cost(conn, tip, "go on", wanted, Templates())
    said = describe_first_request(FirstRequestEstimate(tip, "ctx-1", cost, places(""), wanted), 1, 0)
    assert (cost.is_summed_by_model, "which a model writes first as background work" in said) == (is_said, is_said)
