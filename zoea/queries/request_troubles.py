"""Finds usual faults of a request, with their causes and the settings to change.

The symptoms are those of the troubleshooting pages of Shannon and Zeroshot: missing anchors, stale messages, over
budget, truncated, budget exceeded, no summary, only a summary.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from zoea.context import PackStatus, Plan, Priority, Reason
from zoea.context.explain import describe_advice
from zoea.context.topics.topic_rules import read_source
from zoea.context.window.conversation_shape import LEAST_MESSAGES
from zoea.model.enums import RequestState
from zoea.queries.request_inspection import Inspection
from zoea.queries.stored_swarm import open_database
from zoea.settings.topic_source import TopicSource, write_since
from zoea.text.sentences import count_of

_STORED = """
SELECT count(*) FROM topic_message
WHERE cluster_id = :cluster AND topic = :topic AND id <= :until AND (:sender IS NULL OR sender = :sender)
"""
_SHOWN = "SELECT answer FROM turn_answer WHERE turn_id = ? AND need LIKE '[\"ShownConversation\",%'"


class Trouble(Struct, frozen=True):
    """A symptom with the cause that was found and what to change."""

    symptom: str
    cause: str
    remedy: str


def find_troubles(database: Path, inspection: Inspection) -> tuple[Trouble, ...]:
    """Find the troubles of a request; none where its plan was deleted. Raises StoreError."""
    if inspection.plan is None:
        return ()
    with open_database(database) as reader:
        row = reader.execute(
            "SELECT t.frozen, t.id, t.failure FROM request q JOIN turn t ON t.id = q.turn_id WHERE q.id = ?",
            (inspection.request.id,),
        ).fetchone()
        shown = reader.execute(_SHOWN, (row[1],)).fetchone() if row is not None else None
        frozen = json.loads(row[0]) if row is not None else {}
        topics = frozen.get("topics") or {}
        sources = _count_messages(reader, topics)
    view = json.loads(shown[0]) if shown is not None else {}
    failure = json.loads(row[2]) if row is not None and row[2] else {}
    plan = inspection.plan
    refused: list[Trouble] = []
    if (cause := failure.get("title")) and inspection.request.state == RequestState.REFUSED:
        refused = [Trouble("budget exceeded", cause, failure.get("hint") or "raise that budget (`zoea stats`)")]
    return (
        *refused,
        *_of_budget(plan),
        *_of_topics(plan, sources, {topic for _, topic in topics.get("triggers", ())}),
        *_of_window(plan, frozen, view),
    )


def _of_budget(plan: Plan) -> Iterator[Trouble]:
    budget = plan.budget
    left_out = [one for one in plan.decisions if one.reason in (Reason.BUDGET, Reason.MAX_CHARS)]
    if left_out:
        largest = max(plan.decisions, key=lambda one: one.tokens)
        named = ", ".join(one.id for one in left_out)
        cause = f"{named} did not fit into {budget.max_tokens:,} tokens, of which {largest.id} takes {largest.tokens:,}"
        advice = next((describe_advice(one.setting) for one in reversed(left_out) if one.setting), "")
        shorter = f"make {largest.id} shorter"
        remedy = (
            f"raise it ({advice}), or {shorter}" if advice else f"{shorter}: no setting allows a request of that size"
        )
        yield Trouble("over budget", cause, remedy)
    cut = [one.id for one in plan.decisions if one.truncated]
    steps = [step for step in plan.steps if step.pack != "recall"]  # which no setting shows in full
    if cut or steps:
        packs = ", ".join(dict.fromkeys([*cut, *(step.pack for step in steps)]))
        them = "is not shown as it was" if len(steps) == 1 else "are not shown as they were"
        cause = f"{count_of(len(steps), 'memory')} in {packs} {them} said"
        yield Trouble(
            "truncated", cause, "raise tool.max_result_chars or the budget; context.keep_tools keeps tools whole"
        )


def _count_messages(reader: sqlite3.Connection, topics: Mapping[str, Any]) -> list[tuple[TopicSource, int]]:
    """Return each source with the messages that its topic had when the turn was opened."""
    messages = []
    for source in map(read_source, topics.get("sources", ())):
        values = {"cluster": topics["cluster_id"], "topic": source.topic, "until": topics["until"]}
        count = reader.execute(_STORED, {**values, "sender": source.sender}).fetchone()[0]
        messages.append((source, count))
    return messages


def _of_topics(plan: Plan, sources: Iterable[tuple[TopicSource, int]], triggers: Collection[str]) -> Iterator[Trouble]:
    decisions = (one for one in plan.decisions if one.section == "sources")
    for (source, stored), decision in zip(sources, decisions, strict=False):
        topic = source.topic
        # The message that opened the turn stands at its end and in no source.
        is_missing = decision.priority is Priority.REQUIRED and decision.status is PackStatus.SKIPPED
        if is_missing and topic not in triggers:
            since = f" since {write_since(source.since)}" if source.since else ""
            yield Trouble(
                "missing anchor",
                f"no message on {topic}{since} counts for this source",
                f"let a role publish {topic}, or change since of the source in the template",
            )
        why = ""
        if source.most is None:
            why = "has no amount, so it shows all its messages, oldest first"
        elif source.selection != "latest" and stored > source.most:
            why = f'has strategy = "{source.selection}", so it shows the oldest {source.most:,} of {stored:,} messages'
        if why:
            yield Trouble(
                "stale messages", f"the source of {topic} {why}", 'set strategy = "latest" and amount in the template'
            )


def _of_window(plan: Plan, frozen: Mapping[str, Any], view: Mapping[str, Any]) -> Iterator[Trouble]:
    rules = frozen.get("window")
    if frozen.get("strategy") != "window" or not rules:
        return
    summary, recents = plan.decision("summary"), plan.decision("recents")
    if summary is None or summary.reason is Reason.EMPTY:
        # The conversation is measured as when its turn opened; below the trigger it needs no summary.
        whole, calibration = view.get("whole", 0), max(1.0, frozen.get("calibration", 1.0))
        trigger = int(plan.budget.max_tokens / calibration * rules["trigger"])
        if whole >= trigger:
            why, remedy = _why_not_summarised(view)
            cause = f"the request would take {whole:,} tokens, and is summarised from {trigger:,} on, but {why}"
            yield Trouble("no summary", cause, remedy)
    elif recents is not None and recents.status is PackStatus.INCLUDED:
        first, newest = len(view.get("primers", ())), len(view.get("recents", ()))
        yield Trouble(
            "only a summary of the middle",
            f"{first} first and {count_of(newest, 'newest message')} stay, all between is in a summary of "
            f"{summary.tokens:,} tokens, because {_why_summarised(view, rules)[0]}",
            f"{_why_summarised(view, rules)[1]}; or keep a message with `zoea keep ID`",
        )


def _why_not_summarised(view: Mapping[str, Any]) -> tuple[str, str]:
    """Return why a conversation over the trigger has no summary, and what to change."""
    messages = len(view.get("primers", ())) + len(view.get("recents", ()))
    if messages <= LEAST_MESSAGES:
        return (
            f"the conversation has only {count_of(messages, 'message')}; a summary needs {LEAST_MESSAGES + 1}",
            "raise budget.token_budget_per_agent, or send shorter messages",
        )
    return (
        "its first and newest messages, which stay word for word, are all there is",
        "lower session.primers_count or session.recents_count",
    )


def _why_summarised(view: Mapping[str, Any], rules: Mapping[str, Any]) -> tuple[str, str]:
    """Return why the middle is summarised, and what would keep more of it."""
    if steps := view.get("steps"):
        return f"the rest did not fit: {'; '.join(steps)}", "raise budget.token_budget_per_agent"
    size, recents = rules["size"], rules["recents"]
    cause = view.get("cause", "window" if len(view.get("recents", ())) >= size > recents else "budget")
    if cause == "window":
        return (
            f"the conversation is longer than its window of {size} messages",
            "raise session.context_window_default, or send with --context use_case_preset=debugging",
        )
    return (
        f"the conversation took {rules['trigger']:.0%} of the budget or more",
        "raise the budget, session.primers_count, session.recents_count or session.compression_target_ratio",
    )
