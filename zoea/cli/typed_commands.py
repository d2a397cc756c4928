"""Runs commands typed on stdin while the plain front runs, written without `zoea`."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any

from zoea.cli import output
from zoea.cli.dispatch import COMMANDS, PROMPTED, LoadedCommand
from zoea.cli.typed_lines import TypedLines
from zoea.model.errors import NoRunningSwarm, UsageError, ZoeaError
from zoea.model.swarm_api import SwarmApi
from zoea.process.command_line import CommandLine
from zoea.settings.paths import Places
from zoea.text.control_characters import reveal

_SHORT = {
    "start all": "start --all",
    "start again": "start --again",
    "stop all": "stop --all",
    "lift": "hold --lift",
    "withdraw": "send --withdraw",
}
"""Lines, and beginnings of lines, that stand for others."""
_OF_FRONT = {
    "quit": "End the swarm (when attached: leave it running)",
    "leave": "Close this and leave the swarm running without a screen",
    "help": "Show this list; help NAME shows the words and options of a command",
}


class ExitChoice(StrEnum):
    """What the person chose for the swarm when leaving: end it, or leave it running."""

    QUIT = "quit"
    LEAVE = "leave"


async def read_commands(
    swarm: SwarmApi, say: Callable[[str], Awaitable[None]], where: Places, lines: TypedLines, *, is_owner: bool
) -> ExitChoice:
    """Run typed commands until the person quits or leaves.

    The end of the input is QUIT for an attached front; an owner goes on without input.
    """
    is_confirming = False
    async for line in lines.read():
        if line.problem:
            await say(f"{line.problem}. Nothing of it was carried out")
            continue
        words = line.text.strip()
        if is_confirming:
            is_confirming = False
            match words.lower():
                case "y" | "yes" | "stop" | "quit" | "q":
                    return ExitChoice.QUIT
                case "leave" | "l":
                    return ExitChoice.LEAVE
            await say("The swarm continues")
            continue
        if words in ("quit", "exit", "q"):
            if not is_owner:
                return ExitChoice.QUIT
            is_confirming = True
            await say("Stop the swarm? yes: stop it, leave: let it run without a screen, no: go on here")
            continue
        if words == "leave":
            return ExitChoice.LEAVE
        if words:
            await say(await run_typed_command(swarm, words, where))
    if is_owner:
        # The end of the input does not end the swarm; signals and the socket still do.
        await asyncio.Event().wait()
    return ExitChoice.QUIT


async def run_typed_command(swarm: SwarmApi, line: str, where: Places) -> str:
    """Run one typed line and return its result or error as text.

    Raises:
        NoRunningSwarm: The swarm has ended; the line may have been carried out.
    """
    loop, is_left = asyncio.get_running_loop(), asyncio.Event()

    async def work_here(work: Callable[[SwarmApi], Awaitable[Any]]) -> Any:
        leaving, working = asyncio.ensure_future(is_left.wait()), asyncio.ensure_future(work(swarm))
        try:
            await asyncio.wait((leaving, working), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            working.cancel()  # so that the thread of a command that was cut off ends
        return await working

    def run(work: Callable[[SwarmApi], Awaitable[Any]]) -> Any:
        return asyncio.run_coroutine_threadsafe(work_here(work), loop).result()

    output.run_in_front.set(run)
    try:
        # In a thread, because a command waits for the swarm, which needs this loop.
        return await asyncio.to_thread(_answer, line.removeprefix("zoea "), where)
    except NoRunningSwarm:
        raise
    except ZoeaError as error:
        return f"{error.title}: {error.text}"
    finally:
        is_left.set()


def _answer(line: str, where: Places) -> str:
    """Run a line. Raises ZoeaError."""
    short = next((one for one in _SHORT if f"{line} ".startswith(f"{one} ")), "")
    name, _, rest = (_SHORT[short] + line.removeprefix(short) if short else line).partition(" ")
    name, rest = name.lower(), rest.strip()
    if name in ("help", "?"):
        name, rest = rest, "--help"
    if not name:
        return overview()
    if name not in PROMPTED:
        how = f"type `zoea {name}` in another terminal" if name in COMMANDS else "help lists them"
        return f"There is no command {reveal(name)!r} here; {how}"
    loaded = LoadedCommand(name, PROMPTED[name], is_prompted=True)
    return loaded.answer(_split(loaded.line, rest), where)


def _split(line: CommandLine, rest: str) -> list[str]:
    """Split a line into words. A text stays as it is typed; only a name before it may stand in quotes."""
    if not line.takes_text:
        try:
            return shlex.split(rest)
        except ValueError:
            raise UsageError("a quotation mark is not closed", hint="Quote a value that has one in it.") from None
    if rest[:1] in ("'", '"') and len(line.words) > 1:
        quoted, closing, text = rest[1:].partition(rest[0])
        if closing:
            return [quoted, *text.strip().split(" ")]
    return rest.split(" ") if rest else []


def overview() -> str:
    """Return the list of commands that can be typed."""
    rows = {name: command.summary for name, command in PROMPTED.items()}
    rows |= {short: f"Short for {long}" for short, long in _SHORT.items()} | _OF_FRONT
    width = max(map(len, rows)) + 2
    return "\n".join(f"{name:<{width}}{summary}" for name, summary in rows.items())
