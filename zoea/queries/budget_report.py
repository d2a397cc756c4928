"""Reads how much of each budget is used, and what to do about it.

Synchronous; fronts call it in a thread, with or without a running swarm.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from zoea.queries.stored_swarm import open_database
from zoea.settings.schema import BudgetSettings, Settings
from zoea.swarm.budgets import as_micros
from zoea.swarm.persistence.spend_ops import day_of
from zoea.swarm.resolved_template import resolve_stored_template
from zoea.text.sentences import count_of

_SPEND = """
SELECT used_tokens, reserved_tokens, used_micros, reserved_micros, unpriced FROM spend
WHERE scope = ? AND scope_id = ? AND day = ?
"""
_MYSES = """
SELECT y.id, y.name, p.body FROM mysis y JOIN template p ON p.hash = y.template_hash
WHERE y.deleted_at IS NULL ORDER BY y.id
"""
_MESSAGES = """
SELECT s.scope_id, g.context ->> 'token_budget_total' AS total FROM spend s JOIN message g ON g.id = s.scope_id
WHERE s.scope = 'mission' AND g.context <> '' ORDER BY s.scope_id DESC LIMIT 10
"""


class Pressure(StrEnum):
    """The used part of a budget, in steps of 50, 75 and 90 %."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class BudgetUse(Struct, frozen=True):
    """One budget. Numbers are tokens, or millionths of a dollar where `is_money`.

    Attributes:
        scope: `day`, `background`, `mysis` or `message`.
        name: Of the mysis, or the id of the message; empty for the swarm.
        limit: None is no bound.
        unpriced: Requests with an unknown price, which `used` does not hold.
        setting: The setting to change.
    """

    scope: str
    name: str
    is_money: bool
    used: int
    reserved: int
    limit: int | None
    enforcement: str
    setting: str
    unpriced: int = 0

    @property
    def share(self) -> float:
        return self.used / self.limit if self.limit else 0.0

    @property
    def left(self) -> int | None:
        return None if self.limit is None else max(0, self.limit - self.used)

    @property
    def pressure(self) -> Pressure:
        bounds = ((0.9, Pressure.CRITICAL), (0.75, Pressure.HIGH), (0.5, Pressure.MEDIUM))
        return next((word for at, word in bounds if self.share >= at), Pressure.LOW)

    @property
    def title(self) -> str:
        """The budget in words."""
        words = {"day": "the swarm today", "background": "summaries today", "message": f"message {self.name}"}
        return words.get(self.scope, self.name)

    @property
    def at_limit(self) -> str:
        """What happens at the limit, in a few words."""
        return "then without a model" if self.scope == "background" else self.enforcement

    @property
    def advice(self) -> str:
        """Return what a person can do; empty while less than three quarters are used."""
        if self.limit is None or self.share < 0.75:
            return (
                f"set prices of {count_of(self.unpriced, 'request')}: zoea prices"
                if self.unpriced and self.is_money
                else ""
            )
        if self.scope == "message":
            return "send the rest as a new message with a total of its own"
        raised = f"raise {self.setting}"
        if self.scope == "day":
            is_held = self.pressure is Pressure.CRITICAL and self.enforcement != "soft"
            return f"{raised}, then resume the swarm" if is_held else f"{raised}, or stop myses that may wait"
        if self.scope == "background":
            return f"{raised}; until tomorrow summaries are made without a model"
        allowed = ", or allow more when it asks" if self.enforcement == "approve" else ""
        return f"{raised} in its configuration{allowed}"


def read_budgets(database: Path, settings: Settings, now: int) -> tuple[BudgetUse, ...]:
    """Read the budgets of the day, of myses and of messages.

    Myses without a bound are left out, and of messages with a total only the newest are read. Raises StoreError.
    """
    with open_database(database) as reader:
        budgets = [*_of_day(reader, settings, day_of(now))]
        for row in reader.execute(_MYSES).fetchall():
            own = resolve_stored_template(row["body"], settings).settings.budget
            budgets += _of_mysis(reader, row["id"], row["name"], own)
        for row in reader.execute(_MESSAGES).fetchall():
            if row["total"]:
                used, name = _spent(reader, "mission", row["scope_id"], ""), str(row["scope_id"])
                how, total = settings.budget.enforcement, row["total"]
                budgets.append(BudgetUse("message", name, False, *used[:2], total, how, "token_budget_total"))
    return tuple(budgets)


def as_json(budgets: tuple[BudgetUse, ...]) -> list[dict[str, object]]:
    """Return the budgets as plain values for `--json`."""
    return [
        {
            "scope": one.scope,
            "name": one.name,
            "unit": "micros" if one.is_money else "tokens",
            "used": one.used,
            "reserved": one.reserved,
            "limit": one.limit,
            "left": one.left,
            "unpriced": one.unpriced,
            "pressure": str(one.pressure),
            "enforcement": one.enforcement,
            "setting": one.setting,
            "advice": one.advice,
        }
        for one in budgets
    ]


def _of_day(reader: sqlite3.Connection, settings: Settings, day: str) -> Iterator[BudgetUse]:
    budget, row = settings.budget, _spent(reader, "swarm", 0, day)
    how = budget.swarm_enforcement
    yield BudgetUse("day", "", False, row[0], row[1], budget.swarm_per_day, how, "budget.swarm_per_day")
    limit = as_micros(budget.swarm_money_per_day)
    yield BudgetUse("day", "", True, row[2], row[3], limit, how, "budget.swarm_money_per_day", row[4])
    row = _spent(reader, "background", 0, day)
    yield BudgetUse("background", "", False, row[0], row[1], budget.background_tokens, "hard", "budget.background")


def _of_mysis(reader: sqlite3.Connection, mysis_id: int, name: str, budget: BudgetSettings) -> Iterator[BudgetUse]:
    if budget.mysis is None and budget.mysis_money is None:
        return
    row, how = _spent(reader, "mysis", mysis_id, ""), budget.enforcement
    if budget.mysis is not None:
        yield BudgetUse("mysis", name, False, row[0], row[1], budget.mysis, how, "budget.mysis")
    if (limit := as_micros(budget.mysis_money)) is not None:
        yield BudgetUse("mysis", name, True, row[2], row[3], limit, how, "budget.mysis_money", row[4])


def _spent(reader: sqlite3.Connection, scope: str, scope_id: int, day: str) -> tuple[int, int, int, int, int]:
    row = reader.execute(_SPEND, (scope, scope_id, day)).fetchone()
    return tuple(row) if row is not None else (0, 0, 0, 0, 0)
