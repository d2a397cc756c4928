"""Reads and writes the requests of external agents in turns of their myses."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from zoea.model.enums import OpenedBy
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence.spend_ops import (
    LEAST_CALIBRATION,
    LEAST_SAMPLES,
    MOST_CALIBRATION,
    Limits,
    RequestOwner,
    Reservation,
    Reserved,
    reserve,
)

SITUATION = f"""
SELECT t.id, t.number, t.opened_by, t.hop, t.frozen ->> '$.task_tokens' AS task_tokens,
  t.frozen ->> '$.mission_id' AS mission_id, t.frozen ->> '$.mission_tokens' AS mission_tokens, c.ratio
FROM (SELECT 1) LEFT JOIN turn t ON t.mysis_id = ? AND t.outcome IS NULL
LEFT JOIN calibration c ON c.provider = ? AND c.model = ? AND c.samples >= {LEAST_SAMPLES}
"""
"""The open turn of a mysis, and the calibration of its model: one row in any case."""
_USED_IN_TURN = """
SELECT count(*) AS requests, coalesce(sum(CASE
    WHEN state = 'reserved' THEN reserved_tokens
    WHEN state = 'estimated' AND input_tokens IS NULL THEN estimated_tokens
    ELSE coalesce(input_tokens, 0) + coalesce(output_tokens, 0) END), 0) AS used
FROM request WHERE turn_id = ? AND purpose = 'turn'
"""
_ENDED_IN_TURN = """
SELECT coalesce(sum(tokens), 0), coalesce(sum(tokens) FILTER (WHERE id = ?), 0)
FROM (SELECT id, coalesce(input_tokens, 0) + coalesce(output_tokens, 0) AS tokens FROM request
  WHERE turn_id = ? AND purpose = 'turn' AND state <> 'reserved')
"""


class AgentSituation(Struct, frozen=True):
    """What a request of an agent belongs to. Without an open turn, `turn_id` is None.

    Attributes:
        calibration: Reported tokens per estimated token of its model.
    """

    turn_id: int | None
    turn_number: int
    by_person: bool
    task_tokens: int | None
    mission_id: int | None
    mission_tokens: int | None
    calibration: float


def read_situation(rows: Sequence[sqlite3.Row]) -> AgentSituation:
    """Convert the row of `SITUATION`."""
    row = rows[0]
    ratio = row["ratio"] or 1.0
    return AgentSituation(
        turn_id=row["id"],
        turn_number=row["number"] or 0,
        by_person=row["opened_by"] == OpenedBy.PROMPT and not row["hop"],
        task_tokens=row["task_tokens"],
        mission_id=row["mission_id"],
        mission_tokens=row["mission_tokens"],
        calibration=min(MOST_CALIBRATION, max(LEAST_CALIBRATION, ratio)),
    )


def reserve_for_agent(conn: WriterConnection, owner: RequestOwner, limits: Limits, ask: Reservation) -> Reserved:
    """Reserve a request of an agent. It may have several at once; each counts for the budget of the turn."""
    row = conn.execute(_USED_IN_TURN, (ask.turn_id,)).fetchone()
    limits = replace(limits, turn_used=row["used"])
    return reserve(conn, owner, limits, replace(ask, iteration=row["requests"] + 1))


def read_used_in_turn(conn: WriterConnection, turn_id: int | None, request_id: int) -> tuple[int, int]:
    """Return the tokens that a turn's ended requests used, and those of one request. Zero without a turn."""
    if turn_id is None:
        return 0, 0
    used, own = conn.execute(_ENDED_IN_TURN, (request_id, turn_id)).fetchone()
    return used, own
