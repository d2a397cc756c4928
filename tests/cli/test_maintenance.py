"""`zoea doctor`."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.cli.conftest import Zoea
from tests.fakes.owner import OwnerThread
from tests.store.sample_memories import workspace
from zoea.model.values import UpstreamView
from zoea.settings.paths import Places


@pytest.fixture
def where() -> Places:
    return workspace()


def test_doctor_checks_and_rebuilds_the_database(zoea: Zoea, where: Places) -> None:
    good = zoea("doctor")
    assert good.code == 0
    assert "search            good" in good.out
    with closing(sqlite3.connect(where.database)) as connection, connection:
        connection.execute("INSERT INTO memory_words(memory_words) VALUES ('delete-all')")
    bad = zoea("doctor")
    assert bad.code == 4
    assert "differ from the stored rows: memory_words" in bad.out
    assert "zoea doctor --rebuild" in bad.out
    assert zoea("doctor", "--rebuild", "--json").json["is_good"] is True


def test_doctor_says_what_upstreams_left_out(zoea: Zoea, where: Places, other_owner: OwnerThread) -> None:
    other_owner.swarm.given_upstreams = (UpstreamView("far", "http", "open", notes=("272 tools left out",)),)
    found = zoea("doctor")
    assert found.code == 0
    assert "upstream far      272 tools left out" in found.out
    assert {"name": "upstream far", "problem": "272 tools left out", "hint": ""} in zoea("doctor", "--json").json[
        "findings"
    ]


def test_vacuum_reports_the_size_before_and_after(zoea: Zoea, where: Places) -> None:
    (where.data / "blobs" / "00").mkdir(parents=True)
    (where.data / "blobs" / "00" / "00ff.zst").write_bytes(b"")
    assert "1 in `blobs` belong to no blob" in zoea("doctor").out
    assert zoea("doctor", "--vacuum", "--json").json["vacuum"]["files"] == 1
    (where.data / "blobs" / "00" / "00ff.zst").write_bytes(b"")
    out = zoea("doctor", "--vacuum").out
    assert "MB now" in out
    assert "1 unused file deleted" in out


def test_progress_is_written_to_a_terminal_only(zoea: Zoea, where: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert "Checking the search indexes" in zoea("doctor").err


def test_doctor_without_a_database_is_an_error(zoea: Zoea) -> None:
    assert zoea("doctor").code == 4
    assert zoea("doctor", "--vacuum").code == 4
