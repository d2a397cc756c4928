"""A request opened again is the request that was sent, byte for byte."""

from __future__ import annotations

import sqlite3
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
from zoea.settings import Settings

ROOMY = {"nudge": {"enabled": False}, "context": {"context_window": 32_000}}
QUIET = {"nudge": {"enabled": False}}
LONG = "x" * 9_000 + "middle" + "y" * 9_000


def plain(messages: tuple[RequestMessage, ...]) -> list[object]:
    """Everything of a message that reaches a provider."""
    return [
        (m.role, m.content, m.calls, m.call_id, m.name, m.is_error, m.reasoning, m.native, m.memory_id, m.source)
        for m in messages
    ]


def all_of(path: Path, mysis_id: int = 1) -> list[Inspection]:
    """Every request of a mysis, oldest first."""
    return [inspect_request(path, request.id) for request in reversed(read_requests(path, mysis_id))]


async def play(inner: Swarm, *prompts: str) -> None:
    """Say these and wait for each answer; time passes where a retry is due."""
    for prompt in prompts:
        await inner.commander.send("alpha", prompt)
        await inner.settled_in_time()


def working() -> Rule:
    """A model that looks, acts with a long result, fails once, and answers."""
    return script(
        Answer(text="First a look [/] \x1b[31m", reasoning="I should look.", calls=(call("look", LONG), call("act"))),
        ProviderError("429 too many", kind=ErrorClass.TRANSIENT, retry_after=0.0),
        Answer(calls=(call("say_ticks", "list[int]"),)),
        Answer(text="Done: 漢字 ⬡"),
    )


async def test_the_messages_are_those_that_the_provider_got_also_after_a_restart_and_with_other_settings(
    tmp_path: Path,
) -> None:
    sent: list[ModelRequest] = []
    first = Settings.model_validate(ROOMY)
    async with swarm(tmp_path, working(), settings=first) as inner:
        await inner.commander.create("alpha")
        await play(inner, "Mine the belt", "Mine\u2028again \ud800 NUL\x00")
        sent += inner.provider.requests
        path = inner.path
    other = Settings.model_validate(
        QUIET | {"context": {"context_window": 12_000, "keep_answer": False}, "budget": {"max_output_tokens": 64}}
    )
    async with swarm(tmp_path, working(), settings=other, clock=HandClock(1_700_000_900_000_000)) as inner:
        await inner.commander.start("alpha")
        await play(inner, "And now with other settings")
        sent += inner.provider.requests
    found = all_of(path)
    assert len(found) == len(sent) > 6
    for inspection, request in zip(found, sent, strict=True):
        assert plain(inspection.messages) == plain(request.messages)
        assert [tool.name for tool in inspection.tools] == [tool.name for tool in request.tools]


async def test_a_request_says_what_it_came_to(tmp_path: Path) -> None:
    async with swarm(tmp_path, working(), settings=Settings.model_validate(ROOMY)) as inner:
        await inner.commander.create("alpha")
        await play(inner, "Mine the belt")
        found = all_of(inner.path)
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
        await play(inner, "Mine the belt")
        await inner.store.write(lambda conn: conn.execute("UPDATE calibration SET ratio = 0.5, samples = 9").rowcount)
        await play(inner, "Mine it again")
        *_, found = all_of(inner.path)
    assert found.plan is not None
    assert found.request.calibration == 0.5
    assert found.request.planned_tokens == found.plan.budget.final_tokens < found.request.estimated_tokens
    assert sum(sent.tokens for sent in found.sent) <= found.request.planned_tokens


async def test_old_plans_are_gone_and_said_to_be(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="yes")), settings=Settings.model_validate(QUIET)) as inner:
        await inner.commander.create("alpha")
        await play(inner, "one", "two")
        path = inner.path
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE request SET plan = NULL WHERE id = 1")
    connection.close()
    thinned, whole = inspect_request(path, 1), inspect_request(path, 2)
    assert thinned.plan is None
    assert "plans older than 200 requests" in thinned.gone
    assert thinned.messages == ()
    assert thinned.tools == whole.tools
    assert whole.gone == ""


async def test_requests_are_read_newest_first_and_a_page_at_a_time(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="yes")), settings=Settings.model_validate(QUIET)) as inner:
        await inner.commander.create("alpha")
        await play(inner, "one", "two", "three")
        path = inner.path
    assert [request.id for request in read_requests(path, 1, limit=2)] == [3, 2]
    assert [request.id for request in read_requests(path, 1, before=2)] == [1]
    assert [request.id for request in read_requests_since(path, 1, 2)] == [3, 2]
    assert read_requests(path, 9) == ()
    with pytest.raises(UsageError, match="no request 77"):
        inspect_request(path, 77)


async def test_a_plan_that_cannot_be_read_is_an_error_and_one_whose_memory_is_gone_says_so(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="yes")), settings=Settings.model_validate(QUIET)) as inner:
        await inner.commander.create("alpha")
        await play(inner, "one", "two")
        path = inner.path
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE request SET plan = x'00ff' WHERE id = 1")
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("DELETE FROM memory WHERE id = 3")
    connection.close()
    with pytest.raises(StoreError, match="cannot be read"):
        inspect_request(path, 1)
    assert "is gone" in inspect_request(path, 2).gone
