"""A database with myses and memories, written fast, for search tests."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from zoea.settings.paths import Places, places
from zoea.store.migrate import migrate
from zoea.store.search.fts_index import INDEXES, catch_up
from zoea.text import clean


def database(path: Path | None = None, *, myses: int = 2) -> sqlite3.Connection:
    """Create a database of the newest schema. It has myses m1, m2 … with one turn each."""
    connection = sqlite3.connect(path or ":memory:", isolation_level=None)
    migrate(connection, path or Path("none"))
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("INSERT INTO template VALUES (zeroblob(32), 'default', '', 1)")
    for number in range(1, myses + 1):
        connection.execute(
            "INSERT INTO mysis(id, uid, name, template_hash, provider, model, state, state_at, created_at)"
            " VALUES (?, ?, ?, zeroblob(32), 'p', 'm', 'idle', 1, 1)",
            (number, f"u{number}", f"m{number}"),
        )
        turn(connection, number)
    return connection


def workspace() -> Places:
    """Make the data directory of the test's own home. Its database has one memory about iron ore."""
    found = places("")
    found.make_data()
    with closing(database(found.database)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        remember(connection, "iron ore")
    return found


def turn(connection: sqlite3.Connection, mysis: int, *, at: int = 1, is_open: bool = False) -> int:
    """Open the next turn of a mysis; return its id."""
    number = connection.execute("SELECT count(*) + 1 FROM turn WHERE mysis_id = ?", (mysis,)).fetchone()[0]
    ended = None if is_open else at
    cursor = connection.execute(
        "INSERT INTO turn(mysis_id, number, opened_by, frozen, outcome, opened_at, ended_at)"
        " VALUES (?, ?, 'prompt', '{}', ?, ?, ?)",
        (mysis, number, None if is_open else "answered", at, ended),
    )
    return cursor.lastrowid or 0


def remember(
    connection: sqlite3.Connection,
    content: str,
    *,
    mysis: int = 1,
    reasoning: str = "",
    calls: Sequence[tuple[str, str]] = (),
    role: str = "assistant",
    source: str = "llm",
    at: int = 1,
    turn_id: int | None = None,
) -> int:
    """Store a memory with calls (name, arguments); return its id."""
    if turn_id is None:
        turn_id = connection.execute("SELECT max(id) FROM turn WHERE mysis_id = ?", (mysis,)).fetchone()[0]
    seq = connection.execute("SELECT ifnull(max(seq) + 1, 0) FROM memory WHERE turn_id = ?", (turn_id,)).fetchone()[0]
    cursor = connection.execute(
        "INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, reasoning, tokens, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?)",
        (mysis, turn_id, seq, role, source, clean(content), clean(reasoning), at),
    )
    memory_id = cursor.lastrowid or 0
    for position, (name, arguments) in enumerate(calls):
        connection.execute(
            "INSERT INTO tool_call(memory_id, position, name, arguments, fingerprint, state)"
            " VALUES (?, ?, ?, ?, x'00', 'done')",
            (memory_id, position, clean(name), clean(arguments)),
        )
    catch_up(connection)
    return memory_id


def broadcast(
    connection: sqlite3.Connection, content: str, *, sender: int | None = None, to: Sequence[int] = (), at: int = 1
) -> int:
    """Store a broadcast of the commander or a mysis, pending for `to`. Return its id."""
    cursor = connection.execute(
        "INSERT INTO message(kind, sender_kind, sender_id, sender_name, content, created_at)"
        " VALUES ('broadcast', ?, ?, ?, ?, ?)",
        ("mysis" if sender else "commander", sender, f"m{sender}" if sender else "", clean(content), at),
    )
    for mysis in to:
        connection.execute(
            "INSERT INTO delivery(message_id, mysis_id, mode, state, created_at) VALUES (?, ?, 'queue', 'pending', ?)",
            (cursor.lastrowid, mysis, at),
        )
    catch_up(connection)
    return cursor.lastrowid or 0


def check_indexes(connection: sqlite3.Connection) -> None:
    """Raise sqlite3.DatabaseError if an index does not match its rows."""
    catch_up(connection)
    for index in INDEXES:
        connection.execute(f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)")
