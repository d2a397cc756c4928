"""Import of a Zoea Nova database: turns, repairs, options, refusals."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.nova import ALPHA, ODD, PASSWORD, PROMPT, Row, calls, nova_database
from tests.swarm.harness import script, swarm
from tests.transfer.sample_exports import count_rows, read_rows
from zoea.model.errors import StoreError, StoreForeign, SwarmFull, UsageError, WorkspaceHeld
from zoea.model.request import Answer
from zoea.process.lock import OwnerLock
from zoea.settings.paths import places
from zoea.settings.schema import Settings
from zoea.store.database_file import APPLICATION_ID
from zoea.store.writer_connection import WriterConnection
from zoea.transfer.conflicts import insert_with_id
from zoea.transfer.nova_database import open_nova, parse_time
from zoea.transfer.report import ImportReport
from zoea.transfer.run_import import import_nova

QUIET = Settings.model_validate({"nudge": {"enabled": False}})


async def import_database(path: Path, **wishes: str) -> ImportReport:
    return await import_nova(places(), path, lambda *_: None, **wishes)


def here(sql: str, *parameters: object) -> list[tuple[object, ...]]:
    return read_rows(places().database, sql, *parameters)


def read_siblings(source: Path) -> dict[str, bytes]:
    """The files that start with the source's name, with their contents."""
    return {file.name: file.read_bytes() for file in source.parent.glob(f"{source.name}*")}


async def test_a_conversation_becomes_turns_and_defects_are_repaired(tmp_path: Path) -> None:
    source = nova_database(tmp_path / "nova.db")
    before = read_siblings(source)
    report = await import_database(source)
    assert read_siblings(source) == before
    alpha, beta = report.arrivals
    assert "schema 12" in report.source
    assert (alpha.name, alpha.turns, alpha.memories, alpha.tool_calls) == ("alpha", 4, 14, 6)
    assert (beta.name, beta.wanted) == ("Beta- 2", "Beta: 2")
    assert alpha.mended == {
        "broken arguments of calls were mended": 1,
        "results whose call is not there are results of an unknown tool": 1,
        "calls without a result are marked unknown": 1,
        "texts had a password or a key, which is taken out": 2,
    }
    assert here("SELECT opened_by, outcome FROM turn WHERE mysis_id = 1 ORDER BY number") == [
        ("prompt", "answered"),
        ("nudge", "interrupted"),
        ("prompt", "interrupted"),
        ("prompt", "cancelled"),
    ]
    # Results stand behind their calls, in the order of the calls, with the times they had.
    first = here("SELECT seq, role, created_at % 60000000 FROM memory WHERE turn_id = 1 ORDER BY seq")
    assert first == [
        (1, "user", 1_000_000),
        (2, "assistant", 2_000_000),
        (3, "tool", 3_000_000),
        (4, "tool", 3_000_000),
        (5, "assistant", 4_000_000),
    ]
    assert here("SELECT arguments, state FROM tool_call WHERE name = 'add_note'") == [(ODD, "done")]
    assert here(
        "SELECT m.content FROM memory m JOIN tool_call k ON k.result_memory_id = m.id WHERE k.name = 'add_note'"
    ) == [("noted: fine|really",)]
    assert here("SELECT name, provider_call_id FROM tool_call WHERE state = 'unknown' ORDER BY id") == [
        ("jump", "c5"),
        ("unknown_tool", "c77"),
    ]
    assert here("SELECT count(*) FROM tool_call WHERE result_memory_id IS NULL") == [(0,)]
    # One broadcast for both who heard it, though each had stored it a moment apart.
    assert here(
        "SELECT g.sender_kind, g.sender_name, count(*) FROM message g JOIN delivery d ON d.message_id = g.id"
        " WHERE g.kind = 'broadcast' GROUP BY g.id ORDER BY g.id"
    ) == [("mysis", "Beta- 2", 1), ("commander", "", 2)]
    with closing(sqlite3.connect(places().database)) as connection:
        text = "\n".join(connection.iterdump())
    assert PASSWORD not in text
    assert json.loads(str(here("SELECT body FROM template WHERE name = 'nova'")[0][0]))["prompt"] == PROMPT


async def test_an_imported_mysis_can_run_and_is_not_imported_twice(tmp_path: Path) -> None:
    source = nova_database(tmp_path / "nova.db")
    await import_database(source)
    before = count_rows(places().database)
    again = await import_database(source.rename(tmp_path / "moved.db"))
    assert not again.arrivals
    assert again.skipped["alpha"] == "it was imported already, as alpha"
    assert count_rows(places().database) == before
    async with swarm(places().data, script(Answer(text="On it")), settings=QUIET) as inner:
        assert inner.state() == "stopped"
        await inner.commander.start("alpha")
        await inner.commander.send("alpha", "Go on")
        await inner.settled()
        sent = inner.sent()[-1]
        assert ("user", "Go on") in sent
        # Its history is the newest slice that is whole, its system prompt the one it had.
        assert inner.provider.requests[-1].messages[0].content.startswith("You are a pilot.")
        assert ("tool", "whose is this") in sent
        found = await inner.rows("SELECT content FROM memory WHERE content LIKE '%hull 100%'")
        assert found
        assert await inner.value("SELECT max(number) FROM turn WHERE mysis_id = 1") == 5


