"""Random commit graphs on a real database: what is materialized is what was said."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from zoea.chain.chain_reader import ChainReader
from zoea.chain.collection import collect
from zoea.chain.commit import Checkpoint, CommitType, ContextCommit, Provenance
from zoea.chain.commit_ops import NewCommit, delete_ref, insert_commit, move_ref, prepare_blobs
from zoea.chain.commit_rows import (
    find_by_prefix,
    read_children,
    read_commit,
    read_lifted,
    read_newest,
    read_ref,
    ref_at,
    resolve_time,
    shortest_id,
    walk_chain,
)
from zoea.chain.entries import ContextEntry, encode_delta
from zoea.chain.formats import ZOEA
from zoea.chain.materialize import Tier
from zoea.chain.verification import verify_chains
from zoea.model.enums import Role
from zoea.model.errors import StoreConflict
from zoea.store.database_file import connect_reader
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection


def new_commit(
    entries: list[ContextEntry], parent: int | None, *, kind: CommitType = CommitType.DELTA, principal: str = "alpha"
) -> NewCommit:
    encoded = encode_delta(entries)
    blob, lifted = prepare_blobs(encoded.data, encoded.lifted)
    return NewCommit(
        parent,
        kind,
        ZOEA,
        blob,
        lifted,
        Checkpoint.EXPLICIT,
        Provenance(principal),
        len(entries),
        sum(one.token_count for one in entries),
    )


class _Killed(Exception):
    """Ends an op in the middle."""


class ChainMachine(RuleBasedStateMachine):
    """Makes commits of all types anywhere in a forest. A model beside it keeps every text."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.time = 1_000_000
        self.loop = asyncio.new_event_loop()
        self.store = self.loop.run_until_complete(
            Store.open(Path(self.folder.name) / "zoea.db", clock_now=lambda: self.time)
        )
        self.numbers = count(1)
        self.commits: dict[int, ContextCommit] = {}
        self.texts: dict[int, list[str]] = {}
        self.refs: dict[str, list[tuple[int, int]]] = {}
        self.moved: set[int] = set()  # what the reflog names
        self.unlogged: set[str] = set()  # refs that the reflog knows nothing of
        self.reader: sqlite3.Connection

    @initialize()
    def open_reader(self) -> None:
        self.reader = connect_reader(self.store.path)

    def teardown(self) -> None:
        self.reader.close()
        self.loop.run_until_complete(self.store.close())
        self.loop.close()
        self.folder.cleanup()

    def commit(self, texts: list[str], parent: int | None, kind: CommitType, principal: str) -> None:
        entries = [ContextEntry(Role.USER, one, "direct") for one in texts]
        new = new_commit(entries, parent, kind=kind, principal=principal)
        stored = self.loop.run_until_complete(self.store.write(lambda conn: insert_commit(conn, new)))
        self.commits[stored.seq] = stored
        self.texts[stored.seq] = texts

    def chain(self, seq: int) -> Iterator[int]:
        at: int | None = seq
        while at is not None:
            yield at
            at = self.commits[at].parent

    @rule(data=st.data(), messages=st.integers(1, 3), long=st.booleans(), principal=st.sampled_from(["alpha", "beta"]))
    def add_delta(self, data: st.DataObject, messages: int, long: bool, principal: str) -> None:
        parent = data.draw(st.sampled_from([None, *self.commits]))
        texts = [f"{next(self.numbers)} " + "word " * (60 if long else 0) for _ in range(messages)]
        self.commit(texts, parent, CommitType.DELTA, principal)

    @precondition(lambda self: self.commits)
    @rule(data=st.data(), kind=st.sampled_from([CommitType.COMPACTION, CommitType.SNAPSHOT]))
    def add_summary(self, data: st.DataObject, kind: CommitType) -> None:
        self.commit([f"summary {next(self.numbers)}"], data.draw(st.sampled_from([*self.commits])), kind, "alpha")

    @precondition(lambda self: self.commits)
    @rule(data=st.data(), name=st.sampled_from(["@alpha", "@beta", "import/talk"]), passed=st.integers(0, 5))
    def set_ref(self, data: st.DataObject, name: str, passed: int) -> None:
        self.time += passed
        seq = data.draw(st.sampled_from([*self.commits]))
        self.loop.run_until_complete(self.store.write(lambda conn: move_ref(conn, name, seq, "test")))
        self.note_move(name, seq)

    def note_move(self, name: str, seq: int) -> None:
        self.moved |= {seq, *(old for _, old in self.refs.get(name, [])[-1:])}
        self.refs.setdefault(name, []).append((self.time, seq))
        self.unlogged.discard(name)

    @precondition(lambda self: self.commits)
    @rule(data=st.data(), name=st.sampled_from(["@alpha", "@beta"]), steps=st.integers(0, 2), is_done=st.booleans())
    def be_killed(self, data: st.DataObject, name: str, steps: int, is_done: bool) -> None:
        """Go on with the files as a kill leaves them. It comes in the middle of an op or after its COMMIT."""
        copy = Path(self.folder.name) / f"after-kill-{next(self.numbers)}" / "zoea.db"
        copy.parent.mkdir()
        parent, text = data.draw(st.sampled_from([*self.commits])), f"{next(self.numbers)} "
        new = new_commit([ContextEntry(Role.USER, text, "direct")], parent)

        def keep_files() -> None:
            for file in self.store.path.parent.glob("zoea.db*"):
                shutil.copy(file, copy.parent)

        def work(conn: WriterConnection) -> ContextCommit:
            stored = insert_commit(conn, new) if steps or is_done else None
            if stored is not None and (steps == 2 or is_done):
                move_ref(conn, name, stored.seq, "test")
            if stored is None or not is_done:
                keep_files()
                raise _Killed
            return stored

        try:
            stored = self.loop.run_until_complete(self.store.write(work))
        except _Killed:
            pass
        else:
            keep_files()
            self.commits[stored.seq], self.texts[stored.seq] = stored, [text]
            self.note_move(name, stored.seq)
        self.reader.close()
        self.loop.run_until_complete(self.store.close())
        self.store = self.loop.run_until_complete(Store.open(copy, clock_now=lambda: self.time))
        self.reader = connect_reader(copy)

    @rule(delta=st.integers(-10, 10))
    def set_clock(self, delta: int) -> None:
        self.time += delta

    @precondition(lambda self: self.refs)
    @rule(data=st.data())
    def remove_ref(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([*self.refs]))
        self.loop.run_until_complete(self.store.write(lambda conn: delete_ref(conn, name, "test")))
        self.moved.add(self.refs.pop(name)[-1][1])
        self.unlogged.discard(name)

    @precondition(lambda self: self.commits)
    @rule(is_all_forgotten=st.booleans())
    def collect_garbage(self, is_all_forgotten: bool) -> None:
        """Remove what no ref reaches. Compare with what the model reaches and the bytes that it needs."""
        since = 2**60 if is_all_forgotten else 0
        named = {moves[-1][1] for moves in self.refs.values()} | (set() if is_all_forgotten else self.moved)
        reached = {seq for one in named for seq in self.chain(one)}
        before, needed = self.read_sizes(), set[bytes]()
        for seq in reached:
            needed |= {self.commits[seq].blob, *read_lifted(self.reader, seq)}
        done = self.loop.run_until_complete(self.store.write(lambda conn: collect(conn, since)))
        freed = [size for digest, size in before.items() if digest not in needed]
        assert (done.commits, done.bytes) == (len(self.commits) - len(reached), sum(freed))
        assert self.read_sizes().keys() == needed
        for seq in self.commits.keys() - reached:
            del self.commits[seq], self.texts[seq]
        if is_all_forgotten:
            self.moved.clear()
            self.unlogged = set(self.refs)
        assert list(verify_chains(self.reader)) == []

    def read_sizes(self) -> dict[bytes, int]:
        return dict(map(tuple, self.reader.execute("SELECT hash, size FROM blob").fetchall()))

    def heard(self, *seqs: int) -> list[str]:
        return [text for seq in seqs for text in self.texts[seq]]

    @precondition(lambda self: self.commits)
    @rule(data=st.data())
    def materialize_anything(self, data: st.DataObject) -> None:
        commit = self.commits[data.draw(st.sampled_from([*self.commits]))]
        reader = ChainReader(self.reader)
        path = list(self.chain(commit.seq))[::-1]
        deltas = [seq for seq in path[1:] if self.commits[seq].kind is CommitType.DELTA]

        whole = reader.materialize(commit, to_root=True)
        assert [one.content for one in whole.entries] == self.heard(path[0], *deltas)
        assert (whole.tier, whole.repaired) == (Tier.NATIVE, 0)

        begin = max((n for n, seq in enumerate(path) if self.commits[seq].kind is not CommitType.DELTA), default=0)
        recent = [seq for seq in path[begin + 1 :] if self.commits[seq].kind is CommitType.DELTA]
        assert [one.content for one in reader.materialize(commit).entries] == self.heard(path[begin], *recent)

        stop = data.draw(st.sampled_from(path))
        after = [seq for seq in deltas if seq > stop]
        from_stop = reader.materialize(commit, stop=self.commits[stop])
        assert [one.content for one in from_stop.entries] == self.heard(stop, *after)

    @invariant()
    def every_commit_is_found_in_every_way(self) -> None:
        for seq, commit in self.commits.items():
            assert read_commit(self.reader, seq) == commit
        assert [one.seq for one in read_newest(self.reader, 100)] == sorted(self.commits, reverse=True)[:100]
        assert len({one.digest for one in self.commits.values()}) == len(self.commits)
        if self.commits:
            seq = min(self.commits, key=lambda one: self.commits[one].digest)
            short = shortest_id(self.reader, self.commits[seq])
            assert find_by_prefix(self.reader, short.removeprefix("ctx-")) == [self.commits[seq]]
            assert [one.seq for one in walk_chain(self.reader, seq)] == list(self.chain(seq))[::-1]
            children = [one for one in self.commits.values() if one.parent == seq]
            assert read_children(self.reader, seq) == children

    @invariant()
    def times_of_a_principal_never_go_back(self) -> None:
        for principal in ("alpha", "beta"):
            own = [one for one in self.commits.values() if one.provenance.principal == principal]
            assert [one.created_at for one in own] == sorted(one.created_at for one in own)
            for commit in own:
                last = max(one.seq for one in own if one.created_at == commit.created_at)
                found = resolve_time(self.reader, principal, commit.created_at)
                assert found is not None
                assert found.seq == last
            if own:
                assert resolve_time(self.reader, principal, own[0].created_at - 1) is None

    @invariant()
    def refs_are_where_they_were_set_last(self) -> None:
        for name, moves in self.refs.items():
            assert read_ref(self.reader, name) == moves[-1][1]
            if name not in self.unlogged:
                assert ref_at(self.reader, name, moves[-1][0]) == moves[-1][1]


