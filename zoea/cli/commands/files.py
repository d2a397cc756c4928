"""`zoea workbench`, `diff`, `merge` and `drop`: work on files."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from zoea.cli import output
from zoea.cli.options import MYSES, MYSIS
from zoea.cli.output import Output
from zoea.model.errors import FilesError
from zoea.process.command_line import argument, flag, option
from zoea.settings.layers import load
from zoea.settings.paths import Places
from zoea.text.control_characters import one_line

if TYPE_CHECKING:
    from zoea.files.changes import ChangedFile
    from zoea.files.git import Git
    from zoea.files.ownership import Record
    from zoea.files.worktrees import Worktrees


def workbench(
    where: Places,
    folder: str = argument("DIR", "The folder."),
    worktree: str = option("--worktree NAME", "Serve the worktree of this name of the repository instead; make it."),
    mysis: str = option("--mysis UID", "Only if that worktree is of the mysis with this uid; make it for that one."),
) -> None:
    """Serve files and commands of one folder to an MCP client, over stdin and stdout.

    Nothing outside the folder is shown or changed. Commands are confined by bubblewrap where it is installed; their
    answers say so.

    Example: zoea workbench . --worktree alpha
    """
    import asyncio

    from zoea.files.safe_folder import SafeFolder, check_folder
    from zoea.files.workbench import Workbench
    from zoea.files.workbench_server import run_stdio
    from zoea.process.sandbox import find_sandbox

    settings = load(where).settings.files
    trees = _open(where)
    path = Path(folder).absolute()
    record = None
    if worktree:
        record = trees.make(worktree, path, mysis)
        path = trees.owned.path(record.name)
    else:
        check_folder(path, where.own_folders, trees.owned.root)
        if path.resolve().parent == trees.owned.root.resolve():
            record = trees.owned.find(path.name)
    with trees.owned.lease(record.name) if record else nullcontext():
        hidden = where.own_folders
        readable = (Path(record.repository),) if record else ()
        opened = SafeFolder(path, hidden)
        sandbox = find_sandbox(opened.path, hidden, readable, network=settings.network)
        asyncio.run(run_stdio(Workbench(opened, sandbox, record)))


def diff(
    where: Places,
    name: str = MYSIS,
    stat: bool = flag("--stat", "Only the files, with the numbers of their lines."),
) -> Output:
    """Show what a mysis changed in its worktree since it left the branch that it came from."""
    from zoea.files.changes import open_diff, read_base

    trees = _open(where)
    record = trees.owned.read(name)
    git = trees.git(record)
    base = read_base(git, record)
    with open_diff(git, base.commit) as changed:
        counts = changed.count(base.target)
        patch = "" if stat else changed.patch()
    origins = _read_origins(where, record, git, counts.base, patch) if patch and output.is_json else []
    value = {"name": name, "branch": record.branch, **asdict(counts)}
    shown = [*map(_describe, counts.files), counts.text] if stat else [patch or "nothing changed"]
    return Output(value | ({} if stat else {"patch": patch, "origins": origins}), shown)


def _read_origins(where: Places, record: Record, git: Git, base: str, patch: str) -> list[dict[str, Any]]:
    """Return the turn and the approval of each hunk. Nothing without a database."""
    from zoea.queries.change_origins import read_origins
    from zoea.text.patches import parse_patch

    if not where.database.exists():
        return []
    files = parse_patch(patch)
    return [
        {"path": files[at].path, "hunk": files[at].lines[head].text, **asdict(origin)}
        for (at, head), origin in read_origins(where.database, record, git, base, files).items()
    ]


def merge(
    where: Places,
    names: tuple[str, ...] = MYSES,
    commit: str = option("--commit MESSAGE", "Commit what is uncommitted in the worktrees first."),
    send_back: bool = flag(
        "--send-back", "A conflict goes to its mysis: marked in its worktree, and as a message with files and hunks."
    ),
) -> Output:
    """Merge the worktrees of myses into the branches they came from, each on top of the former.

    A merge is prepared apart, and `files.check` must succeed in it, confined as the commands
    of a workbench are. Where the branch is checked out, the clean tree
    follows; one with uncommitted changes is left alone. It stops at the first that fails.

    Exit code 13: one failed; those before it are merged.
    """
    from zoea.files.merge import MergeConflict, build_rules, merge_all
    from zoea.files.merge import send_back as mark_conflicts

    settings = load(where).settings.files
    trees = _open(where)
    if commit:
        for name in names:
            trees.commit(name, commit)
    done = merge_all(trees, names, build_rules(settings, where), output.say_progress)
    lines = done.lines
    value: dict[str, Any] = {"merged": done.merged, "failed": done.failed, "waiting": done.waiting}
    if done.error is not None:
        conflicts = done.error.conflicts if isinstance(done.error, MergeConflict) else ()
        value |= {"error": done.error.as_dict(), "conflicts": conflicts}
        if conflicts and send_back:
            from zoea.cli.swarm_access import command

            text = mark_conflicts(trees, done.failed)
            command(where, lambda swarm: swarm.send(done.failed, text))
            value["sent_back"] = done.failed
            lines.append(f"{done.failed} got the conflicts as a message; merge it again when it is done")
    return Output(value, lines, exit_code=FilesError.exit_code if done.error is not None else 0)


def drop(
    where: Places,
    name: str = argument("NAME", "Name of a mysis, or of a worktree that `zoea doctor` names.", is_name=True),
    force: bool = flag("--force", "Also if it holds uncommitted or unmerged work, which is lost."),
) -> Output:
    """Remove the worktree and branch of a mysis, unless work would be lost.

    Squashed and rebased commits count as merged. Only what Zoea made is removed.
    """
    from zoea.files.worktrees import describe_drop

    tip = _open(where).drop(name, force=force)
    return Output({"name": name, "tip": tip}, describe_drop(name, tip))


def _open(where: Places) -> Worktrees:
    from zoea.files.worktrees import Worktrees

    return Worktrees(where.data, hooks=load(where).settings.files.hooks)


def _describe(file: ChangedFile) -> str:
    added, removed = ("?" if number is None else number for number in (file.added, file.removed))
    return f"+{added} -{removed}  {one_line(file.path)}" + (f" (was {one_line(file.former)})" if file.former else "")
