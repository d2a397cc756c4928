"""Reads the summary of a mysis's newest request, and its newest tool snapshots."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import zstandard
from msgspec import Struct

from zoea.context.past_packs import find_summary_failure
from zoea.model.errors import StoreError
from zoea.queries.stored_swarm import open_database
from zoea.swarm.persistence import swarm_reads

_NEWEST = """
SELECT q.id, q.plan, q.iteration, q.model, q.provider, q.state, q.error_class, q.input_tokens, q.estimated_tokens,
  q.created_at, t.number, t.id AS turn_id
FROM request q LEFT JOIN turn t ON t.id = q.turn_id
WHERE q.mysis_id = ? AND q.purpose = 'turn' AND q.plan IS NOT NULL ORDER BY q.id DESC LIMIT 1
"""
_TURN_TOKENS = (
    "SELECT sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)) FROM request"
    " WHERE turn_id = ? AND purpose = 'turn'"
)
_SNAPSHOT_CHARS = 4000
_DEFAULT_GLOBS = ("get_*",)


class PackSummary(Struct, frozen=True):
    """The result of planning one pack. Tokens are estimates."""

    id: str
    tokens: int
    wanted_tokens: int
    form: str
    reason: str
    is_cut: bool
    setting: str


class RequestSummary(Struct, frozen=True):
    """The newest request of a mysis. `input_tokens` is None if the provider did not report them.

    `summary_failure` says in a few words why no model wrote its summary; it is empty where one did or none was to.
    """

    request_id: int
    turn_number: int
    iteration: int
    at: int
    packs: tuple[PackSummary, ...]
    not_verbatim: int
    tokens: int
    max_tokens: int
    input_tokens: int | None
    turn_tokens: int
    state: str
    error_class: str
    summary_failure: str = ""


class ToolSnapshot(Struct, frozen=True):
    """The newest result of one snapshot tool, cut to 4,000 characters."""

    tool: str
    content: str
    at: int


class MysisContext(Struct, frozen=True):
    """The newest request and the snapshots; `seen` is None before the first request."""

    seen: RequestSummary | None = None
    snapshots: tuple[ToolSnapshot, ...] = ()


def read_context(database: Path, mysis_id: int) -> MysisContext:
    """Read the context of a mysis. Raises StoreError, also for a plan that cannot be decoded."""
    with open_database(database) as reader:
        row = reader.execute(_NEWEST, (mysis_id,)).fetchone()
        seen = _seen(reader, row) if row is not None else None
        return MysisContext(seen, _snapshots(reader, mysis_id))


def read_newest_request(database: Path, mysis_id: int) -> RequestSummary | None:
    """Read the summary of the newest request. Raises StoreError."""
    with open_database(database) as reader:
        row = reader.execute(_NEWEST, (mysis_id,)).fetchone()
        return _seen(reader, row) if row is not None else None


def unpack_json(packed: bytes, subject: str) -> Any:
    """Decode zstd-compressed JSON. Raises StoreError naming `subject` if it is damaged."""
    try:
        return json.loads(zstandard.ZstdDecompressor().decompress(packed))
    except (zstandard.ZstdError, ValueError) as problem:
        raise StoreError(f"{subject} cannot be read: {problem}") from problem


def plan_of(blob: bytes) -> dict[str, Any]:
    """Decode the plan of a request row to plain values. Raises StoreError."""
    plan = unpack_json(blob, "the plan of a request")
    if not isinstance(plan, dict):
        raise StoreError("the plan of a request cannot be read: it is no object")
    return plan


def _seen(reader: sqlite3.Connection, row: sqlite3.Row) -> RequestSummary:
    plan = plan_of(row["plan"])
    budget = plan.get("budget", {})
    spent = reader.execute(_TURN_TOKENS, (row["turn_id"],)).fetchone()[0]
    return RequestSummary(
        request_id=row["id"],
        turn_number=row["number"] or 0,
        iteration=row["iteration"],
        at=row["created_at"],
        packs=tuple(_pack(decision) for decision in plan.get("decisions", ())),
        not_verbatim=len(plan.get("steps", ())),
        tokens=budget.get("final_tokens", 0),
        max_tokens=budget.get("max_tokens", 0),
        input_tokens=row["input_tokens"],
        turn_tokens=spent or 0,
        state=row["state"],
        error_class=row["error_class"] or "",
        summary_failure=find_summary_failure(plan.get("notes", ())),
    )


def _pack(decision: dict[str, Any]) -> PackSummary:
    is_in = decision["status"] == "included"
    return PackSummary(
        id=decision["id"],
        tokens=decision["tokens"] if is_in else 0,
        wanted_tokens=decision["wanted_tokens"],
        form=(decision["variant"] or "full") if is_in else "",
        reason=decision["reason"],
        is_cut=bool(decision["truncated"]),
        setting=decision["setting"],
    )


def _snapshots(reader: sqlite3.Connection, mysis_id: int) -> tuple[ToolSnapshot, ...]:
    """Read the newest result of each snapshot tool of the newest turn's frozen settings."""
    frozen = reader.execute(
        "SELECT frozen FROM turn WHERE mysis_id = ? ORDER BY number DESC LIMIT 1", (mysis_id,)
    ).fetchone()
    globs = json.loads(frozen[0]).get("snapshot_tools", _DEFAULT_GLOBS) if frozen else ()
    snapshots: dict[str, ToolSnapshot] = {}
    for glob in globs:
        for row in reader.execute(swarm_reads.SNAPSHOTS, {"mysis": mysis_id, "pattern": glob}):
            content = row["content"][:_SNAPSHOT_CHARS]
            snapshots.setdefault(row["name"], ToolSnapshot(row["name"], content, row["created_at"]))
    return tuple(sorted(snapshots.values(), key=lambda snapshot: -snapshot.at))
