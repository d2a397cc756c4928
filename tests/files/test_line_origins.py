"""The commits that added and removed lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.files.repositories import commit, git, make_repository
from zoea.files.git import Git
from zoea.queries.change_origins import UNCOMMITTED, read_history, trace_lines
from zoea.text.patches import parse_patch


def trace_any(
    folder: Path, base: str, path: str = "a.txt", former: str = ""
) -> tuple[Mapping[int, str], Mapping[int, str]]:
    """Return the origins by line. One that git does not tell is that of the whole file."""
    git = Git(folder)
    return trace_lines(git, base, path, former, read_history(git, base), "+-")


def trace(folder: Path, base: str, path: str = "a.txt") -> tuple[dict[int, str], dict[int, str]]:
    added, removed = trace_any(folder, base, path)
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
    for name in ("d.txt", "é\t*[d] .txt"):
        (folder / name).write_text("d\n")
        added, _ = trace_any(folder, base, name)
        assert added[1] == UNCOMMITTED, name


def test_without_a_commit_all_is_uncommitted(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "repository")
    (folder / "a.txt").write_text("changed\n")
    added, removed = trace_any(folder, git(folder, "rev-parse", "HEAD"))
    assert (added[1], removed[1]) == (UNCOMMITTED, UNCOMMITTED)


def test_lines_that_a_branch_removed_are_traced_past_its_merge_of_the_base(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "repository", a__txt="a\nb\nc\nd\ne\nf\ng\n")
    git(folder, "checkout", "--quiet", "-b", "side")
    commit(folder, "first", a__txt="b\nc\nd\ne\nf\ng\n")
    second = commit(folder, "second", a__txt="b\nc\nd\ne\nf\n")
    git(folder, "checkout", "--quiet", "main")
    base = commit(folder, "others", a__txt="a\nb\nnew\nc\nd\nE\nf\ng\n")
    git(folder, "checkout", "--quiet", "side")
    git(folder, "merge", "--quiet", "--no-commit", "main")
    (folder / "a.txt").write_text("b\nc\nd\nE\n")
    _, removed = trace(folder, base)
    lines = (1, 3, 7, 8)  # of the first commit, of the others, still there at the end, of the second commit
    first = git(folder, "rev-parse", "HEAD^")
    assert [removed[line] for line in lines] == [first, UNCOMMITTED, UNCOMMITTED, second]
    merged = commit(folder, "merged")
    _, removed = trace(folder, base)
    assert [removed[line] for line in lines] == [first, merged, merged, second]
    last = commit(folder, "last", a__txt="b\nc\n")
    _, removed = trace(folder, base)
    # Then one of the fork, and one of the others that the merge kept.
    assert [removed[line] for line in (*lines, 5, 6)] == [first, merged, merged, second, last, last]


def test_lines_moved_by_two_commits_are_not_uncommitted(tmp_path: Path) -> None:
    long, short = "".join(f"long {at}\n" for at in range(5)), "short 1\nshort 2\n"
    folder = make_repository(tmp_path / "repository", a__txt=long + short)
    base = git(folder, "rev-parse", "HEAD")
    commit(folder, "one", a__txt=short)
    commit(folder, "other", a__txt=short + long)
    # The patch from first to last moves the short part, which git finds at its place all the time.
    assert git(folder, "diff", base, "--", "a.txt").count("\n-short") == 2
    added, removed = trace(folder, base)
    assert UNCOMMITTED not in {*added.values(), *removed.values()}


def test_lines_that_were_removed_from_a_renamed_file_are_traced(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "repository")
    former, now = 'ö "old.txt', "é\ttab.txt"
    lines = [f"line {at}\n" for at in range(1, 21)]
    (folder / former).write_text("".join(lines))
    base = commit(folder, "base")
    commits = list[str]()
    for name, line in ((former, 3), (now, 6), (now, 12)):
        if name == now and not commits[1:]:
            (folder / former).rename(folder / now)
        lines[line - 1] = ""
        (folder / name).write_text("".join(lines))
        commits.append(commit(folder, f"without {line}"))
    (file,) = parse_patch(git(folder, "diff", "--find-renames", base))
    assert (file.former, file.path) == (former, now)
    _, removed = trace_any(folder, base, file.path, file.former)
    assert [removed[line] for line in (3, 6, 12)] == commits
