"""`zoea import`: myses from another workspace's export, or from Zoea Nova, into this one."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from zoea.cli.options import AsJson, Workspace, write_json
from zoea.model.errors import UsageError
from zoea.settings.paths import places
from zoea.text.control_characters import strip
from zoea.transfer.report import ImportReport, Progress

NOVA = "nova"
_FIRST_S = 1.0
_EVERY_S = 2.0


def import_(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="nova PATH | FILE",
            help="A Zoea Nova database after the word nova; or files of `zoea export --format jsonl`,"
            " or folders of such files.",
        ),
    ],
    template: Annotated[str, typer.Option(help="Nova: the template of those without a prompt of their own.")] = "",
    provider: Annotated[str, typer.Option(help="Nova: the provider of all of them.")] = "",
    model: Annotated[str, typer.Option(help="Nova: the model, where the provider is given or is the default.")] = "",
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Bring in myses with all that they said, while no swarm runs here. What is here already is left alone."""
    from zoea.transfer.run_import import import_files, import_nova

    where = places(workspace)
    progress: Progress = _silent if as_json else _Shown(sys.stderr.write, time.monotonic)
    if what[0] == NOVA:
        if len(what) != 2:
            raise UsageError("name one database: zoea import nova PATH")
        path = Path(what[1]).expanduser()
        reports = [asyncio.run(import_nova(where, path, progress, template=template, provider=provider, model=model))]
    else:
        if template or provider or model:
            raise UsageError(
                "--template, --provider and --model are for zoea import nova",
                hint="An export says what its myses are; `zoea configure NAME` changes it.",
            )
        reports = asyncio.run(import_files(where, [Path(one).expanduser() for one in what], progress))
    _said(reports, as_json)


def _said(reports: list[ImportReport], as_json: bool) -> None:
    if as_json:
        write_json([report.as_dict() for report in reports])
        return
    for report in reports:
        for line in report.lines():
            typer.echo(strip(line))


def _silent(_what: str, _done: int, _total: int) -> None:
    """Machines want the report alone."""


class _Shown:
    """A line now and then, once it takes longer than a moment.

    Args:
        write: Where lines go.
        clock: Seconds that only grow.
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
            self._write(f"zoea: importing {strip(what)}: {share}\n")
