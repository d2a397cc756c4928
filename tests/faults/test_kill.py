"""A swarm killed at any moment, again and again, loses nothing that it acknowledged.

It goes on where it was.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.faults import database_checker
from zoea.store.database_file import open_reader

pytestmark = pytest.mark.usefixtures("forked_programs")

ROOT = Path(__file__).parents[2]
KILLS = 200 if os.environ.get("ZOEA_SOAK") else 4
LINES = (1, 40, 400, 1200, 2000) if KILLS > 4 else (1, 40, 200, 500)
"""About how much a child says before it is killed."""
REST_EACH = 20
"""After so many kills all that waits is carried out: more messages come between them than are answered."""
LIMIT_S = 3 * 3600 if KILLS > 10 else 240
"""200 kills and 11 rests take 50 minutes on two cores that do as much else; each check reads a larger database."""
SEED = int(os.environ.get("ZOEA_SOAK") or 1)

# What each acknowledgement names, and the query that must find it.
THERE = {
    "memory": "SELECT 1 FROM memory WHERE id = :id",
    "request": "SELECT 1 FROM request WHERE id = :id",
    "mysis": "SELECT 1 FROM mysis JOIN tally ON tally.mysis_id = mysis.id WHERE id = :id",
    "message": "SELECT 1 FROM message WHERE id = :id",
    "delivery": "SELECT 1 FROM delivery WHERE id = :id AND message_id = :message",
    "event": "SELECT 1 FROM event WHERE id = :id",
    "deleted": "SELECT 1 FROM event WHERE mysis_id = :mysis AND kind = 'mysis.deleted'",
    "undeleted": "SELECT 1 FROM event WHERE mysis_id = :mysis AND kind = 'mysis.undeleted'",
    "withdrawn": "SELECT 1 FROM delivery WHERE id = :delivery AND state = 'withdrawn'",
    "published": "SELECT 1 FROM topic_message WHERE id = :id",
    "delivered": """
        SELECT 1 FROM delivery d JOIN message g ON g.id = d.message_id
        WHERE d.id = :id AND g.topic_message_id = :topic_message""",
    "resumed": "SELECT 1 FROM ctx_origin WHERE mysis_id = :mysis",
    "asked": """
        SELECT 1 FROM ctx_origin WHERE mysis_id = :mysis AND thread_id = :thread
        AND (SELECT count(*) FROM message WHERE content = :text) = 1""",
    "commit": "SELECT 1 FROM ctx_commit WHERE lower(hex(hash)) = :digest",
    "approval": "SELECT 1 FROM approval WHERE id = :id AND answer = :answer",
}


STATES = "SELECT mysis_id, created_at, data ->> 'state' FROM event WHERE kind = 'mysis.state'"


class Record:
    """Everything that any child acknowledged, and how far it was checked."""

    def __init__(self) -> None:
        self.facts: list[dict[str, Any]] = []
        self.states: list[dict[str, Any]] = []
        self.checked = 0
        self.holds = {"hold.set": 0, "hold.lifted": 0}
        self.refused = 0

    def take(self, lines: list[str]) -> None:
        for line in lines:
            fact = json.loads(line)
            assert "broken" not in fact, fact["broken"]
            self.refused += "refused" in fact
            match fact.get("ack"):
                case "memory":
                    self.facts.extend({"ack": "memory", "id": memory} for memory in fact["ids"])
                case "message":
                    self.facts.append(fact)
                    self.facts.extend(
                        {"ack": "delivery", "id": delivery, "message": fact["id"]} for delivery in fact["deliveries"]
                    )
                case "hold":
                    self.holds[fact["kind"]] += 1
                case "state":
                    self.states.append(fact)
                case kind if kind in THERE:
                    self.facts.append(fact)

    def check(self, path: Path, *, whole: bool = False) -> None:
        """Check that acknowledged rows since the last check exist; with `whole` all of them."""
        new = self.facts if whole else self.facts[self.checked :]
        self.checked = len(self.facts)
        with closing(open_reader(path)) as connection:
            missing = [fact for fact in new if connection.execute(THERE[fact["ack"]], fact).fetchone() is None]
            assert missing == []
            told_states = set(map(tuple, connection.execute(STATES)))
            missing = [fact for fact in self.states if (fact["mysis"], fact["at"], fact["state"]) not in told_states]
            assert missing == []
            for kind, count in self.holds.items():
                told = connection.execute("SELECT count(*) FROM event WHERE kind = ?", (kind,)).fetchone()[0]
                assert told >= count


def child(path: Path, seed: int, mode: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.faults.killed_swarm", str(path), str(seed), mode]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def killed(path: Path, seed: int, lines: int) -> list[str]:
    """Return what a child said before it was killed. That comes after `lines` lines or a few more."""
    said: list[str] = []
    with child(path, seed, "storm") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            for _ in range(lines):
                line = process.stdout.readline()
                if not line:
                    break
                said.append(line)
        finally:
            process.send_signal(signal.SIGKILL)  # also where the test ran out of time: it would be waited for
        said.extend(process.stdout)
        trouble = process.stderr.read()
    assert process.returncode == -signal.SIGKILL, trouble
    assert "Traceback" not in trouble, trouble
    return [line for line in said if line.endswith("\n")]


def settled(path: Path) -> list[str]:
    """What a child said that carried out all that waited."""
    with child(path, SEED, "settle") as process:
        try:
            said, trouble = process.communicate(timeout=600 if KILLS > 10 else 200)
        finally:
            process.kill()  # where it did not end in time
    assert process.returncode == 0, trouble
    return said.splitlines()


@pytest.mark.timeout(LIMIT_S)
def test_a_swarm_that_is_killed_at_any_moment_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "zoea.db"
    chance = random.Random(SEED)
    record = Record()
    for kill in range(KILLS):
        began = time.monotonic()
        record.take(killed(path, SEED * 1000 + kill, LINES[kill % len(LINES)] + chance.randrange(100)))
        said = time.monotonic()
        record.check(path)
        database_checker.always(path)
        checked = time.monotonic()
        if (kill + 1) % REST_EACH == 0:
            record.take(settled(path))
            database_checker.at_rest(path)
        times = f"storm {said - began:.1f} s, check {checked - said:.1f} s, rest {time.monotonic() - checked:.1f} s"
        sys.stdout.write(f"kill {kill + 1}: {times}, {path.stat().st_size // 1_000_000} MB\n")
    record.take(settled(path))
    record.check(path, whole=True)
    database_checker.at_rest(path)
    assert database_checker.contexts(path) > 0
    windows, written = database_checker.compactions(path)
    assert windows > 0, "summaries of windows were committed"
    assert written > 0, "models wrote some"
    acknowledged = {fact["ack"] for fact in (*record.facts, *record.states)}
    assert acknowledged & {"resumed", "asked", "commit"}
    assert {
        "memory",
        "request",
        "mysis",
        "message",
        "delivery",
        "event",
        "state",
        "published",
        "delivered",
    } <= acknowledged
