"""What the cockpit reads and does with the worktrees of myses, in a thread. `zoea.files` is loaded at the first use."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from zoea.model.errors import FilesError, ZoeaError
from zoea.settings.paths import Places
from zoea.text.control_characters import reveal
from zoea.text.patches import FileDiff, parse_patch, restore_texts

if TYPE_CHECKING:
    from zoea.files.ownership import Record
    from zoea.files.worktrees import Worktrees
    from zoea.queries.change_origins import HunkOrigin
    from zoea.tui.state.cockpit import Cockpit


LEAST_NAMED, MOST_NAMED = 2, 1_000
"""Characters of a name that are looked for below all folders, and names that are looked at."""
MOST_COLOURED = 1_000_000
"""Bytes of a file above which its syntax is not coloured."""


class Review(Struct, frozen=True):
    """The change of one mysis.

    Attributes:
        branch, target, base: Its branch, the one that it came from, the commit that it is compared with.
        counts: For example `+12 -3, 2 files`.
        files: What it changed; without lines where the patch was cut.
    """

    branch: str
    target: str
    base: str
    counts: str
    files: tuple[FileDiff, ...]


def find_repository(folder: str) -> Path | None:
    """Return the working tree of git that holds a folder; None without one. It starts no program."""
    return next((one for one in (Path(folder), *Path(folder).parents) if os.path.lexists(one / ".git")), None)


async def find_named(folder: str, part: str) -> tuple[str, ...]:
    """Return the files with a text in their paths. Names that begin with it come first."""
    from zoea.files.file_search import FileSearch

    top = find_repository(folder)
    if top is None or len(part) < LEAST_NAMED or set(part) & set("*?[]{}"):
        return ()
    search = FileSearch(Path(folder))
    try:
        hits = await search.list_names([], f"**/*{part}*", MOST_NAMED)
        if not hits.lines:  # part of the name of a folder
            hits = await search.list_names([], f"**/*{part}*/**", MOST_NAMED)
    except FilesError:
        return ()  # What is typed becomes no path: the task can say it in other words.
    begin = part.rpartition("/")[2]

    def rank(path: str) -> tuple[bool, int, str]:
        return not path.rpartition("/")[2].startswith(begin), path.count("/"), path

    found = (path for path in sorted(hits.lines, key=rank) if path == reveal(path) and not re.search(r"\s", path))
    return tuple(found)


def open_worktrees(places: Places) -> Worktrees:
    """Return the worktrees of a workspace, with its settings."""
    from zoea.files.worktrees import Worktrees
    from zoea.settings.layers import load

    return Worktrees(places.data, hooks=load(places).settings.files.hooks)


def read_review(places: Places, name: str) -> Review:
    """Read the change of a mysis. Raises FilesError where Zoea made no worktree for it, or git refused."""
    from zoea.files.changes import open_diff, read_base
    from zoea.files.merge import short

    trees = open_worktrees(places)
    record = trees.owned.read(name)
    git = trees.git(record)
    base = read_base(git, record)
    with open_diff(git, base.commit) as changed:
        counts, patch = changed.count(base.target), changed.patch()
    files = parse_patch(patch)
    shown = {file.path for file in files}
    if patch.endswith(" bytes left out]\n"):
        files += tuple(
            FileDiff(file.path, (), file.added or 0, file.removed or 0)
            for file in counts.files
            if file.path not in shown
        )
    return Review(short(record.branch), short(record.target), counts.base, counts.text, files)


def read_change_origins(places: Places, name: str, review: Review) -> dict[tuple[int, int], HunkOrigin]:
    """Return where each hunk comes from, by file and line of its head. Raises FilesError, StoreError."""
    from zoea.queries.change_origins import read_origins

    trees = open_worktrees(places)
    record = trees.owned.read(name)
    return read_origins(places.database, record, trees.git(record), review.base, review.files)


def list_owned(places: Places, names: Sequence[str], *, with_work: bool = False) -> list[str]:
    """Return the names that have a worktree. Raises FilesError for a record that cannot be read.

    Args:
        with_work: Only where a worktree holds what is nowhere else.
    """
    trees = open_worktrees(places)
    found = [(name, record) for name in names if (record := trees.owned.find(name)) is not None]
    return [name for name, record in found if not with_work or trees.find_work(record)]


def merge_worktrees(places: Places, names: Sequence[str]) -> tuple[str, str]:
    """Merge one after the other. Return what `zoea merge` would print, and the name of a conflict."""
    from zoea.files.merge import MergeConflict, build_rules, merge_all
    from zoea.settings.layers import load

    settings = load(places).settings.files
    done = merge_all(open_worktrees(places), names, build_rules(settings, places))
    return "\n".join(done.lines), done.failed if isinstance(done.error, MergeConflict) else ""


def mark_conflicts(places: Places, name: str) -> str:
    """Merge the target into a worktree with marks; return the message for its mysis. Raises FilesError."""
    from zoea.files.merge import send_back

    return send_back(open_worktrees(places), name)


def drop_worktree(places: Places, name: str) -> str:
    """Remove a worktree without work in it; return what `zoea drop` would print. Raises FilesError."""
    from zoea.files.worktrees import describe_drop

    return describe_drop(name, open_worktrees(places).drop(name))


def commit_worktree(places: Places, name: str, message: str) -> str:
    """Commit all changes of a worktree and describe what was done. Raises FilesError."""
    commit = open_worktrees(places).commit(name, message)
    return f"{name} is committed: {commit[:12]}" if commit else f"{name} has nothing to commit"


class FileCounts:
    """Counts what myses changed in their worktrees. Their calls, a commit or a new index lead to a new count."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[object, str]] = {}
        self._is_counting = False
        self.texts: dict[str, str] = {}

    async def update(self, cockpit: Cockpit) -> bool:
        """Count in a thread, one count at a time; return whether `texts` changed."""
        if self._is_counting or cockpit.opened is None:
            return False
        before = self.texts
        worked = {view.name: (view.tool_calls, view.requests) for view in cockpit.feed.in_order()}
        self._is_counting = True
        try:
            self.texts = await asyncio.to_thread(self.read, cockpit.places, worked)
        finally:
            self._is_counting = False
        return self.texts != before

    def read(self, places: Places, worked: Mapping[str, object]) -> dict[str, str]:
        """Return `+12 -3, 2 files` or `has conflicts` by name, for those that changed files. Call it in a thread.

        Args:
            worked: What is another value by name once a mysis has called a tool, which touches no index.
        """
        if not (places.data / "worktrees").is_dir():
            return {}
        from zoea.files.changes import open_diff, read_base
        from zoea.files.worktrees import Worktrees

        trees = Worktrees(places.data)
        known: dict[str, tuple[object, str]] = {}
        for name in trees.owned.names():
            if name not in worked:
                continue
            with suppress(ZoeaError, OSError):  # the review of the mysis shows why
                record = trees.owned.read(name)
                stamps = (worked[name], *_read_stamps(record))
                known[name] = self._known.get(name, (None, ""))
                if known[name][0] != stamps:
                    git = trees.git(record)
                    base = read_base(git, record)
                    with open_diff(git, base.commit) as changed:
                        counts = changed.count(base.target)
                    text = "has conflicts" if counts.has_conflicts else counts.text
                    known[name] = stamps, text if counts.files else ""
        self._known = known
        return {name: text for name, (_, text) in known.items() if text}


