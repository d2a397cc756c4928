"""`zoea import` that kills itself at some of its statements: `python -m tests.faults.killed_import KILLS ARGUMENTS`.

The first kill is in the creation of the database. The others are spread over the statements of the import, which are
counted in a scratch directory; each import is a fork, and the last one is not killed. Says what is stored after each,
as a line of JSON.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.transfer.sample_exports import count_rows
from zoea.__main__ import run
from zoea.model.errors import StoreMissing
from zoea.queries.stored_swarm import open_database
from zoea.settings.paths import places
from zoea.store.writer_connection import WriterConnection
from zoea.transfer.held_workspace import held_workspace

STATEMENTS = WriterConnection.execute
CREATION = 40
"""A statement of the creation of a new database."""


def run_import(arguments: list[str], kill_at: int) -> tuple[int, int]:
    """Import in a fork that is killed at a statement; 0 never. Return its wait status and its number of statements."""
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        done = 0

        def execute(self: WriterConnection, *given: Any) -> Any:
            nonlocal done
            done += 1
            if done == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return STATEMENTS(self, *given)

        WriterConnection.execute = execute  # type: ignore[assignment, method-assign]  # the killer
        code = run(["import", *arguments])
        os.write(writing, str(done).encode())
        os._exit(code)
    os.close(writing)
    _, status = os.waitpid(pid, 0)
    with os.fdopen(reading) as told:
        return status, int(told.read() or 0)


def main(kills: int, arguments: list[str]) -> None:
    importlib.import_module("zoea.cli.commands.imports")  # once, and not in each fork
    importlib.import_module("zoea.transfer.run_import")
    data = os.environ["ZOEA_DATA_DIR"]
    say(run_import(arguments, CREATION)[0])
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["ZOEA_DATA_DIR"] = scratch
        asyncio.run(create())
        _, statements = run_import(arguments, 0)
        os.environ["ZOEA_DATA_DIR"] = data
    asyncio.run(create())
    for kill in range(1, kills):
        say(run_import(arguments, max(1, statements * kill // (kills - 1)))[0])
    say(run_import(arguments, 0)[0])


async def create() -> None:
    """Make the database, so that the statements are those of the import alone."""
    async with held_workspace(places("")):
        return


def say(status: int) -> None:
    """Check the database, and say what it holds."""
    database: Path = places("").database
    try:
        rows = count_rows(database)
    except StoreMissing:
        rows = {}
    if rows:
        with open_database(database) as reader:
            assert [row[0] for row in reader.execute("PRAGMA integrity_check")] == ["ok"]
            assert list(reader.execute("PRAGMA foreign_key_check")) == []
            rows["living"] = reader.execute("SELECT count(*) FROM mysis WHERE deleted_at IS NULL").fetchone()[0]
    sys.stdout.write(json.dumps({"status": status, "rows": rows}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
