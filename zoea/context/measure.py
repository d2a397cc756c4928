"""How large things are: one place for the estimates that selection and budgets rest on.

The base estimate of a text is `ceil(characters / 4)` (planner.md, "Selection").
A message of a request costs its text, names, arguments and what is replayed of
its reasoning, plus 5 for the frame around it; a mysis's own counter multiplies
that by what its model's reported usage has taught (planner.md, "The effective budget").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil, floor

from zoea.model.request import RequestMessage
from zoea.text.estimate import CHARS_PER_TOKEN
from zoea.text.estimate import tokens as text_tokens

MESSAGE_FRAME = 5
"""Tokens that role and separators of one message cost."""

TextCounter = Callable[[str], int]


def replayed_chars(message: RequestMessage) -> int:
    """Characters of reasoning that go back to the provider.

    A provider takes back either its own blocks or plain reasoning, never both, so the larger one bounds it.
    """
    native = len(message.native.blocks) if message.native is not None else 0
    return max(native, len(message.reasoning))


def message_chars(message: RequestMessage) -> int:
    """Every character of a message that a request carries: text, names, arguments, replayed reasoning."""
    chars = len(message.content) + len(message.name) + replayed_chars(message)
    for call in message.calls:
        chars += len(call.name) + len(call.arguments)
    return chars


def message_tokens(message: RequestMessage) -> int:
    """The base estimate of one message: each part rounded up, plus the frame."""
    tokens = (len(message.content) + 3) >> 2
    tokens += ((len(message.name) + 3) >> 2) + ((replayed_chars(message) + 3) >> 2) + MESSAGE_FRAME
    for call in message.calls:
        tokens += ((len(call.name) + 3) >> 2) + ((len(call.arguments) + 3) >> 2)
    return tokens


@dataclass(frozen=True, slots=True)
class Counter:
    """The counter of one mysis: base estimates times `ratio`, rounded up.

    It serves as `plan(..., count=Counter(1.1))`; `ratio` is frozen with the turn.
    """

    ratio: float = 1.0

    def __call__(self, text: str) -> int:
        return self.scale(text_tokens(text))

    def scale(self, base: int) -> int:
        """Base tokens in calibrated ones."""
        return base if self.ratio == 1.0 else ceil(base * self.ratio)

    def message(self, message: RequestMessage) -> int:
        return self.scale(message_tokens(message))

    def messages(self, messages: Iterable[RequestMessage]) -> int:
        return sum(self.scale(message_tokens(message)) for message in messages)

    def chars_within(self, tokens: int) -> int:
        """How long the text of a message without calls may be to cost at most `tokens`; may be negative."""
        return (floor(tokens / self.ratio) - MESSAGE_FRAME) * CHARS_PER_TOKEN


def request_tokens(messages: Iterable[RequestMessage], *, tools_tokens: int = 0, calibration: float = 1.0) -> int:
    """The calibrated estimate of a whole request, tool schemas included: what I1 is measured in."""
    counter = Counter(calibration)
    return counter.messages(messages) + counter.scale(tools_tokens)
