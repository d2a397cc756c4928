"""The lines of `zoea run` that open the cockpit without the option parser."""

from __future__ import annotations

import pytest

from zoea.cli import cockpit_start
from zoea.runtime.run_options import RunOptions
from zoea.settings.paths import Places


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("", RunOptions()),
        ("--world reef --myses 5", RunOptions(world="reef", myses=5)),
        ("--no-animation", RunOptions(calm=True)),
        ("-w other --start-swarm", RunOptions(workspace="other", start_swarm=True)),
        ("--template t --provider p --model m", RunOptions(template="t", provider="p", model="m")),
    ],
)
def test_a_plain_line_gives_the_same_options_as_the_option_parser(line: str, options: RunOptions) -> None:
    assert cockpit_start.plain_options(line.split()) == options


@pytest.mark.parametrize(
    "line",
    ["--myses -1", "--myses 2001", "--myses five", "--myses", "--world venus", "--model --plain", "--plain", "x"],
)
def test_other_and_wrong_lines_are_left_to_the_option_parser(line: str) -> None:
    assert cockpit_start.plain_options(line.split()) is None


def test_the_cockpit_opens_only_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[RunOptions] = []

    def show(options: RunOptions, where: Places) -> int:
        opened.append(options)
        return 7

    assert cockpit_start.open_plainly([]) is None
    monkeypatch.setattr(cockpit_start, "open_screen", show)
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(f"sys.{name}.isatty", lambda: True)
    assert cockpit_start.open_plainly(["--myses", "2"]) == 7
    assert cockpit_start.open_plainly(["--json"]) is None
    monkeypatch.setattr("sys.stdout.isatty", lambda: False)
    assert cockpit_start.open_plainly([]) is None
    assert opened == [RunOptions(myses=2)]
