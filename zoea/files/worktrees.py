"""Makes, commits and removes the worktrees of myses."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from msgspec.structs import replace

from zoea.files.git import Git
from zoea.files.ownership import Ownership, Record
from zoea.files.work_left import (
    WorkLeft,
    check_repository,
    find_changes_and_conflicts,
    find_commit,
    find_merged_head,
    find_work,
    read_conflicts,
    stage_all,
)
from zoea.model.errors import FilesError, GitError, WorkHeld

_MOST_BRANCHES = 100
_MAIN_HINT = "Commit something first; `git commit --allow-empty` is enough."


class Worktrees:
    """The worktrees in a data directory.

    Args:
        hooks: Run the hooks of the repositories.
    """

    def __init__(self, data: Path, *, hooks: bool = False) -> None:
        self.owned = Ownership(data)
        self.hooks = hooks

    def git(self, record: Record) -> Git:
        """Return git in a worktree. It does not read the `.git` there, which a mysis can write."""
        if not record.git_dir:
            raise FilesError(f"the worktree of {record.name} was never finished", hint=f"`zoea drop {record.name}`")
        check_repository(record)
        if not (path := self.owned.path(record.name)).is_dir():
            raise FilesError(
                f"the folder of {record.name} is gone: {path}",
                hint=f"`zoea merge {record.name}` brings back what was committed, and merges it.",
            )
        return Git(path, hooks=self.hooks, git_dir=Path(record.git_dir))

    def repository(self, record: Record) -> Git:
        """Return git in the repository of a worktree."""
        return Git(Path(record.repository), hooks=self.hooks, is_safe=True)

    def make(self, name: str, folder: Path, uid: str = "") -> Record:
        """Make a worktree with its branch from a folder's checkout. Return an existing one.

        Args:
            uid: The mysis that it is for; one of another mysis is refused.

        Raises:
            FilesError: No repository, no commit, or the name belongs to another repository.
            WorkHeld: Another command works with it, or it is another mysis's.
        """
        top, common, base, target = _read_checkout(folder)
        git = Git(Path(top), hooks=self.hooks)
        path = self.owned.path(name)
        with self.owned.lock(name):
            if (record := self.owned.find(name)) is not None:
                if uid and record.uid != uid:
                    raise WorkHeld(
                        f"there is a worktree of another {name}, made from {record.top}: {path}",
                        hint=f"`zoea diff {name}` shows it, `zoea merge {name}` keeps its work, `zoea drop {name}`"
                        " removes it; or choose another name.",
                    )
                if record.repository != common or not record.git_dir:
                    held = "of another repository" if record.repository != common else "that was never finished"
                    raise WorkHeld(f"there is a worktree of {name} {held}: {path}", hint=f"`zoea drop {name}` first.")
                return self._restore(record)
            if os.path.lexists(path):
                raise WorkHeld(
                    f"{path} is there without a record of Zoea", hint="Move it away; Zoea removes only what it made."
                )
            record = Record(name, common, top, base, target, self._free_branch(git, name), uid=uid)
            return self._add(git, record, "--no-track", "-b", record.branch.removeprefix("refs/heads/"))

    def _free_branch(self, git: Git, name: str) -> str:
        listed = git.run("for-each-ref", "--format=%(objecttype) %(refname)", "refs/heads/zoea", accept=(0, 128))
        taken = None if listed.code or listed.error else {line.partition(" ")[2] for line in listed.text.split("\n")}

        def is_taken(branch: str) -> bool:
            """Ask for one by one where git cannot read one of them."""
            return bool(find_commit(git, branch)) if taken is None else branch in taken

        if is_taken("refs/heads/zoea"):
            raise GitError(
                f"{git.folder} has a branch zoea, beside which git makes no branch zoea/{name}",
                hint="Rename it: `git branch -m zoea OTHER`.",
            )
        for number in range(1, _MOST_BRANCHES):
            branch = f"refs/heads/zoea/{name}" + (f"-{number}" if number > 1 else "")
            if not is_taken(branch):
                return branch
        raise FilesError(f"there are {_MOST_BRANCHES} branches zoea/{name}-N", hint="Delete some of them.")

    def _add(self, git: Git, record: Record, *options: str) -> Record:
        """Write the record, then make the worktree."""
        self.owned.write(record)
        try:
            return self._check_out(git, record, *options, str(self.owned.path(record.name)), record.base)
        except FilesError:
            with suppress(FilesError):  # no mysis worked in what was made of it, as on a full disk
                self._remove(record, (record.base,))
            raise

    def _check_out(self, git: Git, record: Record, *line: str) -> Record:
        git.write("worktree", "add", "--quiet", *line)
        made = replace(record, git_dir=_read_git_dir(self.owned.path(record.name)))
        self.owned.write(made)
        return made

    def open(self, name: str) -> tuple[Record, Git]:
        """Return a record and its git. A missing folder is restored first.

        Raises:
            FilesError: Zoea made no such worktree, or its repository is gone.
            WorkHeld: Another command works with it.
        """
        record = self.owned.read(name)
        if record.git_dir and not self.owned.path(name).is_dir():
            with self.owned.lock(name):
                record = self._restore(record)
        return record, self.git(record)

    def _restore(self, record: Record) -> Record:
        """Restore the removed folder of a worktree from its index or its branch."""
        path, git_dir = self.owned.path(record.name), Path(record.git_dir)
        if os.path.lexists(path):
            return record
        check_repository(record)
        if not git_dir.is_dir():  # git has forgotten it
            git = self.repository(record)
            return self._check_out(git, record, str(path), record.branch.removeprefix("refs/heads/"))
        path.mkdir()
        (path / ".git").write_text(f"gitdir: {git_dir}\n", encoding="utf-8")
        self.git(record).write("checkout-index", "--all", "--quiet", accept=(0, 1))  # 1: one of them is in conflict
        return record

    @contextmanager
    def temporary(self, record: Record, commit: str) -> Iterator[tuple[Git, Path]]:
        """Make a detached worktree of a commit in the same repository, with a record. Remove it afterwards."""
        name = f".merge-{token_hex(8)}"
        with self.owned.lock(name):
            made = Record(name, record.repository, record.top, commit)
            try:
                made = self._add(self.repository(record), made, "--detach")
                yield self.git(made), self.owned.path(name)
            finally:
                if self.owned.find(name) is not None:
                    self._remove(made)
                self.owned.remove(name)  # the lock alone, where the disk had no room for a record

    def find_work(self, record: Record) -> WorkLeft:
        """Return what would be lost with a worktree."""
        return find_work(record, self.owned.path(record.name))

    def commit(self, name: str, message: str, author: str = "") -> str:
        """Commit all changes of a worktree; return the id, or "" where nothing was changed.

        Args:
            author: Its author; the mysis if empty.

        Raises:
            WorkHeld: A merge left marks in its files.
            FilesError: There is no such worktree, or git refused.
        """
        _, git = self.open(name)
        with self.owned.lock(name):
            is_merging = bool(find_merged_head(git))
            changes, conflicts = ((), read_conflicts(git)) if is_merging else find_changes_and_conflicts(git)
            if not is_merging and not changes:
                return ""
            if marked := [conflict.path for conflict in conflicts if conflict.hunks]:
                raise WorkHeld(
                    f"the worktree of {name} has marks of a conflict in {', '.join(marked[:5])}",
                    hint=f"{name}, or you in {self.owned.path(name)}, removes the marks first.",
                )
            # What git cannot add, such as a repository without a commit, stays uncommitted; the rest is committed.
            added = stage_all(git, is_lasting=True)
            if not is_merging and git.run("diff", "--cached", "--quiet", "--no-ext-diff", accept=(0, 1)).code == 0:
                if added.code:
                    raise GitError(
                        f"git adds nothing of the worktree of {name}: {added.error.strip()}",
                        hint=f"Change that in {self.owned.path(name)}.",
                    )
                return ""
            git.write(
                "commit",
                "--quiet",
                "--allow-empty-message",
                "--cleanup=whitespace",
                "--file=-",
                author=author or name,
                stdin=message.encode("utf-8", "replace"),
            )
            return find_commit(git, "HEAD")

    def drop(self, name: str, *, force: bool = False) -> str:
        """Remove a worktree and its branch; return the id of its last commit.

        Raises:
            WorkHeld: A workbench serves it, or it holds work and `force` is False.
            FilesError: Zoea did not make it, or git refused.
        """
        record = self.owned.read(name)
        with self.owned.lock(name):
            self.owned.check_lease(name)
            tips: tuple[str, ...] = ()
            if not record.is_merge:
                work = self.find_work(record)
                tips = work.tips
                if work and not force:
                    keeps = (
                        f"look at it in {self.owned.path(name)}" if work.unknown else f"`zoea merge {name}` keeps it"
                    )
                    raise WorkHeld(
                        f"the worktree of {name} holds work: {work.text}",
                        hint=f"{keeps[:1].upper()}{keeps[1:]}; `zoea drop {name} --force` loses it.",
                    )
            return self._remove(record, tips)

    def _remove(self, record: Record, tips: tuple[str, ...] = ()) -> str:
        """Remove folder, branch and record, in an order that can go on after a kill.

        Args:
            tips: Commits that the branch may end with; one that was moved since then stays.
        """
        path = self.owned.path(record.name)
        _remove_folder(path, self.owned.removed(record.name))
        git = self.repository(record)
        if Path(record.repository).exists():
            worktrees = list_worktrees(git)
            if worktrees.pop(str(path), None) is not None:
                git.write("worktree", "remove", "--force", "--force", str(path))
            tip = ""
            with suppress(GitError):  # a damaged branch stays
                tip = find_commit(git, record.branch) if record.branch else ""
            if tip in tips and record.branch not in worktrees.values():
                git.write("update-ref", "-m", "zoea: drop", "-d", record.branch, tip)
        else:
            tip = ""
        self.owned.remove(record.name)
        return tip


def _read_git_dir(path: Path) -> str:
    """Return the absolute git directory of a worktree that git has just made. Raises FilesError."""
    try:
        line = os.fsdecode((path / ".git").read_bytes())
    except OSError as error:
        raise FilesError(f"{path / '.git'} cannot be read: {error.strerror}") from error
    return os.path.realpath(path / line.removeprefix("gitdir: ").removesuffix("\n"))  # git can write a relative one


def _read_checkout(folder: Path) -> tuple[str, str, str, str]:
    """Return the top of a checkout, its common git directory, commit, and branch or "".

    Raises FilesError.
    """
    line = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir", "HEAD^{commit}")
    with suppress(GitError):
        lines = Git(folder).text(*line, "--symbolic-full-name", "HEAD").split("\n")
        if len(lines) == 4 and lines[3].startswith("refs/heads/"):
            return lines[0], lines[1], lines[2], lines[3]
    # Something is unusual: a damaged or detached HEAD, or a line end in a name. One by one it can be told what.
    top = _find_checkout(folder)
    git = Git(top)
    common = git.text("rev-parse", "--path-format=absolute", "--git-common-dir")
    if not (base := find_commit(git, "HEAD")):
        raise FilesError(f"{top} has no commit yet", hint=_MAIN_HINT)
    return str(top), common, base, git.run("symbolic-ref", "--quiet", "HEAD", accept=(0, 1)).text


def _find_checkout(folder: Path) -> Path:
    """Return the top of the checkout that holds a folder. Raises FilesError, with git's reason where it has one."""
    try:
        return Path(Git(folder).text("rev-parse", "--show-toplevel"))
    except GitError as error:
        hint = "`git init` makes one; or work without --worktree."
        if "not a git repository" in error.what:
            path = folder.absolute()
            if root := next((one for one in (path, *path.parents) if os.path.lexists(one / ".git")), None):
                what = f"{root / '.git'} is there, and git does not take it for a repository"
                raise FilesError(
                    what, hint="Mend it, for example an empty HEAD; or work without --worktree."
                ) from error
            raise FilesError(f"{folder} is in no git repository", hint=hint) from error
        reason = error.what.partition(": ")[2]
        raise FilesError(
            f"git finds no checkout at {folder}: {reason}",
            hint="" if "safe.directory" in reason else "Name a checkout.",
        ) from error


