"""Reads the ledger of topics, with or without a running swarm. Synchronous; fronts call it in a thread."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from zoea.model.enums import MessageKind, SenderKind
from zoea.model.topics import EVERYONE, TopicMessage, TopicSummary, no_such_topic
from zoea.queries.stored_swarm import open_database
from zoea.store import topic_reader

PAGE = 20
"""Messages of one step of `read_messages_after`; one may hold 4 MB."""
_SUBSCRIBERS = """
SELECT s.value AS topic, y.name FROM mysis y JOIN template p ON p.hash = y.template_hash,
  json_each(CASE WHEN json_valid(p.body) THEN p.body ELSE '{}' END, '$.subscribes') s
WHERE y.deleted_at IS NULL ORDER BY y.id
"""


def read_topics(database: Path) -> tuple[TopicSummary, ...]:
    """Read all topics, the one with the newest message first. Raises StoreError."""
    with open_database(database) as reader:
        return topic_reader.read_topics(reader)


def read_subscribers(database: Path) -> dict[str, list[str]]:
    """Read the names of the subscribers of each topic, also of topics without messages. Raises StoreError."""
    subscribers: dict[str, list[str]] = {}
    with open_database(database) as reader:
        for row in reader.execute(_SUBSCRIBERS):
            subscribers.setdefault(row["topic"], []).append(row["name"])
    return subscribers


def read_messages(
    database: Path,
    topic: str = "",
    *,
    limit: int,
    before: int | None = None,
    sender: str = "",
    max_chars: int | None = None,
) -> tuple[TopicMessage, ...]:
    """Read the newest messages of a topic, or of all, oldest first, as `read_newest_messages`.

    Raises:
        UsageError: The topic has no message.
        StoreError: The database cannot be read.
    """
    with open_database(database) as reader:
        messages = topic_reader.read_newest_messages(
            reader, topic, limit=limit, before=before, sender=sender, max_chars=max_chars
        )
        if topic and not messages and before is None and not sender:
            raise no_such_topic(topic, [one.topic for one in topic_reader.read_topics(reader)])
    return messages


def read_messages_after(database: Path, after: int, topic: str = "", *, sender: str = "") -> Iterator[TopicMessage]:
    """Yield the messages after an id, oldest first. Raises StoreError."""
    with open_database(database) as reader:
        while messages := topic_reader.read_messages_after(reader, after, topic, limit=PAGE, sender=sender):
            yield from messages
            after = messages[-1].id


def read_newest_id(database: Path) -> int:
    """Read the id of the newest message of any topic; 0 if there is none. Raises StoreError."""
    with open_database(database) as reader:
        messages = topic_reader.read_newest_messages(reader, limit=1)
    return messages[0].id if messages else 0


def read_topic_message(database: Path, message_id: int) -> str:
    """Read a message as one text, with its topic and sender. Empty if it does not exist. Raises StoreError."""
    with open_database(database) as reader:
        row = reader.execute(f"{topic_reader.TOPIC_MESSAGE} WHERE id = ?", (message_id,)).fetchone()
    if row is None:
        return ""
    message = topic_reader.topic_message(row)
    return f"{message.topic} ({format_sender(message.sender)}): {format_body(message)}"


def format_sender(sender: str) -> str:
    """Return who published a message, for the person who commands: `you`, or a name."""
    return "you" if sender == SenderKind.COMMANDER else sender


def format_body(message: TopicMessage, most: int | None = None) -> str:
    """Format the text of a message and its data as indented JSON. It has at most `most` characters.

    Data that is longer in one line is not indented, because that takes a second for a million values.
    """
    data = json.dumps(message.data, ensure_ascii=False) if message.data else ""
    if data and (most is None or len(data) <= most):
        data = json.dumps(message.data, ensure_ascii=False, indent=2)
    return "\n".join(part for part in (message.text, data) if part)[:most]


def format_origin(message: TopicMessage) -> str:
    """Format topic, sender, and the receiver if it is not for all."""
    to = "" if message.receiver == EVERYONE else f" to {message.receiver}"
    raw = ", raw" if message.is_raw else ""
    return f"{message.topic}  {format_sender(message.sender)}{to}{raw}"


def describe_origin(kind: MessageKind | None, topic: str) -> str:
    """Describe how a prompt came, up to the word before its sender: `broadcast from`."""
    if kind is MessageKind.TOPIC:
        return f"topic {topic} from"
    return "broadcast from" if kind is MessageKind.BROADCAST else "from"
