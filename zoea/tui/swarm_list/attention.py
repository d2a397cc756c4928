"""Decide which myses need the commander, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from zoea.model.enums import MysisState
from zoea.model.status import StatusWord, wants_review
from zoea.model.values import MysisView
from zoea.queries.status_phrases import describe_failure, describe_reason


def attention_reason(view: MysisView) -> str:
    """Return why this mysis needs a person; empty if it does not.

    It does if an approval waits, if it failed with no retry to come, if a budget or a loop stopped it, if its
    circuit breaker is open, if it asked a question, if it reports its task as done or had nothing new to say.
    """
    if view.status is StatusWord.ASKING:
        return "asks"
    if view.status is StatusWord.ERRORED:
        return describe_failure(view.failure) if view.failure else "errored"
    if view.state is MysisState.STOPPED and view.state_reason in ("budget", "loop"):
        return f"stopped: {describe_reason(view)}"
    if view.state is not MysisState.IDLE:
        return ""
    if view.failure is not None:
        return describe_failure(view.failure)
    return describe_reason(view) if wants_review(view) else ""


_NO_NEED = 6


def attention_rank(view: MysisView) -> int:
    """Return 0 for the most urgent need, larger numbers for less urgent ones.

    The order: approval, error, stop by budget or loop, open circuit breaker, question, done, no need.
    """
    if not attention_reason(view):
        return _NO_NEED
    if view.status is StatusWord.ASKING:
        return 4 if view.approvals and view.questions == view.approvals else 0
    match view.state:
        case MysisState.STOPPED:
            return 2
        case MysisState.IDLE:
            return 5 if view.failure is None else 3
    return 1


def list_needing_attention(views: Iterable[MysisView]) -> list[MysisView]:
    """Return the myses that need a person, most urgent first, then oldest first."""
    return sorted((view for view in views if attention_reason(view)), key=lambda view: (attention_rank(view), view.id))
