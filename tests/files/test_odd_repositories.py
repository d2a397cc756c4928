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
from zoea.files.git import _FIXED
from zoea.files.leftovers import find_leftovers
from zoea.files.merge import MergeConflict, MergeRules, merge, merge_all, send_back
from zoea.files.worktrees import Worktrees
from zoea.model.errors import FilesError, SettingsError, WorkHeld
from zoea.queries.change_origins import read_history, trace_lines
from zoea.settings.private_file import write_private
from zoea.text.patches import parse_patch


def plain(place: Path) -> Path:
    return make_repository(place / "plain", a__txt="one\n", **{"outer/kept__txt": "kept\n"})


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
    commit(plain(place), "more")
    git(place, "clone", "--quiet", "--depth", "1", f"file://{place / 'plain'}", "shallow")
    assert (place / "shallow" / ".git" / "shallow").exists()
    return place / "shallow"


def partial_whose_remote_is_gone(place: Path) -> Path:
    git(plain(place), "config", "uploadpack.allowFilter", "true")
    git(place, "clone", "--quiet", "--filter=blob:none", f"file://{place / 'plain'}", "partial")
    (place / "plain").rename(place / "away")
    return place / "partial"


def hooks_of_a_template(place: Path) -> Path:
    hooks = place / "template" / "hooks"
    hooks.mkdir(parents=True)
    for name in (
        "post-checkout", "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-merge-commit",
        "post-merge", "reference-transaction", "post-index-change", "pre-auto-gc", "post-rewrite", "fsmonitor-watchman",
    ):  # fmt: skip
        (hooks / name).write_text(f"#!/bin/sh\necho {name} ran >&2\nexit 1\n")
        (hooks / name).chmod(0o755)
    repository = plain(place)
    git(repository, "-c", f"init.templateDir={place / 'template'}", "init", "--quiet")
    assert (repository / ".git" / "hooks" / "pre-commit").exists()
    return repository


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
    shallow, partial_whose_remote_is_gone, hooks_of_a_template, shared_objects, sha256, tags_of_the_same_names,
    by_a_link,
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


CONFIGURED = [
    "advice.detachedHead=true", "blame.ignoreRevsFile=missing", "blame.blankBoundary=true", "blame.showEmail=true",
    "branch.autoSetupMerge=always", "branch.autoSetupRebase=always", "color.ui=always", "commit.cleanup=verbatim",
    "commit.gpgSign=true", "commit.template=missing", "commit.verbose=true", "core.abbrev=4",
    "core.attributesFile=missing", "core.autocrlf=input", "core.autocrlf=true", "core.commentChar=w",
    "core.editor=false", "core.eol=crlf", "core.excludesFile=missing", "core.fileMode=false",
    "core.fsmonitor=./missing", "core.fsmonitor=true", "core.hooksPath=missing", "core.logAllRefUpdates=always",
    "core.pager=false", "core.safecrlf=true", "core.quotePath=true", "core.sharedRepository=group",
    "core.splitIndex=true", "core.symlinks=false", "core.untrackedCache=true", "core.whitespace=tab-in-indent",
    "diff.algorithm=patience", "diff.colorMoved=zebra", "diff.context=0", "diff.external=false",
    "diff.ignoreSubmodules=all", "diff.interHunkContext=9", "diff.mnemonicPrefix=true", "diff.noprefix=true",
    "diff.orderFile=missing", "diff.relative=true", "diff.renames=copies", "diff.renames=false",
    "diff.submodule=log", "diff.suppressBlankEmpty=true", "diff.wsErrorHighlight=all",
    "extensions.worktreeConfig=true", "feature.manyFiles=true", "format.pretty=fuller", "gpg.format=ssh",
    "i18n.commitEncoding=ISO-8859-1", "i18n.logOutputEncoding=ISO-8859-1", "index.version=4", "log.date=relative",
    "log.showSignature=true", "merge.autoStash=true", "merge.branchdesc=true", "merge.conflictStyle=diff3",
    "merge.directoryRenames=true", "merge.ff=false", "merge.ff=only", "merge.log=true", "merge.renames=false",
    "merge.renormalize=true", "merge.verifySignatures=true", "pull.ff=only", "pull.rebase=true", "push.gpgSign=true",
    "rebase.autoStash=true", "rerere.autoUpdate=true", "rerere.enabled=true", "status.relativePaths=true",
    "status.renames=copies", "status.showUntrackedFiles=no", "status.submoduleSummary=true", "tag.gpgSign=true",
    "user.signingKey=missing", "user.useConfigOnly=true", "worktree.guessRemote=true",
]  # fmt: skip
"""Settings of a person's git that change what other commands of git do or write; in order, so that a key with two
values stands beside itself. Only `core.safecrlf` is moved by one: with `core.eol=crlf` git refuses every file.
"""
_GROUPS = 10 if os.environ.get("ZOEA_SOAK") else 3
"""Each setting is in one of so many repositories. Fewer and larger ones name less precisely what changed something."""


