"""The tools with which clients read contexts, commit, ask and fork."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from typing import Any

from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import ContextCommit
from zoea.chain.commit_rows import read_children, read_commit, read_refs, resolve_time, shortest_id, walk_chain
from zoea.chain.entries import ContextEntry
from zoea.chain.revisions import refuse_time, resolve_revision
from zoea.model.errors import RevisionError, UsageError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import MysisView, Sender
from zoea.store.memory_reader import MemoryReader
from zoea.text.shorten import head
from zoea.tools.builtin.answer_size import ROOM, size, start_of, within
from zoea.tools.builtin.arguments import (
    READ_CHARS,
    ContextAnnotateArguments,
    ContextAskArguments,
    ContextCheckpointArguments,
    ContextForkArguments,
    ContextLogArguments,
    ContextMaterializeArguments,
    ContextResolveArguments,
)

_SUMMARY_CHARS = 200
_LISTED = 20


async def show_commit(memories: MemoryReader, revision: str) -> dict[str, Any]:
    """Return a commit with its names and neighbours. Raises RevisionError."""
    return await memories.run(lambda conn: _shown(conn, resolve_revision(conn, revision, refuse_time)))


async def resolve_commit(memories: MemoryReader, given: ContextResolveArguments) -> dict[str, Any]:
    """Return the newest commit of a mysis at a time. Raises RevisionError, UsageError."""
    try:
        at = round(datetime.fromisoformat(given.at).timestamp() * 1_000_000)
    except (ValueError, OverflowError):
        raise UsageError(f"{given.at!r:.60} is no time", hint="Give ISO 8601, such as 2026-01-31T10:30:00Z.") from None

    def read(conn: sqlite3.Connection) -> dict[str, Any]:
        commit = resolve_time(conn, given.mysis.removeprefix("@"), at)
        if commit is None:
            raise RevisionError(f"{given.mysis} has no commit at {given.at} or before")
        return _shown(conn, commit)

    return await memories.run(read)


async def checkpoint(swarm: SwarmApi, memories: MemoryReader, given: ContextCheckpointArguments) -> dict[str, Any]:
    """Commit what a mysis knows. Raises MysisMissing, UsageError."""
    made = await swarm.checkpoint(given.mysis, summary=given.summary)
    name = (await swarm.mysis(given.mysis)).name

    def read(conn: sqlite3.Connection) -> dict[str, Any]:
        commit = resolve_revision(conn, made or f"@{name}", refuse_time)
        return {"commit": _commit_row(conn, commit), "is_new": bool(made)}

    return await memories.run(read)


async def annotate(swarm: SwarmApi, memories: MemoryReader, given: ContextAnnotateArguments) -> dict[str, Any]:
    """Change the summary of a commit, and add tags. Raises RevisionError."""

    def read(conn: sqlite3.Connection) -> tuple[str, tuple[str, ...]]:
        commit = resolve_revision(conn, given.context, refuse_time)
        return commit.id, tuple(sorted({*commit.note.tags, *given.tags}))

    commit_id, tags = await memories.run(read)
    await swarm.annotate(commit_id, summary=given.summary or None, tags=tags)
    return await show_commit(memories, commit_id)


async def ask(swarm: SwarmApi, memories: MemoryReader, given: ContextAskArguments, sender: Sender) -> dict[str, Any]:
    """Ask what a mysis knew, and wait for the answer. Raises RevisionError, MissingBlob, SwarmFull."""
    asked = await swarm.ask(given.context, given.question, thread=given.thread, sender=sender)
    answer: dict[str, Any] = {"is_done": True, "thread": asked.thread, "mysis": asked.mysis.name, "answer": ""}
    try:
        view = await swarm.wait(asked.mysis.name, timeout_s=given.seconds)
    except UsageError:
        return answer | {"is_done": False}
    found = await memories.read_last_answer(view.id, READ_CHARS)
    return answer if found is None else answer | {"answer": start_of(found[1], ROOM - size(answer))}


async def fork(swarm: SwarmApi, given: ContextForkArguments, sender: Sender) -> MysisView:
    """Make a mysis from a commit, and send it its first message. Raises RevisionError, MissingBlob, SwarmFull."""
    made = await swarm.create("", template=given.template, context=given.context)
    if given.message.strip():
        await swarm.send(made.name, given.message, sender=sender)
    return made


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


async def list_commits(memories: MemoryReader, given: ContextLogArguments) -> dict[str, Any]:
    """Return the newest commits of a chain. Raises RevisionError."""

    def read(conn: sqlite3.Connection) -> dict[str, Any]:
        tip = resolve_revision(conn, given.context, refuse_time)
        chain = walk_chain(conn, tip.seq, limit=given.limit)[::-1]
        return {"commits": within((_commit_row(conn, one) for one in chain), ROOM)}

    return await memories.run(read)


async def read_conversation(memories: MemoryReader, given: ContextMaterializeArguments) -> dict[str, Any]:
    """Return the newest messages of the conversation up to a commit. Raises RevisionError, MissingBlob."""

    def read(conn: sqlite3.Connection) -> dict[str, Any]:
        commit = resolve_revision(conn, given.context, refuse_time)
        found = ChainReader(conn).materialize(commit)
        newest = within((_message_row(one, given.max_chars) for one in reversed(found.entries)), ROOM)
        return {
            "commit": _commit_row(conn, commit),
            "tier": int(found.tier),
            "messages": newest[::-1],
            "left_out": len(found.entries) - len(newest),
        }

    return await memories.run(read)


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
