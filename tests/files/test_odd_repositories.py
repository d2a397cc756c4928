"""Worktrees of repositories that are not as most are: made, committed, shown, merged and dropped as from any other."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.files.repositories import commit, git, make_repository
from zoea.files.changes import find_base, open_diff
from zoea.files.leftovers import find_leftovers
from zoea.files.merge import MergeRules, merge, merge_all
from zoea.files.worktrees import Worktrees
from zoea.model.errors import FilesError, SettingsError, WorkHeld
from zoea.settings.private_file import write_private


def plain(place: Path) -> Path:
    repository = make_repository(place / "plain", a__txt="one\n")
    (repository / "outer").mkdir()
    (repository / "outer" / "kept.txt").write_text("kept\n")
    commit(repository, "more")
    return repository


def sparse(place: Path) -> Path:
    repository = plain(place)
    (repository / "inner").mkdir()
    (repository / "inner" / "file.txt").write_text("file\n")
    commit(repository, "inner")
    git(repository, "sparse-checkout", "set", "inner")
    return repository


def sparse_by_patterns(place: Path) -> Path:
    repository = plain(place)
    git(repository, "sparse-checkout", "set", "--no-cone", "/*", "!/outer/")
    return repository


def separate_git_folder(place: Path) -> Path:
    repository = plain(place)
    git(repository, "init", "--quiet", "--separate-git-dir", str(place / "elsewhere"))
    return repository


def worktree_of_the_person(place: Path) -> Path:
    git(plain(place), "worktree", "add", "--quiet", "-b", "side", str(place / "side"))
    return place / "side"


def worktree_of_a_bare_one(place: Path) -> Path:
    git(place, "clone", "--quiet", "--bare", str(plain(place)), "bare.git")
    git(place / "bare.git", "worktree", "add", "--quiet", "-b", "side", str(place / "side"))
    return place / "side"


def submodule(place: Path) -> Path:
    outer = make_repository(place / "super")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "--quiet", str(plain(place)), "lib")
    return outer / "lib"


def shallow(place: Path) -> Path:
    git(place, "clone", "--quiet", "--depth", "1", f"file://{plain(place)}", "shallow")
    return place / "shallow"


def shared_objects(place: Path) -> Path:
    git(place, "clone", "--quiet", "--shared", str(plain(place)), "shared")
    return place / "shared"


def sha256(place: Path) -> Path:
    (place / "sha256").mkdir()
    git(place / "sha256", "init", "--quiet", "--object-format=sha256")
    commit(place / "sha256", a__txt="one\n")
    return place / "sha256"


def tags_of_the_same_names(place: Path) -> Path:
    repository = plain(place)
    for name in ("main", "zoea/alpha"):
        git(repository, "tag", name)
    return repository


def by_a_link(place: Path) -> Path:
    (place / "link").symlink_to(plain(place))
    return place / "link"


def named(name: str) -> Callable[[Path], Path]:
    def make(place: Path) -> Path:
        return plain(place).rename(place / name)

    make.__name__ = repr(name)
    return make


ODD = [
    plain, sparse, sparse_by_patterns, separate_git_folder, worktree_of_the_person, worktree_of_a_bare_one, submodule,
    shallow, shared_objects, sha256, tags_of_the_same_names, by_a_link,
    named("a:b"), named('quo"te'), named("back\\slash"), named("two\nlines"), named("$x 'y' é"), named("-dash"),
]  # fmt: skip


@pytest.fixture
def trees(tmp_path: Path) -> Worktrees:
    return Worktrees(tmp_path / "data")


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
def test_an_odd_repository_is_worked_on_as_any_other(
    tmp_path: Path, trees: Worktrees, make: Callable[..., Path]
) -> None:
    folder = make(tmp_path)
    record = trees.make("alpha", folder)
    tree = trees.owned.path("alpha")
    (tree / "a.txt").write_text("two\n")
    (tree / "outer").mkdir(exist_ok=True)
    (tree / "outer" / "new.txt").write_text("new\n")
    for _ in ("before the commit", "after it"):
        with open_diff(trees.git(record), find_base(trees.git(record), record)) as diff:
            assert diff.count(record.target).text == "+2 -1, 2 files"
            assert "+new" in diff.patch()
        trees.commit("alpha", "work")
    merged = merge(trees, "alpha", MergeRules())
    assert merged.old != merged.new == git(folder, "rev-parse", "HEAD")
    assert git(folder, "status", "--porcelain", "--ignore-submodules=none") == ""
    assert (folder / "a.txt").read_text() == "two\n"
    assert git(folder, "show", "HEAD:outer/new.txt") == "new"
    trees.drop("alpha")
    assert git(folder, "branch", "--list", "zoea/*") == ""
    assert find_leftovers(tmp_path / "data") == []


def test_a_change_in_the_second_of_the_checkout_is_seen(tmp_path: Path, trees: Worktrees) -> None:
    repository = plain(tmp_path)
    git(repository, "config", "core.trustctime", "false")  # no test can set that time
    record, tree = trees.make("alpha", repository), trees.owned.path("alpha")
    index = Path(record.git_dir) / "index"
    moment = (10**9 * 1_700_000_000,) * 2
    os.utime(tree / "a.txt", ns=moment)
    git(tree, "update-index", "--refresh")
    os.utime(index, ns=moment)
    (tree / "a.txt").write_text("two\n")  # as long as before
    os.utime(tree / "a.txt", ns=moment)
    with open_diff(trees.git(record), record.base) as diff:
        assert diff.count().text == "+1 -1, 1 file"


def branch_zoea(place: Path) -> Path:
    git(plain(place), "branch", "zoea")
    return place / "plain"


def bare(place: Path) -> Path:
    git(place, "clone", "--quiet", "--bare", str(plain(place)), "bare.git")
    return place / "bare.git"


def missing(place: Path) -> Path:
    return place / "missing"


def filter_is_missing(place: Path) -> Path:
    repository = plain(place)
    commit(repository, "pictures", __gitattributes="*.bin filter=lfs\n", m__bin="pointer\n")
    git(repository, "config", "filter.lfs.smudge", "zoea-no-such-program %f")
    git(repository, "config", "filter.lfs.required", "true")
    return repository


def checkout_hook_fails(place: Path) -> Path:
    repository = plain(place)
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\nexit 3\n")
    hook.chmod(0o755)
    return repository


def objects_are_lost(place: Path) -> Path:
    shutil.rmtree(plain(place) / ".git" / "objects")
    (place / "plain" / ".git" / "objects").mkdir()
    return place / "plain"


def branch_is_empty(place: Path) -> Path:
    (plain(place) / ".git" / "refs" / "heads" / "main").write_text("")
    return place / "plain"


def commit_is_missing(place: Path) -> Path:
    (plain(place) / ".git" / "HEAD").write_text(f"{'dead' * 10}\n")
    return place / "plain"


def head_is_empty(place: Path) -> Path:
    (plain(place) / ".git" / "HEAD").write_text("")
    return place / "plain"


def its_branch_is_empty(place: Path) -> Path:
    (plain(place) / ".git" / "refs" / "heads" / "zoea").mkdir()
    (place / "plain" / ".git" / "refs" / "heads" / "zoea" / "alpha").write_text("")
    return place / "plain"


REFUSED = [
    (objects_are_lost, "cannot read HEAD.*git fsck"),
    (branch_is_empty, "cannot read HEAD.*git fsck"),
    (commit_is_missing, "cannot read HEAD.*git fsck"),
    (head_is_empty, "plain/.git is there, .*an empty HEAD"),
    (its_branch_is_empty, "cannot read refs/heads/zoea/alpha.*git fsck"),
    (branch_zoea, "has a branch zoea.*git branch -m zoea"),
    (bare, "must be run in a work tree"),
    (missing, "No such file"),
    (filter_is_missing, "smudge filter lfs failed"),
    (checkout_hook_fails, "git worktree add"),
]


@pytest.mark.parametrize(("make", "why"), REFUSED, ids=lambda one: getattr(one, "__name__", ""))
def test_what_cannot_have_a_worktree_says_why_and_keeps_nothing_of_it(
    tmp_path: Path, make: Callable[..., Path], why: str
) -> None:
    trees = Worktrees(tmp_path / "data", hooks=True)
    folder = make(tmp_path)
    with pytest.raises(FilesError) as refused:
        trees.make("alpha", folder)
    assert re.search(why, refused.value.text, re.DOTALL)
    assert trees.owned.names() == []
    assert not trees.owned.path("alpha").exists()
    if folder.is_dir():
        assert git(folder, "branch", "--list", "zoea/*", check=False) == ""
        assert len(git(folder, "worktree", "list", check=False).splitlines()) <= 1


KEPT_ELSEWHERE = [("tag", "kept"), ("branch", "kept"), ("update-ref", "refs/remotes/origin/zoea/alpha")]


@pytest.mark.parametrize("line", KEPT_ELSEWHERE, ids=lambda line: line[0])
def test_what_another_branch_or_a_tag_holds_is_merged_all_the_same(
    tmp_path: Path, trees: Worktrees, line: tuple[str, str]
) -> None:
    repository = plain(tmp_path)
    trees.make("alpha", repository)
    tip = commit(trees.owned.path("alpha"), a__txt="two\n")
    git(repository, *line, "zoea/alpha")
    assert merge(trees, "alpha", MergeRules()).new == tip == git(repository, "rev-parse", "main")


@pytest.mark.parametrize("is_pruned", [False, True])
def test_a_folder_that_was_removed_by_hand_comes_back_with_what_was_committed(
    tmp_path: Path, trees: Worktrees, is_pruned: bool
) -> None:
    repository = plain(tmp_path)
    record, tree = trees.make("alpha", repository), trees.owned.path("alpha")
    tip = commit(tree, a__txt="two\n")
    for bring_back in (
        lambda: trees.make("alpha", repository),
        lambda: merge_all(trees, ["alpha"], MergeRules()),
        lambda: trees.commit("alpha", "nothing"),
    ):
        shutil.rmtree(tree)
        if is_pruned:
            git(repository, "worktree", "prune")
        with pytest.raises(FilesError, match="the folder of alpha is gone"):
            trees.git(record)
        bring_back()
        assert (tree / "a.txt").read_text() == "two\n"
        assert git(tree, "status", "--porcelain", "--branch") == "## zoea/alpha"
    assert git(repository, "rev-parse", "main") == tip
    trees.drop("alpha")


def test_a_repository_that_is_gone_is_named_by_every_verb(tmp_path: Path, trees: Worktrees) -> None:
    record = trees.make("alpha", plain(tmp_path))
    (tmp_path / "plain").rename(tmp_path / "moved")
    for verb in (
        lambda: trees.git(record),
        lambda: trees.commit("alpha", "work"),
        lambda: merge(trees, "alpha", MergeRules()),
        lambda: trees.drop("alpha"),
    ):
        with pytest.raises(FilesError, match="the repository of alpha is gone"):
            verb()
    with pytest.raises(WorkHeld) as held:
        trees.drop("alpha")
    assert "zoea merge" not in held.value.text  # it would not keep it


def test_a_branch_that_git_cannot_read_is_work_and_is_no_other_branch(tmp_path: Path, trees: Worktrees) -> None:
    repository = plain(tmp_path)
    trees.make("alpha", repository)
    commit(trees.owned.path("alpha"), a__txt="two\n")
    for ref in ("main", "HEAD"):
        (repository / ".git" / "refs" / "heads" / ref.replace("HEAD", "zoea/alpha")).write_text("")
        with pytest.raises(FilesError, match=f"cannot read .*{ref}"):
            merge(trees, "alpha", MergeRules())
    shutil.rmtree(trees.owned.path("alpha"))
    with pytest.raises(WorkHeld, match="git cannot tell what is in it"):
        trees.drop("alpha")
    trees.drop("alpha", force=True)
    assert trees.owned.names() == []
    assert (repository / ".git" / "refs" / "heads" / "zoea" / "alpha").exists()


def test_a_checkout_of_the_target_that_is_gone_refuses_the_merge(tmp_path: Path, trees: Worktrees) -> None:
    folder = worktree_of_the_person(tmp_path)
    trees.make("alpha", folder)
    commit(trees.owned.path("alpha"), a__txt="two\n")
    shutil.rmtree(folder)
    with pytest.raises(FilesError, match="which is gone"):
        merge(trees, "alpha", MergeRules())


def test_a_full_disk_stops_the_queue_and_leaves_nothing(
    tmp_path: Path, trees: Worktrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = plain(tmp_path)
    for name in ("alpha", "beta"):
        trees.make(name, repository)
        commit(trees.owned.path(name), **{f"{name}__txt": "new\n"})

    def fill(file: Path, text: str) -> None:
        if file.name.startswith(".merge-"):
            raise SettingsError(f"{file} cannot be written: No space left on device")
        write_private(file, text)

    monkeypatch.setattr("zoea.files.ownership.write_private", fill)
    done = merge_all(trees, ["alpha", "beta"], MergeRules())
    assert [one.name for one in done.merged] == ["alpha"]  # it needs no temporary worktree
    assert done.failed == "beta"
    assert "No space left" in done.lines[-1]
    assert [file.name for file in trees.owned.root.iterdir() if file.name.startswith(".merge-")] == []
