"""Any request of a mysis, opened again: what went in, what was left out, why, and what it came to.

Read straight from the database. The messages are rebuilt from the stored plan and
the memories it names, so they are the bytes that were sent, whatever settings say
by now. Plans of old requests are thinned out; their numbers stay.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zoea.context import (
    Budget,
    Counter,
    Decision,
    PackStatus,
    Plan,
    PlanStep,
    Priority,
    Reason,
    StepKind,
    Truncation,
    Variant,
    memories_of,
    rebuild,
)
from zoea.model.errors import PlanError, UsageError
from zoea.model.request import RequestMessage
from zoea.model.values import Memory, Usage
from zoea.queries.request_summary import unpack_json
from zoea.queries.stored_swarm import open_database
from zoea.swarm.persistence import row_values
from zoea.swarm.persistence.spend_ops import KEPT_PLANS

_NEVER = 1 << 62
_IN_ONE_QUERY = 500
_REQUEST = """
SELECT q.id, q.mysis_id, y.name AS mysis, t.number AS turn_number, coalesce(t.opened_by, '') AS opened_by, q.purpose,
  q.iteration, q.attempt, q.provider, q.model, q.catalogue_hash, q.estimated_tokens, q.reserved_tokens, q.state,
  q.input_tokens, q.cached_tokens, q.output_tokens, q.reasoning_tokens, q.cost_micros, q.error_class, q.finish_reason,
  q.first_token_us, q.duration_us, q.created_at, q.plan IS NOT NULL AS has_plan,
  coalesce(json_extract(t.frozen, '$.calibration'), 1.0) AS calibration
FROM request q JOIN mysis y ON y.id = q.mysis_id LEFT JOIN turn t ON t.id = q.turn_id
"""


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """The numbers of one call to a model. Times in µs; None where they are not known (yet).

    `turn_number` is None for what belongs to no turn. `has_plan` is False once it
    was thinned out. `estimated_tokens` is the estimate by characters, `planned_tokens` what the plan made of
    it by what the model's reports had taught: that times `calibration`, as the budget counted it.
    """

    id: int
    mysis_id: int
    mysis: str
    turn_number: int | None
    opened_by: str
    purpose: str
    iteration: int
    attempt: int
    provider: str
    model: str
    catalogue_hash: str
    estimated_tokens: int
    planned_tokens: int = field(compare=False)  # about, in lists; as the plan says it, in an `Inspection`
    calibration: float
    reserved_tokens: int
    state: str
    usage: Usage
    error_class: str
    finish_reason: str
    first_token_us: int | None
    duration_us: int | None
    created_at: int
    has_plan: bool

    @property
    def off_by(self) -> float | None:
        """How far the plan's estimate was off: 0.03 is 3 % too high. None where the provider did not say."""
        actual = self.usage.input_tokens
        return self.planned_tokens / actual - 1 if actual else None


