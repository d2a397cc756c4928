"""Rows of myses: creation, state changes, archiving, and recovery at the start."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3

from msgspec import Struct

from zoea.model.enums import MysisState
from zoea.model.errors import MysisMissing, NameRefused, StateRefused, SwarmFull
from zoea.model.status import KILLED
from zoea.model.values import Failure, Mysis
from zoea.settings.template import Template
from zoea.store.writer_connection import WriterConnection
from zoea.swarm import life as lf
from zoea.swarm.persistence import approval_ops, capture_ops, row_values
from zoea.swarm.rules import MAX_TOPIC_HOPS
from zoea.text import clean

_NAME = re.compile(r"[\w .\-]{1,40}", re.UNICODE)
_FAMILY_CHARS = 34
_RESERVED = ("ctx-", "tkt-")
_TIP = "(SELECT r.commit_seq FROM ctx_ref r JOIN mysis y ON r.name = '@' || y.name WHERE y.id = {})"
_BEGIN_SESSION = f"INSERT INTO ctx_session(session_id, start_commit) VALUES (?1, {_TIP.format('?2')})"
_TIP_AT_END = f"""
UPDATE ctx_session SET end_commit = {_TIP.format("?1")}
WHERE session_id IN (SELECT id FROM session WHERE mysis_id = ?1 AND ended_at IS NULL)
"""
_GREEK = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
    "lambda",
    "mu",
    "nu",
    "xi",
    "omicron",
    "pi",
    "rho",
    "sigma",
    "tau",
    "upsilon",
    "phi",
    "chi",
    "psi",
    "omega",
]


class MysisSpec(Struct, frozen=True):
    """The values of a new mysis. An empty name is chosen in the op."""

    uid: str
    name: str
    template_name: str
    template_hash: bytes
    template_body: str
    provider: str
    model: str
    tags: tuple[str, ...] = ()
    goal: str = ""
    family: str = ""
    """The name that a number is added to where none is given."""


def check_name(name: str) -> str:
    """Return the name as it will be stored. Raises NameRefused with the rules."""
    name = name.strip()
    if not _NAME.fullmatch(name) or name.startswith("-") or name.lower().startswith(_RESERVED):
        raise NameRefused(
            f"{name!r} cannot be a name",
            hint="use 1 to 40 letters, digits, space, '-', '_' or '.', not starting with '-', 'ctx-' or 'tkt-'",
        )
    if name.lower() == "commander":
        raise NameRefused("'commander' is you", hint="choose another name")
    return name


def uid_of(key: str) -> str:
    """Return the uid of the mysis that a request with an idempotency key makes."""
    return hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=16, person=b"zoea mysis").hexdigest()


def create(conn: WriterConnection, new: MysisSpec, max_myses: int) -> Mysis:
    """Store a new mysis. Raises SwarmFull, NameRefused, StateRefused where it was made and deleted before."""
    if conn.execute("SELECT 1 FROM mysis WHERE uid = ?", (new.uid,)).fetchone() is not None:
        raise StateRefused("the mysis of this request was deleted meanwhile", hint="ask for a new one with another key")
    taken = _living_names(conn, max_myses)
    name = new.name or _free_name(taken, new.family)
    if name.casefold() in taken:
        raise NameRefused(f"there is a mysis named {name!r} already", hint="choose another name")
    now = conn.now()
    store_template(conn, new.template_hash, new.template_name, new.template_body)
    mysis_id = conn.insert(
        "INSERT INTO mysis(uid, name, template_hash, provider, model, goal, state, state_at, created_at)"
        " VALUES (?,?,?,?,?,?,'idle',?,?)",
        (new.uid, name, new.template_hash, new.provider, new.model, new.goal, now, now),
    )
    conn.execute("INSERT INTO tally(mysis_id) VALUES (?)", (mysis_id,))
    set_tags(conn, mysis_id, new.tags)
    conn.emit("mysis.created", mysis_id)
    return find(conn, mysis_id)


def store_template(conn: WriterConnection, template_hash: bytes, name: str, body: str) -> None:
    """Store a template text, unless its hash is there."""
    conn.execute(
        "INSERT OR IGNORE INTO template(hash, name, body, created_at) VALUES (?,?,?,?)",
        (template_hash, name, body, conn.now()),
    )


def configure(
    conn: WriterConnection,
    mysis_id: int,
    template: Template,
    provider: str,
    model: str,
    tags: tuple[str, ...],
    changed: tuple[str, ...] = (),
) -> Mysis:
    """Store the template, provider, model and tags of an existing mysis. `changed` names the changed parts."""
    store_template(conn, template.hash, template.name, template.text)
    conn.execute(
        "UPDATE mysis SET template_hash = ?, provider = ?, model = ? WHERE id = ?",
        (template.hash, provider, model, mysis_id),
    )
    set_tags(conn, mysis_id, tags)
    conn.emit("mysis.configured", mysis_id, changed=", ".join(changed))
    return find(conn, mysis_id)


def set_tags(conn: WriterConnection, mysis_id: int, tags: tuple[str, ...]) -> None:
    """Replace the tags of a mysis."""
    conn.execute("DELETE FROM mysis_tag WHERE mysis_id = ?", (mysis_id,))
    for tag in tags:
        conn.execute("INSERT OR IGNORE INTO mysis_tag(mysis_id, tag) VALUES (?,?)", (mysis_id, tag))


def _living_names(conn: sqlite3.Connection, max_myses: int) -> set[str]:
    """Return the case-folded names in use. Raises SwarmFull where no more are allowed."""
    taken = {row[0].casefold() for row in conn.execute("SELECT name FROM mysis WHERE deleted_at IS NULL")}
    if len(taken) >= max_myses:
        raise SwarmFull(
            f"max myses ({max_myses}) reached", hint="delete a mysis, or raise swarm.max_myses in the settings"
        )
    return taken


def _free_name(taken: set[str], family: str = "") -> str:
    if family:
        base = family[:_FAMILY_CHARS]
        number = 2
        while f"{base}-{number}".casefold() in taken:
            number += 1
        return f"{base}-{number}"
    for name in _GREEK:
        if name not in taken:
            return name
    number = len(taken) + 1
    while f"mysis-{number}" in taken:
        number += 1
    return f"mysis-{number}"


def find(conn: sqlite3.Connection, mysis_id: int) -> Mysis:
    """Read a mysis, deleted or not. Raises MysisMissing."""
    row = conn.execute(f"{row_values.MYSIS} WHERE y.id = ?", (mysis_id,)).fetchone()
    if row is None:
        raise MysisMissing(f"there is no mysis #{mysis_id}")
    return row_values.mysis(row)


_RESTORE_TALLIES = """
INSERT INTO tally(mysis_id, turns, tool_calls, errors, requests, tokens, cost_micros)
SELECT y.id, (SELECT count(*) FROM turn WHERE mysis_id = y.id),
  (SELECT count(*) FROM tool_call c JOIN memory m ON m.id = c.memory_id WHERE m.mysis_id = y.id),
  (SELECT count(*) FROM request WHERE mysis_id = y.id AND error_class IS NOT NULL),
  count(q.id), coalesce(sum(coalesce(q.input_tokens, 0) + coalesce(q.output_tokens, 0)), 0), sum(q.cost_micros)
