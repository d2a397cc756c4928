"""Reads of turns, for planning and for resuming."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable
from typing import assert_never

from msgspec import Struct

from zoea.context import (
    EarlierTurns,
    InheritedContext,
    LastAnswer,
    LatestSlice,
    MemoriesById,
    Need,
    NeedAnswer,
    Note,
    OutsideNeed,
    ShownConversation,
    StandingOrder,
    TurnSoFar,
)
from zoea.model.enums import ErrorClass, Finish, OpenedBy, RequestState
from zoea.model.request import Catalogue, GivenAnswer
from zoea.model.values import Delivery, Memory
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import approval_ops, row_values
from zoea.swarm.rules import HOUR
from zoea.swarm.turn import loop_guard
from zoea.swarm.turn.shown_notes import is_only_shown, limit_in
from zoea.swarm.turn.turn_types import PastCall, PastRequest

_log = logging.getLogger(__name__)

# One read answers every need from before a turn and reads the previous turn for the loop guard; rows are tagged by
# need. The slice is the newest assistant memory with all results; the order is found by its own index.
_BEFORE = f"""
WITH recent AS (
  SELECT id, partial FROM memory WHERE mysis_id = :mysis AND id <= :before ORDER BY id DESC LIMIT :window),
head AS (
  SELECT r.id FROM recent r
  WHERE NOT r.partial AND EXISTS (SELECT 1 FROM tool_call k WHERE k.memory_id = r.id)
    AND NOT EXISTS (SELECT 1 FROM tool_call k WHERE k.memory_id = r.id AND k.result_memory_id IS NULL)
  ORDER BY r.id DESC LIMIT 1),
slice AS (SELECT id FROM head UNION ALL
  SELECT k.result_memory_id FROM tool_call k WHERE k.memory_id IN (SELECT id FROM head)),
previous AS (SELECT turn_id FROM memory WHERE id = :before),
ordered AS (SELECT id FROM memory WHERE :order AND mysis_id = :mysis AND id <= :before AND role = 'user'
  ORDER BY id DESC LIMIT 1),
wanted AS (
  SELECT id, 'slice' AS need FROM slice
  UNION ALL SELECT id, 'order' FROM ordered
  UNION ALL SELECT id, 'previous' FROM memory WHERE turn_id IN (SELECT turn_id FROM previous) AND role = 'assistant')
{row_values.WANTED_MEMORY}
ORDER BY turn_number, m.seq
"""

# A request that was cut off has the finish reason unknown; an empty answer has another one.
_UNANSWERED = """
SELECT attempt, state, error_class, finish_reason FROM request WHERE turn_id = :turn
AND purpose = 'turn' AND state <> 'refused'
AND id > coalesce((SELECT max(request_id) FROM memory WHERE turn_id = :turn AND partial = 0), 0) ORDER BY id
"""

LAST_ANSWERS = """
SELECT content FROM memory WHERE mysis_id = ? AND role = 'assistant' AND partial = 0 AND content <> ''
  AND turn_id NOT IN (SELECT id FROM turn WHERE mysis_id = memory.mysis_id AND outcome IS NULL)
ORDER BY id DESC LIMIT 5
"""
"""The last five answers before the open turn."""

# How often a mysis called each tool in its newest answers.
TOOL_USES = """
SELECT k.name, count(*) FROM tool_call k WHERE k.memory_id IN (
  SELECT id FROM memory WHERE mysis_id = ? AND role = 'assistant' ORDER BY id DESC LIMIT 500)
GROUP BY k.name
"""

_ANSWERED = (RequestState.SETTLED, RequestState.ESTIMATED)


class BeforeTurn(Struct, frozen=True):
    """Answers to the needs of rows before a turn, and the previous turn's calls."""

    answers: dict[Need, NeedAnswer]
    calls: tuple[PastCall, ...]
    texts: tuple[str, ...]


def read_order(before: BeforeTurn) -> str:
    """Return the text of the standing order. Empty where none was asked for, or there is none."""
    return "".join(
        memory.content
        for need, answer in before.answers.items()
        if isinstance(need, StandingOrder) and isinstance(answer, tuple)
        for memory in answer
    )