TestChainMachine = ChainMachine.TestCase
if not os.environ.get("ZOEA_SOAK"):  # an example has up to 50 steps, each with all invariants
    TestChainMachine.settings = settings(max_examples=15)


async def test_a_parent_that_is_not_there_is_refused_and_nothing_is_stored(store: Store) -> None:
    new = new_commit([ContextEntry(Role.USER, "hi")], 7)
    with pytest.raises(StoreConflict, match="7"):
        await store.write(lambda conn: insert_commit(conn, new))
    with closing(connect_reader(store.path)) as reader:
        assert read_newest(reader, 1) == []


async def test_reading_the_conversation_of_every_commit_changes_no_file(store: Store) -> None:
    made = [await store.write(partial(insert_commit, new=new_commit([ContextEntry(Role.USER, "one " * 200)], None)))]
    for _ in range(20):
        made.append(
            await store.write(partial(insert_commit, new=new_commit([ContextEntry(Role.USER, "more")], made[-1].seq)))
        )

    def files() -> dict[str, bytes]:
        return {
            file.name: file.read_bytes()
            for file in store.path.parent.iterdir()
            if file.is_file() and not file.name.endswith("-shm")
        }

    before = files()
    with closing(connect_reader(store.path)) as conn:
        for commit in made:
            assert ChainReader(conn).materialize(commit, to_root=True).entries
    assert files() == before


