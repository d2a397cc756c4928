"""Turns that earlier commits left open go on to their end under the present code.

`make_open_turns.py` made the databases. Each holds for every strategy of its commit a turn that SIGKILL broke off in a
model call, one in a tool call, and one before an approval; each has a past, or a message that waits behind it.
"""

from __future__ import annotations

import asyncio
import json
import lzma
import os
import signal
import sqlite3
import subprocess
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.zoea_process import PATIENCE_S, spawn
from tests.files.repositories import commit, make_repository
from tests.released import make_open_turns
from tests.released.open_turns_settings import HISTORY, STRATEGIES, write_settings
from tests.waiting import until_true
from zoea.cli import run
from zoea.cli.swarm_access import command
from zoea.model.enums import ApprovalAnswer
from zoea.model.errors import ZoeaError
from zoea.settings.paths import places
from zoea.store.database_file import newest_version
from zoea.store.store import Store

pytestmark = pytest.mark.timeout(600)

FOLDER = Path(__file__).with_name("open_turns")
STATES = sorted(file.name.removesuffix(".db.xz") for file in FOLDER.glob("*.db.xz"))
TAKEN = STATES if os.environ.get("ZOEA_SOAK") else sorted({STATES[0], STATES[-1]})
"""The quick run takes the oldest and the newest state, `make soak` all."""
_MEMORIES = "SELECT id, mysis_id, turn_id, seq, role, source, content FROM memory ORDER BY id"
_OPEN = """
SELECT m.name, t.number, t.outcome FROM turn t JOIN mysis m ON m.id = t.mysis_id WHERE t.id IN ({}) ORDER BY m.name
"""
_OPEN_IDS = "SELECT id FROM turn WHERE outcome IS NULL"
_SAID = """
SELECT e.role, e.content FROM memory e JOIN turn t ON t.id = e.turn_id JOIN mysis m ON m.id = t.mysis_id
WHERE m.name = ? AND t.number = ? ORDER BY e.seq
"""

_PROMPTS = """
SELECT e.content FROM memory e JOIN turn t ON t.id = e.turn_id JOIN mysis m ON m.id = t.mysis_id
WHERE m.name = ? AND e.role = 'user' AND t.outcome = 'answered' ORDER BY e.id
"""


@pytest.fixture(params=TAKEN)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Put the database of one commit, with its swarm's settings, where `zoea` looks for it.

    The database is named after its schema.
    """
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    path = data / "zoea.db"
    path.write_bytes(lzma.decompress((FOLDER / f"{request.param}.db.xz").read_bytes()))
    write_settings(tmp_path / "config", STRATEGIES, pace_s=0, timeout_s=120)
    assert f"{read(path, 'PRAGMA user_version')[0][0]:04}" == request.param
    return path


WITHIN_S = 240.0
_LEFT = """
SELECT 'turn', m.name, m.state, m.state_reason FROM turn t JOIN mysis m ON m.id = t.mysis_id WHERE t.outcome IS NULL
UNION ALL
SELECT 'delivery', m.name, m.state, m.state_reason FROM delivery d JOIN mysis m ON m.id = d.mysis_id
WHERE d.state = 'pending'
"""


def await_none(database: Path, query: str) -> None:
    """Wait until a query has no rows; the error shows the last ones."""
    try:
        until_true(lambda: not read(database, query), within=WITHIN_S)
    except AssertionError:
        raise AssertionError(f"left over: {read(database, query)}") from None


def read(database: Path, query: str, *values: Any) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(database, timeout=PATIENCE_S)) as connection:
        return connection.execute(query, values).fetchall()


def strategies_of(names: list[str]) -> set[str]:
    return {name.partition("-")[0] for name in names}


def test_there_is_a_state_of_each_schema() -> None:
    assert [int(one) for one in STATES] == list(range(1, newest_version() + 1))


def test_the_package_of_a_commit_is_unpacked_and_names_its_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = make_repository(tmp_path / "repository")
    migrations = repository / "zoea" / "store" / "migrations"
    migrations.mkdir(parents=True)
    (migrations / "0007.sql").touch()
    commit(repository)
    monkeypatch.setattr(make_open_turns, "ROOT", repository)
    assert make_open_turns.export_code("HEAD", tmp_path) == 7


def test_every_broken_off_turn_goes_on_to_its_end_and_nothing_is_lost(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    memories = read(database, _MEMORIES)
    open_ids = ",".join(str(row[0]) for row in read(database, _OPEN_IDS))
    open_turns = read(database, _OPEN.format(open_ids))
    names = [name for name, _, _ in open_turns]
    strategies = strategies_of(names)
    assert sorted(names) == sorted(f"{one}-{part}" for one in strategies for part in ("ask", "model", "tool"))
    asyncio.run(migrate(database))
    assert read(database, _MEMORIES) == memories

    swarm = spawn("run", "--headless", "--go-on", "--json", stdout=subprocess.DEVNULL)
    try:
        for approval_id in until_true(lambda: approvals(len(strategies)), within=WITHIN_S):
            until_true(partial(is_approved, approval_id), within=WITHIN_S)
        await_none(database, _LEFT)
    finally:
        swarm.send_signal(signal.SIGTERM)
        _, errors = swarm.communicate(timeout=WITHIN_S)
    assert swarm.returncode == 0, errors

    assert {outcome for _, _, outcome in read(database, _OPEN.format(open_ids))} == {"answered"}
    assert read(database, _MEMORIES)[: len(memories)] == memories
    for name, number, _ in open_turns:
        check_end(database, name, number)
    assert not read(database, "SELECT 1 FROM request WHERE state = 'reserved'")
    capsys.readouterr()
    assert run(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["is_good"]


async def migrate(database: Path) -> None:
    await (await Store.open(database, clock_now=lambda: 0)).close(30)


def approvals(count: int) -> list[int]:
    """Return the ids of the open questions once there are `count`.

    None before, or while the swarm is busy.
    """
    try:
        found = command(places(), lambda swarm: swarm.approvals())
    except ZoeaError:
        return []
    return [one.id for one in found] if len(found) == count else []


def is_approved(approval_id: int) -> bool:
    try:
        command(places(), lambda swarm: swarm.answer(approval_id, ApprovalAnswer.ONCE))
    except ZoeaError:
        return False
    return True


def check_end(database: Path, name: str, number: int) -> None:
    """Check how a turn went on: results that are unknown say so, and what waited behind it was answered."""
    said = read(database, _SAID, name, number)
    strategy, _, part = name.partition("-")
    assert said[-1][0] == "assistant", name
    match part:
        case "model":
            assert [role for role, _ in said] == ["user", "assistant"]
            prompts = " ".join(text for (text,) in read(database, _PROMPTS, name))
            assert "Say this slowly." in prompts
            assert "Then say this." in prompts
        case "tool":
            seen, unknown = (content for role, content in said if role == "tool")
            assert seen == "saw the sun"
            assert unknown.startswith("unknown: ")
        case "ask":
            assert [content for role, content in said if role == "tool"] == ["did the trade"]
    if part != "model":
        past = read(database, _SAID, name, 1)
        assert past[0][1].endswith(HISTORY[0]), f"{strategy} forgot its past"
