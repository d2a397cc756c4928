"""Names what killed commands left behind, and worktrees without a record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from zoea.files.git import Git
from zoea.files.ownership import Ownership, Record
from zoea.files.worktrees import list_worktrees
from zoea.model.errors import FilesError, WorkHeld


class Leftover(Struct, frozen=True):
    """One thing that was found, and what to do about it."""

    name: str
    problem: str
    hint: str


def find_leftovers(data: Path) -> list[Leftover]:
    """Return the files and branches that no command works with."""
    owned = Ownership(data)
    remains: list[Leftover] = []
    records: list[Record] = []
    for name in owned.names():
        try:
            record = owned.read(name)
            records.append(record)
            with owned.lock(name):
                problem = _find_problem(owned, record)
        except WorkHeld:
            continue  # a command works with it now
        except FilesError as error:
            remains.append(Leftover(name, error.what, error.hint))
            continue
        if problem:
            remains.append(Leftover(name, problem, f"`zoea drop {name}` removes it, unless it holds work."))
    known = {record.name for record in records} | {leftover.name for leftover in remains}
    known |= {owned.removed(name).name for name in known}
    folders = [entry for entry in sorted(owned.root.iterdir()) if entry.is_dir()] if owned.root.is_dir() else []
    for folder in folders:
        if folder.name not in known:
            remains.append(Leftover(folder.name, f"{folder} is there without a record", "Look at it and move it away."))
    return [*remains, *_find_branches(records)]


def _find_problem(owned: Ownership, record: Record) -> str:
    path = owned.path(record.name)
    if record.is_merge:
        return "a merge was killed and left its temporary worktree"
    if not Path(record.repository).is_dir():
        return f"its repository {record.repository} is gone"
    if not record.git_dir:
        return "its worktree was never finished"
    if not path.is_dir():
        return f"its folder {path} is gone"
    if (Path(record.git_dir) / "index.lock").exists():
        return f"{record.git_dir}/index.lock is there: a git command runs in it, or was killed"
    return ""


def _find_branches(records: list[Record]) -> Iterator[Leftover]:
    for repository in sorted({record.repository for record in records}):
        branches = {record.branch for record in records if record.repository == repository}
        try:
            git = Git(Path(repository), is_safe=True)
            refs = git.text("for-each-ref", "--format=%(refname)", "refs/heads/zoea/").split()
            # Those of other workspaces have their records there.
            branches |= {branch for folder, branch in list_worktrees(git).items() if Path(folder).is_dir()}
        except FilesError:
            continue
        for branch in refs:
            if branch not in branches:
                name = branch.removeprefix("refs/heads/")
                yield Leftover(name, f"the branch {name} in {repository} has no worktree", f"`git branch -d {name}`")