async def read_before_turn(store: Store, mysis_id: int, wanted: tuple[Need, ...]) -> BeforeTurn:
    """Read the rows that a turn needs in the first round. `read_earlier` answers those of later rounds."""
    asked = _query_values(mysis_id, wanted)
    before = _before(wanted, await store.read(_BEFORE, asked) if asked else ())
    for need in wanted:
        if isinstance(need, EarlierTurns):
            before.answers[need] = await read_earlier(store, need)
    return before


def read_before_opened(conn: WriterConnection, mysis_id: int, wanted: tuple[Need, ...]) -> BeforeTurn:
    """Read the same rows within the op that opens the turn."""
    asked = _query_values(mysis_id, wanted)
    before = _before(wanted, conn.execute(_BEFORE, asked) if asked else ())
    for need in wanted:
        if isinstance(need, EarlierTurns):
            before.answers[need] = tuple(map(row_values.memory, conn.execute(*_earlier_query(need))))
    return before


async def read_earlier(store: Store, need: EarlierTurns) -> tuple[Memory, ...]:
    """Read the memories of earlier turns, in conversation order."""
    return tuple(map(row_values.memory, await store.read(*_earlier_query(need))))


async def read_by_id(store: Store, need: MemoriesById) -> tuple[Memory, ...]:
    """Read memories by their ids, in the order of the ids."""
    marks = row_values.marks(need.memory_ids)
    rows = await store.read(f"{row_values.MEMORY} WHERE m.id IN ({marks})", need.memory_ids)
    memories = {row["id"]: row_values.memory(row) for row in rows}
    return tuple([memories[memory_id] for memory_id in need.memory_ids if memory_id in memories])


def _earlier_query(need: EarlierTurns) -> tuple[str, tuple[int, ...]]:
    marks = row_values.marks(need.turn_ids)
    return f"{row_values.MEMORY} WHERE m.turn_id IN ({marks}) ORDER BY t.number, m.seq", need.turn_ids


async def read_answers(store: Store, turn_id: int) -> dict[str, str]:
    """Read the stored answers of a turn, by the key of their need."""
    rows = await store.read("SELECT need, answer FROM turn_answer WHERE turn_id = ?", (turn_id,))
    return {row["need"]: row["answer"] for row in rows}


def _query_values(mysis_id: int, wanted: tuple[Need, ...]) -> dict[str, int]:
    """Return the parameters of the query; none for a first turn."""
    rows = [need for need in wanted if isinstance(need, LatestSlice | LastAnswer | StandingOrder | ShownConversation)]
    before = max((need.before for need in rows), default=0)
    if not before:
        return {}
    return {
        "mysis": mysis_id,
        "before": before,
        "window": next((need.window for need in wanted if isinstance(need, LatestSlice)), 0),
        "order": any(isinstance(need, StandingOrder) for need in wanted),
    }


def _before(wanted: tuple[Need, ...], found: Iterable[sqlite3.Row]) -> BeforeTurn:
    by_need: dict[str, list[Memory]] = {}
    for row in found:
        by_need.setdefault(row["need"], []).append(row_values.memory(row))
    previous = by_need.get("previous", [])
    answers: dict[Need, NeedAnswer] = {}
    for need in wanted:
        match need:
            case LatestSlice():
                answers[need] = tuple(by_need.get("slice", ()))
            case StandingOrder():
                answers[need] = tuple(by_need.get("order", ()))
            case LastAnswer():
                answers[need] = tuple(m for m in previous[-1:] if not m.calls and not m.partial)
            case TurnSoFar() | EarlierTurns() | MemoriesById() | InheritedContext() | OutsideNeed():
                continue
            case _:
                assert_never(need)
    return BeforeTurn(answers, loop_guard.calls_of(tuple(previous)), loop_guard.texts_of(tuple(previous)))


class OpenTurnRow(Struct, frozen=True):
    """An open turn with everything that `restore` needs."""

    turn_id: int
    number: int
    hop: int
    nudged: bool
    frozen: str
    memories: tuple[Memory, ...]
    notes: tuple[Note, ...]
    used_tokens: int
    limits: tuple[int, ...]
    requests: tuple[PastRequest, ...]
    allowed: dict[int, GivenAnswer]


