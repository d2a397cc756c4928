"""Troubles of a request name the topic that has them."""

from __future__ import annotations

from pathlib import Path

from tests.swarm.harness import script, swarm
from tests.swarm.test_builtin_backend import templates
from zoea.model.request import Answer
from zoea.queries.request_inspection import inspect_request
from zoea.queries.request_troubles import find_troubles
from zoea.settings import Settings

QUIET = Settings.model_validate({"nudge": {"enabled": False}})
WORKER = """
subscribes = ["GO"]
[context_strategy]
sources = [
  { topic = "PLAN_READY", priority = "required", amount = 1 },
  { topic = "PLAN", priority = "required", strategy = "latest" },
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
