"""Makes sentences for people from events, approvals and failures. Pure functions.

Events hold ids instead of texts (decision 4): `event_text_source` names the text that a
sentence needs, and `event_sentence` takes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from zoea.model.enums import ASK_TOOL, DONE_TOOL, MASK, CallState, ErrorClass, MysisState, Outcome, RequestState
from zoea.model.values import ApprovalView, Event, ToolCall
from zoea.text.amounts import format_dollars, short_count
from zoea.text.call_text import MOST_CHARS, format_call, parse_arguments
from zoea.text.control_characters import reveal_exactly, reveal_unambiguously
from zoea.text.json_text import parse_object
from zoea.text.sentences import count_of
from zoea.text.shorten import head_with_length

if TYPE_CHECKING:
    from zoea.model.swarm_api import ReloadReport

UNREMARKABLE = frozenset({"delivery.taken", "mysis.created"})
"""Kinds of events that are not shown, because another event tells the same."""
OF_REQUESTS = frozenset({"request.prepared", "budget.used"})
"""Kinds of events that come with every request; lines for people leave them out unless asked for."""


_WORDS = {
    "turn.opened": "turn {number} begins",
    "turn.resumed": "goes on where it was",
    "call.late_result": "a call of the stopped turn has ended",
    "request.retried": "request failed ({why}); attempt {attempt} of {attempts} follows in {seconds} s",
    "delivery.withdrawn": "a queued message is withdrawn",
    "mysis.deleted": "is deleted",
    "mysis.undeleted": "is back",
    "mysis.dismissed": "error dismissed",
    "mysis.configured": "has a new configuration",
    "mysis.task": "has a new task",
    "mysis.imported": "is imported",
    "hold.set": "on hold: {reason}",
    "hold.lifted": "resumed: the hold is lifted",
    "context.summary": "Previous context summary added",
    "memory.preserved": "message {memory} is kept word for word",
    "memory.released": "message {memory} is kept no longer",
    "context.trimmed": "Context trimmed to stay within budget",
    "context.summary_skipped": "the conversation is long, but its summary is still recent",
    "budget.warning": "budget of {scope}: {used} of {limit} used",
    "budget.refused": "budget of {scope} has no room for the request: {used} of {limit} used",
    "approval.asked": "asks you something ({approval})",
    "topic.published": "publishes message {topic_message} of the ledger",
    "clock.set": "the system's clock was set by {seconds} s",
    "grant.revoked": "grant {grant} is revoked: its tool asks again",
}

_OR_ANSWERED = ", or its question answered"
_ANSWERS = {
    "once": f"allowed once{_OR_ANSWERED}",  # the event does not say which of the two was asked
    "session": "allowed until the mysis stops",
    "template": "allowed for its template",
    "grant": "allowed by the grant for another question",
    "expired": "nobody answered in time",
}
_NO_MODEL = (
    "its summary has chosen lines instead of a model's prose, because that needs budget.background = {needed}, which"
    " is {limit}"
)

_NOTES = {
    "budget": "the budget of its message allows one more request, and it is told so",
    "loop": "it repeats itself, and is told so",
    "output": "its answer does not match the output schema, and is asked for once more",
}
"""What the kinds of notes mean that do not say it themselves."""

_SCOPES = {
    "turn": "this turn",
    "mission": "its message",
    "mysis": "this mysis",
    "swarm": "the swarm today",
    "background": "summaries today",
}
"""Whose a budget is, in words."""
_STATES: Mapping[str, str] = {MysisState.RUNNING: "started"}
"""Words for states that no status of the cockpit has."""
_GOOD_ENDS = (Outcome.ANSWERED, Outcome.CANCELLED, Outcome.INTERRUPTED)


class EventTextSource(StrEnum):
    """The kind of text that an event refers to."""

    ANSWER = "answer"
    MESSAGE = "message"
    TOPIC_MESSAGE = "topic_message"
    FAILURE = "failure"
    ASKED = "asked"


_NAMED = {
    "turn.ended": (EventTextSource.ANSWER, "turn"),
    "message.sent": (EventTextSource.MESSAGE, "message"),
    "topic.published": (EventTextSource.TOPIC_MESSAGE, "topic_message"),
    "approval.asked": (EventTextSource.ASKED, "approval"),
}


def event_text_source(event: Event) -> tuple[EventTextSource, int] | None:
    """Return the kind and row id of the text that an event's sentence needs.

    The id is that of a turn, message or approval; for a failure that of the event itself.
    """
    if event.kind == "mysis.state" and event.data.get("error"):
        return EventTextSource.FAILURE, event.id
    wanted = _NAMED.get(event.kind)
    row = event.data.get(wanted[1]) if wanted is not None else None
    return (wanted[0], row) if wanted is not None and isinstance(row, int) else None


def is_of_request(event: Event) -> bool:
    """Return whether an event is a detail of a request, which lines usually leave out.

    A turn that broke off because it failed is one: the errored mysis tells the same failure with its cause.
    """
    if event.kind == "turn.broke_off":
        return event.data.get("why") == Outcome.FAILED
    attempt = event.data.get("attempt")
    return event.kind in OF_REQUESTS or (event.kind == "request.retried" and isinstance(attempt, int) and attempt > 2)


def event_sentence(event: Event, text: str = "") -> str:
    """Return a sentence on what happened. `text` is the text that `event_text_source` names, on one line."""
    match event.kind:
        case "turn.ended" | "turn.broke_off":
            return _turn_end(str(event.data.get("outcome") or event.data.get("why") or ""), text)
        case "message.sent":
            if event.data.get("said") == "broadcast":
                return f"to all: {text}"
            if text.startswith("→"):
                return text
            return f"{'says' if event.mysis_id is not None else 'say'}: {text}"
        case "topic.published" if text:
            return f"publishes on {text}"
        case "mysis.state":
            reasons = dict.fromkeys(str(event.data[key]) for key in ("error", "reason") if event.data.get(key))
            state = str(event.data.get("state"))
            sentence = f"is {_STATES.get(state, state)}" + (f": {'; '.join(reasons)}" if reasons else "")
            joint = "; " if text[:1].islower() else ". "
            return f"{sentence}{joint}{text}" if text else sentence
        case "hold.set" if event.mysis_id is not None:
            return f"is paused: {event.data['reason']}" if event.data.get("reason") else "is paused"
        case "hold.lifted" if event.mysis_id is not None:
            return "goes on: its pause is lifted"
        case "mysis.configured" if "changed" in event.data:
            changed = str(event.data["changed"])
            return f"is configured: new {changed}" if changed else "is configured, as it was before"
        case "approval.asked" if text:
            return text
        case "approval.answered":
            answer = "grant" if event.data.get("by_grant") else str(event.data.get("answer"))
            sentence = f"approval {event.data.get('approval')}: {_ANSWERS.get(answer, answer)}"
            return (
                f"{sentence.removesuffix(_OR_ANSWERED)}, with changed arguments"
                if event.data.get("changed")
                else sentence
            )
        case "context.recalled":
            return f"Memory recalled ({count_of(int(event.data.get('items') or 0), 'item')})"
        case "turn.note":
            kind = str(event.data.get("note", ""))
            return f"Zoea notes: {_NOTES.get(kind, kind)}"
        case "request.prepared":
            return context_phrase(int(event.data.get("messages") or 0), int(event.data.get("tokens") or 0))
        case "budget.used":
            return budget_phrase(int(event.data.get("used") or 0), int(event.data.get("limit") or 0))
    words = _NO_MODEL if is_summary_refusal(event) else _WORDS.get(event.kind)
    if words is None:
        return " ".join([event.kind, *(f"{key}={value}" for key, value in event.data.items())])
    data = event.data
    if words is not _NO_MODEL and {"scope", "used", "limit"} <= data.keys():
        used, limit = _amounts(data, is_money=data.get("unit") == "money")
        data = {**data, "scope": _SCOPES.get(str(data["scope"]), data["scope"]), "used": used, "limit": limit}
    try:
        return words.format(**data)
    except KeyError:
        return words.partition(" {")[0].removesuffix(":")


def _amounts(data: Mapping[str, object], *, is_money: bool) -> tuple[str, str]:
    """Return a budget's used part and its limit, such as `3` and `10 tokens`."""
    used, limit = (float(str(data.get(key) or 0)) for key in ("used", "limit"))
    return (format_dollars(used), format_dollars(limit)) if is_money else (f"{used:,.0f}", f"{limit:,.0f} tokens")


