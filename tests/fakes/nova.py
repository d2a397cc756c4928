"""Writes a Zoea Nova database of schema 12 with the known defects of its format."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

ALPHA, BETA = "3f2b8c1e-alpha", "9d7a4e60-beta"
PASSWORD = "tr0ub4dor-and-3"
PROMPT = "You are a pilot.\n\n## Critical Rules\nContext is limited - use search tools for older information."
ODD = '{"note":"a|b:c \\"d\\" | call_9:login:{}","at":"12:30:00"}'

_SCHEMA = """
CREATE TABLE schema_version (version INTEGER PRIMARY KEY);
CREATE TABLE myses (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL,
  temperature REAL NOT NULL DEFAULT 0.7,
  state TEXT NOT NULL DEFAULT 'idle', created_at DATETIME NOT NULL, updated_at DATETIME NOT NULL DEFAULT ''
);
CREATE TABLE memories (
  id INTEGER PRIMARY KEY AUTOINCREMENT, mysis_id TEXT NOT NULL, role TEXT NOT NULL,
  source TEXT NOT NULL DEFAULT 'direct',
  sender_id TEXT, content TEXT NOT NULL, reasoning TEXT, created_at DATETIME NOT NULL
);
CREATE TABLE accounts (username TEXT PRIMARY KEY, password TEXT NOT NULL, in_use BOOLEAN NOT NULL DEFAULT 0);
"""


@dataclass(frozen=True)
class Row:
    """A row of `memories`; `second` is the second of one fixed minute."""

    mysis: str
    role: str
    content: str
    second: float
    source: str = ""
    sender: str | None = ""
    reasoning: str | None = ""

    @property
    def values(self) -> tuple[object, ...]:
        natural = {"user": "direct", "assistant": "llm", "tool": "tool", "system": "system"}
        at = f"2026-01-31 12:00:{self.second:012.9f} +0000 UTC"
        source = self.source or natural.get(self.role, "direct")
        return (self.mysis, self.role, source, self.sender, self.content, self.reasoning, at)


def calls(*stored: str) -> str:
    """Return the content of an assistant message with calls."""
    return "[TOOL_CALLS]" + "|".join(stored)


STORY: tuple[Row, ...] = (
    Row(ALPHA, "system", PROMPT, 0),
    Row(ALPHA, "user", "Mine iron in the belt", 1),
    Row(ALPHA, "assistant", calls(f'c1:login:{{"username":"al","password":"{PASSWORD}"}}', f"c2:add_note:{ODD}"), 2),
    Row(ALPHA, "tool", "c2:noted: fine|really", 3),  # out of order
    Row(ALPHA, "tool", f'c1:{{"session_id":"s-1","password":"{PASSWORD}"}}', 3),
    Row(ALPHA, "assistant", "Iron is in the hold", 4, reasoning="The belt was rich"),
    Row(ALPHA, "assistant", calls("c1:get_status:{}"), 5),  # a nudge that was not stored; an id used again
    Row(ALPHA, "user", "Enemies near Sol", 6, source="broadcast", sender=BETA),
    Row(ALPHA, "tool", "c1:hull 100", 7),  # a result behind the prompt that cut it off
    Row(ALPHA, "assistant", calls('c5:jump:{"to":"Sol"', "c6:scan:"), 8),  # broken, and without arguments
    Row(ALPHA, "tool", "c6:nothing", 9),
    Row(ALPHA, "tool", "c77:whose is this", 9),  # an orphan
    Row(ALPHA, "user", "All stop", 10, source="broadcast"),
    Row(BETA, "user", "All stop", 10.2, source="broadcast"),
    Row(BETA, "assistant", "Stopped", 11),
)


def nova_database(
    path: Path, story: Sequence[Row] = STORY, *, version: int | None = 12, schema: str = _SCHEMA, wal: bool = False
) -> Path:
    """Write a database and close it, or leave its write-ahead log as after a kill."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        if wal:
            conn.execute("PRAGMA journal_mode = WAL")
            conn.execute("PRAGMA wal_autocheckpoint = 0")
        conn.executescript(schema)
        if version is not None:
            conn.execute("INSERT INTO schema_version VALUES (?)", (version,))
        created = "2026-01-31 11:59:00.123456789 +0000 UTC"
        conn.executemany(
            "INSERT INTO myses(id, name, provider, model, state, created_at) VALUES (?,?,?,?,?,?)",
            [
                (ALPHA, "alpha", "ollama-qwen", "qwen3", "running", created),
                (BETA, "Beta: 2", "", "", "errored", created),
            ],
        )
        conn.execute("INSERT INTO accounts(username, password) VALUES ('al', ?)", (PASSWORD,))
        conn.executemany(
            "INSERT INTO memories(mysis_id, role, source, sender_id, content, reasoning, created_at)"
            " VALUES (?,?,?,?,?,?,?)",
            [row.values for row in story],
        )
        if wal:
            kept = path.with_name(path.name + "-wal").read_bytes()
    if wal:
        path.with_name(path.name + "-wal").write_bytes(kept)
    return path
