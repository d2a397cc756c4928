"""The commits that added and removed lines."""

from __future__ import annotations

from pathlib import Path

from tests.files.repositories import commit, git, make_repository
from zoea.files.git import Git
from zoea.queries.change_origins import UNCOMMITTED, trace_lines


def trace(folder: Path, base: str, path: str = "a.txt") -> tuple[dict[int, str], dict[int, str]]:
    added, removed = trace_lines(Git(folder), base, path)
    return dict(added), dict(removed)


def test_each_line_is_traced_to_the_commit_that_added_or_removed_it(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "repository", a__txt="a\nb\nc\nd\ne\n")
    base = git(folder, "rev-parse", "HEAD")
    first = commit(folder, "first", a__txt="a\nB\nc\nd\ne\n")
    second = commit(folder, "second", a__txt="a\nB\nd\ne\n")
    (folder / "a.txt").write_text("a\nB\nd\nnew\n")
    added, removed = trace(folder, base)
    assert added == {2: first, 4: UNCOMMITTED}
    assert (removed[2], removed[3], removed[5]) == (first, second, UNCOMMITTED)


def test_a_new_and_a_removed_file_are_traced(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "repository", a__txt="a\n", b__txt="b\n")
    base = git(folder, "rev-parse", "HEAD")
    made = commit(folder, "made", c__txt="c\n")
    assert trace(folder, base, "c.txt") == ({1: made}, {})
    (folder / "b.txt").unlink()
    gone = commit(folder, "gone")
    assert trace(folder, base, "b.txt") == ({}, {1: gone})
    (folder / "d.txt").write_text("d\n")
    assert trace(folder, base, "d.txt") == ({}, {})


def test_without_a_commit_all_is_uncommitted(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "repository")
    (folder / "a.txt").write_text("changed\n")
    added, removed = trace_lines(Git(folder), git(folder, "rev-parse", "HEAD"), "a.txt")
    assert (added[1], removed[1]) == (UNCOMMITTED, UNCOMMITTED)
