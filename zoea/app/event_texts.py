"""The texts that events only name, read from the database: why a mysis failed, what it asks, what was said.

Synchronous and read-only; fronts call it in a thread.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from zoea.app.sentences import Text, asked_phrase, text_of
from zoea.app.stored import answer_text, message_text
from zoea.app.transcript import reading
from zoea.model.values import Event
from zoea.swarm import approval_ops

# The turn that a failure was about: the newest that ended or broke off before, unless it was taken up again since,
# as its row then says nothing of this failure any more.
_BROKEN_TURN = """
SELECT t.failure FROM turn t WHERE t.id = (
  SELECT json_extract(p.data, '$.turn') FROM event p
  WHERE p.mysis_id = :mysis AND p.id < :event AND p.kind IN ('turn.ended', 'turn.broke_off') ORDER BY p.id DESC LIMIT 1
) AND coalesce((
  SELECT n.kind FROM event n
  WHERE n.mysis_id = :mysis AND n.id > :event AND n.kind LIKE 'turn.%' AND n.kind <> 'turn.note' ORDER BY n.id LIMIT 1
), '') <> 'turn.resumed'
"""
# A row of state and its event are written at one time.
_OWN = "SELECT error FROM mysis WHERE id = :mysis AND state_at = (SELECT created_at FROM event WHERE id = :event)"


def event_text(database: Path, event: Event) -> str:
    """What `sentence` needs for an event; empty where it needs nothing, or nothing is there. Raises StoreError."""
    match text_of(event):
        case Text.ANSWER, turn:
            return answer_text(database, turn)
        case Text.MESSAGE, message:
            return message_text(database, message)
        case None:
            return ""
    with reading(database) as reader:
        return rarer_text(reader, event)


def rarer_text(reader: sqlite3.Connection, event: Event) -> str:
    """As `event_text`, of what few events need: why a mysis failed, and what to do; or what it asks."""
    match text_of(event):
        case Text.FAILURE, _:
            return _failure(reader, event)
        case Text.ASKED, approval:
            row = reader.execute(f"{approval_ops.ANY} WHERE a.id = ?", (approval,)).fetchone()
            return asked_phrase(approval_ops.view(row)) if row is not None else ""
    return ""


def _failure(reader: sqlite3.Connection, event: Event) -> str:
    """`what` and `hint` of the failure whose title the event holds; empty where it is not kept any more."""
    for query in (_OWN, _BROKEN_TURN):
        row = reader.execute(query, {"mysis": event.mysis_id, "event": event.id}).fetchone()
        kept = json.loads(row[0]) if row is not None and row[0] else {}
        if kept.get("title") == event.data.get("error"):
            return " ".join(part for part in (_ended(kept.get("what", "")), kept.get("hint", "")) if part)
    return ""


def _ended(text: str) -> str:
    """A sentence with its end, so that another can follow."""
    text = text.strip()
    return f"{text}." if text and text[-1] not in ".?:;" else text
