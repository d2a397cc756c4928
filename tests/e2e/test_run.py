"""`zoea run` as a process: five myses in the sandbox world, killed, continued, attached to, ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.zoea_process import PATIENCE_S, ask, environment, events, spawn, zoea
from tests.fakes.unwaited_processes import unwaited
from tests.waiting import until_true
from zoea.model.errors import StoreError
from zoea.queries.stored_swarm import read_swarm_view
from zoea.runtime.world_scores import read_credits
from zoea.settings.paths import places

PLAY = ("run", "--headless", "--world", "reef", "--provider", "autopilot", "--json")
FIVE, TWO = (*PLAY, "--myses", "5"), (*PLAY, "--myses", "2")
QUICK = {"ZOEA_WORLD__TICK": "0.2", "ZOEA_NUDGE__IDLE_INTERVAL": "0.2"}
AS_INSTALLED = "20s"
PACES = ("quick", AS_INSTALLED) if os.environ.get("ZOEA_SOAK") else ("quick",)
EARNED_WITHIN_S = 150.0
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(autouse=True)
def _runtime(own_runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in QUICK.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def running() -> Iterator[subprocess.Popen[str]]:
    """A headless swarm of two that plays until it is told to end."""
    process = spawn(*TWO)
    yield process
    if process.poll() is None:
        process.terminate()
    process.communicate(timeout=30)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[subprocess.Popen[str]]]]:
    """A directory, and the swarm that was started over it."""
    started: list[subprocess.Popen[str]] = []
    with tempfile.TemporaryDirectory(prefix="zoea-") as folder:
        yield Path(folder), started
        for process in started:
            process.terminate()
            process.wait(30)


@pytest.fixture
def playing(shared: tuple[Path, list[subprocess.Popen[str]]], monkeypatch: pytest.MonkeyPatch) -> subprocess.Popen[str]:
    """Return a swarm of two that plays. Several tests look at it and leave it running."""
    folder, started = shared
    for name in ("ZOEA_DATA_DIR", "ZOEA_CONFIG_DIR", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(folder / name))
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    if not started:
        with unwaited.shared():
            started.append(spawn(*TWO, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    until_true(lambda: has_worked(1))
    return started[0]


def has_worked(calls: int) -> bool:
    return bool(ask(f"SELECT 1 FROM tool_call WHERE state = 'done' LIMIT 1 OFFSET {calls - 1}"))


def have_all_earned() -> bool:
    where = places("")
    try:
        myses = read_swarm_view(where.database).myses
    except StoreError:
        return False  # its first rows are not written yet
    earned = read_credits(where, myses) or {}
    return len(myses) == 5 and all(earned.get(view.name, 0) > 0 for view in myses)


def end_in_order(process: subprocess.Popen[str], number: signal.Signals) -> list[dict[str, Any]]:
    """End a swarm with a signal. Return what it told, of which the last is the summary."""
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    told = events(out)
    assert told[-1]["event"] == "summary"
    assert not ask("SELECT 1 FROM mysis WHERE state = 'running'")
    return told


def earn_until_interrupted() -> list[dict[str, Any]]:
    """Let five play until each has earned something, then press ctrl+c."""
    process = spawn(*FIVE)
    try:
        until_true(have_all_earned, within=EARNED_WITHIN_S)
    except AssertionError:
        process.kill()
        raise
    return end_in_order(process, signal.SIGINT)


@pytest.mark.parametrize("pace", PACES)
def test_five_myses_earn_credits_and_the_last_line_is_the_summary(monkeypatch: pytest.MonkeyPatch, pace: str) -> None:
    if pace == AS_INSTALLED:
        for name in QUICK:
            monkeypatch.delenv(name)
        *facts, last = events(zoea(*FIVE, "--for", pace, timeout=60).stdout)
    else:
        *facts, last = earn_until_interrupted()
    assert all({"event", "id", "at", "mysis_id", "data"} == fact.keys() for fact in facts)
    assert last["event"] == "summary"
    assert [set(row) for row in last["myses"]] == 5 * [
        {"name", "turns", "tool_calls", "errors", "tokens", "credits_earned"}
    ]
    assert all(row["credits_earned"] > 0 and row["tool_calls"] > 0 and row["tokens"] > 0 for row in last["myses"])
    listed = json.loads(zoea("list", "--json").stdout)
    assert [row["name"] for row in listed] == [row["name"] for row in last["myses"]]
    assert {row["state"] for row in listed} == {"idle"}
    scored = json.loads(zoea("world", "score", "--json").stdout)
    captains = scored["captains"] if isinstance(scored, dict) else scored
    assert {row["name"]: row["tokens"] for row in listed} == {row["name"]: row["tokens"] for row in captains}
    assert "turn 1" in zoea("log", listed[0]["name"]).stdout
    assert json.loads(zoea("show", listed[0]["name"], "--json").stdout)["tool_calls"] > 0
    assert 'session_id": "‹account›' in zoea("log", listed[0]["name"], "--json").stdout.replace("\\", "")


def test_secrets_are_only_in_the_credentials_file(data: Path, running: subprocess.Popen[str]) -> None:
    def known() -> list[str]:
        file = data / "credentials.toml"
        kept = file.read_text().splitlines() if file.exists() else []
        return [line.split("password")[1][5:].split('\\"')[0] for line in kept if "password" in line]

    until_true(lambda: len(known()) == 2 and has_worked(6))
    passwords = known()
    end_in_order(running, signal.SIGTERM)
    for file in (data / "zoea.db", data / "zoea.db-wal", data / "zoea.log", data / "upstream-reef.log"):
        if file.exists():
            assert not [password for password in passwords if password.encode() in file.read_bytes()]


def test_a_killed_swarm_continues_at_the_next_start(running: subprocess.Popen[str]) -> None:
    until_true(lambda: has_worked(6))
    running.kill()
    running.communicate(timeout=30)
    known = ask("SELECT id, mysis_id, content FROM memory ORDER BY id")
    assert known
    again = spawn(*TWO)
    try:
        until_true(lambda: ask("SELECT count(*) FROM memory")[0][0] > len(known))
    finally:
        again.terminate()
        out, err = again.communicate(timeout=30)
    assert again.returncode == 0, err
    after = ask("SELECT id, mysis_id, content FROM memory ORDER BY id")
    assert after[: len(known)] == known
    assert len(events(out)[-1]["myses"]) == 2
    assert ask("SELECT count(*) FROM mysis") == [(2,)]
    assert ask("SELECT count(*) FROM tool_call WHERE state IN ('pending', 'sent') AND id < 5") == [(0,)]
    assert ask("PRAGMA integrity_check") == [("ok",)]


def test_a_second_owner_is_refused_with_the_holder_s_process(playing: subprocess.Popen[str]) -> None:
    second = zoea("run", "--headless", "--json", "--for", "1s")
    assert second.returncode == 5
    assert json.loads(second.stderr)["error"]["class"] == "WorkspaceHeld"
    assert str(playing.pid) in json.loads(second.stderr)["error"]["what"]


def test_an_attached_front_shows_the_swarm_and_leaves_it_running(playing: subprocess.Popen[str]) -> None:
    attached = spawn("run", "--plain")
    assert attached.stdout is not None
    shown = attached.stdout.readline()
    assert f"Attached to the swarm of process {playing.pid}" in shown
    while shown and "alpha" not in shown:
        shown = attached.stdout.readline()
    attached.send_signal(signal.SIGINT)
    _, trouble = attached.communicate(timeout=30)
    assert (attached.returncode, shown != "") == (0, True), trouble
    assert playing.poll() is None
    assert {row["state"] for row in json.loads(zoea("list", "--json").stdout)} == {"running"}


def test_commands_reach_the_running_swarm(running: subprocess.Popen[str]) -> None:
    until_true(lambda: has_worked(1))
    assert zoea("send", "alpha", "Report what you have").stdout.startswith("alpha  ")
    assert "is stopped" in zoea("stop", "beta").stdout
    assert json.loads(zoea("show", "beta", "--json").stdout)["state"] == "stopped"
    told = zoea("broadcast", "Meet", "at", "the", "station")
    assert "beta  not delivered" in told.stdout
    until_true(lambda: ask("SELECT 1 FROM memory WHERE content = 'Report what you have'"))
    assert zoea("stop", "--swarm").returncode == 0
    out, err = running.communicate(timeout=20)
    assert running.returncode == 0, err
    assert events(out)[-1]["event"] == "summary"
    assert zoea("send", "alpha", "anybody there").returncode == 5


def test_a_swarm_continues_after_losing_its_terminal(playing: subprocess.Popen[str]) -> None:
    playing.send_signal(signal.SIGHUP)
    done = ask("SELECT count(*) FROM tool_call")[0][0]
    until_true(lambda: ask("SELECT count(*) FROM tool_call")[0][0] > done)
    assert playing.poll() is None


def test_a_run_ends_after_its_turns() -> None:
    words = "run --headless --json --myses 2 --template nova --provider scripted --turns 2"
    ran = zoea(*words.split(), timeout=60)
    assert ran.returncode == 0, ran.stderr
    facts = events(ran.stdout)
    assert [fact["event"] for fact in facts].count("turn.ended") >= 2
    assert facts[-1]["myses"][0]["credits_earned"] is None


def test_an_upstream_that_ignores_signals_does_not_delay_the_end(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(
        f"[upstream.stuck]\ncommand = {json.dumps(sys.executable)}\nargs = ['-c', {json.dumps(STUBBORN)}]\n"
    )
    process = spawn("run", "--headless", "--json", "--myses", "2", "--provider", "autopilot")
    assert process.stdout is not None
    process.stdout.readline()
    end_in_order(process, signal.SIGTERM)  # one that does not end in time is ended with another code


def test_a_closed_pipe_ends_a_command_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.run(
        [sys.executable, "-m", "zoea", "--help"],
        env=environment(),
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=PATIENCE_S,
        check=False,
    )
    os.close(writing)
    assert (process.returncode, process.stderr) == (141, b"")


def test_workspaces_are_separate() -> None:
    zoea("run", "--headless", "--myses", "1", "--provider", "scripted", "--for", "1s", "-w", "north", timeout=60)
    assert len(json.loads(zoea("list", "--json", "-w", "north").stdout)) == 1
    assert json.loads(zoea("list", "--json").stdout) == []
    empty = zoea("run", "--headless", "--for", "100ms", timeout=60)
    assert "There are no myses yet; `zoea new NAME --task TEXT` creates one" in empty.stdout


def test_a_run_without_the_cockpit_says_what_ran_when_zoea_ended() -> None:
    zoea("run", "--headless", "--myses", "2", "--provider", "scripted", "--for", "1s", timeout=60)
    assert {row["state_reason"] for row in json.loads(zoea("list", "--json").stdout)} == {"Zoea was closed"}
    ran = zoea("run", "--plain", "--for", "1s", timeout=60)
    assert "2 had work to do when Zoea ended; `zoea start --again` continues them" in ran.stdout
    assert {row["state"] for row in json.loads(zoea("list", "--json").stdout)} == {"idle"}


def test_a_plain_run_writes_of_each_request_only_with_verbose() -> None:
    quiet = zoea("run", "--plain", "--task", "Look.", "--provider", "scripted", "--turns", "1", timeout=60)
    asked = zoea("run", "--plain", "--verbose", "--task", "Look.", "--provider", "scripted", "--turns", "1", timeout=60)
    assert "turn 1 begins" in quiet.stdout
    assert "Preparing context" not in quiet.stdout
    assert "Budget used" not in quiet.stdout
    assert re.search(r"  Preparing context \(\d+ msgs, ~[\d.]+k? tokens\)\n", asked.stdout), asked.stderr
    assert re.search(r"  Budget used: [\d.]+k?/[\d.]+k\n", asked.stdout)
