"""Make the database of a release: `python -m tests.released.make_database FOLDER`.

Runs a headless swarm and the world Reef, commands it as users do, kills it with SIGKILL in
the middle of turns, and leaves `zoea.db.gz`, `reef.db.gz` and `credentials.toml` in FOLDER,
with what reading commands show of them in `expected.json`.
Its processes read a clock that is set back, so that all deadlines in the database have passed
on every day that the tests run.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.e2e.zoea_process import environment
from tests.released.swarm_settings import write_swarm_settings
from tests.released.views import EXPECTED, write_expected
from tests.waiting import until_true

STARTED_S = 1_748_779_200
"""2025-06-01 12:00 UTC, when the swarm begins by its own clock."""
SET_CLOCK = """
import os, time

shift = int(os.environ["CLOCK_SHIFT_NS"])
real = time.time_ns
time.time_ns = lambda: real() + shift
time.time = lambda: time.time_ns() / 1e9
"""

IDLE = (
    ("beta", "--tag", "scouts", "--tag", "north"),
    ("gamma", "--model", "think"),
    ("delta", "--model", "fail:bad_request"),
    ("epsilon", "--provider", "paced"),
    ("zeta",),
    ("eta",),
    ("theta", "--model", "parallel:3"),
    ("iota",),
    ("kappa",),
    ("lambda",),
    ("mu", "--model", "fail:transient"),
    ("nu", "--model", "loop"),
    ("xi", "--model", "broken"),
    ("omicron", "--model", "cut"),
    ("pi",),
    ("rho", "--tag", "north"),
)


def spawn(*arguments: str) -> subprocess.Popen[str]:
    """Start `zoea ARGUMENTS` under the shifted clock."""
    inherited = environment()
    return subprocess.Popen(
        [sys.executable, "-m", "zoea", *arguments],
        env={**inherited, "PYTHONPATH": f"{os.environ['CLOCK_FOLDER']}{os.pathsep}{inherited['PYTHONPATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def succeeds(*arguments: str) -> bool:
    process = spawn(*arguments)
    process.communicate()
    return process.returncode == 0


def command(*arguments: str) -> Any:
    """Run `zoea ARGUMENTS --json`; return what it printed."""
    process = spawn(*arguments, "--json")
    output, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(f"zoea {' '.join(arguments)}: {process.returncode}\n{output}\n{errors}")
    return json.loads(output) if output.strip() else None


def is_true(database: Path, query: str) -> None:
    """Wait until the query's first value is not 0."""

    def holds() -> bool:
        with closing(sqlite3.connect(database, timeout=5)) as connection:
            return bool(connection.execute(query).fetchone()[0])

    try:
        until_true(holds, within=20)
    except AssertionError:
        raise RuntimeError(query) from None


def has_ended(name: str, turns: int) -> str:
    return f"SELECT count(outcome) >= {turns} FROM turn JOIN mysis ON mysis.id = mysis_id WHERE name = '{name}'"


def has_call(name: str, tool: str, state: str) -> str:
    return (
        "SELECT count(*) FROM tool_call JOIN memory ON memory.id = memory_id JOIN mysis ON mysis.id = mysis_id"
        f" WHERE mysis.name = '{name}' AND tool_call.name = '{tool}' AND tool_call.state = '{state}'"
    )


def answer_calls(database: Path) -> None:
    """Approve `burn` once, deny it, approve it for the template; approve `act` for the session."""
    for number, answer in enumerate((["approve"], ["deny", "--say", "Not here."], ["approve", "--template"]), 1):
        command("send", "beta", f'call burn {{"text": "bush {number}"}}')
        is_true(database, has_call("beta", "burn", "approval"))
        waiting = command("approvals")
        verb, *options = answer
        command(verb, str(waiting[-1]["id"]), *options)
        is_true(database, has_ended("beta", 3 + number))
    command("send", "beta", 'call burn {"text": "the granted bush"}')
    is_true(database, has_ended("beta", 7))
    command("send", "beta", 'call act {"text": "a trade"}')
    is_true(database, has_call("beta", "act", "approval"))
    command("approve", str(command("approvals")[-1]["id"]), "--session")
    is_true(database, has_ended("beta", 8))


