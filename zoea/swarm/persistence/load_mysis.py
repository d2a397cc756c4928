"""Loads a stored mysis: its row, inbox, counters and the state of its life machine."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable

import zstandard
from msgspec import Struct

from zoea.model.ports import Clock
from zoea.model.values import Delivery, Mysis
from zoea.store.store import Store
from zoea.swarm import life as lf
from zoea.swarm.live_view import LiveMysis
from zoea.swarm.persistence import row_values, turn_records
from zoea.swarm.resolved_template import ResolvedTemplate
from zoea.swarm.rules import LifeRules
from zoea.swarm.runner import pending_of


class StoredMysis(Struct, frozen=True):
    """A mysis with its counters, inbox, open turn, nudges of an hour and newest text.

    `answered_by` is the model of its newest request, where it names none itself.
    """

    mysis: Mysis
    tally: sqlite3.Row
    inbox: tuple[Delivery, ...] = ()
    is_broken_off: bool = False
    nudged_at: tuple[int, ...] = ()
    said: tuple[str, int] | None = None
    answered_by: str = ""


_ANSWERED_BY = f"SELECT y.id, {row_values.ANSWERED_BY} AS model FROM mysis y"
_LAST_SAID = row_values.LAST_SAID.format(row_values.SAID_OR_TOLD)


async def load_all(store: Store, now: int) -> list[StoredMysis]:
    """Load every undeleted mysis in order of creation, with a fixed number of reads."""
    open_turns = {row[0] for row in await store.read("SELECT mysis_id FROM turn WHERE outcome IS NULL")}
    inbox: dict[int, list[Delivery]] = {}
    for delivery in await turn_records.pending(store):
        inbox.setdefault(delivery.mysis_id, []).append(delivery)
    rows = await store.read(f"{row_values.MYSIS} WHERE y.deleted_at IS NULL ORDER BY y.id")
    tallies = {row["mysis_id"]: row for row in await store.read("SELECT * FROM tally")}
    nudged = await turn_records.nudges(store, now)
    goals = {
        row["mysis_id"]: (row["content"], row["created_at"])
        for row in await store.read(f"{_LAST_SAID} WHERE y.deleted_at IS NULL")
    }
    answered_by = {row["id"]: row["model"] for row in await store.read(f"{_ANSWERED_BY} WHERE y.deleted_at IS NULL")}
    return [
        StoredMysis(
            mysis=row_values.mysis(row),
            tally=tallies[row["id"]],
            inbox=tuple(inbox.get(row["id"], ())),
            is_broken_off=row["id"] in open_turns,
            nudged_at=nudged.get(row["id"], ()),
            said=goals.get(row["id"]),
            answered_by=answered_by[row["id"]],
        )
        for row in rows
    ]


async def load_one(store: Store, mysis: Mysis, now: int) -> StoredMysis:
    """Load one mysis that has no runner: new, undeleted or changed."""
    tally = await store.read("SELECT * FROM tally WHERE mysis_id = ?", (mysis.id,))
    turns = await store.read("SELECT 1 FROM turn WHERE mysis_id = ? AND outcome IS NULL", (mysis.id,))
    inbox = await turn_records.pending(store, mysis.id)
    nudged = await turn_records.nudges(store, now, mysis.id)
    goals = [
        (row["content"], row["created_at"]) for row in await store.read(f"{_LAST_SAID} WHERE y.id = ?", (mysis.id,))
    ]
    answered_by = (await store.read(f"{_ANSWERED_BY} WHERE y.id = ?", (mysis.id,)))[0]["model"]
    newest = goals[0] if goals else None
    return StoredMysis(mysis, tally[0], tuple(inbox), bool(turns), nudged.get(mysis.id, ()), newest, answered_by)


def build_life(found: StoredMysis, known: ResolvedTemplate, clock: Clock, *, held: bool) -> lf.Life:
    """Build the life machine from the stored values; silence counts from now."""
    mysis, now, ahead = found.mysis, clock.uptime(), clock.ahead
    has_task = any(delivery.is_task for delivery in found.inbox)
    return lf.Life(
        rules=LifeRules.of(known.settings, run_once=known.runs_once(mysis)),
        state=mysis.state,
        has_goal=bool(mysis.goal),
        done=mysis.goal_reached_at is not None and not has_task,
        nothing_new=mysis.nothing_new,
        broken_off=found.is_broken_off,
        pending=tuple(pending_of(delivery) for delivery in found.inbox),
        encouragement=mysis.encouragement,
        quiet_since=now,
        wait_until=None if mysis.wait_until is None else mysis.wait_until - ahead,
        wait_reason=mysis.wait_reason,
        held_since=now if held else None,
        retry_at=None if mysis.retry_at is None else mysis.retry_at - ahead,
        retry_count=mysis.retry_count,
        nudged_at=tuple(at - ahead for at in found.nudged_at),
    )


def build_live_row(found: StoredMysis) -> LiveMysis:
    """Build the row that fronts see."""
    mysis = found.mysis
    live = LiveMysis(mysis, text_at=mysis.state_at)
    live.count(found.tally)
    live.turn_number = live.turns
    live.pending = len(found.inbox)
    if found.said is not None:
        live.say(*found.said)
        live.progress_at = found.said[1]
    live.answered_by = found.answered_by
    live.set_failure(mysis.failure, mysis.state_at)
    return live


_BUDGET = re.compile(rb'"budget":\s*(\{[^{}]*\})')
NEWEST_PLANS = """
SELECT y.id AS mysis_id, q.plan FROM mysis y JOIN request q ON q.id = (
  SELECT id FROM request WHERE mysis_id = y.id AND purpose = 'turn' AND plan IS NOT NULL ORDER BY id DESC LIMIT 1)
WHERE y.deleted_at IS NULL
"""


def read_request_sizes(rows: Iterable[sqlite3.Row]) -> dict[int, tuple[int, int]]:
    """Return tokens and limit of each mysis's newest request, from rows of `NEWEST_PLANS`.

    A plan that cannot be read is left out: the inspector names the damage.
    """
    decompressor = zstandard.ZstdDecompressor()
    sizes: dict[int, tuple[int, int]] = {}
    for row in rows:
        try:
            # Only this part is decoded, because a plan names every memory of its request.
            part = _BUDGET.search(decompressor.decompress(row["plan"]))
            budget = json.loads(part.group(1)) if part is not None else {}
        except (zstandard.ZstdError, ValueError):
            continue
        if budget.get("max_tokens"):
            sizes[row["mysis_id"]] = budget.get("final_tokens", 0), budget["max_tokens"]
    return sizes
