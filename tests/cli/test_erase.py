"""`zoea purge` and `zoea redact`: what they remove is gone from every file, and the rest is as it was."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.cli.conftest import CommandResult, Zoea
from tests.fakes.owner import OwnerThread
from tests.fakes.toolboxes import asked
from tests.store.sample_memories import database
from tests.swarm.harness import script, swarm
from zoea.model.request import Answer
from zoea.runtime.unsent_texts import BROADCAST, change_unsent, name_identity, name_limits, name_recipient, read_unsent
from zoea.settings.paths import Places, places
from zoea.store.blobs import put_blob
from zoea.store.redaction import text_columns
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection

SECRET = 'pa"ss\\wörd 鉄-1234'
KEPT = "The vein of beryllium lies at p16"


async def remember_secret(folder: Path) -> None:
    """Make a swarm in which the secret stands wherever a text can be. Another mysis has not heard it."""
    answers = script(
        Answer(
            text=f"I keep {SECRET} in mind. {KEPT}",
            reasoning=f"so it is {SECRET}",
            calls=(asked("act", text=f"use {SECRET}"), asked("zoea_broadcast", text=f"all: {SECRET}")),
        ),
        Answer(text=f"done with {SECRET}"),
        Answer(text=f"heard {SECRET}"),
    )
    async with swarm(folder, answers) as s:
        await s.create("alpha", "beta")
        await s.ask("alpha", f"remember {SECRET}")
        await s.settled("beta")
        await s.store.write(_add_blobs)


def _add_blobs(connection: WriterConnection) -> None:
    memory_id = connection.execute("SELECT max(id) FROM memory WHERE role = 'tool'").fetchone()[0]
    for position, data in enumerate((SECRET.encode(), os.urandom(1_100_000) + SECRET.encode(), b"no secret")):
        blob = put_blob(connection, data)
        connection.execute("INSERT INTO memory_blob VALUES (?, ?, ?, 'text/plain', '')", (memory_id, position, blob))
    packed = zstandard.ZstdCompressor().compress(json.dumps([{"text": f"packed {SECRET}"}]).encode())
    connection.execute("UPDATE request SET plan = ? WHERE id = (SELECT min(id) FROM request)", (packed,))
    connection.execute("INSERT INTO catalogue VALUES ('of this test', ?, 0)", (packed,))
    turn = connection.execute("SELECT max(id) FROM turn").fetchone()[0]
    connection.execute("INSERT INTO turn_note VALUES (?, 1, 'loop', ?)", (turn, f"noted {SECRET}"))


@pytest.fixture
def where() -> Places:
    found = places("")
    found.make_data()
    asyncio.run(remember_secret(found.data))
    return found


def every_text(where: Places) -> str:
    """All files of the data directory as text, and what is packed in the database."""
    with closing(sqlite3.connect(where.database)) as connection:
        dump = "\n".join(connection.iterdump())
        packed = [row[0] for row in connection.execute("SELECT plan FROM request WHERE plan IS NOT NULL")]
        packed += [row[0] for row in connection.execute("SELECT tools FROM catalogue")]
        packed += [row[0] for row in connection.execute("SELECT data FROM blob WHERE data IS NOT NULL")]
        plain = [zstandard.ZstdDecompressor().decompress(each).decode("utf-8", "replace") for each in packed]
    files = [path.read_bytes().decode("utf-8", "replace") for path in where.data.rglob("*") if path.is_file()]
    return "\n".join([dump, *plain, *files])


def forms(text: str) -> set[str]:
    once = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return once | {json.dumps(form)[1:-1] for form in once}


def rows(where: Places, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(where.database)) as connection:
        return connection.execute(sql).fetchall()


def check_good(zoea: Zoea) -> CommandResult:
    checked = zoea("doctor", "--json")
    assert checked.json["is_good"] is True, checked.out
    return checked


def test_redacting_leaves_the_text_in_no_file(zoea: Zoea, where: Places) -> None:
    assert any(form in every_text(where) for form in forms(SECRET))
    (where.data / "zoea.log").write_text(f"it said {SECRET}")
    (where.data / "lists.json").write_text(json.dumps([f"it said {SECRET}"]))
    done = zoea("redact", SECRET, "--yes", "--json")
    assert done.code == 0, done.err
    assert done.json["occurrences"] > 10
    assert (done.json["memories"], done.json["turns"], done.json["blobs"]) == (6, 2, 5)  # and three commits
    assert done.json["remaining"] == ["lists.json", "zoea.log"]
    for name in done.json["remaining"]:
        (where.data / name).unlink()
    text = every_text(where)
    assert not [form for form in forms(SECRET) if form in text]
    assert KEPT in text
    assert not list((where.data / "blobs").rglob("*.zst"))
    (kind, who, memories, characters) = rows(where, "SELECT kind, who, memories, characters FROM removal")[0]
    assert (kind, memories, characters) == ("redact", 6, done.json["occurrences"] * len(SECRET))
    assert who.startswith("zoea redact, ")
    check_good(zoea)


def test_unsent_texts_of_the_cockpit_are_redacted_and_purged_too(zoea: Zoea, where: Places) -> None:
    (alpha, beta) = (rows(where, f"SELECT id FROM mysis WHERE name = '{name}'")[0][0] for name in ("alpha", "beta"))
    typed = {name_recipient(alpha): f"use\n{SECRET}", name_recipient(beta, is_task=True): "dig", BROADCAST: "hello"}
    of_beta = name_recipient(beta)
    typed |= {of_beta: "sell", name_limits(of_beta): "history_window_size=9", name_identity(of_beta): "ab"}
    change_unsent(where.drafts, lambda _: typed)
    assert zoea("redact", SECRET, "--yes", "--json").json["remaining"] == []
    assert read_unsent(where.drafts) == typed | {name_recipient(alpha): "use\n[REDACTED]"}
    assert zoea("redact", "hello", "--yes", "--json").json["occurrences"] == 1
    asyncio.run(delete("beta", where))
    assert zoea("purge", "beta", "--yes").code == 0
    assert read_unsent(where.drafts) == {name_recipient(alpha): "use\n[REDACTED]", BROADCAST: "[REDACTED]"}


def test_nothing_is_erased_while_the_unsent_texts_cannot_be_read(zoea: Zoea, where: Places) -> None:
    asyncio.run(delete("beta", where))
    where.drafts.symlink_to("/proc/self/mem")  # reading its first byte fails with EIO
    for command in (["redact", SECRET, "--yes"], ["purge", "beta", "--yes"]):
        refused = zoea(*command)
        assert refused.code == 3
        assert "drafts.json cannot be read: Input/output error" in refused.err
    assert rows(where, "SELECT * FROM removal") == []
    assert where.drafts.is_symlink()


def test_a_redacted_swarm_is_read_and_searched_as_before(zoea: Zoea, where: Places) -> None:
    before = zoea("list", "--json").json
    assert zoea("redact", SECRET, "--yes").code == 0
    assert zoea("search", SECRET, "--json").json["results"] == []
    assert len(zoea("search", "[REDACTED]", "--exact", "--json").json["results"]) == 6
    assert zoea("search", "beryllium", "--ranked", "--json").json["results"]
    assert "[REDACTED]" in zoea("log", "alpha").out
    assert zoea("explain", "alpha", "--json").json["request"]["mysis"] == "alpha"
    after = zoea("list", "--json").json
    assert [(one["name"], one["turns"]) for one in after] == [(one["name"], one["turns"]) for one in before]

    async def open_again() -> None:
        async with swarm(where.data, script(Answer(text="back"))) as s:
            await s.ask("alpha", "again")

    asyncio.run(open_again())
    assert not [form for form in forms(SECRET) if form in every_text(where)]


def test_redacting_asks_and_a_no_changes_nothing(zoea: Zoea, where: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (["redact", SECRET], ["redact", SECRET, "--json"]):
        refused = zoea(*arguments)
        assert (refused.code, "--yes" in refused.err) == (2, True)
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    declined = zoea("redact", SECRET)
    assert declined.code == 2
    assert "This cannot be undone" in declined.err
    assert "nothing was replaced" in declined.err
    assert zoea("search", SECRET, "--json").json["results"]
    assert rows(where, "SELECT * FROM removal") == []
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert zoea("redact", SECRET).code == 0
    assert zoea("search", SECRET, "--json").json["results"] == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_text_may_come_from_stdin(zoea: Zoea, where: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{SECRET}\n"))
    assert zoea("redact", "-", "--yes", "--json").json["memories"] == 6


def test_a_word_of_zoea_s_own_is_replaced_in_texts_alone(zoea: Zoea, where: Places) -> None:
    for word in ("messages", "memory_id", "answered", "running", "beryllium", "content"):
        done = zoea("redact", word, "--yes")
        assert (done.code, "zoea.db" in done.out) == (0, False), "the database has names of that word, and is kept"
    assert "[REDACTED] lies at p16" in zoea("log", "alpha").out
    assert zoea("explain", "alpha", "--json").json["request"]["mysis"] == "alpha"
    check_good(zoea)

    async def open_again() -> None:
        async with swarm(where.data, script(Answer(text="back"))) as s:
            await s.ask("alpha", "again")

    asyncio.run(open_again())


@pytest.mark.usefixtures("where")
def test_a_short_text_and_an_unknown_text_change_nothing(zoea: Zoea) -> None:
    short = zoea("redact", "abc", "--yes")
    assert (short.code, "at least 4 characters" in short.err) == (2, True)
    assert zoea("redact", "not in there", "--yes", "--json").json["occurrences"] == 0


REPLACED = {
    "approval": "about answered_by sentence",
    "calibration": "model provider",
    "ctx_note": "summary tags",
    "delivery": "reason",
    "grant_": "template tool upstream",
    "late_result": "content",
    "memory": "content native reasoning",
    "memory_blob": "note",
    "message": "content recipients_filter sender_name",
    "model_fact": "model name provider value",
    "mysis": "error goal held_reason model overrides provider state_reason wait",
    "mysis_tag": "tag",
    "removal": "who why",
    "request": "model provider",
    "setting": "value",
    "summary": "content model",
    "template": "body name",
    "tool_call": "arguments name provider_call_id upstream",
    "topic_message": "content data sender",
    "turn": "failure frozen",
    "turn_answer": "answer",
    "turn_note": "content",
}
"""The columns in which a text of someone else is replaced: a new one belongs here or to those that stay."""
BINARY = {
    "blob": "data hash",
    "catalogue": "tools",
    "ctx_commit": "hash template_hash",
    "ctx_import": "template_hash",
    "mysis": "template_hash",
    "request": "plan",
    "session": "template_hash",
    "template": "hash",
    "tool_call": "fingerprint result_fingerprint",
}
"""The columns of bytes: hashes, fingerprints, and what is unpacked to be replaced."""
_COLUMNS_OF = """
SELECT t.name, c.name FROM pragma_table_list t JOIN pragma_table_xinfo(t.name) c
WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND c.type NOT IN
"""


def pairs(columns: dict[str, str]) -> set[tuple[str, str]]:
    return {(table, column) for table, names in columns.items() for column in names.split()}


def test_each_column_of_the_schema_has_a_decision() -> None:
    with closing(database()) as connection:
        found = {(table, column) for table, column, _ in text_columns(connection)}
        binary = set(connection.execute(f"{_COLUMNS_OF} ('TEXT', 'INTEGER', 'REAL')"))
    assert found == pairs(REPLACED)
    assert binary == pairs(BINARY)


def test_a_text_in_any_column_is_replaced(zoea: Zoea, where: Places) -> None:
    filled = set()
    with closing(sqlite3.connect(where.database)) as connection, connection:
        for table, column, is_json in text_columns(connection):
            value = json.dumps({"said": SECRET}) if is_json else f"before {SECRET} after"
            if connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", (value,)).rowcount:
                filled.add(table)
    assert {"ctx_note", "memory", "message", "tool_call", "turn", "template", "setting"} <= filled
    assert zoea("redact", SECRET, "--yes", "--json").json["remaining"] == []
    assert not [form for form in forms(SECRET) if form in every_text(where)]


def test_every_column_with_texts_is_looked_through() -> None:
    with closing(database()) as connection:
        found = {(table, column) for table, column, _ in text_columns(connection)}
        as_json = {(table, column) for table, column, is_json in text_columns(connection) if is_json}
    assert {("turn", "frozen"), ("memory", "native"), ("mysis", "error"), ("setting", "value")} <= as_json
    assert {("memory", "content"), ("memory", "reasoning"), ("memory", "native"), ("turn", "frozen")} <= found
    assert {("tool_call", "arguments"), ("message", "content"), ("turn_note", "content"), ("mysis", "error")} <= found
    assert not found & {
        ("mysis", "state"),
        ("turn", "outcome"),
        ("memory", "role"),
        ("mysis", "name"),
        ("blob", "place"),
    }


async def delete(name: str, where: Places) -> None:
    async with swarm(where.data, script(Answer(text="-"))) as s:
        await s.commander.delete(name)


def test_purging_removes_a_deleted_mysis_and_keeps_what_others_heard(zoea: Zoea, where: Places) -> None:
    asyncio.run(delete("alpha", where))
    done = zoea("purge", "alpha", "--yes", "--json")
    assert done.code == 0, done.err
    assert (done.json["turns"], done.json["memories"]) == (1, 5)
    assert KEPT not in every_text(where)
    assert rows(where, "SELECT DISTINCT principal FROM ctx_commit") == [("beta",)]
    assert f"all: {SECRET}" in "\n".join(row[0] for row in rows(where, "SELECT content FROM memory"))
    assert zoea("undelete").out == "There are no deleted myses\n"
    assert [one["name"] for one in zoea("list", "--json").json] == ["beta"]
    assert zoea("purge", "alpha", "--yes").code != 0
    ((kind, memories, mysis),) = rows(where, "SELECT kind, memories, mysis_id FROM removal")
    assert (kind, memories, mysis) == ("purge", 5, 1)
    check_good(zoea)


def test_only_deleted_myses_are_purged_and_only_when_confirmed(
    zoea: Zoea, where: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    living = zoea("purge", "alpha", "--yes")
    assert (living.code, "no deleted mysis 'alpha'" in living.err) == (6, True)
    assert "no deleted mysis #1" in zoea("purge", "#1", "--yes").err
    asyncio.run(delete("alpha", where))
    assert "--yes" in zoea("purge", "alpha").err
    assert zoea("purge", "--yes").code == 2
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert "1 turn, 5 messages" in zoea("purge", "alpha").err
    assert "alpha" in zoea("undelete").out
    monkeypatch.undo()


def test_neither_runs_beside_a_swarm(zoea: Zoea, other_owner: OwnerThread) -> None:
    async def make() -> None:
        store = await Store.open(places("").database, clock_now=lambda: 1)
        await store.close()

    asyncio.run(make())
    refused = zoea("redact", "anything", "--yes")
    assert refused.code != 0
    assert "is running this workspace" in refused.err
