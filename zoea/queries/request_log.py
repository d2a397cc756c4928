"""Reads the log lines of requests: their content, and their use of budgets.

No events are stored for them, because the rows of requests hold the numbers; see `swarm/turn/request_preparation.py`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from zoea.model.values import Event
from zoea.queries.phrases import OF_REQUESTS, event_sentence
from zoea.queries.request_inspection import StoredRequest
from zoea.queries.request_summary import plan_of
from zoea.queries.stored_swarm import open_database
from zoea.swarm.persistence import row_values
from zoea.text.sentences import count_of

_LINES = 3
"""Lines of one request: prepared, its use, the use of its turn. Their ids are below zero: -3, -4, -5 for request 1."""
_USED = """
CASE WHEN coalesce({0}.input_tokens, {0}.output_tokens) IS NULL THEN {0}.estimated_tokens
  ELSE coalesce({0}.input_tokens, 0) + coalesce({0}.output_tokens, 0) END
"""
_IS_SPENT = "{0}.state IN ('settled', 'estimated') AND {0}.ended_at IS NOT NULL"
REQUEST_LINE_IDS = f"""
SELECT -{_LINES} * q.id AS id, q.created_at AS at FROM request q WHERE q.purpose = 'turn' AND q.state <> 'refused'
UNION ALL SELECT -{_LINES} * q.id - part.value, q.ended_at FROM request q, json_each('[1, 2]') part
  WHERE q.purpose = 'turn' AND {_IS_SPENT.format("q")} AND (part.value = 1 OR q.turn_id IS NOT NULL)
"""
"""The id and the time of each line of a request. One that an agent made outside of a turn has no line for its turn."""
_REQUESTS = f"""
SELECT q.id, q.mysis_id, y.name, t.number AS turn, q.created_at, q.ended_at, q.plan, q.estimated_tokens,
  coalesce(json_extract(t.frozen, '$.calibration'), 1.0) AS calibration, {_USED.format("q")} AS used,
  (SELECT sum({_USED.format("o")}) FROM request o
    WHERE o.turn_id = q.turn_id AND o.id <= q.id AND o.purpose = 'turn' AND {_IS_SPENT.format("o")}) AS turn_used
FROM request q JOIN mysis y ON y.id = q.mysis_id LEFT JOIN turn t ON t.id = q.turn_id WHERE q.id IN ({{}})
"""


class RequestLine(Struct, frozen=True):
    """A line of a request: its event, and what that means in plain words."""

    id: int
    event: Event
    mysis: str
    meaning: str


def find_line_id(event: Event) -> int:
    """Return the id of an event's line in the log. It is negative for a line of a request."""
    if event.kind not in OF_REQUESTS:
        return event.id
    part = 0 if event.kind == "request.prepared" else 1 if event.data["scope"] == "request" else 2
    return -_LINES * int(str(event.data["request"])) - part


def read_request_lines(reader: sqlite3.Connection, ids: Sequence[int]) -> Iterator[RequestLine]:
    """Yield the lines with these ids. Budgets and messages are missing where the plan was deleted."""
    requests = tuple({-one // _LINES for one in ids})
    for row in reader.execute(_REQUESTS.format(row_values.marks(requests)), requests).fetchall():
        for line in _describe_request(row):
            if line.id in ids:
                yield line


def describe_use(database: Path, request: StoredRequest) -> list[str]:
    """Return the sentences on what a turn's request used of each budget. Other requests have none.

    Raises:
        StoreError: The database cannot be read.
    """
    if request.turn_number is None or request.purpose != "turn":
        return []
    parts = ("",) if not request.is_spent else ("", " (this request)", f" (turn {request.turn_number} so far)")
    with open_database(database) as reader:
        lines = read_request_lines(reader, [-_LINES * request.id - part for part in range(len(parts))])
        return [event_sentence(line.event) + part for line, part in zip(lines, parts, strict=True)]


def _describe_request(row: sqlite3.Row) -> Iterator[RequestLine]:
    plan = plan_of(row["plan"]) if row["plan"] is not None else {}
    planned = plan.get("budget", {}).get("final_tokens") or round(row["estimated_tokens"] * row["calibration"])
    messages = len(plan.get("messages", ()))
    held = f"{count_of(messages, 'message')}, " if messages else ""
    first, turn = -_LINES * row["id"], f"Turn {row['turn']}"

    def line(part: int, kind: str, at: int | None, meaning: str, **data: int | str) -> RequestLine:
        event = Event(0, kind, row["mysis_id"], {"request": row["id"], **data}, at or 0)
        return RequestLine(first - part, event, row["name"], meaning)

    def used(part: int, scope: str, tokens: int, limit: int, subject: str) -> RequestLine:
        of = f" of the {limit:,}" if limit else ""
        meaning = f"{subject} used {tokens:,}{of} tokens that it may use."
        return line(part, "budget.used", row["ended_at"], meaning, scope=scope, used=tokens, limit=limit)

    where = "outside of a turn" if row["turn"] is None else f"in turn {row['turn']}"
    meaning = f"Request {row['id']}, {where}, holds {held}about {planned:,} tokens."
    yield line(0, "request.prepared", row["created_at"], meaning, messages=messages, tokens=planned)
    yield used(1, "request", row["used"], plan.get("budget", {}).get("max_tokens", 0), f"Request {row['id']}")
    if row["turn"] is not None:
        yield used(2, "turn", row["turn_used"] or 0, plan.get("turn_limit") or 0, f"{turn} so far")