@pytest.mark.parametrize("settings", [CONFIGURED[at::_GROUPS] for at in range(_GROUPS)], ids=lambda one: f"{one[0]} …")
def test_no_setting_of_git_changes_what_is_shown_committed_merged_and_sent_back(
    tmp_path: Path, trees: Worktrees, settings: list[str]
) -> None:
    repository = plain(tmp_path)
    for setting in settings:
        git(repository, "config", *setting.split("="))
    before = (repository / ".git" / "config").read_bytes()
    record, tree = trees.make("alpha", repository), trees.owned.path("alpha")
    trees.make("beta", repository)
    for name in ("alpha", "beta"):
        (trees.owned.path(name) / "a.txt").write_text(f"{name}\n")
    (tree / "outer" / "kept.txt").rename(tree / "outer" / "é\ttab.txt")
    with open_diff(trees.git(record), base := find_base(trees.git(record), record)) as diff:
        assert diff.count(record.target).text == "+1 -1, 2 files"
        files = {file.path: [line.sign for line in file.lines] for file in parse_patch(diff.patch())}
    assert files["a.txt"] == ["@", "-", "+"]
    assert "é\ttab.txt" in next(path for path in files if path.startswith("outer/"))
    for name in ("alpha", "beta"):
        trees.commit(name, f"# {name}: wörk")
    assert git(tree, "-c", "i18n.logOutputEncoding=UTF-8", "log", "-1", "--format=%an %s", "--no-show-signature") == (
        "alpha # alpha: wörk"
    )
    own = trees.git(record)
    added, _ = trace_lines(own, base, "a.txt", "", read_history(own, base), "+")
    assert added == {1: git(tree, "rev-parse", "HEAD")}
    assert merge(trees, "alpha", MergeRules("test -e a.txt")).new == git(repository, "rev-parse", "main")
    for is_known in (False, True):  # the second time git may know how it was resolved
        with pytest.raises(MergeConflict, match=r"changed the same in a\.txt") as conflict:
            merge(trees, "beta", MergeRules())
        (one,) = conflict.value.conflicts
        assert "<<<<<<<" in one.hunks[0]
        assert "|||||||" not in one.hunks[0]
        assert "a.txt" in send_back(trees, "beta")
        (trees.owned.path("beta") / "a.txt").write_text("alpha and beta\n")
        trees.commit("beta", "resolved")
        git(trees.owned.path("beta"), "reset", "--quiet", "--hard", "HEAD" if is_known else "HEAD@{1}")
    assert merge(trees, "beta", MergeRules()).new == git(repository, "rev-parse", "main")
    assert (repository / "a.txt").read_text() == "alpha and beta\n"
    assert git(repository, "status", "--porcelain", "--untracked-files=all") == ""
    for name in ("alpha", "beta"):
        trees.drop(name)
    assert git(repository, "branch", "--list", "--no-color", "zoea/*") == ""
    assert (repository / ".git" / "config").read_bytes() == before
    assert not (repository / ".git" / "rr-cache").exists()
    assert find_leftovers(tmp_path / "data") == []


def test_a_repository_of_another_user_is_worked_on_once_its_checkout_is_named_as_safe(
    tmp_path: Path, trees: Worktrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = plain(tmp_path)
    monkeypatch.setitem(_FIXED, "GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(FilesError, match=rf"(?s)dubious ownership.*safe\.directory {repository}$") as refused:
        trees.make("alpha", repository)
    assert not refused.value.hint
    for folder in (repository, trees.owned.path("alpha")):  # git takes the second for another user's only here
        git(tmp_path, "config", "--global", "--add", "safe.directory", str(folder))
    trees.make("alpha", repository)
    (trees.owned.path("alpha") / "a.txt").write_text("two\n")
    tip = trees.commit("alpha", "work")
    assert merge(trees, "alpha", MergeRules()).new == tip
    assert find_leftovers(tmp_path / "data") == []
    trees.drop("alpha")
    assert git(repository, "branch", "--list", "zoea/*") == ""


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
