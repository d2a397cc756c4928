"""The pack `inherited`: the conversation of the commit that a mysis was made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from zoea.context.forms import data_block, note_message
from zoea.context.frozen_turn import FrozenTurn, request_limit
from zoea.context.measure import message_tokens
from zoea.context.needs import InheritedContext, InheritedMessages, Need, NeedAnswer
from zoea.context.plan_values import Pack, Priority
from zoea.model.enums import Role
from zoea.model.request import RequestMessage

SHARE = 0.4
"""The share of a request that it may take where no number is set."""
SUMMARY_SHARE = 4
"""The summary of what has no room takes at most one part in so many of the room."""


class Inheritance(Struct, frozen=True):
    """What a mysis began with.

    Attributes:
        commit: The commit's row; 0 for none.
        upto: The newest memory of the mysis itself that the commit holds, where it was resumed; else 0.
        turn: The number of the turn of that memory.
    """

    commit: int = 0
    upto: int = 0
    turn: int = 0


def freeze_inherited(frozen: FrozenTurn, origin: Inheritance, max_tokens: int, keep: int) -> FrozenTurn:
    """Return the turn with what it inherits.

    Args:
        max_tokens: The most that it may take; 0 for `SHARE` of the request.
        keep: In how many of the first turns the newest messages stand where not all have room; 0 for all.
    """
    if not origin.commit:
        return frozen
    is_whole = not keep or frozen.turn_number - origin.turn <= keep
    room = max_tokens or int(request_limit(frozen).tokens * SHARE)
    return replace(
        frozen,
        inherited=origin.commit,
        inherited_tokens=room,
        is_inherited_whole=is_whole,
        keeps_fitting_inherited=True,
        inherits_from_root=True,
        inherited_upto=origin.upto,
        inherited_turn=origin.turn,
        # All older messages are shown.
        recall_items=0 if is_whole and origin.turn == frozen.turn_number - 1 else frozen.recall_items,
    )


def inherited_needs(frozen: FrozenTurn) -> tuple[Need, ...]:
    """Return the read that the pack needs, if the mysis was made from a commit."""
    return (_inherited_need(frozen),) if frozen.inherited else ()


def _inherited_need(frozen: FrozenTurn) -> InheritedContext:
    return InheritedContext(frozen.inherited, frozen.inherited_tokens, frozen.inherits_from_root)


def inherited_pack(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> Pack | None:
    """Return the conversation while it has room, else its newest messages, later its summary."""
    if not frozen.inherited:
        return None
    context = _read_answer(frozen, answers)
    summary = (summary_message(context.summary, context.whole),) if context.summary else ()
    is_named = frozen.keeps_fitting_inherited
    if frozen.is_inherited_whole:
        left_out = (summary_message(context.left_out_summary, context.left_out),) if context.left_out else ()
        name = "inherited_newest" if is_named and left_out else "inherited"
        return Pack(name, "inherited", Priority.REQUIRED, (*left_out, *context.messages), preserve=True)
    if is_named and not context.left_out:
        return Pack("inherited", "inherited", Priority.HIGH, context.messages, summary)
    return Pack("inherited_summary" if is_named else "inherited", "inherited", Priority.HIGH, summary)


def newest_inherited(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> int:
    """Return the newest memory of the mysis that the pack shows in a later turn. 0 for none."""
    if not frozen.keeps_fitting_inherited or frozen.is_inherited_whole or _read_answer(frozen, answers).left_out:
        return 0
    return frozen.inherited_upto


def _read_answer(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> InheritedMessages:
    answer = answers[_inherited_need(frozen)]
    assert isinstance(answer, InheritedMessages)
    return answer


def summary_message(text: str, count: int) -> RequestMessage:
    """Return the message that stands for inherited messages that are not shown."""
    return note_message(data_block(f"summary of {count:,} earlier messages of what you inherited", text))


def split_room(messages: Sequence[RequestMessage], max_tokens: int) -> int:
    """Return where the newest messages begin that fit; 0 where all fit.

    The place is never between a call and its results.
    """
    sizes = [message_tokens(one) for one in messages]
    if sum(sizes) <= max_tokens:
        return 0
    room = max_tokens - max_tokens // SUMMARY_SHARE
    begin, taken = len(messages), 0
    for place in range(len(messages) - 1, -1, -1):
        taken += sizes[place]
        if taken > room:
            break
        if messages[place].role is not Role.TOOL:
            begin = place
    return begin
