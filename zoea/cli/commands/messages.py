"""Commands on what is said: send, broadcast, receipt, withdraw, log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from zoea.cli.options import LARGEST_ID, AsJson, MysisRef, Workspace, row_ids, write_json
from zoea.cli.swarm_access import command
from zoea.cli.terminal_rows import moment, receipt_line
from zoea.model.enums import DeliveryMode, MysisState, Role
from zoea.model.errors import UsageError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import Delivery, Memory, Receipt, Recipients
from zoea.queries import stored_swarm
from zoea.settings.paths import places
from zoea.text.control_characters import strip

Words = Annotated[list[str] | None, typer.Argument(metavar="TEXT...", help="What to say; - reads it from stdin.")]
Mode = Annotated[
    DeliveryMode,
    typer.Option(help="queue: after this turn; steer: joins this turn; interrupt: ends this turn."),
]
Key = Annotated[str, typer.Option(metavar="KEY", help="Say it once, however often this is repeated with the same key.")]


def send(
    name: MysisRef,
    text: Words = None,
    mode: Mode = DeliveryMode.QUEUE,
    key: Key = "",
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Say something to one mysis."""
    said = _said(text)
    sent = command(workspace, lambda swarm: swarm.send(name, said, mode=mode, idempotency_key=key))
    _write_receipt(sent, as_json)


def broadcast(
    text: Words = None,
    to: Annotated[list[str], typer.Option(metavar="NAME", help="Only to this mysis; as often as you like.")] = [],  # noqa: B006  # typer reads the default, nobody changes it
    tag: Annotated[str, typer.Option(help="Only to myses with this tag.")] = "",
    state: Annotated[MysisState | None, typer.Option(help="Only to myses in this state.")] = None,
    mode: Mode = DeliveryMode.QUEUE,
    key: Key = "",
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Say something to all myses, or to some."""
    said = _said(text)
    recipients = Recipients(names=tuple(to), tag=tag, state=state)
    sent = command(workspace, lambda swarm: swarm.broadcast(said, to=recipients, mode=mode, idempotency_key=key))
    _write_receipt(sent, as_json)


def receipt(
    number: Annotated[
        int,
        typer.Argument(metavar="ID", callback=row_ids, help="Of the message: `zoea send` and `zoea broadcast` say it."),
    ],
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """What became of a message or broadcast since it was sent."""
    _write_receipt(stored_swarm.read_receipt(database(workspace), number), as_json, is_new=False)


def withdraw(
    ids: Annotated[
        list[int], typer.Argument(metavar="ID...", callback=row_ids, help="Behind the receipt, and in `zoea log NAME`.")
    ],
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Take back what no turn has taken yet."""

    async def work(swarm: SwarmApi) -> None:
        for delivery in ids:
            await swarm.withdraw(delivery)

    command(workspace, work)
    if as_json:
        write_json({"withdrawn": ids})
    else:
        typer.echo("\n".join(f"{delivery} is withdrawn" for delivery in ids))


def log(
    name: MysisRef,
    last: Annotated[int, typer.Option("--last", "-n", min=1, max=100_000, help="How many memories, newest.")] = 100,
    turn: Annotated[int | None, typer.Option("--turn", min=1, max=LARGEST_ID, help="Only this turn.")] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Whole results, and what the model reasoned.")
    ] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """The stored conversation of a mysis, oldest first, and what waits for its next turn. JSON is one memory a line."""
    memories = stored_swarm.read_memories(database(workspace), name, last=last, turn=turn)
    for memory in memories:
        if as_json:
            write_json(memory)
        else:
            typer.echo(memory_text(memory, verbose=verbose))
    if not as_json and turn is None:
        for delivery in stored_swarm.read_queued(database(workspace), name):
            typer.echo(queued_text(delivery))


def database(workspace: str) -> Path:
    """The database of a workspace."""
    return places(workspace).database


def memory_text(memory: Memory, *, verbose: bool) -> str:
    """A memory for reading: who, when, what; long results cut unless `verbose`."""
    who = {Role.USER: "you", Role.ASSISTANT: "mysis", Role.TOOL: f"⚙ {memory.tool_name}"}.get(memory.role, memory.role)
    if memory.role is Role.USER and memory.label:
        who = memory.label.strip("[]")
    mark = " (failed)" if memory.is_error else " (cut off)" if memory.partial else ""
    lines = [strip(f"{moment(memory.created_at)}  turn {memory.turn_number}  {who}{mark}")]
    if verbose and memory.reasoning:
        lines.append(_indented(f"({memory.reasoning})"))
    if memory.content:
        lines.append(_indented(memory.content if verbose or memory.role is not Role.TOOL else _cut(memory.content)))
    lines += [_indented(f"⚙ {call.name}({call.arguments})") for call in memory.calls]
    return "\n".join(lines)


def queued_text(delivery: Delivery) -> str:
    """A message that waits, with the id by which it can be withdrawn."""
    who = delivery.label.strip("[]") or "you"
    return strip(f"{moment(delivery.created_at)}  queued ({delivery.id})  {who}\n") + _indented(delivery.content)


def _cut(text: str, size: int = 600) -> str:
    return text if len(text) <= size else f"{text[:size]} … {len(text) - size:,} more characters; --verbose shows them"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in strip(text).splitlines())


def _said(words: list[str] | None) -> str:
    if words == ["-"]:
        return sys.stdin.read()
    if not words:
        raise UsageError("there is nothing to say", hint="Give the text, or - to read it from stdin.")
    return " ".join(words)


def _write_receipt(found: Receipt, as_json: bool, *, is_new: bool = True) -> None:
    if as_json:
        write_json(found)
        return
    for line in found.lines:
        typer.echo(receipt_line(line))
    if is_new:
        typer.echo(f"what becomes of it: zoea receipt {found.message_id}")
