"""Commands for messages: send, broadcast, log, keep."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from zoea.cli import output
from zoea.cli.options import MYSIS
from zoea.cli.output import Output, Outputs, moment
from zoea.cli.swarm_access import command, read_recipients
from zoea.cli.terminal_rows import can_withdraw, describe_receipt
from zoea.model.enums import DeliveryMode, MysisState, Role
from zoea.model.errors import UsageError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import Delivery, Memory, Receipt, Recipients, SwarmView
from zoea.process.command_line import argument, arguments, choice, flag, number, option, options, row_id, whole_number
from zoea.queries.stored_swarm import read_memories, read_preserved, read_queued, read_receipt
from zoea.settings.paths import Places
from zoea.text.call_text import reveal_call
from zoea.text.control_characters import prose_line, reveal
from zoea.text.shorten import head

if TYPE_CHECKING:
    from zoea.cli.answer_wait import ReceivedAnswer

WORDS = arguments("TEXT", "The message; - reads it from stdin.", ())
MODE = option(
    "--mode",
    "For a running mysis: queue waits for the next turn, steer joins this turn, interrupt ends this turn.",
    DeliveryMode.QUEUE,
    choice(DeliveryMode),
)
TOTAL = option("--budget N", "Tokens that all turns of this message may use.", None, whole_number(1000))
OWN_TURN = flag("--own-turn", "Open a turn with this message alone, also where others wait with it.")
WAIT = flag("--wait", "Wait for the answer and print it; the exit code says whether there is one.")
TIMEOUT = option("--timeout SECONDS", "With --wait: how long at most.", None, number(0.1))
KEY = option("--key KEY", "Idempotency key: a repeated command with the same key sends nothing again.")


def send(
    where: Places,
    name: str = argument(MYSIS.metavar, MYSIS.text, "", is_name=True),
    text: tuple[str, ...] = WORDS,
    mode: DeliveryMode = MODE,
    task: bool = flag("--task", "Make it the new task: the mysis is nudged until it reports that it is done."),
    context: tuple[str, ...] = options(
        "--context KEY=VALUE",
        "A limit of its requests in this turn, such as history_window_size=100, or JSON; may be repeated.",
    ),
    total: int | None = TOTAL,
    key: str = KEY,
    own_turn: bool = OWN_TURN,
    wait: bool = WAIT,
    timeout: float | None = TIMEOUT,
    received: int | None = option(
        "--receipt ID", "Show the status of this message for each recipient, also of a broadcast.", None, row_id
    ),
    withdrawn: tuple[int, ...] = options(
        "--withdraw ID", "Take back this delivery, which no turn has taken yet; may be repeated.", row_id
    ),
) -> Output:
    """Send a message to one mysis.

    With --wait only the answer is printed. The exit code is 0 for an answer, 10 where the turn ended without one, 11
    where the mysis goes on only after something that you do, and 12 after --timeout.

    With --budget, a model whose next request would exceed the budget must answer at once; it gets no other request.

    With --receipt and --withdraw nothing is sent. Receipts and `zoea log NAME` show the ids of deliveries.

    Example: zoea send alpha sell the ore first
    """
    if received is not None or withdrawn:
        if name or (received is not None and withdrawn):
            raise UsageError("--receipt and --withdraw stand alone", hint="For example: zoea send --receipt 41")
        return (
            _withdraw(where, withdrawn) if received is None else _show_receipt(read_receipt(where.database, received))
        )
    if not name:
        raise UsageError("NAME is missing", hint="`zoea list` shows the myses; `zoea broadcast` sends to all.")
    content = _content(text)
    limits = _read_limits(context, total, is_own=own_turn, mode=mode)
    return _send(
        where,
        lambda swarm: swarm.send(name, content, mode=mode, is_task=task, idempotency_key=key, limits=limits),
        _read_wait(wait, timeout),
    )


def _withdraw(where: Places, ids: tuple[int, ...]) -> Output:
    async def work(swarm: SwarmApi) -> None:
        for delivery in ids:
            await swarm.withdraw(delivery)

    command(where, work)
    return Output({"withdrawn": ids}, [f"{delivery} is withdrawn" for delivery in ids])


def broadcast(
    where: Places,
    text: tuple[str, ...] = WORDS,
    to: tuple[str, ...] = options("--to NAME", "Only to this mysis; may be repeated."),
    tag: str = option("--tag TAG", "Only to myses with this tag."),
    state: MysisState | None = option(
        "--state", "Only to myses in this state, which `zoea show` tells.", None, choice(MysisState)
    ),
    mode: DeliveryMode = MODE,
    key: str = KEY,
    total: int | None = TOTAL,
    own_turn: bool = OWN_TURN,
    wait: bool = WAIT,
    timeout: float | None = TIMEOUT,
    yes: bool = flag("-y, --yes", "Send it also where a budget has too little left."),
) -> Output:
    """Send a message to all myses, or to those that the options select. Stopped and errored myses are skipped.

    Where a budget has less left than one request of each recipient is expected to need, it asks before it sends.

    A --budget is shared: each turn gets an equal part of what is left, and what one turn leaves unused goes to the next
    ones. A model whose next request would exceed the part of its turn must answer at once; it gets no other request.

    With --wait the answer of each mysis is printed behind its name. The exit code is that of `zoea send --wait`: 0
    where all who got the message have answered.
    """
    content = _content(text)
    recipients = Recipients(names=to, tag=tag, state=state)
    limits = _read_limits((), total, is_own=own_turn, mode=mode)
    if not yes:
        _confirm_budgets(where, content, recipients)
    return _send(
        where,
        lambda swarm: swarm.broadcast(content, to=recipients, mode=mode, idempotency_key=key, limits=limits),
        _read_wait(wait, timeout),
        is_named=True,
    )


def log(
    where: Places,
    name: str = MYSIS,
    last: int = option("-n, --last N", "Number of newest memories.", 100, whole_number(1, 100000)),
    turn: int | None = option("--turn N", "Only this turn.", None, row_id),
    verbose: bool = flag("-v, --verbose", "Show whole results and the model's reasoning."),
) -> Outputs:
    """Show the stored conversation of a mysis, oldest first.

    The messages that wait for its next turn follow. With --json each line is one memory.
    """
    for memory in read_memories(where.database, name, last=last, turn=turn):
        yield Output(memory, memory_text(memory, verbose=verbose))
    if not output.is_json and turn is None:
        for delivery in read_queued(where.database, name):
            yield queued_text(delivery)


def memory_text(memory: Memory, *, verbose: bool) -> str:
    """Format a memory: time, turn, sender, text; long results are cut unless `verbose`."""
    who = {Role.USER: "you", Role.ASSISTANT: "mysis", Role.TOOL: f"⚙ {memory.tool_name}"}.get(memory.role, memory.role)
    if memory.role is Role.USER and memory.label:
        who = memory.label.strip("[]")
    mark = " (failed)" if memory.is_error else " (cut off)" if memory.partial else ""
    lines = [reveal(f"{moment(memory.created_at)}  turn {memory.turn_number}  {who}{mark}")]
    if verbose and memory.reasoning:
        lines.append(_indented(f"({memory.reasoning})"))
    if memory.content:
        lines.append(_indented(memory.content if verbose or memory.role is not Role.TOOL else _cut(memory.content)))
    lines += [_indented(f"⚙ {reveal_call(call.name, call.arguments)}") for call in memory.calls]
    return "\n".join(lines)


def queued_text(delivery: Delivery) -> str:
    """Format a waiting message with the delivery id for `zoea send --withdraw`."""
    who = delivery.label.strip("[]") or "you"
    return reveal(f"{moment(delivery.created_at)}  queued ({delivery.id})  {who}\n") + _indented(delivery.content)


def _cut(text: str, size: int = 600) -> str:
    return text if len(text) <= size else f"{text[:size]} … {len(text) - size:,} more characters; --verbose shows them"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in reveal(text).splitlines())


def _content(words: tuple[str, ...]) -> str:
    if words == ("-",):
        return output.read_stdin()
    if not words:
        raise UsageError("the message is empty", hint="Give the text, or - to read it from stdin.")
    return " ".join(words)


def _confirm_budgets(where: Places, text: str, to: Recipients) -> None:
    """Ask where a broadcast is expected to exceed a budget. Raises UsageError without a yes."""
    short = command(where, lambda swarm: swarm.find_short_budgets(text, to=to))
    if not short:
        return
    hint = "Send it with --yes, to fewer myses with --to or --tag, or raise the budget."
    if not output.is_json and output.is_typed():
        output.warn("\n".join(short))
        if output.confirm("Send it all the same?"):
            return
        raise UsageError("nothing was sent", hint=hint)
    raise UsageError(f"nothing was sent. {'. '.join(short)}", hint=hint)


def _read_wait(wait: bool, timeout: float | None) -> tuple[bool, float | None]:
    if timeout is not None and not wait:
        raise UsageError("--timeout is for --wait", hint="Add --wait.")
    return wait, timeout


def _send(
    where: Places,
    work: Callable[[SwarmApi], Awaitable[Receipt]],
    wait: tuple[bool, float | None],
    *,
    is_named: bool = False,
) -> Output:
    """Send a message, and write its receipt or wait for its answers.

    Raises:
        NotAnswered: Where it waited and a recipient has not answered.
    """

    async def send(swarm: SwarmApi) -> Receipt:
        receipt = await work(swarm)
        for note in receipt.notes:
            output.warn(note)
        return receipt

    if not wait[0]:
        return _show_receipt(*command(where, partial(_send_now, send)))
    from zoea.cli.answer_wait import wait_for_answers, wait_for_receipt  # most sends do not wait

    async def send_and_wait(swarm: SwarmApi) -> tuple[int, tuple[ReceivedAnswer, ...]]:
        receipt = await wait_for_receipt(send(swarm))
        return receipt.message_id, await wait_for_answers(swarm, receipt, where.database, wait[1])

    message_id, answers = command(where, send_and_wait)
    missing = [one for one in answers if one.is_missing]
    texts = [f"{one.mysis}:\n{_indented(one.text)}" if is_named else one.text for one in answers if one.text]
    result = Output({"message_id": message_id, "answers": answers}, texts)
    if not output.is_json:
        for one in answers:
            if one.reason and one not in missing[:1]:
                output.warn(one.reason)
    if missing:
        output.write(result)
        raise missing[0].error()
    return result


async def _send_now(work: Callable[[SwarmApi], Awaitable[Receipt]], swarm: SwarmApi) -> tuple[Receipt, SwarmView]:
    """Send a message. Return its receipt, and the recipients once they have begun or are blocked."""
    receipt = await work(swarm)
    return receipt, await read_recipients(swarm, receipt)


def _read_limits(pairs: tuple[str, ...], total: int | None, *, is_own: bool, mode: DeliveryMode) -> str:
    """Return the limits of a message as JSON; empty where none is set."""
    if is_own and mode is DeliveryMode.STEER:
        raise UsageError("a message with --own-turn joins no other turn", hint="Leave out --mode steer or --own-turn.")
    all_pairs = [*pairs, *([f"token_budget_total={total}"] if total is not None else [])]
    all_pairs += ["own_turn=true"] if is_own else []
    if not all_pairs:
        return ""
    from zoea.context.window.prompt_context import parse_pairs, parse_prompt_context  # most sends need no planning

    limits = parse_prompt_context(parse_pairs(all_pairs))
    for sentence in limits.ignored:
        output.warn(sentence)
    return limits.to_json()


def _show_receipt(found: Receipt, swarm: SwarmView | None = None) -> Output:
    """Show a receipt. That of a new message has the status of its recipients, as the swarm shows them."""
    lines = describe_receipt(found, swarm)
    if swarm is not None:
        back = ", zoea send --withdraw NUMBER takes one back" if any(map(can_withdraw, found.lines)) else ""
        lines.append(f"zoea send --receipt {found.message_id} shows its status later{back}")
    return Output(found, lines)


def keep(
    where: Places,
    ids: tuple[int, ...] = arguments("ID", "Ids of messages, as `zoea search` shows them.", (), row_id),
    name: str = option("--of NAME", "List the messages of this mysis that are kept."),
    remove: bool = flag("--remove", "Stop keeping them."),
) -> Output:
    """Keep messages word for word in each request, for templates with `strategy = "window"`; --of lists them.

    Other strategies do not show them.
    """
    if bool(ids) == bool(name):
        raise UsageError("name the messages, or list them with --of NAME", hint="For example: zoea keep 41 42")
    if name:
        messages = read_preserved(where.database, name)
        lines = [
            f"{one.id}  {moment(one.created_at)}  turn {one.turn_number}  {one.role}: "
            f"{head(prose_line(one.content), 100)}"
            for one in messages
        ]
        return Output(messages, lines or "No message is kept; `zoea keep ID` keeps one")

    async def work(swarm: SwarmApi) -> None:
        for memory in ids:
            await swarm.preserve(memory, not remove)

    command(where, work)
    word = "is kept no longer" if remove else "is kept"
    return Output({"released" if remove else "preserved": ids}, [f"{memory} {word}" for memory in ids])