async def test_a_hundred_turns_in_twenty_checkpoints_are_stored_once(store: Store) -> None:
    tips: list[ContextCommit] = []
    for checkpoint in range(20):
        turns = [ContextEntry(Role.USER, f"turn {5 * checkpoint + one} " + "word " * 30) for one in range(5)]
        new = new_commit(turns, tips[-1].seq if tips else None)
        tips.append(await store.write(partial(insert_commit, new=new)))
    with closing(connect_reader(store.path)) as conn:
        reader = ChainReader(conn)
        stored = sum(len(reader.read_messages(one, stop=one)) for one in tips)
        whole = [reader.materialize(one).entries for one in tips]
        payload = conn.execute("SELECT sum(size) FROM blob").fetchone()[0]
    assert (stored, sum(map(len, whole))) == (100, 1_050)
    assert sum(len(encode_delta(entries).data) for entries in whole) > 10 * payload


async def test_a_commit_cannot_be_changed(store: Store) -> None:
    new = new_commit([ContextEntry(Role.USER, "hi")], None)
    stored = await store.write(lambda conn: insert_commit(conn, new))
    with pytest.raises(StoreConflict, match="cannot be changed"):
        await store.write(lambda conn: conn.execute("UPDATE ctx_commit SET principal = 'other'"))
    with closing(connect_reader(store.path)) as reader:
        assert read_commit(reader, stored.seq) == stored