def _turn_end(outcome: str, text: str) -> str:
    """Say how a turn ended, or broke off; its text where it was answered."""
    if outcome == Outcome.ANSWERED:
        return text or "turn ended, no text"
    if outcome == Outcome.CRASHED:
        return "turn cut off: Zoea was closed"
    sentence = "turn failed" if outcome == Outcome.FAILED else f"turn ended: {outcome.replace('_', ' ')}"
    return f"{sentence}. {text}" if text else sentence


def event_subject(event: Event, names: Mapping[int, str]) -> str:
    """Return the subject of an event: a mysis by name or `#id`, `you` or `swarm`."""
    if event.mysis_id is None:
        return "you" if event.kind == "message.sent" else "swarm"
    return names.get(event.mysis_id, f"#{event.mysis_id}")


def is_trouble(event: Event) -> bool:
    """True for an error, a spent budget, or a turn that did not end well."""
    match event.kind:
        case "mysis.state":
            return event.data.get("state") == "errored"
        case "turn.ended":
            return event.data.get("outcome") not in _GOOD_ENDS
        case "turn.broke_off":
            return event.data.get("why") != Outcome.CRASHED
    return event.kind == "budget.refused"


def is_summary_refusal(event: Event) -> bool:
    """Return whether the background budget had no room for a model's summary."""
    is_known = event.data.get("scope") == "background" and "needed" in event.data
    return event.kind == "budget.refused" and is_known and event.data.get("unit") != "money"


