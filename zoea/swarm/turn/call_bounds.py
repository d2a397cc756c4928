"""Bounds the calls of one answer and converts them to their stored form. Pure.

The next request must hold the newest answer with its calls, so an answer that is larger than a request would end
its turn as failed, after its calls were run.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from zoea.context import MESSAGE_FRAME, Plan, Priority
from zoea.model.enums import Role
from zoea.model.request import Answer, AnswerCall, ToolSpec
from zoea.model.values import Memory
from zoea.settings.template import ToolPolicySettings
from zoea.swarm.turn import fingerprint
from zoea.swarm.turn.turn_types import PreparedCall
from zoea.text import estimate, shorten
from zoea.text.command_lines import covers_call, find_grant_scope
from zoea.tools.toolbox import read_call

MOST_RUN = 64
"""The most calls of an answer that are run; a model that writes more has lost its way."""
MOST_KEPT = 512
"""The most calls of an answer that are stored: each costs two rows."""
MAX_NAME = 128
"""Characters of a tool's name that are kept; no tool has a longer one."""
_WRITES = frozenset({"write_file", "edit_file"})
"""The tools that a template's `paths` cover: they change the one file of their argument."""
_SHARE = 0.75
"""The part of the room in a request that an answer may take; the rest is for the results of its calls."""


class BoundedCalls(Struct, frozen=True):
    """The stored calls of an answer, and the result of each that is not run."""

    answer: Answer
    calls: tuple[AnswerCall, ...]
    skipped: tuple[str, ...]


def room_for_answer(plan: Plan, memories: Iterable[Memory], calibration: float) -> int:
    """Return the tokens, before calibration, for an answer with calls in the next request.

    Args:
        plan: Of the request that was answered.
        memories: Of the turn; its prompts are in every request of it.
    """
    required = (one for one in plan.decisions if one.priority is Priority.REQUIRED and one.id != "turn")
    room = (plan.budget.max_tokens - sum(one.tokens for one in required)) / calibration
    prompts = sum(
        estimate.tokens(memory.content) + estimate.tokens(memory.label) + MESSAGE_FRAME
        for memory in memories
        if memory.role is Role.USER
    )
    return max(0, int((room - prompts) * _SHARE))


def bound_calls(answer: Answer, room: int, whole: int) -> BoundedCalls:
    """Skip calls above limits of number and size; drop those above limits of storage.

    Args:
        room: Tokens that the calls after these and their results may take in the next request.
        whole: Tokens that the answer with the calls to run may take there.

    One skipped call is always kept, because its result tells how many were left out.
    """
    why = f"cancelled: only the first {MOST_RUN} calls of an answer are run; call it again if needed"
    answer = _bound_text(answer, whole)
    left = whole - estimate.tokens(answer.text) - estimate.tokens(answer.reasoning)
    kept: list[AnswerCall] = []
    skipped: list[str] = []
    for place, given in enumerate(answer.calls[:MOST_KEPT]):
        call, reason = _bound_name(given), why if place >= MOST_RUN else ""
        size = _size(call)
        if not reason and size > max(left, 0):
            call, reason = _without_arguments(call, max(left, 0))
            size = _size(call) + estimate.tokens(reason)
        if place < MOST_RUN:
            left -= size
        else:
            room -= size + estimate.tokens(reason)
        if reason and min(left, room) < 0 and any(skipped):
            break
        kept.append(call)
        skipped.append(reason)
    if left_out := len(answer.calls) - len(kept):
        skipped[-1] += f". {left_out:,} more calls of that answer were left out"
    if answer.calls != tuple(kept):
        # The provider's own blocks may name calls that are not stored.
        answer = replace(answer, calls=tuple(kept), native=None)
    return BoundedCalls(answer, tuple(kept), tuple(skipped))


def _bound_text(answer: Answer, whole: int) -> Answer:
    """Shorten the text beside calls, and drop reasoning, if the next request lacks room."""
    if not answer.calls or estimate.tokens(answer.text) + estimate.tokens(answer.reasoning) <= whole:
        return answer
    text = shorten.middle(answer.text, whole // 2 * estimate.CHARS_PER_TOKEN)
    return replace(answer, text=text, reasoning="", native=None)


def _bound_name(call: AnswerCall) -> AnswerCall:
    return call if len(call.name) <= MAX_NAME else replace(call, name=call.name[:MAX_NAME])


def _without_arguments(call: AnswerCall, room: int) -> tuple[AnswerCall, str]:
    """Return a call that is too long to run, and the result that says so."""
    chars = room * estimate.CHARS_PER_TOKEN
    why = (
        f"cancelled: this was not run and its arguments were not kept, because they have {len(call.arguments):,}"
        f" characters and the next request has room for {chars:,}; call it again with less, in several parts"
    )
    return replace(call, arguments="{}", broken=""), why


def _size(call: AnswerCall) -> int:
    return estimate.tokens(call.name) * 2 + estimate.tokens(call.arguments) + MESSAGE_FRAME


def is_covered(spec: ToolSpec, arguments: str, tools: ToolPolicySettings) -> bool:
    """Return whether a template lets a command or a write to a file run unasked."""
    if not spec.takes_command and spec.origin not in _WRITES:
        return False
    return covers_call(arguments, tools.commands, tools.paths, takes_command=spec.takes_command)


def prepare_call(
    call: AnswerCall, spec: ToolSpec | None, *, arguments: str, granted: bool, skipped: str
) -> PreparedCall:
    """Return a call as it is stored.

    Args:
        spec: The called tool; None for an unknown one.
        arguments: In the form that may be stored.
        granted: Whether a person allowed the tool before.
        skipped: The result, where it is not run.
    """
    return PreparedCall(
        name=call.name,
        arguments=arguments,
        upstream=spec.upstream if spec else "",
        provider_call_id=call.provider_call_id,
        fingerprint=fingerprint.of_call(call.name, arguments),
        broken=call.broken,
        known=spec is not None,
        read_only=spec.read_only if spec else False,
        # One that is refused without being sent, for example for a missing argument, costs no person an answer.
        asks=spec is not None and spec.asks and not granted and not read_call(spec, call)[1],
        schema_hash=spec.schema_hash if spec else "",
        grant_scope=find_grant_scope(arguments) if spec is not None and spec.takes_command else None,
        skipped=skipped,
    )
