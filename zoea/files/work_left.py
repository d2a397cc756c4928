"""Finds uncommitted changes and unmerged commits of a worktree.

Whether commits are merged is decided by their trees and patches, not by ancestry alone, so that squashed and rebased
work counts as merged. What cannot be told counts as work.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct

from zoea.files.git import DEADLINE_S, WRITE_DEADLINE_S, Git, GitResult
from zoea.files.ownership import Record
from zoea.model.errors import FilesError, GitError
from zoea.text.control_characters import split_lines

DRAFT = re.compile(r"\.zoea-[0-9a-f]{16}\.tmp")
"""Name of a file that is not written to its end."""
DRAFTS = ":(exclude,glob)**/.zoea-*.tmp"
NO_INNER_STATUS = "--ignore-submodules=dirty"
"""Git does not look at the files of inner repositories, because that runs the filters of their configurations."""
_MOST_COMMITS = 5_000
_MOST_INDEX = 1_000_000_000
_MOST_HUNK_LINES = 60
_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "BISECT_LOG": "a bisection",
    "modules": "work in submodules",
    "index.lock": "a git command, or one that was killed,",
}
_PATCH = ("-p", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")


class WorkLeft(Struct, frozen=True):
    """What would be lost with a worktree.

    Attributes:
        changes: Files with uncommitted changes.
        commits: Ids of tips whose commits are merged nowhere.
        unknown: Why it cannot be told; empty where it can.
        tips: The id of its HEAD, and of its branch.
    """

    changes: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    unknown: str = ""
    tips: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changes or self.commits or self.unknown)

    @property
    def text(self) -> str:
        """One sentence without its end."""
        parts = []
        if self.changes:
            shown = ", ".join(self.changes[:5]) + (", …" if len(self.changes) > 5 else "")
            parts.append(f"{len(self.changes)} uncommitted: {shown}")
        if self.commits:
            parts.append(f"unmerged commits up to {', '.join(tip[:12] for tip in self.commits)}")
        if self.unknown:
            parts.append(self.unknown)
        return "; ".join(parts)


class Conflict(Struct, frozen=True):
    """A file that two branches changed differently. `hunks` are the lines with marks, cut where they are long."""

    path: str
    hunks: tuple[str, ...]


class Fork(Struct, frozen=True):
    """How two commits have parted.

    Attributes:
        base: Their merge base; empty where they have none.
        target, tip: Their ids.
        target_tree, tip_tree: The ids of their trees.
    """

    base: str
    target: str
    tip: str
    target_tree: str
    tip_tree: str


def find_work(record: Record, path: Path) -> WorkLeft:
    """Return what would be lost with a worktree. It never raises: what cannot be told is work."""
    changes: tuple[str, ...] = ()
    repository = Git(Path(record.repository), is_safe=True)
    try:
        check_repository(record)
        if record.git_dir and path.exists():
            git = Git(path, git_dir=Path(record.git_dir))
            changes = find_changes(git)  # before the tips, so that a commit in between is in one of the two
            tips = list(dict.fromkeys(_read_tips(git, record)))
            unknown = _find_unknown(git, path)
        else:
            tips = [tip] if record.branch and (tip := find_commit(repository, record.branch)) else []
            has_files = path.exists() and any(entry.name != ".git" for entry in path.iterdir())
            unknown = f"{path} is there, but git never finished to make it" if has_files else ""
        commits = tuple(tip for tip in tips if not is_merged(repository, tip, record))
        return WorkLeft(changes, commits, unknown, tuple(tips))
    except (FilesError, OSError) as error:
        return WorkLeft(changes, unknown=f"git cannot tell what is in it: {error}")


def check_repository(record: Record) -> None:
    """Raise FilesError where the repository of a worktree is gone."""
    if not Path(record.repository).is_dir():
        raise FilesError(
            f"the repository of {record.name} is gone: {record.repository}",
            hint=f"If it was moved, move it back, or merge {record.branch.removeprefix('refs/heads/')} there by hand.",
        )


def _read_tips(git: Git, record: Record) -> tuple[str, ...]:
    """Return the commits of HEAD and of the branch, where that is there. Raises GitError."""
    if record.branch and len(tips := read_commits(git, "HEAD", record.branch)) == 2:
        return tips
    head = git.text("rev-parse", "--verify", "HEAD^{commit}")
    return (head, tip) if record.branch and (tip := find_commit(git, record.branch)) else (head,)


def find_changes(git: Git, *, untracked: bool = True) -> tuple[str, ...]:
    """Return the files with uncommitted changes. Raises GitError."""
    return tuple(line[3:] for line in _read_status(git, "all" if untracked else "no"))


def find_changes_and_conflicts(git: Git) -> tuple[tuple[str, ...], tuple[Conflict, ...]]:
    """Return the files with uncommitted changes, and those of them that are in conflict. Raises GitError."""
    lines = _read_status(git, "all")
    has_conflicts = any("U" in line[:2] or line[:2] in ("AA", "DD") for line in lines)
    return tuple(line[3:] for line in lines), read_conflicts(git) if has_conflicts else ()


def _read_status(git: Git, untracked: str) -> list[str]:
    line = ("status", "--porcelain=v1", "-z", "--no-renames", f"--untracked-files={untracked}", NO_INNER_STATUS)
    return [one for one in git.run(*line).records if not DRAFT.fullmatch(one.rpartition("/")[2].rpartition(" ")[2])]


def stage_all(git: Git, *left_out: str, environment: Mapping[str, str] = {}, is_lasting: bool = False) -> GitResult:
    """Add all changes to the index; of an inner repository its commit. Exit code 1: some cannot be added.

    `git add` alone would run `git status` in the inner ones that the index holds.

    Args:
        left_out: Patterns of git for files that are not added.

    Raises:
        GitError: Git refused.
    """
    deadline = WRITE_DEADLINE_S if is_lasting else DEADLINE_S
    run = partial(git.run, environment=environment, deadline=deadline, is_lasting=is_lasting)
    entries = run("ls-files", "-s", "-z", most=_MOST_INDEX).records
    inner = [name for head, _, name in (entry.partition("\t") for entry in entries) if head.startswith("160000")]
    excluded = (f":(exclude,literal){name}" for name in inner)
    # --sparse: also what lies outside a sparse checkout, because a mysis does not know of it.
    line = ("add", "--all", "--sparse", "--ignore-errors", "--", ".", DRAFTS, *left_out, *excluded)
    added = run(*line, accept=(0, 1))
    if inner:
        names = b"".join(os.fsencode(name) + b"\0" for name in inner)
        run("update-index", "--remove", "-z", "--stdin", stdin=names)
    return added


def read_conflicts(git: Git) -> tuple[Conflict, ...]:
    """Return the files that a merge left in conflict, with their remaining marks. Raises GitError."""
    conflicts = []
    for name in dict.fromkeys(git.run("diff", "--name-only", "--diff-filter=U", "-z", NO_INNER_STATUS).records):
        file = git.folder / name
        text = file.read_bytes().decode("utf-8", "replace") if file.is_file() and not file.is_symlink() else ""
        conflicts.append(Conflict(name, tuple(_split_hunks(text))))
    return tuple(conflicts)


def _split_hunks(text: str) -> list[str]:
    hunks: list[list[str]] = []
    is_inside = False
    for number, line in enumerate(split_lines(text), 1):
        is_end = line.startswith(">>>>>>> ")
        if line.startswith("<<<<<<< ") or (is_end and not is_inside):
            hunks.append([f"line {number}:"])
            is_inside = True
        if is_inside:
            hunks[-1].append(line)
        is_inside = is_inside and not is_end
    cut = [f"[{len(hunk) - _MOST_HUNK_LINES} lines left out]" for hunk in hunks if len(hunk) > _MOST_HUNK_LINES]
    return ["\n".join(hunk[:_MOST_HUNK_LINES]) for hunk in hunks] + cut


def find_lost_repositories(git: Git, base: str, tip: str) -> list[str]:
    """Return the repositories that commits added without their files and without `.gitmodules`. Raises GitError."""
    fields = git.run("diff-tree", "-r", "-z", "--no-renames", "--diff-filter=AT", base, tip).records
    added = [name for head, name in zip(fields[::2], fields[1::2], strict=False) if head.split()[1] == "160000"]
    if not added:
        return []
    blob = ("config", "-z", "--blob", f"{tip}:.gitmodules", "--get-regexp", r"^submodule\..*\.path$")
    repositories = {one.partition("\n")[2] for one in git.run(*blob, accept=(0, 1, 128)).records}
    return [name for name in added if name not in repositories]


def find_commit(git: Git, name: str) -> str:
    """Return the commit that a ref names; "" where it is missing. Raises GitError for a damaged one."""
    line = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    commit = git.run(*line, accept=(0, 1)).text
    if not commit and (name == "HEAD" or name.startswith("refs/")):
        _check_readable(git, name)
    return commit


def read_commits(git: Git, *names: str) -> tuple[str, ...]:
    """Return the commits of names in one call, up to an unreadable one. Raises GitError."""
    line = ("rev-parse", "--revs-only", *(f"{name}^{{commit}}" for name in names), "--")
    return tuple(git.run(*line, accept=(0, 128)).text.split())


def read_fork(git: Git, target: str, tip: str) -> Fork | None:
    """Return how two commits have parted; None where one cannot be read. Raises GitError."""
    line = ("rev-parse", "--revs-only", f"{target}...{tip}", f"{target}^{{tree}}", f"{tip}^{{tree}}", "--")
    if (result := git.run(*line, accept=(0, 128))).code:
        return None
    ids = result.text.split()
    tip, target, *trees = (one for one in ids if not one.startswith("^"))
    base = next((one[1:] for one in ids if one.startswith("^")), "")
    return Fork(base, target, tip, *trees)


def find_merged_head(git: Git) -> str:
    """Return the commit that is being merged into a working tree; "" without a merge. Raises GitError."""
    is_merging = git.git_dir is None or (git.git_dir / "MERGE_HEAD").exists()  # never a packed ref
    return find_commit(git, "MERGE_HEAD") if is_merging else ""


def _check_readable(git: Git, name: str) -> None:
    """Raise GitError where a ref's commit cannot be read, as after a power failure."""
    if name == "HEAD":
        error = git.run("log", "-1", "--format=", accept=(0, 128)).error
        is_damaged = "fatal: " in error and "does not have any commits yet" not in error
    else:
        error = git.run("for-each-ref", name, accept=(0, 128)).error
        is_damaged = any(line.endswith(f" {name}") for line in error.splitlines())
    if is_damaged:
        reason = error.strip().removeprefix("fatal: ")
        raise GitError(f"git cannot read {name} in {git.folder}: {reason}", hint="`git fsck` there names the damage.")


