"""Cutting a pack of messages: results lose their middle, oldest first, then whole slices fold; calls keep results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zoea.context.choice import Scale
from zoea.context.cut import LEAST, cut_text
from zoea.context.fold import FEW_IDENTIFIER_CHARS, folded, lines
from zoea.model.request import RequestMessage
from zoea.model.words import Role


def shrink(messages: tuple[RequestMessage, ...], max_chars: int, scale: Scale) -> tuple[RequestMessage, ...]:
    """The messages in at most `max_chars` characters where that can be, else as short as they get.

    User and system messages, texts and calls of unfolded slices stay as they are.
    """
    out = list(messages)
    excess = scale.body(messages).chars - max_chars
    for index, message in enumerate(out):
        if excess <= 0:
            return tuple(out)
        if message.role is Role.TOOL and len(message.content) > LEAST:
            short = cut_text(message.content, len(message.content) - excess, message.memory_id)
            excess -= len(message.content) - len(short)
            out[index] = replace(message, content=short)
    return _fold(tuple(out), max_chars, scale)


def _fold(messages: tuple[RequestMessage, ...], max_chars: int, scale: Scale) -> tuple[RequestMessage, ...]:
    """Fold complete slices, oldest first, never the last, until the rest fits."""
    while scale.body(messages).chars > max_chars:
        spans = _slices(messages)
        for start, end in spans[:-1]:
            text = folded([lines(messages[start], messages[start + 1 : end], FEW_IDENTIFIER_CHARS)])
            stand_in = RequestMessage(Role.ASSISTANT, text)
            shorter = (*messages[:start], stand_in, *messages[end:])
            if scale.body(shorter).chars < scale.body(messages).chars:
                messages = shorter
                break
        else:
            return messages
    return messages


def _slices(messages: Sequence[RequestMessage]) -> list[tuple[int, int]]:
    """Where the complete slices start and end (exclusive)."""
    spans = []
    for start, message in enumerate(messages):
        end = start + 1 + len(message.calls)
        if message.calls and [one.call_id for one in messages[start + 1 : end]] == [call.id for call in message.calls]:
            spans.append((start, end))
    return spans
