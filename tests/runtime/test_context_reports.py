"""Sizes of requests as lines and on a topic; and no text of any message where only numbers belong."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from tests.swarm.harness import call, script, swarm
from zoea.model.enums import ApprovalAnswer, ErrorClass
from zoea.model.errors import ProviderError
from zoea.model.request import Answer
from zoea.model.topics import METRICS_TOPIC
from zoea.queries.topic_ledger import read_messages
from zoea.runtime.context_reports import build_context_report
from zoea.runtime.swarm_metrics import SwarmMetrics
from zoea.settings import Settings

CANARY = "canary-8153-okapi"
BOTH = {"ZOEA_CONTEXT_METRICS": "1", "ZEROSHOT_CONTEXT_METRICS_LEDGER": "true"}


def read_logs(folder: Path) -> str:
    return "".join(file.read_text("utf-8", "replace") for file in folder.glob("*.log"))


async def test_nothing_is_reported_unless_it_is_asked_for(tmp_path: Path) -> None:
    async with swarm(tmp_path) as s:
        assert build_context_report(s.commander, {}) is None
        assert build_context_report(s.commander, {"ZOEA_CONTEXT_METRICS": "0"}) is None


@pytest.mark.parametrize("strategy", ["turns", "window"])
async def test_each_request_is_reported_once_and_its_packs_sum_up(tmp_path: Path, strategy: str) -> None:
    lines: list[str] = []
    rules = script(Answer(calls=(call("look"),)), Answer(text="done"))
    settings = Settings.model_validate({"context": {"strategy": strategy}})
    async with swarm(tmp_path, rules, settings=settings) as s:
        s.commander.services.report_context = build_context_report(s.commander, BOTH, lines.append)
        await s.commander.create("alpha", start=False)
        await s.commander.send("alpha", "go")
        await s.settled()
        found = [json.loads(line.removeprefix("[ContextMetrics] ")) for line in lines]
        assert [one["request"] for one in found] == [1, 2]
        for one in found:
            assert one["tokens"] == sum(pack["tokens"] for pack in one["packs"]) == one["budget"]["final_tokens"]
            assert one["chars"] == sum(pack["chars"] for pack in one["packs"])
        assert [message.data for message in read_messages(s.path, METRICS_TOPIC, limit=9)] == found


async def test_no_text_of_a_message_is_in_an_event_a_metric_a_log_or_a_report(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    lines: list[str] = []
    rules = script(
        Answer(text=CANARY, reasoning=CANARY, calls=(call("look", CANARY), call("burn", CANARY))),
        ProviderError("busy", kind=ErrorClass.TRANSIENT),
        Answer(text=f"The answer is {CANARY}."),
    )
    settings = Settings.model_validate({"session": {"context_window_default": 5}, "context": {"strategy": "window"}})
    async with swarm(tmp_path, rules, settings=settings) as s:
        s.commander.services.report_context = build_context_report(s.commander, BOTH, lines.append)
        await s.commander.create("alpha", start=False)
        await s.commander.send("alpha", f"Remember {CANARY}.", is_task=True)
        await s.until(lambda: s.commander.live_view.row(1).approvals)
        [question] = await s.commander.approvals()
        await s.commander.answer(question.id, ApprovalAnswer.DENIED, sentence=CANARY)
        await s.settled_in_time()
        await s.commander.broadcast(CANARY)
        await s.settled_in_time()
        events = await s.rows("SELECT data FROM event")
        texts = {
            "events": json.dumps(events),
            "metrics": SwarmMetrics(s.path, Settings, s.clock.now).render().decode(),
            "lines": "\n".join(lines),
            "ledger": json.dumps([one.data for one in read_messages(s.path, METRICS_TOPIC, limit=99)]),
            "log": caplog.text,
            "upstream logs": read_logs(tmp_path),
        }
    assert events
    assert lines
    assert [name for name, text in texts.items() if CANARY in text] == []