def _find_unknown(git: Git, path: Path) -> str:
    assert git.git_dir is not None
    for name, what in _UNDER_WAY.items():
        if (git.git_dir / name).exists():
            return f"{what} is under way in it"
    # Git never packs these refs. Where it keeps them in files, there is none without a folder.
    folders = [f"refs/{kind}" for kind in ("worktree", "bisect", "rewritten")]
    if any((git.git_dir / name).exists() for name in (*folders, "reftable")) and (
        refs := git.text("for-each-ref", "--format=%(refname)", *folders)
    ):
        return f"it has refs of its own: {refs.splitlines()[0]}"
    for entry in git.run("ls-files", "-s", "-v", "-z").records:
        head, _, name = entry.partition("\t")
        # A file that is not there in a sparse checkout holds nothing.
        if head[:1].islower() or (head[:1] == "S" and os.path.lexists(path / name)):
            return f"git was told to ignore changes of {name}"
        if head[2:8] == "160000" and (path / name).is_dir() and any((path / name).iterdir()):
            return f"{name} is a repository of its own: git does not look at the files in it"
    return ""


def is_merged(repository: Git, tip: str, record: Record) -> bool:
    """Return whether another branch has the commits up to a tip, or their changes. Raises GitError."""
    if tip == record.base:
        return True
    refs = repository.text(
        "for-each-ref", f"--contains={tip}", "--format=%(refname)", "refs/heads", "refs/remotes", "refs/tags"
    )
    if set(refs.split()) - {record.branch}:
        return True
    fork = read_fork(repository, record.target, tip) if record.target else None
    if fork is None and record.target:
        find_commit(repository, record.target)  # an error where it is damaged
    if is_before(repository, tip, record.base, fork):
        return True
    return fork is not None and is_in_target(repository, fork)


