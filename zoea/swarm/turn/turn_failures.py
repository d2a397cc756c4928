"""Failures and turn ends made from exceptions."""

from __future__ import annotations

from zoea.model.enums import ErrorClass, Outcome
from zoea.model.errors import ProviderError, UpstreamLost, ZoeaError
from zoea.model.values import Failure
from zoea.swarm.turn import turn_types as t


def failure_from(error: Exception) -> Failure:
    """Convert an error for a person to read; an unknown one refers to the log."""
    if isinstance(error, ZoeaError):
        return Failure(type(error).__name__, error.title, error.what, error.hint)
    return Failure(
        type(error).__name__,
        "Zoea failed",
        "an error that Zoea has no rule for; its log says which",
        "relaunch the mysis; if it happens again, report it with the log",
    )


def cause_of(error: ProviderError) -> str:
    """Return the cause of a failed attempt in a few words: `429`, `timeout`."""
    if error.status is not None:
        return str(error.status)
    return "timeout" if isinstance(error.__cause__, TimeoutError) else error.title


def end_from(error: Exception) -> t.TurnEnd:
    """Return the end of a turn that this error broke off."""
    match error:
        case ProviderError():
            return broke_off(failure_from(error), error.kind)
        case UpstreamLost():
            return broke_off(failure_from(error), ErrorClass.TRANSIENT)
        case _:
            return broke_off(failure_from(error), ErrorClass.BAD_REQUEST)


def end_of_nothing(why: Failure) -> t.TurnEnd:
    """Return the end of a turn that had nothing to do."""
    return broke_off(why, ErrorClass.CANCELLED, Outcome.CANCELLED, responded=True)


def broke_off(
    failure: Failure, error_class: ErrorClass, outcome: Outcome = Outcome.FAILED, *, responded: bool = False
) -> t.TurnEnd:
    """Return the end of a turn that could not be opened or continued."""
    return t.TurnEnd(
        outcome=outcome,
        responded=responded,
        nudged=False,
        failure=failure,
        error_class=error_class,
        final=False,
        stops=False,
        wait_until=None,
        wait_reason="",
        tick_length=0,
    )
