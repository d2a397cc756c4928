"""Sizes of requests are lines and messages on a topic. No text of a message is where only numbers belong."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.swarm.harness import Swarm, call, script, swarm
from tests.swarm.test_builtin_backend import templates
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.enums import ApprovalAnswer, ErrorClass
from zoea.model.errors import ProviderError
from zoea.model.request import Answer, ModelRequest
from zoea.model.topics import METRICS_TOPIC
from zoea.queries.topic_ledger import read_messages
from zoea.runtime.context_reports import build_context_report
from zoea.runtime.swarm_metrics import SwarmMetrics
from zoea.settings.schema import Settings

CANARY = "canary-8153-okapi"
BOTH = {"ZOEA_CONTEXT_METRICS": "1", "ZEROSHOT_CONTEXT_METRICS_LEDGER": "true"}


def read_logs(folder: Path) -> str:
    return "".join(file.read_text("utf-8", "replace") for file in folder.glob("*.log"))


async def test_nothing_is_reported_unless_it_is_asked_for(tmp_path: Path) -> None:
    async with swarm(tmp_path) as s:
        assert build_context_report(s.commander, {}) is None
        assert build_context_report(s.commander, {"ZOEA_CONTEXT_METRICS": "0"}) is None


@pytest.mark.parametrize("name", ["ZOEA_CONTEXT_METRICS", "ZEROSHOT_CONTEXT_METRICS"])
@pytest.mark.parametrize("ledger", ["", "_LEDGER"])
async def test_either_name_of_a_variable_asks_for_reports(tmp_path: Path, name: str, ledger: str) -> None:
    lines: list[str] = []
    async with swarm(tmp_path, script(Answer(text="done"))) as s:
        report = build_context_report(s.commander, {f"{name}{ledger}": "1"}, lines.append)
        s.commander.swarm.services.report_context = report
        await s.ask("alpha", "go")
        published = await s.value(f"SELECT count(*) FROM topic_message WHERE topic = '{METRICS_TOPIC}'")
        assert (len(lines), published) == ((0, 1) if ledger else (1, 0))


@pytest.mark.parametrize("strategy", ["turns", "window"])
async def test_each_request_is_reported_once_and_its_packs_sum_up(tmp_path: Path, strategy: str) -> None:
    lines: list[str] = []
    rules = script(Answer(calls=(call("look"),)), Answer(text="done"))
    async with swarm(tmp_path, rules, settings=Settings.model_validate({"context": {"strategy": strategy}})) as s:
        s.commander.swarm.services.report_context = build_context_report(s.commander, BOTH, lines.append)
        await s.ask("alpha", "go")
        found = [json.loads(line.removeprefix("[ContextMetrics] ")) for line in lines]
        assert [one["request"] for one in found] == [1, 2]
        for one in found:
            assert one["tokens"] == sum(pack["tokens"] for pack in one["packs"]) == one["budget"]["final_tokens"]
            assert one["chars"] == sum(pack["chars"] for pack in one["packs"])
        assert [message.data for message in read_messages(s.path, METRICS_TOPIC, limit=9)] == found


async def read_reports(s: Swarm, lines: list[str], log: str) -> dict[str, str]:
    """Return by name all that holds numbers, ids and fixed texts only."""
    events = await s.rows("SELECT data FROM event")
    assert events
    assert lines
    return {
        "events": json.dumps(events),
        "metrics": SwarmMetrics(s.path, Settings, s.clock.now).render().decode(),
        "lines": "\n".join(lines),
        "ledger": json.dumps([one.data for one in read_messages(s.path, METRICS_TOPIC, limit=99)]),
        "log": log,
        "upstream logs": read_logs(s.path.parent),
    }


@asynccontextmanager
async def hear_events(s: Swarm) -> AsyncIterator[list[str]]:
    """Collect the data of all events that fronts hear, those without a row included."""
    heard: list[str] = []

    async def listen() -> None:
        async for item in s.commander.events(0):
            heard.append(repr(item))

    listener = asyncio.create_task(listen())
    await s.until(lambda: s.commander.swarm.services.events.is_heard)
    yield heard
    listener.cancel()


@pytest.mark.parametrize("strategy", ["turns", "window"])
async def test_no_text_of_a_message_is_in_an_event_a_metric_a_log_or_a_report(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, strategy: str
) -> None:
    caplog.set_level(logging.INFO)
    lines: list[str] = []
    rules = script(
        Answer(text=CANARY, reasoning=CANARY, calls=(call("look", CANARY), call("burn", CANARY))),
        ProviderError("busy", kind=ErrorClass.TRANSIENT),
        Answer(text=f"The answer is {CANARY}."),
    )
    settings = Settings.model_validate(
        {"session": {"context_window_default": 5}, "context": {"strategy": strategy, "recall_items": 3}}
    )
    async with swarm(tmp_path, rules, settings=settings) as s, hear_events(s) as heard:
        s.commander.swarm.services.report_context = build_context_report(s.commander, BOTH, lines.append)
        await s.commander.create("alpha", start=False)
        await s.commander.send("alpha", f"Remember {CANARY}.", is_task=True)
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals)
        [question] = await s.commander.approvals()
        await s.commander.answer(question.id, ApprovalAnswer.DENIED, sentence=CANARY)
        await s.settled_in_time()
        await s.commander.broadcast(CANARY)
        await s.settled_in_time()
        texts = await read_reports(s, lines, caplog.text) | {"live events": "".join(heard)}
    assert [name for name, text in texts.items() if CANARY in text] == []


def shown_in(s: Swarm, title: str) -> bool:
    """Return whether a message with this title brought the canary into a request."""
    messages = (message.content for request in s.provider.requests for message in request.messages)
    return any(title in content and CANARY in content for content in messages)


@pytest.mark.parametrize("strategy", ["turns", "window"])
async def test_no_text_of_what_is_recalled_or_summarised_is_in_a_report(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, strategy: str
) -> None:
    caplog.set_level(logging.INFO)
    lines: list[str] = []

    def reply(request: ModelRequest) -> Answer | ProviderError:
        if not request.messages[0].content.startswith("You write the memory"):
            return Answer(text="Noted.")
        return summaries.pop(0) if summaries else Answer(text=f"They keep {CANARY}.")

    summaries: list[Answer | ProviderError] = [ProviderError(f"no {CANARY}", kind=ErrorClass.BAD_REQUEST)]
    settings = Settings.model_validate(
        {
            "session": {"context_window_default": 5, "primers_count": 1, "recents_count": 4},
            "context": {"strategy": strategy, "summary": "model", "recall_items": 3},
            "nudge": {"enabled": False},
            "llm": {"retries": 0},
        }
    )
    async with swarm(tmp_path, provider=ScriptedProvider(reply, metered=True), settings=settings) as s:
        async with hear_events(s) as heard:
            s.commander.swarm.services.report_context = build_context_report(s.commander, BOTH, lines.append)
            await s.commander.create("alpha", start=False)
            rains = 60 if strategy == "window" else 15  # the second summary comes after so many
            for text in ("Hello.", f"Decision: the {CANARY} lies in bay four.", *["It rains."] * rains):
                await s.ask("alpha", text)
                s.clock.by(200)
            await s.ask("alpha", f"Where does the {CANARY[:6]} lie, in which bay?")
            texts = await read_reports(s, lines, caplog.text) | {"live events": "".join(heard)}
        assert shown_in(s, "summary" if strategy == "window" else "bay four")
        assert await s.value("SELECT count(*) FROM event WHERE kind = 'context.recalled'")
        if strategy == "window":
            outcomes = {row["state"] for row in await s.rows("SELECT state FROM request WHERE purpose = 'summary'")}
            assert outcomes == {"settled", "released"}, "one summary was refused by its model"
    assert [name for name, text in texts.items() if CANARY in text] == []


ROLES = {
    "planner": """
