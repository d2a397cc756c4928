"""Reads the size and the limit of each mysis's newest request, from its plan."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable

import zstandard

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
    found: dict[int, tuple[int, int]] = {}
    for row in rows:
        try:
            # Only this part is decoded, because a plan names every memory of its request.
            part = _BUDGET.search(decompressor.decompress(row["plan"]))
            budget = json.loads(part.group(1)) if part is not None else {}
        except (zstandard.ZstdError, ValueError):
            continue
        if budget.get("max_tokens"):
            found[row["mysis_id"]] = budget.get("final_tokens", 0), budget["max_tokens"]
    return found
