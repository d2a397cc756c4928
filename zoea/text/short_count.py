"""Numbers in few characters."""

from __future__ import annotations


def short_count(count: int) -> str:
    """Format a count: 999, 1k, 1.1k, 6.2k, 50k, 1.2M."""
    if count < 1000:
        return str(count)
    if count < 999_950:
        return f"{count / 1000:.1f}".removesuffix(".0") + "k"
    return f"{count / 1_000_000:.1f}".removesuffix(".0") + "M"
