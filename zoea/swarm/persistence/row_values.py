"""Conversion of rows to memories, calls, myses and deliveries, with their columns."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from zoea.model.enums import CallState, MessageKind, MysisState, Role, SenderKind, Source
from zoea.model.values import Delivery, Event, Failure, Memory, Mysis, Native, Sender, ToolCall, label
from zoea.store.database_file import convert_row

LATE_RESULT = "late result"
"""The kind of the note that tells a turn what calls of an earlier one returned after it."""
_MEMORY_WIDTH = 23
_ROLES = {one.value: one for one in Role}
_SOURCES = {one.value: one for one in Source}
# One row holds a whole memory: the sender of its prompt, the call it answers, the calls it makes.
_MEMORY_COLUMNS = """
m.id, m.mysis_id, m.turn_id, t.number AS turn_number, m.seq, m.role, m.source, m.content, m.reasoning,
m.native, m.partial, m.tokens, m.created_at, m.message_id, m.sender_id,
g.kind AS message_kind, g.sender_kind, g.sender_name, p.topic,
c.id AS call_id, c.name AS tool_name, c.state AS call_state,
CASE WHEN m.role = 'assistant' THEN (
  SELECT json_group_array(json_array(k.id, k.position, k.name, k.arguments, k.upstream, k.provider_call_id,
         hex(k.fingerprint), hex(k.result_fingerprint), k.state, k.result_memory_id, k.started_at, k.ended_at))
  FROM tool_call k WHERE k.memory_id = m.id) END AS calls
"""
_MEMORY_JOINS = """
JOIN turn t ON t.id = m.turn_id
LEFT JOIN message g ON g.id = m.message_id
LEFT JOIN topic_message p ON p.id = g.topic_message_id
LEFT JOIN tool_call c ON c.result_memory_id = m.id AND m.role = 'tool'
"""
MEMORY = f"SELECT {_MEMORY_COLUMNS} FROM memory m {_MEMORY_JOINS}"
WANTED_MEMORY = f"SELECT w.need, {_MEMORY_COLUMNS} FROM wanted w CROSS JOIN memory m ON m.id = w.id {_MEMORY_JOINS}"
"""The same for the rows of a CTE `wanted(id, need)`, looked up one by one."""

MYSIS = """
SELECT y.*, coalesce(p.name, '') AS template_name,
       coalesce(nullif(y.goal, ''), CASE WHEN json_valid(p.body) THEN p.body ->> '$.goal' END, '') AS whole_goal,
       coalesce(CASE WHEN json_valid(p.body) THEN
         iif(p.body ->> '$.worktree', 'worktree of ', '') || nullif(p.body ->> '$.workbench', '') END, '') AS works_on,
       coalesce(CASE WHEN json_valid(p.body) AND p.body ->> '$.runtime' = 'acp' THEN
         coalesce(nullif(p.body ->> '$.acp.agent', ''), p.body ->> '$.acp.command', 'agent') END, '') AS agent,
       EXISTS (SELECT 1 FROM ctx_origin WHERE mysis_id = y.id AND thread_id IS NOT NULL) AS is_asked,
       (SELECT group_concat(tag, char(31)) FROM mysis_tag WHERE mysis_id = y.id) AS tags
FROM mysis y LEFT JOIN template p ON p.hash = y.template_hash
"""

REPORT = """
(SELECT c.arguments ->> '$.summary' FROM tool_call c
 WHERE c.memory_id = n.id AND c.name = 'zoea_done' AND c.state = 'done' AND json_valid(c.arguments) LIMIT 1)
"""
"""The summary of the memory `n` where it reports that the task is done."""
ANSWER_OF_TURN = f"""
(SELECT coalesce(nullif({REPORT}, ''), n.content) FROM memory n
 WHERE n.turn_id = {{}} AND n.role = 'assistant' AND (n.content <> '' OR coalesce({REPORT}, '') <> '')
 ORDER BY n.seq DESC LIMIT 1)
