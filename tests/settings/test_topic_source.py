"""Sources of a topic strategy: defaults, notations, errors and warnings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from tests.case_tables import walk_cases
from zoea.settings.topic_source import TopicSource, source_warnings

SEED = """[
  { "topic": "ISSUE_OPENED", "priority": "required", "strategy": "latest", "amount": 1 },
  { "topic": "STATE_SNAPSHOT", "priority": "required", "strategy": "latest", "amount": 1 },
  { "topic": "PLAN_READY", "priority": "required", "strategy": "latest", "amount": 1 },
  { "topic": "VALIDATION_RESULT", "priority": "high", "since": "last_task_end", "strategy": "latest", "amount": 5,
    "compactAmount": 1 },
  { "topic": "WORKER_PROGRESS", "priority": "medium", "since": "last_task_end", "strategy": "latest", "amount": 3,
    "compactAmount": 1 }
]"""


def test_sources_written_for_zeroshot_load_as_they_stand() -> None:
    sources = [TopicSource.model_validate(one) for one in json.loads(SEED)]
    assert [source.most for source in sources] == [1, 1, 1, 5, 3]
    assert sources[3] == TopicSource(
        topic="VALIDATION_RESULT", priority="high", since="last_task_end", strategy="latest", amount=5, compact_amount=1
    )
    assert not [advice for source in sources for advice in source_warnings(source)]


@walk_cases(
    ("given", "selection", "compact"),
    [
        ({}, "all", "latest"),
        ({"amount": 3}, "latest", "latest"),
        ({"limit": 3}, "latest", "latest"),
        ({"strategy": "oldest", "amount": 3}, "oldest", "oldest"),
        ({"strategy": "all", "amount": 3}, "all", "latest"),
        ({"strategy": "all", "compact_strategy": "oldest"}, "all", "oldest"),
        ({"strategy": "all", "compactStrategy": "all"}, "all", "all"),
    ],
)
def test_selections_have_defaults(given: dict[str, Any], selection: str, compact: str) -> None:
    source = TopicSource.model_validate({"topic": "X", **given})
    assert (source.selection, source.compact_selection, source.compact_amount) == (selection, compact, 1)


@walk_cases(
    ("topic", "priority"),
    [
        ("STATE_SNAPSHOT", "required"),
        ("ISSUE_OPENED", "required"),
        ("PLAN_READY", "required"),
        ("VALIDATION_RESULT", "high"),
        ("IMPLEMENTATION_READY", "high"),
        ("WORKER_PROGRESS", "medium"),
    ],
)
def test_a_missing_priority_follows_the_topic(topic: str, priority: str) -> None:
    source = TopicSource(topic=topic)
    assert source.pack_priority == priority
    assert source_warnings(source) == [f"{topic}: no priority is set; it is {priority}"]


@walk_cases(
    ("since", "read"),
    [
        ("cluster_start", "cluster_start"),
        ("2026-01-02T03:04:05Z", 1_767_323_045_000_000),
        ("2026-01-02T03:04:05", 1_767_323_045_000_000),
        ("2026-01-02T04:04:05+01:00", 1_767_323_045_000_000),
        (1_767_323_045_000, 1_767_323_045_000_000),
        (None, None),
    ],
)
def test_since_is_a_name_a_time_or_milliseconds(since: Any, read: Any) -> None:
    assert TopicSource(topic="X", since=since).since == read


@walk_cases("since", ["yesterday", "last_agent", "", True, -1, 1.5, []])
def test_another_since_is_an_error_that_names_the_choices(since: Any) -> None:
    with pytest.raises(ValidationError, match="cluster_start, last_task_end, last_agent_start, an ISO 8601 time"):
        TopicSource(topic="X", since=since)


@walk_cases(
    "given",
    [
        {"amount": 0},
        {"amount": -1},
        {"amount": 1.5},
        {"amount": True},
        {"limit": 0},
        {"compactAmount": 0},
        {"strategy": "newest"},
        {"priority": "urgent"},
        {"amuont": 1},
        {"compact_amount": 2, "compactAmount": 3},
        {"topic": ""},
    ],
)
def test_amounts_words_and_keys_are_checked(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TopicSource.model_validate({"topic": "X", **given})


def test_amount_wins_over_limit_and_limit_warns() -> None:
    source = TopicSource(topic="X", amount=2, limit=9, priority="low")
    assert source.most == 2
    assert source_warnings(source) == ["X: limit is the deprecated name of amount, which wins over it"]
    alone = TopicSource(topic="X", limit=9, priority="low")
    assert (alone.most, source_warnings(alone)) == (9, ["X: limit is the deprecated name of amount"])


def test_a_selection_without_amount_warns() -> None:
    source = TopicSource(topic="X", strategy="latest", priority="low")
    assert source_warnings(source) == ["X: the selection latest has no amount, so all messages are taken"]
