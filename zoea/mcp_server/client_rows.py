"""What clients of the MCP server see of myses, receipts and times, and how much of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from zoea.model.values import MysisView, Receipt
from zoea.text.shorten import head
from zoea.tools.builtin.answer_size import shown_tags, within
from zoea.tools.builtin.schemas import ROOM

LISTED_RECIPIENTS = 50
LAST_CHARS = 200


def mysis_row(view: MysisView) -> dict[str, Any]:
    """A mysis as clients see it."""
    return {
        "id": view.id,
        "name": view.name,
        "state": view.state.value,
        "activity": view.activity.value,
        "tags": shown_tags(view.tags),
        "turns": view.turns,
        "pending": view.pending,
        "last": head(view.text, LAST_CHARS),
    }


def receipt_row(receipt: Receipt) -> dict[str, Any]:
    """What became of a message."""
    lines = receipt.lines[:LISTED_RECIPIENTS]
    rows = within(({"mysis": line.mysis, "status": line.status, "reason": line.reason} for line in lines), ROOM)
    return {
        "message_id": receipt.message_id,
        "delivered": receipt.delivered,
        "recipients": rows,
        "more": len(receipt.lines) - len(rows),
    }


def iso(at: int) -> str:
    """µs UTC as ISO 8601."""
    return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat()
