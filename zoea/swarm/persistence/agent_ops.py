"""Stores the session of an external agent, and calls that it asks about later."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import Struct

from zoea.model.request import RequestMessage
from zoea.model.values import Memory, ToolCall
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import approval_ops, memory_ops, row_values
from zoea.swarm.turn.turn_types import PreparedCall
from zoea.text import shorten
from zoea.text.call_text import format_call

NARRATIVE_CHARS = 40_000
"""Characters of what was said before that a new session is told."""
_MESSAGE_CHARS = 4_000
_MEMORIES = 300
_SET = """
INSERT INTO setting(key, value, updated_at) VALUES (?, ?, ?)
ON CONFLICT(key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at
"""
_REFUSED = "SELECT 1 FROM request WHERE turn_id = ? AND state = 'refused' LIMIT 1"
_FORKED = """
SELECT y.name, c.mysis_id, t.id AS turn_id FROM ctx_commit c JOIN mysis y ON y.id = c.mysis_id
JOIN memory m ON m.id = c.last_memory_id JOIN turn t ON t.id = m.turn_id AND t.outcome IS NOT NULL
WHERE c.seq = ? AND NOT EXISTS (SELECT 1 FROM memory n WHERE n.turn_id = t.id AND n.id > m.id)
"""
_WHO = {"user": "Prompt", "assistant": "You", "tool": "Result"}


class StoredSession(Struct, frozen=True):
    """The session that an agent can go on with.

    Attributes:
        session_id: As the agent names it; empty for none.
        agent: What it was begun with; another agent cannot go on with it.
        turn_id: The last turn that the agent was given the prompt of.
        folder: Where it works; some agents keep to it in a fork too.
    """

    session_id: str = ""
    agent: str = ""
    turn_id: int = 0
    folder: str = ""


def _key(mysis_id: int) -> str:
    return f"agent session {mysis_id}"


def store_session(conn: WriterConnection, mysis_id: int, session: StoredSession) -> None:
    """Store the session of a mysis in place of the one before."""
    value = {"session": session.session_id, "agent": session.agent, "turn": session.turn_id, "folder": session.folder}
    conn.execute(_SET, (_key(mysis_id), json.dumps(value), conn.now()))


async def read_session(store: Store, mysis_id: int) -> StoredSession:
    """Read the session of a mysis."""
    rows = await store.read("SELECT value FROM setting WHERE key = ?", (_key(mysis_id),))
    if not rows:
        return StoredSession()
    value = json.loads(rows[0]["value"])
    return StoredSession(value["session"], value["agent"], value["turn"], value.get("folder", ""))


async def find_forked(store: Store, commit: int, agent: str, folder: str | None) -> tuple[str, str]:
    """Return the session that holds just a commit's conversation, and its mysis; else empty texts.

    Args:
        folder: The one that it works in; None for any.
    """
    for row in await store.read(_FORKED, (commit,)):
        session = await read_session(store, row["mysis_id"])
        if (session.agent, session.turn_id) == (agent, row["turn_id"]) and folder in (None, session.folder):
            return session.session_id, row["name"]
    return "", ""


def ask_for_stored(conn: WriterConnection, info: memory_ops.TurnInfo, call_id: int, prepared: PreparedCall) -> ToolCall:
    """Let a stored call wait for an approval, with its newest arguments."""
    row = conn.execute(
        "UPDATE tool_call SET state = 'approval', arguments = ?, fingerprint = ? WHERE id = ? RETURNING *",
        (prepared.arguments, prepared.fingerprint, call_id),
    ).fetchone()
    approval_ops.ask_for_call(conn, info.mysis_id, call_id, prepared, info.approval_expiry)
    return row_values.call(row)


def set_estimate(conn: WriterConnection, request_id: int, tokens: int) -> None:
    """Replace the estimate of a request by what its agent tells, before it is settled."""
    conn.execute("UPDATE request SET estimated_tokens = ? WHERE id = ? AND state = 'reserved'", (tokens, request_id))


async def was_refused(store: Store, turn_id: int) -> bool:
    """Return whether a budget refused a request of a turn."""
    return bool(await store.read(_REFUSED, (turn_id,)))


async def read_narrative(store: Store, mysis_id: int, before_turn: int, inherited: Sequence[RequestMessage]) -> str:
    """Return the conversation before a turn as one text, shortened from its beginning.

    Args:
        inherited: The conversation that the mysis was made from.
    """
    rows = await store.read(
        f"{row_values.MEMORY} WHERE m.mysis_id = ? AND m.turn_id < ? ORDER BY m.id DESC LIMIT {_MEMORIES}",
        (mysis_id, before_turn),
    )
    memories = sorted(map(row_values.memory, rows), key=lambda one: (one.turn_number, one.seq))
    lines = [*map(_tell, inherited), *map(_tell, memories)]
    kept: list[str] = []
    size = 0
    for line in reversed(lines):
        size += len(line)
        if size > NARRATIVE_CHARS:
            kept.append(f"[{len(lines) - len(kept):,} earlier messages are left out]")
            break
        kept.append(line)
    return "\n\n".join(reversed(kept))


def _tell(message: Memory | RequestMessage) -> str:
    """Return one message as a paragraph of a narrative."""
    calls = [format_call(call.name, call.arguments) for call in message.calls]
    label = message.label if isinstance(message, Memory) else ""
    text = "\n".join(part for part in (label, message.content, *calls) if part)
    return f"{_WHO.get(message.role, 'Note')}: {shorten.middle(text, _MESSAGE_CHARS)}"
