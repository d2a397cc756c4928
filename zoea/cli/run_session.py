"""One run of `zoea run` without the cockpit: open or attach, show events, end.

A run ends when its time is over, its turns have ended or none is to come, a signal arrives,
the person types `quit`, or another process calls `zoea stop --swarm`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, closing
from functools import partial
from typing import Any

from zoea.cli import output
from zoea.cli.plain_fronts import (
    Front,
    JsonFront,
    PlainFront,
    finish_writing,
    leave_unread_output,
    write_in_time,
    write_text,
)
from zoea.cli.swarm_rest import RestReport, TurnCount, wait_for_rest
from zoea.cli.typed_commands import ExitChoice, read_commands
from zoea.cli.typed_lines import TypedLines
from zoea.model.errors import NoRunningSwarm
from zoea.model.status import count_ended
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import MysisView
from zoea.process.forced_end import detach_terminal
from zoea.process.logs import logging_to
from zoea.queries.stored_swarm import read_swarm_view
from zoea.runtime.run_options import RunOptions, attach, leave_running, prepare_own_swarm, prepare_swarm
from zoea.settings.paths import Places, places
from zoea.text.sentences import begin_sentence, count_of

MOST_UNREAD = 20
"""Typed lines that were not carried out are repeated up to this number, then counted."""


async def run_owned_swarm(options: RunOptions, where: Places) -> int:
    """Own the workspace, run and show its swarm, close it, and return the exit code.

    Raises:
        WorkspaceHeld: Another process owns the workspace.
        ZoeaError: The workspace cannot be opened.
    """
    from zoea.runtime.compose import SwarmOptions, running_swarm
    from zoea.runtime.model_discovery import load_run_settings
    from zoea.runtime.owner import own_workspace

    front, is_interactive = _front(options, where), options.is_interactive
    parting: ExitChoice | RestReport = ExitChoice.QUIT
    loaded = await load_run_settings(where, discover=not options.provider, is_headless=not is_interactive)
    swarm_options = SwarmOptions(
        world=options.world, metrics=options.metrics, write_line=lambda line: write_text(f"{line}\n"), loaded=loaded
    )
    swarm_of = partial(running_swarm, options=swarm_options)
    async with _until_open(own_workspace(where, swarm_of, on_hangup=detach_terminal)) as owner:
        if owner.warning:
            sys.stderr.write(f"zoea: {owner.warning}\n")
        for line in loaded.trust_notice.splitlines():
            output.say(line)
        swarm = owner.api
        after = (await swarm.view()).event_id  # not from the file, which cannot be opened without a descriptor left
        output.say(await prepare_own_swarm(swarm, options, where, loaded.settings))
        if is_interactive:
            await front.say("Type help for the commands; quit ends the swarm.")
        myses = (await swarm.view()).myses
        if not myses:
            await front.say("There are no myses yet; `zoea new NAME --task TEXT` creates one")
        if ended := count_ended(myses):
            how = "`start again` continues" if is_interactive else "`zoea start --again` continues"
            await front.say(f"{ended} had work to do when Zoea ended; {how} {'it' if ended == 1 else 'them'}")
        async with _typed_lines(is_interactive) as lines:
            parting = await _show(swarm, front, options, after, lines, ending=owner.ending, is_owner=True)
    # Read after the shutdown, which settles the requests in flight, so that `zoea list` tells the same numbers.
    with logging_to(where.log, loaded.settings.log.level):
        is_written = await write_in_time(_write_end(front, parting, await _read_summary(options, where)))
    if not is_written:
        leave_unread_output()
    if isinstance(parting, RestReport):
        parting.check()
    if parting is ExitChoice.LEAVE:
        await leave_running(options, where)
        sys.stdout.write("The swarm runs on without a screen; `zoea run` attaches to it.\n")
    return 0


async def run_attached(options: RunOptions, where: Places) -> int:
    """Show the swarm that another process owns, and leave it running."""
    from zoea.runtime.world_scores import read_credits

    front, is_interactive = _front(options, where), options.is_interactive
    ending = asyncio.Event()
    async with await attach(where) as swarm, _typed_lines(is_interactive) as lines:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, ending.set)
        if options.world:
            sys.stderr.write("zoea: --world has no effect: a running swarm keeps the world it was started with\n")
        after = (await swarm.view()).event_id
        is_written = True
        await front.say(f"Attached to the swarm of process {swarm.pid}; quit leaves it running.")
        output.say(await prepare_swarm(swarm, options, where))
        try:
            await _show(swarm, front, options, after, lines, ending=ending, is_owner=False)
            if is_interactive:
                parting = "The swarm runs on: `zoea run` shows it again, `zoea stop --swarm` ends it."
                is_written = await write_in_time(front.say(parting))
            if options.as_json:  # the last line is the summary here too, as in an own run
                myses = (await swarm.view()).myses
                rows = summary(myses, await asyncio.to_thread(read_credits, where, myses))
                is_written = await write_in_time(front.summary(rows))
            elif is_written:
                is_written = await write_in_time(asyncio.to_thread(finish_writing))
        except NoRunningSwarm:
            if options.as_json:
                sys.stderr.write("zoea: the running swarm has ended\n")
            is_written = await write_in_time(_say_end(front, lines))
    if not is_written:
        leave_unread_output()
    return 0


async def _say_end(front: Front, lines: TypedLines | None) -> None:
    """Report that the swarm has ended, and which typed lines it may not have run."""
    await front.say("The running swarm has ended; `zoea run` opens it again")
    if lines is None:
        return
    if lines.current.strip():
        await front.say(f"Not confirmed, it may have been carried out: {lines.current.strip()}")
    unread = lines.take_unread()
    for line in unread[:MOST_UNREAD]:
        await front.say(f"Not carried out: {line.strip()}")
    if len(unread) > MOST_UNREAD:
        await front.say(f"Not carried out either: {count_of(len(unread) - MOST_UNREAD, 'more line')}")


@asynccontextmanager
async def _typed_lines(is_interactive: bool) -> AsyncIterator[TypedLines | None]:
    """Read stdin as the person's commands; None where there is no person."""
    if not is_interactive:
        yield None
        return
    with closing(TypedLines(sys.stdin)) as lines:
        yield lines


