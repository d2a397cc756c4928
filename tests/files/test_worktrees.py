"""Worktrees of myses: made with a record, committed, and never removed with work in them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.files.repositories import commit, git, make_repository, state
from tests.files.rights import checked_rights
from zoea.files import git as git_module
from zoea.files import worktrees as worktrees_module
from zoea.files.changes import MOST_PATCH, open_diff
from zoea.files.git import Git
from zoea.files.leftovers import find_leftovers
from zoea.files.ownership import Ownership, Record
from zoea.files.work_left import find_commit
from zoea.files.worktrees import Worktrees
from zoea.model.errors import FilesError, GitError, UsageError, WorkHeld


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


@pytest.fixture
def trees(tmp_path: Path) -> Worktrees:
    return Worktrees(tmp_path / "data")


def make(trees: Worktrees, repository: Path, name: str = "alpha") -> Path:
    return trees.owned.path(trees.make(name, repository).name)


class TestMaking:
    def test_a_worktree_has_a_branch_and_a_record_of_where_it_came_from(
        self, trees: Worktrees, repository: Path
    ) -> None:
        record = trees.make("alpha", repository)
        assert (record.target, record.branch) == ("refs/heads/main", "refs/heads/zoea/alpha")
        assert record.base == git(repository, "rev-parse", "HEAD")
        assert (trees.owned.path("alpha") / "a.txt").read_text() == "one\ntwo\nthree\n"
        assert trees.owned.read("alpha") == record

    def test_its_git_directory_is_read_where_git_writes_a_relative_one(
        self, trees: Worktrees, repository: Path
    ) -> None:
        folder = make(trees, repository)
        told = git(folder, "rev-parse", "--absolute-git-dir")
        assert trees.owned.read("alpha").git_dir == told
        (folder / ".git").write_text(f"gitdir: {os.path.relpath(told, folder)}\n")
        assert worktrees_module._read_git_dir(folder) == told

    def test_its_git_directory_is_read_where_the_repository_has_an_odd_name(
        self, trees: Worktrees, repository: Path
    ) -> None:
        moved = repository.rename(repository.with_name("a\rb"))
        make(trees, moved)
        assert trees.owned.read("alpha").git_dir == str(moved / ".git/worktrees/alpha")

    def test_the_persons_checkout_stays_as_it_is(self, trees: Worktrees, repository: Path) -> None:
        (repository / "a.txt").write_text("mine")
        before = state(repository)
        make(trees, repository)
        assert state(repository) == before

    def test_making_it_again_returns_the_same(self, trees: Worktrees, repository: Path) -> None:
        first = trees.make("alpha", repository)
        commit(repository, b__txt="later")
        assert trees.make("alpha", repository) == first

    def test_a_name_of_another_repository_is_not_used_again(
        self, trees: Worktrees, repository: Path, tmp_path: Path
    ) -> None:
        make(trees, repository)
        with pytest.raises(WorkHeld, match="another repository"):
            trees.make("alpha", make_repository(tmp_path / "other"))

    def test_a_worktree_is_of_one_mysis_whatever_its_name(self, trees: Worktrees, repository: Path) -> None:
        first = trees.make("alpha", repository, "uid-1")
        assert first.uid == "uid-1"
        for same in ("uid-1", ""):
            assert trees.make("alpha", repository, same) == first
        with pytest.raises(WorkHeld, match="another alpha"):
            trees.make("alpha", repository, "uid-2")

    def test_a_folder_without_a_record_is_not_used(self, trees: Worktrees, repository: Path) -> None:
        trees.owned.path("alpha").mkdir(parents=True)
        with pytest.raises(WorkHeld, match="without a record"):
            make(trees, repository)

    def test_a_branch_of_the_person_is_not_taken(self, trees: Worktrees, repository: Path) -> None:
        git(repository, "branch", "zoea/alpha")
        assert trees.make("alpha", repository).branch == "refs/heads/zoea/alpha-2"

    def test_a_folder_below_the_top_stands_for_its_repository(self, trees: Worktrees, repository: Path) -> None:
        (repository / "sub").mkdir()
        assert trees.make("alpha", repository / "sub").top == str(repository)

    def test_a_detached_head_has_no_target(self, trees: Worktrees, repository: Path) -> None:
        git(repository, "checkout", "--quiet", "--detach")
        assert trees.make("alpha", repository).target == ""

    def test_hooks_do_not_run_unless_they_are_allowed(self, trees: Worktrees, repository: Path) -> None:
        hook = repository / ".git" / "hooks" / "post-checkout"
        hook.write_text(f"#!/bin/sh\ntouch {repository}/ran\n")
        hook.chmod(0o755)
        make(trees, repository)
        assert not (repository / "ran").exists()
        Worktrees(trees.owned.root.parent, hooks=True).make("beta", repository)
        assert (repository / "ran").exists()

    @pytest.mark.parametrize("name", ["", "..", "a/b", "/x", "a.b", ".merge-1", "-x", "a b", "a\nb", "ä" * 3, "x" * 33])
    def test_what_is_no_name_is_refused(self, trees: Worktrees, repository: Path, name: str) -> None:
        with pytest.raises(UsageError):
            trees.make(name, repository)

    def test_a_folder_without_repository_or_commit_is_refused(self, trees: Worktrees, tmp_path: Path) -> None:
        with pytest.raises(FilesError, match="no git repository"):
            trees.make("alpha", tmp_path)
        (tmp_path / "empty").mkdir()
        git(tmp_path / "empty", "init", "--quiet")
        with pytest.raises(FilesError, match="no commit"):
            trees.make("alpha", tmp_path / "empty")

    def test_a_branch_that_stands_in_the_way_leaves_no_record(self, trees: Worktrees, repository: Path) -> None:
        git(repository, "branch", "zoea")
        with pytest.raises(GitError, match="zoea"):
            make(trees, repository)
        assert trees.owned.names() == []

    def test_a_free_branch_is_looked_for_only_so_far(
        self, trees: Worktrees, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(worktrees_module, "_MOST_BRANCHES", 2)
        git(repository, "branch", "zoea/alpha")
        with pytest.raises(FilesError, match="there are 2 branches zoea/alpha-N"):
            make(trees, repository)
        assert trees.owned.names() == []

    def test_a_worktree_that_was_never_finished_is_said_and_can_be_dropped(
        self, trees: Worktrees, repository: Path
    ) -> None:
        base = git(repository, "rev-parse", "HEAD")
        unmade = Record(
            "alpha", f"{repository}/.git", str(repository), base, "refs/heads/main", "refs/heads/zoea/alpha"
        )
        trees.owned.write(unmade)
        with pytest.raises(WorkHeld, match="never finished"):
            make(trees, repository)
        with pytest.raises(FilesError, match="never finished"):
            trees.commit("alpha", "x")
        assert [one.problem for one in find_leftovers(trees.owned.root.parent)] == ["its worktree was never finished"]
        trees.drop("alpha")
        make(trees, repository)


class TestCommitting:
    def test_all_changes_are_committed_in_the_name_of_the_mysis(self, trees: Worktrees, repository: Path) -> None:
        folder = make(trees, repository)
        (folder / "new.txt").write_text("new")
        (folder / "a.txt").unlink()
        tip = trees.commit("alpha", "Replace a by new\n\nBecause.")
        assert git(folder, "log", "-1", "--format=%an <%ae> %s") == "alpha <alpha@zoea.invalid> Replace a by new"
        assert git(folder, "show", "--name-status", "--format=", "--no-renames", tip).split() == [
            "D",
            "a.txt",
            "A",
            "new.txt",
        ]
        assert trees.find_work(trees.owned.read("alpha")).changes == ()

    def test_what_git_cannot_add_is_named_and_the_rest_is_committed(self, trees: Worktrees, repository: Path) -> None:
        """A repository without a commit, as tools that begin a project make."""
        folder = trees.owned.path(trees.make("alpha", repository).name)
        (folder / "inner").mkdir()
        git(folder / "inner", "init", "--quiet")
        (folder / "inner" / "file").write_text("work")
        with pytest.raises(GitError, match="'inner/' does not have a commit"):
            trees.commit("alpha", "nothing")
        (folder / "new.txt").write_text("work\n")
        own = Git(folder)
        with open_diff(own, find_commit(own, "HEAD")) as changed:
            assert [file.path for file in changed.count().files] == ["new.txt"]
            assert "[left out: error: 'inner/' does not have a commit checked out]" in changed.patch()
        assert trees.commit("alpha", "the rest")
        assert git(folder, "show", "--format=", "--name-only") == "new.txt"
        assert trees.find_work(trees.owned.read("alpha")).changes == ("inner/",)

    @pytest.mark.parametrize(
        ("encoding", "says"),
        [("UTF-16", "BOM is required in 'sub/a b.txt' if encoded as UTF-16"), ("nothing", "failed to encode")],
    )
    def test_a_file_that_git_cannot_convert_is_named_and_the_others_are_shown(
        self, trees: Worktrees, repository: Path, encoding: str, says: str
    ) -> None:
        folder = make(trees, repository)
        (folder / ".gitattributes").write_text(f"sub/** working-tree-encoding={encoding}\n")
        (folder / "sub").mkdir()
        for name in ("a b.txt", "c.txt"):
            (folder / "sub" / name).write_text("plain")
        own = Git(folder)
        with open_diff(own, find_commit(own, "HEAD")) as changed:
            assert [file.path for file in changed.count().files] == [".gitattributes"]
            assert f"[left out: {says}" in changed.patch()
            assert "c.txt" in changed.patch()

    def test_what_only_a_repository_inside_holds_is_no_commit(self, trees: Worktrees, repository: Path) -> None:
        folder = make(trees, repository)
        make_repository(folder / "inner")
        assert trees.commit("alpha", "a repository")
        (folder / "inner" / "a.txt").write_text("not committed there\n")
        assert "inner is a repository of its own" in trees.find_work(trees.owned.read("alpha")).text
        assert trees.commit("alpha", "nothing") == ""

    def test_a_patch_larger_than_the_output_of_git_is_cut(
        self, trees: Worktrees, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(git_module, "MAX_OUTPUT", 3_000_000)
        folder = trees.owned.path(trees.make("alpha", repository).name)
        (folder / "new.txt").write_text("text of a line\n" * 300_000)
        own = Git(folder)
        with open_diff(own, find_commit(own, "HEAD")) as changed:
            patch = changed.patch()
        assert len(patch) < MOST_PATCH + 100
        assert re.search(r"\n\[2,80\d,\d{3} bytes left out\]\n$", patch)

    def test_without_changes_there_is_no_commit(self, trees: Worktrees, repository: Path) -> None:
        folder = make(trees, repository)
        assert trees.commit("alpha", "nothing") == ""
        (folder / ".zoea-0123456789abcdef.tmp").write_text("half")
        assert trees.commit("alpha", "nothing") == ""

    def test_a_git_folder_that_was_replaced_is_not_used(self, trees: Worktrees, repository: Path) -> None:
        folder = make(trees, repository)
        (folder / ".git").write_text(f"gitdir: {repository}/.git\n")
        (folder / "new.txt").write_text("new")
        before = state(repository)
        trees.commit("alpha", "work")
        assert state(repository) == before
        assert git(repository, "log", "-1", "--format=%s", "zoea/alpha") == "work"

    def test_a_lock_that_a_killed_git_left_is_named(self, trees: Worktrees, repository: Path) -> None:
        folder = make(trees, repository)
        lock = Path(trees.owned.read("alpha").git_dir) / "index.lock"
        lock.touch()
        (folder / "new.txt").write_text("new")
        with pytest.raises(GitError, match=r"index\.lock"):
            trees.commit("alpha", "work")
        assert "index.lock" in find_leftovers(trees.owned.root.parent)[0].problem
        assert "git command" in trees.find_work(trees.owned.read("alpha")).unknown


def nothing(folder: Path) -> None:
    pass


def change(folder: Path) -> None:
    (folder / "a.txt").write_text("changed")


def stage(folder: Path) -> None:
    change(folder)
    git(folder, "add", "a.txt")


def add_untracked(folder: Path) -> None:
    (folder / "new.txt").write_text("new")


def add_untracked_in_new_folder(folder: Path) -> None:
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "x").write_text("new")


def hide_untracked(folder: Path) -> None:
    git(folder, "config", "status.showUntrackedFiles", "no")
    add_untracked(folder)


def delete(folder: Path) -> None:
    (folder / "a.txt").unlink()


def change_mode(folder: Path) -> None:
    (folder / "a.txt").chmod(0o755)


def commit_more(folder: Path) -> None:
    commit(folder, b__txt="work")


def commit_twice(folder: Path) -> None:
    commit(folder, b__txt="work")
    commit(folder, b__txt="more work")


def commit_on_detached_head(folder: Path) -> None:
    git(folder, "checkout", "--quiet", "--detach")
    commit(folder, b__txt="work")


def commit_and_step_back(folder: Path) -> None:
    commit(folder, b__txt="work")
    git(folder, "checkout", "--quiet", "--detach", "HEAD~")


def assume_unchanged(folder: Path) -> None:
    git(folder, "update-index", "--assume-unchanged", "a.txt")
    change(folder)


def skip_worktree(folder: Path) -> None:
    git(folder, "update-index", "--skip-worktree", "a.txt")
    change(folder)


def begin_merge(folder: Path) -> None:
    git(folder, "checkout", "--quiet", "-b", "side")
    commit(folder, a__txt="side")
    git(folder, "checkout", "--quiet", "zoea/alpha")
    commit(folder, a__txt="here")
    git(folder, "merge", "side", check=False)


def keep_in_own_ref(folder: Path) -> None:
    tip = commit(folder, b__txt="work")
    git(folder, "update-ref", "refs/worktree/kept", tip)
    git(folder, "reset", "--quiet", "--hard", "HEAD~")


def nest_repository(folder: Path) -> None:
    make_repository(folder / "inner")


def commit_nested_repository(folder: Path) -> None:
    make_repository(folder / "inner")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "inner")
    git(folder, "checkout", "--quiet", "main", "--detach")


def write_in_submodule(folder: Path) -> None:
    """Write into the folder of a submodule that was not fetched. Git shows no changes; all commits are merged."""
    git(folder, "update-index", "--add", "--cacheinfo", f"160000,{git(folder, 'rev-parse', 'HEAD')},module")
    git(folder, "commit", "--quiet", "-m", "submodule")
    git(folder, "tag", "kept")
    (folder / "module").mkdir()
    (folder / "module" / "file").write_text("work")


def break_index(folder: Path) -> None:
    Path(git(folder, "rev-parse", "--path-format=absolute", "--git-path", "index")).write_bytes(b"broken")


def break_head(folder: Path) -> None:
    Path(git(folder, "rev-parse", "--path-format=absolute", "--git-path", "HEAD")).write_text("ref: refs/heads/none\n")


WORK = [
    change, stage, add_untracked, add_untracked_in_new_folder, hide_untracked, delete, change_mode, commit_more,
    commit_twice, commit_on_detached_head, commit_and_step_back, assume_unchanged, skip_worktree, begin_merge,
    keep_in_own_ref, nest_repository, commit_nested_repository, write_in_submodule, break_index, break_head,
]  # fmt: skip


def ff(repository: Path) -> None:
    git(repository, "merge", "--quiet", "--ff-only", "zoea/alpha")


def merge_commit(repository: Path) -> None:
    commit(repository, other__txt="other")
    git(repository, "merge", "--quiet", "--no-edit", "zoea/alpha")


def squash(repository: Path) -> None:
    git(repository, "merge", "--quiet", "--squash", "zoea/alpha")
    git(repository, "commit", "--quiet", "-m", "squashed")


def squash_and_go_on(repository: Path) -> None:
    squash(repository)
    commit(repository, b__txt="changed again")


def squash_and_revert(repository: Path) -> None:
    squash(repository)
    git(repository, "revert", "--no-edit", "HEAD")


def rebase(repository: Path) -> None:
    commit(repository, other__txt="other")
    git(repository, "cherry-pick", "main..zoea/alpha")


def rebase_and_go_on(repository: Path) -> None:
    rebase(repository)
    commit(repository, b__txt="changed again")


def keep_in_branch(repository: Path) -> None:
    git(repository, "branch", "kept", "zoea/alpha")


def keep_in_tag(repository: Path) -> None:
    git(repository, "tag", "kept", "zoea/alpha")


def push(repository: Path) -> None:
    git(repository, "update-ref", "refs/remotes/origin/x", "zoea/alpha")


MERGED = [
    ff, merge_commit, squash, squash_and_go_on, squash_and_revert, rebase, rebase_and_go_on, keep_in_branch,
    keep_in_tag, push,
]  # fmt: skip


def take_one(repository: Path) -> None:
    git(repository, "cherry-pick", "zoea/alpha~")


def take_another_indentation(repository: Path) -> None:
    commit(repository, b__txt="  work")
    commit(repository, b__txt="  more work")


def forget_target(repository: Path) -> None:
    git(repository, "branch", "-m", "main", "trunk")
    git(repository, "checkout", "--quiet", "--orphan", "main")
    commit(repository, "unrelated")


UNMERGED = [nothing, take_one, take_another_indentation, forget_target]


class TestDropping:
    def test_a_worktree_in_which_tools_work_stays(self, trees: Worktrees, repository: Path) -> None:
        make(trees, repository)
        with trees.owned.share("alpha"), trees.owned.share("alpha"), pytest.raises(WorkHeld, match="a tool works"):
            trees.drop("alpha", force=True)
        trees.drop("alpha")
        assert list(trees.owned.root.iterdir()) == []

    def test_a_worktree_without_work_is_removed_with_its_branch_and_record(
        self, trees: Worktrees, repository: Path
    ) -> None:
        folder = make(trees, repository)
        trees.drop("alpha")
        assert not folder.exists()
        assert git(repository, "branch", "--list", "zoea/*") == ""
        assert git(repository, "worktree", "list").count("\n") == 0
        assert [entry.name for entry in trees.owned.root.iterdir()] == []

    @pytest.mark.parametrize("work", WORK)
    def test_work_is_not_removed_without_force(
        self, trees: Worktrees, repository: Path, work: Callable[[Path], None]
    ) -> None:
        folder = make(trees, repository)
        work(folder)
        with pytest.raises(WorkHeld, match="holds work"):
            trees.drop("alpha")
        assert folder.is_dir()
        assert git(repository, "branch", "--list", "zoea/alpha")
        trees.drop("alpha", force=True)
        assert not folder.exists()
        assert trees.owned.names() == []

    @pytest.mark.parametrize("way", MERGED)
    def test_what_was_merged_in_any_way_is_removed(
        self, trees: Worktrees, repository: Path, way: Callable[[Path], None]
    ) -> None:
        commit_twice(make(trees, repository))
        way(repository)
        trees.drop("alpha")
        assert git(repository, "branch", "--list", "zoea/alpha") == ""

    @pytest.mark.parametrize("way", UNMERGED)
    def test_what_was_merged_in_part_is_kept(
        self, trees: Worktrees, repository: Path, way: Callable[[Path], None]
    ) -> None:
        commit_twice(make(trees, repository))
        way(repository)
        with pytest.raises(WorkHeld, match="unmerged"):
            trees.drop("alpha")

    def test_a_binary_file_is_merged_only_with_the_same_bytes(self, trees: Worktrees, repository: Path) -> None:
        folder = make(trees, repository)
        (folder / "x.bin").write_bytes(b"\0mine")
        commit(folder)
        (repository / "x.bin").write_bytes(b"\0other")
        commit(repository)
        with pytest.raises(WorkHeld):
            trees.drop("alpha")

    def test_what_only_the_merge_of_the_mysis_holds_is_work(self, trees: Worktrees, repository: Path) -> None:
        folder = make(trees, repository)
        commit_more(folder)
        commit(repository, c__txt="theirs")
        git(folder, "merge", "--quiet", "--no-commit", "main")
        (folder / "only.txt").write_text("in the merge")
        commit(folder, "merge")
        git(repository, "cherry-pick", "zoea/alpha^1")
        with pytest.raises(WorkHeld, match="unmerged"):
            trees.drop("alpha")

    def test_without_a_record_nothing_is_removed(self, trees: Worktrees, repository: Path) -> None:
        git(repository, "worktree", "add", "--quiet", "-b", "zoea/alpha", str(trees.owned.path("alpha")))
        with pytest.raises(FilesError, match="made no worktree"):
            trees.drop("alpha", force=True)
        assert trees.owned.path("alpha").is_dir()

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "beta", "repository": "", "top": "", "base": ""}'])
    def test_a_record_that_cannot_be_read_removes_nothing(self, trees: Worktrees, repository: Path, text: str) -> None:
        folder = make(trees, repository)
        (trees.owned.root / "alpha.json").write_text(text)
        with pytest.raises(FilesError, match="record"):
            trees.drop("alpha", force=True)
        assert folder.is_dir()
        assert [one.name for one in find_leftovers(trees.owned.root.parent)] == ["alpha"]

    def test_a_worktree_that_is_served_is_not_removed(self, trees: Worktrees, repository: Path) -> None:
        make(trees, repository)
        with trees.owned.lease("alpha"), pytest.raises(WorkHeld, match="workbench serves"):
            trees.drop("alpha", force=True)
        trees.drop("alpha")

    def test_two_commands_do_not_work_with_one_at_once(self, trees: Worktrees, repository: Path) -> None:
        make(trees, repository)
        with trees.owned.lock("alpha"):
            with pytest.raises(WorkHeld, match="another command"):
                trees.drop("alpha")
            assert find_leftovers(trees.owned.root.parent) == []

    def test_read_only_folders_are_removed_and_links_are_not_followed(
        self, trees: Worktrees, repository: Path, tmp_path: Path
    ) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "kept").write_text("kept")
        folder = make(trees, repository)
        cache = folder / "cache" / "deep"
        cache.mkdir(parents=True)
        (cache / "file").write_text("x")
        (folder / "out").symlink_to(outside)
        (folder / "closed" / "deep").mkdir(parents=True)
        for closed, rights in ((cache, 0o555), (cache.parent, 0o500), (folder / "closed", 0), (folder, 0o500)):
            closed.chmod(rights)
        with checked_rights():
            trees.drop("alpha", force=True)
        assert not folder.exists()
        assert (outside / "kept").read_text() == "kept"

    def test_a_folder_that_cannot_be_removed_keeps_its_record(self, trees: Worktrees, repository: Path) -> None:
        folder = make(trees, repository)
        trees.owned.root.chmod(0o500)
        with checked_rights(), pytest.raises(FilesError, match="cannot be removed"):
            trees.drop("alpha")
        trees.owned.root.chmod(0o700)
        assert trees.owned.names() == [folder.name]
        trees.drop("alpha")

    def test_a_drop_that_was_killed_is_named_and_goes_on(
        self, trees: Worktrees, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make(trees, repository)

        def kill(folder: Path, **_: object) -> None:
            (folder / "a.txt").unlink()
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr("shutil.rmtree", kill)
            with pytest.raises(KeyboardInterrupt):
                trees.drop("alpha")
        [leftover] = find_leftovers(trees.owned.root.parent)
        assert (leftover.name, "is gone" in leftover.problem) == ("alpha", True)
        trees.drop("alpha")
        assert list(trees.owned.root.iterdir()) == []

    def test_a_link_in_place_of_the_folder_is_not_followed(
        self, trees: Worktrees, repository: Path, tmp_path: Path
    ) -> None:
        folder = make(trees, repository)
        folder.rename(tmp_path / "moved")
        folder.symlink_to(tmp_path / "moved")
        with pytest.raises(FilesError, match="no folder any more"):
            trees.drop("alpha", force=True)
        assert (tmp_path / "moved" / "a.txt").exists()

    def test_a_branch_that_the_person_has_checked_out_stays(
        self, trees: Worktrees, repository: Path, tmp_path: Path
    ) -> None:
        folder = make(trees, repository)
        git(folder, "checkout", "--quiet", "--detach")
        git(repository, "worktree", "add", "--quiet", str(tmp_path / "mine"), "zoea/alpha")
        trees.drop("alpha")
        assert git(repository, "branch", "--list", "zoea/alpha")

    def test_a_worktree_whose_folder_or_repository_is_gone_can_be_dropped(
        self, trees: Worktrees, repository: Path, tmp_path: Path
    ) -> None:
        make(trees, repository).rename(tmp_path / "away")
        assert "is gone" in find_leftovers(trees.owned.root.parent)[0].problem
        trees.drop("alpha")
        make(trees, repository, "beta")
        repository.rename(tmp_path / "moved")
        assert "repository" in find_leftovers(trees.owned.root.parent)[0].problem
        with pytest.raises(WorkHeld, match="cannot tell"):
            trees.drop("beta")
        trees.drop("beta", force=True)
        assert trees.owned.names() == []


class TestLeftovers:
    def test_there_are_none_without_worktrees(self, tmp_path: Path) -> None:
        assert find_leftovers(tmp_path) == []

    def test_folders_and_branches_without_a_record_are_named(self, trees: Worktrees, repository: Path) -> None:
        make(trees, repository)
        (trees.owned.root / "stray").mkdir()
        git(repository, "branch", "zoea/lost")
        make(Worktrees(trees.owned.root.parent.with_name("data of another workspace")), repository)
        assert git(repository, "branch", "--list", "zoea/alpha-2")
        found = find_leftovers(trees.owned.root.parent)
        assert [one.name for one in found] == ["stray", "zoea/lost"]
        assert found[1].hint == "`git branch -d zoea/lost`"

    def test_a_temporary_worktree_of_a_killed_merge_is_named_and_dropped(
        self, trees: Worktrees, repository: Path
    ) -> None:
        record = trees.make("alpha", repository)
        with trees.temporary(record, record.base) as (_, path):
            assert find_leftovers(trees.owned.root.parent) == []
            trees.owned.root.joinpath(f"{path.name}.lock").unlink()  # as the kernel would release it
            (leftover,) = find_leftovers(trees.owned.root.parent)
            assert "killed" in leftover.problem
        assert trees.owned.names() == ["alpha"]


def test_records_stand_in_a_private_folder(tmp_path: Path, repository: Path) -> None:
    make(Worktrees(tmp_path / "data"), repository)
    owned = Ownership(tmp_path / "data")
    assert owned.root.stat().st_mode & 0o077 == 0
    assert (owned.root / "alpha.json").stat().st_mode & 0o077 == 0
