"""The history of a mysis is read page by page: its cost does not grow with the number of commits."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.queries.test_reading_cost import EVERY, counted, make_conversation
from zoea.queries.commit_details import read_details, read_known_then
from zoea.queries.commit_history import read_history, read_newer, read_older

PAGE = 20
MANY = 10_000
_COPY = """
INSERT INTO ctx_commit(seq, hash, parent, type, blob_id, format, template_hash, principal, mysis_id, machine,
  session_id, checkpoint, message_count, token_count, created_at)
SELECT :seq, randomblob(32), :parent, type, blob_id, format, template_hash, principal, mysis_id, machine, session_id,
  checkpoint, message_count, token_count, :seq FROM ctx_commit ORDER BY seq LIMIT 1
"""


def add_commits(path: Path, count: int) -> None:
    """Add commits to the branch of alpha, after the one it names."""
    with closing(sqlite3.connect(path)) as con, con:
        (tip,) = con.execute("SELECT commit_seq FROM ctx_ref WHERE name = '@alpha'").fetchone()
        (last,) = con.execute("SELECT max(seq) FROM ctx_commit").fetchone()
        for seq in range(last + 1, last + 1 + count):
            con.execute(_COPY, {"seq": seq, "parent": tip})
            tip = seq
        con.execute("UPDATE ctx_ref SET commit_seq = ? WHERE name = '@alpha'", (tip,))


def branch_off(path: Path, name: str, parent: int, count: int = 1) -> list[int]:
    """Add commits of alpha's mysis after an older one, under another ref."""
    with closing(sqlite3.connect(path)) as con, con:
        (last,) = con.execute("SELECT max(seq) FROM ctx_commit").fetchone()
        made: list[int] = []
        for seq in range(last + 1, last + 1 + count):
            con.execute(_COPY, {"seq": seq, "parent": made[-1] if made else parent})
            made.append(seq)
        con.execute("INSERT INTO ctx_ref VALUES (?, ?, 0)", (name, made[-1]))
    return made


async def test_opening_reads_few_rows_however_many_commits_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await make_conversation(tmp_path)
    add_commits(path, 3 * PAGE)
    with counted(monkeypatch) as short:
        first = read_history(path, 1, PAGE)
        read_older(path, first, PAGE)
        read_newer(path, first, PAGE)
    add_commits(path, MANY)
    with counted(monkeypatch) as long:
        history = read_history(path, 1, PAGE)
        older = read_older(path, history, PAGE)
        read_newer(path, older, PAGE)
    assert (len(history.commits), len(older.commits), history.has_older) == (PAGE, 2 * PAGE, True)
    assert long[0] <= short[0] + 10 * EVERY


async def test_a_moment_is_read_from_the_index_however_many_commits_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await make_conversation(tmp_path)
    with counted(monkeypatch) as short:
        known = read_known_then(path, 1 << 60)
    assert [one.provenance.principal for one in known.commits] == ["alpha"]
    add_commits(path, MANY)
    with counted(monkeypatch) as long:
        read_known_then(path, 1 << 60)
    assert long[0] <= short[0] + 5 * EVERY


async def test_pages_hold_every_commit_once_and_lie_as_if_read_at_once(tmp_path: Path) -> None:
    path = await make_conversation(tmp_path)
    add_commits(path, 30)
    middle = read_history(path, 1, 100).commits[15].seq
    branch_off(path, "thread/a", middle, 4)
    add_commits(path, 5)
    branch_off(path, "tag/b", middle - 8)
    whole = read_history(path, 1, 1_000)
    assert not whole.has_older
    assert len(whole.tips) == 3
    paged = read_history(path, 1, 7)
    while paged.has_older:
        paged = read_older(path, paged, 7)
    assert paged.commits == whole.commits
    assert paged.rows == whole.rows
    assert max(row.column for row in whole.rows) == 2


async def test_newer_commits_are_added_to_those_that_were_read(tmp_path: Path) -> None:
    path = await make_conversation(tmp_path)
    add_commits(path, 30)
    history = read_history(path, 1, 10)
    add_commits(path, 3)
    made = branch_off(path, "thread/new", history.commits[-1].seq - 5)
    newer = read_newer(path, history, 10)
    assert [one.seq for one in newer.commits[:4]] == [made[0], *range(made[0] - 1, made[0] - 4, -1)]
    assert newer.commits[4:] == history.commits
    while newer.has_older:
        newer = read_older(path, newer, 10)
    whole = read_history(path, 1, 1_000)
    assert (newer.commits, newer.rows) == (whole.commits, whole.rows)
    assert read_newer(path, whole, 10) == whole


async def test_a_name_that_was_given_to_an_older_commit_appears(tmp_path: Path) -> None:
    path = await make_conversation(tmp_path)
    add_commits(path, 5)
    history = read_history(path, 1, 10)
    old = history.commits[3].seq
    with closing(sqlite3.connect(path)) as con, con:
        con.execute("INSERT INTO ctx_ref VALUES ('tag/here', ?, 0)", (old,))
    newer = read_newer(path, history, 10)
    assert newer.refs[old] == ("tag/here",)
    assert newer.commits == history.commits


async def test_a_mysis_without_commits_has_an_empty_history(tmp_path: Path) -> None:
    path = await make_conversation(tmp_path)
    assert read_history(path, 99, 10).commits == ()
    assert read_newer(path, read_history(path, 99, 10), 10).commits == ()


async def test_details_say_where_a_commit_comes_from(tmp_path: Path) -> None:
    path = await make_conversation(tmp_path)
    newest = read_history(path, 1, 1).commits[0]
    details = read_details(path, newest.seq)
    assert details.template.startswith("default@")
    assert details.parent.startswith("ctx-")
    assert "scripted" in details.model
    assert details.known[0] >= len(details.delta) > 0
    assert details.missing == ""
