"""Writes the ledger of topics. A message, its deliveries and its state snapshot are one op."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from zoea.context import FrozenTurn
from zoea.context.topics.state_snapshot import describe_state, restore_state
from zoea.context.topics.topic_block import render_body
from zoea.model.enums import DeliveryMode, MessageKind, MysisState, SenderKind
from zoea.model.errors import MysisMissing, RateExceeded, UsageError
from zoea.model.topics import (
    EVERYONE,
    METRICS_TOPIC,
    SNAPSHOT_SENDER,
    SNAPSHOT_TOPIC,
    STATE_TOPICS,
    SWARM_CLUSTER,
    PublishReceipt,
    TopicMessage,
)
from zoea.model.values import Delivery, ReceiptLine, Sender
from zoea.store.topic_reader import TOPIC_MESSAGE, topic_message
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import message_ops, row_values
from zoea.swarm.rules import HOUR, SECOND
from zoea.text import clean, estimate
from zoea.text.large_json import MAX_DEPTH, MAX_VALUES, count_values, is_deep
from zoea.text.sentences import count_of

NOT_SUBSCRIBED = "not subscribed"
_INSERT = """
INSERT INTO topic_message(cluster_id, topic, sender_kind, sender_id, sender, receiver, content, data, is_raw, hop,
  turn_id, idempotency_key, created_at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)
