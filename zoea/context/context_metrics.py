"""The sizes of a request as numbers, for observation. Pure; it holds no text of any message."""

from __future__ import annotations

from typing import Any

from zoea.context.explain import explain_data
from zoea.context.plan_values import Plan

_PACK_KEYS = ("id", "section", "priority", "status", "variant", "reason", "chars", "tokens", "truncated")


def measure_context(plan: Plan) -> dict[str, Any]:
    """Return characters and tokens in total, by section and by pack, with budget and truncation."""
    data = explain_data(plan)
    sections = data["sections"]
    return {
        "chars": sum(section["chars"] for section in sections.values()),
        "tokens": sum(section["tokens"] for section in sections.values()),
        "messages": data["messages"],
        "sections": sections,
        "packs": [{key: pack[key] for key in _PACK_KEYS} for pack in data["packs"]],
        "budget": data["budget"],
        "truncation": data["truncation"],
    }
