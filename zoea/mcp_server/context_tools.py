"""The tools with which clients read contexts: a list of commits, and the conversation up to one."""

from __future__ import annotations

import sqlite3
from typing import Any

from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import ContextCommit
from zoea.chain.commit_rows import shortest_id, walk_chain
from zoea.chain.entries import ContextEntry
from zoea.chain.revisions import refuse_time, resolve_revision
from zoea.store.memory_reader import MemoryReader
from zoea.text.shorten import head
from zoea.tools.builtin.answer_size import ROOM, within
from zoea.tools.builtin.arguments import ContextLogArguments, ContextMaterializeArguments

_SUMMARY_CHARS = 200


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
