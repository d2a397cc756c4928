"""Damaged files of Zoea Nova and of exports: each is imported, or refused with a message of Zoea's own."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.fakes.memory_store import memory_store
from tests.fakes.mutations import COUNT, mutations
from tests.fakes.nova import nova_database
from tests.transfer.sample_exports import export_lines, import_into, make_sample_swarm
from zoea.model.errors import ZoeaError
from zoea.settings.schema import Settings
from zoea.settings.template import Template
from zoea.store.writer_connection import WriterConnection
from zoea.transfer.nova_database import open_nova
from zoea.transfer.nova_import import NovaImport, NovaOptions

LINES = COUNT if os.environ.get("ZOEA_SOAK") else 25
"""Damaged exports, each of which is read whole."""
WANTED = NovaOptions(Settings(), Template(name="default"), "autopilot", "")


def _import_nova(conn: WriterConnection, path: Path) -> int:
    """Import all myses of a database and roll back; return how many there were."""
    conn.execute("BEGIN")
    try:
        with open_nova(path) as nova:
            myses = nova.myses()
            for mysis in myses:
                NovaImport(nova, mysis, myses, WANTED, lambda *_: None)(conn)
            return len(myses)
    finally:
        conn.events.clear()
        conn.execute("ROLLBACK")


@pytest.mark.timeout(1800)
def test_a_damaged_nova_database_is_imported_or_refused(tmp_path: Path) -> None:
    conn = memory_store()
    sound = nova_database(tmp_path / "nova.db").read_bytes()
    damaged = tmp_path / "damaged.db"
    imported = refused = 0
    for data in mutations(sound, seed=11):
        damaged.write_bytes(data)
        try:
            _import_nova(conn, damaged)
        except ZoeaError:
            refused += 1
        else:
            imported += 1
    assert imported > 10, "unused pages were damaged too"
    assert refused > 10
    assert conn.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert conn.execute("SELECT count(*) FROM mysis").fetchone()[0] == 0
    conn.close()


@pytest.mark.timeout(1800)
def test_damaged_lines_of_an_export_are_imported_or_refused(tmp_path: Path) -> None:
    sound = export_lines(asyncio.run(make_sample_swarm(tmp_path)), 1, 2).encode()
    conn = memory_store()
    damaged = tmp_path / "damaged.jsonl"
    refused = 0
    for data in mutations(sound, seed=13, count=LINES):
        damaged.write_bytes(data)
        conn.execute("BEGIN")
        try:
            import_into(conn, damaged)
        except ZoeaError:
            refused += 1
        finally:
            conn.events.clear()
            conn.execute("ROLLBACK")
    assert refused > 10
    assert conn.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert conn.execute("SELECT count(*) FROM memory").fetchone()[0] == 0
    conn.close()
