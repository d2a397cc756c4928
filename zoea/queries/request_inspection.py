"""Reads stored requests with their plan, messages, tools and results.

The messages are rebuilt from the stored plan and its memories, independent of the present settings.
They are the planned messages; a provider may merge some or fill in what its API asks for.
Plans of old requests are deleted; their numbers stay.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from zoea.context import Budget, Counter, Decision, Plan, PlanStep, Truncation, memories_of, rebuild
from zoea.context.frozen_turn import ASSUMED_WINDOW_SETTING, WINDOW_SETTING, FrozenTurn, request_limit
from zoea.model.enums import RequestState, ToolForm
from zoea.model.errors import PlanError, UsageError
from zoea.model.request import RequestMessage
from zoea.model.values import Memory, Usage
from zoea.queries.request_summary import unpack_json
from zoea.queries.stored_swarm import open_database
from zoea.settings.schema import BudgetSettings
from zoea.store.database_file import convert_row
from zoea.swarm.persistence import row_values
from zoea.swarm.persistence.spend_ops import KEPT_PLANS
from zoea.text import estimate
from zoea.text.amounts import short_count
from zoea.text.tool_signature import write_signature

_NEVER = 1 << 62
_IN_ONE_QUERY = 500
_REQUEST = """
SELECT q.id, q.mysis_id, y.name AS mysis, t.number AS turn_number, coalesce(t.opened_by, '') AS opened_by, q.purpose,
  q.iteration, q.attempt, q.provider, q.model, q.catalogue_hash, q.estimated_tokens, q.reserved_tokens, q.state,
  q.input_tokens, q.cached_tokens, q.output_tokens, q.reasoning_tokens, q.cost_micros,
  coalesce(q.error_class, '') AS error_class, coalesce(q.finish_reason, '') AS finish_reason, q.first_token_us,
  q.duration_us, q.created_at, q.plan IS NOT NULL AS has_plan,
  coalesce(json_extract(t.frozen, '$.calibration'), 1.0) AS calibration
FROM request q JOIN mysis y ON y.id = q.mysis_id LEFT JOIN turn t ON t.id = q.turn_id
"""

_PLAN = "SELECT q.plan, t.frozen FROM request q LEFT JOIN turn t ON t.id = q.turn_id WHERE q.id = ?"
_IS_OF_AGENT = "SELECT 1 FROM setting WHERE key = ? AND value ->> 'agent' = ?"


class StoredRequest(Struct, frozen=True):
    """The numbers of one request to a model. Times in µs; None if not known (yet).

    Attributes:
        turn_number: None for a request outside of turns.
        estimated_tokens: Estimate by characters.
        planned_tokens: The same times `calibration`, the factor learnt from the model's reports.
        has_plan: False once the plan was deleted.
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
    planned_tokens: int  # approximate in lists, exact in an `Inspection`
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
    def is_spent(self) -> bool:
        """True once its tokens count against the budgets of its turn."""
        return self.state in {RequestState.SETTLED, RequestState.ESTIMATED}

    @property
    def off_by(self) -> float | None:
        """Relative error of the plan's estimate: 0.03 is 3 % too high. None without a report."""
        actual = self.usage.input_tokens
        return self.planned_tokens / actual - 1 if actual else None


class SentMessage(Struct, frozen=True):
    """A message as planned, with the form of its memory (empty without one)."""

    message: RequestMessage
    form: str
    kept_chars: int
    tokens: int


class OfferedTool(Struct, frozen=True):
    """A tool offered in a request. `schema` is JSON text."""

    name: str
    description: str
    schema: str
    line: str = ""

    @property
    def tokens(self) -> int:
        """Its estimated tokens in the request: its schema, or the line in its place."""
        if self.line:
            return estimate.tokens(self.line)
        return estimate.tokens(self.name) + estimate.tokens(self.description) + estimate.tokens(self.schema)


class Inspection(Struct, frozen=True):
    """A request with its plan, messages and tools. Without a plan, `gone` is the reason in a sentence.

    `limit` says in words what limits the tokens of the request; empty where that is not known.
    """

    request: StoredRequest
    plan: Plan | None
    sent: tuple[SentMessage, ...]
    tools: tuple[OfferedTool, ...]
    gone: str = ""
    limit: str = ""

    @property
    def messages(self) -> tuple[RequestMessage, ...]:
        """The messages as planned; a provider may send them in another form."""
        return tuple(sent.message for sent in self.sent)


def read_requests(
    database: Path, mysis_id: int, *, before: int = _NEVER, limit: int = 200
) -> tuple[StoredRequest, ...]:
    """Read the requests of a mysis with an id below `before`, newest first. Raises StoreError."""
    with open_database(database) as reader:
        rows = reader.execute(
            f"{_REQUEST} WHERE q.mysis_id = ? AND q.id < ? ORDER BY q.id DESC LIMIT ?", (mysis_id, before, limit)
        ).fetchall()
    return tuple(_request(row) for row in rows)


def read_requests_since(database: Path, mysis_id: int, since: int) -> tuple[StoredRequest, ...]:
    """Read the requests with an id of at least `since`, newest first. Raises StoreError."""
    with open_database(database) as reader:
        rows = reader.execute(f"{_REQUEST} WHERE q.mysis_id = ? AND q.id >= ? ORDER BY q.id DESC", (mysis_id, since))
        return tuple(_request(row) for row in rows)