"""
"""The newest text of a turn: its report as done, or its answer. Fill in the id of the turn."""
LAST_SAID = f"""
SELECT y.id AS mysis_id, coalesce(nullif({REPORT}, ''), n.content) AS content, n.created_at
FROM mysis y CROSS JOIN memory n ON n.id =
  (SELECT n.id FROM memory n WHERE n.mysis_id = y.id AND {{}}
   AND (n.content <> '' OR coalesce({REPORT}, '') <> '') ORDER BY n.id DESC LIMIT 1)
"""
"""The newest text of each mysis, by index; the summary of a report as done counts as one.

Fill in a condition on `n`, such as `SAID` or `SAID_OR_TOLD`, and append one on the mysis `y`.
"""
SAID = "n.role = 'assistant'"
SAID_OR_TOLD = "n.role <> 'tool'"

DELIVERY = """
SELECT d.id, d.message_id, d.mysis_id, d.mode, d.state, d.reason, d.turn_id, d.created_at,
       g.kind, g.sender_kind, g.sender_id, g.sender_name, g.content, g.hop, g.is_task, g.context, p.topic
FROM delivery d JOIN message g ON g.id = d.message_id LEFT JOIN topic_message p ON p.id = g.topic_message_id
"""


def memory(row: sqlite3.Row) -> Memory:
    """Convert a row of `MEMORY`, or of a query that ends with its columns."""
    # By place: a turn reads some ten rows, and a column's name is looked up among all of them.
    (
        memory_id,
        mysis_id,
        turn_id,
        turn_number,
        seq,
        role,
        source,
        content,
        reasoning,
        blocks,
        partial,
        tokens,
        created_at,
        message_id,
        sender_id,
        message_kind,
        sender_kind,
        sender_name,
        topic,
        call_id,
        tool_name,
        call_state,
        made,
    ) = row[-_MEMORY_WIDTH:]
    prompt_label = ""
    if message_kind is not None:
        sender = Sender(SenderKind(sender_kind), sender_id, sender_name)
        prompt_label = label(MessageKind(message_kind), sender, topic or "")
    return Memory(
        id=memory_id,
        mysis_id=mysis_id,
        turn_id=turn_id,
        turn_number=turn_number,
        seq=seq,
        role=_ROLES[role],
        source=_SOURCES[source],
        content=content,
        reasoning=reasoning,
        calls=calls(made),
        call_id=call_id,
        tool_name=tool_name or "",
        is_error=call_state is not None and call_state != CallState.DONE,
        label=prompt_label,
        sender_id=sender_id,
        message_id=message_id,
        native=native(blocks),
        partial=bool(partial),
        tokens=tokens,
        created_at=created_at,
    )


def calls(text: str | None) -> tuple[ToolCall, ...]:
    """Decode the calls of an assistant memory, in call order."""
    if not text or text == "[]":
        return ()
    values = [
        ToolCall(
            id=item[0],
            position=item[1],
            name=item[2],
            arguments=item[3],
            upstream=item[4],
            provider_call_id=item[5],
            fingerprint=bytes.fromhex(item[6]),
            result_fingerprint=bytes.fromhex(item[7]) if item[7] else None,
            state=CallState(item[8]),
            result_memory_id=item[9],
            started_at=item[10],
            ended_at=item[11],
        )
        for item in json.loads(text)
    ]
    return tuple(sorted(values, key=lambda call: call.position))


def call(row: sqlite3.Row) -> ToolCall:
    """Convert a row of `tool_call`."""
    return convert_row(ToolCall, row)


def event(row: sqlite3.Row) -> Event:
    """Convert a row of `event`."""
    return Event(row["id"], row["kind"], row["mysis_id"], json.loads(row["data"]), row["created_at"])


def native(text: str | None) -> Native | None:
    """Decode the column `native`: blocks of an answer as its provider sent them."""
    if text is None:
        return None
    value = json.loads(text)
    return Native(value["provider"], value["model"], json.dumps(value["blocks"], ensure_ascii=False))


def native_text(value: Native | None) -> str | None:
    """Encode the column `native`: provider, model and the blocks unchanged."""
    if value is None:
        return None
    who = json.dumps({"provider": value.provider, "model": value.model}, ensure_ascii=False)
    return f'{who[:-1]}, "blocks": {value.blocks}}}'


def failure(text: str | None) -> Failure | None:
    """Decode a failure column, with the keys of `ZoeaError.as_dict`."""
    if text is None:
        return None
    value = json.loads(text)
    return Failure(value.get("class", ""), value.get("title", ""), value.get("what", ""), value.get("hint", ""))


def failure_text(value: Failure | None) -> str | None:
    """Encode a failure: class, title, what happened, what to do."""
    if value is None:
        return None
    fields = {"class": value.kind, "title": value.title, "what": value.what, "hint": value.hint}
    return json.dumps(fields, ensure_ascii=False)


def mysis(row: sqlite3.Row) -> Mysis:
    """Convert a row of `MYSIS`. A damaged one gives an errored mysis that says so, because the others must load."""
    try:
        return _read_mysis(row)
    except (ValueError, TypeError, AttributeError) as error:
        return _describe_damage(row, error)


def _identity(row: sqlite3.Row) -> dict[str, Any]:
    """Return the fields of a mysis that no damage of its other values can hide."""
    own = {name: row[name] for name in ("id", "uid", "name", "template_hash", "provider", "model", "created_at")}
    return {**own, "template": row["template_name"]}


def _read_mysis(row: sqlite3.Row) -> Mysis:
    """Convert a row; a dismissed error is left out."""
    wait = json.loads(row["wait"]) if row["wait"] else {}
    return convert_row(
        Mysis,
        row,
        template=row["template_name"],
        failure=failure(row["error"]) if row["error_dismissed_at"] is None else None,
        tags=tuple(row["tags"].split("\x1f")) if row["tags"] else (),
        wait_until=wait.get("until"),
        wait_reason=wait.get("reason", ""),
        goal=str(row["whole_goal"]),
        agent=PurePath(str(row["agent"])).name,
        is_reviewed=row["error_dismissed_at"] is not None,
    )


def _describe_damage(row: sqlite3.Row, error: Exception) -> Mysis:
    """Return an errored mysis with the values that every row has."""
    failure = Failure(
        "StoreError",
        "Its row cannot be read",
        f"a value of mysis #{row['id']} in the database is damaged: {error}",
        "Restore the database from a backup, or delete this mysis.",
    )
    return Mysis(
        **_identity(row),
        state=MysisState.ERRORED,
        state_reason=failure.title,
        state_at=row["state_at"],
        failure=failure,
    )


def delivery(row: sqlite3.Row) -> Delivery:
    """Convert a row of `DELIVERY`."""
    return convert_row(
        Delivery,
        row,
        kind=message_kind(row["kind"], row["topic"]),
        sender=Sender(SenderKind(row["sender_kind"]), row["sender_id"], row["sender_name"]),
        topic=row["topic"] or "",
    )


ANSWERED_BY = """
CASE WHEN y.model = '' THEN coalesce(
  (SELECT q.model FROM request q WHERE q.mysis_id = y.id AND q.purpose = 'turn' ORDER BY q.id DESC LIMIT 1), '')
ELSE '' END
"""
"""The model of the newest request of a mysis that names none itself; empty for all others."""


def message_kind(stored: str, topic: str | None) -> MessageKind:
    """Return the kind of a message. One that belongs to a topic is stored as a direct one."""
    return MessageKind.TOPIC if topic else MessageKind(stored)


def marks(values: Iterable[object]) -> str:
    """Return `?,?,?` for an IN list."""
    return ",".join("?" for _ in values)