async def test_a_write_ahead_log_is_imported_and_the_source_stays_unchanged(tmp_path: Path) -> None:
    source = nova_database(tmp_path / "nova.db", wal=True)
    files = read_siblings(source)
    assert len(files["nova.db-wal"]) > 0
    report = await import_database(source)
    assert len(report.arrivals) == 2
    assert read_siblings(source) == files


async def test_missing_names_providers_and_templates_are_replaced(tmp_path: Path) -> None:
    places().make_config()
    places().config_file.write_text('[provider.ollama-qwen]\ntype = "ollama"\nmodel = "qwen3"\n')
    await import_database(nova_database(tmp_path / "one.db"))
    assert here("SELECT provider, model FROM mysis ORDER BY id") == [("ollama-qwen", "qwen3"), ("ollama-qwen", "qwen3")]
    other = [Row(ALPHA, "user", "Hi", 1), Row(ALPHA, "robot", "beep", 2), Row("gone-1", "user", "Old", 3, sender="who")]
    with closing(sqlite3.connect(nova_database(tmp_path / "two.db", other), isolation_level=None)) as conn:
        conn.execute("UPDATE myses SET created_at = 1700000000")
        conn.execute("UPDATE memories SET created_at = 'soon' WHERE role = 'robot'")
    report = await import_database(tmp_path / "two.db", provider="autopilot", template="miner")
    assert [arrival.name for arrival in report.arrivals] == ["alpha-2", "Beta- 2-2", "nova-gone1"]
    alpha, _, gone = report.arrivals
    assert alpha.mended == {
        "memories of an unknown role are kept as notes": 1,
        "times that could not be read are those of the memory before": 1,
    }
    assert gone.notes == ["Zoea Nova had only its memories left, not the mysis itself"]
    assert here(
        "SELECT provider, p.name FROM mysis JOIN template p ON p.hash = template_hash WHERE mysis.name = 'alpha-2'"
    ) == [("autopilot", "miner")]
    assert here("SELECT content FROM turn_note") == [("(a memory of role 'robot' in Zoea Nova)\nbeep",)]
    assert here("SELECT name FROM mysis WHERE deleted_at IS NOT NULL") == [("nova-who",)]
    with pytest.raises(UsageError, match="no provider 'cloud'"):
        await import_database(tmp_path / "two.db", provider="cloud")


async def test_unusual_sequences_of_prompts_and_nudges_become_turns(tmp_path: Path) -> None:
    story = [
        Row(ALPHA, "system", "One", 0),
        Row(ALPHA, "system", "Two", 0),
        Row(ALPHA, "user", "First", 1),
        Row(ALPHA, "user", "Second", 1),
        Row(ALPHA, "assistant", "[TOOL_CALLS]", 2),
        Row(ALPHA, "user", "URGENT: Respond immediately. Check your system status.", 3, source="system"),
        Row(ALPHA, "assistant", calls("x:look:{}"), 4),
        Row(ALPHA, "tool", '{"no": "id"}', 5),
        Row(ALPHA, "assistant", calls("x:look:[1]", "nonsense"), 6),
        Row(ALPHA, "tool", "lonely words", 7),
        Row(ALPHA, "tool", "lonely words", 7),
        Row(ALPHA, "user", "", 8),
    ]
    (alpha, _) = (await import_database(nova_database(tmp_path / "nova.db", story))).arrivals
    assert alpha.mended["further system prompts are kept as notes"] == 1
    assert alpha.mended["results without an id belong to the one call that waited"] == 1
    assert alpha.mended["arguments that are no JSON are kept as they stand"] == 2
    assert here("SELECT number, opened_by, nudge_level, outcome FROM turn ORDER BY number") == [
        (1, "prompt", 0, "answered"),
        (2, "nudge", 3, "interrupted"),
        (3, "prompt", 0, "cancelled"),
    ]
    assert here("SELECT content FROM memory WHERE turn_id = 1 ORDER BY seq") == [
        ("First",),
        ("Second",),
        ("[TOOL_CALLS]",),
    ]
    assert ("nonsense",) in here("SELECT arguments FROM tool_call")
    assert here("SELECT count(*) FROM memory WHERE content = 'lonely words'") == [(2,)]
    assert here("SELECT count(*) FROM message") == [(2,)]  # nothing was said in the empty one


