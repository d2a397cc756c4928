"""Selects messages of a topic and renders them as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from zoea.model.topics import TopicMessage
from zoea.settings.topic_source import Selection, TopicSource


class LedgerPositions(Struct, frozen=True):
    """Ledger ids that `since` refers to, of one mysis in one cluster. 0 is the start.

    Attributes:
        last_task_end: The position after its messages when its last answered turn ended; inclusive.
        last_agent_start: The position when its previous turn was first planned; exclusive.
    """

    last_task_end: int = 0
    last_agent_start: int = 0

    def first_id(self, since: int | str | None) -> int:
        """Return the first ledger id that a lower bound allows; a time allows all."""
        match since:
            case "last_task_end":
                return self.last_task_end
            case "last_agent_start":
                return self.last_agent_start + 1
        return 0


def select_messages(
    messages: Iterable[TopicMessage], source: TopicSource, positions: LedgerPositions, *, is_compact: bool = False
) -> tuple[TopicMessage, ...]:
    """Return the messages that a source shows, oldest first. Raw output is never one of them."""
    found = [
        message
        for message in messages
        if message.topic == source.topic
        and source.sender in (None, message.sender)
        and message.may_be_replayed
        and _is_since(message, source.since, positions)
    ]
    found.sort(key=lambda message: message.id)
    selection, most = source.selection, source.most
    if is_compact:
        selection, most = source.compact_selection, source.compact_amount
    return tuple(_cut(found, selection, most))


def _is_since(message: TopicMessage, since: int | str | None, positions: LedgerPositions) -> bool:
    if isinstance(since, int):
        return message.created_at >= since
    return message.id >= positions.first_id(since)


def _cut(found: Sequence[TopicMessage], selection: Selection, most: int | None) -> Sequence[TopicMessage]:
    if most is None:
        return found
    return found[-most:] if selection == "latest" else found[:most]


def render_topic(topic: str, messages: Sequence[TopicMessage]) -> str:
    """Return the block of a topic; empty without messages."""
    if not messages:
        return ""
    return "\n\n".join([f"## Messages from topic: {topic}", *map(render_message, messages)])


def render_message(message: TopicMessage) -> str:
    """Return one message: time and sender, text, and data as indented JSON."""
    at = datetime.fromtimestamp(message.created_at / 1_000_000, UTC)
    head = f"[{at.isoformat(timespec='milliseconds').replace('+00:00', 'Z')}] {message.sender}:"
    return "\n".join(filter(None, (head, render_body(message.text, message.data))))


def render_body(text: str, data: Mapping[str, Any] | None) -> str:
    """Return a message's text, and its data as indented JSON if it has any."""
    shown = f"Data: {json.dumps(data, ensure_ascii=False, indent=2)}" if data else ""
    return "\n".join(filter(None, (text, shown)))
