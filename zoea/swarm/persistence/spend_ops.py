"""Token spending: reservation before each request, settlement after it, limits.

A reservation and the check of all limits are one op, so that parallel myses cannot jointly
exceed a budget.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, Protocol

import zstandard
from msgspec import Struct
from msgspec.structs import replace

from zoea.context import FrozenTurn
from zoea.model.enums import ErrorClass, Finish, RequestState
from zoea.model.request import ToolSpec
from zoea.model.values import Usage
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.budgets import WARN_AT, BudgetLimit, backpressure, question_key
from zoea.swarm.persistence.approval_ops import BudgetAnswer, ask_for_budget, withdraw_for_budgets

KEPT_PLANS = 200
PLANS_AT_ONCE = 16
"""Requests of a mysis after which the plans over `KEPT_PLANS` are dropped together."""
_CALIBRATION_WEIGHT = 0.2
LEAST_CALIBRATION, MOST_CALIBRATION = 0.8, 2.0
"""Bounds of the calibration, so that a provider that reports too little cannot let requests outgrow their budget."""
LEAST_SAMPLES = 3
"""Reports of a model's tokens from which on its estimates are calibrated."""
NO_LIMIT = BudgetLimit(None, "soft")
_QUARTER_US = 15 * 60 * 1_000_000
_compressor = zstandard.ZstdCompressor(level=1)


