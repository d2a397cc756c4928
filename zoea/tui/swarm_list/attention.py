"""Decide which myses need the commander, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from zoea.model.enums import Activity, MysisState
from zoea.model.values import Failure, MysisView


def describe_failure(failure: Failure) -> str:
    """Return what happened, or the title if that is unknown."""
    return failure.what or failure.title


def attention_reason(view: MysisView) -> str:
    """Return why this mysis needs a person; empty if it does not.

    It does if an approval waits, if it failed with no retry to come, if a budget or a loop stopped it, if its
    circuit breaker is open, or if it asked a question.
    """
    if view.approvals or view.activity is Activity.ASKING:
        return "asks"
    if view.state is MysisState.ERRORED and view.retry_at is None:
        return describe_failure(view.failure) if view.failure else "errored"
    if view.state is MysisState.STOPPED and view.state_reason in ("budget", "loop"):
        return f"stopped by {view.state_reason}"
    if view.state is MysisState.IDLE and view.failure is not None:
        return describe_failure(view.failure)
    return ""


_NO_NEED = 5


def attention_rank(view: MysisView) -> int:
    """Return 0 for the most urgent need, larger numbers for less urgent ones.

    The order: approval, error, stop by budget or loop, open circuit breaker, question, no need.
    """
    if not attention_reason(view):
        return _NO_NEED
    if view.approvals or view.activity is Activity.ASKING:
        return 4 if view.approvals and view.questions == view.approvals else 0
    match view.state:
        case MysisState.STOPPED:
            return 2
        case MysisState.IDLE:
            return 3
    return 1


def list_needing_attention(views: Iterable[MysisView]) -> list[MysisView]:
    """Return the myses that need a person, most urgent first, then oldest first."""
    return sorted((view for view in views if attention_reason(view)), key=lambda view: (attention_rank(view), view.id))
