"""What a person types beside the plain front: a few words, answered at once."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from enum import StrEnum

from zoea.cli.options import LARGEST_ID
from zoea.cli.terminal_rows import receipt_line, state_word, table
from zoea.model.errors import UsageError, ZoeaError
from zoea.model.swarm_api import SwarmApi
from zoea.text.control_characters import strip

HELP = """send NAME TEXT     say something to one mysis
broadcast TEXT     say something to all
withdraw ID        take back what waits; its number stands behind the receipt
start NAME         start or relaunch a mysis; start all
stop NAME          stop a mysis; stop all
hold, lift         hold the swarm; go on
list               all myses and their states
quit               end (an attached front leaves the swarm running)
leave              end here and leave the swarm running without a screen
help               this"""


class Parting(StrEnum):
    """How the person left."""

    QUIT = "quit"
    LEAVE = "leave"


async def converse(swarm: SwarmApi, say: Callable[[str], Awaitable[None]], *, is_owner: bool) -> Parting:
    """Read commands from stdin until the person wants to go. The end of input is QUIT for an attached front."""
    asked = False
    async for line in lines_of(sys.stdin.fileno()):
        words = line.strip()
        if asked:
            asked = False
            match words.lower():
                case "y" | "yes" | "stop":
                    return Parting.QUIT
                case "leave" | "l":
                    return Parting.LEAVE
            await say("The swarm goes on")
            continue
        if words in ("quit", "exit", "q"):
            if not is_owner:
                return Parting.QUIT
            asked = True
            await say("Stop the swarm? yes stops it, leave lets it run without a screen, no goes on here")
            continue
        if words == "leave":
            return Parting.LEAVE
        if words:
            await say(await obey(swarm, words))
    if is_owner:
        # The input's end is not the commander's wish: the swarm goes on, signals and the socket still end it.
        await asyncio.Event().wait()
    return Parting.QUIT


async def obey(swarm: SwarmApi, words: str) -> str:
    """Carry out one line; what came of it, errors included."""
    name, _, rest = words.partition(" ")
    rest = rest.strip()
    try:
        match name.lower():
            case "send":
                ref, text = _first(rest)
                receipt = await swarm.send(ref, text)
                return "\n".join(map(receipt_line, receipt.lines))
            case "broadcast":
                receipt = await swarm.broadcast(rest)
                return f"delivered to {receipt.delivered} of {len(receipt.lines)}"
            case "withdraw":
                if not (rest.isascii() and rest.isdecimal() and int(rest) <= LARGEST_ID):
                    raise UsageError("say which, by its number: withdraw ID")
                await swarm.withdraw(int(rest))
                return f"{int(rest)} is withdrawn"
            case "start" if rest == "all":
                return f"{await swarm.start_all()} started"
            case "stop" if rest == "all":
                return f"{await swarm.stop_all()} stopped"
            case "start":
                view = await swarm.start(rest)
                return f"{view.name} is {state_word(view)}"
            case "stop":
                view = await swarm.stop(rest)
                return f"{view.name} is {state_word(view)}"
            case "hold" | "lift":
                await swarm.hold(name.lower() == "hold", reason=rest or "the commander")
                return "The swarm is on hold" if name.lower() == "hold" else "The swarm goes on"
            case "list":
                return table((await swarm.view()).myses)
            case "help" | "?":
                return HELP
    except ZoeaError as error:
        return f"{error.title}: {error.what}" + (f". {error.hint}" if error.hint else "")
    return f"There is no command {strip(name)!r}; help lists them"


async def lines_of(descriptor: int) -> AsyncIterator[str]:
    """Lines as they are typed. The descriptor stays blocking: a terminal is shared with stdout."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes] = asyncio.Queue()
    loop.add_reader(descriptor, lambda: arrived.put_nowait(_read(descriptor)))
    try:
        buffered = b""
        while chunk := await arrived.get():
            *whole, buffered = (buffered + chunk).split(b"\n")
            for line in whole:
                yield line.decode("utf-8", "replace")
        if buffered:
            yield buffered.decode("utf-8", "replace")
    finally:
        loop.remove_reader(descriptor)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:
        return b""


def _first(rest: str) -> tuple[str, str]:
    """A name, in quotes where it has spaces, and the rest as it stands."""
    if rest[:1] in ("'", '"'):
        quoted, closing, text = rest[1:].partition(rest[0])
        if closing:
            return quoted, text.strip()
    name, _, text = rest.partition(" ")
    if not name:
        raise UsageError("say to whom: send NAME TEXT")
    return name, text.strip()
