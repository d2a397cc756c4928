"""The report of a failed mysis: cause, since when, what Zoea and you can do. Pure.

The report follows from the view alone, so it changes when the retry, the hold or the state changes.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from zoea.model.enums import MysisState
from zoea.model.status import StatusWord
from zoea.model.values import MysisView
from zoea.queries.status_phrases import describe_attempt, describe_failure, format_span
from zoea.text.control_characters import one_line
from zoea.text.sentences import begin_sentence

_OLD_PROMISES = ("; Zoea tries again by itself", "Zoea tries again by itself")
"""Parts of hints that earlier versions stored with a failure; `plan` says what is true now."""


class ErrorReport(Struct, frozen=True):
    """The parts of one error, each a sentence or less.

    Attributes:
        what: What happened.
        title: The kind of error; empty if it equals `what`.
        since: When it happened, and how long ago.
        plan: What Zoea will do, and when.
        advice: What the commander can do; may be empty.
    """

    what: str
    title: str
    since: str
    plan: str
    advice: str


def report_error(view: MysisView, now: int) -> ErrorReport | None:
    """Return the report of a mysis that failed. None for one that did not, or that runs again."""
    failure = view.failure
    if failure is None or view.state is MysisState.RUNNING:
        return None
    what, title = one_line(describe_failure(failure)), one_line(failure.title)
    hint = one_line(failure.hint)
    for promise in _OLD_PROMISES:
        hint = hint.replace(f"{promise}.", "." if promise.startswith(";") else "").strip()
    return ErrorReport(
        begin_sentence(what, view.provider),
        "" if title == what else title,
        f"since {_moment(view.state_at, now)} ({format_span(now - view.state_at)})",
        _plan(view, now),
        begin_sentence(hint),
    )


def _plan(view: MysisView, now: int) -> str:
    if view.retry_at is None:
        return "Zoea does not try again by itself"
    if view.status is StatusWord.PAUSED:
        return "Zoea tries again when you resume this mysis"
    if view.status is StatusWord.HELD:
        return "Zoea tries again when the hold is lifted"
    which = f", {attempt}" if (attempt := describe_attempt(view)) else ""
    return f"Zoea tries again in {format_span(view.retry_at - now)}{which}"


def _moment(at: int, now: int) -> str:
    """Format a local time, with the date if it is not today."""
    then, today = (datetime.fromtimestamp(each / 1_000_000) for each in (at, now))
    return f"{then:%H:%M:%S}" if then.date() == today.date() else f"{then:%Y-%m-%d %H:%M}"
