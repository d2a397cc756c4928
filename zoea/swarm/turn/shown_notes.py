"""Notes of a turn that only people see: they stand in the conversation and go out in no request. Pure."""

from __future__ import annotations

TEXT_CALL = "call in text"
TEXT_CALL_NOTE = "written as text; read as a call"
NOT_PUBLISHED = "not published"
_RETRY = "attempt "


def retry_kind(attempt: int) -> str:
    """Return the kind of the note about the attempt that comes next; each stands once at a place."""
    return f"{_RETRY}{attempt}"


def retry_text(what: str, attempt: int, attempts: int, rest_us: int) -> str:
    """Return the note about a failed request that is tried again."""
    return f"{what}. Attempt {attempt} of {attempts} follows in {rest_us / 1_000_000:.1f} s."


def is_only_shown(kind: str) -> bool:
    """Return whether a note of this kind goes out in no request."""
    return kind in (TEXT_CALL, NOT_PUBLISHED) or kind.startswith(_RETRY)