FROM mysis y LEFT JOIN request q ON q.mysis_id = y.id AND q.purpose = 'turn'
WHERE NOT EXISTS (SELECT 1 FROM tally WHERE mysis_id = y.id) GROUP BY y.id
"""


def restore_tallies(conn: WriterConnection) -> None:
    """Restore missing rows of counters from stored turns. No turn can be stored without one."""
    conn.execute(_RESTORE_TALLIES)


def tally(conn: sqlite3.Connection, mysis_id: int) -> sqlite3.Row:
    """Return the counters of a mysis."""
    row: sqlite3.Row = conn.execute("SELECT * FROM tally WHERE mysis_id = ?", (mysis_id,)).fetchone()
    return row


def store_life(conn: WriterConnection, mysis_id: int, stored_life: lf.StoredLife) -> None:
    """Store the counts of nudges, the wait, and when the goal was reached."""
    wait = None
    if stored_life.wait_until is not None:
        wait = json.dumps(
            {"until": stored_life.wait_until, "reason": clean(stored_life.wait_reason)}, ensure_ascii=False
        )
    conn.execute(
        "UPDATE mysis SET encouragement = ?1, wait = ?2, nothing_new = ?4,"
        " goal_reached_at = CASE WHEN ?5 THEN coalesce(goal_reached_at, ?6) END WHERE id = ?3"
        " AND (encouragement <> ?1 OR wait IS NOT ?2 OR nothing_new <> ?4 OR (goal_reached_at IS NOT NULL) <> ?5)",
        (stored_life.encouragement, wait, mysis_id, stored_life.nothing_new, stored_life.done, conn.now()),
    )


def give_task(conn: WriterConnection, mysis_id: int, task: str, message_id: int) -> None:
    """Make a message the goal of a mysis, not reached yet."""
    conn.execute("UPDATE mysis SET goal = ?, goal_reached_at = NULL, nothing_new = 0 WHERE id = ?", (task, mysis_id))
    conn.emit("mysis.task", mysis_id, message=message_id)


def end_wait(conn: WriterConnection, mysis_id: int) -> None:
    """Remove the wait, because a prompt joined the open turn."""
    conn.execute("UPDATE mysis SET wait = NULL WHERE id = ? AND wait IS NOT NULL", (mysis_id,))


def store_turn_end(
    conn: WriterConnection, mysis_id: int, to: lf.SetState | None, stored_life: lf.StoredLife
) -> Mysis | None:
    """Store what follows from the end of a turn. Returns the row where the state changed."""
    if to is None:
        store_life(conn, mysis_id, stored_life)
        return None
    set_state(conn, mysis_id, to, stored_life)
    return find(conn, mysis_id)


def set_state(conn: WriterConnection, mysis_id: int, to: lf.SetState, stored_life: lf.StoredLife) -> int:
    """Store a state. A start clears the last error; sessions begin and end with `running`.

    Returns the id of the session that is open afterwards, 0 if none is.
    """
    now = conn.now()
    state, failure = to.state, to.failure
    row = conn.execute("SELECT state, template_hash FROM mysis WHERE id = ?", (mysis_id,)).fetchone()
    if MysisState.STOPPED in (state, row["state"]):
        # At a start too, because a grant may have been given while the mysis was being stopped.
        approval_ops.revoke_of(conn, mysis_id)
    if state is MysisState.RUNNING or failure is not None:
        conn.execute(
            "UPDATE mysis SET error = ?, error_dismissed_at = NULL WHERE id = ?",
            (row_values.failure_text(failure), mysis_id),
        )
    conn.execute(
        "UPDATE mysis SET state = ?, state_reason = ?, state_at = ?, retry_at = ?, retry_count = ? WHERE id = ?",
        (state, to.reason, now, to.retry_at, to.retry_count, mysis_id),
    )
    store_life(conn, mysis_id, stored_life)
    session_id = 0
    if state is MysisState.RUNNING:
        if row["state"] != MysisState.RUNNING:
            session_id = conn.insert(
                "INSERT INTO session(mysis_id, template_hash, started_at) VALUES (?,?,?)",
                (mysis_id, row["template_hash"], now),
            )
            conn.execute(_BEGIN_SESSION, (session_id, mysis_id))
    else:
        _end_session(conn, mysis_id, str(state))
    title = failure.title if failure else ""
    conn.emit("mysis.state", mysis_id, state=str(state), reason=to.reason, error=title, retry_at=to.retry_at)
    return session_id


def _end_session(conn: WriterConnection, mysis_id: int, outcome: str) -> None:
    conn.execute(_TIP_AT_END, (mysis_id,))
    conn.execute(
        "UPDATE session SET ended_at = ?, outcome = ? WHERE mysis_id = ? AND ended_at IS NULL",
        (conn.now(), outcome, mysis_id),
    )


def archive(conn: WriterConnection, mysis_id: int) -> None:
    """Hide a mysis and free its name; its memories stay."""
    conn.execute("UPDATE mysis SET deleted_at = ? WHERE id = ?", (conn.now(), mysis_id))
    capture_ops.archive_branch(conn, mysis_id, find(conn, mysis_id).name)
    conn.emit("mysis.deleted", mysis_id)


def undelete(conn: WriterConnection, mysis_id: int, max_myses: int) -> Mysis:
    """Undo `archive`. Raises MysisMissing, SwarmFull, and NameRefused where the name is in use."""
    row = conn.execute("SELECT name, deleted_at FROM mysis WHERE id = ?", (mysis_id,)).fetchone()
    if row is None or row["deleted_at"] is None:
        raise MysisMissing(f"there is no deleted mysis #{mysis_id}")
    if row["name"].casefold() in _living_names(conn, max_myses):
        raise NameRefused(f"the name {row['name']!r} was given to another mysis", hint="delete that one first")
    conn.execute("UPDATE mysis SET deleted_at = NULL WHERE id = ?", (mysis_id,))
    capture_ops.restore_branch(conn, mysis_id, row["name"])
    conn.emit("mysis.undeleted", mysis_id)
    return find(conn, mysis_id)


def fail(conn: WriterConnection, mysis_id: int, failure: Failure) -> Mysis:
    """Set a mysis to errored because it cannot be loaded."""
    set_state(conn, mysis_id, lf.SetState(MysisState.ERRORED, failure.title, failure), lf.StoredLife())
    return find(conn, mysis_id)


def dismiss(conn: WriterConnection, mysis_id: int) -> Mysis:
    """Hide the error of a mysis, or mark its result as reviewed; the state stays."""
    conn.execute("UPDATE mysis SET error_dismissed_at = ? WHERE id = ?", (conn.now(), mysis_id))
    conn.emit("mysis.dismissed", mysis_id)
    return find(conn, mysis_id)


def hold(conn: WriterConnection, mysis_id: int | None, on: bool, reason: str, *, by_person: bool) -> None:
    """Put the swarm or one mysis on hold, or lift the hold. It survives a restart.

    The event contains the reason only where Zoea gives it: a person's text stays in the row.
    """
    if mysis_id is not None:
        conn.execute(
            "UPDATE mysis SET held = ?, held_reason = ? WHERE id = ?", (int(on), reason if on else "", mysis_id)
        )
    else:
        _store_setting(conn, "hold", {"on": on, "reason": reason if on else ""})
    why = {"reason": reason} if on and not by_person else {}
    conn.emit("hold.set" if on else "hold.lifted", mysis_id, **why)


def hold_one(conn: WriterConnection, mysis_id: int, on: bool, reason: str) -> Mysis:
    """Put a mysis on hold for a person, or lift its hold; return its row."""
    hold(conn, mysis_id, on, reason, by_person=True)
    return find(conn, mysis_id)


_WITH_UNREAD = """
SELECT DISTINCT y.id FROM delivery d JOIN mysis y ON y.id = d.mysis_id JOIN message m ON m.id = d.message_id
WHERE d.state = 'pending' AND y.state = 'idle' AND y.retry_at IS NULL AND y.deleted_at IS NULL
  AND m.hop < CASE WHEN m.topic_message_id IS NULL THEN ?2 ELSE ?1 END