async def open_turn(store: Store, mysis_id: int) -> OpenTurnRow | None:
    """Read the open turn of a mysis; None where there is none."""
    rows = await store.read("SELECT * FROM turn WHERE mysis_id = ? AND outcome IS NULL", (mysis_id,))
    if not rows:
        return None
    row = rows[0]
    memories = await store.read(f"{row_values.MEMORY} WHERE m.turn_id = ? ORDER BY m.seq", (row["id"],))
    notes = await store.read("SELECT * FROM turn_note WHERE turn_id = ? ORDER BY after_seq", (row["id"],))
    spent = await store.read(
        "SELECT coalesce(sum(CASE WHEN input_tokens IS NULL AND output_tokens IS NULL THEN"
        " CASE state WHEN 'estimated' THEN estimated_tokens ELSE 0 END"
        " ELSE coalesce(input_tokens, 0) + coalesce(output_tokens, 0) END), 0) AS used"
        " FROM request WHERE turn_id = ? AND purpose = 'turn'",
        (row["id"],),
    )
    unanswered = await store.read(_UNANSWERED, {"turn": row["id"]})
    allowed = await store.read(approval_ops.ALLOWED, (row["id"],))
    return OpenTurnRow(
        turn_id=row["id"],
        number=row["number"],
        hop=row["hop"],
        nudged=row["opened_by"] == OpenedBy.NUDGE,
        frozen=row["frozen"],
        memories=tuple(row_values.memory(each) for each in memories),
        notes=tuple(
            Note(each["after_seq"], each["kind"], each["content"]) for each in notes if not is_only_shown(each["kind"])
        ),
        used_tokens=spent[0]["used"],
        limits=tuple(limit for each in notes if (limit := limit_in(each["kind"])) is not None),
        requests=tuple(
            PastRequest(
                each["attempt"],
                ErrorClass(each["error_class"]) if each["error_class"] else None,
                each["state"] in _ANSWERED and each["finish_reason"] != Finish.UNKNOWN,
            )
            for each in unanswered
        ),
        allowed={each["tool_call_id"]: approval_ops.given_answer(each) for each in allowed},
    )


# The newest turns back to the first that is older; a stop by a person resets the count.
_NUDGES = """
SELECT t.mysis_id, t.opened_at FROM turn t JOIN mysis y ON y.id = t.mysis_id
WHERE y.state <> 'stopped' AND t.opened_by = 'nudge' AND t.id >
    coalesce((SELECT id FROM turn WHERE opened_at <= :since ORDER BY id DESC LIMIT 1), 0)
  AND t.opened_at <= :now
  AND t.session_id >
    coalesce((SELECT max(s.id) FROM session s WHERE s.mysis_id = t.mysis_id AND s.outcome = 'stopped'), 0)
"""


async def nudges(store: Store, now: int, mysis_id: int | None = None) -> dict[int, tuple[int, ...]]:
    """Return the times of nudges in the last hour, per mysis, for `nudge.max_per_hour`."""
    whose = "" if mysis_id is None else "AND t.mysis_id = :mysis "
    moments: dict[int, list[int]] = {}
    for row in await store.read(f"{_NUDGES}{whose}ORDER BY t.id", {"since": now - HOUR, "now": now, "mysis": mysis_id}):
        moments.setdefault(row["mysis_id"], []).append(row["opened_at"])
    return {mysis_id: tuple(times) for mysis_id, times in moments.items()}


async def pending(store: Store, mysis_id: int | None = None) -> list[Delivery]:
    """Return pending deliveries of one mysis or of all, in arrival order."""
    if mysis_id is None:
        rows = await store.read(f"{row_values.DELIVERY} WHERE d.state = 'pending' ORDER BY d.id")
    else:
        rows = await store.read(
            f"{row_values.DELIVERY} WHERE d.state = 'pending' AND d.mysis_id = ? ORDER BY d.id", (mysis_id,)
        )
    readable = []
    for row in rows:
        try:
            readable.append(row_values.delivery(row))
        except ValueError as error:  # it stays stored; the others are read
            _log.warning("message %s to mysis #%d cannot be read: %s", row["message_id"], row["mysis_id"], error)
    return readable


def read_only_names(catalogue: Catalogue) -> frozenset[str]:
    """Return the names of tools with calls that may overlap."""
    return frozenset(tool.name for tool in catalogue.callable if tool.read_only)
