"""Compares the expected spending of a broadcast with its budgets."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping

from msgspec import Struct

from zoea.model.enums import MysisState
from zoea.model.values import COMMANDER, Recipients
from zoea.settings.schema import BudgetSettings
from zoea.swarm.budgets import BudgetLimit, BudgetNeed, as_micros, describe_short
from zoea.swarm.persistence import row_values
from zoea.swarm.persistence.message_ops import find_audience
from zoea.swarm.persistence.spend_ops import day_of
from zoea.swarm.resolved_template import ResolvedTemplate, output_limit
from zoea.text import estimate
from zoea.text.sentences import count_of

_NAMED = 4
"""Budgets that are described; of the others only the number."""
_NEWEST = """
SELECT y.id, y.name, y.provider, y.template_hash, q.estimated_tokens, q.reserved_tokens, q.reserved_micros,
  coalesce(s.used_tokens, 0) AS used_tokens, coalesce(s.used_micros, 0) AS used_micros
FROM mysis y LEFT JOIN spend s ON s.scope = 'mysis' AND s.scope_id = y.id AND s.day = ''
LEFT JOIN request q ON q.id = (
  SELECT max(id) FROM request WHERE mysis_id = y.id AND purpose = 'turn' AND state <> 'refused')
WHERE y.id IN ({}) ORDER BY y.id
"""
_NEWEST_OF_ALL = "SELECT estimated_tokens FROM request WHERE purpose = 'turn' ORDER BY id DESC LIMIT 1"
_TODAY = "SELECT used_tokens, used_micros FROM spend WHERE scope = 'swarm' AND scope_id = 0 AND day = ?"


class _NextRequest(Struct, frozen=True):
    """The expected next request of a mysis: as large as its newest one, with the text.

    Attributes:
        input: Tokens of the request, without the answer.
        reserved: Tokens with the longest answer, which are reserved before it is sent.
        micros: The price of `reserved`, in millionths of a dollar; 0 where it is unknown.
    """

    row: sqlite3.Row
    input: int
    reserved: int
    micros: int

    def need(self, bound: BudgetLimit, used: int) -> BudgetNeed:
        """Return what this request needs of a budget."""
        if bound.is_money:
            least = self.micros * self.input // max(1, self.reserved)
            return BudgetNeed(bound, used, least, self.micros)
        return BudgetNeed(bound, used, self.input, self.reserved)


def find_short_budgets(
    conn: sqlite3.Connection,
    text: str,
    to: Recipients,
    *,
    swarm: BudgetSettings,
    resolve: Callable[[bytes], ResolvedTemplate],
    metered: Mapping[str, bool],
    now: int,
) -> tuple[str, ...]:
    """Return a sentence for each budget with less left than the next requests need.

    A mysis without a request counts as the average of the others, or as the newest request of the workspace.

    Args:
        swarm: The budgets of the day.
        resolve: Returns the template with its settings by hash.
        metered: Whether the tokens of a provider count, by name; an unknown one counts.
        now: Time in µs.
    """
    audience = find_audience(conn, COMMANDER, to)
    ids = [row["id"] for row in audience if MysisState(row["state"]).accepts_messages]
    rows = conn.execute(_NEWEST.format(row_values.marks(ids)), ids).fetchall()
    sizes = [row["estimated_tokens"] for row in rows if row["estimated_tokens"]]
    sizes = sizes or [row["estimated_tokens"] for row in conn.execute(_NEWEST_OF_ALL)]
    average = sum(sizes) // len(sizes) if sizes else 0
    prices = [row["reserved_micros"] / row["reserved_tokens"] for row in rows if row["reserved_micros"]]
    usual_price = sum(prices) / len(prices) if prices else 0.0
    expected, sentences = list[_NextRequest](), list[str]()
    for row in rows:
        size, answer = row["estimated_tokens"] or 0, (row["reserved_tokens"] or 0) - (row["estimated_tokens"] or 0)
        if not size:
            new = resolve(row["template_hash"])
            size = average or estimate.tokens(new.template.prompt)
            answer = output_limit(new.settings, None, None, new.settings.context.context_window)
        size += estimate.tokens(text)
        price = row["reserved_micros"] / row["reserved_tokens"] if row["reserved_micros"] else usual_price
        expected.append(_NextRequest(row, size, size + answer, round((size + answer) * price)))
    for one in expected:
        own, row = resolve(one.row["template_hash"]).settings.budget, one.row
        needs = (
            one.need(BudgetLimit(own.mysis, own.enforcement), row["used_tokens"]),
            one.need(BudgetLimit(as_micros(own.mysis_money), own.enforcement, is_money=True), row["used_micros"]),
        )
        sentences += [describe_short("mysis", row["name"], need) for need in needs if need.is_short]
    counted = [one for one in expected if metered.get(one.row["provider"], True)]
    today = conn.execute(_TODAY, (day_of(now),)).fetchone() or (0, 0)
    money = as_micros(swarm.swarm_money_per_day)
    bounds = (
        BudgetLimit(swarm.swarm_per_day, swarm.swarm_enforcement),
        BudgetLimit(money, swarm.swarm_enforcement, is_money=True),
    )
    for bound, used in zip(bounds, today, strict=True):
        needs_of_all = [one.need(bound, used) for one in counted]
        if needs_of_all and (need := BudgetNeed.sum(needs_of_all)).is_short:
            sentences.insert(0, describe_short("swarm", "", need))
    more = len(sentences) - _NAMED
    has = "has" if more == 1 else "have"
    return (
        *sentences[:_NAMED],
        *([f"{count_of(more, 'more budget')} of myses {has} too little left"] if more > 0 else []),
    )
