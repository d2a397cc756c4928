"""A table that a migration adds is exported, imported, redacted and removed.

The schema says how.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.transfer.sample_exports import import_into, make_sample_swarm
from zoea.chain.entries import rewrite_texts
from zoea.store.database_file import MIGRATIONS, newest_version
from zoea.store.migrate import migrate, split_statements
from zoea.store.redaction import redact_text
from zoea.store.retention import remove_mysis
from zoea.store.writer_connection import WriterConnection, transaction
from zoea.text.redact import redact_all
from zoea.transfer.jsonl_export import conversation_lines

KEY = "sk-ant-api03-" + "abcDEF123" * 8
NEW = """
CREATE TABLE mood (
  id INTEGER PRIMARY KEY AUTOINCREMENT, memory_id INTEGER NOT NULL REFERENCES memory(id),
  seen_by INTEGER REFERENCES mysis(id),
  kind TEXT NOT NULL CHECK (kind IN ('good','bad')), word TEXT NOT NULL, more TEXT NOT NULL CHECK (json_valid(more)),
  ended_in INTEGER REFERENCES turn(id), created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE mood_reason (
  mood_id INTEGER NOT NULL REFERENCES mood(id), position INTEGER NOT NULL, reason TEXT NOT NULL,
  PRIMARY KEY (mood_id, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE habit (
  mysis_id INTEGER PRIMARY KEY REFERENCES mysis(id), often INTEGER NOT NULL, word TEXT NOT NULL
) STRICT;
CREATE TABLE weather (word TEXT NOT NULL) STRICT;
"""
ROWS = f"""
INSERT INTO mood(memory_id, seen_by, kind, word, more, ended_in, created_at)
  SELECT min(m.id), 2, 'good', 'glad of {KEY}', '{{"of": ["{KEY}"]}}', (SELECT max(id) FROM turn WHERE mysis_id = 1), 5
  FROM memory m WHERE m.mysis_id = 1;
INSERT INTO mood(memory_id, seen_by, kind, word, more, created_at)
  SELECT max(m.id), NULL, 'bad', 'tired', '{{}}', 6 FROM memory m WHERE m.mysis_id = 1;
INSERT INTO mood_reason SELECT id, 0, 'because of {KEY}' FROM mood;
INSERT INTO habit VALUES (1, 3, 'sings {KEY}');
INSERT INTO weather VALUES ('rain');
"""
SHOWN = """
SELECT m.content, y.uid, d.kind, d.word, d.more, t.number, d.created_at, r.position, r.reason
FROM mood d JOIN memory m ON m.id = d.memory_id JOIN mood_reason r ON r.mood_id = d.id
LEFT JOIN mysis y ON y.id = d.seen_by LEFT JOIN turn t ON t.id = d.ended_in ORDER BY d.id
"""


@contextmanager
def migrated(path: Path, folder: Path) -> Iterator[WriterConnection]:
    """Open a database after one more migration."""
    migrations = folder / "migrations"
    if not migrations.exists():
        shutil.copytree(MIGRATIONS, migrations)
        (migrations / f"{newest_version() + 1:04}.sql").write_text(NEW, encoding="utf-8")
    connection = sqlite3.connect(path, isolation_level=None, factory=WriterConnection)
    with closing(connection):
        connection.clock_now = lambda: 7
        migrate(connection, path, folder=migrations)
        yield connection


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with rows in the new tables."""
    folder = tmp_path_factory.mktemp("worked")
    path = asyncio.run(make_sample_swarm(folder))
    with migrated(path, folder) as conn:
        run(conn, ROWS)
    return path


@pytest.fixture
def conn(worked: Path, tmp_path: Path) -> Iterator[WriterConnection]:
    """A copy of it."""
    shutil.copytree(worked.parent, tmp_path / "copy")
    with migrated(tmp_path / "copy" / worked.name, tmp_path) as connection:
        yield connection


def run(conn: sqlite3.Connection, script: str) -> None:
    for statement in split_statements(script):
        conn.execute(statement)


def values(conn: sqlite3.Connection, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in conn.execute(sql).fetchall()]


def test_its_rows_are_imported_beside_others_and_name_the_same_rows(conn: WriterConnection, tmp_path: Path) -> None:
    file = tmp_path / "alpha.jsonl"
    file.write_text("".join(text for text, _ in conversation_lines(conn, 1, None)), encoding="utf-8")
    kinds = {json.loads(line)["kind"] for line in file.read_text("utf-8").splitlines()}
    assert {"mood", "mood_reason", "habit"} <= kinds
    assert "weather" not in kinds
    with migrated(tmp_path / "other.db", tmp_path) as other:
        run(
            other,
            "INSERT INTO template VALUES (zeroblob(32), 'other', '{}', 1);"
            "INSERT INTO mysis(uid, name, template_hash, provider, model, state, state_at, created_at)"
            " VALUES ('own', 'own', zeroblob(32), '', '', 'idle', 1, 1);"
            "INSERT INTO turn(mysis_id, number, opened_by, frozen, opened_at) VALUES (1, 1, 'prompt', '{}', 1);"
            "INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, tokens, created_at)"
            " VALUES (1, 1, 1, 'user', 'direct', 'mine', 1, 1);"
            "INSERT INTO mood(memory_id, kind, word, more, created_at) VALUES (1, 'bad', 'mine', '1', 1)",
        )
        with transaction(other):
            import_into(other, file)
        came = values(conn, SHOWN)
        assert [row[2:4] for row in came] == [("good", f"glad of {KEY}"), ("bad", "tired")]
        assert came[0][0] == "Mine\niron"
        assert (came[0][1] is None, came[0][5], came[1][1]) == (False, 2, None)
        assert values(other, SHOWN) == came
        assert values(other, "SELECT often, word FROM habit") == values(conn, "SELECT often, word FROM habit")
        assert values(other, "PRAGMA foreign_key_check") == []


def test_its_texts_are_redacted_in_an_export(conn: WriterConnection) -> None:
    lines = "".join(text for text, _ in conversation_lines(conn, 1, redact_all))
    assert KEY not in lines
    moods = [json.loads(line) for line in lines.splitlines() if json.loads(line)["kind"] == "mood"]
    assert [(one["of"], json.loads(one["more"]).keys()) for one in moods] == [("good", {"of"}), ("bad", set())]


def test_its_texts_are_redacted_in_the_database(conn: WriterConnection, tmp_path: Path) -> None:
    with transaction(conn):
        redact_text(conn, tmp_path, KEY, rewrite_texts, now=7, who="test")
    assert values(conn, "SELECT word, more FROM mood LIMIT 1") == [("glad of [REDACTED]", '{"of":["[REDACTED]"]}')]
    assert values(conn, "SELECT DISTINCT reason FROM mood_reason") == [("because of [REDACTED]",)]
    assert values(conn, "SELECT word FROM habit") == [("sings [REDACTED]",)]


def test_its_rows_go_with_their_mysis(conn: WriterConnection) -> None:
    conn.execute("PRAGMA foreign_keys = ON")
    with transaction(conn):
        remove_mysis(conn, 1, now=7, who="test")
    for table, left in (("mood", 0), ("mood_reason", 0), ("habit", 0), ("weather", 1)):
        assert values(conn, f"SELECT count(*) FROM {table}") == [(left,)], table
