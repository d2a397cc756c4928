"""A model writes the summary of a window: by an effect of its own, checked, bounded, and never asked twice."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from tests.fakes.llamacpp_server import LISTED, PROPS
from tests.fakes.openai_server import NEVER, Fail, OpenAIServer, Say, Step
from tests.fakes.wire_server import Received
from tests.swarm.harness import OneProvider, Swarm, script, swarm
from zoea.context.window.conversation_summary import TITLE
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.providers.openai_provider import OpenAIProvider
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.enums import ErrorClass, Finish, Role
from zoea.model.errors import ProviderError
from zoea.model.request import Answer, ModelInfo, ModelRequest
from zoea.model.values import Usage
from zoea.process.clock import SystemClock
from zoea.queries.request_inspection import inspect_request
from zoea.queries.request_summary import read_newest_request
from zoea.queries.status_phrases import describe_status
from zoea.settings.schema import Settings

PROSE = "They number records. A record is kept safe."


def settings(summary: str = "model", **context: Any) -> Settings:
    return Settings.model_validate(
        {
            "context": {"strategy": "window", "summary": summary, **context},
            "nudge": {"enabled": False},
            "llm": {"retries": 0},
            "session": {"context_window_default": 5, "primers_count": 2, "recents_count": 4},
        }
    )


def is_summary(request: ModelRequest) -> bool:
    return request.messages[0].content.startswith("You write the memory")


def model(reply: Callable[[ModelRequest], Answer | ProviderError] = lambda _: Answer(text=PROSE)) -> ScriptedProvider:
    """A model that counts its answers, and writes summaries as `reply` says."""
    counts = script(*[Answer(text=f"answer {n}") for n in range(1, 30)])
    rule = lambda request: reply(request) if is_summary(request) else counts(request)  # noqa: E731  two scripts in one
    return ScriptedProvider(rule, metered=True)


async def talk(s: Swarm, first: int, last: int) -> None:
    for number in range(first, last + 1):
        await s.ask("alpha", f"number {number}: keep record rec-{number:04d}x safe.")


def told(s: Swarm) -> str:
    """The summary in the newest request of a turn."""
    request = next(one for one in reversed(s.provider.requests) if not is_summary(one))
    return next((message.content for message in request.messages if TITLE in message.content), "")


def asked(s: Swarm) -> list[ModelRequest]:
    return [one for one in s.provider.requests if is_summary(one)]


async def test_a_model_writes_the_summary_and_what_it_lost_is_appended(tmp_path: Path) -> None:
    async with swarm(tmp_path, provider=model(), settings=settings()) as s:
        await talk(s, 1, 6)

        assert PROSE in told(s)
        assert "rec-0002x" in told(s)
        first = asked(s)[0]
        assert [message.role for message in first.messages] == [Role.SYSTEM, Role.USER]
        assert "rec-0002x" in first.messages[1].content
        assert not first.tools
        rows = await s.rows("SELECT * FROM request WHERE purpose = 'summary' ORDER BY id")
        assert len(rows) == len(asked(s))
        assert {row["state"] for row in rows} == {"settled"}
        assert all(row["plan"] is None and row["turn_id"] for row in rows)
        assert (await s.rows("SELECT model FROM summary ORDER BY id DESC LIMIT 1"))[0]["model"]


async def test_a_mysis_says_that_earlier_messages_are_being_summarised(tmp_path: Path) -> None:
    told: list[str] = []
    running: list[Swarm] = []

    def reply(_: ModelRequest) -> Answer:
        told.append(describe_status(running[0].commander.swarm.live_view.row(1).freeze(), 0))
        return Answer(text=PROSE)

    async with swarm(tmp_path, provider=model(reply), settings=settings()) as s:
        running.append(s)
        await talk(s, 1, 6)
        assert set(told) == {"working (summarises earlier messages)"}
        assert not s.commander.swarm.live_view.row(1).freeze().is_summarising


async def test_a_later_summary_extends_the_former_one(tmp_path: Path) -> None:
    written = iter(f"memory {n}." for n in range(1, 99))
    async with swarm(tmp_path, provider=model(lambda _: Answer(text=next(written))), settings=settings()) as s:
        await talk(s, 1, 60)
        requests = asked(s)
        assert len(requests) > 1
        assert "memory 1." in requests[1].messages[1].content
        assert "rec-0002x" not in requests[1].messages[1].content


async def test_the_spending_of_a_summary_counts_and_the_tally_of_turns_does_not(tmp_path: Path) -> None:
    async with swarm(
        tmp_path,
        provider=model(lambda _: Answer(text=PROSE, usage=Usage(input_tokens=700, output_tokens=77))),
        settings=settings(),
    ) as s:
        await talk(s, 1, 6)
        summaries = await s.value("SELECT count(*) FROM request WHERE purpose = 'summary'")
        turns = await s.value("SELECT count(*) FROM request WHERE purpose = 'turn'")
        assert summaries == len(asked(s)) > 0
        assert await s.value("SELECT requests FROM tally") == turns
        assert await spent(s) == await s.value("SELECT used_tokens FROM spend WHERE scope = 'mysis'")
        assert await s.value("SELECT reserved_tokens FROM spend WHERE scope = 'mysis'") == 0


async def spent(s: Swarm) -> int:
    return int(
        await s.value(
            "SELECT sum(CASE WHEN state = 'estimated' THEN estimated_tokens ELSE"
            " coalesce(input_tokens, 0) + coalesce(output_tokens, 0) END) FROM request"
        )
    )


@pytest.mark.parametrize(
    ("kind", "tries"),
    [
        (ErrorClass.TRANSIENT, 2),
        # github/copilot-cli#4663, PrimeIntellect-ai/prime-agent#900, aws/amazon-q-developer-cli#1363: the same
        # request that was too long, in every turn
        (ErrorClass.CONTEXT_LENGTH, 1),
    ],
)
async def test_a_failed_model_is_asked_once_more_at_most_and_then_the_chosen_lines_serve(
    tmp_path: Path, kind: ErrorClass, tries: int
) -> None:
    broken = ProviderError("no", kind=kind)
    async with swarm(tmp_path, provider=model(lambda _: broken), settings=settings()) as s:
        await talk(s, 1, 5)
        assert len(asked(s)) == tries
        assert "rec-0002x" in told(s)
        assert PROSE not in told(s)
        await talk(s, 6, 8)
        assert len(asked(s)) == tries, "later turns do not ask for the same range"
        events = await s.rows("SELECT data FROM event WHERE kind = 'context.summary'")
        assert '"status": "failed"' in events[0]["data"] or '"status":"failed"' in events[0]["data"]


async def test_a_model_that_does_not_answer_in_time_holds_no_turn_up(tmp_path: Path) -> None:
    provider = model()
    provider.block(after=0, when=is_summary)
    async with swarm(tmp_path, provider=provider, settings=settings(summary_timeout=0.05)) as s:
        await talk(s, 1, 5)
        assert "rec-0002x" in told(s)
        row = (await s.rows("SELECT state, reserved_tokens FROM request WHERE purpose = 'summary'"))[0]
        assert row["state"] == "estimated"


async def test_a_scripted_model_writes_no_summary_unless_it_is_told_to(tmp_path: Path) -> None:
    async with swarm(tmp_path, provider=model(), settings=settings("auto")) as s:
        await talk(s, 1, 5)
        assert asked(s) == []
        assert "rec-0002x" in told(s)


class SizedModel(ScriptedProvider):
    """A model that tells its parameters."""

    parameters = 0.0

    async def info(self, model: str) -> ModelInfo:
        return replace(await super().info(model), parameters=self.parameters)


@pytest.mark.parametrize(
    ("parameters", "summary", "more", "asks"),
    [
        (1.5e9, "auto", {}, False),
        (8e9, "auto", {}, True),
        (1.5e9, "model", {}, True),
        (1.5e9, "auto", {"summary_model": "larger"}, True),
        (1.5e9, "auto", {"summary_provider": "scripted"}, True),
        (8e9, "extract", {}, False),
    ],
)
async def test_a_small_model_is_not_asked_for_summaries(
    tmp_path: Path, parameters: float, summary: str, more: dict[str, Any], asks: bool
) -> None:
    counts = script(*[Answer(text=f"answer {n}") for n in range(1, 30)])
    small = SizedModel(lambda request: Answer(text=PROSE) if is_summary(request) else counts(request), metered=True)
    small.kind = "openai"  # a script is never asked by itself
    small.parameters = parameters
    async with swarm(tmp_path, provider=small, settings=settings(summary, **more)) as s:
        await talk(s, 1, 6)

        assert bool(asked(s)) is asks
        assert "rec-0002x" in told(s)


async def test_no_summary_is_asked_for_during_a_hold(tmp_path: Path) -> None:
    provider = model()
    async with swarm(tmp_path, provider=provider, settings=settings()) as s:
        await talk(s, 1, 4)
        await s.commander.hold(True)
        await s.commander.send("alpha", "number 5: go on.")
        await s.run_due()
        assert asked(s) == []
        await s.commander.hold(False)
        await s.settled()
        assert len(asked(s)) == 1
        assert PROSE in told(s)


async def test_a_turn_cut_after_any_op_goes_on_with_the_same_request_and_pays_no_part_twice(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    async with swarm(whole, provider=model(), settings=settings(recall_items=3)) as s:
        await talk(s, 1, 4)
        copies = Copies(s, tmp_path)
        await s.ask("alpha", "number 5: go on.")
        copies.stop()
        wanted = [request.messages for request in s.provider.requests if not is_summary(request)][-1]
        assert TITLE in "".join(message.content for message in wanted)
        assert await s.value("SELECT count(*) FROM turn_answer WHERE need LIKE '[\"Recall\"%'")

    assert len(copies.folders) >= 6
    for folder, has_part in copies.folders:
        again = model()
        async with swarm(folder, provider=again, settings=settings(recall_items=3)) as s:
            await s.start("alpha")
            assert await s.value("SELECT count(*) FROM request WHERE state = 'reserved'") == 0
            assert await s.value("SELECT sum(reserved_tokens) FROM spend") == 0
            assert await spent(s) == await s.value("SELECT used_tokens FROM spend WHERE scope = 'mysis'")
            assert await s.value("SELECT count(*) FROM summary") == 1
            made = [request for request in again.requests if not is_summary(request)]
            if made:
                assert made[0].messages == wanted
            if has_part:
                assert not asked(s)


class Copies:
    """A copy of the database after each op of the writer."""

    def __init__(self, s: Swarm, folder: Path) -> None:
        self.folders: list[tuple[Path, bool]] = []
        self._write = s.store.write
        self._path = s.path
        self._folder = folder
        self._patch = patch.object(s.store, "write", self._copying)
        self._patch.start()

    async def _copying(self, op: Any, **how: bool) -> Any:
        found = await self._write(op, **how)
        folder = self._folder / f"cut{len(self.folders)}"
        folder.mkdir()
        with closing(sqlite3.connect(self._path)) as source, closing(sqlite3.connect(folder / "zoea.db")) as target:
            source.backup(target)
            has_part = target.execute(
                "SELECT count(*) FROM turn_answer WHERE need LIKE '[\"SummaryPart\"%'"
            ).fetchone()[0]
        self.folders.append((folder, bool(has_part)))
        return found

    def stop(self) -> None:
        self._patch.stop()


async def test_summaries_have_a_budget_of_their_own_for_each_day(tmp_path: Path) -> None:
    async with swarm(tmp_path, provider=model(), settings=settings()) as s:
        await talk(s, 1, 6)
        used = "SELECT sum(input_tokens + output_tokens) FROM request WHERE purpose = 'summary'"
        [row] = await s.rows("SELECT used_tokens, reserved_tokens FROM spend WHERE scope = 'background'")
        assert row == {"used_tokens": await s.value(used), "reserved_tokens": 0}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(text="  "), "an empty answer"),
        (Answer(text="They numbered", finish=Finish.LENGTH), "an answer that was cut"),
        (Answer(text="I cannot help with that.", finish=Finish.FILTER), "a refusal"),
        (Answer(text="word " * 60_000), "an answer longer than what it sums up"),
    ],
)
async def test_an_answer_that_is_no_summary_is_refused_and_the_plan_says_so(
    tmp_path: Path, answer: Answer, why: str
) -> None:
    async with swarm(tmp_path, provider=model(lambda _: answer), settings=settings()) as s:
        await talk(s, 1, 12)
        assert len(asked(s)) == 2, "tried once more, and not again in each turn"
        assert "rec-0002x" in told(s)
        newest = await s.value("SELECT max(id) FROM request WHERE purpose = 'turn'")
        plan = inspect_request(s.path, newest).plan
        assert plan is not None
        [note] = [one for one in plan.notes if one.startswith("The summary stands for")]
        assert f"without a model ({why})" in note


async def test_the_first_refusal_by_the_background_budget_says_what_would_do(tmp_path: Path) -> None:
    own = settings()
    own = own.model_copy(update={"budget": own.budget.model_copy(update={"background": 50})})
    async with swarm(tmp_path, provider=model(), settings=own) as s:
        await talk(s, 1, 12)
        assert await s.value("SELECT count(*) FROM event WHERE kind = 'budget.refused'") == 1
        newest = await s.value("SELECT max(id) FROM request WHERE purpose = 'turn'")
        plan = inspect_request(s.path, newest).plan
        needed = await s.value("SELECT data ->> 'needed' FROM event WHERE kind = 'budget.refused'")
        shown = read_newest_request(s.path, 1)
    assert shown is not None
    assert shown.summary_failure == f"it needs budget.background = {needed}, which is 50"
    assert plan is not None
    [note] = [one for one in plan.notes if one.startswith("The summary stands for")]
    match = re.search(r"it needs budget.background = (\d+), which is 50", note)
    assert match is not None
    assert int(match[1]) > 50


def test_the_background_budget_is_that_of_ten_requests_unless_it_is_set() -> None:
    for budget, expected in (
        ({}, 500_000),
        ({"token_budget_per_agent": 8_000}, 80_000),
        ({"background": 20_000}, 20_000),
        ({"background": "none"}, None),
    ):
        assert Settings.model_validate({"budget": budget}).budget.background_tokens == expected


async def test_without_background_budget_the_chosen_lines_serve_and_the_turn_goes_on(tmp_path: Path) -> None:
    own = settings()
    own = own.model_copy(update={"budget": own.budget.model_copy(update={"background": 50})})
    async with swarm(tmp_path, provider=model(), settings=own) as s:
        await talk(s, 1, 6)
        assert asked(s) == []
        assert "rec-0002x" in told(s)
        scopes = await s.rows("SELECT DISTINCT data ->> 'scope' AS scope FROM event WHERE kind = 'budget.refused'")
        assert scopes == [{"scope": "background"}]
        assert await s.value("SELECT count(*) FROM turn WHERE outcome = 'answered'") == 6
        statuses = await s.rows("SELECT DISTINCT data ->> 'status' AS status FROM event WHERE kind = 'context.summary'")
        assert statuses == [{"status": "failed"}]


def echo(request: Received) -> Say:
    """What a small model does with a task that it does not understand."""
    return Say(request.json["messages"][-1]["content"])


@pytest.mark.parametrize(
    ("reply", "timeout_s", "requests", "is_taken"),
    [
        (lambda _: Fail.error(500, "out of memory"), 5.0, 2, False),
        (lambda _: Say(PROSE, first_after=NEVER), 0.1, 1, False),
        (lambda _: Say(PROSE, stall_after=2, stall_for=NEVER), 0.1, 1, False),
        (lambda _: Say(PROSE, first_after=0.4, stall_after=2, stall_for=0.4), 0.6, 1, True),
        (echo, 5.0, 2, False),
        (lambda _: Say(" ".join([PROSE] * 6)), 5.0, 1, True),
    ],
    ids=["fails", "silent", "stops", "slow but at work", "echoes", "repeats itself"],
)
async def test_a_server_of_a_small_model_is_asked_once_a_range_and_never_holds_a_turn_up(
    tmp_path: Path, reply: Callable[[Received], Step], timeout_s: float, requests: int, is_taken: bool
) -> None:
    def choose(request: Received) -> Step:
        is_summary = request.json["messages"][0]["content"].startswith("You write the memory")
        return reply(request) if is_summary else Say(f"Answer {len(server.chats)} is kept.")

    server = OpenAIServer(otherwise=choose)
    server.models, server.props = [LISTED], {**PROPS, "default_generation_settings": {"n_ctx": 4096}}
    async with server:
        near = OpenAIProvider.open("near", ProviderConfig(type="openai", base_url=server.base_url), SystemClock())
        own = settings("model", summary_timeout=timeout_s)
        async with swarm(tmp_path, providers=OneProvider(near), settings=own) as s:
            await talk(s, 1, 14)
            assert await s.value("SELECT count(*) FROM turn WHERE outcome = 'answered'") == 14
            assert await s.value("SELECT sum(reserved_tokens) FROM spend") == 0
        await near.close()
    systems = [chat.json["messages"][0]["content"] for chat in server.chats]
    assert sum(one.startswith("You write the memory") for one in systems) == requests
    shown = next(one["content"] for one in server.chats[-1].json["messages"] if TITLE in str(one["content"]))
    assert (PROSE.split(". ")[0] in shown) is is_taken
    assert "rec-0002x" in shown
    assert shown.count("rec-0002x") == 1, "no line stands twice"
    assert shown.count("They number records") <= 1
