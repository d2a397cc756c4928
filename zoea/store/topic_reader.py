"""Reads the ledger of topics: topics with their newest message, and messages in order."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator

from zoea.model.topics import SWARM_CLUSTER, TopicMessage, TopicSummary
from zoea.store.database_file import convert_row

TOPIC_MESSAGE = (
    "SELECT id, cluster_id, topic, sender, content AS text, data, receiver, created_at, is_raw FROM topic_message"
)
SHOWN_CHARS = 300
_TOPICS = f"""
SELECT n.topic, n.messages, m.id AS newest_id, m.sender AS newest_sender, m.created_at AS newest_at,
  substr(coalesce(nullif(m.content, ''), m.data, ''), 1, {SHOWN_CHARS}) AS newest_text
FROM (SELECT topic, count(*) AS messages, max(id) AS newest FROM topic_message WHERE cluster_id = ? GROUP BY topic) n
JOIN topic_message m ON m.id = n.newest ORDER BY m.id DESC
"""
_NEWEST = f"{TOPIC_MESSAGE} WHERE cluster_id = :cluster {{}} ORDER BY id DESC LIMIT :limit"
_NEXT = f"{TOPIC_MESSAGE} WHERE cluster_id = :cluster AND id > :after {{}} ORDER BY id LIMIT :limit"
_OF_SOURCE = f"""{TOPIC_MESSAGE} WHERE cluster_id = :cluster AND topic = :topic AND id BETWEEN :first AND :until
AND created_at >= :since AND (:sender IS NULL OR sender = :sender) AND NOT is_raw ORDER BY id"""


def topic_message(row: sqlite3.Row) -> TopicMessage:
    """Convert a row of `TOPIC_MESSAGE`."""
    return convert_row(TopicMessage, row, data=None if row["data"] is None else json.loads(row["data"]))


def read_topics(connection: sqlite3.Connection, cluster_id: int = SWARM_CLUSTER) -> tuple[TopicSummary, ...]:
    """Read all topics, the one with the newest message first."""
    return tuple(convert_row(TopicSummary, row) for row in connection.execute(_TOPICS, (cluster_id,)))


def read_newest_messages(
    connection: sqlite3.Connection,
    topic: str = "",
    *,
    limit: int,
    before: int | None = None,
    sender: str = "",
    cluster_id: int = SWARM_CLUSTER,
    max_chars: int | None = None,
) -> tuple[TopicMessage, ...]:
    """Read the newest messages of a topic, or of all, oldest first.

    Args:
        before: An id to page back from.
        max_chars: Read no more messages than hold this many characters, but two in any case.
    """
    messages: list[TopicMessage] = []
    chars = 0
    for row in _rows(connection, _NEWEST, topic, sender, cluster_id, limit, before=before):
        messages.append(topic_message(row))
        chars += len(row["text"]) + len(row["data"] or "")
        if max_chars is not None and chars > max_chars and len(messages) > 1:
            break
    return tuple(reversed(messages))


def read_messages_after(
    connection: sqlite3.Connection,
    after: int,
    topic: str = "",
    *,
    limit: int,
    sender: str = "",
    cluster_id: int = SWARM_CLUSTER,
) -> tuple[TopicMessage, ...]:
    """Read the messages after an id, oldest first."""
    return tuple(map(topic_message, _rows(connection, _NEXT, topic, sender, cluster_id, limit, after=after)))


def iterate_topic(
    connection: sqlite3.Connection,
    topic: str,
    *,
    until: int,
    first: int = 0,
    since: int = 0,
    sender: str | None = None,
    newest_first: bool = False,
    cluster_id: int = SWARM_CLUSTER,
) -> Iterator[TopicMessage]:
    """Yield the messages of a topic, but no raw output.

    Their ids are from `first` to `until`, and their times at least `since`, µs.
    """
    values = {"cluster": cluster_id, "topic": topic, "first": first, "until": until, "since": since, "sender": sender}
    yield from map(topic_message, connection.execute(f"{_OF_SOURCE}{' DESC' if newest_first else ''}", values))


def _rows(
    connection: sqlite3.Connection,
    query: str,
    topic: str,
    sender: str,
    cluster_id: int,
    limit: int,
    **bounds: int | None,
) -> sqlite3.Cursor:
    values = {"cluster": cluster_id, "limit": limit, "topic": topic, "sender": sender, **bounds}
    parts: Iterable[str] = (
        "AND topic = :topic" if topic else "",
        "AND sender = :sender" if sender else "",
        "AND id < :before" if bounds.get("before") is not None else "",
    )
    return connection.execute(query.format(" ".join(filter(None, parts))), values)