class RequestOwner(Protocol):
    """The mysis, provider and model of a request, and whether the swarm's budget counts it."""

    @property
    def mysis_id(self) -> int: ...
    @property
    def provider(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def metered(self) -> bool: ...
    @property
    def is_background(self) -> bool:
        """Whether it is a summary, which has a budget of its own for each day."""
        ...

    @property
    def mission_id(self) -> int | None:
        """The message that gave the turn a share of its total; None where none did."""
        ...

    @property
    def first_token_us(self) -> int | None:
        """Time to the first token, µs; None where it is unknown."""
        ...

    @property
    def duration_us(self) -> int | None:
        """Time since it was reserved, µs; None where it is unknown."""
        ...


class Limits(Struct, frozen=True):
    """The budget limits of a request: turn, mission, mysis and the day of the swarm.

    `turn_used` are tokens; `answer_within` is how long the commander may take to answer, µs;
    `smallest_waiting` are the tokens of the smallest request that waits for the swarm's budget.
    """

    turn: BudgetLimit
    turn_used: int
    mysis: BudgetLimit
    swarm: BudgetLimit
    answer_within: int
    smallest_waiting: int | None = None
    mission: BudgetLimit = NO_LIMIT
    mysis_money: BudgetLimit = NO_LIMIT
    swarm_money: BudgetLimit = NO_LIMIT
    background: BudgetLimit = NO_LIMIT


class Reservation(Struct, frozen=True):
    """One attempt at a request of a turn, to be reserved. A `summary` has no plan, and no tally counts it."""

    turn_id: int | None
    iteration: int
    attempt: int
    plan: bytes | None
    catalogue_hash: str
    estimated_tokens: int
    tokens: int
    micros: int | None = None
    """The price of `tokens` in millionths of a dollar; None where it is unknown."""
    purpose: Literal["turn", "summary"] = "turn"


class Reserved(Struct, frozen=True):
    """The result of a reservation.

    `request_id` may be sent after `rest_us`. Where `scope` is set it was refused, or `is_asked`, or
    `is_waiting` for what is reserved `by_others`; `tokens` is what the scope would have come to, `used` what it has.
    These and `limit` are micros where `is_money`; `is_unpriced` was refused because its price is not known.
    """

    request_id: int
    rest_us: int = 0
    scope: str = ""
    tokens: int = 0
    limit: int = 0
    used: int = 0
    by_others: int = 0
    is_asked: bool = False
    is_waiting: bool = False
    is_money: bool = False
    is_unpriced: bool = False

    @property
    def asked(self) -> int:
        """The tokens, or micros, of the request itself."""
        return self.tokens - self.used - self.by_others


class _BudgetState(Struct, frozen=True):
    """What a scope has used, and what it has used or reserved (`committed`)."""

    scope: str
    bound: BudgetLimit
    used: int
    committed: int
    is_warned: bool
    key: tuple[str, int, str]

    def numbers(self) -> dict[str, str | int]:
        """Return what an event says of it; money is in micros, and marked as such."""
        values: dict[str, str | int] = {"scope": self.scope, "used": self.used, "limit": self.bound.limit or 0}
        return values | {"unit": "money"} if self.bound.is_money else values


def day_of(at: int) -> str:
    """Return the local date of a time in µs."""
    return _day_of_quarter(at // _QUARTER_US, time.tzname)


@lru_cache(16)
def _day_of_quarter(quarter: int, zone: tuple[str, str]) -> str:
    """Return the local date of a quarter of an hour. In every zone a day begins with one."""
    return time.strftime("%Y-%m-%d", time.localtime(quarter * _QUARTER_US // 1_000_000))


def reserve(conn: WriterConnection, owner: RequestOwner, limits: Limits, ask: Reservation) -> Reserved:
    """Write the request row and reserve its tokens in every scope, or in none."""
    rest, states = 0, _budget_states(conn, owner, limits)
    if ask.turn_id is not None and ask.purpose == "turn":
        may_ask = (one for one in states if one.bound.enforcement == "approve")
        asked = {question_key(one.scope, is_money=one.bound.is_money): one.bound.limit for one in may_ask}
        withdraw_for_budgets(conn, ask.turn_id, asked)
    for one in states:
        if one.bound.enforcement == "soft":
            rest = max(rest, backpressure(one.used, one.bound.limit or 0))
        elif not one.bound.is_granted and (refusal := _check(conn, owner, limits, ask, one)) is not None:
            return refusal
        _warn(conn, owner, one)
    request_id = _insert(conn, owner, ask, refused=False)
    scopes = _scopes(owner, conn.now())
    conn.execute(
        "INSERT INTO spend(scope, scope_id, day, reserved_tokens, reserved_micros)"
        f" VALUES {', '.join(['(?,?,?,?,?)'] * len(scopes))} ON CONFLICT(scope, scope_id, day) DO UPDATE SET"
        " reserved_tokens = reserved_tokens + excluded.reserved_tokens,"
        " reserved_micros = reserved_micros + excluded.reserved_micros",
        [value for key in scopes for value in (*key, ask.tokens, ask.micros or 0)],
    )
    return Reserved(request_id, rest)


def _check(
    conn: WriterConnection, owner: RequestOwner, limits: Limits, ask: Reservation, one: _BudgetState
) -> Reserved | None:
    """Return why a request may not be sent under a limit that is enforced. None if it may."""
    needed, limit, is_money = ask.micros if one.bound.is_money else ask.tokens, one.bound.limit or 0, one.bound.is_money
    if needed is None:
        request_id = _insert(conn, owner, ask, refused=True)
        conn.emit("budget.refused", owner.mysis_id, **one.numbers())
        return Reserved(request_id, scope=one.scope, limit=limit, used=one.used, is_money=True, is_unpriced=True)
    total = one.committed + needed
    if total <= limit:
        return None
    others = one.committed - one.used
    if one.scope in ("swarm", "mission") and (others or (one.scope == "swarm" and _is_another_smaller(limits, ask))):
        # A budget is exceeded by what was spent, and others may give back what they reserved.
        return Reserved(0, 0, one.scope, total, limit, one.used, others, is_waiting=True, is_money=is_money)
    verdict = BudgetAnswer(denied=True)
    if one.bound.enforcement == "approve" and ask.turn_id is not None:
        key = question_key(one.scope, is_money=is_money)
        verdict = ask_for_budget(conn, owner.mysis_id, ask.turn_id, key, total, limit, limits.answer_within)
    if verdict.denied:
        request_id = _insert(conn, owner, ask, refused=True)
        conn.emit("budget.refused", owner.mysis_id, **one.numbers(), needed=total)
        return Reserved(request_id, 0, one.scope, total, limit, one.used, others, is_money=is_money)
    if not verdict.allowed:
        return Reserved(0, 0, one.scope, total, limit, one.used, is_asked=True, is_money=is_money)
    return None


def _is_another_smaller(limits: Limits, ask: Reservation) -> bool:
    return limits.smallest_waiting is not None and limits.smallest_waiting < ask.tokens


def _insert(conn: WriterConnection, owner: RequestOwner, ask: Reservation, *, refused: bool) -> int:
    request_id = conn.insert(
        "INSERT INTO request(mysis_id, turn_id, purpose, iteration, attempt, provider, model, plan, catalogue_hash,"
        " estimated_tokens, state, reserved_tokens, reserved_micros, created_at, ended_at)"
        " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        (
            owner.mysis_id,
            ask.turn_id,
            ask.purpose,
            ask.iteration,
            ask.attempt,
            owner.provider,
            owner.model,
            None if ask.plan is None else _compressor.compress(ask.plan),
            ask.catalogue_hash,
            ask.estimated_tokens,
            RequestState.REFUSED if refused else RequestState.RESERVED,
            0 if refused else ask.tokens,
            None if refused else ask.micros,
            conn.now(),
            conn.now() if refused else None,
        ),
    )
    if ask.purpose == "turn":
        sql = "UPDATE tally SET requests = requests + 1 WHERE mysis_id = ? RETURNING requests"
        row = conn.execute(sql, (owner.mysis_id,)).fetchone()
        if row is not None and row["requests"] % PLANS_AT_ONCE == 0:
            _drop_plans(conn, owner.mysis_id)
    return request_id


def _drop_plans(conn: WriterConnection, mysis_id: int) -> None:
    """Keep the newest plans of a mysis, and those of failed requests. Finding the others reads 200 rows."""
    conn.execute(
        "UPDATE request SET plan = NULL WHERE error_class IS NULL AND plan IS NOT NULL AND id IN"
        " (SELECT id FROM request WHERE mysis_id = ? AND purpose = 'turn' ORDER BY id DESC LIMIT ? OFFSET ?)",
        (mysis_id, 2 * PLANS_AT_ONCE, KEPT_PLANS),
    )


def _scopes(owner: RequestOwner, reserved_at: int) -> tuple[tuple[str, int, str], ...]:
    """Return the keys of `spend` that a request counts in."""
    scopes = [("mysis", owner.mysis_id, "")]
    if owner.mission_id is not None:
        scopes.append(("mission", owner.mission_id, ""))
    if owner.metered:
        scopes.append(("swarm", 0, day_of(reserved_at)))
    if owner.metered and owner.is_background:
        scopes.append(("background", 0, day_of(reserved_at)))
    return tuple(scopes)


def _budget_states(conn: WriterConnection, owner: RequestOwner, limits: Limits) -> list[_BudgetState]:
    """Return the state of every scope with a limit, the narrowest first."""
    bounds = {
        "mysis": (limits.mysis, limits.mysis_money),
        "mission": (limits.mission,),
        "swarm": (limits.swarm, limits.swarm_money),
        "background": (limits.background,),
    }
    states = []
    if limits.turn.limit is not None:
        # A turn has one request at a time, so nothing else of it is reserved.
        states.append(_BudgetState("turn", limits.turn, limits.turn_used, limits.turn_used, True, ("", 0, "")))
    for key in _scopes(owner, conn.now()):
        limited = [bound for bound in bounds[key[0]] if bound.limit is not None]
        if not limited:
            continue
        row = conn.execute(
            "SELECT used_tokens, reserved_tokens, used_micros, reserved_micros, warned_at FROM spend"
            " WHERE scope = ? AND scope_id = ? AND day = ?",
            key,
        ).fetchone()
        values = tuple(row) if row else (0, 0, 0, 0, None)
        for bound in limited:
            used, reserved = values[2:4] if bound.is_money else values[:2]
            if owner.metered or not bound.is_money:
                states.append(_BudgetState(key[0], bound, used, used + reserved, values[4] is not None, key))
    return states


def _warn(conn: WriterConnection, owner: RequestOwner, one: _BudgetState) -> None:
    """Emit one event where a mysis or the day has used 80 %."""
    limit = one.bound.limit or 0
    if one.is_warned or one.used < WARN_AT * limit:
        return
    changed = conn.execute(
        "UPDATE spend SET warned_at = ? WHERE scope = ? AND scope_id = ? AND day = ?", (conn.now(), *one.key)
    ).rowcount
    if changed:
        conn.emit("budget.warning", owner.mysis_id, **one.numbers())


def settle(
    conn: WriterConnection,
    owner: RequestOwner,
    request_id: int,
    usage: Usage,
    *,
    finish: Finish,
    model: str = "",
    is_estimate: bool = False,
) -> None:
    """Replace a reservation by the tokens used, or by the estimate if none were reported.

    Idempotent: a settled request stays as it is. `model` answered; it is stored where the request names none.

    Args:
        is_estimate: The usage is Zoea's own estimate, because the answer broke off before its report.
    """
    now = conn.now()
    is_estimate = is_estimate or usage.total is None
    row = conn.execute(
        "UPDATE request SET state = ?, input_tokens = ?, cached_tokens = ?, output_tokens = ?, reasoning_tokens = ?,"
        " cost_micros = coalesce(?, CASE WHEN ? THEN reserved_micros END), finish_reason = ?,"
        " first_token_us = ?, duration_us = ?, ended_at = ?,"
        " model = CASE WHEN model = '' THEN ? ELSE model END"
        " WHERE id = ? AND state = 'reserved' "
        " RETURNING reserved_tokens, reserved_micros, estimated_tokens, cost_micros, created_at",
        (
            RequestState.ESTIMATED if is_estimate else RequestState.SETTLED,
            usage.input_tokens,
            usage.cached_tokens,
            usage.output_tokens,
            usage.reasoning_tokens,
            usage.cost_micros,
            usage.total is None,
            finish,
            owner.first_token_us,
            owner.duration_us,
            now,
            model,
            request_id,
        ),
    ).fetchone()
    if row is None:
        return
    used = row["estimated_tokens"] if usage.total is None else usage.total
    _release(conn, owner, row, used, row["cost_micros"])
    # Scripted models report no real token counts.
    if owner.metered and usage.input_tokens and row["estimated_tokens"] and not is_estimate:
        _calibrate(conn, owner, owner.model or model, usage.input_tokens / row["estimated_tokens"])


def fail(
    conn: WriterConnection,
    owner: RequestOwner,
    request_id: int,
    usage: Usage,
    error_class: ErrorClass,
    *,
    is_planned: bool = True,
) -> None:
    """Release the reservation of a failed request, except for the tokens it used.

    Args:
        is_planned: Zoea chose its length by its estimate, so that a refusal of the length says how wrong that is.
    """
    now = conn.now()
    row = conn.execute(
        "UPDATE request SET state = 'released', error_class = ?, input_tokens = ?, output_tokens = ?, cost_micros = ?,"
        " first_token_us = ?, duration_us = ?, ended_at = ?"
        " WHERE id = ? AND state = 'reserved' RETURNING reserved_tokens, reserved_micros, created_at, model",
        (
            error_class,
            usage.input_tokens,
            usage.output_tokens,
            usage.cost_micros,
            owner.first_token_us,
            owner.duration_us,
            now,
            request_id,
        ),
    ).fetchone()
    if row is None:
        return
    if error_class is not ErrorClass.CANCELLED:
        conn.execute("UPDATE tally SET errors = errors + 1 WHERE mysis_id = ?", (owner.mysis_id,))
    _release(conn, owner, row, usage.total or 0, usage.cost_micros)
    if owner.metered and is_planned and error_class is ErrorClass.CONTEXT_LENGTH:
        # The request was longer than its estimate; the error does not say by how much.
        _calibrate(conn, owner, owner.model or row["model"], MOST_CALIBRATION)


def _release(conn: WriterConnection, owner: RequestOwner, request: sqlite3.Row, used: int, cost: int | None) -> None:
    """Take back what a request reserved, and count what it used in every scope."""
    scopes = _scopes(owner, request["created_at"])
    where = " OR ".join(["(scope = ? AND scope_id = ? AND day = ?)"] * len(scopes))
    conn.execute(
        "UPDATE spend SET reserved_tokens = max(0, reserved_tokens - ?), used_tokens = used_tokens + ?,"
        " reserved_micros = max(0, reserved_micros - ?), used_micros = used_micros + ?, unpriced = unpriced + ?"
        f" WHERE {where}",
        (
            request["reserved_tokens"],
            used,
            request["reserved_micros"] or 0,
            cost or 0,
            int(cost is None and used > 0),
            *(value for key in scopes for value in key),
        ),
    )
    conn.execute(
        "UPDATE tally SET tokens = tokens + ?, cost_micros = CASE WHEN ? IS NULL THEN cost_micros"
        " ELSE coalesce(cost_micros, 0) + ? END WHERE mysis_id = ?",
        (used, cost, cost, owner.mysis_id),
    )


def _calibrate(conn: WriterConnection, owner: RequestOwner, model: str, ratio: float) -> None:
    """Update the moving mean of reported over estimated tokens of a model."""
    ratio = min(MOST_CALIBRATION, max(LEAST_CALIBRATION, ratio))
    conn.execute(
        "INSERT INTO calibration(provider, model, ratio, samples, updated_at) VALUES (?,?,?,1,?)"
        " ON CONFLICT(provider, model) DO UPDATE SET ratio = ratio + ? * (excluded.ratio - ratio),"
        " samples = samples + 1, updated_at = excluded.updated_at",
        (owner.provider, model, ratio, conn.now(), _CALIBRATION_WEIGHT),
    )


def calibration(conn: WriterConnection, provider: str, model: str) -> float:
    """Return reported tokens per estimated token; 1.0 until `LEAST_SAMPLES` exist."""
    row = conn.execute(
        "SELECT ratio FROM calibration WHERE provider = ? AND model = ? AND samples >= ?",
        (provider, model, LEAST_SAMPLES),
    ).fetchone()
    return min(MOST_CALIBRATION, max(LEAST_CALIBRATION, row["ratio"])) if row else 1.0


_MISSION_PARTS = """
SELECT count(*) FROM delivery d LEFT JOIN turn t ON t.id = d.turn_id
WHERE d.message_id = ? AND (d.state = 'pending' OR (d.state = 'taken' AND t.ended_at IS NULL))
"""
_MISSION_SPENT = "SELECT used_tokens + reserved_tokens FROM spend WHERE scope = 'mission' AND scope_id = ? AND day = ''"


def share_mission(conn: WriterConnection, frozen: FrozenTurn, totals: Mapping[int, int]) -> FrozenTurn:
    """Return the turn with its share of the lowest total of its messages.

    The share is what is left, divided by the turns that the message may still open or has open.

    Args:
        totals: Tokens by message id.
    """
    if not totals:
        return frozen
    mission_id, total = min(totals.items(), key=lambda pair: pair[1])
    (parts,) = conn.execute(_MISSION_PARTS, (mission_id,)).fetchone()
    row = conn.execute(_MISSION_SPENT, (mission_id,)).fetchone()
    share = max(1, (total - (row[0] if row else 0)) // max(1, parts))
    task_tokens = min(share, frozen.task_tokens or share)
    return replace(frozen, mission_id=mission_id, mission_tokens=total, task_tokens=task_tokens)


def store_catalogue(conn: WriterConnection, catalogue_hash: str, tools: tuple[ToolSpec, ...]) -> None:
    """Store the offered tools, unless their hash is there."""
    specs = [{"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in tools]
    text = json.dumps(specs, ensure_ascii=False).encode("utf-8", "replace")
    conn.execute(
        "INSERT OR IGNORE INTO catalogue(hash, tools, created_at) VALUES (?,?,?)",
        (catalogue_hash, _compressor.compress(text), conn.now()),
    )


def recover(conn: WriterConnection, metered: dict[str, bool]) -> int:
    """Settle the reservations of an ended process at their estimate; return how many.

    Args:
        metered: By provider name; an unknown one counts.
    """
    rows = conn.execute(
        "SELECT q.*, t.frozen ->> 'mission_id' AS mission_id FROM request q LEFT JOIN turn t ON t.id = q.turn_id"
        " WHERE q.state = 'reserved'"
    ).fetchall()
    for row in rows:
        is_metered = metered.get(row["provider"], True)
        owner = PlainOwner(
            row["mysis_id"], row["provider"], row["model"], is_metered, row["mission_id"], row["purpose"] == "summary"
        )
        settle(conn, owner, row["id"], Usage(), finish=Finish.UNKNOWN)
    return len(rows)


class PlainOwner(Struct, frozen=True):
    """The values of a `RequestOwner`, for requests beside those of Zoea's own turns."""

    mysis_id: int
    provider: str
    model: str
    metered: bool
    mission_id: int | None = None
    is_background: bool = False
    first_token_us: int | None = None
    duration_us: int | None = None


TODAY = "SELECT used_tokens, used_micros, unpriced FROM spend WHERE scope = 'swarm' AND scope_id = 0 AND day = ?"


class Today(Struct, frozen=True):
    """Usage of the swarm on this local day, read `at` by boot time. No cost where some price is unknown."""

    at: int = 0
    tokens: int = 0
    cost_micros: int | None = None


def today(at: int, row: sqlite3.Row | None) -> Today:
    """Convert a row of `TODAY`; without a row nothing was used."""
    if row is None:
        return Today(at)
    return Today(at, row["used_tokens"], None if row["unpriced"] or not row["used_tokens"] else row["used_micros"])