def describe_drop(name: str, tip: str) -> str:
    """Return what every front says after a drop."""
    return f"{name} dropped" + (f"; its last commit was {tip}" if tip else "")


def list_worktrees(git: Git) -> dict[str, str]:
    """Return the folders of a repository's working trees with their branches. "" where none is checked out."""
    worktrees: dict[str, str] = {}
    for block in git.run("worktree", "list", "--porcelain", "-z").out.decode("utf-8", "surrogateescape").split("\0\0"):
        lines = dict(line.partition(" ")[::2] for line in block.split("\0") if line)
        if "worktree" in lines and "bare" not in lines:
            worktrees[lines["worktree"]] = lines.get("branch", "")
    return worktrees


def _remove_folder(path: Path, removed: Path) -> None:
    """Remove a folder with all in it, never what links in it lead to. Raises FilesError.

    Args:
        removed: Its name until it is gone. The missing files of half a worktree would look like work after a kill.
    """

    def allow(_: object, name: str, error: BaseException) -> None:
        """Add missing permissions, as in the caches of some tools, and try again."""
        above = Path(name).parent
        for folder in (above, Path(name)):
            if not folder.is_symlink() and folder.is_dir() and (folder == removed or removed in folder.parents):
                folder.chmod(stat.S_IRWXU)
        if Path(name).is_dir() and not Path(name).is_symlink():
            shutil.rmtree(name)
        else:
            Path(name).unlink()

    try:
        for folder in (removed, path):  # the first is there where a drop was killed
            if not os.path.lexists(folder):
                continue
            if folder.is_symlink() or not folder.is_dir():
                raise FilesError(f"{folder} is no folder any more", hint="Look at it and remove it.")
            shutil.rmtree(folder.rename(removed), onerror=lambda call, name, info: allow(call, name, info[1]))
    except OSError as error:
        raise FilesError(f"{path} cannot be removed: {error}", hint="Remove it, then drop again.") from error