role = "planner"
subscribes = ["ISSUE_OPENED"]
publishes = "PLAN_READY"
[context_strategy]
[output_schema]
type = "object"
required = ["summary"]
""",
    "validator": """
role = "validator"
subscribes = ["PLAN_READY"]
[context_strategy]
sources = [
  { topic = "ISSUE_OPENED", priority = "required", strategy = "latest", amount = 1 },
  { topic = "STATE_SNAPSHOT", priority = "required", strategy = "latest", amount = 1 },
]
""",
}


async def test_no_text_of_a_topic_is_in_a_report(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    lines: list[str] = []
    rules = script(
        Answer(text=f"No JSON: {CANARY}"),
        Answer(text=json.dumps({"summary": CANARY, "steps": [CANARY]})),
        Answer(text=f"Checked {CANARY}."),
    )
    settings = Settings.model_validate({"nudge": {"enabled": False}})
    async with swarm(tmp_path, rules, settings=settings, templates=templates(tmp_path, **ROLES)) as s:
        async with hear_events(s) as heard:
            s.commander.swarm.services.report_context = build_context_report(s.commander, BOTH, lines.append)
            await s.commander.create("petra", template="planner", start=False)
            await s.commander.create("vera", template="validator", start=False)
            unchecked = {"id": "A1", "status": "CANNOT_VALIDATE", "reason": CANARY}
            await s.commander.publish("VALIDATION_RESULT", CANARY, data={"criteria_results": [unchecked]})
            await s.commander.publish("ISSUE_OPENED", CANARY, data={"title": CANARY})
            await s.settled("petra")
            await s.settled("vera")
            texts = await read_reports(s, lines, caplog.text) | {"live events": "".join(heard)}
        for title in ("topic ISSUE_OPENED", "topic: STATE_SNAPSHOT", "topic PLAN_READY", "validate these again"):
            assert shown_in(s, title), title
        assert await s.value("SELECT count(*) FROM event WHERE kind = 'turn.note'"), "the output was asked for again"
    assert [name for name, text in texts.items() if CANARY in text] == []
