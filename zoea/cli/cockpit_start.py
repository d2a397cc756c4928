"""Open the cockpit for common `zoea run` lines without loading the option parser.

Loading typer takes a large part of the time to the first paint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zoea.runtime.run_options import RunOptions
from zoea.settings.paths import Places, places

open_screen: Callable[[RunOptions, Places], int] | None = None
"""Opens the cockpit. `zoea.__main__` sets it, because `cli` may not import `tui`."""

MOST_MYSES = 2000
WORLD = "reef"
_TEXTS = {"--workspace": "workspace", "-w": "workspace", "--provider": "provider", "--model": "model"}
_TEXTS |= {"--template": "template"}


def open_plainly(arguments: list[str]) -> int | None:
    """Show the cockpit for a plain `run` line in a terminal; None if the `run` command must decide."""
    options = plain_options(arguments)
    if options is None or open_screen is None or not options.wants_screen:
        return None
    return open_screen(options, places(options.workspace))


def plain_options(arguments: list[str]) -> RunOptions | None:
    """Return the options of a plain `run` line; None if the line needs the option parser."""
    asked: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        match rest:
            case ["--start-swarm", *rest]:
                asked["start_swarm"] = True
            case ["--no-animation", *rest]:
                asked["calm"] = True
            case ["--world", "reef", *rest]:
                asked["world"] = WORLD
            case ["--myses", count, *rest] if count.isascii() and count.isdecimal() and int(count) <= MOST_MYSES:
                asked["myses"] = int(count)
            case [name, value, *rest] if name in _TEXTS and not value.startswith("-"):
                asked[_TEXTS[name]] = value
            case _:
                return None
    return RunOptions(**asked)
