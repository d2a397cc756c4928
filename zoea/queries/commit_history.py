"""Reads the commits of a mysis and of its forks, page by page.

Synchronous; fronts call it in a thread, one call at a time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from zoea.chain.commit import ContextCommit
from zoea.chain.commit_lanes import GraphRow, Lane, Lanes, lay_out
from zoea.chain.commit_rows import walk_newest
from zoea.chain.ref_names import branch_ref, deleted_ref
from zoea.queries.stored_swarm import open_database

COUNTED = 1_000
"""The most messages that are counted as not committed yet."""
_ORIGINS = "SELECT o.mysis_id, c.mysis_id FROM ctx_origin o JOIN ctx_commit c ON c.seq = o.birth_seq"
_REFS = """
SELECT r.name, r.commit_seq, c.mysis_id FROM ctx_ref r JOIN ctx_commit c ON c.seq = r.commit_seq ORDER BY r.name
"""
_NAME = "SELECT name, deleted_at FROM mysis WHERE id = ?"
_LIVE = """
SELECT count(*), coalesce(sum(tokens), 0), coalesce(max(created_at), 0) FROM (
  SELECT tokens, created_at FROM memory WHERE mysis_id = :mysis AND id > coalesce(
    (SELECT last_memory_id FROM ctx_commit WHERE principal = :name AND mysis_id = :mysis AND last_memory_id IS NOT NULL
     ORDER BY created_at DESC, seq DESC LIMIT 1), 0)
  ORDER BY id DESC LIMIT :most)
"""


class LiveWork(Struct, frozen=True):
    """Messages of a mysis since its newest commit; at most `COUNTED` are counted."""

    messages: int = 0
    tokens: int = 0
    at: int = 0


class ContextHistory(Struct, frozen=True):
    """The newest commits of a mysis and of its forks, laid out as a graph.

    Attributes:
        commits: Newest first; its own, those it inherited, and those of myses that were made from its own.
        rows: The place of each in the graph.
        refs: Names of commits, by number.
        tip: The commit that its own branch names; None before its first.
        has_older: There are commits that were not read.
    """

    mysis_id: int
    name: str = ""
    commits: tuple[ContextCommit, ...] = ()
    rows: tuple[GraphRow, ...] = ()
    refs: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    live: LiveWork = LiveWork()
    tip: int | None = None
    tips: tuple[int, ...] = ()
    lanes: Lanes = ()
    has_older: bool = False

    def find_branch(self, mysis_id: int) -> tuple[ContextCommit, str] | None:
        """Return the newest commit of a mysis and the ref that names it. None where its branch does not end here."""
        for commit in self.commits:
            about = commit.provenance
            if about.mysis_id != mysis_id:
                continue
            for ref in self.refs.get(commit.seq, ()):
                if ref in (branch_ref(about.principal), deleted_ref(about.principal, mysis_id)):
                    return commit, ref
        return None


def read_history(database: Path, mysis_id: int, limit: int) -> ContextHistory:
    """Read the newest commits, at most so many. Raises StoreError."""
    with open_database(database) as reader:
        return _read_newest(reader, mysis_id, limit)


def find_tips(reader: sqlite3.Connection, mysis_id: int) -> tuple[int, ...]:
    """Return where the branches of a mysis and of its forks end."""
    return _read_names(reader, mysis_id).tips


def read_older(database: Path, history: ContextHistory, limit: int) -> ContextHistory:
    """Return a history with older commits, at most so many more. Raises StoreError."""
    if not history.has_older:
        return history
    last = history.commits[-1].seq
    with open_database(database) as reader:
        begin = {one.parent for one in history.commits if one.parent is not None and one.parent < last}
        begin.update(tip for tip in history.tips if tip < last)
        commits = walk_newest(reader, begin, limit + 1)
    rows, lanes = lay_out([(one.seq, one.parent) for one in commits[:limit]], history.lanes)
    return replace(
        history,
        commits=(*history.commits, *commits[:limit]),
        rows=(*history.rows, *rows),
        lanes=lanes,
        has_older=len(commits) > limit,
    )


def read_newer(database: Path, history: ContextHistory, limit: int) -> ContextHistory:
    """Return a history with the commits made since it was read.

    `limit` is that of `read_history`.

    Raises StoreError.
    """
    with open_database(database) as reader:
        if not history.commits:
            return _read_newest(reader, history.mysis_id, limit)
        now = _read_names(reader, history.mysis_id)
        newest, oldest = history.commits[0].seq, history.commits[-1].seq
        seqs = {one.seq for one in history.commits}
        if any(oldest < tip <= newest and tip not in seqs for tip in now.tips):
            return _read_newest(reader, history.mysis_id, max(limit, len(seqs)))
        found = walk_newest(reader, now.tips, after=newest)
    if not found and now.tip == history.tip:
        return replace(
            now, commits=history.commits, rows=history.rows, lanes=history.lanes, has_older=_has(history, now)
        )
    commits = (*found, *history.commits)
    return _laid_out(replace(now, commits=commits, has_older=_has(history, now)))


def _has(history: ContextHistory, now: ContextHistory) -> bool:
    """Return whether there are older commits, as before or because of a new ref."""
    return history.has_older or any(tip < history.commits[-1].seq for tip in now.tips)


def _read_newest(reader: sqlite3.Connection, mysis_id: int, limit: int) -> ContextHistory:
    now = _read_names(reader, mysis_id)
    commits = walk_newest(reader, now.tips, limit + 1)
    return _laid_out(replace(now, commits=tuple(commits[:limit]), has_older=len(commits) > limit))


def _laid_out(history: ContextHistory) -> ContextHistory:
    """Return a history with the rows of its graph. The branch of the mysis is the first column."""
    kept: Lanes = () if history.tip is None else (Lane(history.tip, is_drawn=False),)
    rows, lanes = lay_out(((one.seq, one.parent) for one in history.commits), kept)
    return replace(history, rows=tuple(rows), lanes=lanes)


def _read_names(reader: sqlite3.Connection, mysis_id: int) -> ContextHistory:
    """Return a history without commits: its refs, where its branches end, and its live work."""
    found = reader.execute(_NAME, (mysis_id,)).fetchone()
    name, deleted_at = found if found is not None else ("", None)
    branch = branch_ref(name) if deleted_at is None else deleted_ref(name, mysis_id)
    family = _descend(mysis_id, [tuple(row) for row in reader.execute(_ORIGINS)])
    refs: dict[int, tuple[str, ...]] = {}
    tips, tip = set(), None
    for ref, seq, maker in map(tuple, reader.execute(_REFS)):
        refs[seq] = (*refs.get(seq, ()), ref)
        if ref == branch:
            tip = seq
        if maker in family or ref == branch:
            tips.add(seq)
    live = LiveWork(*reader.execute(_LIVE, {"mysis": mysis_id, "name": name, "most": COUNTED}).fetchone())
    return ContextHistory(mysis_id, name, refs=refs, live=live, tip=tip, tips=tuple(sorted(tips)))


def _descend(mysis_id: int, origins: Iterable[tuple[int, int | None]]) -> set[int]:
    """Return a mysis and all that were made from commits of it or of those."""
    made: dict[int | None, list[int]] = {}
    for child, maker in origins:
        made.setdefault(maker, []).append(child)
    family, waiting = set[int](), [mysis_id]
    while waiting:
        one = waiting.pop()
        if one not in family:
            family.add(one)
            waiting += made.get(one, ())
    return family
