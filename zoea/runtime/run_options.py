"""The options of `zoea run`, and the steps that all its fronts share."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from zoea.model.errors import (
    NoRunningSwarm,
    StoreFull,
    StoreMissing,
    StoreMoved,
    StoreOutdated,
    UsageError,
    WorkspaceHeld,
)
from zoea.process.command_line import WORKSPACE, declare, flag, option, whole_number
from zoea.process.lock import OwnerLock, read_holder
from zoea.settings.paths import Places

if TYPE_CHECKING:
    from zoea.ipc.remote_swarm import RemoteSwarm
    from zoea.model.swarm_api import SwarmApi
    from zoea.settings.schema import Settings

OPENING_S = 5.0
"""Seconds that an owner may take from its lock to an answer on its socket."""


MAX_MYSES = 2000
WORLD = "reef"
READ_ONLY = "--read-only"
METRICS_ADDRESS = "127.0.0.1:2112"

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


def parse_duration(text: str) -> float:
    """Parse `60s`, `500ms`, `10m`, `2h` or a bare number of seconds.

    Raises:
        UsageError: The text is none of these, or not above 0.
    """
    match = _DURATION.fullmatch(text.strip().lower())
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not 0 < seconds < 10**9:
        raise UsageError(f"{text!r} is not a duration", hint="Write 500ms, 60s, 10m or 2h.")
    return seconds


def parse_world(name: str) -> str:
    """Return the name of the world, or "" for none.

    Raises:
        UsageError: There is no such world.
    """
    if name not in ("", WORLD):
        raise UsageError(f"there is no world {name!r}", hint=f"The world's name is {WORLD}.")
    return name


def parse_task(text: str) -> str:
    """Return a task. Raises UsageError where it is blank."""
    if not text.strip():
        raise UsageError("the task is empty", hint="Say what is to be done, or leave out --task.")
    return text


def parse_address(text: str) -> str:
    """Return an address of the form HOST:PORT, or a port of this machine. Raises UsageError."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"{text!r} is not an address", hint=f"Write HOST:PORT, such as {METRICS_ADDRESS}, or a port.")
    return f"{host.strip('[]') or '127.0.0.1'}:{port}"


@dataclass(frozen=True, slots=True)
class StartOptions:
    """The options of every command that may start a swarm."""

    myses: int | None = declare(
        option("--myses N", "N myses in total; missing ones are created.", None, whole_number(0, MAX_MYSES))
    )
    template: str = declare(option("--template NAME", "Template of new myses."))
    provider: str = declare(option("--provider NAME", "Provider of new myses."))
    model: str = declare(option("--model NAME", "Model of new myses."))
    task: str | None = declare(
        option(
            "--task TEXT",
            "Task of new myses: they are nudged until they report that it is done. Without --myses one is made.",
            None,
            parse_task,
        )
    )
    world: str = declare(option(f"--world {WORLD}", "Run the sandbox world beside the swarm.", "", parse_world))
    metrics: str = declare(
        option(
            "--metrics [ADDRESS]",
            f"Serve metrics for Prometheus over HTTP at HOST:PORT or a port; {METRICS_ADDRESS} if not given.",
            "",
            parse_address,
            bare=METRICS_ADDRESS,
        )
    )
    start_swarm: bool = declare(
        flag("--start-swarm", "Continue the myses that were running when Zoea ended, and start the new ones.")
    )
    read_only: bool = declare(
        flag(READ_ONLY, "Show the swarm in a cockpit that commands and starts nothing; also one that runs elsewhere.")
    )
    go_on: bool = False
    workspace: str = declare(WORKSPACE)