def approval_line(asked: ApprovalView) -> str:
    """Return the question of an approval, or its tool call, on one line."""
    question = head_with_length(approval_question(asked), MOST_CHARS) or budget_question(asked)
    return question or format_call(asked.tool, asked.arguments, hidden=MASK)


def approval_phrase(asked: ApprovalView) -> str:
    """Describe an approval as a predicate: `asks to run sell(item="ore")`."""
    if question := approval_question(asked):
        return f"asks: {question}"
    if asked.kind == "budget":
        return f"asks to {budget_question(asked)}"
    return f"asks to run {format_call(asked.tool, asked.arguments, hidden=MASK)}"


def budget_question(asked: ApprovalView) -> str:
    """Say by how much a request would exceed which budget. It is empty for other questions."""
    if asked.kind != "budget":
        return ""
    try:
        about = json.loads(asked.arguments)
        scope = str(about["budget"])
        used, limit = _amounts(about, is_money=scope.endswith(" money"))
    except (ValueError, KeyError, TypeError, RecursionError):
        return asked.tool
    whose = scope.removesuffix(" money")
    return f"{asked.tool}: up to {used} of {limit} ({_SCOPES.get(whose, whose)})"


def approval_question(asked: ApprovalView) -> str:
    """Return the question of a mysis, with hidden characters as escapes. It is empty for a tool call."""
    if asked.tool != ASK_TOOL or asked.upstream:
        return ""
    if asked.is_cut:
        return reveal_exactly(asked.arguments)
    arguments = parse_object(asked.arguments)
    return "" if arguments is None else reveal_unambiguously(str(arguments.get("question", "")))


def is_unsent(state: str, error_class: str) -> bool:
    """Return whether a request was released before it was sent. A hold or the end of its turn releases it."""
    return (state, error_class) == (RequestState.RELEASED, ErrorClass.CANCELLED)


_CLASS_WORDS: Mapping[str, str] = {
    ErrorClass.TRANSIENT: "likely temporary",
    ErrorClass.AUTH: "the provider refused the key",
    ErrorClass.QUOTA: "the provider's quota is used up",
    ErrorClass.CONTEXT_LENGTH: "too long for the model",
    ErrorClass.BAD_REQUEST: "the provider refused it as invalid",
    ErrorClass.MODEL_MISSING: "the provider has no such model",
    ErrorClass.CONTENT_FILTER: "stopped by a filter of the provider",
}
"""Error classes in words."""


def context_phrase(messages: int, tokens: int) -> str:
    """Return a sentence on what a request was prepared with. 0 messages stand for an unknown number."""
    held = f"{messages} msgs, " if messages else ""
    return f"Preparing context ({held}~{short_count(tokens)} tokens)"


def budget_phrase(used: int, limit: int) -> str:
    """Return a sentence on how much of a budget is used. A limit of 0 is unknown."""
    return f"Budget used: {short_count(used)}" + (f"/{short_count(limit)}" if limit else "")


def failure_phrase(state: str, error_class: str) -> str:
    """Describe the failure of a request as a predicate; empty if it was answered."""
    if state == RequestState.REFUSED:
        return "was refused: over a budget"
    if not error_class:
        return ""
    return (
        "was never sent" if is_unsent(state, error_class) else f"failed: {_CLASS_WORDS.get(error_class, error_class)}"
    )


def describe_reload(report: ReloadReport) -> str:
    """Return a sentence on what a reload of the settings changed, and what waits."""
    parts = ["The settings are applied"]
    if report.upstreams:
        parts.append(f"upstreams: {', '.join(report.upstreams)}")
    if report.providers:
        parts.append(f"from the next turn on: {', '.join(f'provider {name}' for name in report.providers)}")
    parts += report.problems
    if report.waiting:
        parts.append(f"{', '.join(report.waiting)}: when the swarm is opened again")
    return "; ".join(parts)


def read_report(call: ToolCall) -> str:
    """Return the text by which a mysis reported its task as done. Empty for any other call."""
    is_report = call.name == DONE_TOOL and call.state is CallState.DONE
    summary = (parse_arguments(call.arguments) or {}).get("summary") if is_report else ""
    return summary.strip() if isinstance(summary, str) else ""
