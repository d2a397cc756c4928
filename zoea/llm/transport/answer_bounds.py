"""Limits the memory that a decoder takes for one answer.

Small pieces take many times their length: two characters are 51 bytes, an empty object is 64.
"""

from __future__ import annotations

from typing import Any

from zoea.llm.transport.provider_errors import provider_error
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError

MAX_KEPT_BYTES = 64 * 1024 * 1024
_PIECE_BYTES = 100
"""Bytes of a short text with its place in a list or a table."""
_INSIDE_BYTES = 250
"""Bytes of an object or a list with a value or two."""
_WIDTH = 4
"""Bytes of a character, where one of the answer's is an emoji or another rare one."""


class AnswerBounds:
    """Counts what is kept of one answer, and of its open event. Raises ProviderError above `MAX_KEPT_BYTES`."""

    __slots__ = ("_event", "_kept", "_provider")

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._kept = 0
        self._event = 0

    def keep(self, text: str) -> None:
        """Count a text that is kept until the answer ends."""
        self._kept += _PIECE_BYTES + _WIDTH * len(text)
        if self._kept > MAX_KEPT_BYTES:
            raise self._refusal()

    def keep_value(self, value: Any) -> None:
        """Count a value of JSON that is kept until the answer ends."""
        waiting = [value]
        while waiting:
            one = waiting.pop()
            if isinstance(one, dict | list):
                self._kept += _INSIDE_BYTES
                waiting += [*one, *one.values()] if isinstance(one, dict) else one
            self.keep(one if isinstance(one, str) else "")

    def add_line(self, line: str) -> None:
        """Count a line of an event whose end has not come."""
        self._event += _PIECE_BYTES + _WIDTH * len(line)
        if self._kept + self._event > MAX_KEPT_BYTES + _PIECE_BYTES:
            raise self._refusal()

    def end_event(self) -> None:
        """Forget the lines of the event that has ended."""
        self._event = 0

    def _refusal(self) -> ProviderError:
        return provider_error(
            ErrorClass.BAD_REQUEST,
            f"{self._provider} sent an answer that takes more than {MAX_KEPT_BYTES // 2**20} MiB of memory",
            title="The provider's answer has no end",
            hint="Check the provider and its model; a lower output limit may help.",
        )
