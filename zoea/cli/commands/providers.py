"""`zoea providers`: list the providers in reach, each tried with one free request."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext

import typer

from zoea.cli.options import AsJson, Workspace, write_json
from zoea.llm.discovery import PORTS, ProbeResult, ProbeStatus, ProviderChoice
from zoea.runtime.model_discovery import build_discovery
from zoea.settings import load, places
from zoea.text.control_characters import strip

app = typer.Typer(name="providers", add_completion=False, rich_markup_mode=None)

UNKNOWN = "unknown"
_MODELS_SHOWN = 3


@app.callback(invoke_without_command=True)
def providers(as_json: AsJson = False, workspace: Workspace = "") -> None:
    """List the providers in reach and try each.

    They come from the settings, from local ports and from keys in the environment.
    Each is asked for its list of models, which costs nothing. Keys are never shown, only the names
    of the variables that hold them.
    """
    discovery = build_discovery(load(places(workspace)), PORTS)
    with _waiting():
        found = asyncio.run(discovery.all())
    choice = discovery.choice(found)
    if as_json:
        there = [each.as_dict() for each in found if each.status is not ProbeStatus.ABSENT]
        write_json({"providers": there, "absent": _absent(found), "choice": _choice(choice)})
    else:
        typer.echo(text(found, choice))


def _waiting() -> AbstractContextManager[object]:
    """Show a spinner on stderr if it is a terminal, because a provider may take seconds."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status("Trying the providers")


def text(found: Sequence[ProbeResult], choice: ProviderChoice) -> str:
    """Format the table, each problem with its hint, and the provider that a run would use."""
    there = [each for each in found if each.status is not ProbeStatus.ABSENT]
    rows = [("NAME", "TYPE", "STATUS", "LATENCY", "MODELS", "FOUND"), *map(_row, there)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]
    amiss = [each for each in there if each.detail]
    if amiss:
        lines.append("")
    lines += [strip(f"{each.name}: {each.detail}{'. ' + each.hint if each.hint else ''}") for each in amiss]
    lines.append("")
    if absent := _absent(found):
        lines.append(f"Nothing listens on {', '.join(absent)}")
    model = f" with {choice.model}" if choice.model else ""
    lines.append(strip(f"A run uses {choice.name}{model}: {choice.reason}"))
    return "\n".join(lines)


def _row(found: ProbeResult) -> tuple[str, ...]:
    latency = UNKNOWN if found.latency_ms is None else f"{found.latency_ms:.0f} ms"
    return tuple(map(strip, (found.name, found.type, str(found.status), latency, _models(found), _where(found))))


def _models(found: ProbeResult) -> str:
    if found.models is None:
        return UNKNOWN
    names = [model.name for model in found.models]
    more = f" and {len(names) - _MODELS_SHOWN} more" if len(names) > _MODELS_SHOWN else ""
    return (", ".join(names[:_MODELS_SHOWN]) + more) or "none"


def _where(found: ProbeResult) -> str:
    parts = [str(found.origin), "default" if found.is_default else "", found.address]
    parts.append(f"key in {found.variable}" if found.variable else "")
    return ", ".join(part for part in parts if part)


def _absent(found: Iterable[ProbeResult]) -> list[str]:
    return [f"{each.name} ({each.address})" for each in found if each.status is ProbeStatus.ABSENT]


def _choice(choice: ProviderChoice) -> dict[str, str | None]:
    return {
        "name": choice.name,
        "type": choice.type,
        "origin": str(choice.origin),
        "address": choice.address or None,
        "model": choice.model or None,
        "reason": choice.reason,
    }