"""
_LAST_SNAPSHOT = (
    f"{TOPIC_MESSAGE} WHERE cluster_id = ? AND topic = '{SNAPSHOT_TOPIC}' AND sender_kind = 'zoea'"
    " ORDER BY id DESC LIMIT 1"
)
_CHANGES = (
    f"{TOPIC_MESSAGE} WHERE cluster_id = ? AND topic IN ({row_values.marks(STATE_TOPICS)}) AND id >= ?"
    " AND NOT is_raw ORDER BY id"
)
_DELIVERED = """
SELECT d.id, d.state, d.reason, y.name FROM message g JOIN delivery d ON d.message_id = g.id
JOIN mysis y ON y.id = d.mysis_id WHERE g.topic_message_id = ? ORDER BY d.id
"""


class OutgoingTopicMessage(Struct, frozen=True):
    """A message to publish; `data` is a JSON object as text, or None.

    Attributes:
        turn_id: The turn of the mysis that publishes it.
        hop: 0 from a person; else 1 more than the hop of that turn.
    """

    topic: str
    text: str
    data: str | None
    sender: Sender
    receiver: str = EVERYONE
    is_raw: bool = False
    hop: int = 0
    turn_id: int | None = None
    idempotency_key: str = ""
    cluster_id: int = SWARM_CLUSTER

    @property
    def body(self) -> str:
        """The text of the prompt of each subscriber."""
        return render_body(self.text, None if self.data is None else json.loads(self.data))


Subscribers = Callable[[str], Iterable[int]]
"""Ids of the myses that subscribe to a topic."""


class PublishLimits(Struct, frozen=True):
    """Messages that a mysis may publish in an hour, and the most hops."""

    per_hour: int
    max_hops: int


class PublishResult(Struct, frozen=True):
    """The receipt, and the deliveries to pass to the runners, in order."""

    receipt: PublishReceipt
    deliveries: tuple[Delivery, ...] = ()


MAX_RAW = 4_000_000
"""Characters of the text and data of a raw message, which no request has to hold."""


def checked_data(data: Mapping[str, Any] | None) -> str | None:
    """Return data as it will be stored; None for none.

    Raises UsageError where JSON cannot hold it, or fronts and prompts cannot show it.
    """
    if not data:
        return None
    if is_deep(data):
        raise UsageError(
            f"the data is nested more than {MAX_DEPTH} levels deep", hint="publish it with fewer levels, or as a text"
        )
    if count_values(data, MAX_VALUES) > MAX_VALUES:
        raise UsageError(f"the data holds more than {MAX_VALUES:,} values", hint="publish it in parts, or as a text")
    try:
        return clean(json.dumps(data, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the data is not a JSON object: {error}") from None


def check_size(outgoing: OutgoingTopicMessage, room: int) -> None:
    """Raise UsageError for a message that is empty, or longer than `room` tokens."""
    if not outgoing.text.strip() and outgoing.data is None:
        raise UsageError("a message needs a text or data", hint="say what happened, or give a JSON object")
    if outgoing.is_raw:
        if (size := len(outgoing.text) + len(outgoing.data or "")) > MAX_RAW:
            raise UsageError(
                f"a raw message of {size:,} characters is longer than {MAX_RAW:,}", hint="publish it in parts"
            )
        return
    # Formatted, it is longer.
    tokens = estimate.tokens(outgoing.text) + estimate.tokens(outgoing.data or "")
    if tokens <= room:
        tokens = estimate.tokens(outgoing.body)
    if tokens > room:
        raise UsageError(
            f"a message of about {tokens:,} tokens fits in no request: that has {room:,}",
            hint="shorten it, publish it in parts, or raise the budget of its readers: context_strategy.max_tokens of"
            " the strategy topics, else budget.token_budget_per_agent",
        )


def publish(
    conn: WriterConnection, outgoing: OutgoingTopicMessage, subscribers: Subscribers, limits: PublishLimits
) -> PublishResult:
    """Store a message, its deliveries, and the state snapshot if it changes the state.

    Raises MysisMissing for an unknown receiver, and RateExceeded.
    """
    if outgoing.idempotency_key:
        row = conn.execute(
            "SELECT id, topic FROM topic_message WHERE idempotency_key = ?", (outgoing.idempotency_key,)
        ).fetchone()
        if row is not None:
            return PublishResult(PublishReceipt(row["id"], row["topic"], _delivered(conn, row["id"])))
    outgoing = replace(outgoing, receiver=_check_receiver(conn, outgoing.receiver))
    _check_rate(conn, outgoing, limits.per_hour)
    message_id = _insert(conn, outgoing, outgoing.sender.kind)
    lines, deliveries = _deliver(conn, message_id, outgoing, subscribers, limits.max_hops)
    snapshot_id = None
    if outgoing.topic in STATE_TOPICS and not outgoing.is_raw:
        # The last snapshot holds all before this message, because each is folded in the op that stores it.
        snapshot_id, told = publish_snapshot(
            conn, outgoing.cluster_id, subscribers, limits.max_hops, outgoing.hop, since=message_id
        )
        deliveries += told
    receipt = PublishReceipt(message_id, outgoing.topic, tuple(lines), snapshot_id)
    return PublishResult(receipt, tuple(deliveries))


def publish_snapshot(
    conn: WriterConnection, cluster_id: int, subscribers: Subscribers, max_hops: int, hop: int = 0, since: int = 0
) -> tuple[int | None, list[Delivery]]:
    """Publish the state of the ledger, unless the last snapshot already says the same.

    Args:
        since: The first message that the last snapshot may lack; all after that snapshot if 0.
    """
    last = conn.execute(_LAST_SNAPSHOT, (cluster_id,)).fetchone()
    before = () if last is None else (topic_message(last),)
    since = since or (before[0].id if before else 0)
    changes = conn.execute(_CHANGES, (cluster_id, *STATE_TOPICS, since))
    state = restore_state(chain(before, map(topic_message, changes)))
    if state == (before[0].data if before else None) or (not state and not before):
        return None, []
    outgoing = OutgoingTopicMessage(
        SNAPSHOT_TOPIC,
        describe_state(state),
        checked_data(state),
        Sender(SenderKind.CLIENT, None, SNAPSHOT_SENDER),
        hop=hop,
        cluster_id=cluster_id,
    )
    message_id = _insert(conn, outgoing, "zoea")
    return message_id, _deliver(conn, message_id, outgoing, subscribers, max_hops)[1]


def _insert(conn: WriterConnection, outgoing: OutgoingTopicMessage, sender_kind: str) -> int:
    message_id = conn.insert(
        _INSERT,
        (
            outgoing.cluster_id,
            outgoing.topic,
            sender_kind,
            outgoing.sender.id,
            outgoing.sender.name or message_ops.TO_COMMANDER,
            outgoing.receiver,
            outgoing.text,
            outgoing.data,
            outgoing.is_raw,
            outgoing.hop,
            outgoing.turn_id,
            outgoing.idempotency_key or None,
            conn.now(),
        ),
    )
    conn.emit("topic.published", outgoing.sender.id, topic_message=message_id, hop=outgoing.hop)
    return message_id


def _deliver(
    conn: WriterConnection,
    topic_message_id: int,
    outgoing: OutgoingTopicMessage,
    subscribers: Subscribers,
    max_hops: int,
) -> tuple[list[ReceiptLine], list[Delivery]]:
    """Deliver a message to its subscribers but its sender. A stopped one reads it once it runs again."""
    if not _can_prompt(outgoing):
        return [], []
    living = _living(conn, [one for one in subscribers(outgoing.topic) if one != outgoing.sender.id])
    addressed = [row for row in living if outgoing.receiver in (EVERYONE, row["name"])]
    if not addressed:
        skipped = [] if outgoing.receiver == EVERYONE else [ReceiptLine(outgoing.receiver, "skipped", NOT_SUBSCRIBED)]
        return skipped, []
    message = message_ops.OutgoingMessage(
        outgoing.body,
        outgoing.sender,
        DeliveryMode.QUEUE,
        outgoing.hop,
        topic=outgoing.topic,
        topic_message_id=topic_message_id,
    )
    message_id = message_ops.store_message(conn, MessageKind.TOPIC, message, None)
    lines, deliveries = [], []
    for row in addressed:
        delivery = message_ops.deliver(conn, message_id, row["id"], message, MessageKind.TOPIC)
        deliveries.append(delivery)
        status, reason = message_ops.arrival_status(row, outgoing.hop, max_hops), ""
        if not MysisState(row["state"]).accepts_messages:
            status, reason = "waiting", row["state"]
        lines.append(ReceiptLine(row["name"], status, reason, delivery.id))
    return lines, deliveries


def _can_prompt(outgoing: OutgoingTopicMessage) -> bool:
    """Return whether a message may be a prompt. Metrics may not: each turn makes more of them."""
    shown = TopicMessage(0, outgoing.cluster_id, outgoing.topic, "", "", is_raw=outgoing.is_raw)
    return shown.may_be_replayed and outgoing.topic != METRICS_TOPIC


def _living(conn: WriterConnection, mysis_ids: list[int]) -> list[sqlite3.Row]:
    if not mysis_ids:
        return []
    where = f"deleted_at IS NULL AND id IN ({row_values.marks(mysis_ids)})"
    return conn.execute(f"SELECT {message_ops.RECIPIENT} FROM mysis WHERE {where} ORDER BY id", mysis_ids).fetchall()


def _check_receiver(conn: WriterConnection, receiver: str) -> str:
    """Return the receiver as its name is written. Raises MysisMissing."""
    receiver = receiver.strip() or EVERYONE
    if receiver.casefold() == EVERYONE:
        return EVERYONE
    row = conn.execute("SELECT name FROM mysis WHERE deleted_at IS NULL AND name = ?", (receiver,)).fetchone()
    if row is None:
        raise MysisMissing(
            f"there is no mysis {receiver!r:.60}", hint="leave the receiver out to reach all subscribers"
        )
    return str(row["name"])


def _check_rate(conn: WriterConnection, outgoing: OutgoingTopicMessage, per_hour: int) -> None:
    if outgoing.sender.kind is not SenderKind.MYSIS:
        return
    if per_hour <= 0:
        raise RateExceeded("the settings let no mysis publish", hint="go on with your own work")
    now = conn.now()
    row = conn.execute(
        "SELECT created_at FROM topic_message WHERE sender_id = ? AND created_at > ? AND created_at <= ?"
        " ORDER BY created_at DESC LIMIT 1 OFFSET ?",
        (outgoing.sender.id, now - HOUR, now, per_hour - 1),
    ).fetchone()
    if row is not None:
        seconds = max(1, (row["created_at"] + HOUR - now) // SECOND)
        raise RateExceeded(
            f"you have published {count_of(per_hour, 'message')} within an hour; "
            f"try again in {count_of(seconds, 'second')}",
            hint="go on with your own work meanwhile",
        )


def _delivered(conn: WriterConnection, topic_message_id: int) -> tuple[ReceiptLine, ...]:
    """Return the lines of a message that was published before."""
    return tuple(
        ReceiptLine(row["name"], "delivered" if row["state"] == "pending" else row["state"], row["reason"], row["id"])
        for row in conn.execute(_DELIVERED, (topic_message_id,))
    )


_NEWEST = "SELECT coalesce(max(id), 0) FROM topic_message WHERE cluster_id = ?"
_STORED = "SELECT last_task_end, last_agent_start FROM topic_cursor WHERE mysis_id = ? AND cluster_id = ?"
_BEGUN = """
INSERT INTO topic_cursor(mysis_id, cluster_id, last_agent_start) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET last_agent_start = ?3
"""
_ENDED = """
INSERT INTO topic_cursor(mysis_id, cluster_id, last_task_end) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET last_task_end = ?3
"""
_TRIGGERS = """
SELECT p.id, p.topic FROM message g JOIN topic_message p ON p.id = g.topic_message_id WHERE g.id IN ({marks})
ORDER BY p.id
"""


def begin_turn(conn: WriterConnection, frozen: FrozenTurn) -> FrozenTurn:
    """Return a turn with its places in the ledger, and store where it begins.

    A turn of another strategy than `topics` stays as it is.
    """
    rules = frozen.topics
    if rules is None:
        return frozen
    until = _newest_id(conn, rules.cluster_id)
    row = conn.execute(_STORED, (frozen.mysis_id, rules.cluster_id)).fetchone() or (0, 0)
    conn.execute(_BEGUN, (frozen.mysis_id, rules.cluster_id, until))
    return replace(frozen, topics=replace(rules, until=until, last_task_end=row[0], last_agent_start=row[1]))


def note_triggers(conn: WriterConnection, frozen: FrozenTurn, message_ids: tuple[int, ...]) -> FrozenTurn:
    """Return a turn with the ledger messages among the prompts that open it."""
    if frozen.topics is None:
        return frozen
    rows = conn.execute(_TRIGGERS.format(marks=row_values.marks(message_ids)), message_ids).fetchall()
    return replace(frozen, topics=replace(frozen.topics, triggers=tuple([(row[0], row[1]) for row in rows])))


def end_task(conn: WriterConnection, mysis_id: int, cluster_id: int = SWARM_CLUSTER) -> None:
    """Store that an answered turn ended after all that is in the ledger now."""
    conn.execute(_ENDED, (mysis_id, cluster_id, _newest_id(conn, cluster_id) + 1))


def _newest_id(conn: WriterConnection, cluster_id: int) -> int:
    newest: int = conn.execute(_NEWEST, (cluster_id,)).fetchone()[0]
    return newest
