"""Estimate the size of texts, messages and requests.

The base estimate of a text is `ceil(characters / 4)`. A message costs its text, names, arguments
and replayed reasoning, plus 5 tokens for its frame. A `Counter` multiplies that by the calibration
learned from the usage its model reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil, floor

from msgspec import Struct

from zoea.model.request import RequestMessage
from zoea.text.estimate import CHARS_PER_TOKEN
from zoea.text.estimate import tokens as text_tokens

MESSAGE_FRAME = 5
"""Tokens for the role and separators of one message."""

TextCounter = Callable[[str], int]


def replayed_chars(message: RequestMessage) -> int:
    """Return the characters of reasoning that go back to the provider.

    A provider takes back its own blocks or plain reasoning, never both, so the larger one counts.
    """
    native = len(message.native.blocks) if message.native is not None else 0
    return max(native, len(message.reasoning))


def message_chars(message: RequestMessage) -> int:
    """Return all characters a message carries: text, names, arguments, replayed reasoning."""
    chars = len(message.content) + len(message.name) + replayed_chars(message)
    for call in message.calls:
        chars += len(call.name) + len(call.arguments)
    return chars


def message_tokens(message: RequestMessage) -> int:
    """Return the base estimate of a message: each part rounded up, plus the frame."""
    tokens = (len(message.content) + 3) >> 2
    tokens += ((len(message.name) + 3) >> 2) + ((replayed_chars(message) + 3) >> 2) + MESSAGE_FRAME
    for call in message.calls:
        tokens += ((len(call.name) + 3) >> 2) + ((len(call.arguments) + 3) >> 2)
    return tokens


class Counter(Struct, frozen=True):
    """Counts tokens for one mysis: base estimates times `ratio`, rounded up.

    Usable as `plan(..., count=Counter(1.1))`; `ratio` is fixed for a turn.
    """

    ratio: float = 1.0

    def __call__(self, text: str) -> int:
        return self.scale(text_tokens(text))

    def scale(self, base: int) -> int:
        """Convert base tokens to calibrated tokens."""
        return base if self.ratio == 1.0 else ceil(base * self.ratio)

    def message(self, message: RequestMessage) -> int:
        return self.scale(message_tokens(message))

    def messages(self, messages: Iterable[RequestMessage]) -> int:
        return sum(self.scale(message_tokens(message)) for message in messages)

    def chars_within(self, tokens: int) -> int:
        """Return the longest text that costs at most `tokens` as a message; may be negative."""
        return (floor(tokens / self.ratio) - MESSAGE_FRAME) * CHARS_PER_TOKEN


def request_tokens(messages: Iterable[RequestMessage], *, tools_tokens: int = 0, calibration: float = 1.0) -> int:
    """Return the calibrated estimate of a whole request, including tool schemas."""
    counter = Counter(calibration)
    return counter.messages(messages) + counter.scale(tools_tokens)
