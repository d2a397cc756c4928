"""Notes of a turn that people see and no request holds. Pure."""

from __future__ import annotations

TEXT_CALL = "call in text"
TEXT_CALL_NOTE = "written as text; read as a call"
NOT_PUBLISHED = "not published"
AGENT = "agent "
"""The beginning of the kinds of notes about an external agent: its session, mode and plan, and an end not told."""
_RETRY = "attempt "
_LIMIT = "limit "
_TRAIT = "trait "


def retry_kind(attempt: int) -> str:
    """Return the kind of the note about the attempt that comes next. Each stands once at a place."""
    return f"{_RETRY}{attempt}"


def find_attempt(kind: str) -> int:
    """Return the attempt that a kind of `retry_kind` names; 0 for other kinds."""
    return int(kind.removeprefix(_RETRY)) if kind.startswith(_RETRY) else 0


def retry_text(what: str, attempt: int, attempts: int, rest_us: int) -> str:
    """Return the note about a failed request that is tried again."""
    return f"{what.removesuffix('.')}. Attempt {attempt} of {attempts} follows in {rest_us / 1_000_000:.1f} s."


def limit_kind(tokens: int) -> str:
    """Return the kind of a note on a too long request, with the new limit."""
    return f"{_LIMIT}{tokens}"


def limit_text(what: str, tokens: int) -> str:
    return f"{what.removesuffix('.')}. The requests that follow in this turn have at most {tokens:,} tokens."


def limit_in(kind: str) -> int | None:
    """Return the limit that a kind of `limit_kind` names; None for other kinds."""
    return int(kind.removeprefix(_LIMIT)) if kind.startswith(_LIMIT) else None


def trait_kind(trait: str) -> str:
    """Return the kind of a note on a form that a model refuses or demands."""
    return f"{_TRAIT}{trait}"


def is_only_shown(kind: str) -> bool:
    """Return whether a note of this kind goes out in no request."""
    return kind in (TEXT_CALL, NOT_PUBLISHED) or kind.startswith((AGENT, _RETRY, _LIMIT, _TRAIT))
