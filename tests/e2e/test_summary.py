"""The summary of a run tells the numbers of `zoea list` and `zoea world score`.

So does that of a run that was cut.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.e2e.zoea_process import PATIENCE_S, ask, events, spawn, zoea
from tests.waiting import until_true

PLAY = ("run", "--headless", "--world", "reef", "--provider", "autopilot", "--json", "--myses", "2")
EARNED = "SELECT 1 FROM tool_call WHERE state = 'done' LIMIT 1 OFFSET 7"
OPEN = "SELECT mysis_id FROM request WHERE state = 'reserved'"
CUT = "SELECT count(*) FROM request WHERE state = 'estimated'"
COUNTS = ("turns", "tool_calls", "errors", "tokens")

pytestmark = [pytest.mark.timeout(4 * PATIENCE_S), pytest.mark.usefixtures("own_runtime")]


def end_with(number: signal.Signals, when: str, rows: int) -> str:
    """Run until a query finds `rows` rows, then send a signal. Return the output of the run."""
    process = spawn(*PLAY)
    try:
        until_true(lambda: len(ask(when)) == rows)
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 0, err
    return out


def check_numbers(out: str) -> None:
    """Compare the last line of a run with what the commands say after it."""
    last = events(out)[-1]
    assert last["event"] == "summary"
    told = {row["name"]: {key: row[key] for key in COUNTS} for row in last["myses"]}
    listed = json.loads(zoea("list", "--json").stdout)
    assert told == {row["name"]: {key: row[key] for key in COUNTS} for row in listed}
    shown = json.loads(zoea("show", listed[0]["name"], "--json").stdout)
    assert told[shown["name"]] == {key: shown[key] for key in COUNTS}
    scored = json.loads(zoea("world", "score", "--json").stdout)
    assert {name: row["tokens"] for name, row in told.items()} == {row["name"]: row["tokens"] for row in scored}
    assert {row["name"]: row["credits_earned"] for row in last["myses"]} == {
        row["name"]: row["earned"] for row in scored
    }


def test_the_summary_agrees_with_the_commands_after_runs_that_were_cut_in_mid_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOEA_WORLD__TICK", "0.2")
    check_numbers(end_with(signal.SIGINT, EARNED, 1))

    # From here on no request ends by itself.
    (tmp_path / "config").mkdir(exist_ok=True)
    (tmp_path / "config" / "config.toml").write_text('[provider.autopilot]\ntype = "autopilot"\ntick = 3600\n')
    before = ask(CUT)[0][0]
    check_numbers(end_with(signal.SIGTERM, OPEN, 2))
    assert ask(CUT)[0][0] == before + 2

    timed = zoea(*PLAY, "--for", "3s")
    assert timed.returncode == 0, timed.stderr
    check_numbers(timed.stdout)
