"""The inbox: messages, stored once, and a delivery row for each recipient.

Whether a mysis accepts a message is decided in the op that stores it, so that no message
passes a stop.
"""

from __future__ import annotations

import json
import sqlite3
from shlex import quote

from msgspec import Struct

from zoea.model.enums import DeliveryMode, DeliveryState, MessageKind, MysisState, Outcome, SenderKind
from zoea.model.errors import NoRecipients, RateExceeded, StateRefused, UsageError
from zoea.model.values import Delivery, Receipt, ReceiptLine, Recipients, Sender
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import mysis_ops, row_values
from zoea.swarm.rules import HOUR, SECOND
from zoea.text import clean, estimate
from zoea.text.sentences import count_of

NOBODY = "no myses available to receive broadcast (all stopped or errored)"
TO_COMMANDER = "commander"
_HOLD = "SELECT 1 FROM setting WHERE key = 'hold' AND json_extract(value, '$.on')"
RECIPIENT = f"id, name, state, held OR EXISTS ({_HOLD}) AS is_held"
"""Columns of a mysis that `arrival_status` reads, and its name."""


class OutgoingMessage(Struct, frozen=True):
    """A message to store: text, sender, and how it joins a running turn."""

    text: str
    sender: Sender
    mode: DeliveryMode
    hop: int = 0
    idempotency_key: str = ""
    is_task: bool = False
    topic: str = ""
    topic_message_id: int | None = None
    context: str = ""
    """What it overrides for the turn that it opens, as `PromptContext.to_json` writes it."""


class SendResult(Struct, frozen=True):
    """The receipt, and the deliveries to pass to the runners."""

    receipt: Receipt
    deliveries: tuple[Delivery, ...]


def checked(text: str, room: int) -> str:
    """Return the text as it will be stored. Raises UsageError where it is empty or too long.

    Args:
        room: Tokens of a whole request; a longer message would only end its turn.
    """
    text = clean(text)
    tokens = estimate.tokens(text)
    if tokens > room:
        raise UsageError(
            f"a message of about {tokens:,} tokens fits in no request: that has {room:,}",
            hint="shorten it, say it in parts, or raise budget.token_budget_per_agent",
        )
    if not text.strip():
        raise UsageError("a message cannot be empty", hint="write what the mysis should do or know")
    return text


def send(conn: WriterConnection, mysis_id: int, outgoing: OutgoingMessage, max_hops: int, per_hour: int) -> SendResult:
    """Store a direct message and its delivery. Raises StateRefused, RateExceeded."""
    earlier = _known(conn, outgoing.idempotency_key)
    if earlier is not None:
        return earlier
    row = conn.execute(f"SELECT {RECIPIENT}, deleted_at FROM mysis WHERE id = ?", (mysis_id,)).fetchone()
    state = MysisState(row["state"])
    if row["deleted_at"] is not None or not state.accepts_messages:
        if row["deleted_at"] is not None:
            raise StateRefused("mysis deleted", hint="`zoea undelete` lists deleted myses and restores them")
        hint = f"`zoea start {quote(row['name'])}`, or r in the cockpit, relaunches it; it takes messages then"
        raise StateRefused(f"mysis {state} - press 'r' to relaunch", hint=hint)
    _check_rate(conn, outgoing, MessageKind.DIRECT, per_hour)
    message_id = store_message(conn, MessageKind.DIRECT, outgoing, None)
    delivery = deliver(conn, message_id, mysis_id, outgoing, MessageKind.DIRECT)
    if outgoing.is_task:
        mysis_ops.give_task(conn, mysis_id, outgoing.text, message_id)
    status = arrival_status(row, outgoing.hop, max_hops)
    return SendResult(Receipt(message_id, (ReceiptLine(row["name"], status, delivery_id=delivery.id),)), (delivery,))