"""


def recover_states(conn: WriterConnection, reason: str, max_hops: int) -> tuple[int, ...]:
    """Set running myses to idle for a reason, and mark their turns as broken off.

    Returns the ids of those that ran, that rested until their next nudge, or that a stored message below `max_hops`
    had not woken yet: Zoea was killed after it had acknowledged the message.
    """
    now = conn.now()
    wanted = [row[0] for row in conn.execute(_WITH_UNREAD, (MAX_TOPIC_HOPS, max_hops))]
    conn.executemany("UPDATE mysis SET state_reason = ? WHERE id = ?", [(reason, mysis_id) for mysis_id in wanted])
    resting = [row[0] for row in conn.execute("SELECT id FROM mysis WHERE state = 'idle' AND retry_at IS NOT NULL")]
    running = [row[0] for row in conn.execute("SELECT id FROM mysis WHERE state = 'running'")]
    for mysis_id in running:
        conn.execute(
            "UPDATE mysis SET state = 'idle', state_reason = ?, state_at = ?, retry_at = NULL, retry_count = 0"
            " WHERE id = ?",
            (reason, now, mysis_id),
        )
        _end_session(conn, mysis_id, "crashed" if reason == KILLED else "closed")
        conn.emit("mysis.state", mysis_id, state="idle", reason=reason, error="", retry_at=None)
    approval_ops.revoke_of_all(conn)
    conn.execute("UPDATE turn SET broke_off = 'crashed' WHERE outcome IS NULL AND broke_off IS NULL")
    conn.execute(
        "UPDATE mysis SET retry_at = NULL, state_reason = ? WHERE state = 'idle' AND retry_at IS NOT NULL", (reason,)
    )
    return (*running, *resting, *wanted)


def store_left_running(conn: WriterConnection, mysis_ids: tuple[int, ...]) -> None:
    """Store the ids of the myses that ran when the swarm was closed."""
    _store_setting(conn, "left_running", mysis_ids)


def left_running(conn: sqlite3.Connection) -> frozenset[int]:
    """Return the ids of the myses that ran when the swarm was closed."""
    row = conn.execute("SELECT value FROM setting WHERE key = 'left_running'").fetchone()
    return frozenset(json.loads(row["value"])) if row else frozenset()


def _store_setting(conn: WriterConnection, key: str, value: object) -> None:
    """Store a value of the swarm itself."""
    conn.execute(
        "INSERT INTO setting(key, value, updated_at) VALUES (?, ?, ?)"
        " ON CONFLICT(key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at",
        (key, json.dumps(value), conn.now()),
    )
