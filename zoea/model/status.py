"""The status of a mysis: one word made of its state, reason, activity and hold. Pure.

The four states decide what a mysis accepts and are stored; a status is only shown. Every front takes it from here, so
that the screen, the command line and JSON agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from zoea.model.enums import Activity, MysisState

if TYPE_CHECKING:
    from zoea.model.values import MysisView


class StatusWord(StrEnum):
    """The word shown for a mysis, in the order in which headlines count."""

    WORKING = "working"
    QUEUED = "queued"
    RETRYING = "retrying"
    WAITING = "waiting"
    ASKING = "asking"
    IDLE = "idle"
    DONE = "done"
    HELD = "held"
    PAUSED = "paused"
    STOPPED = "stopped"
    ERRORED = "errored"


MEANINGS = {
    StatusWord.WORKING: "a model answers or a tool runs for it now: this is what costs",
    StatusWord.QUEUED: "its provider is busy with others; its request is in the queue",
    StatusWord.RETRYING: "a request failed; Zoea sends it again by itself at the time shown",
    StatusWord.WAITING: "it asked to wait, or its provider did; it goes on at the time shown",
    StatusWord.ASKING: "it waits for your answer, and goes on then",
    StatusWord.IDLE: "no cost now; a message, or a reminder of its task, begins its next turn",
    StatusWord.DONE: "it reports its task as done; you review it",
    StatusWord.HELD: "the whole swarm is on hold: nothing new starts until you resume it",
    StatusWord.PAUSED: "you paused this one: nothing new starts for it until you resume it",
    StatusWord.STOPPED: "it does nothing until you relaunch it, with or without a message",
    StatusWord.ERRORED: "it failed and does nothing until you relaunch it",
}
"""What each word means, for the legend."""

DONE = "done"
"""State reason of a mysis that reported its task as done."""
NOTHING_NEW = "nothing new"
"""State reason of a mysis that said nothing new in several nudged turns."""


BY_PERSON = "you stopped it"
"""State reason of a mysis that a person stopped."""
CLOSED = "Zoea was closed"
KILLED = "Zoea was killed"
"""State reasons of a mysis that ran when Zoea ended."""


def count_ended(myses: Iterable[MysisView]) -> int:
    """Count the myses that ran when Zoea ended and were not started since."""
    return sum(1 for view in myses if view.state is MysisState.IDLE and view.state_reason in (CLOSED, KILLED))


def wants_review(view: MysisView) -> bool:
    """Return whether a mysis rests with a result that no person has reviewed yet."""
    is_at_rest = view.state is MysisState.IDLE and view.failure is None and not view.pending
    return is_at_rest and view.state_reason in (DONE, NOTHING_NEW) and not view.is_reviewed


def find_status(view: MysisView) -> StatusWord:
    """Return the one word for what a mysis does now.

    A question comes first, because it waits for the commander also during a hold. A hold hides what it stops: work,
    waits and retries. It does not hide what it cannot change: stopped, errored for good, done.
    """
    if view.approvals or view.activity is Activity.ASKING:
        return StatusWord.ASKING
    match view.state:
        case MysisState.STOPPED:
            return StatusWord.STOPPED
        case MysisState.ERRORED if view.retry_at is None:
            return StatusWord.ERRORED
        case MysisState.IDLE if view.state_reason == DONE and not view.pending:
            return StatusWord.DONE
    if view.held:
        return StatusWord.PAUSED
    is_at_rest = view.state is MysisState.IDLE and view.retry_at is None and not view.pending
    if view.swarm_held and not is_at_rest:
        return StatusWord.HELD
    return _unheld_status(view)


def _unheld_status(view: MysisView) -> StatusWord:
    if view.state is MysisState.ERRORED:
        return StatusWord.RETRYING
    if view.state is MysisState.IDLE:
        return StatusWord.IDLE if view.retry_at is None else StatusWord.WAITING
    if view.queue_place:
        return StatusWord.QUEUED if view.queue_until is None else StatusWord.WAITING
    if view.attempt_at is not None:
        return StatusWord.RETRYING
    if view.waiting_until is not None or view.activity is Activity.WAITING:
        return StatusWord.WAITING
    return StatusWord.WORKING if view.in_turn or view.activity is not Activity.IDLE else StatusWord.IDLE


def is_starting(view: MysisView) -> bool:
    """Return whether a mysis has a turn to begin. It is not held up and reached no model."""
    is_quiet = view.activity is Activity.IDLE and find_status(view) in (StatusWord.WORKING, StatusWord.IDLE)
    return view.state is MysisState.RUNNING and is_quiet and (view.in_turn or bool(view.pending))


def next_change_at(view: MysisView) -> int | None:
    """Return when a wait or a retry ends, in µs. None if that is unknown or held back."""
    match find_status(view):
        case StatusWord.RETRYING:
            return view.attempt_at if view.state is MysisState.RUNNING else view.retry_at
        case StatusWord.WAITING:
            return view.queue_until or view.waiting_until if view.state is MysisState.RUNNING else view.retry_at
    return None
