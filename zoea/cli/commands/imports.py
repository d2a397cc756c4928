"""`zoea import`: imports myses from exports of Zoea or a Zoea Nova database."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

from zoea.cli import output
from zoea.cli.output import Output
from zoea.model.errors import UsageError
from zoea.process.command_line import arguments, option
from zoea.settings.paths import Places, expand_home
from zoea.text.control_characters import reveal
from zoea.transfer.report import Progress

NOVA = "nova"
_FIRST_S = 1.0
_EVERY_S = 2.0


def import_(
    where: Places,
    what: tuple[str, ...] = arguments(
        "nova PATH | FILE",
        "The word nova and a Zoea Nova database; or files of `zoea export --format jsonl`, or folders of such files.",
    ),
    template: str = option("--template NAME", "With nova: template of myses that have no prompt of their own."),
    provider: str = option("--provider NAME", "With nova: provider of all imported myses."),
    model: str = option("--model NAME", "With nova: model of all imported myses, at that provider or the default one."),
) -> Output:
    """Import myses with their conversations. No swarm may run; what is stored already is not changed.

    Example: zoea import alpha.jsonl
    """
    from zoea.transfer.run_import import import_files, import_nova

    progress: Progress = _silent if output.is_json else ImportProgress(sys.stderr.write, time.monotonic)
    if what[0] == NOVA:
        if len(what) != 2:
            raise UsageError("name one database: zoea import nova PATH")
        path = expand_home(what[1])
        reports = [asyncio.run(import_nova(where, path, progress, template=template, provider=provider, model=model))]
    else:
        if template or provider or model:
            raise UsageError(
                "--template, --provider and --model are for zoea import nova",
                hint="An export names the template and model of its myses; `zoea configure NAME` changes them.",
            )
        reports = asyncio.run(import_files(where, list(map(expand_home, what)), progress))
    return Output([report.as_dict() for report in reports], (line for report in reports for line in report.lines()))


def _silent(_what: str, _done: int, _total: int) -> None:
    """Write no progress: with `--json` the output is the report alone."""


class ImportProgress:
    """Writes the progress every two seconds, from the second second on.

    Args:
        write: Takes each line.
        clock: Monotonic time in seconds.
    """

    def __init__(self, write: Callable[[str], object], clock: Callable[[], float]) -> None:
        self._write = write
        self._clock = clock
        self._due = clock() + _FIRST_S

    def __call__(self, what: str, done: int, total: int) -> None:
        now = self._clock()
        if now >= self._due:
            self._due = now + _EVERY_S
            share = f"{done * 100 // total} %" if total else f"{done:,}"
            self._write(f"zoea: importing {reveal(what)}: {share}\n")
