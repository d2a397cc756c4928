"""The tools with which clients and myses read and make commits, ask and fork.

Both have the same tools; a mysis only reaches some commits, see `zoea.swarm.mysis_commits`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import ContextCommit
from zoea.chain.commit_rows import read_children, read_commit, read_refs, resolve_time, shortest_id, walk_chain
from zoea.chain.entries import ContextEntry
from zoea.chain.revisions import refuse_time, resolve_revision
from zoea.model.errors import RevisionError, UsageError
from zoea.model.swarm_api import CommitApi, CoreSwarmApi
from zoea.model.values import CommitQuestion
from zoea.store.memory_reader import MemoryReader
from zoea.text.shorten import head
from zoea.tools.builtin.answer_size import ROOM, size, start_of, within
from zoea.tools.builtin.arguments import (
    READ_CHARS,
    ContextAnnotateArguments,
    ContextCheckpointArguments,
    ContextLogArguments,
    ContextMaterializeArguments,
    ContextResolveArguments,
    ContextShowArguments,
)

Arguments = Mapping[str, Any]
_SUMMARY_CHARS = 200
_LISTED = 20


CommitCheck = Callable[[sqlite3.Connection, ContextCommit], None]
"""Raises UsageError for a commit that the caller may not read."""


def allow_all(conn: sqlite3.Connection, commit: ContextCommit) -> None:
    """Let the caller read every commit."""


class CommitTools:
    """Carries out the tools for one caller. Every answer is an object of the tool's output schema."""

    def __init__(self, memories: MemoryReader, check: CommitCheck = allow_all) -> None:
        self._memories = memories
        self._check = check

    async def list_commits(self, arguments: Arguments) -> dict[str, Any]:
        """Return the newest commits of a chain. Raises RevisionError, UsageError."""
        parsed = ContextLogArguments.parse(arguments)

        def read(conn: sqlite3.Connection) -> dict[str, Any]:
            chain = walk_chain(conn, self.find(conn, parsed.context).seq, limit=parsed.limit)[::-1]
            return {"commits": within((_commit_row(conn, one) for one in chain), ROOM)}

        return await self._memories.run(read)

    async def read_conversation(self, arguments: Arguments) -> dict[str, Any]:
        """Return the newest messages of the conversation up to a commit.

        Raises RevisionError, UsageError and MissingBlob.
        """
        parsed = ContextMaterializeArguments.parse(arguments)

        def read(conn: sqlite3.Connection) -> dict[str, Any]:
            commit = self.find(conn, parsed.context)
            conversation = ChainReader(conn).materialize(commit)
            newest = within((_message_row(one, parsed.max_chars) for one in reversed(conversation.entries)), ROOM)
            return {
                "commit": _commit_row(conn, commit),
                "tier": int(conversation.tier),
                "messages": newest[::-1],
                "left_out": len(conversation.entries) - len(newest),
            }

        return await self._memories.run(read)

    async def show(self, arguments: Arguments) -> dict[str, Any]:
        """Return a commit with its names and neighbours. Raises RevisionError, UsageError."""
        return await self._show(ContextShowArguments.parse(arguments).context)

    async def resolve(self, arguments: Arguments) -> dict[str, Any]:
        """Return the newest commit of a mysis at a time. Raises RevisionError, UsageError."""
        parsed = ContextResolveArguments.parse(arguments)
        try:
            at = round(datetime.fromisoformat(parsed.at).timestamp() * 1_000_000)
            # Times are shown without a fraction, so such a time holds its whole second.
            at = at if at % 1_000_000 else at + 999_999
        except (ValueError, OverflowError):
            hint = "Give ISO 8601, such as 2026-01-31T10:30:00Z."
            raise UsageError(f"{parsed.at!r:.60} is no time", hint=hint) from None

        def read(conn: sqlite3.Connection) -> dict[str, Any]:
            commit = resolve_time(conn, parsed.mysis.removeprefix("@"), at)
            if commit is None:
                raise RevisionError(f"{parsed.mysis} has no commit at {parsed.at} or before")
            self._check(conn, commit)
            return _shown(conn, commit)

        return await self._memories.run(read)

    async def checkpoint(self, arguments: Arguments, myses: CoreSwarmApi, contexts: CommitApi) -> dict[str, Any]:
        """Commit what a mysis knows. Raises MysisMissing, UsageError."""
        parsed = ContextCheckpointArguments.parse(arguments)
        made = await contexts.checkpoint(parsed.mysis, summary=parsed.summary)
        name = (await myses.mysis(parsed.mysis)).name

        def read(conn: sqlite3.Connection) -> dict[str, Any]:
            commit = resolve_revision(conn, made or f"@{name}", refuse_time)
            return {"commit": _commit_row(conn, commit), "is_new": bool(made)}

        return await self._memories.run(read)

    async def annotate(self, arguments: Arguments, contexts: CommitApi) -> dict[str, Any]:
        """Change the summary of a commit, and add tags. Raises RevisionError, UsageError."""
        parsed = ContextAnnotateArguments.parse(arguments)
        commit = await self._memories.run(lambda conn: self.find(conn, parsed.context))
        tags = tuple(sorted({*commit.note.tags, *parsed.tags}))
        await contexts.annotate(commit.id, summary=parsed.summary or None, tags=tags)
        return await self._show(commit.id)

    async def wait_for_answer(self, asked: CommitQuestion, myses: CoreSwarmApi, seconds: float) -> dict[str, Any]:
        """Wait for the answer to a question."""
        answer: dict[str, Any] = {"is_done": True, "thread": asked.thread, "mysis": asked.mysis.name, "answer": ""}
        try:
            view = await myses.wait(asked.mysis.name, timeout_s=seconds)
        except UsageError:
            return answer | {"is_done": False}
        newest = await self._memories.read_last_answer(view.id, READ_CHARS)
        return answer if newest is None else answer | {"answer": start_of(newest[1], ROOM - size(answer))}

    def find(self, conn: sqlite3.Connection, revision: str) -> ContextCommit:
        """Return the commit that a revision names. Raises RevisionError, UsageError."""
        commit = resolve_revision(conn, revision, refuse_time)
        self._check(conn, commit)
        return commit

    async def _show(self, revision: str) -> dict[str, Any]:
        return await self._memories.run(lambda conn: _shown(conn, self.find(conn, revision)))


def _shown(conn: sqlite3.Connection, commit: ContextCommit) -> dict[str, Any]:
    parent = None if commit.parent is None else read_commit(conn, commit.parent)
    after = read_children(conn, commit.seq)[:_LISTED]
    return {
        **_commit_row(conn, commit),
        "type": commit.kind.value,
        "refs": list(read_refs(conn, [commit.seq]))[:_LISTED],
        "tags": list(commit.note.tags),
        "thread": commit.provenance.thread_id or "",
        "ticket": commit.provenance.ticket_id or "",
        "parent": "" if parent is None else shortest_id(conn, parent),
        "followed_by": [shortest_id(conn, one) for one in after],
    }


def _commit_row(conn: sqlite3.Connection, commit: ContextCommit) -> dict[str, Any]:
    return {
        "id": shortest_id(conn, commit),
        "by": commit.provenance.principal,
        "at": commit.created_at,
        "checkpoint": commit.checkpoint.value,
        "messages": commit.message_count,
        "tokens": commit.token_count,
        "summary": head(commit.note.summary, _SUMMARY_CHARS),
    }


def _message_row(entry: ContextEntry, most: int) -> dict[str, Any]:
    calls = [head(f"{call.name}({call.arguments})", most) for call in entry.calls]
    return {"role": entry.role.value, "content": head(entry.content, most), "calls": calls}