@dataclass(frozen=True, slots=True)
class RunOptions(StartOptions):
    """The command line of `zoea run`. Times are in seconds; None means not given."""

    go_on: bool = declare(
        flag("--go-on", "Continue the myses that were running when Zoea ended; with --headless start no others.")
    )
    headless: bool = declare(flag("--headless", "Run the swarm without a screen; implies --start-swarm."))
    plain: bool = declare(flag("--plain", "Write events as lines, for screen readers and pipes."))
    verbose: bool = declare(
        flag(
            "--verbose",
            "Where events are written as lines: write also what each request holds and used of its budgets.",
        )
    )
    as_json: bool = declare(flag("--json", "Write events as JSON lines, a summary as the last line."))
    seconds: float | None = declare(
        option("--for DURATION", "End after this time: 500ms, 60s, 10m, 2h.", None, parse_duration)
    )
    turns: int | None = declare(
        option(
            "--turns N",
            "End once the swarm has ended N turns, or once no mysis goes on by itself.",
            None,
            whole_number(1),
        )
    )
    calm: bool = declare(flag("--no-animation", "Show no animation in the cockpit during this run."))

    @property
    def is_interactive(self) -> bool:
        return not (self.headless or self.as_json) and sys.stdin.isatty()

    @property
    def wants_screen(self) -> bool:
        """True in a terminal, unless an option asks for plain output or a limited run."""
        bounded = self.seconds is not None or self.turns is not None
        return self.is_interactive and not self.plain and not bounded and sys.stdout.isatty() and sys.stderr.isatty()


async def attach(where: Places) -> RemoteSwarm:
    """Connect to the running swarm; wait up to `OPENING_S` for one that is just opening.

    Raises:
        NoRunningSwarm: if no process holds the workspace, or its holder does not answer.
    """
    from zoea.ipc.remote_swarm import connect_to  # the codec is not needed before the first paint

    deadline = asyncio.get_running_loop().time() + OPENING_S
    while True:
        holder = read_holder(where.data)
        try:
            return await connect_to(holder)
        except NoRunningSwarm:
            if holder is None or asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(0.1)


def refuse_starts(options: StartOptions) -> None:
    """Refuse options that start or create something beside `--read-only`. Raises UsageError."""
    unset = StartOptions(read_only=True, workspace=options.workspace)
    names = [one.name for one in fields(unset) if getattr(options, one.name) != getattr(unset, one.name)]
    if options.read_only and names:
        listed = " and ".join(f"--{name.replace('_', '-')}" for name in names)
        raise UsageError("--read-only starts nothing and creates no myses", hint=f"Leave out {listed}.")


def refuse_new_myses(options: StartOptions, where: Places) -> None:
    """Refuse new myses that settings forbid, an unknown template, and a task for none.

    Raises:
        UsageError: `--myses` is above `swarm.max_myses`, or `--task` would create none.
        SettingsInvalid: The settings have problems.
        TemplateError: There is no such template, or it cannot be read.
    """
    if options.myses is None and not options.template:
        return
    from zoea.settings.layers import load  # pydantic takes longer than the first paint may

    loaded = load(where)
    if options.template:
        loaded.templates.get(options.template)
    if options.myses is None:
        return
    most = loaded.settings.swarm.max_myses
    if options.myses > most:
        raise UsageError(
            f"--myses {options.myses} is over the limit of {most} (swarm.max_myses)",
            hint=f"Give at most {most}, or set swarm.max_myses = {options.myses} in {where.config_file}.",
        )
    if options.task is None:
        return
    from zoea.queries.stored_swarm import read_mysis_records

    try:
        there = sum(record.is_living for record in read_mysis_records(where.database))
    except (StoreMissing, StoreOutdated):  # an older database is counted once this run has brought it up to date
        there = 0
    _refuse_without_new(options.myses, there)


def _refuse_without_new(most: int, there: int) -> None:
    if there >= most:
        raise UsageError(
            f"no new mysis takes the task: --myses {most}, and there are {there}",
            hint="Give it to one of them with `zoea send NAME --task TEXT`, or leave out --myses to create another.",
        )