def inspect_request(database: Path, request_id: int) -> Inspection:
    """Read a request with its plan, messages and tools.

    Raises:
        UsageError: if the request does not exist.
        StoreError: if it cannot be read.
    """
    with open_database(database) as reader:
        row = reader.execute(f"{_REQUEST} WHERE q.id = ?", (request_id,)).fetchone()
        if row is None:
            raise UsageError(f"there is no request {request_id}", hint="`zoea explain NAME` shows the newest one.")
        request = _request(row)
        tools = _tools(reader, request.catalogue_hash)
        if not request.has_plan:
            why = "This request made a summary; it has no plan."
            if request.purpose != "summary":
                left = f"plans older than {KEPT_PLANS} requests are deleted, except of failed ones"
                why = f"Only the numbers are left: {left}."
            if reader.execute(_IS_OF_AGENT, (f"agent session {request.mysis_id}", request.provider)).fetchone():
                why = f"Its agent ({request.provider}) asked a provider of its own: Zoea does not see what it sent."
            return Inspection(request, None, (), tools, why)
        packed, frozen = reader.execute(_PLAN, (request_id,)).fetchone()
        encoded = unpack_json(packed, f"the plan of request {request_id}")
        memories = _memories(reader, memories_of(encoded))
    try:
        messages = rebuild(encoded, memories)
    except PlanError as error:
        return Inspection(request, None, (), tools, error.text)
    count = Counter(request.calibration)
    sent = tuple(
        SentMessage(message, entry.get("f", ""), entry.get("k", 0), count.message(message))
        for entry, message in zip(encoded["messages"], messages, strict=True)
    )
    plan = _plan(encoded, messages)
    turn = _read_frozen(frozen)
    limit = "" if turn is None else _describe_limit(turn, plan.budget.max_tokens)
    if turn is not None and turn.tool_form == ToolForm.SIGNATURES:
        tools = tuple([replace(t, line=write_signature(t.name, t.description, json.loads(t.schema))) for t in tools])
    return Inspection(replace(request, planned_tokens=plan.budget.final_tokens), plan, sent, tools, limit=limit)


def _read_frozen(text: str | None) -> FrozenTurn | None:
    """Return what a turn froze. None for a request outside of turns, and where it cannot be read."""
    try:
        return FrozenTurn.from_json(text, system="") if text else None
    except PlanError:
        return None


def _describe_limit(frozen: FrozenTurn, tokens: int) -> str:
    """Say what the limit of a request comes from. Empty where its turn has another limit."""
    bound = request_limit(frozen)
    if bound.tokens != tokens:
        return ""
    if bound.setting not in (WINDOW_SETTING, ASSUMED_WINDOW_SETTING):
        return f"limit: {_name_setting(bound.setting)}" if bound.setting else f"limit: {frozen.max_chars:,} characters"
    assumed = ", assumed" if frozen.is_window_assumed else ""
    window, answer = short_count(frozen.context_window or 0), short_count(frozen.max_output_tokens)
    return f"limit: the window ({window}{assumed}) less the longest answer ({answer})"


def _name_setting(path: str) -> str:
    section, _, name = path.partition(".")
    if section == "budget":
        return f'the setting "{BudgetSettings.model_fields[name].title}"'
    return f"{path} of its template"


def _memories(reader: sqlite3.Connection, wanted: tuple[int, ...]) -> dict[int, Memory]:
    memories: dict[int, Memory] = {}
    for at in range(0, len(wanted), _IN_ONE_QUERY):
        part = wanted[at : at + _IN_ONE_QUERY]
        for row in reader.execute(f"{row_values.MEMORY} WHERE m.id IN ({row_values.marks(part)})", part):
            memories[row["id"]] = row_values.memory(row)
    return memories


def _tools(reader: sqlite3.Connection, catalogue_hash: str) -> tuple[OfferedTool, ...]:
    row = reader.execute("SELECT tools FROM catalogue WHERE hash = ?", (catalogue_hash,)).fetchone()
    if row is None:
        return ()
    return tuple(
        OfferedTool(tool["name"], tool["description"], json.dumps(tool["input_schema"], ensure_ascii=False))
        for tool in unpack_json(row["tools"], "the tools of a request")
    )


def _request(row: sqlite3.Row) -> StoredRequest:
    planned = round(row["estimated_tokens"] * row["calibration"])
    return convert_row(StoredRequest, row, usage=convert_row(Usage, row), planned_tokens=planned)


def _plan(encoded: Mapping[str, Any], messages: tuple[RequestMessage, ...]) -> Plan:
    """Decode a stored plan. Parts that are not stored (forms, the guard's sizes) are empty."""
    return Plan(
        decisions=msgspec.convert(encoded["decisions"], tuple[Decision, ...], strict=False),
        budget=msgspec.convert(encoded["budget"], Budget),
        truncation=Truncation(applied=False, before_chars=0, after_chars=0),
        messages=messages,
        left_out_tools=tuple(encoded.get("left_out_tools", ())),
        notes=tuple(encoded.get("notes", ())),
        steps=msgspec.convert(encoded["steps"], tuple[PlanStep, ...]),
    )
