"""Reads stored events as log lines, and the end of the log file.

Synchronous and read-only; fronts call it in a thread. A log screen holds the ids of all
lines and reads the visible ones only.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from zoea.model.values import Event
from zoea.queries.phrases import (
    UNREMARKABLE,
    EventTextSource,
    approval_phrase,
    event_sentence,
    event_subject,
    event_text_source,
    is_trouble,
)
from zoea.queries.request_log import REQUEST_LINE_IDS, read_request_lines
from zoea.queries.stored_swarm import RECIPIENT, open_database, read_answer, read_message
from zoea.queries.topic_ledger import read_topic_message
from zoea.settings.small_file import open_regular
from zoea.swarm.persistence import approval_ops, row_values
from zoea.text.control_characters import prose_line, reveal

# The turn of a failure: the newest that ended or broke off before, unless it was resumed since, because its row
# then no longer holds this failure.
_BROKEN_TURN = """
SELECT t.failure FROM turn t WHERE t.id = (
  SELECT json_extract(p.data, '$.turn') FROM event p
  WHERE p.mysis_id = :mysis AND p.id < :event AND p.kind IN ('turn.ended', 'turn.broke_off') ORDER BY p.id DESC LIMIT 1
) AND coalesce((
  SELECT n.kind FROM event n
  WHERE n.mysis_id = :mysis AND n.id > :event AND n.kind LIKE 'turn.%' AND n.kind <> 'turn.note' ORDER BY n.id LIMIT 1
), '') <> 'turn.resumed'
"""
_RETRIES = """
SELECT id, json_extract(data, '$.why') FROM event
WHERE mysis_id = ? AND id > ? AND kind = 'request.retried' ORDER BY id
"""
# The state of a mysis and its event are written with the same time.
_OWN = "SELECT error FROM mysis WHERE id = :mysis AND state_at = (SELECT created_at FROM event WHERE id = :event)"


def read_event_text(database: Path, event: Event) -> str:
    """Read the text that `event_sentence` needs; empty if it needs none. Raises StoreError."""
    match event_text_source(event):
        case EventTextSource.ANSWER, turn:
            return read_answer(database, turn)
        case EventTextSource.MESSAGE, message:
            return read_message(database, message)
        case EventTextSource.TOPIC_MESSAGE, message:
            return read_topic_message(database, message)
        case None:
            return ""
    with open_database(database) as reader:
        return read_rare_text(reader, event)


def read_newest_id(database: Path, mysis_id: int) -> int:
    """Read the id of the newest event of a mysis; 0 if there is none. Raises StoreError."""
    with open_database(database) as reader:
        row = reader.execute("SELECT max(id) FROM event WHERE mysis_id = ?", (mysis_id,)).fetchone()
    return row[0] or 0


def read_retries(database: Path, mysis_id: int, since: int) -> tuple[tuple[int, str], ...]:
    """Read the failed requests that were sent again after an event: id and cause of each. Raises StoreError."""
    with open_database(database) as reader:
        return tuple(reader.execute(_RETRIES, (mysis_id, since)))


def read_rare_text(reader: sqlite3.Connection, event: Event) -> str:
    """Read the text of a failure with its hint, or of a question."""
    match event_text_source(event):
        case EventTextSource.FAILURE, _:
            return _failure(reader, event)
        case EventTextSource.ASKED, approval:
            row = reader.execute(f"{approval_ops.ANY} WHERE a.id = ?", (approval,)).fetchone()
            return approval_phrase(approval_ops.view(row)) if row is not None else ""
    return ""


def _failure(reader: sqlite3.Connection, event: Event) -> str:
    """Return text and hint of the event's failure; empty if it is no longer stored."""
    for query in (_OWN, _BROKEN_TURN):
        row = reader.execute(query, {"mysis": event.mysis_id, "event": event.id}).fetchone()
        kept = json.loads(row[0]) if row is not None and row[0] else {}
        if kept.get("title") == event.data.get("error"):
            return " ".join(part for part in (_ended(kept.get("what", "")), kept.get("hint", "")) if part)
    return ""


def _ended(text: str) -> str:
    """End a text with a full stop, so that a sentence can follow."""
    text = text.strip()
    return f"{text}." if text and text[-1] not in ".?:;" else text


PAGE = 200
TEXT_CHARS = 400
TAIL_BYTES = 256_000
_IN_ONE_QUERY = 500

