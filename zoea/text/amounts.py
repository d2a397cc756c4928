"""Formats dollars and counts alike for the cockpit, the command line and errors."""

from __future__ import annotations

_MICROS = 1_000_000
_CENT = _MICROS // 100


def format_dollars(micros: float | None) -> str:
    """Format millionths of a dollar: $1,204.50, $0.03, $0.044, $0.0123, $0.0004; `$?` if unknown.

    Amounts below a dollar keep the digits of a part of a cent, so that small ones can be compared.
    """
    if micros is None:
        return "$?"
    if abs(micros) >= _MICROS or not round(micros) % _CENT:
        return f"${micros / _MICROS:,.2f}"
    digits = 4 if abs(micros) >= _CENT // 100 else 6
    whole, _, part = f"{micros / _MICROS:.{digits}f}".partition(".")
    return f"${whole}.{part.rstrip('0'):0<2}"


def short_count(count: int) -> str:
    """Format a count: 999, 1k, 1.1k, 6.2k, 50k, 1.2M."""
    if count < 1000:
        return str(count)
    if count < 999_950:
        return f"{count / 1000:.1f}".removesuffix(".0") + "k"
    return f"{count / 1_000_000:.1f}".removesuffix(".0") + "M"
