"""Troubles of a request name the topic that has them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.swarm.harness import script, swarm
from tests.swarm.test_builtin_backend import templates
from zoea.model.request import Answer
from zoea.queries.request_inspection import inspect_request
from zoea.queries.request_troubles import find_troubles
from zoea.settings.schema import Settings

QUIET = Settings.model_validate({"nudge": {"enabled": False}})
WORKER = """
subscribes = ["GO"]
[context_strategy]
sources = [
  { topic = "PLAN_READY", priority = "required", amount = 1 },
  { topic = "PLAN", priority = "required", strategy = "latest" },
]
"""
OLDEST = """
subscribes = ["GO"]
[context_strategy]
sources = [
  { topic = "PLAN", priority = "high", strategy = "all", amount = 2 },
  { topic = "ISSUE", priority = "high", strategy = "oldest", amount = 1 },
]
"""


async def test_a_trouble_of_one_topic_is_not_told_of_another_whose_name_begins_alike(tmp_path: Path) -> None:
    known = templates(tmp_path, worker=WORKER)
    async with swarm(tmp_path, script(Answer(text="Done.")), settings=QUIET, templates=known) as s:
        await s.commander.create("wanda", template="worker", start=False)
        await s.commander.publish("PLAN", "Fix the cookie.")
        await s.commander.publish("GO", "Go.")
        await s.settled("wanda")
        found = find_troubles(s.path, inspect_request(s.path, 1))
    assert [(one.symptom, one.cause) for one in found] == [
        ("missing anchor", "no message on PLAN_READY counts for this source"),
        ("stale messages", "the source of PLAN has no amount, so it shows all its messages, oldest first"),
    ]


async def test_a_topic_whose_message_opened_the_turn_is_not_missing(tmp_path: Path) -> None:
    known = templates(tmp_path, worker=WORKER.replace('["GO"]', '["PLAN_READY"]'))
    async with swarm(tmp_path, script(Answer(text="Done.")), settings=QUIET, templates=known) as s:
        await s.commander.create("wanda", template="worker", start=False)
        await s.commander.publish("PLAN", "Fix the cookie.")
        await s.commander.publish("PLAN_READY", "Go.")
        await s.settled("wanda")
        found = find_troubles(s.path, inspect_request(s.path, 1))
    assert "missing anchor" not in [one.symptom for one in found]


async def test_a_source_of_the_oldest_messages_is_stale_only_where_newer_ones_are_left_out(tmp_path: Path) -> None:
    known = templates(tmp_path, worker=OLDEST)
    async with swarm(tmp_path, script(Answer(text="Done.")), settings=QUIET, templates=known) as s:
        await s.commander.create("wanda", template="worker", start=False)
        await s.commander.publish("ISSUE", "The cookie is lost.")
        for number in range(3):
            await s.commander.publish("PLAN", f"Plan {number}.")
        await s.commander.publish("GO", "Go.")
        await s.settled("wanda")
        found = find_troubles(s.path, inspect_request(s.path, 1))
    assert [(one.symptom, one.cause) for one in found] == [
        ("stale messages", 'the source of PLAN has strategy = "all", so it shows the oldest 2 of 3 messages')
    ]


async def test_a_recalled_memory_that_is_cut_is_no_trouble_because_no_setting_shows_more(tmp_path: Path) -> None:
    settings = Settings.model_validate({"nudge": {"enabled": False}, "context": {"keep_turns": 0, "recall_items": 3}})
    async with swarm(tmp_path, script(Answer(text="Done."), Answer(text="Again.")), settings=settings) as s:
        await s.ask("alpha", "The heron stands in the reeds. " * 100)
        for _ in range(4):
            await s.ask("alpha", "Go on.")
        await s.ask("alpha", "Where does the heron stand?")
        inspection = inspect_request(s.path, 6)
        assert inspection.plan is not None
        assert "recall" in {step.pack for step in inspection.plan.steps}
        assert find_troubles(s.path, inspection) == ()


async def test_a_request_that_a_budget_refused_names_the_budget_and_what_to_raise(tmp_path: Path) -> None:
    bounded = {"enforcement": "hard", "token_budget_per_agent": 1_000, "token_budget_per_task": 1_000}
    settings = Settings.model_validate({"nudge": {"enabled": False}, "budget": bounded})
    async with swarm(tmp_path, script(Answer(text="Done.")), settings=settings) as s:
        await s.ask("alpha", "Go.")
        found, *_ = find_troubles(s.path, inspect_request(s.path, 1))
    assert found.symptom == "budget exceeded"
    assert re.match(r"Task budget exceeded: [\d,]+/1,000 tokens; 1,000 left, this request needs ", found.cause)
    assert found.remedy.startswith("raise budget.token_budget_per_task")


@pytest.mark.parametrize(
    ("session", "messages", "cause", "remedy"),
    [
        ({"compression_trigger_ratio": 0.75}, 2, "", ""),
        ({"compression_trigger_ratio": 0.75, "recents_count": 60}, 12, "", ""),
        (
            {"compression_trigger_ratio": 0.1},
            3,
            "the conversation has only 4 messages; a summary needs 21",
            "raise budget.token_budget_per_agent",
        ),
        (
            {"compression_trigger_ratio": 0.1, "recents_count": 60},
            12,
            "its first and newest messages, which stay word for word, are all there is",
            "lower session.primers_count or session.recents_count",
        ),
    ],
)
async def test_a_missing_summary_is_a_trouble_only_over_the_trigger(
    tmp_path: Path, session: dict[str, Any], messages: int, cause: str, remedy: str
) -> None:
    settings = Settings.model_validate(
        {
            "context": {"strategy": "window", "summary": "extract"},
            "nudge": {"enabled": False},
            "session": session,
            "budget": {"token_budget_per_agent": 9_000},
        }
    )
    async with swarm(tmp_path, script(Answer(text="Noted. " * 40)), settings=settings) as s:
        await s.commander.create("alpha", start=False)
        for number in range(messages):
            await s.ask("alpha", f"Message {number}. " * 12)
        newest = await s.value("SELECT max(id) FROM request")
        found = [one for one in find_troubles(s.path, inspect_request(s.path, newest)) if one.symptom == "no summary"]
    assert [cause in one.cause and one.remedy.startswith(remedy) for one in found] == [True] * bool(cause)


@pytest.mark.parametrize(
    ("session", "budget", "repeated", "cause", "remedy"),
    [
        ({}, 50_000, 12, "longer than its window of 5 messages", "raise session.context_window_default"),
        (
            {"context_window_default": 50, "compression_trigger_ratio": 0.1},
            9_000,
            12,
            "took 10% of the budget or more",
            "raise the budget, session.primers_count",
        ),
        (
            {"context_window_default": 50, "recents_count": 40},
            6_500,
            100,
            "the rest did not fit: ",
            "raise budget.token_budget_per_agent",
        ),
    ],
)
async def test_the_remedy_for_a_summary_of_the_middle_is_that_for_its_cause(
    tmp_path: Path, session: dict[str, Any], budget: int, repeated: int, cause: str, remedy: str
) -> None:
    settings = Settings.model_validate(
        {
            "context": {"strategy": "window", "summary": "extract"},
            "nudge": {"enabled": False},
            "session": {"context_window_default": 5, "primers_count": 2, "recents_count": 4, **session},
            "budget": {"token_budget_per_agent": budget},
        }
    )
    async with swarm(tmp_path, script(Answer(text="Noted. " * 40)), settings=settings) as s:
        await s.commander.create("alpha", start=False)
        for number in range(14):
            await s.ask("alpha", f"Message {number}. " * repeated)
        newest = await s.value("SELECT max(id) FROM request")
        [found] = [
            one
            for one in find_troubles(s.path, inspect_request(s.path, newest))
            if one.symptom == "only a summary of the middle"
        ]
    assert cause in found.cause
    assert found.remedy.startswith(remedy)
