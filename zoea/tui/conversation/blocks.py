"""Blocks of a turn: prompt, reasoning, calls, answer, notes. Pure.

A block holds text and says how it is drawn; `block_painter` makes lines of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct

from zoea.model.enums import MASK, CallState, OpenedBy, Outcome, Role, SenderKind
from zoea.model.values import Delivery, Failure, Sender, ToolCall
from zoea.queries.conversation import ConversationEntry, ConversationPage, ConversationTurn
from zoea.queries.phrases import read_report
from zoea.queries.topic_ledger import describe_origin
from zoea.swarm.turn.shown_notes import find_attempt
from zoea.text.call_text import format_arguments, parse_arguments, reveal_call
from zoea.text.control_characters import one_line, prose_line, reveal
from zoea.text.sentences import count_of
from zoea.tui import number_format
from zoea.tui.text_layout import Piece


class BlockKind(StrEnum):
    TURN = "turn"
    PROMPT = "prompt"
    REASONING = "reasoning"
    CALL = "call"
    ANSWER = "answer"
    NOTE = "note"
    OUTCOME = "outcome"
    PENDING = "pending"


class BodyFormat(StrEnum):
    """Name the format of a body."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


class ConversationBlock(Struct, frozen=True):
    """One part of a conversation.

    Args:
        key: Identifies the part across reads.
        turn: Number of its turn; 0 for a message that waits in the inbox.
        memory_id: Memory with the text of the body; None if there is none.
        request_id: Request that made it or used it, for the inspector.
        head: First line, left; empty if the body begins at once.
        right: First line, right.
        body: Text below the head.
        arguments: Arguments of a call as JSON, shown above its body.
        role: Theme role of the body.
        folds: Whether the body can be hidden.
        is_open: Whether the body is shown by default.
        brief: Text shown below the head while folded, such as the start of an error.
        missing: Characters of the body that were not read yet.
        full: Text for copying; the body if empty.
        has_gap: Whether a blank line stands above it.
        is_kept: Whether the strategy `window` keeps its memory word for word.
    """

    key: str
    kind: BlockKind
    turn: int
    memory_id: int | None = None
    request_id: int | None = None
    head: tuple[Piece, ...] = ()
    right: tuple[Piece, ...] = ()
    body: str = ""
    arguments: str = ""
    role: str = ""
    shape: BodyFormat = BodyFormat.TEXT
    folds: bool = False
    is_open: bool = True
    brief: str = ""
    missing: int = 0
    full: str = ""
    has_gap: bool = True
    is_kept: bool = False

    @property
    def copy(self) -> str:
        """Return the text for the clipboard."""
        if self.full or self.body:
            return self.full or self.body
        return "".join(text for text, _ in self.head)


class Symbols:
    """The signs beside the theme's glyphs. Terminals without UTF-8 get those of `themes.AsciiFilter`."""

    ok = "✓"
    bad = "✖"
    run = "⋯"
    ask = "⚑"
    tool = "⚙"
    folded = "▸"
    open = "▾"
    rule = "─"
    branch = "├─ "
    last = "└─ "
    down = "│  "
    more = "…"
    here = "▌"


_OUTCOMES = {
    Outcome.ITERATION_LIMIT: ("the turn reached its limit of requests", "waiting"),
    Outcome.LOOP: ("stopped: it repeated the same calls", "errored"),
    Outcome.BUDGET: ("stopped: its budget is used up", "errored"),
    Outcome.CANCELLED: ("stopped before it answered", "waiting"),
    Outcome.INTERRUPTED: ("interrupted by a newer message", "waiting"),
    Outcome.FAILED: ("failed", "errored"),
    Outcome.TIMEOUT: ("ended without progress in time", "errored"),
    Outcome.CRASHED: ("Zoea was closed during the turn", "waiting"),
}


def build_page_blocks(page: ConversationPage, now: int) -> tuple[ConversationBlock, ...]:
    """Build the blocks of every turn of a page, then of the waiting messages."""
    blocks = [block for turn in page.turns for block in build_turn_blocks(turn, now)]
    return (*blocks, *(_pending(delivery, now) for delivery in page.pending))


