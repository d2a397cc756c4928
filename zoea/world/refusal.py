"""How Reef says no: a code that programs read, a sentence that says what to do."""

from __future__ import annotations

from typing import Any


class ReefRefusal(Exception):
    """An action or question that the world refuses; changes nothing.

    Args:
        code: Stable, in snake case; `documentation/guide/reef.md` lists them.
        message: What is wrong, and what to do about it.
        more: Further fields of the error result.
    """

    def __init__(self, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.more = more

    def as_dict(self) -> dict[str, Any]:
        """`{code, message, …}`: what the tool result holds."""
        return {"code": self.code, "message": self.message, **self.more}
