"""Commands for messages: send, broadcast, receipt, withdraw, log."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zoea.cli.options import AsJson, MysisRef, Workspace, row_ids, write_json
from zoea.cli.output import moment
from zoea.cli.swarm_access import command, read_recipients
from zoea.cli.terminal_rows import can_withdraw, describe_receipt
from zoea.model.enums import DeliveryMode, MysisState, Role
from zoea.model.errors import UsageError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import Delivery, Memory, Receipt, Recipients, SwarmView
from zoea.queries import stored_swarm
from zoea.settings.paths import places
from zoea.text.call_text import reveal_call
from zoea.text.control_characters import strip

if TYPE_CHECKING:
    from zoea.cli.answer_wait import ReceivedAnswer

Words = Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="The message; - reads it from stdin.")]
Mode = Annotated[
    DeliveryMode,
    typer.Option(
        help="For a running mysis: queue waits for the next turn, steer joins this turn, interrupt ends this turn."
    ),
]
Total = Annotated[
    int | None,
    typer.Option(
        "--budget",
        metavar="N",
        min=1000,
        help="Tokens that all turns of this message may use.",
    ),
]
OwnTurn = Annotated[
    bool, typer.Option("--own-turn", help="Open a turn with this message alone, also where others wait with it.")
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait for the answer and print it; the exit code says whether there is one.")
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="With --wait: how long at most.")
]
Key = Annotated[
    str, typer.Option(metavar="KEY", help="Idempotency key: a repeated command with the same key sends nothing again.")
]


def send(
    name: MysisRef,
    text: Words = None,
    mode: Mode = DeliveryMode.QUEUE,
    task: Annotated[
        bool, typer.Option("--task", help="Make it the new task: the mysis is nudged until it reports that it is done.")
    ] = False,
    context: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=VALUE",
            help="A limit of its requests in this turn, such as history_window_size=100, or JSON; may be repeated.",
        ),
    ] = [],  # noqa: B006  # typer reads the default, which is never changed
    total: Total = None,
    key: Key = "",
    own_turn: OwnTurn = False,
    wait: Wait = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Send a message to one mysis.

    With --wait only the answer is printed. The exit code is 0 for an answer, 10 where the turn ended without one, 11
    where the mysis goes on only after something that you do, and 12 after --timeout.

    With --budget, a model whose next request would exceed the budget must answer at once; it gets no other request.

    Example: zoea send alpha sell the ore first
    """
    content = _content(text)
    given = _read_context(context, total, is_own=own_turn, mode=mode)
    _send(
        workspace,
        lambda swarm: swarm.send(name, content, mode=mode, is_task=task, idempotency_key=key, limits=given),
        _read_wait(wait, timeout),
        as_json=as_json,
    )


