"""Merges branches of worktrees into their target branches without a checkout in the person's tree.

A merge is prepared and checked in a temporary worktree. Then the branch is moved if it is still where it was; where it
is checked out and clean, the tree follows by a fast-forward.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from zoea.files.git import Git, explain
from zoea.files.ownership import Record, hold_lock
from zoea.files.work_left import (
    Conflict,
    Fork,
    find_changes,
    find_changes_and_conflicts,
    find_commit,
    find_lost_repositories,
    find_merged_head,
    is_before,
    is_in_target,
    read_commits,
    read_conflicts,
    read_fork,
)
from zoea.files.worktrees import Worktrees, list_worktrees
from zoea.model.errors import FilesError, MergeRefused, WorkHeld
from zoea.process.command_runs import CommandRun, CommandRuns
from zoea.process.sandbox import find_sandbox
from zoea.settings.paths import Places
from zoea.text.control_characters import one_line

if TYPE_CHECKING:
    from zoea.settings.schema import FilesSettings

_HEADS = ("rebase-merge/head-name", "rebase-apply/head-name")
_MOST_CHECK = 4_000
_MOST_TOLD = 8_000
"""Characters of hunks in the message to a mysis."""


class MergeConflict(MergeRefused):
    """Two branches changed the same.

    Args:
        conflicts: The files and their hunks.
    """

    def __init__(self, what: str, *, hint: str, conflicts: tuple[Conflict, ...]) -> None:
        super().__init__(what, hint=hint)
        self.conflicts = conflicts


class Merged(Struct, frozen=True):
    """A merge that was done.

    Attributes:
        old, new: Commits of the target before and after; equal where there was nothing to merge.
        check: How it was checked; empty where it was not.
    """

    name: str
    target: str
    old: str
    new: str
    check: str = ""

    @property
    def text(self) -> str:
        """One sentence without its end."""
        if self.old == self.new:
            return f"{self.name} has nothing that {short(self.target)} does not have"
        how = f"; {self.check}" if self.check else ""
        return f"{self.name} is merged into {short(self.target)}: {self.old[:12]} -> {self.new[:12]}{how}"


class MergeRules(Struct, frozen=True):
    """What a merge must pass.

    Attributes:
        check: A command line that must succeed in the merged tree; empty for none.
        check_s: Its deadline.
        network: It reaches the network.
        hidden: Folders that it cannot see where it is confined.
    """

    check: str = ""
    check_s: float = 600.0
    network: bool = False
    hidden: tuple[Path, ...] = ()


def build_rules(settings: FilesSettings, places: Places) -> MergeRules:
    """Return the rules of a workspace."""
    return MergeRules(settings.check, settings.check_timeout, settings.network, places.own_folders)


class MergeQueueResult(Struct, frozen=True):
    """What a queue merged, the error that stopped it, and the names not tried."""

    merged: tuple[Merged, ...]
    failed: str = ""
    error: FilesError | None = None
    waiting: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """What happened to each, as every front shows it; conflicts with their hunks."""
        lines = [merged.text for merged in self.merged]
        if self.error is not None:
            conflicts = self.error.conflicts if isinstance(self.error, MergeConflict) else ()
            lines.append(f"{self.failed} was not merged: {self.error.text}")
            lines += [f"{one_line(one.path)}\n{hunk}" for one in conflicts for hunk in one.hunks]
            lines += [f"not tried: {', '.join(self.waiting)}"] if self.waiting else []
        return lines


def merge_all(
    trees: Worktrees, names: Sequence[str], rules: MergeRules, tell: Callable[[str], object] = lambda _: None
) -> MergeQueueResult:
    """Merge worktrees one after the other, each on top of the former. Stop at the first that fails."""
    merged: list[Merged] = []
    for number, name in enumerate(names):
        tell(f"merging {name}")
        try:
            merged.append(merge(trees, name, rules))
        except FilesError as error:
            return MergeQueueResult(tuple(merged), name, error, tuple(names[number + 1 :]))
    return MergeQueueResult(tuple(merged))


def merge(trees: Worktrees, name: str, rules: MergeRules) -> Merged:
    """Merge the branch of a worktree into the branch it came from.

    Raises:
        MergeConflict: Both changed the same.
        MergeRefused: The check failed, the target was moved, or its working tree is not clean.
        WorkHeld: The worktree has uncommitted changes.
        FilesError: Zoea did not make it, or git refused.
    """
    record, git = trees.open(name)
    repository = trees.repository(record)
    changes, conflicts = find_changes_and_conflicts(git)
    if any(conflict.hunks for conflict in conflicts):
        raise _conflict(trees, record, conflicts)
    hint = f"Commit them first: c in the review, or `zoea merge {name} --commit MESSAGE`."
    _check_committed(git, name, changes, hint)
    fork = read_fork(git, record.target, "HEAD") if record.target else None
    if fork is None and (not record.target or not find_commit(repository, record.target)):
        raise MergeRefused(
            f"{name} came from no branch that is there",
            hint=f"`git merge {short(record.branch)}` on a branch of yours; then `zoea drop {name}`.",
        )
    if fork is None:
        find_commit(git, "HEAD")  # an error where it is damaged
        raise MergeRefused(f"git cannot compare {name} with {short(record.target)}", hint="`git fsck` there says why.")
    old, tip = fork.target, fork.tip
    if is_before(repository, tip, record.base, fork) or is_in_target(repository, fork):
        return Merged(name, record.target, old, old)
    if lost := find_lost_repositories(repository, fork.base or record.base, tip):
        raise MergeRefused(
            f"{name} made repositories, whose files are not in its branch: {one_line(', '.join(lost[:5]))}",
            hint=f"Let {name} remove `.git` there and `git rm --cached` them, so that the files are committed.",
        )
    new, check = prepare(trees, record, repository, fork, rules)
    move(repository, record, old, new, trees.hooks)
    return Merged(name, record.target, old, new, check)


def prepare(trees: Worktrees, record: Record, repository: Git, fork: Fork, rules: MergeRules) -> tuple[str, str]:
    """Merge and check in a temporary worktree. Return the new commit of the target and how it was checked."""
    old, tip = fork.target, fork.tip
    is_forward = fork.base == old
    if is_forward and not rules.check:
        return tip, ""
    if (checkout := find_checkout(repository, record.target, record.top)) is not None:
        check_clean(checkout, record.target)  # now, and again when the branch is moved
    with trees.temporary(record, tip if is_forward else old) as (git, path):
        if not is_forward:
            message = f"Merge {record.branch.removeprefix('refs/heads/')}"
            result = git.write("merge", "--no-ff", "--quiet", "-m", message, tip, accept=(0, 1), author="Zoea")
            if result.code:
                raise _conflict(trees, record, read_conflicts(git))
        new = git.text("rev-parse", "--verify", "HEAD^{commit}")
        return new, run_check(path, record, rules) if rules.check else ""


def _conflict(trees: Worktrees, record: Record, conflicts: tuple[Conflict, ...]) -> MergeConflict:
    name, target = record.name, short(record.target)
    return MergeConflict(
        f"{name} and {target} changed the same in {_list_paths(conflicts) or 'some files'}",
        hint=f"`zoea merge {name} --send-back`, or s in the review, lets {name} resolve it. By hand: merge {target} in"
        f" {trees.owned.path(name)}, and try again.",
        conflicts=conflicts,
    )


def send_back(trees: Worktrees, name: str) -> str:
    """Merge the target into a worktree with conflict marks. Return the message for its mysis.

    It may be called again before they are resolved. Raises WorkHeld where it has uncommitted changes, and FilesError.
    """
    record, git = trees.open(name)
    target = short(record.target)
    with trees.owned.lock(name):
        if not find_merged_head(git):
            hint = f"Wait until {name} has ended its turn, or press c in the review to commit them."
            _check_committed(git, name, find_changes(git), hint)
            message = f"Merge {target} into {record.branch.removeprefix('refs/heads/')}"
            git.write("merge", "--no-ff", "--quiet", "-m", message, record.target, accept=(0, 1), author="Zoea")
        conflicts = read_conflicts(git)
    chars, hunks = 0, []
    for one in conflicts:
        text = "\n".join((one_line(one.path), *(one.hunks or ("It has no marks: what stands in the folder counts.",))))
        chars += len(text)
        hunks.append(text if chars <= _MOST_TOLD else f"{one_line(one.path)}: read the marks there")
    return "\n\n".join(
        (
            f"Your branch and {target} changed the same in {_list_paths(conflicts) or 'no file now'}."
            f" {target} is merged into your folder, and the places are marked there.",
            *hunks,
            "Edit these files so that both changes hold, and remove the lines with <<<<<<<, ======= and >>>>>>>. Then"
            " run the tests. The merge is committed when your turn ends.",
        )
    )


def _check_committed(git: Git, name: str, changes: tuple[str, ...], hint: str) -> None:
    if changes:
        find_commit(git, "HEAD")  # an error where it is damaged: every file looks new then
        raise WorkHeld(f"the worktree of {name} has uncommitted changes: {', '.join(changes[:5])}", hint=hint)


def _list_paths(conflicts: tuple[Conflict, ...]) -> str:
    return ", ".join([one_line(conflict.path) for conflict in conflicts])


def run_check(path: Path, record: Record, rules: MergeRules) -> str:
    """Run the check in a merged tree, confined because it runs a mysis's code. Return how.

    Raises MergeRefused with the end of its output.
    """
    sandbox = find_sandbox(path, rules.hidden, (Path(record.repository),), network=rules.network)

    async def run() -> CommandRun:
        started = await CommandRuns(sandbox, path).start(rules.check, rules.check_s)
        await started.wait()
        return started

    ended = asyncio.run(run())
    if ended.end or ended.code:
        how = f"took longer than {rules.check_s:g} s" if ended.end else f"failed with exit code {ended.code}"
        raise MergeRefused(
            f"the check `{rules.check}` {how} ({sandbox.text}):\n{ended.output.text[-_MOST_CHECK:]}",
            hint="Nothing was merged.",
        )
    return f"checked, {sandbox.text}"


class Checkout(Struct, frozen=True):
    """A working tree of the person.

    Attributes:
        git_dir: Its own git directory.
    """

    path: Path
    git_dir: Path


def find_checkout(repository: Git, branch: str, top: str) -> Checkout | None:
    """Return the working tree that has a branch checked out. Raises MergeRefused for one in the middle of a rebase.

    Args:
        top: A working tree of the repository. Git names the main one by its git directory where that stands elsewhere.
    """
    checkout = None
    for tree, checked_out in list_worktrees(repository).items():
        if checked_out == branch:
            path = Path(tree)
            if not path.is_dir():
                raise MergeRefused(
                    f"{short(branch)} is checked out in {tree}, which is gone",
                    hint="`git worktree prune` makes git forget that, if it will not come back.",
                )
            is_inside, own = _read_place(path)
            if not is_inside:
                path = Path(top)
                if Git(path).run("symbolic-ref", "--quiet", "HEAD", accept=(0, 1)).text != branch:
                    raise MergeRefused(
                        f"{short(branch)} is checked out in a folder that git does not name", hint="Merge by hand."
                    )
                own = _read_place(path)[1]
            checkout = Checkout(path, own)
        elif not checked_out and Path(tree).is_dir():
            own = _read_place(Path(tree))[1]
            for name in _HEADS:
                if (own / name).is_file() and (own / name).read_text(encoding="utf-8").strip() == branch:
                    raise MergeRefused(f"{short(branch)} is being rebased in {tree}", hint="Finish the rebase first.")
    return checkout


def _read_place(folder: Path) -> tuple[bool, Path]:
    """Return whether a folder is in a working tree, and its git directory. Raises GitError."""
    line = ("rev-parse", "--is-inside-work-tree", "--path-format=absolute", "--git-dir")
    is_inside, _, own = Git(folder).text(*line).partition("\n")
    return is_inside == "true", Path(own)


def check_clean(checkout: Checkout, branch: str) -> None:
    """Raise MergeRefused if tracked files are changed, or a merge or rebase is open."""
    tree, own = checkout.path, checkout.git_dir
    names = find_changes(Git(tree), untracked=False)
    under_way = [name for name in ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD") if (own / name).exists()]
    if names or under_way:
        what = f"uncommitted changes: {', '.join(names[:5])}" if names else "a merge or pick under way"
        raise MergeRefused(
            f"{short(branch)} is checked out in {tree}, which has {what}",
            hint="Commit them there and try again, or merge there by hand: `git merge` with the branch of the mysis.",
        )


def move(repository: Git, record: Record, old: str, new: str, hooks: bool) -> None:
    """Move the target from one commit to another. A clean tree that has it checked out follows.

    Raises:
        MergeRefused: The target was moved in between, or its tree would lose something.
    """
    # One at a time, also of other workspaces: two `git merge` at once in one checkout would leave the files of one and
    # the branch of the other. A lock of the folder writes nothing.
    handle = os.open(record.repository, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with hold_lock(handle, MergeRefused(f"another merge moves a branch of {record.repository}", hint="Try again.")):
        checkout = find_checkout(repository, record.target, record.top)
        if checkout is None:
            why = f"zoea: merge {record.name}"
            result = repository.write("update-ref", "-m", why, record.target, new, old, accept=(0, 1, 128))
        else:
            check_clean(checkout, record.target)
            git = Git(checkout.path, hooks=hooks)
            head, before = (*read_commits(git, "HEAD", "ORIG_HEAD"), "", "")[:2]
            if head != old:
                find_commit(git, "HEAD")  # an error where it is damaged
                raise _moved(record)
            result = git.write("merge", "--ff-only", "--quiet", "--no-overwrite-ignore", new, accept=(0, 1, 2, 128))
            if result.code and find_commit(git, "HEAD") == old:
                # Git writes it before it looks at the files.
                git.write("update-ref", *(("ORIG_HEAD", before) if before else ("-d", "ORIG_HEAD")))
                raise MergeRefused(
                    f"git would not bring {checkout.path} to the merged commit: {result.error.strip()}",
                    hint=explain(result.error) or "Move what stands in the way and try again, or merge there by hand.",
                )
        if find_commit(repository, record.target) != new:
            raise _moved(record)


def _moved(record: Record) -> MergeRefused:
    return MergeRefused(f"{short(record.target)} was moved in between", hint="Nothing was changed. Try again.")


def short(branch: str) -> str:
    """Return a branch as people write it."""
    return branch.removeprefix("refs/heads/")
