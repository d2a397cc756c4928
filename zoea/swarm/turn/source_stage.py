"""Reads what the strategy `topics` needs of the ledger before the first plan."""

from __future__ import annotations

import sqlite3

from zoea.context import CriteriaHints, SourceMessages, StoredAnswer
from zoea.context.topics.skip_hints import RESULT_TOPIC, skip_hints
from zoea.context.topics.topic_block import LedgerPositions, render_message, render_topic, select_messages
from zoea.context.topics.topic_rules import read_source
from zoea.model.topics import RAW_TOPIC, SNAPSHOT_TOPIC, TopicMessage
from zoea.settings.topic_source import TopicSource
from zoea.store.topic_reader import iterate_topic
from zoea.swarm.turn.summary_stage import OpenedTurnFacts


async def read_source_messages(facts: OpenedTurnFacts, need: SourceMessages) -> StoredAnswer:
    """Answer the full and the compact form of a source."""
    async with facts.services.store.search_reader() as reader:
        return await reader.run(lambda connection: render_source(connection, need, facts.frozen.max_chars))


def render_source(connection: sqlite3.Connection, need: SourceMessages, max_chars: int) -> StoredAnswer:
    """Read and render both forms, each at least up to `max_chars` characters."""
    source = read_source(need.source)
    positions = LedgerPositions(need.last_task_end, need.last_agent_start)
    forms = [
        select_messages(
            _read_enough(connection, need, source, positions, max_chars, is_compact=is_compact),
            source,
            positions,
            is_compact=is_compact,
        )
        for is_compact in (False, True)
    ]
    full, compact = (render_topic(source.topic, messages) for messages in forms)
    return StoredAnswer.of({"full": full, "compact": compact, "messages": len(forms[0])})


def _read_enough(
    connection: sqlite3.Connection,
    need: SourceMessages,
    source: TopicSource,
    positions: LedgerPositions,
    max_chars: int,
    *,
    is_compact: bool,
) -> list[TopicMessage]:
    """Read the messages that a form may show, until no request could hold more."""
    selection, most = source.selection, source.most
    if is_compact:
        selection, most = source.compact_selection, source.compact_amount
    if source.topic == RAW_TOPIC:
        return []
    # A state that opens a turn replaces those before it.
    superseded = max(need.without, default=0) if source.topic == SNAPSHOT_TOPIC else 0
    enough: list[TopicMessage] = []
    chars = 0
    messages = iterate_topic(
        connection,
        source.topic,
        until=need.until,
        first=max(positions.first_id(source.since), superseded + 1),
        since=source.since if isinstance(source.since, int) else 0,
        sender=source.sender,
        newest_first=selection == "latest",
        cluster_id=need.cluster_id,
    )
    for message in messages:
        if message.id in need.without:
            continue
        enough.append(message)
        chars += len(render_message(message))
        if len(enough) == most or chars > max_chars:
            break
    return enough


async def read_criteria_hints(facts: OpenedTurnFacts, need: CriteriaHints) -> StoredAnswer:
    """Answer the criteria that no validator could validate."""

    def read(connection: sqlite3.Connection) -> StoredAnswer:
        results = iterate_topic(connection, RESULT_TOPIC, until=need.until, cluster_id=need.cluster_id)
        return StoredAnswer.of(list(skip_hints(results)))

    async with facts.services.store.search_reader() as reader:
        return await reader.run(read)
