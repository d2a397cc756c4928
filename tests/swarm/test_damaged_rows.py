"""A missing or unreadable row of one mysis keeps no other mysis from running."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.swarm.harness import call, script, swarm
from zoea.model.request import Answer
from zoea.store.database_file import open_reader

VICTIM = 1
SHARED = {"template": "hash = (SELECT template_hash FROM mysis WHERE id = 1)", "mysis": "id = 1"}
"""Tables that a mysis points to, with the rows of the victim."""


async def make_database(folder: Path) -> Path:
    """Make a database of alpha and beta, each with a template.

    Alpha has an answered turn and a message that waits.
    """
    rules = script(Answer(calls=(call("act"),)), Answer(text="done"))
    async with swarm(folder, rules) as s:
        await s.commander.create("alpha", template="nova", start=False, tags=("north",))
        await s.commander.create("beta", start=False)
        await s.ask("alpha", "go")
        await s.commander.hold(True, ref="alpha", reason="lunch")
        await s.commander.send("alpha", "and again")
    return folder / "zoea.db"


def rows_of_a_mysis(database: Path) -> dict[str, str]:
    """Return every table with rows of the victim, and the condition that selects them."""
    with closing(open_reader(database)) as reader:
        tables = [row[0] for row in reader.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        found = dict(SHARED)
        for table in tables:
            keys = reader.execute(f"PRAGMA foreign_key_list({table})").fetchall()
            names = sorted(key["from"] for key in keys if key["table"] == "mysis")
            if names and table not in found:
                found[table] = f"{names[0]} = {VICTIM}"
        return {
            table: where
            for table, where in found.items()
            if table != "ctx_commit" and reader.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone()[0]
        }


def damages(database: Path) -> Iterator[str]:
    """Yield a statement for each damage: all rows of a table gone, and each of its texts unreadable.

    Rows of commits are left out, because the database lets none of them change.
    """
    for table, where in rows_of_a_mysis(database).items():
        if table != "mysis":
            yield f"DELETE FROM {table} WHERE {where}"
        with closing(open_reader(database)) as reader:
            columns = [(row["name"], row["type"]) for row in reader.execute(f"PRAGMA table_info({table})")]
        for name, kind in columns:
            if kind == "TEXT" and name not in ("uid", "name"):
                yield f"UPDATE {table} SET {name} = '[7]' WHERE {where}"


def damage(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as conn:
        conn.execute("PRAGMA foreign_keys = OFF")
        conn.execute("PRAGMA ignore_check_constraints = ON")
        conn.execute(statement)
        conn.commit()


@pytest.mark.timeout(120)
async def test_the_others_run_and_the_damaged_mysis_stays_in_the_list(tmp_path: Path) -> None:
    database = await make_database(tmp_path)
    for number, statement in enumerate(damages(database)):
        folder = tmp_path / str(number)
        folder.mkdir()
        shutil.copy(database, folder / "zoea.db")
        damage(folder / "zoea.db", statement)
        async with swarm(folder, script(Answer(text="here"))) as s:
            await s.commander.send("beta", "still there?")
            await s.until(lambda: s.commander.swarm.runner("beta").is_settled and s.provider.calls > 0)
            names = [view.name for view in (await s.commander.view()).myses]
            assert names == ["alpha", "beta"], statement
            assert (await s.commander.mysis("beta")).turns == 1, statement


@pytest.mark.parametrize("column", ["state", "error", "wait"])
async def test_a_mysis_whose_row_cannot_be_read_says_so(tmp_path: Path, column: str) -> None:
    database = await make_database(tmp_path)
    damage(database, f"UPDATE mysis SET {column} = '[7]' WHERE id = 1")
    async with swarm(database.parent) as s:
        failure = (await s.commander.mysis("alpha")).failure
        assert failure is not None
        assert (failure.title, failure.what.partition(": ")[0]) == (
            "Its row cannot be read",
            "a value of mysis #1 in the database is damaged",
        )


async def test_missing_counters_are_counted_again(tmp_path: Path) -> None:
    database = await make_database(tmp_path)
    with closing(open_reader(database)) as reader:
        counted = tuple(reader.execute("SELECT * FROM tally WHERE mysis_id = 1").fetchone())
    damage(database, "DELETE FROM tally WHERE mysis_id = 1")
    async with swarm(database.parent) as s:
        [row] = await s.rows("SELECT * FROM tally WHERE mysis_id = 1")
        assert tuple(row.values()) == counted