def broadcast(
    text: Words = None,
    to: Annotated[list[str], typer.Option(metavar="NAME", help="Only to this mysis; may be repeated.")] = [],  # noqa: B006  # typer reads the default, which is never changed
    tag: Annotated[str, typer.Option(metavar="TAG", help="Only to myses with this tag.")] = "",
    state: Annotated[
        MysisState | None, typer.Option(help="Only to myses in this state, which `zoea show` tells.")
    ] = None,
    mode: Mode = DeliveryMode.QUEUE,
    key: Key = "",
    total: Total = None,
    own_turn: OwnTurn = False,
    wait: Wait = False,
    timeout: Timeout = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Send it also where a budget has too little left.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Send a message to all myses, or to those that the options select. Stopped and errored myses are skipped.

    Where a budget has less left than one request of each recipient is expected to need, it asks before it sends.

    A --budget is shared: each turn gets an equal part of what is left, and what one turn leaves unused goes to the next
    ones. A model whose next request would exceed the part of its turn must answer at once; it gets no other request.

    With --wait the answer of each mysis is printed behind its name. The exit code is that of `zoea send --wait`: 0
    where all who got the message have answered.
    """
    content = _content(text)
    recipients = Recipients(names=tuple(to), tag=tag, state=state)
    context = _read_context([], total, is_own=own_turn, mode=mode)
    if not yes:
        _confirm_budgets(workspace, content, recipients, asks=not as_json)
    _send(
        workspace,
        lambda swarm: swarm.broadcast(content, to=recipients, mode=mode, idempotency_key=key, limits=context),
        _read_wait(wait, timeout),
        as_json=as_json,
        is_named=True,
    )


def receipt(
    number: Annotated[
        int,
        typer.Argument(
            metavar="ID", callback=row_ids, help="Id of the message, as `zoea send` and `zoea broadcast` show it."
        ),
    ],
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Show the status of a message for each recipient, as it is now."""
    _write_receipt(stored_swarm.read_receipt(database(workspace), number), None, as_json)


def withdraw(
    ids: Annotated[
        list[int],
        typer.Argument(metavar="ID", callback=row_ids, help="Delivery ids, as receipts and `zoea log NAME` show them."),
    ],
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Take back messages that no turn has taken yet."""

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
    last: Annotated[
        int, typer.Option("--last", "-n", metavar="N", min=1, max=100_000, help="Number of newest memories.")
    ] = 100,
    turn: Annotated[int | None, typer.Option("--turn", metavar="N", callback=row_ids, help="Only this turn.")] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show whole results and the model's reasoning.")
    ] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Show the stored conversation of a mysis, oldest first.

    The messages that wait for its next turn follow. With --json each line is one memory.
    """
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
    """Return the path of a workspace's database."""
    return places(workspace).database


def memory_text(memory: Memory, *, verbose: bool) -> str:
    """Format a memory: time, turn, sender, text; long results are cut unless `verbose`."""
    who = {Role.USER: "you", Role.ASSISTANT: "mysis", Role.TOOL: f"⚙ {memory.tool_name}"}.get(memory.role, memory.role)
    if memory.role is Role.USER and memory.label:
        who = memory.label.strip("[]")
    mark = " (failed)" if memory.is_error else " (cut off)" if memory.partial else ""
    lines = [strip(f"{moment(memory.created_at)}  turn {memory.turn_number}  {who}{mark}")]
    if verbose and memory.reasoning:
        lines.append(_indented(f"({memory.reasoning})"))
    if memory.content:
        lines.append(_indented(memory.content if verbose or memory.role is not Role.TOOL else _cut(memory.content)))
    lines += [_indented(f"⚙ {reveal_call(call.name, call.arguments)}") for call in memory.calls]
    return "\n".join(lines)


def queued_text(delivery: Delivery) -> str:
    """Format a waiting message with the delivery id for `zoea withdraw`."""
    who = delivery.label.strip("[]") or "you"
    return strip(f"{moment(delivery.created_at)}  queued ({delivery.id})  {who}\n") + _indented(delivery.content)


def _cut(text: str, size: int = 600) -> str:
    return text if len(text) <= size else f"{text[:size]} … {len(text) - size:,} more characters; --verbose shows them"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in strip(text).splitlines())


def _content(words: list[str] | None) -> str:
    if words == ["-"]:
        return sys.stdin.read()
    if not words:
        raise UsageError("the message is empty", hint="Give the text, or - to read it from stdin.")
    return " ".join(words)


def _confirm_budgets(workspace: str, text: str, to: Recipients, *, asks: bool) -> None:
    """Ask where a broadcast is expected to exceed a budget. Raises UsageError without a yes."""
    short = command(workspace, lambda swarm: swarm.find_short_budgets(text, to=to))
    if not short:
        return
    hint = "Send it with --yes, to fewer myses with --to or --tag, or raise the budget."
    if asks and sys.stdin.isatty():
        typer.echo(strip("\n".join(short)), err=True)
        if typer.confirm("Send it all the same?", err=True):
            return
        raise UsageError("nothing was sent", hint=hint)
    raise UsageError(f"nothing was sent. {'. '.join(short)}", hint=hint)


def _read_wait(wait: bool, timeout: float | None) -> tuple[bool, float | None]:
    if timeout is not None and not wait:
        raise UsageError("--timeout is for --wait", hint="Add --wait.")
    return wait, timeout


def _send(
    workspace: str,
    work: Callable[[SwarmApi], Awaitable[Receipt]],
    wait: tuple[bool, float | None],
    *,
    as_json: bool,
    is_named: bool = False,
) -> None:
    """Send a message, and write its receipt or wait for its answers.

    Raises:
        NotAnswered: Where it waited and a recipient has not answered.
    """
    if not wait[0]:
        _write_receipt(*command(workspace, partial(_send_now, work)), as_json)
        return
    from zoea.cli.answer_wait import wait_for_answers  # most sends do not wait

    async def send_and_wait(swarm: SwarmApi) -> tuple[int, tuple[ReceivedAnswer, ...]]:
        receipt = await work(swarm)
        return receipt.message_id, await wait_for_answers(swarm, receipt, database(workspace), wait[1])

    message_id, answers = command(workspace, send_and_wait)
    missing = [one for one in answers if one.is_missing]
    if as_json:
        write_json({"message_id": message_id, "answers": answers})
    else:
        for one in answers:
            if one.text:
                typer.echo(f"{strip(one.mysis)}:\n{_indented(one.text)}" if is_named else strip(one.text))
            if one.reason and (one not in missing[:1]):
                typer.echo(strip(one.reason), err=True)
    if missing:
        raise missing[0].error()


async def _send_now(work: Callable[[SwarmApi], Awaitable[Receipt]], swarm: SwarmApi) -> tuple[Receipt, SwarmView]:
    """Send a message, and return its receipt with the recipients once they have begun, or what keeps them."""
    receipt = await work(swarm)
    return receipt, await read_recipients(swarm, receipt)


def _read_context(pairs: list[str], total: int | None, *, is_own: bool, mode: DeliveryMode) -> str:
    """Return the limits of a message as JSON; empty where none is set."""
    if is_own and mode is DeliveryMode.STEER:
        raise UsageError("a message with --own-turn joins no other turn", hint="Leave out --mode steer or --own-turn.")
    pairs = [*pairs, *([f"token_budget_total={total}"] if total is not None else [])]
    pairs += ["own_turn=true"] if is_own else []
    if not pairs:
        return ""
    from zoea.context.window.prompt_context import parse_pairs, parse_prompt_context  # most sends need no planning

    limits = parse_prompt_context(parse_pairs(pairs))
    for sentence in limits.ignored:
        typer.echo(sentence, err=True)
    return limits.to_json()


def _write_receipt(found: Receipt, swarm: SwarmView | None, as_json: bool) -> None:
    """Write a receipt; of a new message with the status of its recipients, as the swarm shows them."""
    if as_json:
        write_json(found)
        return
    for line in describe_receipt(found, swarm):
        typer.echo(line)
    if swarm is not None:
        back = ", zoea withdraw NUMBER takes one back" if any(map(can_withdraw, found.lines)) else ""
        typer.echo(f"zoea receipt {found.message_id} shows its status later{back}")