def build_turn_blocks(
    turn: ConversationTurn, now: int, ticks: Mapping[int, float] = MappingProxyType({})
) -> tuple[ConversationBlock, ...]:
    """Build the blocks of one turn, in order; `now` dates them and times running calls.

    Args:
        ticks: The tick that a result tells, by the id of its memory.
    """
    return tuple(_of_turn(turn, now, ticks))


def _of_turn(turn: ConversationTurn, now: int, ticks: Mapping[int, float]) -> Iterator[ConversationBlock]:
    results = {
        entry.memory.call_id: entry for entry in turn.entries if entry.memory.role is Role.TOOL and entry.memory.call_id
    }
    opening, rest = _opening(turn)
    yield _rule(turn, opening, now)
    notes = list(turn.notes)
    for entry in opening:
        yield _prompt(entry, turn, now, is_first=True, is_only=len(opening) == 1)
    for entry in rest:
        while notes and notes[0].after_seq < entry.memory.seq:
            note = notes.pop(0)
            yield _note(turn, note.after_seq, note.kind, note.content)
        if entry.memory.role is Role.USER:
            yield _prompt(entry, turn, now, is_first=False, is_only=False)
        elif entry.memory.role is Role.ASSISTANT:
            yield from _answer(entry, turn, results, now, ticks)
    outcome = _outcome(turn)
    for note in notes:
        if outcome is None or not outcome.body or not find_attempt(note.kind):  # the failure tells why once
            yield _note(turn, note.after_seq, note.kind, note.content)
    if outcome is not None:
        yield outcome


def _opening(turn: ConversationTurn) -> tuple[list[ConversationEntry], list[ConversationEntry]]:
    """Split the entries into the prompts that opened the turn and the rest."""
    entries = list(turn.entries)
    count = next((place for place, entry in enumerate(entries) if entry.memory.role is not Role.USER), len(entries))
    return entries[:count], entries[count:]


def describe_sender(sender: Sender | None) -> tuple[str, str]:
    """Return a sender's name and theme role."""
    if sender is None or sender.kind is SenderKind.COMMANDER:
        return "you", "commander"
    name = one_line(sender.name)
    return (name, "mysis") if sender.kind is SenderKind.MYSIS else (f"client {name}", "commander")


def _rule(turn: ConversationTurn, opening: list[ConversationEntry], now: int) -> ConversationBlock:
    head: list[Piece] = [(f"turn {turn.number}", "title"), (f"  {number_format.clock(turn.opened_at, now)}  ", "quiet")]
    if turn.opened_by is OpenedBy.NUDGE:
        head.append((f"nudge {turn.nudge_level}" if turn.nudge_level else "nudge", "waiting"))
    elif len(opening) == 1:
        head += _said_by(opening[0])
    elif opening:
        head.append((f"{len(opening)} prompts", ""))
    calls = sum(len(entry.memory.calls) for entry in turn.entries)
    numbers = [f"{calls} tool call{'s' * (calls != 1)}" if calls else ""]
    if turn.requests > 1:
        numbers.append(count_of(turn.requests, "request"))
    if turn.tokens:
        numbers.append(f"{'~' * turn.is_estimate}{number_format.tokens(turn.tokens)} tokens")
    if turn.ended_at is not None:
        numbers.append(number_format.duration(turn.ended_at - turn.opened_at))
    if turn.attempt > 1:
        numbers.append(f"attempt {turn.attempt}")
    right = " · ".join(number for number in numbers if number)
    first = reveal(opening[0].memory.content) if opening else ""
    return ConversationBlock(
        f"turn {turn.id}",
        BlockKind.TURN,
        turn.number,
        request_id=next((entry.request_id for entry in reversed(turn.entries) if entry.request_id), None),
        head=tuple(head),
        right=((right, "quiet"),) if right else (),
        brief=prose_line(first[:2000]),
        folds=True,
        full=first or f"turn {turn.number}",
    )


