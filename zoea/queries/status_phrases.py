"""Says what a mysis does now, in a few words beside its status. Pure functions.

The cockpit, the command line and the MCP server show the same words.
"""

from __future__ import annotations

import re

from zoea.model.enums import Activity, MysisState
from zoea.model.status import DONE, NOTHING_NEW, StatusWord, next_change_at
from zoea.model.values import Failure, MysisView
from zoea.queries.phrases import context_phrase
from zoea.text.control_characters import one_line

_SECOND = 1_000_000
_TICKS = re.compile(r"(?P<what>\w*?)(?:tick (?P<at>[\d.]+)|ticks (?P<many>[\d.]+))")
_CODES = {"429": "too many requests", "503": "server overloaded", "529": "server overloaded"}
"""What the status codes mean after which Zoea tries again."""
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}
_REASONS = {
    "budget": "its budget is spent",
    "loop": "it repeated itself",
    NOTHING_NEW: "it said nothing new in its last turns",
    DONE: "review its result",
}


def describe_status(view: MysisView, now: int) -> str:
    """Return the status word with what belongs to it: place, time left and cause.

    Examples: `queued (3rd for ollama)`, `retrying (3/5 in 8 s: 429)`, `errored: 401 from ollama`.
    """
    detail = describe_detail(view, now)
    if not detail:
        return view.status
    return f"{view.status} ({detail})" if view.status in _BRACKETED else f"{view.status}: {detail}"


_BRACKETED = (StatusWord.WORKING, StatusWord.QUEUED, StatusWord.RETRYING, StatusWord.WAITING)


def describe_detail(view: MysisView, now: int | None = None) -> str:
    """Return what belongs to the status word; empty where the word says all.

    Without `now` it leaves out the time left, for places that show it in a column.
    """
    left = "" if now is None else format_time_left(view, now)
    match view.status:
        case StatusWord.QUEUED:
            place = f"{ordinal(view.queue_place)} for {one_line(view.queue_name)}"
            return f"{place}: {one_line(view.queue_why)}" if view.queue_why else place
        case StatusWord.RETRYING:
            head = " ".join(part for part in (describe_attempt(view), left) if part)
            return ": ".join(part for part in (head, describe_retry_cause(view)) if part)
        case StatusWord.WAITING:
            ends = next_change_at(view)
            rest = "" if now is None or ends is None else f"{format_span(ends - now)} left"
            return ", ".join(part for part in (describe_wait_reason(view), rest) if part)
        case StatusWord.WORKING if view.prepares_model:
            return "preparing its model"
        case StatusWord.WORKING if view.awaits_tools:
            return "waiting for its tool servers"
        case StatusWord.WORKING if view.reading is not None:
            return f"reading {view.reading} %"
        case StatusWord.WORKING if view.is_summarising:
            return "summarises earlier messages"
        case StatusWord.HELD | StatusWord.PAUSED:
            why = one_line(view.held_reason) if view.held else ""
            return "; ".join(filter(None, (why, "the call under way finishes first" if finishes_call(view) else "")))
        case StatusWord.ERRORED:
            return one_line(describe_failure(view.failure) if view.failure else view.state_reason)
        case StatusWord.IDLE if view.state is MysisState.RUNNING:
            is_nudged = not (view.is_at_rest or view.pending)  # a message that waits opens its next turn instead
            return "Zoea reminds it of its task soon" if is_nudged else describe_reason(view)
        case StatusWord.STOPPED | StatusWord.IDLE | StatusWord.DONE:
            return describe_reason(view)
    return ""


def describe_preparation(view: MysisView) -> str:
    """Return what the request under way holds, until its answer begins; empty without one."""
    if view.status is not StatusWord.WORKING or view.activity is not Activity.LLM or view.streaming or view.thinking:
        return ""
    if view.is_summarising:
        return "Preparing context: a model summarises earlier messages"
    return context_phrase(view.context_messages, view.context_used) if view.context_messages else ""


def describe_assumed_window(view: MysisView) -> str:
    """Return the assumption about an unknown context window; empty where it is known."""
    if not view.window_assumed:
        return ""
    setting = f"provider.{one_line(view.provider)}.context_window"
    return f"not known: {view.window_assumed:,} tokens are assumed; set {setting}"


def describe_attempt(view: MysisView) -> str:
    """Return which attempt comes next: `3/5`, or `2nd retry` of the turn; empty where that is unknown."""
    if view.state is MysisState.ERRORED:
        return f"{ordinal(view.retry_count)} retry" if view.retry_count else ""
    return f"{view.attempt}/{view.attempts}" if view.attempts else ""


def describe_retry_cause(view: MysisView) -> str:
    """Return why Zoea tries again: `429`, or what happened."""
    if view.state is MysisState.RUNNING:
        return _name_code(one_line(view.attempt_why)) or "the request failed"
    return one_line(describe_failure(view.failure) if view.failure else view.state_reason)


def _name_code(why: str) -> str:
    """Return an HTTP status with its meaning; other texts as they are."""
    words = _CODES.get(why) or ("server error" if why.startswith("5") and len(why) == 3 else "")
    return f"{why} {words}" if words else why


def describe_failure(failure: Failure) -> str:
    """Return what happened, or the title if that is unknown."""
    return failure.what or failure.title


def describe_reason(view: MysisView) -> str:
    """Return the reason of a state in words; the failure where there is one."""
    if view.failure is not None and view.state is not MysisState.RUNNING:
        return one_line(describe_failure(view.failure))
    if view.state_reason == DONE and view.is_reviewed:
        return "reviewed"
    return _REASONS.get(view.state_reason, one_line(view.state_reason))


def describe_wait_reason(view: MysisView) -> str:
    """Return why a mysis waits."""
    if view.state is MysisState.IDLE:
        return one_line(view.state_reason)
    if view.queue_until is not None:
        return one_line(view.queue_why)
    if view.waiting_until is None:
        return one_line(view.waiting_for) or "its provider or a nearly spent budget delays it"
    return describe_wait(view.waiting_for)


def describe_wait(reason: str) -> str:
    """Describe a wait; `arrival_tick 12` becomes `arrives at tick 12`."""
    match = _TICKS.fullmatch(reason)
    if match is None:
        return one_line(reason) or "as it asked"
    what, at, many = match.group("what").rstrip("_").replace("_", " "), match.group("at"), match.group("many")
    if many:
        return f"{what}, {many} ticks".removeprefix(", ")
    return f"arrives at tick {at}" if what.endswith("arrival") else f"{what} until tick {at}".strip()


def finishes_call(view: MysisView) -> bool:
    """Return whether a call that began before the hold still runs."""
    return view.state is MysisState.RUNNING and view.activity in ("llm", "tool")


def format_time_left(view: MysisView, now: int) -> str:
    """Format the time until a wait or a retry ends: `in 8 s`. Empty if that is unknown."""
    at = next_change_at(view)
    return "" if at is None else f"in {format_span(at - now)}"


def format_span(microseconds: int) -> str:
    """Format a time in its largest unit: `8 s`, `2 min`, `3 h`, `2 d`. Below zero is `0 s`."""
    seconds = max(0, microseconds) // _SECOND
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, 11th."""
    ending = "th" if number % 100 in (11, 12, 13) else _ENDINGS.get(number % 10, "th")
    return f"{number}{ending}"
