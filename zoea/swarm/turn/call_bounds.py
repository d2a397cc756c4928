"""Bounds the calls of one answer and converts them to their stored form. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from zoea.context import MESSAGE_FRAME
from zoea.model.request import Answer, AnswerCall, ToolSpec
from zoea.swarm.turn import fingerprint
from zoea.swarm.turn.turn_types import PreparedCall
from zoea.text import estimate

MOST_KEPT = 512
"""The most calls of an answer that are stored: each costs two rows."""


@dataclass(frozen=True, slots=True)
class BoundedCalls:
    """The calls of an answer that are stored, and for each the result if it is not run."""

    answer: Answer
    calls: tuple[AnswerCall, ...]
    skipped: tuple[str, ...]


def bound_calls(answer: Answer, most: int, room: int) -> BoundedCalls:
    """Skip the calls after the first `most`; leave out those that are too many to store or to show again.

    Args:
        room: Tokens that the skipped calls and their results may take in the next request. One is always kept,
            because its result tells how many were left out.
    """
    why = f"cancelled: only the first {most} calls of an answer are run; call it again if needed"
    kept = list(answer.calls[:most])
    for call in answer.calls[most:MOST_KEPT]:
        room -= estimate.tokens(call.name) * 2 + estimate.tokens(call.arguments) + estimate.tokens(why) + MESSAGE_FRAME
        if room < 0 and len(kept) > most:
            break
        kept.append(call)
    skipped = ["" if place < most else why for place in range(len(kept))]
    if left_out := len(answer.calls) - len(kept):
        skipped[-1] += f". {left_out:,} more calls of that answer were left out"
        # The provider's own blocks may name calls that are not stored.
        answer = replace(answer, calls=tuple(kept), native=None)
    return BoundedCalls(answer, tuple(kept), tuple(skipped))


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
        asks=spec is not None and spec.asks and not granted,
        schema_hash=spec.schema_hash if spec else "",
        skipped=skipped,
    )