def _said_by(entry: ConversationEntry) -> list[Piece]:
    name, role = describe_sender(entry.sender)
    return [(f"{describe_origin(entry.kind, entry.topic)} ", "quiet"), (name, role)]


def _prompt(
    entry: ConversationEntry, turn: ConversationTurn, now: int, *, is_first: bool, is_only: bool
) -> ConversationBlock:
    """Build a prompt. The only prompt of a turn has no head, because the rule names its sender."""
    memory = entry.memory
    head: list[Piece] = []
    if not is_only:
        head = [(f"{number_format.clock(memory.created_at, now, seconds=not is_first)}  ", "quiet"), *_said_by(entry)]
        if not is_first:
            head.append(("  during the turn", "quiet"))
    if entry.is_preserved:
        head.append(("  kept" if head else "kept", "strong"))
    return ConversationBlock(
        f"memory {memory.id}",
        BlockKind.PROMPT,
        turn.number,
        memory.id,
        head=tuple(head),
        body=reveal(memory.content),
        role="strong",
        missing=entry.chars - len(memory.content),
        has_gap=not is_only,
        is_kept=entry.is_preserved,
    )


def _answer(
    entry: ConversationEntry,
    turn: ConversationTurn,
    results: dict[int, ConversationEntry],
    now: int,
    ticks: Mapping[int, float],
) -> Iterator[ConversationBlock]:
    """Build the reasoning of an answer, its text, then its calls with their results."""
    memory = entry.memory
    if memory.reasoning.strip():
        took = [number_format.duration(entry.took_us)] if entry.took_us else []
        size = " · ".join([*took, number_format.size(len(memory.reasoning))])
        yield ConversationBlock(
            f"thought {memory.id}",
            BlockKind.REASONING,
            turn.number,
            memory.id,
            entry.request_id,
            head=(("reasoning", "reasoning"), (f"  {size}", "quiet")),
            body=reveal(memory.reasoning).strip(),
            role="reasoning",
            folds=True,
            is_open=False,
        )
    if memory.content.strip() or not (memory.calls or memory.reasoning.strip()):
        cut_off: tuple[Piece, ...] = (("cut off before it was an answer", "waiting"),) if memory.partial else ()
        yield ConversationBlock(
            f"memory {memory.id}",
            BlockKind.ANSWER,
            turn.number,
            memory.id,
            entry.request_id,
            head=(*cut_off, ("kept", "strong")) if entry.is_preserved else cut_off,
            body=reveal(memory.content).strip() or "empty answer",
            role="" if memory.content.strip() else "quiet",
            shape=BodyFormat.MARKDOWN if memory.content.strip() else BodyFormat.TEXT,
            missing=entry.chars - len(memory.content),
            is_kept=entry.is_preserved,
        )
    elif memory.partial:
        yield ConversationBlock(
            (f"partial {memory.id}"),
            BlockKind.NOTE,
            turn.number,
            head=(("cut off before it was an answer", "waiting"),),
        )
    for place, call in enumerate(memory.calls):
        result = results.get(call.id)
        tick = ticks.get(result.memory.id) if result else None
        yield _call(call, result, turn, entry.request_id, now, has_gap=not place, tick=tick)


