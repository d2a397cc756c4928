"""Refusals of Reef: a code for programs and a sentence with the next step."""

from __future__ import annotations

from typing import Any


class ReefRefusal(Exception):
    """Raised when the world refuses a call; nothing was changed.

    Args:
        code: Stable name in snake case; `documentation/guide/reef.md` lists all.
        message: The problem and what to do about it.
        more: Further fields of the error result.
    """

    def __init__(self, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.more = more

    def as_dict(self) -> dict[str, Any]:
        """Return the error result: `{code, message, …}`."""
        return {"code": self.code, "message": self.message, **self.more}
