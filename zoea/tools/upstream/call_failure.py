"""What became of a call that gave no result. Apart from the SDK, so that reading it costs nothing."""

from __future__ import annotations

from enum import StrEnum


class CallOutcome(StrEnum):
    NOT_SENT = "not sent"
    SESSION_GONE = "session gone"
    BROKEN = "broken"
    ANSWERED = "answered"


class CallFailure(Exception):
    """A call without a result.

    `NOT_SENT` and `SESSION_GONE` mean that the server did nothing; `BROKEN` that
    nobody can tell; `ANSWERED` that it refused, for the reason in `text`.
    """

    def __init__(self, fate: CallOutcome, text: str) -> None:
        super().__init__(text)
        self.fate = fate
        self.text = text

    @property
    def did_nothing(self) -> bool:
        """True where the server certainly did not carry the call out."""
        return self.fate in (CallOutcome.NOT_SENT, CallOutcome.SESSION_GONE)
