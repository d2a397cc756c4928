"""Ends a turn at the soft budget of its message by a last request. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from zoea.model.enums import DONE_TOOL, WAIT_TOOL, Role
from zoea.model.values import Failure, ToolCall
from zoea.swarm.turn.turn_types import PreparedCall, TurnState

NOTE_KIND = "budget"


def last_request_text(used: int, limit: int | None, next_tokens: int, enforcement: str) -> str:
    """Return the note that the model reads with its last request. "" where another one may follow.

    Args:
        used: The tokens that the turn has used.
        limit: What the budget of its messages leaves the turn; None without one.
        next_tokens: The estimate of the next request.
        enforcement: Only a soft budget allows a last request; the others refuse it or ask.
    """
    if limit is None or enforcement != "soft" or used + next_tokens <= limit:
        return ""
    return (
        f"[note from Zoea] The token budget of this message ({limit:,} tokens) allows no request after this one. "
        "Answer now with what you know. Tools that you call will not be run."
    )


def is_last_request(turn: TurnState) -> bool:
    """Return whether the model was told that no request follows."""
    return any(note.kind == NOTE_KIND for note in turn.notes)


def is_used_up(turn: TurnState) -> bool:
    """Return whether the model has answered its last request."""
    note_seq = next((note.after_seq for note in turn.notes if note.kind == NOTE_KIND), None)
    return note_seq is not None and any(
        memory.seq > note_seq for memory in turn.memories if memory.role is Role.ASSISTANT and not memory.partial
    )


def may_run(calls: Iterable[PreparedCall | ToolCall]) -> bool:
    """Return whether the calls of the last answer are run: those that only end a turn."""
    return all(call.name in (DONE_TOOL, WAIT_TOOL) for call in calls)


def used_up_failure() -> Failure:
    """Return why the turn ended."""
    return Failure(
        "Budget",
        "The token budget of its message is used up",
        "it was told so in its last request, and did not conclude",
        "send the message again with a larger budget, or tell it to go on",
    )
