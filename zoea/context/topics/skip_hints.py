"""Hints for validators: criteria that could not be validated and need not be tried again."""

from __future__ import annotations

from collections.abc import Iterable

from zoea.model.topics import TopicMessage

RESULT_TOPIC = "VALIDATION_RESULT"
CANNOT_VALIDATE = "CANNOT_VALIDATE"


def skip_hints(messages: Iterable[TopicMessage]) -> tuple[str, ...]:
    """Return `id: reason` for each criterion with the latest status `CANNOT_VALIDATE`, in order of first mention."""
    latest: dict[str, tuple[str, str]] = {}
    for message in sorted(messages, key=lambda one: one.id):
        if message.topic != RESULT_TOPIC or not message.data:
            continue
        results = message.data.get("criteria_results", message.data.get("criteriaResults"))
        for one in results if isinstance(results, list) else ():
            if isinstance(one, dict) and one.get("id"):
                latest[str(one["id"])] = (str(one.get("status", "")), str(one.get("reason") or "no reason given"))
    return tuple(f"{name}: {reason}" for name, (status, reason) in latest.items() if status == CANNOT_VALIDATE)
