"""The line above a prompt that says for whom it is and who sent it.

A memory has the line of the planning rules 1: none for the commander, else `[message from mysis ann]`. Under the
rules 2 a mysis learns its own name there: `[to bob, from mysis ann]`, `[broadcast to bob, from the commander]`,
`[topic PLAN_READY to bob, from mysis ann]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec.structs import replace

from zoea.model.enums import Role, Source
from zoea.model.values import Memory

_PLAIN = re.compile(r"\[(message|broadcast) from (.*)\]", re.DOTALL)
_TOPIC = re.compile(r"\[(topic [^,]*), from (.*)\]", re.DOTALL)


def name_label(memory: Memory, name: str) -> str:
    """Return the line of a prompt that names its recipient."""
    if memory.source is Source.TOPIC and (topic := _TOPIC.fullmatch(memory.label)):
        return f"[{topic[1]} to {name}, from {topic[2]}]"
    match = _PLAIN.fullmatch(memory.label)
    is_broadcast = memory.source is Source.BROADCAST if match is None else match[1] == "broadcast"
    sender = "the commander" if match is None else match[2]
    return f"[{'broadcast ' if is_broadcast else ''}to {name}, from {sender}]"


def with_labels(memories: Iterable[Memory], name: str) -> tuple[Memory, ...]:
    """Let prompts among memories name their recipient; change nothing where `name` is empty."""
    if not name:
        return tuple(memories)
    return tuple(replace(one, label=name_label(one, name)) if one.role is Role.USER else one for one in memories)