async def _read_summary(options: RunOptions, where: Places) -> list[dict[str, Any]]:
    """Read the totals of a swarm that has ended, in the query of `zoea list`. Raises StoreError."""
    from zoea.runtime.world_scores import read_credits

    myses = (await asyncio.to_thread(read_swarm_view, where.database)).myses
    earned = await asyncio.to_thread(read_credits, where, myses)
    # A world that has no file yet has paid no credits.
    return summary(myses, {} if earned is None and options.world else earned)


async def _write_end(front: Front, parting: ExitChoice | RestReport, rows: list[dict[str, Any]]) -> None:
    if isinstance(parting, RestReport):
        await front.say(begin_sentence(parting.sentence()))
    await front.summary(rows)


def summary(myses: tuple[MysisView, ...], credits_by_name: dict[str, int] | None) -> list[dict[str, Any]]:
    """Return one object per mysis for the last line of `--json`. Counts are totals of all runs."""
    return [
        {
            "name": view.name,
            "turns": view.turns,
            "tool_calls": view.tool_calls,
            "errors": view.errors,
            "tokens": view.tokens,
            "credits_earned": None if credits_by_name is None else credits_by_name.get(view.name, 0),
        }
        for view in myses
    ]


async def _show(
    swarm: SwarmApi,
    front: Front,
    options: RunOptions,
    after: int,
    lines: TypedLines | None,
    *,
    ending: asyncio.Event,
    is_owner: bool,
) -> ExitChoice | RestReport:
    """Show the swarm until the first reason to end. An error of the front ends the run.

    Args:
        lines: What the person types; None where there is no person.
    """
    turns = TurnCount(options.turns, after)
    reasons: list[Coroutine[Any, Any, Any]] = [
        front.show(swarm, after, turns.seen),
        _wait(ending),
        _wait(turns.are_enough),
    ]
    if options.seconds is not None:
        reasons.append(asyncio.sleep(options.seconds))
    if lines is not None:
        reasons.append(read_commands(swarm, front.say, places(options.workspace), lines, is_owner=is_owner))
    if is_owner and options.turns is not None and options.seconds is None and lines is None:
        reasons.append(wait_for_rest(swarm, turns))
    tasks = [asyncio.create_task(reason) for reason in reasons]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=1.0)
    if errors := [error for task in done if (error := task.exception()) is not None]:
        raise errors[0]
    results = [task.result() for task in done]
    partings = [result for result in results if isinstance(result, ExitChoice | RestReport)]
    return partings[0] if partings and not turns.are_enough.is_set() else ExitChoice.QUIT


async def _wait(reason: asyncio.Event) -> None:
    await reason.wait()


def _front(options: RunOptions, where: Places) -> Front:
    return JsonFront() if options.as_json else PlainFront(where.database, is_verbose=options.verbose)


@asynccontextmanager
async def _until_open(opening: Any) -> AsyncIterator[Any]:
    """Report on stderr that the swarm opens or ends, if it takes over a second."""
    notice = output.soon("opening the swarm")
    try:
        async with opening as opened:
            notice.cancel()
            yield opened
            notice = output.soon("ending the swarm; ctrl+c again ends the process at once")
    finally:
        notice.cancel()
