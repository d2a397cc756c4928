"""Commands that a person types on stdin while the plain front runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path

from zoea.cli.commands.stats import describe_stats
from zoea.cli.swarm_access import read_begun, read_recipients
from zoea.cli.terminal_rows import describe_receipt, state_word, table
from zoea.cli.typed_lines import TypedLines
from zoea.model.errors import NoRunningSwarm, UsageError, ZoeaError
from zoea.model.swarm_api import SwarmApi
from zoea.process.command_line import LARGEST_ID
from zoea.text.control_characters import reveal

HELP = """send NAME TEXT     send a message to one mysis
broadcast TEXT     send a message to all
withdraw ID        take back a waiting message; the receipt shows its id
start NAME         start or relaunch a mysis; start all; start again
stop NAME          stop a mysis; stop all
hold, lift         pause the swarm; lift the hold
list               list all myses with their status
stats hour         numbers of the last hour, day or week
quit               end the swarm (when attached: leave it running)
leave              close this and leave the swarm running without a screen
help               show this list"""


class ExitChoice(StrEnum):
    """What the person chose for the swarm when leaving: end it, or leave it running."""

    QUIT = "quit"
    LEAVE = "leave"


async def read_commands(
    swarm: SwarmApi, say: Callable[[str], Awaitable[None]], database: Path, lines: TypedLines, *, is_owner: bool
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
                case "y" | "yes" | "stop":
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
            await say(await run_typed_command(swarm, words, database))
    if is_owner:
        # The end of the input does not end the swarm; signals and the socket still do.
        await asyncio.Event().wait()
    return ExitChoice.QUIT


async def run_typed_command(swarm: SwarmApi, words: str, database: Path) -> str:
    """Run one typed line and return its result or error as text. `database` holds what `stats` reads.

    Raises:
        NoRunningSwarm: The swarm has ended; the line may have been carried out.
    """
    name, _, rest = words.partition(" ")
    rest = rest.strip()
    try:
        match name.lower():
            case "send":
                ref, text = _first(rest)
                receipt = await swarm.send(ref, text)
                return "\n".join(describe_receipt(receipt, await read_recipients(swarm, receipt)))
            case "broadcast":
                text = rest.removeprefix("--yes ")
                if text == rest and (short := await swarm.find_short_budgets(text)):
                    raise UsageError(f"nothing was sent. {'. '.join(short)}", hint="broadcast --yes TEXT sends it")
                receipt = await swarm.broadcast(text)
                return f"delivered to {receipt.delivered} of {len(receipt.lines)}"
            case "withdraw":
                if not (rest.isascii() and rest.isdecimal() and int(rest) <= LARGEST_ID):
                    raise UsageError("the id is missing or not a number: withdraw ID")
                await swarm.withdraw(int(rest))
                return f"{int(rest)} is withdrawn"
            case "start" if rest == "again":
                return f"{await swarm.start_all(again=True)} started"
            case "start" if rest == "all":
                return f"{await swarm.start_all()} started"
            case "stop" if rest == "all":
                return f"{await swarm.stop_all()} stopped"
            case "start":
                view = await swarm.start(rest)
                now = await read_begun(swarm, {view.id})
                view = next((one for one in now.myses if one.id == view.id), view)
                return f"{view.name} is {state_word(view, now.hold_reason)}"
            case "stop":
                view = await swarm.stop(rest)
                return f"{view.name} is {state_word(view)}"
            case "hold" | "lift":
                await swarm.hold(name.lower() == "hold", reason=rest)
                return "The swarm is on hold" if name.lower() == "hold" else "The swarm continues"
            case "list":
                return table((await swarm.view()).myses)
            case "stats":
                return reveal(await asyncio.to_thread(describe_stats, database, rest))
            case "help" | "?":
                return HELP
    except NoRunningSwarm:
        raise
    except ZoeaError as error:
        return f"{error.title}: {error.text}"
    return f"There is no command {reveal(name)!r}; help lists them"


def _first(rest: str) -> tuple[str, str]:
    """Split off the first word, or the first quoted text, and return it with the rest."""
    if rest[:1] in ("'", '"'):
        quoted, closing, text = rest[1:].partition(rest[0])
        if closing:
            return quoted, text.strip()
    name, _, text = rest.partition(" ")
    if not name:
        raise UsageError("the name is missing: send NAME TEXT")
    return name, text.strip()
