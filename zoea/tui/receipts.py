"""What became of a message, in one line. Pure."""

from __future__ import annotations

from zoea.model.values import Receipt


def receipt_line(receipt: Receipt) -> str:
    """What became of a message at once."""
    words = [f"delivered to {receipt.delivered}"]
    for status in ("started", "waiting", "skipped"):
        count = sum(1 for line in receipt.lines if line.status == status)
        words += [f"{count} {status}"] if count else []
    return " · ".join(words)
