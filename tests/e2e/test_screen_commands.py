"""Commands, views and the numbers of a swarm, over a real terminal: each does what the screen shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.terminal_screen import TerminalScreen, paste, take_steps
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


def the_hive_the_charts_and_one_panel_alone_are_a_key_away(glass: TerminalScreen) -> None:
    glass.press("v")
    glass.until("idle 3", "⬡ alpha  idle")
    glass.press("right")
    glass.until("⬡ beta  idle")
    glass.press("left", shows="⬡ alpha  idle")
    glass.press("v")
    glass.until(lambda text: "idle 3" not in text)
    glass.press("C")
    glass.until("TOKENS", "last hour")
    glass.press("]")
    glass.until("last day")
    glass.press("escape")
    glass.until("SWARM", "INBOX")
    glass.press("+")
    glass.until(lambda text: "SWARM" in text and "INBOX" not in text)
    stats = json.loads(zoea("stats", "--last", "day", "--json").stdout)
    assert (stats["span"], stats["tokens"]) == ("day", 0)
    glass.press("+")
    glass.until("INBOX")


def a_paste_in_the_write_of_its_key_is_text_and_never_commands(glass: TerminalScreen) -> None:
    before = len(find_sent())
    lines = "dig xx\nand X\n\nqdy"
    glass.write(b"b" + paste(lines) + b"\r")
    until_true(lambda: find_sent()[before:] == [lines])
    assert recipients(lines) == {"alpha", "beta", "gamma"}
    glass.write(b"m" + paste("xd and X\nq"))
    glass.until("xd and X", "MESSAGE to alpha", "enter send")
    assert find_sent()[before:] == [lines]
    glass.write(b"\r")
    until_true(lambda: recipients("xd and X\nq") == {"alpha"})
    glass.write(b":" + paste("send beta dig\nhere\n") + b"\r")
    until_true(lambda: find_sent()[before + 2 :] == ["dig here"])
    glass.write(b":" + paste("hold"))
    glass.until(":hold", "Hold the swarm: what runs now finishes")
    glass.press("escape")
    glass.until(lambda text: ":hold" not in text)
    assert "ON HOLD" not in glass.text


def a_hundred_kilobytes_are_pasted_in_the_write_of_their_key(glass: TerminalScreen) -> None:
    long = "".join(f"{number} x and X, qdy\n" for number in range(6_000)).strip()
    assert len(long) > 100_000
    before = find_sent()
    glass.write(b"b" + paste(long) + b"\r")
    until_true(lambda: find_sent() == [*before, long])
    glass.write(b"m" + paste(long + "!"))
    glass.until("send to alpha", "‹text ", "6,000 lines")
    glass.press("escape")
    glass.write(b":" + paste(long) + b"\r")
    glass.until("0 x and X")
    glass.press("escape")
    glass.until("SWARM", "b broadcast")
    assert find_sent() == [*before, long]
    assert "ON HOLD" not in glass.text


def a_broadcast_goes_to_those_that_the_filter_shows_and_capital_b_to_all(glass: TerminalScreen) -> None:
    glass.press("/")
    glass.press("bet", "enter")
    glass.until(lambda text: "gamma" not in text)
    glass.press("b")
    glass.until("BROADCAST to 1 (filter 'bet'", "beta")
    glass.press("only one", "enter")
    until_true(lambda: recipients("only one") == {"beta"})
    glass.press("B")
    glass.until("BROADCAST to all 3 myses")
    glass.press("every one", "enter")
    until_true(lambda: recipients("every one") == {"alpha", "beta", "gamma"})
    assert recipients("only one") == {"beta"}
    glass.press("escape")
    glass.until("gamma")
    glass.press("up", shows="─ ⬡ alpha ")


def find_sent() -> list[str]:
    """Return what the commander sent."""
    return [str(text) for (text,) in ask("SELECT content FROM message WHERE sender_kind = 'commander' ORDER BY id")]


def test_views_a_filter_and_pastes_do_what_the_screen_shows(cockpit: OpenCockpit) -> None:
    take_steps(
        open_three(cockpit),
        the_hive_the_charts_and_one_panel_alone_are_a_key_away,
        a_broadcast_goes_to_those_that_the_filter_shows_and_capital_b_to_all,
        a_paste_in_the_write_of_its_key_is_text_and_never_commands,
        a_hundred_kilobytes_are_pasted_in_the_write_of_their_key,
    )


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


def test_a_cockpit_that_attaches_shows_the_contexts_at_once(cockpit: OpenCockpit) -> None:
    first = open_three(cockpit)
    assert zoea("send", "beta", "look around").returncode == 0
    first.until(lambda text: context_of("beta", text))
    second = cockpit()
    second.until("3 myses")
    second.until(lambda text: context_of("beta", text))
