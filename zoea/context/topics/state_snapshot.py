"""Folds the messages of a cluster into its state, which its agents share.

The state is a plain JSON object with one part for each of `task`, `plan`, `progress`, `validation` and `debug`. Results
of validators are kept for each sender since the last implementation, so that no approval hides a rejection.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from zoea.model.topics import SNAPSHOT_SENDER, SNAPSHOT_TOPIC, STATE_TOPICS, TopicMessage
from zoea.text.sentences import count_of

State = dict[str, Any]

ITEM_CHARS = 200
MOST_NUMBER = 1e9
"""A larger number says nothing, and one that no float holds cannot be described."""
_NOT_VALID = "rejected"
_TRUTHS = {"true": True, "false": False}
_ERROR_KEYS = ("message", "error", "bug", "summary")


def fold_state(state: Mapping[str, Any], message: TopicMessage) -> State:
    """Return the state after a message; an equal state where the message changes nothing."""
    fold = _FOLDS.get(message.topic)
    return fold(dict(state), message, _Fields(message)) if fold else dict(state)


def restore_state(messages: Iterable[TopicMessage]) -> State:
    """Return the state of a ledger: its last snapshot, and the messages after it, in order."""
    state: State = {}
    for message in messages:
        if message.topic == SNAPSHOT_TOPIC and message.sender == SNAPSHOT_SENDER:
            state = dict(message.data or {})
        else:
            state = fold_state(state, message)
    return state


def describe_state(state: Mapping[str, Any]) -> str:
    """Return the state as short lines of text."""
    lines = []
    if task := state.get("task"):
        lines.append(f"Task: {task.get('title') or task.get('raw', '')}")
    if plan := state.get("plan"):
        lines.append(f"Plan: {plan.get('summary') or plan.get('text', '')}")
    if progress := state.get("progress"):
        lines.append(f"Progress: {_describe_progress(progress)}")
    if validation := state.get("validation"):
        lines.append(f"Validation: {_describe_validation(validation)}")
    if debug := state.get("debug"):
        lines.append(f"Debug: {debug.get('fix_plan') or ', '.join(debug.get('root_causes', ()))}")
    return "\n".join(lines)


def _describe_progress(progress: Mapping[str, Any]) -> str:
    parts = []
    if (percent := progress.get("percent_complete")) is not None:
        parts.append(f"{percent:g}%")
    if (can_validate := progress.get("can_validate")) is not None:
        parts.append(f"canValidate={str(can_validate).lower()}")
    if blockers := progress.get("blockers"):
        parts.append(f"blocked: {blockers[-1]}")
    if steps := progress.get("next_steps"):
        parts.append(f"next: {steps[0]}")
    return " | ".join(parts or [progress.get("last_summary", "")])


def _describe_validation(validation: Mapping[str, Mapping[str, Any]]) -> str:
    results = validation.values()
    errors = sum(len(one.get("errors", ())) for one in results)
    if any(one.get("approved") is False for one in results):
        return f"{_NOT_VALID} ({count_of(errors, 'error')})"
    return "approved" if all(one.get("approved") is True for one in results) else "open"


class _Fields:
    """Reads the fields of a message's data, written in snake_case or camelCase, within their limits.

    Workers of Zeroshot put those of their progress into an object `completionStatus`. Its templates write every value
    as a text, so a boolean or a number may be one.
    """

    def __init__(self, message: TopicMessage) -> None:
        self._data = message.data or {}
        self.text = message.text

    def value(self, name: str) -> Any:
        found = _either_case(self._data, name)
        if found is None and isinstance(status := _either_case(self._data, "completion_status"), dict):
            found = _either_case(status, name)
        return found

    def words(self, name: str, most: int) -> str | None:
        value = self.value(name)
        return cut_words(value, most) if isinstance(value, str) and value else None

    def items(self, name: str, most: int) -> list[str] | None:
        value = self.value(name)
        if not isinstance(value, list):
            return None
        return [cut_words(_item_text(one), ITEM_CHARS) for one in value[-most:]]

    def named(self, name: str, most: int, keys: tuple[str, ...]) -> list[str] | None:
        """Return the items of a list as texts. An object gives the value of its first known key."""
        items = self.items(name, most)
        if items is None:
            return None
        texts = [
            next(filter(None, map(one.get, keys)), "") if isinstance(one, dict) else "" for one in self.value(name)
        ]
        pairs = zip(items, texts[-most:], strict=True)
        return [cut_words(text, ITEM_CHARS) if isinstance(text, str) and text else item for item, text in pairs]

    def truth(self, name: str) -> bool | None:
        value = self.value(name)
        if isinstance(value, str):
            return _TRUTHS.get(value.strip().lower())
        return value if isinstance(value, bool) else None

    def number(self, name: str) -> int | float | None:
        value = self.value(name)
        if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:
            value = int(value)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return value if is_number and abs(value) <= MOST_NUMBER else None


def _either_case(data: Mapping[str, Any], name: str) -> Any:
    head, *rest = name.split("_")
    value = data.get(name)
    return value if value is not None else data.get(head + "".join(part.title() for part in rest))


def _item_text(item: object) -> str:
    """Return an item of a list as a text: an object or a number as JSON."""
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)


def cut_words(text: str, most: int) -> str:
    """Return the text with at most `most` characters. A cut one ends in three dots."""
    return text if len(text) <= most else text[: most - 3] + "..."


def _known(**fields: Any) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def _task(state: State, message: TopicMessage, given: _Fields) -> State:
    number = given.value("issue_number")
    raw = message.text or given.value("body") or given.value("raw")
    state["task"] = _known(
        raw=cut_words(raw, 2000) if isinstance(raw, str) else None,
        title=given.words("title", 300),
        issue_number=number if isinstance(number, (int, str)) and not isinstance(number, bool) else None,
        source=given.words("source", ITEM_CHARS),
    )
    return state


def _plan(state: State, message: TopicMessage, given: _Fields) -> State:
    text = message.text or given.value("plan")
    state["plan"] = _known(
        text=cut_words(text, 2500) if isinstance(text, str) else None,
        summary=given.words("summary", 300),
        acceptance_criteria=_criteria(given),
        files_affected=given.items("files_affected", 20),
    )
    return state


def _criteria(given: _Fields) -> list[str] | None:
    criteria = given.value("acceptance_criteria")
    if not isinstance(criteria, list):
        return None
    named = [
        f"{one.get('id', '')}: {one.get('criterion') or one.get('text') or one.get('description') or ''}".strip(": ")
        if isinstance(one, dict)
        else _item_text(one)
        for one in criteria[-10:]
    ]
    return [cut_words(one, ITEM_CHARS) for one in named]


def _progress(state: State, message: TopicMessage, given: _Fields) -> State:
    summary = given.words("summary", 300) or given.words("last_summary", 300)
    progress = cut_words(message.text, 300) if message.text else None
    state["progress"] = {
        **state.get("progress", {}),
        **_known(
            can_validate=given.truth("can_validate"),
            percent_complete=given.number("percent_complete"),
            blockers=given.items("blockers", 5),
            next_steps=given.items("next_steps", 10),
            last_summary=summary or progress,
        ),
    }
    return state


def _implementation(state: State, message: TopicMessage, given: _Fields) -> State:
    state.pop("validation", None)
    return _progress(state, message, given)


def _validation(state: State, message: TopicMessage, given: _Fields) -> State:
    result = _known(
        approved=given.truth("approved"),
        errors=given.named("errors", 5, _ERROR_KEYS) or given.named("issues", 5, _ERROR_KEYS),
        criteria_results=criteria_results(message.data or {}),
    )
    state["validation"] = {**state.get("validation", {}), message.sender: result}
    return state


def criteria_results(data: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the results of criteria that a validator reported, cut to their limits. None if there are none."""
    results = data.get("criteria_results", data.get("criteriaResults"))
    if not isinstance(results, list):
        return None
    return [_criterion(one) for one in results[-10:] if isinstance(one, dict)]


