"""The end of a session, and limits on what its server sends unasked."""

from __future__ import annotations

from collections.abc import Callable

from zoea.process.clock import read_uptime_s

MAX_DROPPED = 5_000
"""Messages over the limit, without a second of calm between them, that end the session."""
CALM_S = 1.0
MAX_UNANSWERED = 100
"""Requests of a server whose answers it has not taken; more end the session."""
MAX_ID_CHARS = 1_000
"""A request with a longer id is dropped, because an answer repeats its id and is kept until it is taken."""


class SessionEnd:
    """Records the end of a session and calls a function then. `reason` is empty if it ended by itself."""

    __slots__ = ("_on_end", "is_over", "reason")

    def __init__(self, on_end: Callable[[], None]) -> None:
        self.is_over = False
        self.reason = ""
        self._on_end = on_end

    def end(self, reason: str = "") -> None:
        self.is_over = True
        self.reason = self.reason or reason
        self._on_end()


class MessageRate:
    """Counts messages that answer no request: `limit` a second pass, those above are dropped."""

    __slots__ = ("_allowed", "_at", "_dropped_at", "dropped", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.dropped = 0
        self._allowed = float(limit)
        self._at = self._dropped_at = read_uptime_s()

    def take(self) -> bool:
        """Count a message; return whether it passes."""
        now = read_uptime_s()
        self._allowed = min(float(self.limit), self._allowed + (now - self._at) * self.limit)
        self._at = now
        if self._allowed >= 1:
            self._allowed -= 1
            return True
        if now - self._dropped_at > CALM_S:
            self.dropped = 0
        self._dropped_at = now
        self.dropped += 1
        return False

    @property
    def is_flood(self) -> bool:
        return self.dropped > MAX_DROPPED


class SessionTraffic:
    """What the transport and the streams of one session count together."""

    def __init__(self, end: SessionEnd, max_messages: int) -> None:
        self.end = end
        self.rate = MessageRate(max_messages)
        self._unanswered = 0

    def begin_request(self) -> bool:
        """Count a request of the server. Return False where too many are unanswered: the session has ended then."""
        self._unanswered += 1
        if self._unanswered > MAX_UNANSWERED:
            self.end.end(
                f"it sent requests and took none of the last {MAX_UNANSWERED} answers, so its session was closed"
            )
            return False
        return True

    def end_request(self) -> None:
        """Count an answer that the server has taken."""
        self._unanswered -= 1

    def has_flooded(self) -> bool:
        """Return whether the server sends far too much. The session has ended with the reason then."""
        if self.rate.is_flood:
            self.end.end(
                f"it sent over {self.rate.limit} messages a second (max_messages), {MAX_DROPPED:,} of them in a "
                "row, so its session was closed"
            )
        return self.rate.is_flood
