"""Rows of topics and their messages, for a mysis and for MCP clients."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from zoea.model.topics import EVERYONE, TopicMessage, TopicSummary, check_topic, no_such_topic
from zoea.tools.builtin.answer_size import ROOM, size, start_of, within
from zoea.tools.builtin.arguments import ReadTopicArguments
from zoea.tools.builtin.memory_tools import iso_time

Row = dict[str, Any]
ReadTopics = Callable[[], Awaitable[tuple[TopicSummary, ...]]]
ReadTopic = Callable[[str, int, int | None], Awaitable[tuple[TopicMessage, ...]]]
_NOTHING = "No message was published yet."


async def read_topic_rows(given: ReadTopicArguments, read_topics: ReadTopics, read_topic: ReadTopic) -> Row:
    """Make the answer of `zoea_read_topic`. Raises UsageError for a topic without messages."""
    if not given.topic:
        topics = within(map(_topic_row, await read_topics()), ROOM)
        return {"topics": topics, "messages": []} | ({} if topics else {"hint": _NOTHING})
    topic = check_topic(given.topic)
    messages = await read_topic(topic, given.limit + 1, given.before_id)
    if not messages and given.before_id is None:
        raise no_such_topic(topic, [one.topic for one in await read_topics()])
    newest = messages[-given.limit :]
    rows = within((_message_row(one) for one in reversed(newest)), ROOM)[::-1]
    if newest and not rows:
        rows = [_cut_row(newest[-1])]
    answer: Row = {"topics": [], "messages": rows}
    if rows and (len(rows) < len(newest) or len(newest) < len(messages)):
        answer["next_before_id"] = rows[0]["id"]
    return answer


def _topic_row(topic: TopicSummary) -> Row:
    return {
        "topic": topic.topic,
        "messages": topic.messages,
        "newest_id": topic.newest_id,
        "newest_at": iso_time(topic.newest_at),
    }


def _message_row(message: TopicMessage) -> Row:
    row: Row = {
        "id": message.id,
        "topic": message.topic,
        "sender": message.sender,
        "created_at": iso_time(message.created_at),
        "text": message.text,
    }
    if message.receiver != EVERYONE:
        row["receiver"] = message.receiver
    return {**row, "data": message.data} if message.data else row


def _cut_row(message: TopicMessage) -> Row:
    """Make the row of a long message: the beginning of its text and data."""
    row = _message_row(message)
    data = row.pop("data", None)
    whole = message.text if data is None else f"{message.text}\n{json.dumps(data, ensure_ascii=False)}"
    return {**row, "text": start_of(whole, ROOM - size({**row, "text": ""}) - 20), "is_cut": True}