def _criterion(given: Mapping[str, Any]) -> dict[str, Any]:
    evidence = given.get("evidence")
    shown = None
    if isinstance(evidence, dict):
        command = evidence.get("command")
        code = evidence.get("exit_code", evidence.get("exitCode"))
        shown = _known(
            command=cut_words(command, ITEM_CHARS) if isinstance(command, str) else None,
            exit_code=code if isinstance(code, int) and not isinstance(code, bool) else None,
        )
    reason = given.get("reason")
    return _known(
        id=cut_words(str(given.get("id", "")), ITEM_CHARS),
        status=cut_words(str(given.get("status", "")), ITEM_CHARS),
        reason=cut_words(reason, ITEM_CHARS) if isinstance(reason, str) else None,
        evidence=shown or None,
    )


def _debug(state: State, message: TopicMessage, given: _Fields) -> State:
    # The investigators of Zeroshot write the plan as the text.
    text = cut_words(message.text, 1200) if message.text else None
    state["debug"] = _known(
        fix_plan=given.words("fix_plan", 1200) or text,
        success_criteria=given.words("success_criteria", 300),
        root_causes=given.named("root_causes", 5, ("cause", "summary", "description")),
    )
    return state


_FOLDS: Mapping[str, Callable[[State, TopicMessage, _Fields], State]] = dict(
    zip(STATE_TOPICS, (_task, _plan, _progress, _implementation, _validation, _debug), strict=True)
)
