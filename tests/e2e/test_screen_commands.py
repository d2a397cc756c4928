"""Commands, views and the numbers of a swarm, over a real terminal: each does what the screen shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.terminal_screen import TerminalScreen, paste
from tests.e2e.zoea_process import ask, zoea
from tests.waiting import until_true

pytestmark = pytest.mark.timeout(240)

RECIPIENTS = (
    "SELECT group_concat(y.name, ' ') FROM delivery d JOIN mysis y ON y.id = d.mysis_id"
    " JOIN message m ON m.id = d.message_id WHERE m.content = '{}' ORDER BY y.id"
)

OpenCockpit = Callable[..., TerminalScreen]


@pytest.fixture
def cockpit(own_runtime: None) -> Iterator[OpenCockpit]:
    """Open `zoea run` over the scripted model as often as a test wants. None is left running."""
    made: list[TerminalScreen] = []

    def opened(*arguments: str) -> TerminalScreen:
        environ = {"ZOEA_SWARM__DISCOVER": "false"}
        made.append(TerminalScreen("run", *arguments, size=(160, 44), environ=environ))
        return made[-1]

    yield opened
    for screen in reversed(made):
        screen.close()


def recipients(text: str) -> set[str]:
    [(names,)] = ask(RECIPIENTS.format(text))
    return set((names or "").split())


def context_of(name: str, text: str) -> str:
    """Return what the row of this name shows as its context, as `845/7.2k?`."""
    row = next((line.split() for line in text.splitlines() if f" {name} " in line), [])
    return next((word for word in row if "/" in word), "")


def open_three(cockpit: OpenCockpit, *arguments: str) -> TerminalScreen:
    screen = cockpit("--myses", "3", "--provider", "scripted", *arguments)
    screen.until("3 myses", "alpha", "beta", "gamma")
    return screen


def test_a_broadcast_goes_to_those_that_the_filter_shows_and_capital_b_to_all(cockpit: OpenCockpit) -> None:
    screen = open_three(cockpit)
    screen.press("/")
    screen.press("bet", "enter")
    screen.until(lambda text: "gamma" not in text)
    screen.press("b")
    screen.until("BROADCAST to 1 (filter 'bet'", "beta")
    screen.press("only one", "enter")
    until_true(lambda: recipients("only one") == {"beta"})
    screen.press("B")
    screen.until("BROADCAST to all 3 myses")
    screen.press("every one", "enter")
    until_true(lambda: recipients("every one") == {"alpha", "beta", "gamma"})
    assert recipients("only one") == {"beta"}


def test_one_mysis_is_paused_a_stop_of_several_is_undone_and_lines_are_typed(cockpit: OpenCockpit) -> None:
    screen = open_three(cockpit, "--start-swarm")
    screen.press("p")
    screen.until("alpha      paused", "beta       idle")
    screen.press("p")
    screen.until(lambda text: " paused " not in text)
    screen.press("*")
    screen.until("3 marked")
    screen.press("s")
    screen.until(lambda text: text.count(" stopped ") >= 3)
    screen.press("z")
    screen.until(lambda text: " stopped " not in text)
    screen.press("escape")
    screen.press(":send gamma dig here\r")
    until_true(lambda: recipients("dig here") == {"gamma"})
    screen.until("gamma")
    screen.press(":hold gamma\r")
    screen.until("gamma      paused", "alpha      idle")
    screen.press(":pause gamma\r")
    screen.until(lambda text: " paused " not in text)


def test_the_hive_the_charts_and_one_panel_alone_are_a_key_away(cockpit: OpenCockpit) -> None:
    screen = open_three(cockpit)
    screen.press("v")
    screen.until("idle 3", "⬡ alpha  idle")
    screen.press("right")
    screen.until("⬡ beta  idle")
    screen.press("v")
    screen.until(lambda text: "idle 3" not in text)
    screen.press("C")
    screen.until("TOKENS", "last hour")
    screen.press("]")
    screen.until("last day")
    screen.press("escape")
    screen.until("SWARM", "INBOX")
    screen.press("+")
    screen.until(lambda text: "SWARM" in text and "INBOX" not in text)
    stats = json.loads(zoea("stats", "--last", "day", "--json").stdout)
    assert (stats["span"], stats["tokens"]) == ("day", 0)


def test_a_cockpit_that_attaches_shows_the_contexts_at_once(cockpit: OpenCockpit) -> None:
    first = open_three(cockpit)
    assert zoea("send", "beta", "look around").returncode == 0
    first.until(lambda text: context_of("beta", text))
    second = cockpit()
    second.until("3 myses")
    second.until(lambda text: context_of("beta", text))


def test_a_paste_in_the_write_of_its_key_is_text_and_never_commands(cockpit: OpenCockpit) -> None:
    screen = open_three(cockpit)
    stored = "SELECT content FROM message ORDER BY id"
    lines = "dig xx\nand X\n\nqdy"
    screen.write(b"b" + paste(lines) + b"\r")
    until_true(lambda: ask(stored) == [(lines,)])
    assert recipients(lines) == {"alpha", "beta", "gamma"}
    screen.write(b"m" + paste("xd and X\nq"))
    screen.until("xd and X", "MESSAGE to alpha", "enter send")
    assert ask(stored) == [(lines,)]
    screen.write(b"\r")
    until_true(lambda: recipients("xd and X\nq") == {"alpha"})
    screen.write(b":" + paste("send beta dig\nhere\n") + b"\r")
    until_true(lambda: ask(stored)[2:] == [("dig here",)])
    screen.write(b":" + paste("hold"))
    screen.until(":hold", "Hold the swarm: what runs now finishes")
    screen.press("escape")
    screen.until(lambda text: ":hold" not in text)
    assert "ON HOLD" not in screen.text


def test_a_hundred_kilobytes_are_pasted_in_the_write_of_their_key(cockpit: OpenCockpit) -> None:
    screen = open_three(cockpit)
    long = "".join(f"{number} x and X, qdy\n" for number in range(6_000)).strip()
    assert len(long) > 100_000
    screen.write(b"b" + paste(long) + b"\r")
    until_true(lambda: ask("SELECT content FROM message") == [(long,)])
    screen.write(b"m" + paste(long + "!"))
    screen.until("send to alpha", "‹text ", "6,000 lines")
    screen.press("escape")
    screen.write(b":" + paste(long) + b"\r")
    screen.until("0 x and X")
    screen.press("escape")
    screen.until("SWARM", "b broadcast")
    assert ask("SELECT count(*) FROM message") == [(1,)]
    assert "ON HOLD" not in screen.text