def work(database: Path) -> None:
    """Turns of all kinds, up to those that stay open."""
    for name, *options in IDLE:
        command("new", name, "--idle", *options)
    command("configure", "kappa", "--set", "budget.mysis=1000")
    command("start", *(name for name, *_ in IDLE if name not in ("iota", "pi", "rho")))
    command("send", "beta", "Look around.", "--key", "first-order")
    is_true(database, has_ended("beta", 1))
    command(
        "send",
        "beta",
        'call zoea_send_message {"to": "gamma", "text": "Ore at the third belt."}\ncall refuse {"text": "this"}',
    )
    is_true(database, has_ended("beta", 2))
    command(
        "send",
        "beta",
        'call zoea_search_messages {"query": "Ore"}\ncall picture {"text": "the belt"}\ncall zoea_list_myses {}',
    )
    is_true(database, has_ended("beta", 3))
    answer_calls(database)
    command("broadcast", "All: report in one line.", "--tag", "scouts")
    for name in ("delta", "theta", "mu", "nu", "xi", "omicron"):
        command("send", name, f"Begin, {name}. Grüße aus Köln, 日本, 🚀.")
    is_true(database, has_ended("theta", 1))
    is_true(database, has_ended("nu", 1))
    is_true(database, has_ended("xi", 1))
    is_true(database, has_ended("delta", 1))
    command("delete", "theta", "--yes")
    command("send", "kappa", "Spend it. " + "word " * 900)
    is_true(database, "SELECT count(*) FROM approval WHERE kind = 'budget' AND answer IS NULL")
    command("hold", "pi", "--reason", "its belt is empty")
    command("hold", "iota")
    withdrawn = command("send", "pi", "Never mind.")
    command("send", "--withdraw", str(withdrawn["lines"][0]["delivery_id"]))
    command("send", "iota", "Wait for the start.")
    is_true(database, has_ended("alpha", 2))
    is_true(database, "SELECT count(*) FROM turn WHERE opened_by = 'nudge' AND outcome IS NOT NULL")
    command("stop", "alpha")
    command("hold", "--reason", "a look around")
    command("hold", "--lift")
    command("new", "sigma", "--idle")
    command("mcp", "token", "new", "observer", "--scope", "read")


def leave_open(database: Path) -> None:
    """Begin three turns that do not end: a model call, a tool call and a question."""
    command("send", "epsilon", "Say this slowly, first.")
    is_true(database, "SELECT count(*) FROM request WHERE provider = 'paced' AND state = 'reserved'")
    command("send", "epsilon", "Say this slowly, second.", "--mode", "interrupt")
    is_true(database, has_ended("epsilon", 1))
    is_true(database, "SELECT count(*) FROM request WHERE provider = 'paced' AND state = 'reserved'")
    command("send", "epsilon", "Then say this.")
    command("send", "lambda", 'call zoea_wait {"seconds": 3600, "reason": "the ore is far"}')
    is_true(database, "SELECT count(*) FROM mysis WHERE name = 'lambda' AND wait IS NOT NULL")
    command("send", "zeta", 'call look {"text": "the sun"}\ncall hang {"text": "for ever"}')
    is_true(database, has_call("zeta", "hang", "sent"))
    command("send", "eta", 'call act {"text": "the trade"}')
    is_true(database, has_call("eta", "act", "approval"))


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="zoea-") as made:
        folder = Path(made)
        (folder / "run").mkdir()
        places = {"HOME": folder, "XDG_RUNTIME_DIR": folder / "run"}
        places |= {"ZOEA_DATA_DIR": folder / "data", "ZOEA_CONFIG_DIR": folder / "config"}
        os.environ |= {name: str(path) for name, path in places.items()} | {
            "TZ": "UTC",
            "ZOEA_SWARM__DISCOVER": "false",
        }
        os.environ["CLOCK_FOLDER"] = str(folder)
        os.environ["CLOCK_SHIFT_NS"] = str(STARTED_S * 1_000_000_000 - time.time_ns())
        (folder / "sitecustomize.py").write_text(SET_CLOCK, encoding="utf-8")
        write_swarm_settings(folder / "config", pace_s=30)
        swarm = spawn("run", "--headless", "--world", "reef", "--json")
        database = folder / "data" / "zoea.db"
        try:
            until_true(lambda: succeeds("new", "alpha", "--template", "miner", "--provider", "autopilot"))
            work(database)
            leave_open(database)
        finally:
            swarm.send_signal(signal.SIGKILL)
            sys.stderr.write(swarm.communicate()[1][-2000:])
        command("doctor", "--vacuum")
        target.mkdir(parents=True, exist_ok=True)
        for name in ("zoea.db", "reef.db"):
            with closing(sqlite3.connect(folder / "data" / name)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                connection.execute("VACUUM")
            (target / f"{name}.gz").write_bytes(gzip.compress((folder / "data" / name).read_bytes(), mtime=0))
        shutil.copy(folder / "data" / "credentials.toml", target / "credentials.toml")
        write_expected(database, target / EXPECTED.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
