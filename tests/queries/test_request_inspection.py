"""A stored request equals the request that was sent, byte for byte."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.fakes.llm_clock import HandClock
from tests.swarm.harness import Swarm, call, script, swarm
from zoea.context import explain
from zoea.llm.providers.scripted import Rule
from zoea.model.enums import ErrorClass, Role
from zoea.model.errors import ProviderError, StoreError, UsageError
from zoea.model.request import Answer, ModelRequest, RequestMessage
from zoea.queries.request_inspection import Inspection, inspect_request, read_requests, read_requests_since
from zoea.settings.schema import Settings
from zoea.swarm.persistence import spend_ops

ROOMY = {"nudge": {"enabled": False}, "context": {"context_window": 32_000}}
QUIET = {"nudge": {"enabled": False}}
LONG = "x" * 9_000 + "middle" + "y" * 9_000


def comparable(messages: tuple[RequestMessage, ...]) -> list[object]:
    """The parts of the messages that reach a provider."""
    return [
        (m.role, m.content, m.calls, m.call_id, m.name, m.is_error, m.reasoning, m.native, m.memory_id, m.source)
        for m in messages
    ]


def inspect_all(path: Path, mysis_id: int = 1) -> list[Inspection]:
    """Every request of a mysis, oldest first."""
    return [inspect_request(path, request.id) for request in reversed(read_requests(path, mysis_id))]


async def send_prompts(inner: Swarm, *prompts: str) -> None:
    """Send prompts and wait for each answer; advance the clock for retries."""
    for prompt in prompts:
        await inner.commander.send("alpha", prompt)
        await inner.settled_in_time()


def working_model() -> Rule:
    """A model that looks, acts with a long result, fails once, and answers."""
    return script(
        Answer(text="First a look [/] \x1b[31m", reasoning="I should look.", calls=(call("look", LONG), call("act"))),
        ProviderError("429 too many", kind=ErrorClass.TRANSIENT, retry_after=0.0),
        Answer(calls=(call("say_ticks", "list[int]"),)),
        Answer(text="Done: 漢字 ⬡"),
    )


async def test_the_messages_equal_the_sent_ones_also_after_a_restart_with_other_settings(tmp_path: Path) -> None:
    sent: list[ModelRequest] = []
    first = Settings.model_validate(ROOMY)
    async with swarm(tmp_path, working_model(), settings=first) as inner:
        await inner.commander.create("alpha")
        await send_prompts(inner, "Mine the belt", "Mine\u2028again \ud800 NUL\x00")
        sent += inner.provider.requests
        path = inner.path
    other = Settings.model_validate(
        QUIET | {"context": {"context_window": 12_000, "keep_answer": False}, "budget": {"max_output_tokens": 64}}
    )
    async with swarm(tmp_path, working_model(), settings=other, clock=HandClock(1_700_000_900_000_000)) as inner:
        await inner.commander.start("alpha")
        await send_prompts(inner, "And now with other settings")
        sent += inner.provider.requests
    found = inspect_all(path)
    assert len(found) == len(sent) > 6
    for inspection, request in zip(found, sent, strict=True):
        assert comparable(inspection.messages) == comparable(request.messages)
        assert [tool.name for tool in inspection.tools] == [tool.name for tool in request.tools]


async def test_a_request_has_its_outcome_and_usage(tmp_path: Path) -> None:
    async with swarm(tmp_path, working_model(), settings=Settings.model_validate(ROOMY)) as inner:
        await inner.commander.create("alpha")
        await send_prompts(inner, "Mine the belt")
        found = inspect_all(inner.path)
    looked, refused, *rest = found
    assert (looked.request.turn_number, looked.request.iteration, looked.request.attempt) == (1, 1, 1)
    assert looked.request.finish_reason == "calls"
    assert looked.request.off_by is not None
    assert refused.request.error_class == "transient"
    assert refused.request.off_by is None
    assert rest[0].request.attempt == 2
    assert looked.plan is not None
    assert "messages" in explain(looked.plan)
    assert {sent.form for sent in found[-1].sent if sent.message.role is Role.TOOL} <= {"full", "cut", "superseded"}


async def test_plan_messages_and_comparison_are_counted_on_one_scale(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="yes")), settings=Settings.model_validate(QUIET)) as inner:
        await inner.commander.create("alpha")
        await send_prompts(inner, "Mine the belt")
        await inner.store.write(lambda conn: conn.execute("UPDATE calibration SET ratio = 0.8, samples = 9").rowcount)
        await send_prompts(inner, "Mine it again")
        *_, found = inspect_all(inner.path)
    assert found.plan is not None
    assert found.request.calibration == 0.8
    assert found.request.planned_tokens == found.plan.budget.final_tokens < found.request.estimated_tokens
    assert sum(sent.tokens for sent in found.sent) <= found.request.planned_tokens


async def test_a_request_without_plan_gives_the_reason(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="yes")), settings=Settings.model_validate(QUIET)) as inner:
        await inner.commander.create("alpha")
        await send_prompts(inner, "one", "two")
        path = inner.path
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE request SET plan = NULL WHERE id = 1")
    thinned, whole = inspect_request(path, 1), inspect_request(path, 2)
    assert thinned.plan is None
    assert "plans older than 200 requests" in thinned.gone
    assert thinned.messages == ()
    assert thinned.tools == whole.tools
    assert whole.gone == ""


async def test_the_newest_plans_are_kept_and_older_ones_dropped_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spend_ops, "KEPT_PLANS", 3)
    monkeypatch.setattr(spend_ops, "PLANS_AT_ONCE", 4)
    kept = []
    async with swarm(tmp_path, script(Answer(text="yes")), settings=Settings.model_validate(QUIET)) as inner:
        await inner.commander.create("alpha")
        for number in range(12):
            await send_prompts(inner, str(number))
            rows = await inner.store.read("SELECT id FROM request WHERE plan IS NOT NULL ORDER BY id")
            kept.append([row["id"] for row in rows])
    assert kept[6] == [2, 3, 4, 5, 6, 7]
    assert kept[7] == [6, 7, 8]
    assert kept[11] == [10, 11, 12]


async def test_requests_are_read_newest_first_by_pages(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="yes")), settings=Settings.model_validate(QUIET)) as inner:
        await inner.commander.create("alpha")
        await send_prompts(inner, "one", "two", "three")
        path = inner.path
    assert [request.id for request in read_requests(path, 1, limit=2)] == [3, 2]
    assert [request.id for request in read_requests(path, 1, before=2)] == [1]
    assert [request.id for request in read_requests_since(path, 1, 2)] == [3, 2]
    assert read_requests(path, 9) == ()
    with pytest.raises(UsageError, match="no request 77"):
        inspect_request(path, 77)


async def test_a_damaged_plan_is_an_error_and_a_missing_memory_is_reported(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="yes")), settings=Settings.model_validate(QUIET)) as inner:
        await inner.commander.create("alpha")
        await send_prompts(inner, "one", "two")
        path = inner.path
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE request SET plan = x'00ff' WHERE id = 1")
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("DELETE FROM memory WHERE id = 3")
    with pytest.raises(StoreError, match="cannot be read"):
        inspect_request(path, 1)
    assert "is gone" in inspect_request(path, 2).gone


async def test_a_request_says_what_its_limit_of_tokens_comes_from(tmp_path: Path) -> None:
    said = []
    for window in (32_000, 64_000):
        settings = Settings.model_validate(QUIET | {"context": {"context_window": window}})
        folder = tmp_path / str(window)
        folder.mkdir()
        async with swarm(folder, script(Answer(text="yes")), settings=settings) as inner:
            await inner.commander.create("alpha")
            await send_prompts(inner, "Mine the belt")
            said += [found.limit for found in inspect_all(inner.path)]
    assert said == [
        "limit: the window (32k, assumed) less the longest answer (4k)",
        'limit: the setting "Tokens per request"',
    ]
