"""Myses commit what they know: at every trigger of their policy, and nothing is lost by a crash."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.swarm.harness import Swarm, call, script, swarm
from zoea.chain import commit_ops
from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import ContextCommit
from zoea.chain.commit_rows import read_commit, read_ref, walk_chain
from zoea.chain.entries import ContextEntry
from zoea.chain.verification import verify_chains
from zoea.context import EarlierTurns
from zoea.model.enums import MysisState, Role
from zoea.model.errors import StoreError
from zoea.model.request import Answer
from zoea.settings.commit_settings import ChainSettings
from zoea.settings.schema import Settings
from zoea.store.database_file import connect_reader
from zoea.swarm import life as lf
from zoea.swarm.commit_capture import CommitCapture
from zoea.swarm.persistence import row_values, turn_records
from zoea.swarm.persistence.turn_ops import OpenedTurn
from zoea.swarm.services import Services


def read_chain(path: Path, ref: str) -> list[ContextCommit]:
    with closing(connect_reader(path)) as conn:
        tip = read_ref(conn, ref)
        return [] if tip is None else walk_chain(conn, tip)


def read_messages(path: Path, ref: str) -> tuple[ContextEntry, ...]:
    with closing(connect_reader(path)) as conn:
        tip = read_ref(conn, ref)
        commit = None if tip is None else read_commit(conn, tip)
        return () if commit is None else ChainReader(conn).read_messages(commit, to_root=True)


def triggers(path: Path, ref: str = "@alpha") -> list[str]:
    return [f"{one.checkpoint}:{one.message_count}" for one in read_chain(path, ref)]


def with_capture(text: str, **more: object) -> Settings:
    return Settings.model_validate({"chain": {"capture": text}, **more})


TWO_CALLS = (
    Answer(text="I look.", calls=(call("look", "north"), call("act", "dig"))),
    Answer(text="Found iron."),
    Answer(calls=(call("look", "south"),)),
    Answer(text="Nothing there."),
)


async def two_turns(s: Swarm) -> None:
    await s.commander.create("alpha", start=True)
    for text in ("find iron", "and in the south?"):
        await s.ask("alpha", text)


async def test_each_answer_is_a_commit_that_names_where_it_comes_from(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TWO_CALLS)) as s:
        await two_turns(s)
        chain = read_chain(s.path, "@alpha")
        template_hash, session = (
            await s.value("SELECT template_hash FROM mysis"),
            await s.value("SELECT id FROM session"),
        )
        memories = await s.rows("SELECT id, role, content FROM memory ORDER BY turn_id, seq")
    assert triggers(s.path) == ["turn_boundary:2", "turn_boundary:3", "turn_boundary:2", "turn_boundary:2"]
    for commit in chain:
        about = commit.provenance
        assert (about.principal, about.mysis_id, about.template_hash, about.session_id) == (
            "alpha",
            1,
            template_hash,
            session,
        )
        assert about.machine
        assert commit.note.summary
        assert commit.token_count > 0
    found = read_messages(s.path, "@alpha")
    assert [(one.role, one.content) for one in found] == [(Role(row["role"]), row["content"]) for row in memories]
    assert [one.position for one in found if one.role is Role.TOOL] == [0, 1, 0]
    assert [json.loads(one.arguments)["text"] for entry in found for one in entry.calls] == ["north", "dig", "south"]
    with closing(connect_reader(s.path)) as conn:
        assert list(verify_chains(conn)) == []


async def test_an_answer_is_committed_before_its_tools_start(tmp_path: Path) -> None:
    seen: list[int] = []

    async with swarm(tmp_path, script(*TWO_CALLS[:2])) as s:

        class Gate:
            async def wait(self) -> None:
                seen.append(len(read_chain(s.path, "@alpha")))

        s.peer.gates["look"] = Gate()  # type: ignore[assignment]  # it only has to wait
        await s.commander.create("alpha")
        await s.ask("alpha", "find iron")
    assert seen == [1]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("tool_results", ["turn_boundary:2", "tool_call:1", "tool_call:1", "turn_boundary:1"]),
        ("every:2", ["turn_boundary:5"]),
        ("significant", ["turn_boundary:5"]),
        ("explicit", []),
        ("off", []),
    ],
)
async def test_the_policy_of_a_template_says_when_it_commits(tmp_path: Path, policy: str, expected: list[str]) -> None:
    async with swarm(tmp_path, script(*TWO_CALLS[:2]), settings=with_capture(policy)) as s:
        await s.commander.create("alpha")
        await s.ask("alpha", "find iron")
        assert triggers(s.path) == expected
    if policy not in ("explicit", "off"):
        assert len(read_messages(s.path, "@alpha")) == 5


async def test_what_a_coarse_policy_left_is_committed_when_the_session_ends(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TWO_CALLS[:2]), settings=with_capture("every:9")) as s:
        await s.commander.create("alpha")
        await s.ask("alpha", "find iron")
        assert triggers(s.path) == []
        await s.commander.stop("alpha")
        assert triggers(s.path) == ["session_end:5"]
        (row,) = await s.rows("SELECT start_commit, end_commit FROM ctx_session")
        assert row == {"start_commit": None, "end_commit": 1}


async def test_a_turn_that_is_stopped_commits_its_results_and_the_session_ends_after_it(tmp_path: Path) -> None:
    import asyncio

    async with swarm(tmp_path, script(*TWO_CALLS)) as s:
        s.peer.gates["look"] = asyncio.Event()
        await s.commander.create("alpha")
        await s.commander.send("alpha", "find iron")
        await s.until(lambda: s.peer.running)
        await s.commander.stop("alpha")
        s.peer.gates["look"].set()
        assert triggers(s.path) == ["turn_boundary:2", "session_end:2"]
        (row,) = await s.rows("SELECT s.outcome, c.end_commit FROM ctx_session c JOIN session s ON s.id = c.session_id")
        assert row == {"outcome": "stopped", "end_commit": 2}


async def test_a_nudge_stands_in_the_context_without_a_sender(tmp_path: Path) -> None:
    settings = with_capture("answer", nudge={"idle_interval": 10})
    async with swarm(tmp_path, script(Answer(text="on it")), settings=settings) as s:
        await s.commander.create("alpha")
        await s.run_due()
        s.clock.by(11)
        await s.until(lambda: read_chain(s.path, "@alpha"))
    first = read_messages(s.path, "@alpha")[0]
    assert (first.role, first.is_synthetic, first.source) == (Role.USER, True, "system")
    assert first.content


async def test_a_failed_commit_stops_nothing_and_the_next_one_holds_both_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [2]
    real = commit_ops.insert_commit

    def failing(*given: Any, **named: Any) -> object:
        if left[0]:
            left[0] -= 1
            raise (StoreError("no"), sqlite3.IntegrityError("no"))[left[0]]
        return real(*given, **named)

    monkeypatch.setattr(commit_ops, "insert_commit", failing)
    async with swarm(tmp_path, script(*TWO_CALLS)) as s:
        await two_turns(s)
        assert triggers(s.path) == ["turn_boundary:7", "turn_boundary:2"]
        assert s.state() == "running"
        assert await s.value("SELECT count(*) FROM memory") == 9


async def test_messages_stored_before_commits_were_made_are_committed_first(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TWO_CALLS[:2]), settings=with_capture("off")) as s:
        await s.commander.create("alpha")
        await s.ask("alpha", "find iron")
    async with swarm(tmp_path, script(*TWO_CALLS[2:])) as s:
        await s.ask("alpha", "and in the south?")
        memories = await s.rows("SELECT role, content FROM memory ORDER BY turn_id, seq")
    assert triggers(s.path)[0] == "explicit:5"
    found = read_messages(s.path, "@alpha")
    assert [(one.role, one.content) for one in found] == [(Role(row["role"]), row["content"]) for row in memories]
    assert [one.position for one in found if one.role is Role.TOOL] == [0, 1, 0]


async def test_the_branch_of_a_deleted_mysis_leaves_its_name_free_and_returns_with_it(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="done"))) as s:
        await s.commander.create("alpha")
        await s.ask("alpha", "one")
        before = read_chain(s.path, "@alpha")
        await s.commander.delete("alpha")
        await s.commander.create("alpha")
        assert read_chain(s.path, "@alpha") == []
        assert read_chain(s.path, "deleted/alpha-1") == before
        await s.commander.delete("alpha")
        await s.commander.undelete(1)
        assert read_chain(s.path, "@alpha") == before


async def test_a_prompt_whose_turn_was_cancelled_while_it_was_stored_is_committed(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TWO_CALLS)) as s:
        await two_turns(s)
        (row,) = await s.store.read(row_values.MYSIS)
        capture = CommitCapture(row_values.mysis(row), ChainSettings(), s.store, s.clock)
        await capture.load()
        await s.store.write(
            lambda conn: conn.execute(
                "INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, tokens, created_at)"
                " SELECT mysis_id, turn_id, max(seq) + 1, 'user', 'direct', 'and in the west?', 4, 1 FROM memory"
                " WHERE turn_id = (SELECT max(turn_id) FROM memory)"
            )
        )
        stored = await turn_records.read_earlier(s.store, EarlierTurns((2,)))
        capture.go_on(2, stored, "", s.clock.now())
        await capture.flush()
    assert read_messages(s.path, "@alpha")[-1].content == "and in the west?"


async def test_what_a_killed_process_left_is_committed_at_the_next_start_and_tagged(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TWO_CALLS)) as s:
        await two_turns(s)
    with closing(sqlite3.connect(tmp_path / "zoea.db")) as conn, conn:
        conn.execute(
            "INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, tokens, created_at)"
            " SELECT mysis_id, turn_id, max(seq) + 1, 'user', 'direct', 'and in the west?', 4, 1 FROM memory"
            " WHERE turn_id = (SELECT max(turn_id) FROM memory)"
        )
    before = read_chain(tmp_path / "zoea.db", "@alpha")
    for _ in range(2):  # the second start finds nothing left
        async with swarm(tmp_path, script(Answer(text="-"))) as s:
            await s.until(lambda: len(read_chain(tmp_path / "zoea.db", "@alpha")) > len(before))
    *known, recovered = read_chain(tmp_path / "zoea.db", "@alpha")
    assert known == before
    assert (recovered.checkpoint, recovered.note.tags) == ("session_end", ("recovered",))
    assert read_messages(tmp_path / "zoea.db", "@alpha")[-1].content == "and in the west?"


@pytest.mark.parametrize(
    ("tool", "expected"),
    [("zoea_broadcast", ["tool_call:3", "turn_boundary:1"]), ("zoea_list_myses", ["turn_boundary:4"])],
)
async def test_significant_commits_also_when_something_was_told_to_all(
    tmp_path: Path, tool: str, expected: list[str]
) -> None:
    answers = script(Answer(calls=(call(tool, "I found iron"),)), Answer(text="Done."))
    async with swarm(tmp_path, answers, settings=with_capture("significant")) as s:
        await s.commander.create("beta")
        await s.commander.create("alpha")
        await s.ask("alpha", "find iron")
        assert triggers(s.path) == expected


async def test_a_stop_in_the_moment_a_turn_opens_commits_its_prompt_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with swarm(tmp_path, script(Answer(text="ok"))) as s:
        await s.commander.create("alpha", start=False)
        runner, write = s.commander.swarm.runner("alpha"), Services.write

        async def late(services: Services, op: Callable[..., Any], **how: Any) -> Any:
            result = await write(services, op, **how)
            if isinstance(result, tuple) and isinstance(result[0], OpenedTurn):
                # The turn is stored, and its prompt not kept yet for the next commit.
                await runner.tell(lf.Stop(s.clock.uptime()))
            return result

        monkeypatch.setattr(Services, "write", late)
        await s.commander.send("alpha", "go")
        await s.until(lambda: s.state() is MysisState.STOPPED and not runner.has_turn)
        spans = await s.rows("SELECT first_memory_id AS first, last_memory_id AS last FROM ctx_commit ORDER BY seq")
        assert [(row["first"], row["last"]) for row in spans if row["first"]] == [(1, 1)]