def _call(
    call: ToolCall,
    result: ConversationEntry | None,
    turn: ConversationTurn,
    request_id: int | None,
    now: int,
    *,
    has_gap: bool,
    tick: float | None,
) -> ConversationBlock:
    content = reveal(result.memory.content) if result else ""
    kept = (("  kept", "strong"),) if result is not None and result.is_preserved else ()
    if report := read_report(call):
        return ConversationBlock(
            f"call {call.id}",
            BlockKind.ANSWER,
            turn.number,
            result.memory.id if result else None,
            request_id,
            head=((f"{Symbols.ok} reports its task as done", "ok"), *kept),
            body=reveal(report).strip(),
            shape=BodyFormat.MARKDOWN,
            is_kept=bool(kept),
        )
    is_bad = result is not None and call.state is not CallState.DONE
    shown = prose_line(content[:2000])
    return ConversationBlock(
        f"call {call.id}",
        BlockKind.CALL,
        turn.number,
        result.memory.id if result else None,
        request_id,
        head=(
            (f"{Symbols.tool} ", "tool"),
            (one_line(call.name), "called"),
            (f"({format_arguments(call.arguments, hidden=MASK)})", "quiet"),
            *kept,
        ),
        is_kept=bool(kept),
        right=(*([(f"tick {tick:.15g}  ", "quiet")] if tick is not None else []), *_state(call, result, now)),
        body=content,
        arguments=call.arguments,
        role="errored" if is_bad else "",
        shape=BodyFormat.JSON if (content.lstrip()[:1] in ("{", "[")) else BodyFormat.TEXT,
        folds=bool(content or parse_arguments(call.arguments) != {}),
        is_open=False,
        brief=shown if is_bad else "",
        missing=result.chars - len(result.memory.content) if result else 0,
        full=f"{reveal_call(call.name, call.arguments)}\n{content}",
        has_gap=has_gap,
    )


def _state(call: ToolCall, result: ConversationEntry | None, now: int) -> tuple[Piece, ...]:
    took = ""
    if call.started_at is not None:
        took = number_format.duration(max(0, (call.ended_at or now) - call.started_at))
    size = number_format.size(result.chars) if result is not None else ""
    match call.state:
        case CallState.DONE:
            return ((f"{Symbols.ok} ", "ok"), (f"{took:>6}{size:>9}", "quiet"))
        case CallState.PENDING:
            return (("queued", "quiet"),)
        case CallState.APPROVAL:
            return ((f"{Symbols.ask} asks you", "asking"),)
        case CallState.SENT:
            return ((f"{Symbols.run} running {took}", "running"),)
        case CallState.UNKNOWN:
            return ((f"{Symbols.bad} result unknown", "waiting"),)
        case _:
            return ((f"{Symbols.bad} {call.state}", "errored"), (f"  {took}" if took else "", "quiet"))


def _note(turn: ConversationTurn, after: int, kind: str, content: str) -> ConversationBlock:
    return ConversationBlock(
        f"note {turn.id}.{after}.{kind}",
        BlockKind.NOTE,
        turn.number,
        head=(("Zoea noted", "waiting"), (f"  {kind}", "quiet")),
        body=reveal(content).strip(),
        role="quiet",
    )


def _outcome(turn: ConversationTurn) -> ConversationBlock | None:
    """Build the outcome of a turn that ended without an answer or was interrupted."""
    ended = turn.outcome or (Outcome(turn.broke_off) if turn.broke_off else None)
    if ended is None or ended is Outcome.ANSWERED:
        return None
    words, role = _OUTCOMES[ended]
    head: list[Piece] = [(words, role)]
    if turn.outcome is None:
        head.append((": a relaunch continues this turn", "quiet"))
    return ConversationBlock(
        f"outcome {turn.id}",
        BlockKind.OUTCOME,
        turn.number,
        head=tuple(head),
        body=_failure_text(turn.failure) if turn.failure else "",
    )


def _failure_text(failure: Failure) -> str:
    parts = [failure.title, failure.what, failure.hint]
    return "\n".join(reveal(part) for part in parts if part)


def _pending(delivery: Delivery, now: int) -> ConversationBlock:
    """Build a message that no turn has taken yet."""
    name, role = describe_sender(delivery.sender)
    what = f"{describe_origin(delivery.kind, delivery.topic)} "
    return ConversationBlock(
        f"delivery {delivery.id}",
        BlockKind.PENDING,
        0,
        head=(
            (f"{delivery.mode}d" if delivery.mode == "queue" else str(delivery.mode), "waiting"),
            (f"  {number_format.clock(delivery.created_at, now)}  {what}", "quiet"),
            (name, role),
        ),
        body=reveal(delivery.content),
        role="quiet",
    )
