"""What clients of the MCP server see of myses, receipts and times, and how much of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from zoea.model.values import MysisView, Receipt
from zoea.text.cut import head

LISTED_RECIPIENTS = 50
LAST_CHARS = 200


def mysis_row(view: MysisView) -> dict[str, Any]:
    """A mysis as clients see it."""
    return {
        "id": view.id,
        "name": view.name,
        "state": view.state.value,
        "activity": view.activity.value,
        "tags": list(view.tags),
        "turns": view.turns,
        "pending": view.pending,
        "last": head(view.text, LAST_CHARS),
    }


def receipt_row(receipt: Receipt) -> dict[str, Any]:
    """What became of a message."""
    lines = receipt.lines[:LISTED_RECIPIENTS]
    return {
        "message_id": receipt.message_id,
        "delivered": receipt.delivered,
        "recipients": [{"mysis": line.mysis, "status": line.status, "reason": line.reason} for line in lines],
        "more": len(receipt.lines) - len(lines),
    }


def within(rows: Sequence[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """As many rows as fit into so many characters of JSON, at least one."""
    kept: list[dict[str, Any]] = []
    for row in rows:
        room -= len(json.dumps(row, ensure_ascii=False)) + 2
        if kept and room < 0:
            break
        kept.append(row)
    return kept


def iso(at: int) -> str:
    """µs UTC as ISO 8601."""
    return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat()
