"""The door to the cockpit, and the `zoea run` lines that go straight through it.

The option parser is a good part of the time to the first paint, so a line with
nothing but a workspace and the myses to make does without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zoea.runtime.run_options import RunOptions
from zoea.settings.paths import Places, places

open_screen: Callable[[RunOptions, Places], int] | None = None
"""The cockpit, put here by `zoea.__main__`: this package and the screen know nothing of each other."""

MOST_MYSES = 2000
WORLD = "reef"
_TEXTS = {"--workspace": "workspace", "-w": "workspace", "--provider": "provider", "--model": "model"}
_TEXTS |= {"--template": "template"}


def open_plainly(arguments: list[str]) -> int | None:
    """Show the cockpit for a plain `run` line in a terminal; None where the command has to look closer."""
    options = plain_options(arguments)
    if options is None or open_screen is None or not options.wants_screen:
        return None
    return open_screen(options, places(options.workspace))


def plain_options(arguments: list[str]) -> RunOptions | None:
    """What a plain `run` line asks for; None where the option parser is needed, if only to say what is wrong."""
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