# `said` is the text that an event refers to: the last answer of a turn, or a message.
_LINES = f"""
SELECT e.id, e.mysis_id, e.kind, e.data, e.created_at, y.name, CASE e.kind
  WHEN 'turn.ended' THEN substr({row_values.ANSWER_OF_TURN.format("json_extract(e.data, '$.turn')")}, 1, {TEXT_CHARS})
  WHEN 'message.sent' THEN (SELECT {RECIPIENT} || substr(g.content, 1, {TEXT_CHARS}) FROM message g
    WHERE g.id = json_extract(e.data, '$.message'))
  WHEN 'topic.published' THEN (SELECT p.topic || ' (' || p.sender || '): '
      || substr(coalesce(nullif(p.content, ''), p.data, ''), 1, {TEXT_CHARS})
    FROM topic_message p WHERE p.id = json_extract(e.data, '$.topic_message')) END AS said
FROM event e LEFT JOIN mysis y ON y.id = e.mysis_id
"""
_KEPT = f"e.kind NOT IN ({', '.join(repr(kind) for kind in sorted(UNREMARKABLE))})"

_IS_OF_REQUEST = """(e.kind = 'request.retried' AND json_extract(e.data, '$.attempt') > 2
  OR e.kind = 'turn.broke_off' AND json_extract(e.data, '$.why') = 'failed')"""
"""As `is_of_request`. The first attempt that failed tells why; rows count the later ones."""


class LogLine(Struct, frozen=True):
    """One event as a line; hidden characters of `text` are escapes. Time in µs.

    The ids of lines of requests are below zero; see `request_log.py`.
    """

    id: int
    at: int
    who: str
    mysis_id: int | None
    text: str
    is_trouble: bool


def read_line_ids(database: Path, *, with_requests: bool = False) -> array[int]:
    """Read the ids of all lines of the log, oldest first. Raises StoreError."""
    query = f"SELECT e.id FROM event e WHERE {_KEPT} AND NOT {_IS_OF_REQUEST} ORDER BY e.id"
    if with_requests:
        events = f"SELECT e.id, e.created_at AS at FROM event e WHERE {_KEPT}"
        query = f"SELECT id FROM ({events} UNION ALL {REQUEST_LINE_IDS}) ORDER BY at, id < 0, abs(id)"
    with open_database(database) as reader:
        return array("q", (row[0] for row in reader.execute(query)))


def read_log_lines(database: Path, ids: Sequence[int]) -> tuple[LogLine, ...]:
    """Read the lines with these ids, in this order. Raises StoreError."""
    lines: dict[int, LogLine] = {}
    with open_database(database) as reader:
        for at in range(0, len(ids), _IN_ONE_QUERY):
            part = ids[at : at + _IN_ONE_QUERY]
            events = tuple(one for one in part if one > 0)
            for row in reader.execute(f"{_LINES} WHERE e.id IN ({row_values.marks(events)})", events).fetchall():
                lines[row["id"]] = _line(reader, row)
            for one in read_request_lines(reader, [one for one in part if one < 0]):
                who, text = reveal(one.mysis), event_sentence(one.event)
                lines[one.id] = LogLine(one.id, one.event.created_at, who, one.event.mysis_id, text, is_trouble=False)
    return tuple(lines[one] for one in ids if one in lines)


def read_full_text(database: Path, line_id: int) -> str:
    """Read the whole text of a line with its line breaks. Empty if it does not exist. Raises StoreError."""
    with open_database(database) as reader:
        if line_id < 0:
            line = next(read_request_lines(reader, [line_id]), None)
            return "" if line is None else f"{event_sentence(line.event)}\n{line.meaning}"
        row = reader.execute(f"{_LINES} WHERE e.id = ?", (line_id,)).fetchone()
    if row is None:
        return ""
    event = row_values.event(row)
    return reveal(event_sentence(event, read_event_text(database, event)))


def contains_words(line: LogLine, words: str) -> bool:
    """Check that a line contains these words, in any case."""
    return words.casefold() in f"{line.who} {line.text}".casefold()


def read_log_tail(path: Path, most: int = TAIL_BYTES) -> tuple[str, ...]:
    """Read the last lines of a log file, oldest first. Empty if it does not exist."""
    try:
        with open_regular(path) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - most))
            data = file.read(most)
    except OSError:
        return ()
    lines = data.decode("utf-8", "replace").splitlines()
    return tuple(reveal(line) for line in (lines[1:] if size > most else lines))


def _line(reader: sqlite3.Connection, row: sqlite3.Row) -> LogLine:
    event = row_values.event(row)
    names = {row["mysis_id"]: row["name"]} if row["name"] is not None else {}
    return LogLine(
        id=event.id,
        at=event.created_at,
        who=reveal(event_subject(event, names)),
        mysis_id=event.mysis_id,
        text=prose_line(event_sentence(event, row["said"] or read_rare_text(reader, event))),
        is_trouble=is_trouble(event),
    )
