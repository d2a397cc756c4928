"""The folders and worktrees that the myses of a swarm work in."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from zoea.agents.agent_launch import AgentLaunch
from zoea.files.workbench_tools import WORKBENCH
from zoea.model.errors import AgentError, FilesError, UsageError, ZoeaError
from zoea.model.request import NO_COMMIT, FileCommit
from zoea.settings.paths import Places, absolute_path, is_folder, make_private_folder
from zoea.settings.schema import FilesSettings
from zoea.settings.template import Template, work_on
from zoea.text.control_characters import reveal
from zoea.tools import Toolbox, ToolPolicy
from zoea.tools.accounts_login import Caller

if TYPE_CHECKING:
    from zoea.files.worktrees import Worktrees

_log = logging.getLogger(__name__)

GIT_S = 120.0
"""The most that the end of a turn waits for git."""


class SwarmFiles:
    """The body of `FileWork`: git runs in threads, and is loaded where a mysis works on files."""

    def __init__(self, places: Places, toolbox: Toolbox, settings: FilesSettings) -> None:
        self._places = places
        self._toolbox = toolbox
        self._settings = settings

    @property
    def closed(self) -> tuple[Path, ...]:
        """See `FileWork.closed`."""
        return self._places.own_folders

    async def settle(self, template: Template, on: str, worktree: bool, in_use: Iterable[Template]) -> Template:
        """See `FileWork.settle`."""
        if not any(config.listed for config in self._toolbox.configs()):
            raise FilesError(
                f"an upstream of the settings is named {WORKBENCH}, as the one that serves files to myses",
                hint="Rename it in the settings, and start Zoea again.",
            )
        others = [Path(one.workbench) for one in in_use if one.workbench]
        is_own = worktree or (template.worktree and not on)
        folder, shares = await asyncio.to_thread(self._find_folder, on or template.workbench, others)
        return work_on(template, str(folder), worktree=is_own or shares)

    def _find_folder(self, given: str, others: Iterable[Path]) -> tuple[Path, bool]:
        """Return a folder, and whether other myses work on its git repository. Raises UsageError."""
        from zoea.files.git import find_top
        from zoea.files.safe_folder import check_folder

        folder = absolute_path(given)
        if not is_folder(folder):
            raise UsageError(f"{folder} is no folder", hint="Name a folder that is there.")
        check_folder(folder, self._places.own_folders, self._open().owned.root)
        top = find_top(folder)
        return folder, top is not None and any(find_top(one) == top for one in others if one.is_dir())

    async def begin(self, uid: str, name: str, template: Template) -> None:
        """See `FileWork.begin`."""
        trees = await asyncio.to_thread(self._open)
        await asyncio.to_thread(trees.make, name, Path(template.workbench), uid)

    async def folder(self, uid: str, name: str, template: Template) -> Path:
        """See `FileWork.folder`."""
        return await asyncio.to_thread(lambda: self._find_own(uid, name, template).resolve())

    def _find_own(self, uid: str, name: str, template: Template) -> Path:
        if folder := template.workbench or template.acp.cwd:
            return self._find_work(uid, name, folder, worktree=bool(template.workbench) and template.worktree)
        own = self._places.data / "agents" / f"{name}-{uid}"  # a later mysis may have the name
        make_private_folder(own)
        return own

    def _find_work(self, uid: str, name: str, given: str, worktree: bool) -> Path:
        """Return the worktree of a mysis, or the folder of its template. Raises FilesError."""
        if worktree:
            trees = self._open()
            if trees.owned.read(name).uid != uid:
                raise FilesError(f"the worktree of {name} is of an earlier mysis", hint=f"`zoea diff {name}` shows it.")
            return trees.owned.path(name)
        folder = absolute_path(given)
        if not given or not is_folder(folder):
            raise FilesError(f"{folder} is no folder", hint="Name a folder that is there in the template.")
        return folder

    async def fence(self, name: str, launch: AgentLaunch) -> AgentLaunch:
        """See `FileWork.fence`."""
        if launch.fence is None:
            return launch
        record = await asyncio.to_thread(lambda: self._open().owned.find(name))
        readable = (Path(record.repository),) if record is not None else ()
        return (await asyncio.to_thread(fence_agent, launch, self._places.own_folders, readable))[0]

    async def commit(self, uid: str, name: str, template: Template, message: str) -> FileCommit:
        """See `FileWork.commit`."""
        if not (template.workbench and template.worktree):
            return NO_COMMIT
        try:
            async with asyncio.timeout(GIT_S):
                return await asyncio.to_thread(self._commit, uid, name, message)
        except (ZoeaError, OSError, TimeoutError) as error:
            _log.warning("the files of %s were not committed: %s", name, error)
            return NO_COMMIT

    def _commit(self, uid: str, name: str, message: str) -> FileCommit:
        from zoea.files.changes import read_base
        from zoea.files.work_left import find_commit

        trees = self._open()
        if (record := trees.owned.find(name)) is None or record.uid != uid:
            return NO_COMMIT  # it was merged and dropped, or never begun
        trees.commit(name, message)
        git = trees.git(record)
        base = read_base(git, record)
        tree = base.tip or find_commit(git, "HEAD")
        line = ("diff-tree", "--quiet", base.commit, tree)
        return FileCommit(tree, is_unchanged=tree == base.commit or git.run(*line, accept=(0, 1)).code == 0)

    @asynccontextmanager
    async def hold(self, caller: Caller, policy: ToolPolicy) -> AsyncIterator[Path]:
        """See `WorkFolders.hold`."""
        folder = await asyncio.to_thread(self._find_work, caller.uid, caller.name, policy.works_on, policy.worktree)
        with self._open().owned.share(caller.name) if policy.worktree else nullcontext():
            yield folder

    async def drop(self, uid: str, name: str, template: Template) -> None:
        """See `FileWork.drop`."""
        if not (template.workbench and template.worktree):
            return
        try:
            async with asyncio.timeout(GIT_S):
                await self._toolbox.released()
                trees = await asyncio.to_thread(self._open)
                record = trees.owned.find(name)
                if record is not None and record.uid == uid:
                    await asyncio.to_thread(trees.drop, name)
        except (ZoeaError, OSError, TimeoutError) as error:
            _log.warning("the worktree of %s stays: %s", name, error)

    def _open(self) -> Worktrees:
        from zoea.files.worktrees import Worktrees

        return Worktrees(self._places.data, hooks=self._settings.hooks)


def fence_agent(
    launch: AgentLaunch, own_folders: tuple[Path, ...], readable: tuple[Path, ...] = ()
) -> tuple[AgentLaunch, str]:
    """Return an agent's launch in bubblewrap, and what that confines; unchanged without a fence.

    Raises:
        AgentError: It has a fence, and bubblewrap does not work here.
    """
    from zoea.process.sandbox import find_sandbox

    if (fence := launch.fence) is None:
        return launch, "none: the agent reaches all that you reach"
    for path in fence.writable:
        if any(Path(os.path.realpath(path)).is_relative_to(os.path.realpath(own)) for own in own_folders):
            raise AgentError(f"{path} of `writable` is a folder of Zoea itself", hint="Name one of your own.")
        try:
            if not path.suffix and not path.is_file():
                make_private_folder(path)  # because the agent could not make it in the fence
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            what = f"{reveal(str(path))[:200]} cannot be made for {launch.name}: {why}"
            raise AgentError(what, hint="Name folders as `writable` of `[acp]`.") from error
    sandbox = find_sandbox(launch.cwd, (*own_folders, *fence.hidden), readable, fence.writable, network=True)
    if not sandbox.program:
        raise AgentError(
            f"{launch.name} is {sandbox.text}",
            hint="Install bubblewrap, or set `fence = false` in `[acp]` of its template.",
        )
    return replace(launch, command=tuple(sandbox.wrap(launch.command)), fence=None), sandbox.text
