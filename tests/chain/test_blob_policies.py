"""How long the bytes of commits stay: pinned, let go after a time, and what that leaves untouched."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.chain.test_collection_and_verification import grow, long
from tests.fakes.llm_clock import HandClock
from tests.waiting import until
from zoea.chain.blob_policies import estimate_release, release_expired, set_policy
from zoea.chain.chain_reader import ChainReader
from zoea.chain.collection import collect, estimate_collection
from zoea.chain.commit import ContextCommit
from zoea.chain.commit_edits import keep_commit
from zoea.chain.commit_ops import delete_ref
from zoea.chain.commit_rows import read_commit, walk_chain
from zoea.chain.mirror import copy_blobs, fetch_blobs, remember_mirror
from zoea.chain.verification import verify_chains
from zoea.model.errors import MissingBlob, RevisionError, UsageError
from zoea.process.clock import SystemClock
from zoea.runtime.periodic_tasks import run_releases
from zoea.store.database_file import connect_reader
from zoea.store.integrity import inspect_database
from zoea.store.store import Store

HUGE = "x" * 1_100_000
FAR = 1 << 60
"""A time to come, so that nothing is kept for its age."""


async def end(store: Store, commits: list[ContextCommit]) -> None:
    """Let the time of commits be over."""
    seqs = [one.seq for one in commits]
    await store.write(lambda conn: set_policy(conn, seqs, "ephemeral", 0.000_001))
    await store.write(lambda conn: conn.execute("UPDATE ctx_policy SET until = 0 WHERE until IS NOT NULL"))


def read(store: Store, commit: ContextCommit) -> list[str]:
    with closing(connect_reader(store.path)) as conn:
        return [one.content for one in ChainReader(conn).materialize(commit, to_root=True).entries]


async def test_what_is_over_is_let_go_and_named_and_all_else_is_shown(store: Store) -> None:
    made = await grow(store, ["first " + long("one"), HUGE], None, "@alpha")
    other = await grow(store, ["first " + long("one")], None, "@beta")
    files = list(store.path.parent.rglob("*.zst"))
    assert len(files) == 1
    await end(store, made)
    with closing(connect_reader(store.path)) as conn:
        expected = estimate_release(conn, 1)
    async with run_releases(store, SystemClock()):
        await until(lambda: not files[0].exists())
    with closing(connect_reader(store.path)) as conn:
        assert expected.blobs == conn.execute("SELECT count(*) FROM blob WHERE released_at IS NOT NULL").fetchone()[0]
        assert [one.seq for one in walk_chain(conn, made[-1].seq)] == [one.seq for one in made]
        assert read_commit(conn, made[0].seq) == made[0]
        assert list(verify_chains(conn)) == [], "let go on purpose, which is no damage"
        found = {one.name: one.problem for one in inspect_database(conn, store.path.parent, whole=False, report=print)}
        assert (found["blobs"], found["unused files"]) == ("", "")
        with pytest.raises(MissingBlob, match=r"[0-9a-f]{64} was let go: its commits were ephemeral"):
            ChainReader(conn).materialize(made[-1])
    assert read(store, other[0]) == ["first " + long("one")], "what another commit needs stays"
    assert (await store.write(release_expired)).blobs == 0
    again = await grow(store, [HUGE], None, "@gamma")
    assert read(store, again[0]) == [HUGE], "bytes that come again are stored again"


async def test_a_pin_keeps_a_commit_and_all_before_it_from_both_ends(store: Store) -> None:
    made = await grow(store, [long("one"), long("two"), long("three")], None, "@alpha")
    assert await keep_commit(store, made[1].id, "pin") == 1
    await end(store, [made[0], made[2]])
    await store.write(lambda conn: delete_ref(conn, "@alpha", "test"))
    with closing(connect_reader(store.path)) as conn:
        assert estimate_collection(conn, FAR).commits == 1
    done = await store.write(lambda conn: collect(conn, FAR))
    assert done.commits == 1, "that after the pinned one"
    assert (await store.write(release_expired)).blobs == 0
    assert read(store, made[1]) == [long("one"), long("two")]
    await keep_commit(store, made[1].id, "default")
    assert (await store.write(lambda conn: collect(conn, FAR))).commits == 2


async def test_what_was_let_go_is_read_from_the_mirror_and_comes_back_only_when_asked_for(
    store: Store, tmp_path: Path
) -> None:
    made = await grow(store, [long("one"), HUGE], None, "@alpha")
    folder = tmp_path / "disk"
    folder.mkdir()
    with closing(connect_reader(store.path)) as conn:
        copy_blobs(conn, folder, 0)
    await end(store, made)
    for file in (await store.write(release_expired)).files:
        file.unlink()
    await store.write(partial(remember_mirror, folder=folder))
    assert read(store, made[-1]) == [long("one"), HUGE]
    assert (await store.write(partial(fetch_blobs, folder=folder))).restored == 0
    found = await store.write(partial(fetch_blobs, folder=folder, seqs=[one.seq for one in made]))
    assert (found.restored, found.missing) == (4, ())
    await store.write(partial(remember_mirror, folder=None))
    assert read(store, made[-1]) == [long("one"), HUGE]


async def test_policies_are_set_for_one_commit_or_its_whole_chain(store: Store) -> None:
    made = await grow(store, ["one", "two"], None, "@alpha")
    assert await keep_commit(store, "@alpha", "ephemeral", 2.5, whole=True) == 2
    rows = await store.read("SELECT policy, until - created_at AS us FROM ctx_policy ORDER BY commit_seq")
    assert [tuple(row) for row in rows] == [("ephemeral", 216_000_000_000)] * 2
    assert await keep_commit(store, made[0].id, "default") == 1
    assert len(await store.read("SELECT 1 FROM ctx_policy")) == 1
    for policy, days in (("never", 0), ("ephemeral", 0), ("pin", 1), ("ephemeral", 1e9)):
        with pytest.raises(UsageError):
            await keep_commit(store, "@alpha", policy, days)
    with pytest.raises(RevisionError):
        await keep_commit(store, "@nobody", "pin")


async def test_a_clock_that_was_set_ahead_lets_go_of_nothing_for_a_day(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    made = await grow(store, [HUGE], None, "@alpha")
    (file,) = store.path.parent.rglob("*.zst")
    clock, before = HandClock(), store.stats.ops

    def passes(seconds: float, holds: Callable[[], bool]) -> bool:
        clock.by(seconds)
        return holds()

    async with run_releases(store, clock):
        await until(lambda: store.stats.ops > before)
        await end(store, made)
        clock.jump(2 * 86_400)
        clock.follow()
        await until(lambda: passes(601, lambda: "the clock was set ahead by 2 days" in caplog.text))
        assert file.exists()
        await until(lambda: passes(3_600, lambda: not file.exists()))