@dataclass(frozen=True, slots=True)
class SentMessage:
    """One message as it was sent: the form its memory took (empty for what exists in no memory), and its tokens as the
    plan counted them."""

    message: RequestMessage
    form: str
    kept_chars: int
    tokens: int


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that a request offered. `schema` is JSON text."""

    name: str
    description: str
    schema: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """One request, whole. `plan` is None where it is gone; `gone` says why, in a sentence."""

    request: StoredRequest
    plan: Plan | None
    sent: tuple[SentMessage, ...]
    tools: tuple[OfferedTool, ...]
    gone: str = ""

    @property
    def messages(self) -> tuple[RequestMessage, ...]:
        """Exactly what was sent."""
        return tuple(sent.message for sent in self.sent)


def read_requests(
    database: Path, mysis_id: int, *, before: int = _NEVER, limit: int = 200
) -> tuple[StoredRequest, ...]:
    """The requests of a mysis with an id below `before`, newest first. Raises StoreError."""
    with open_database(database) as reader:
        found = reader.execute(
            f"{_REQUEST} WHERE q.mysis_id = ? AND q.id < ? ORDER BY q.id DESC LIMIT ?", (mysis_id, before, limit)
        ).fetchall()
    return tuple(_request(row) for row in found)


def read_requests_since(database: Path, mysis_id: int, since: int) -> tuple[StoredRequest, ...]:
    """The requests with an id of at least `since`, newest first: what came, and what changed. Raises StoreError."""
    with open_database(database) as reader:
        found = reader.execute(f"{_REQUEST} WHERE q.mysis_id = ? AND q.id >= ? ORDER BY q.id DESC", (mysis_id, since))
        return tuple(_request(row) for row in found)


def inspect_request(database: Path, request_id: int) -> Inspection:
    """A request with its plan, messages and tools.

    Raises:
        UsageError: there is no such request.
        StoreError: it cannot be read.
    """
    with open_database(database) as reader:
        row = reader.execute(f"{_REQUEST} WHERE q.id = ?", (request_id,)).fetchone()
        if row is None:
            raise UsageError(f"there is no request {request_id}")
        request = _request(row)
        tools = _tools(reader, request.catalogue_hash)
        if not request.has_plan:
            return Inspection(request, None, (), tools, _thinned(request))
        packed = reader.execute("SELECT plan FROM request WHERE id = ?", (request_id,)).fetchone()[0]
        encoded = unpack_json(packed, f"the plan of request {request_id}")
        memories = _memories(reader, memories_of(encoded))
    try:
        messages = rebuild(encoded, memories)
    except PlanError as error:
        return Inspection(request, None, (), tools, f"{error.what} {error.hint}".strip())
    count = Counter(request.calibration)
    sent = tuple(_sent(entry, message, count) for entry, message in zip(encoded["messages"], messages, strict=True))
    plan = _plan(encoded, messages)
    return Inspection(replace(request, planned_tokens=plan.budget.final_tokens), plan, sent, tools)


def _thinned(request: StoredRequest) -> str:
    if request.purpose == "summary":
        return "This request made a summary; it has no plan."
    return f"Only the numbers are left: plans older than {KEPT_PLANS} requests are thinned out, but for failed ones."


def _memories(reader: sqlite3.Connection, wanted: tuple[int, ...]) -> dict[int, Memory]:
    found: dict[int, Memory] = {}
    for at in range(0, len(wanted), _IN_ONE_QUERY):
        part = wanted[at : at + _IN_ONE_QUERY]
        for row in reader.execute(f"{row_values.MEMORY} WHERE m.id IN ({row_values.marks(part)})", part):
            found[row["id"]] = row_values.memory(row)
    return found


def _tools(reader: sqlite3.Connection, catalogue_hash: str) -> tuple[OfferedTool, ...]:
    row = reader.execute("SELECT tools FROM catalogue WHERE hash = ?", (catalogue_hash,)).fetchone()
    if row is None:
        return ()
    return tuple(
        OfferedTool(tool["name"], tool["description"], json.dumps(tool["input_schema"], ensure_ascii=False))
        for tool in unpack_json(row["tools"], "the tools of a request")
    )


def _request(row: sqlite3.Row) -> StoredRequest:
    return StoredRequest(
        id=row["id"],
        mysis_id=row["mysis_id"],
        mysis=row["mysis"],
        turn_number=row["turn_number"],
        opened_by=row["opened_by"],
        purpose=row["purpose"],
        iteration=row["iteration"],
        attempt=row["attempt"],
        provider=row["provider"],
        model=row["model"],
        catalogue_hash=row["catalogue_hash"],
        estimated_tokens=row["estimated_tokens"],
        planned_tokens=round(row["estimated_tokens"] * row["calibration"]),
        calibration=row["calibration"],
        reserved_tokens=row["reserved_tokens"],
        state=row["state"],
        usage=Usage(
            row["input_tokens"],
            row["cached_tokens"],
            row["output_tokens"],
            row["reasoning_tokens"],
            row["cost_micros"],
        ),
        error_class=row["error_class"] or "",
        finish_reason=row["finish_reason"] or "",
        first_token_us=row["first_token_us"],
        duration_us=row["duration_us"],
        created_at=row["created_at"],
        has_plan=bool(row["has_plan"]),
    )


def _sent(entry: Mapping[str, Any], message: RequestMessage, count: Counter) -> SentMessage:
    return SentMessage(message, entry.get("f", ""), entry.get("k", 0), count.message(message))


def _plan(encoded: Mapping[str, Any], messages: tuple[RequestMessage, ...]) -> Plan:
    """The plan as a value again. What its record does not hold (forms, the guard's sizes) is empty."""
    return Plan(
        decisions=tuple(_decision(entry) for entry in encoded["decisions"]),
        budget=Budget(**encoded["budget"]),
        truncation=Truncation(applied=False, before_chars=0, after_chars=0),
        messages=messages,
        steps=tuple(PlanStep(**{**entry, "kind": StepKind(entry["kind"])}) for entry in encoded["steps"]),
    )


def _decision(entry: Mapping[str, Any]) -> Decision:
    variant = entry["variant"]
    known = {
        "priority": Priority(entry["priority"]),
        "status": PackStatus(entry["status"]),
        "variant": Variant(variant) if variant is not None else None,
        "reason": Reason(entry["reason"]),
    }
    return Decision(**{**entry, **known})