def tell_commander(conn: WriterConnection, outgoing: OutgoingMessage, per_hour: int) -> SendResult:
    """Store a message of a mysis to the commander; it has no delivery. Raises RateExceeded."""
    _check_rate(conn, outgoing, MessageKind.DIRECT, per_hour)
    message_id = store_message(conn, MessageKind.DIRECT, outgoing, json.dumps({"to": TO_COMMANDER}))
    return SendResult(Receipt(message_id, (ReceiptLine(TO_COMMANDER, "delivered"),)), ())


def _refuse_audience(to: Recipients, *, has_match: bool) -> NoRecipients:
    """Build the refusal of a broadcast that no mysis can receive."""
    if to.is_everybody:
        return NoRecipients(NOBODY, hint="start or relaunch a mysis first")
    if has_match:
        return NoRecipients("all myses that match are stopped or errored", hint="start or relaunch one first")
    parts = [*to.names, *([f"tag {to.tag!r:.60}"] if to.tag else []), *([f"state {to.state}"] if to.state else [])]
    return NoRecipients(f"no mysis matches {' and '.join(parts)}", hint="`zoea list` shows all myses")


def broadcast(
    conn: WriterConnection, outgoing: OutgoingMessage, to: Recipients, max_hops: int, per_hour: int
) -> SendResult:
    """Store a broadcast and deliver it to each mysis that accepts messages. Raises NoRecipients, RateExceeded."""
    earlier = _known(conn, outgoing.idempotency_key)
    if earlier is not None:
        return earlier
    _check_rate(conn, outgoing, MessageKind.BROADCAST, per_hour)
    audience = find_audience(conn, outgoing.sender, to)
    if not any(MysisState(row["state"]).accepts_messages for row in audience):
        raise _refuse_audience(to, has_match=bool(audience))
    recipients = None if to.is_everybody else {"names": to.names, "tag": to.tag, "state": to.state}
    message_id = store_message(conn, MessageKind.BROADCAST, outgoing, json.dumps(recipients) if recipients else None)
    lines: list[ReceiptLine] = []
    deliveries: list[Delivery] = []
    for row in audience:
        state = MysisState(row["state"])
        if not state.accepts_messages:
            _skip(conn, message_id, row["id"], outgoing, str(state))
            lines.append(ReceiptLine(row["name"], "skipped", str(state)))
            continue
        delivery = deliver(conn, message_id, row["id"], outgoing, MessageKind.BROADCAST)
        deliveries.append(delivery)
        lines.append(ReceiptLine(row["name"], arrival_status(row, outgoing.hop, max_hops), delivery_id=delivery.id))
    return SendResult(Receipt(message_id, tuple(lines)), tuple(deliveries))


def find_audience(conn: sqlite3.Connection, sender: Sender, to: Recipients) -> list[sqlite3.Row]:
    """Return the myses that a broadcast is for, with the columns `RECIPIENT`."""
    where = ["deleted_at IS NULL"]
    values: list[object] = []
    if sender.kind is SenderKind.MYSIS:
        where.append("id <> ?")
        values.append(sender.id)
    if to.names:
        where.append(f"name IN ({row_values.marks(to.names)})")
        values.extend(to.names)
    if to.tag:
        where.append("id IN (SELECT mysis_id FROM mysis_tag WHERE tag = ?)")
        values.append(to.tag)
    if to.state is not None:
        where.append("state = ?")
        values.append(str(to.state))
    return conn.execute(f"SELECT {RECIPIENT} FROM mysis WHERE {' AND '.join(where)} ORDER BY id", values).fetchall()


def arrival_status(recipient: sqlite3.Row, hop: int, max_hops: int) -> str:
    """Return the status of a message that has just arrived at a row of `RECIPIENT`."""
    if hop >= max_hops or recipient["is_held"]:
        return "waiting"
    return "started" if recipient["state"] == MysisState.IDLE else "delivered"


