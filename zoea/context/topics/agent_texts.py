"""The texts around a role's prompt in the strategy `topics`: identity, rules, output schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_BREAK = "\n"
_GAP = 2 * _BREAK
_IDENTITY = "You are {name}, one of several agents that work together by messages on topics."
_ROLE = "You are {name}. Your role is {role}. You work together with other agents by messages on topics."
_RULES = """\
Nobody reads along and nobody answers questions:
- Do not ask for confirmation, a choice or more information.
- Where something is open, decide it yourself, say what you assumed, and go on.
- {end}"""
_END = "End with a short report of what you did and found."
_END_SCHEMA = "End with the output that the schema below describes."
_SCHEMA = """\
Output schema: your last answer is one JSON object that this JSON Schema accepts, without any other text:
{schema}"""
_PUBLISHED = "It is published on {topic}."
_ITERATION = "This is your turn {number} in this work."


def write_opening(name: str, role: str, *, has_schema: bool, prompt: str) -> str:
    """Return the text before the instructions: the agent's role, and that no person answers.

    One empty line divides it from the instructions, which are `prompt`.
    """
    identity = (_ROLE if role else _IDENTITY).format(name=name, role=role)
    rules = _RULES.format(end=_END_SCHEMA if has_schema else _END)
    return f"{identity}\n\n{rules}{_GAP[len(prompt) - len(prompt.lstrip(_BREAK)) :]}"


def write_ending(schema: Mapping[str, Any] | None, publishes: str, number: int, *, prompt: str) -> str:
    """Return the text after the instructions: the output schema and the turn's number.

    The number stands last, because it changes the text from turn to turn and a provider caches what is before it.
    One empty line divides it from the instructions, which are `prompt`.
    """
    parts = []
    if schema is not None:
        parts.append(_SCHEMA.format(schema=json.dumps(schema, ensure_ascii=False, indent=2)))
        parts += [_PUBLISHED.format(topic=publishes)] if publishes else []
    gap = _GAP[len(prompt) - len(prompt.rstrip(_BREAK)) :] if prompt.strip(_BREAK) else ""
    return gap + _GAP.join([*parts, _ITERATION.format(number=number)])


def write_repair(error: str) -> str:
    """Return the note that asks once for another answer."""
    return (
        f"Your answer does not match the output schema: {error}\n"
        "Answer again with one JSON object that the schema accepts, and nothing else. This is the last try."
    )
