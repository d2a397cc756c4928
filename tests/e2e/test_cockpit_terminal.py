"""The cockpit in a real terminal: from an empty directory to a stored swarm."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.hindered_cockpit import SECRET
from tests.e2e.terminal_screen import TerminalScreen, paste, take_steps
from tests.e2e.zoea_process import ask, find_owner, read_peak_kb, spawn, zoea
from tests.waiting import until_true
from zoea.settings.paths import places

QUICK = {"ZOEA_WORLD__TICK": "0.2", "ZOEA_NUDGE__IDLE_INTERVAL": "0.5"}
ANSWERED = "SELECT 1 FROM delivery d JOIN turn t ON t.id = d.turn_id WHERE d.message_id = 2 AND t.outcome = 'answered'"
WORDS = "Say where you are."

pytestmark = pytest.mark.timeout(180)

OpenSwarm = Callable[..., TerminalScreen]


@pytest.fixture
def cockpit(own_runtime: None) -> Iterator[OpenSwarm]:
    """`zoea run` in a terminal, as often as a test wants; none is left running."""
    made: list[TerminalScreen] = []

    def opened(*arguments: str, **more: str) -> TerminalScreen:
        made.append(TerminalScreen("run", *arguments, environ=more))
        return made[-1]

    yield opened
    for glass in made:
        glass.close()


def listed() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(zoea("list", "--json").stdout)
    return found


def test_a_new_user_creates_a_swarm_and_finds_it_again(cockpit: OpenSwarm) -> None:
    glass = cockpit(**QUICK)
    glass.until("There is no mysis yet", "sandbox")
    glass.press("s")
    glass.until(lambda text: "5 myses" in text and "SWARM" in text and "Welcome" not in text)
    glass.press("b", shows="BROADCAST to all 5")
    glass.press(WORDS, "enter")
    glass.until(WORDS, "5 answered")
    glass.press("enter")
    glass.until("1 of 5", "follows new lines", "⚙")
    glass.press("i")
    glass.until("PARTS", "system", "by the provider's count")
    glass.press("escape")
    glass.until("1 of 5", "follows new lines")
    glass.press("escape")
    glass.until("5 myses", WORDS)
    glass.press("q", shows="end the swarm")
    glass.press("s")
    assert glass.end() == 0

    stored = listed()
    assert len(stored) == 5
    assert all(mysis["tool_calls"] and mysis["turns"] for mysis in stored)

    again = cockpit(**QUICK)
    again.until("5 myses", "5 had work to do when Zoea was closed", *(mysis["name"] for mysis in stored))
    again.press("enter")
    again.until("1 of 5", "⚙")
    again.press("escape", "q")
    again.until("end the swarm")
    again.press("s")
    assert again.end() == 0
    before = {mysis["name"]: mysis["turns"] for mysis in stored}
    assert all(mysis["turns"] >= before.pop(mysis["name"]) for mysis in listed())
    assert not before


def keys_typed_before_the_cockpit_has_the_terminal_are_not_lost(glass: TerminalScreen) -> None:
    # The terminal itself still echoes them, and makes a line of each enter.
    glass.press("bdig xx and X\r:theme tide\r")
    glass.until("dig xx and X", "3 answered")
    assert find_sent("broadcast") == ["dig xx and X"]


def the_cockpit_is_as_large_as_its_terminal_in_spite_of_its_environment(glass: TerminalScreen) -> None:
    glass.until(lambda text: max(map(len, text.splitlines())) > 80 and "? help" in text.splitlines()[-1])


def a_line_of_ten_megabytes_and_bytes_that_are_no_text_leave_the_cockpit_as_it_was(glass: TerminalScreen) -> None:
    glass.press("m", shows="enter send")
    before = read_peak_kb(glass.process.pid)
    for marks in ((b"", b""), (b"\x1b[200~", b"\x1b[201~")):
        glass.write(marks[0] + b"x" * 10_000_000 + marks[1])
        glass.until("characters were pasted, and at most", "none of them is taken")
    glass.write(b"dig caf\xe9 \xff")
    glass.until("dig caf\ufffd \ufffd")
    assert read_peak_kb(glass.process.pid) - before < 50_000
    glass.press("enter")
    until_true(lambda: find_sent("direct") == ["dig caf\ufffd \ufffd"])


def lines_pasted_without_marks_stay_together_in_the_prompt(glass: TerminalScreen) -> None:
    glass.press("m", shows="enter send")
    before = find_sent("direct")
    glass.press("first line\rn second line\rXX third\r")
    glass.until("first line", "n second line", "XX third", "enter send")
    assert find_sent("direct") == before
    glass.press("enter")
    until_true(lambda: find_sent("direct") == [*before, "first line\nn second line\nXX third\n"])
    assert len(listed()) == 3


def ctrl_o_opens_the_editor_and_takes_its_text(glass: TerminalScreen) -> None:
    glass.press("m", shows="enter send")
    glass.press("Dear alpha", "ctrl+o", shows="this is the editor")
    glass.press("dig deeper", "enter")
    glass.until("Dear alpha, dig deeper", "enter send")
    glass.press("enter")
    glass.until(lambda text: "enter send" not in text)
    glass.press("enter")
    glass.until("from you", "Dear alpha, dig deeper", "esc back")
    glass.press("escape", shows="INBOX AND BROADCASTS")


def a_task_is_given_with_the_mysis_and_replaced_in_the_cockpit(glass: TerminalScreen) -> None:
    assert zoea("new", "delta", "--task", "Count to three.", "--provider", "scripted").returncode == 0
    glass.until("4 myses")
    assert [row["goal"] for row in listed() if row["name"] == "delta"] == ["Count to three."]
    glass.press("down", "down", "down", "t", shows="TASK for delta")
    glass.press("Count to four.", shows="Count to four.")
    glass.press("enter")
    until_true(lambda: ask("SELECT 1 FROM mysis WHERE goal = 'Count to four.'"))
    assert [row["goal"] for row in listed() if row["name"] == "delta"] == ["Count to four."]


def keys_in_one_write_reach_the_prompt_that_the_first_of_them_opens(glass: TerminalScreen) -> None:
    glass.press("bxd and X\r")
    until_true(lambda: find_sent("broadcast")[1:] == ["xd and X"])
    glass.until("xd and X", "4 answered")
    glass.press("mdig xx\r")
    until_true(lambda: find_sent("direct")[-1] == "dig xx")
    glass.press(":hold\r", shows="ON HOLD")
    glass.press(":hold\rq")  # a line and more in one read is a pasted text, and presses no key
    glass.until("Nothing here takes a pasted text", "ON HOLD")
    assert len(listed()) == 4


def find_sent(kind: str) -> list[str]:
    """Return what the commander sent: `direct` messages or a `broadcast`."""
    sent = f"SELECT content FROM message WHERE kind = '{kind}' AND sender_kind = 'commander' ORDER BY id"
    return [str(content) for (content,) in ask(sent)]


def test_keys_and_texts_of_a_terminal_reach_the_cockpit_whole(cockpit: OpenSwarm, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "this is the editor"\nread line\nprintf "%s, %s" "$(cat "$1")" "$line" > "$1"\n')
    editor.chmod(0o700)
    own = {"EDITOR": str(editor), "VISUAL": "", "COLUMNS": "80", "LINES": "24"}
    glass = cockpit("--myses", "3", "--provider", "scripted", **own)
    take_steps(
        glass,
        keys_typed_before_the_cockpit_has_the_terminal_are_not_lost,
        the_cockpit_is_as_large_as_its_terminal_in_spite_of_its_environment,
        a_line_of_ten_megabytes_and_bytes_that_are_no_text_leave_the_cockpit_as_it_was,
        lines_pasted_without_marks_stay_together_in_the_prompt,
        ctrl_o_opens_the_editor_and_takes_its_text,
        a_task_is_given_with_the_mysis_and_replaced_in_the_cockpit,
        keys_in_one_write_reach_the_prompt_that_the_first_of_them_opens,
    )
    glass.press("q", shows="end the swarm")
    glass.press("s")
    assert glass.end() == 0


def test_stored_rows_stand_there_before_the_swarm_is_open_and_keys_wait_for_it(
    cockpit: OpenSwarm, tmp_path: Path
) -> None:
    zoea("run", "--headless", "--myses", "3", "--provider", "scripted", "--for", "200ms")
    names = [mysis["name"] for mysis in listed()]
    gate = tmp_path / "gate"
    with closing(
        TerminalScreen("unopened", str(gate), "run", environ={}, module="tests.e2e.hindered_cockpit")
    ) as glass:
        glass.until("Opening the swarm", *names)
        glass.press("b", shows="your keys wait until the swarm is open")
        glass.press("dig xx and X", "enter", ":hold", "enter")
        gate.touch()
        # The hold may come before the answers, which then wait for its end.
        glass.until("dig xx and X", "ON HOLD")
        glass.press("q", shows="end the swarm")
        glass.press("s")
        assert glass.end() == 0
    assert ask("SELECT content FROM message WHERE kind = 'broadcast'") == [("dig xx and X",)]
    assert len(listed()) == 3


def test_a_defect_ends_the_cockpit_with_a_report_that_shows_no_values_of_variables(
    cockpit: OpenSwarm, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with closing(TerminalScreen("defect", str(gate), "run", environ={}, module="tests.e2e.hindered_cockpit")) as glass:
        glass.until("create a mysis")
        gate.touch()
        assert glass.end() == 1
        assert "RuntimeError: a defect of this test" in glass.text
        assert SECRET not in glass.text
    log = places().log.read_text()
    assert "RuntimeError: a defect of this test" in log
    assert SECRET not in log


def test_a_defect_of_an_attached_cockpit_is_logged_and_says_that_the_swarm_runs_on(
    own_runtime: None, tmp_path: Path
) -> None:
    owner = spawn("run", "--headless", "--myses", "1", "--provider", "scripted", stdout=None, stderr=None)
    gate = tmp_path / "gate"
    try:
        until_true(find_owner)
        with closing(
            TerminalScreen("defect", str(gate), "run", environ={}, module="tests.e2e.hindered_cockpit")
        ) as glass:
            glass.until("alpha", "attached")
            gate.touch()
            assert glass.end() == 1
            assert "The swarm runs on with 1 mysis active" in glass.text
        assert find_owner() == owner.pid
        log = places().log.read_text()
        assert "RuntimeError: a defect of this test" in log
        assert SECRET not in log
    finally:
        owner.kill()
        owner.wait()


def test_the_cockpit_offers_to_run_again_what_ran_when_zoea_was_killed(cockpit: OpenSwarm) -> None:
    first = cockpit("--myses", "2", "--provider", "scripted", "--start-swarm", ZOEA_SWARM__DISCOVER="false")
    first.until("2 myses")
    assert zoea("new", "gamma", "--provider", "scripted", "--idle").returncode == 0
    first.process.kill()
    first.process.wait()
    assert {row["name"]: row["state_reason"] for row in listed()} == {
        "alpha": "Zoea was killed",
        "beta": "Zoea was killed",
        "gamma": "",
    }

    again = cockpit(ZOEA_SWARM__DISCOVER="false")
    again.until("2 had work to do when Zoea was killed", "R continues all 2")
    assert {row["state"] for row in listed()} == {"idle"}
    again.press("R")
    again.until(lambda text: "R continues" not in text)
    assert {row["name"]: row["state"] for row in listed()} == {"alpha": "running", "beta": "running", "gamma": "idle"}


def test_a_cockpit_follows_the_process_that_runs_the_swarm_next(cockpit: OpenSwarm) -> None:
    owners = [spawn("run", "--headless", "--myses", "1", "--provider", "scripted", stdout=None, stderr=None)]
    try:
        until_true(find_owner)
        glass = cockpit()
        glass.until("alpha", "attached")
        owners[0].kill()
        owners[0].wait()
        glass.until("the swarm has ended")
        owners.append(spawn("run", "--headless", "--provider", "scripted", stdout=None, stderr=None))
        glass.until(lambda text: "has ended" not in text and "attached" in text)
        glass.press("n", shows="NEW MYSIS")
        glass.press("escape")
        glass.until(lambda text: "NEW MYSIS" not in text)
        glass.press("q", shows="leave it running")
        glass.press("l")
        assert glass.end() == 0
        assert find_owner() == owners[1].pid
    finally:
        for owner in owners:
            owner.kill()
            owner.wait()


def test_a_cockpit_whose_owner_was_killed_keeps_the_typed_text_and_opens_the_swarm_again(cockpit: OpenSwarm) -> None:
    owner = spawn("run", "--headless", "--myses", "1", "--provider", "scripted", stdout=None, stderr=None)
    try:
        until_true(find_owner)
        glass = cockpit()
        glass.until("alpha", "attached")
        glass.press("m", shows="enter send")
        glass.press("dig at the belt", shows="dig at the belt")
    finally:
        owner.kill()
        owner.wait()
    glass.until("the swarm has ended", "f5 opens the swarm again")
    glass.press("enter")
    glass.until("No running swarm", "dig at the belt")
    glass.press("f5")
    glass.until(lambda text: "has ended" not in text and "1 had work to do when Zoea was killed" in text)
    assert find_owner() == glass.process.pid
    glass.press("enter")
    until_true(lambda: ask("SELECT content FROM message") == [("dig at the belt",)])
    glass.press("q", shows="end the swarm")
    glass.press("s")
    assert glass.end() == 0


def test_an_unsent_text_stands_in_the_prompt_of_the_next_cockpit(cockpit: OpenSwarm) -> None:
    """It stands there after the swarm was left running, and after it ended. Once sent, it is gone."""
    first = cockpit("--myses", "2", "--provider", "scripted")
    first.until("2 myses", "alpha")
    first.write(b"m" + paste("dig here\nand sell"))
    first.until("and sell", "enter send")
    first.press("escape")  # a key in the same read would be one with alt
    first.until(lambda text: "enter send" not in text)
    first.press("b")
    first.until("BROADCAST to all 2")
    first.press("to all of you", "escape")
    first.until(lambda text: "enter send" not in text)
    first.press("q")
    first.until("leave it running")
    first.press("l")
    first.until("The swarm runs on with")
    assert first.end() == 0

    second = cockpit()
    second.until("Unsent text is kept for alpha and a broadcast", "attached")
    second.press("m")
    second.until("MESSAGE to alpha", "dig here", "and sell")
    second.press("enter")
    until_true(lambda: ask("SELECT content FROM message") == [("dig here\nand sell",)])
    second.until(lambda text: "enter send" not in text)
    second.press("q")
    second.until("end the swarm", "its other screens end too")
    second.press("s")
    second.until("1 mysis worked: 1 turn", "The swarm has ended; `zoea run` opens it again.")
    assert second.end() == 0
    until_true(lambda: not find_owner())

    third = cockpit()
    third.until("Unsent text is kept for a broadcast", "2 myses")
    third.press("b")
    third.until("to all of you")
    third.press("enter")
    until_true(lambda: ask("SELECT count(*) FROM message") == [(2,)])
    third.press("q")
    third.until("end the swarm")
    third.press("s")
    assert third.end() == 0
    assert json.loads(places("").drafts.read_text()) == {}


def test_more_myses_than_the_limit_are_refused_before_the_cockpit_opens(cockpit: OpenSwarm) -> None:
    glass = cockpit("--myses", "60")
    assert glass.end() == 2
    assert "--myses 60 is over the limit of 16 (swarm.max_myses)" in glass.text
    assert "Z O E A" not in glass.text
    assert listed() == []


def test_nudges_are_switched_off_in_a_running_swarm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOEA_NUDGE__IDLE_INTERVAL", "0.2")
    process = spawn("run", "--headless")
    try:
        until_true(find_owner)
        assert zoea("new", "alpha", "--task", "Count.", "--provider", "autopilot").returncode == 0
        until_true(lambda: ask("SELECT 1 FROM tally WHERE turns >= 2"))
        file = places("").config_file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("[nudge]\nenabled = false\n")
        applied = zoea("config", "apply")
        assert applied.stdout.startswith("The settings are applied"), applied.stderr
        until_true(lambda: listed()[0]["status"] == "idle")
        before = listed()[0]["turns"]
        assert zoea("send", "alpha", "Where are you?").returncode == 0  # takes longer than a nudge would
        until_true(lambda: ask(ANSWERED))
        assert listed()[0]["turns"] == before + 1
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 0