def is_before(repository: Git, tip: str, base: str, fork: Fork | None) -> bool:
    """Return whether a tip is its base, or one of the commits before that. Raises GitError."""
    if fork is not None and fork.base == base:
        return tip == base  # the base of a fork is before its tip
    return tip == base or repository.run("merge-base", "--is-ancestor", tip, base, accept=(0, 1)).code == 0


def is_in_target(repository: Git, fork: Fork) -> bool:
    """Return whether a target has the commits up to a tip, or their changes. Raises GitError."""
    target, tip = fork.target, fork.tip
    if not fork.base or fork.base in (tip, target):
        return bool(fork.base) and (fork.base == tip or fork.target_tree == fork.tip_tree)
    merged = repository.run("merge-tree", "--write-tree", "--no-messages", target, tip, accept=(0, 1))
    if merged.code == 0 and merged.text == fork.target_tree:
        return True
    line = ("log", f"-n{_MOST_COMMITS}", "--no-merges", *_PATCH, "--format=commit %H", f"{fork.base}..{target}")
    if not (theirs := repository.run(*line).out):
        return False
    whole = repository.run("diff-tree", *_PATCH, fork.base, tip).out
    lines = repository.text("rev-list", "--parents", f"-n{_MOST_COMMITS + 1}", f"{target}..{tip}").splitlines()
    commits = [line.split()[0] for line in lines]
    # One by one only without merges, and where it is known that these are all.
    has_all = len(lines) <= _MOST_COMMITS and all(line.count(" ") < 2 for line in lines)
    each = "\n".join([*commits, ""]).encode() if has_all else b""
    ours = repository.run("diff-tree", *_PATCH, "--root", "--stdin", stdin=each).out if each else b""
    marked = b"commit " + b"0" * len(tip) + b"\n" + whole
    ids = _read_patch_ids(repository, b"\n".join((theirs, marked, ours)))
    own = [ids.pop("0" * len(tip), set()), *(ids.pop(commit, set()) for commit in commits)]
    patches = set[str]().union(*ids.values())
    is_known = [bool(one) and one <= patches for one in own]
    return is_known[0] or (bool(each) and all(is_known[1:]))


def _read_patch_ids(repository: Git, patches: bytes) -> dict[str, set[str]]:
    """Return the ids of patches by commit, in which white space counts. Raises GitError."""
    ids: dict[str, set[str]] = {}
    for line in repository.run("patch-id", "--verbatim", stdin=patches).text.splitlines():
        patch, commit = line.split()
        ids.setdefault(commit, set()).add(patch)
    return ids