def _read_stamps(record: Record) -> tuple[int, ...]:
    """Return the times of the index and refs that decide what a worktree changed."""
    own, common = Path(record.git_dir), Path(record.repository)
    files = (
        own / "index",
        own / "HEAD",
        common / record.branch,
        common / (record.target or "HEAD"),
        common / "packed-refs",
    )
    return tuple(file.stat().st_mtime_ns if file.is_file() else 0 for file in files)


def read_change(places: Places, name: str, file: FileDiff) -> tuple[list[str], list[str]] | None:
    """Return the lines of a file before and after its change. None where it is too large or changes again."""
    from zoea.files.safe_folder import SafeFolder

    with suppress(ZoeaError, OSError), closing(SafeFolder(open_worktrees(places).owned.path(name))) as folder:
        content = folder.read(file.path, MOST_COLOURED) or b""
        return restore_texts(file, content.decode("utf-8", "replace"))
    return None


def find_file(places: Places, name: str, path: str) -> Path:
    """Return a file of a worktree for the editor.

    Raises FilesError where there is none, also where a link leads out of the worktree.
    """
    folder = open_worktrees(places).owned.path(name).resolve()
    file = folder / path
    try:
        is_file = stat.S_ISREG(file.stat().st_mode) and file.resolve().is_relative_to(folder)
    except (OSError, ValueError):
        is_file = False
    if not is_file:
        raise FilesError(
            f"{path} is no file in the worktree of {name}", hint="It may be gone, or a link that leads out."
        )
    return file
