"""Summarises messages without a model: the first request, the last answer, the tools called."""

from __future__ import annotations

from collections.abc import Sequence

from zoea.chain.entries import ContextEntry
from zoea.model.enums import Role
from zoea.text.shorten import head

_CHARS = 300
_TOOLS = 4


def summarise_entries(entries: Sequence[ContextEntry]) -> str:
    """Return what a context began with and said last, or called."""
    first = next((one.content for one in entries if one.role is Role.USER and not one.is_synthetic), "")
    last = next((one.content for one in reversed(entries) if one.role is Role.ASSISTANT and one.content), "")
    parts = [_line(one) for one in (first, last) if one]
    called = list(dict.fromkeys(call.name for one in entries for call in one.calls))
    if called:
        more = f" and {len(called) - _TOOLS} more" if len(called) > _TOOLS else ""
        parts.append(f"calls {', '.join(f'{name}()' for name in called[:_TOOLS])}{more}")
    if not parts and entries:
        parts.append(_line(entries[-1].content))
    return " … ".join(part for part in parts if part)


def _line(text: str) -> str:
    return head(" ".join(text[: 4 * _CHARS].split()), _CHARS)
