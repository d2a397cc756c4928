"""Each operation starts no more gits than a limit. Each git costs some milliseconds of everyone's time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.files.repositories import commit, git, make_repository
from zoea.files.changes import open_diff, read_base
from zoea.files.git import Git, GitResult
from zoea.files.merge import MergeRules, merge
from zoea.files.worktrees import Worktrees

Work = Callable[[Worktrees, Path], object]


def nothing(trees: Worktrees, repository: Path) -> None:
    pass


def write(trees: Worktrees, repository: Path) -> None:
    make(trees, repository)
    (trees.owned.path("alpha") / "new.txt").write_text("new\n")


def commit_three(trees: Worktrees, repository: Path) -> None:
    make(trees, repository)
    for number in range(3):
        commit(trees.owned.path("alpha"), f"{number}", new__txt=f"{number}\n")


def part(trees: Worktrees, repository: Path) -> None:
    commit_three(trees, repository)
    commit(repository, "theirs", b__txt="theirs\n")


def join(trees: Worktrees, repository: Path) -> None:
    commit_three(trees, repository)
    git(repository, "merge", "--quiet", "zoea/alpha")


def squash(trees: Worktrees, repository: Path) -> None:
    part(trees, repository)
    git(repository, "merge", "--quiet", "--squash", "zoea/alpha")
    commit(repository, "squashed")
    commit(repository, "changed since then", new__txt="theirs\n")


def make(trees: Worktrees, repository: Path) -> object:
    return trees.make("alpha", repository)


def commit_turn(trees: Worktrees, _: Path) -> object:
    return trees.commit("alpha", "work")


def count(trees: Worktrees, _: Path) -> object:
    record = trees.owned.read("alpha")
    own = trees.git(record)
    base = read_base(own, record)
    with open_diff(own, base.commit) as diff:
        return diff.count(base.target)


def review(trees: Worktrees, _: Path) -> object:
    record = trees.owned.read("alpha")
    own = trees.git(record)
    base = read_base(own, record)
    with open_diff(own, base.commit) as diff:
        return diff.count(base.target), diff.patch()


def merge_it(trees: Worktrees, _: Path) -> object:
    return merge(trees, "alpha", MergeRules())


def find_work(trees: Worktrees, _: Path) -> object:
    return trees.find_work(trees.owned.read("alpha"))


def drop(trees: Worktrees, _: Path) -> object:
    return trees.drop("alpha")


COUNTS = [
    (nothing, make, 3), (write, make, 1),
    (make, commit_turn, 1), (write, commit_turn, 6),
    (write, count, 4), (part, count, 5), (write, review, 5), (part, review, 6),
    (commit_three, merge_it, 9), (part, merge_it, 24), (join, merge_it, 3), (squash, merge_it, 8),
    (make, find_work, 3), (commit_three, find_work, 5), (part, find_work, 11), (squash, find_work, 11),
    (make, drop, 7), (join, drop, 8),
]  # fmt: skip


@pytest.mark.parametrize(("before", "work", "most"), COUNTS, ids=lambda one: getattr(one, "__name__", "most"))
def test_an_operation_starts_few_gits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: Work, work: Work, most: int
) -> None:
    repository, trees = make_repository(tmp_path / "repository"), Worktrees(tmp_path / "data")
    before(trees, repository)
    started: list[str] = []
    run = Git.run

    def note(self: Git, *line: str, **options: Any) -> GitResult:
        started.append(" ".join(line[:3]))
        return run(self, *line, **options)

    monkeypatch.setattr(Git, "run", note)
    work(trees, repository)
    assert len(started) <= most, "\n".join(started)


@pytest.mark.parametrize("way", ["each", "one by one is missing", "whole"])
def test_commits_that_another_branch_took_are_told_apart(tmp_path: Path, way: str) -> None:
    """Their patches are compared in one call. Each must be there, unless the whole change is."""
    repository, trees = make_repository(tmp_path / "repository"), Worktrees(tmp_path / "data")
    part(trees, repository)
    if way == "whole":
        git(repository, "merge", "--quiet", "--squash", "zoea/alpha")
        commit(repository, "squashed")
    else:
        git(repository, "cherry-pick", "--allow-empty", "zoea/alpha~2", "zoea/alpha~1")
        if way == "each":
            git(repository, "cherry-pick", "zoea/alpha")
    commit(repository, "changed since then", new__txt="theirs\n")
    assert bool(trees.find_work(trees.owned.read("alpha"))) == (way == "one by one is missing")