async def test_a_file_that_is_no_nova_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("hello")
    for name, tables in {
        "other.db": "CREATE TABLE a (b); CREATE TABLE myses (id, name);",
        "half.db": "CREATE TABLE myses (id, name); CREATE TABLE memories (role);",
        "zoea.db": f"PRAGMA application_id = {APPLICATION_ID}; CREATE TABLE a (b);",
    }.items():
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            connection.executescript(tables)
    nova_database(tmp_path / "old.db", version=9)
    damaged = nova_database(tmp_path / "damaged.db")
    damaged.write_bytes(damaged.read_bytes()[:5000])
    for name, words in (
        ("text.db", "no SQLite database"),
        ("other.db", r"no table memories \(tables: a, myses\)"),
        ("half.db", "no table memories|no memories.mysis_id"),
        ("zoea.db", "a database of this Zoea"),
        ("old.db", "schema 9; this Zoea reads schema 12"),
        ("damaged.db", "cannot be read"),
    ):
        with pytest.raises(StoreForeign, match=words):
            await import_database(tmp_path / name)
    with pytest.raises(UsageError, match="no file"):
        await import_database(tmp_path / "none.db")


async def test_a_database_without_schema_version_is_read_by_its_columns(tmp_path: Path) -> None:
    schema = """
    CREATE TABLE schema_version (version INTEGER PRIMARY KEY);
    CREATE TABLE myses (id, name, provider, model, state, created_at, mood);
    CREATE TABLE memories (mysis_id, role, source, sender_id, content BLOB, reasoning, created_at);
    CREATE TABLE accounts (username, password);
    """
    report = await import_database(nova_database(tmp_path / "nova.db", version=None, schema=schema))
    assert "without a schema version" in report.source
    assert [arrival.turns for arrival in report.arrivals] == [4, 1]


async def test_a_database_whose_damage_is_not_even_text_is_refused(tmp_path: Path) -> None:
    source = nova_database(tmp_path / "nova.db")
    source.write_bytes(source.read_bytes().replace(b"version INTEGER PRIMARY KEY", b"version INTEGER PRIMARY \xc2 Y"))
    with pytest.raises(StoreForeign, match="cannot be read"):
        await import_database(source)


async def test_an_import_is_refused_beside_an_owner_and_over_the_limit(tmp_path: Path) -> None:
    source = nova_database(tmp_path / "nova.db")
    where = places()
    where.make_data()
    with OwnerLock(where.data, where.socket), pytest.raises(WorkspaceHeld, match="process") as held:
        await import_database(source)
    assert "zoea stop --swarm" in held.value.hint
    where.make_config()
    where.config_file.write_text("[swarm]\nmax_myses = 1\n")
    with pytest.raises(SwarmFull, match="2 would come"):
        await import_database(source)
    assert count_rows(where.database)["mysis"] == 0


async def test_an_import_is_atomic_for_each_mysis_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = nova_database(tmp_path / "nova.db")

    def break_off(conn: WriterConnection, table: str, columns: Mapping[str, Any]) -> int:
        if columns.get("content") == "Stopped":
            raise StoreError("the power went")
        return insert_with_id(conn, table, columns)

    with monkeypatch.context() as patched:
        patched.setattr("zoea.transfer.nova_import.insert_with_id", break_off)
        with pytest.raises(StoreError, match="the power went"):
            await import_database(source)
    assert here("SELECT name FROM mysis WHERE deleted_at IS NULL") == [("alpha",)]
    report = await import_database(source)
    assert (list(report.skipped), [arrival.name for arrival in report.arrivals]) == (["alpha"], ["Beta- 2"])
    assert here("SELECT count(*) FROM message WHERE content = 'All stop'") == [(1,)]


@walk_cases(
    ("said", "expected"),
    [
        ("2026-01-31 12:00:01.123456789 +0000 UTC", 1769860801123456),
        ("2026-01-31T13:00:01.5+01:00", 1769860801500000),
        ("2026-01-31 12:00", 1769860800000000),
        ("2026-01-31 12:00:01 +0000 UTC m=+0.004", 1769860801000000),
        (1769860801, 1769860801000000),
        (1769860801000, 1769860801000000),
        ("1769860801000000", 1769860801000000),
        (1769860801000000000, 1769860801000000),
        (1769860801.5, 1769860801500000),
        ("1769860801.5", 1769860801500000),
        ("2026-13-31 12:00:00", None),
        ("9999-01-01 00:00:00", None),
        ("1960-01-01 00:00:00", None),
        ("soon", None),
        (b"x", None),
        (None, None),
        (-5, None),
        (1 << 90, None),
    ],
)
def test_times_are_parsed_in_all_known_formats(said: object, expected: int | None) -> None:
    assert parse_time(said) == expected


def test_memories_of_the_same_time_keep_their_stored_order(tmp_path: Path) -> None:
    story = [Row(ALPHA, "user", name, 5) for name in "abc"] + [Row(ALPHA, "user", "early", 1)]
    with open_nova(nova_database(tmp_path / "nova.db", story)) as database:
        (alpha, _) = database.myses()
        assert [memory.content for memory in database.memories(alpha)] == ["early", "a", "b", "c"]
