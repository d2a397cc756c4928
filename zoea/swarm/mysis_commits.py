"""Limits the tools for commits to those in a mysis's reach.

A mysis reaches the commits that it made or inherited and those of threads that it answers in or began; with
`search = "swarm"` all. To ask and to fork, its template needs `tools.contexts = "command"`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from zoea.chain.commit import CommitNote, ContextCommit
from zoea.chain.commit_rows import shortest_id
from zoea.model.enums import SenderKind
from zoea.model.errors import UsageError
from zoea.model.request import CallMeta
from zoea.model.values import Sender
from zoea.swarm.command_tasks import CommandTasks
from zoea.swarm.commander import Commander
from zoea.swarm.commit_commands import CommitCommands
from zoea.swarm.commit_tools import CommitTools, allow_all
from zoea.swarm.creation import NewMysis, checked_prompt, read_origin
from zoea.swarm.persistence import capture_ops
from zoea.text import clean
from zoea.tools.builtin.arguments import ContextAskArguments, ContextCheckpointArguments, ContextForkArguments
from zoea.tools.policy import SearchScope, ToolPolicy

Answer = dict[str, Any]
_END_S = 2.0
"""Seconds that are left of a call's deadline once an answer is not waited for any more."""
_FOREIGN = 'Only a template with search = "swarm" lets you; ask the commander, or the mysis itself.'


class MysisCommits:
    """Carries out the tools of commits for all myses: `zoea.tools.builtin.mysis_tools.CommitBackend`."""

    def __init__(self, commander: Commander) -> None:
        self._memories = commander.builtin_backend.memories
        self._commander = commander
        self._commands = CommitCommands(commander)
        self._tasks = CommandTasks()

    async def call(self, name: str, arguments: Mapping[str, Any], meta: CallMeta, policy: ToolPolicy) -> Answer:
        """Carry out a tool that the policy offers. Raises ZoeaError, also for commits out of reach."""
        is_free = policy.search is SearchScope.SWARM
        tools = CommitTools(self._memories, allow_all if is_free else _Reach(meta).check)
        match name.removeprefix("zoea_context_"):
            case "log":
                return await tools.list_commits(arguments)
            case "materialize":
                return await tools.read_conversation(arguments)
            case "show":
                return await tools.show(arguments)
            case "resolve":
                return await tools.resolve(arguments)
            case "annotate":
                return await self._tasks.run(tools.annotate(arguments, self._commands))
            case "checkpoint":
                return await self._checkpoint(tools, arguments, meta, is_free)
            case "ask":
                return await self._ask(tools, arguments, meta, is_free)
            case "fork":
                return await self._fork(tools, arguments, meta)
            case _:
                raise UsageError(f"there is no tool {name}")

    async def _checkpoint(
        self, tools: CommitTools, arguments: Mapping[str, Any], meta: CallMeta, is_free: bool
    ) -> Answer:
        """Commit what a mysis knows: its own with the result of this call, which is stored once it has ended."""
        parsed = ContextCheckpointArguments.parse(arguments)
        if parsed.mysis.removeprefix("@").casefold() == meta.mysis.casefold():
            runner = self._commander.swarm.runners[meta.mysis_id]
            runner.capture.commit_next(CommitNote(clean(parsed.summary)))
            return {"context": f"@{meta.mysis}", "hint": "The commit is made with this result."}
        if not is_free:
            raise UsageError(f"you may commit what you know yourself, {meta.mysis}, not {parsed.mysis}", hint=_FOREIGN)
        return await tools.checkpoint(arguments, self._commander, self._commands)

    async def _ask(self, tools: CommitTools, arguments: Mapping[str, Any], meta: CallMeta, is_free: bool) -> Answer:
        parsed = ContextAskArguments.parse(arguments)
        self._check_hop(meta)

        def find(conn: sqlite3.Connection) -> str:
            if parsed.thread and capture_ops.answers_in(conn, meta.mysis_id, parsed.thread):
                raise UsageError(f"you answer in the thread {parsed.thread} yourself", hint="Ask without a thread.")
            if parsed.thread and not is_free and not capture_ops.has_thread(conn, meta.mysis_id, parsed.thread):
                raise UsageError(
                    f"the thread {parsed.thread} is out of your reach: you did not begin it", hint=_FOREIGN
                )
            return tools.find(conn, parsed.context).id

        commit = await self._memories.run(find)
        work = self._commands.ask(
            commit, parsed.question, thread=parsed.thread, sender=self._sender(meta), hop=meta.hop + 1
        )
        asked = await self._tasks.run(work)
        seconds = max(1.0, min(parsed.seconds, meta.deadline_s - _END_S))
        answer = await tools.wait_for_answer(asked, self._commander, seconds)
        if answer["is_done"]:
            return answer
        return answer | {"hint": f"Read the answer later: zoea_context_materialize with context {asked.ref}."}

    async def _fork(self, tools: CommitTools, arguments: Mapping[str, Any], meta: CallMeta) -> Answer:
        parsed = ContextForkArguments.parse(arguments)
        self._check_hop(meta)
        commit = (await self._memories.run(lambda conn: tools.find(conn, parsed.context))).id
        services = self._commander.swarm.services
        new = NewMysis(
            services.ids.uid(),
            question=checked_prompt(parsed.message, services.settings),
            asker=self._sender(meta),
            hop=meta.hop + 1,
        )
        origin = await read_origin(services.store, commit)
        made = await self._tasks.run(self._commander.spawn(new, origin, parsed.template))
        return {"mysis": {"id": made.id, "name": made.name, "state": made.state.value}}

    def _check_hop(self, meta: CallMeta) -> None:
        """Refuse to make a mysis where a message would wake none. Raises UsageError."""
        most = self._commander.swarm.services.settings.swarm.max_hops
        if meta.hop + 1 >= most:
            raise UsageError(
                f"this turn is {meta.hop} messages away from a person, and swarm.max_hops is {most}",
                hint="Tell the commander what you want to ask.",
            )

    def _sender(self, meta: CallMeta) -> Sender:
        return Sender(SenderKind.MYSIS, meta.mysis_id, meta.mysis)


class _Reach:
    """The commits that one mysis reaches."""

    def __init__(self, meta: CallMeta) -> None:
        self._mysis_id = meta.mysis_id

    def check(self, conn: sqlite3.Connection, commit: ContextCommit) -> None:
        """Raise UsageError for a commit out of reach."""
        if capture_ops.has_reach(conn, self._mysis_id, commit):
            return
        raise UsageError(
            f"{shortest_id(conn, commit)} of {commit.provenance.principal} is out of your reach: you neither made nor "
            "inherited it, and it is in no thread that you answer in or began",
            hint=_FOREIGN,
        )