def _check_rate(conn: WriterConnection, outgoing: OutgoingMessage, kind: MessageKind, per_hour: int) -> None:
    if outgoing.sender.kind is not SenderKind.MYSIS:
        return
    what = "message" if kind is MessageKind.DIRECT else "broadcast"
    if per_hour <= 0:
        raise RateExceeded(f"the settings let no mysis send {what}s", hint="go on with your own work")
    now = conn.now()
    times = [
        row[0]
        for row in conn.execute(
            # Times ahead come from a clock that was set back since, and say nothing about the last hour.
            "SELECT created_at FROM message WHERE sender_id = ? AND created_at > ? AND created_at <= ? AND kind = ?"
            " AND topic_message_id IS NULL ORDER BY created_at",
            (outgoing.sender.id, now - HOUR, now, kind),
        )
    ]
    if len(times) >= per_hour:
        seconds = max(1, (times[-per_hour] + HOUR - now) // SECOND)
        raise RateExceeded(
            f"you have sent {count_of(per_hour, what)} within an hour; try again in {count_of(seconds, 'second')}",
            hint="go on with your own work meanwhile",
        )


def store_message(conn: WriterConnection, kind: MessageKind, outgoing: OutgoingMessage, recipients: str | None) -> int:
    """Store a message without its deliveries and return its id."""
    message_id = conn.insert(
        "INSERT INTO message(kind, sender_kind, sender_id, sender_name, content, hop, idempotency_key,"
        " recipients_filter, created_at, is_task, topic_message_id, context) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
        (
            MessageKind.DIRECT if kind is MessageKind.TOPIC else kind,
            outgoing.sender.kind,
            outgoing.sender.id,
            outgoing.sender.name,
            outgoing.text,
            outgoing.hop,
            outgoing.idempotency_key or None,
            recipients,
            conn.now(),
            outgoing.is_task,
            outgoing.topic_message_id,
            outgoing.context,
        ),
    )
    if kind is not MessageKind.TOPIC:
        conn.emit("message.sent", outgoing.sender.id, message=message_id, said=str(kind), hop=outgoing.hop)
    return message_id


def deliver(
    conn: WriterConnection, message_id: int, mysis_id: int, outgoing: OutgoingMessage, kind: MessageKind
) -> Delivery:
    """Store a pending delivery of a message."""
    now = conn.now()
    delivery_id = conn.insert(
        "INSERT INTO delivery(message_id, mysis_id, mode, state, created_at) VALUES (?,?,?,'pending',?)",
        (message_id, mysis_id, outgoing.mode, now),
    )
    # A stored prompt resets the counts of nudges.
    conn.execute(
        "UPDATE mysis SET encouragement = 0, nothing_new = 0 WHERE id = ? AND (encouragement <> 0 OR nothing_new <> 0)",
        (mysis_id,),
    )
    return Delivery(
        id=delivery_id,
        message_id=message_id,
        mysis_id=mysis_id,
        kind=kind,
        sender=outgoing.sender,
        content=outgoing.text,
        mode=outgoing.mode,
        hop=outgoing.hop,
        created_at=now,
        is_task=outgoing.is_task,
        topic=outgoing.topic,
        context=outgoing.context,
    )


def _skip(conn: WriterConnection, message_id: int, mysis_id: int, outgoing: OutgoingMessage, reason: str) -> None:
    conn.execute(
        "INSERT INTO delivery(message_id, mysis_id, mode, state, reason, created_at) VALUES (?,?,?,'skipped',?,?)",
        (message_id, mysis_id, outgoing.mode, reason, conn.now()),
    )


def _known(conn: WriterConnection, key: str) -> SendResult | None:
    """Return the receipt of a message stored under this key, if there is one."""
    if not key:
        return None
    row = conn.execute("SELECT id FROM message WHERE idempotency_key = ?", (key,)).fetchone()
    return SendResult(receipt(conn, row["id"]), ()) if row else None


def deliver_again(conn: WriterConnection, message_id: int, mysis_id: int) -> Delivery:
    """Deliver an earlier broadcast of the commander to a new mysis. Raises UsageError if there is none of this id."""
    row = conn.execute(
        "SELECT content, hop FROM message WHERE kind = 'broadcast' AND sender_kind = 'commander' AND id = ?",
        (message_id,),
    ).fetchone()
    if row is None:
        raise UsageError(f"there is no broadcast {message_id} of the commander", hint="Leave the broadcast out.")
    outgoing = OutgoingMessage(row["content"], Sender(), DeliveryMode.QUEUE, row["hop"])
    return deliver(conn, message_id, mysis_id, outgoing, MessageKind.BROADCAST)


_EARLIER_TASK = """
UPDATE mysis SET goal = coalesce((
  SELECT g.content FROM delivery d JOIN message g ON g.id = d.message_id
  WHERE d.mysis_id = ?1 AND g.is_task AND d.state <> 'withdrawn' ORDER BY d.id DESC LIMIT 1), '')
WHERE id = ?1
"""


_NOT_WAITING = {"taken": "a turn has read it", "skipped": "it never arrived", "withdrawn": "it was taken back before"}


def withdraw(conn: WriterConnection, delivery_id: int) -> int:
    """Withdraw a pending delivery and return its mysis id. Raises UsageError."""
    row = conn.execute(
        "SELECT d.mysis_id, d.state, g.is_task FROM delivery d JOIN message g ON g.id = d.message_id WHERE d.id = ?",
        (delivery_id,),
    ).fetchone()
    if row is None:
        raise UsageError(f"there is no delivery {delivery_id}", hint="`zoea log NAME` shows those that wait")
    if row["state"] != DeliveryState.PENDING:
        raise UsageError(
            f"delivery {delivery_id} cannot be taken back: {_NOT_WAITING[row['state']]}",
            hint="Only a message that waits can be taken back: `zoea log NAME`.",
        )
    conn.execute("UPDATE delivery SET state = 'withdrawn' WHERE id = ?", (delivery_id,))
    mysis_id: int = row["mysis_id"]
    if row["is_task"]:
        conn.execute(_EARLIER_TASK, (mysis_id,))
    conn.emit("delivery.withdrawn", mysis_id, delivery=delivery_id)
    return mysis_id


_CUT_OFF = "Zoea ended during its turn"
RECEIPT = (
    "SELECT d.id, d.state, d.reason, d.turn_id, y.name, y.state AS mysis_state, t.outcome, t.failure, t.broke_off"
    " FROM delivery d JOIN mysis y ON y.id = d.mysis_id LEFT JOIN turn t ON t.id = d.turn_id"
    " WHERE d.message_id = ? ORDER BY d.id"
)


def receipt(conn: WriterConnection, message_id: int) -> Receipt:
    """Return the state of a message, one line per recipient."""
    return Receipt(message_id, tuple(receipt_line(row) for row in conn.execute(RECEIPT, (message_id,))))


async def read_receipt(store: Store, message_id: int) -> Receipt:
    """Read what became of a message, for each recipient. Raises UsageError if there is none."""
    rows = await store.read(RECEIPT, (message_id,))
    if not rows:
        raise UsageError(f"there is no message {message_id}", hint="`zoea send` and `zoea broadcast` say its number.")
    return Receipt(message_id, tuple(receipt_line(row) for row in rows))


def receipt_line(row: sqlite3.Row) -> ReceiptLine:
    """Convert a row of `RECEIPT`."""
    status, reason = row["state"], row["reason"]
    if row["state"] == DeliveryState.PENDING:
        status = "delivered"
        if row["mysis_state"] in (MysisState.STOPPED, MysisState.ERRORED):
            reason = f"{row['mysis_state']}, reads it when it runs again"
    elif row["turn_id"] is not None:
        failure = row_values.failure(row["failure"])
        match row["outcome"]:
            case None:
                status, reason = "taken", _CUT_OFF if row["broke_off"] == Outcome.CRASHED else row["broke_off"] or ""
            case "answered" | "iteration_limit":
                status = "answered"
            case other:
                status = "not answered"
                reason = f"not answered: {failure.title if failure else other}"
    return ReceiptLine(row["name"], status, reason, row["id"], row["turn_id"])