async def prepare_swarm(swarm: SwarmApi, options: StartOptions, where: Places) -> str:
    """Create missing myses up to `--myses N`, or one with a task. Start the idle ones if requested.

    Returns what the person should know of options without an effect; empty where there are none.

    Raises:
        UsageError: New myses would have a model that their server does not list, or none is new for `--task`.
    """
    wanted = there = 0
    if options.myses is not None or options.template or options.provider or options.model:
        there = len((await swarm.view()).myses)
    if options.myses is not None:
        wanted = options.myses - there
        if options.task is not None:
            _refuse_without_new(options.myses, there)
    elif options.task is not None:
        wanted = 1
    template = options.template or ("miner" if options.world else "")
    if wanted > 0 and options.model:
        from zoea.runtime.model_check import find_doubt

        doubt = await find_doubt(swarm, where, options.model, provider=options.provider, template=template)
        if doubt is not None:
            raise doubt.refuse("Name one of them, or create the mysis with `zoea new --keep-model`.")
    for _ in range(wanted):
        await swarm.create(
            "",
            template=template,
            provider=options.provider,
            model=options.model,
            start=options.task is not None,
            task=options.task or "",
        )
    if options.start_swarm:
        await swarm.start_all(again=True, new=True)
    elif options.go_on:
        await swarm.start_all(left_running=True)
    return _describe_unused(options, there) if there and wanted <= 0 else ""


def _describe_unused(options: StartOptions, there: int) -> str:
    """Return which options for new myses were given although none was made; empty for none."""
    values = {"--template": options.template, "--provider": options.provider, "--model": options.model}
    unused = [f"{name} {value}" for name, value in values.items() if value]
    if not unused:
        return ""
    listed = " and ".join(filter(None, (", ".join(unused[:-1]), unused[-1])))
    apply = "applies" if len(unused) == 1 else "apply"
    here = "the one here keeps its own" if there == 1 else f"the {there} here keep their own"
    return (
        f"{listed} {apply} to new myses only, and none was made: {here}. "
        "Make one with n in the cockpit or `zoea new`, or open another workspace with -w NAME."
    )


async def prepare_own_swarm(swarm: SwarmApi, options: StartOptions, where: Places, settings: Settings) -> str:
    """As `prepare_swarm`, for a swarm that this process has just opened.

    With `swarm.restart = "always"` those that ran when Zoea ended run again.

    Raises:
        StoreFull: It cannot be stored. The swarm ends with this process, so that nothing is done later.
    """
    try:
        note = await prepare_swarm(swarm, options, where)
        if settings.swarm.restart == "always" and not (options.start_swarm or options.go_on):
            await swarm.start_all(again=True)
    except StoreFull as error:
        remedy = "Put the database back" if isinstance(error, StoreMoved) else "Free some space"
        hint = f"The swarm ends, and nothing more is started. {remedy}, then run it again."
        raise type(error)(error.what, hint=hint) from error
    return note


async def leave_running(options: RunOptions, where: Places) -> None:
    """Hand the workspace to a process without a terminal, which continues the running myses.

    Raises:
        StoreError: if the workspace cannot be written any more.
        NoRunningSwarm: if another process owns it already and does not answer.
    """
    lock = OwnerLock(where.data, where.socket)
    try:
        lock.acquire()
    except WorkspaceHeld:
        async with await attach(where) as swarm:
            await swarm.start_all(left_running=True)
    else:
        pass_lock_on(lock, options)


def pass_lock_on(lock: OwnerLock, options: RunOptions) -> None:
    """Start a process without a terminal that gets the lock and continues the running myses."""
    command = [sys.executable, "-P", "-m", "zoea", "run", "--headless", "--go-on"]
    for name in ("world", "workspace"):
        if value := getattr(options, name):
            command += [f"--{name}", value]

    def start(descriptor: int) -> None:
        quiet = subprocess.DEVNULL
        subprocess.Popen(command, stdin=descriptor, stdout=quiet, stderr=quiet, start_new_session=True, close_fds=True)

    lock.pass_on(start)
