"""Who needs the commander, and why. Pure. Source: spec tui.md, "Needs you"."""

from __future__ import annotations

from collections.abc import Iterable

from zoea.model.enums import Activity, MysisState
from zoea.model.values import Failure, MysisView


def describe_failure(failure: Failure) -> str:
    """What happened; its title says no more than its class, and stands for it where nothing else is known."""
    return failure.what or failure.title


def attention_reason(view: MysisView) -> str:
    """Why this mysis needs a person; empty where it does not.

    An approval waits; errored with no retry to come; stopped by budget or loop;
    the breaker is open; or it asked.
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


_NOBODY = 5


def attention_rank(view: MysisView) -> int:
    """0 for what needs a person most; larger for later; those that need nobody come last.

    A call or a budget that waits for leave, an error, a stop by budget or loop, an
    open breaker, a question in words.
    """
    if not attention_reason(view):
        return _NOBODY
    if view.approvals or view.activity is Activity.ASKING:
        return 4 if view.approvals and view.questions == view.approvals else 0
    match view.state:
        case MysisState.STOPPED:
            return 2
        case MysisState.IDLE:
            return 3
    return 1


def list_needing_attention(views: Iterable[MysisView]) -> list[MysisView]:
    """Those that need a person, the most urgent first, else as created."""
    return sorted((view for view in views if attention_reason(view)), key=lambda view: (attention_rank(view), view.id))
