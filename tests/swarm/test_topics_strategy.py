"""A mysis with the strategy `topics` sees the messages that its template names.

They are the ledger's. Then comes the one that woke it.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.swarm.harness import script, swarm
from tests.swarm.test_builtin_backend import templates
from zoea.context import SourceMessages
from zoea.context.topics.topic_block import LedgerPositions, render_topic, select_messages
from zoea.context.topics.topic_rules import write_source
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.enums import MysisState, Role
from zoea.model.errors import UsageError
from zoea.model.request import Answer, RequestMessage
from zoea.queries.request_inspection import inspect_request
from zoea.runtime.upstream_set import build_policy
from zoea.settings.schema import Settings
from zoea.settings.template import parse_template
from zoea.settings.topic_source import TopicSource
from zoea.store.database_file import open_reader
from zoea.store.topic_reader import TOPIC_MESSAGE, topic_message
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.turn.source_stage import render_source

QUIET = Settings.model_validate({"nudge": {"enabled": False}})
WORKER = """
role = "worker"
subscribes = ["PLAN_READY", "VALIDATION_RESULT"]
[context_strategy]
sources = [
  { topic = "ISSUE_OPENED", priority = "required", strategy = "latest", amount = 1 },
  { topic = "STATE_SNAPSHOT", priority = "required", strategy = "latest", amount = 1 },
  { topic = "VALIDATION_RESULT", priority = "high", since = "last_task_end", amount = 5 },
  { topic = "WORKER_PROGRESS", priority = "medium", strategy = "all" },
]
"""
VALIDATOR = """
role = "validator"
subscribes = ["IMPLEMENTATION_READY"]
[context_strategy]
sources = [{ topic = "STATE_SNAPSHOT", priority = "required", amount = 1 }]
"""
DONE = script(Answer(text="Done."))


def with_roles(folder: Path, rules: Any = DONE, *, settings: Settings = QUIET, **more: Any) -> Any:
    return swarm(
        folder, rules, settings=settings, templates=templates(folder, worker=WORKER, validator=VALIDATOR), **more
    )


def contents(messages: tuple[RequestMessage, ...]) -> list[str]:
    return [message.content for message in messages]


async def test_a_turn_shows_its_sources_in_order_and_the_message_that_opened_it_last(tmp_path: Path) -> None:
    async with with_roles(tmp_path) as s:
        await s.commander.create("wanda", template="worker", start=False)
        await s.commander.publish("ISSUE_OPENED", "The login fails.", data={"title": "Login"})
        await s.commander.publish("WORKER_PROGRESS", "Looked at it.")
        await s.commander.publish("WORKER_PROGRESS", "Half of it.", data={"percent_complete": 50})
        await s.commander.publish("PLAN_READY", "Fix the cookie.", data={"steps": ["one"]})
        await s.settled("wanda")

        system, *rest = s.provider.requests[0].messages
        assert system.role is Role.SYSTEM
        assert system.content.startswith("You are wanda. Your role is worker.")
        assert "Nobody reads along and nobody answers questions" in system.content
        assert "\n\nYou are a mysis.\n\n" in system.content
        assert all(message.role is Role.USER for message in rest)
        issue, snapshot, progress, trigger = contents(tuple(rest))
        assert issue.startswith("## Messages from topic: ISSUE_OPENED\n\n[")
        assert issue.endswith('Z] commander:\nThe login fails.\nData: {\n  "title": "Login"\n}')
        assert "Task: Login\nPlan: Fix the cookie.\nProgress: 50%" in snapshot
        assert progress.index("Looked at it.") < progress.index("Half of it.")
        assert trigger == (
            '[topic PLAN_READY to wanda, from the commander]\nFix the cookie.\nData: {\n  "steps": [\n    "one"\n  ]\n}'
        )


async def test_since_counts_from_the_end_of_the_last_answered_turn(tmp_path: Path) -> None:
    async with with_roles(tmp_path) as s:
        await s.commander.create("wanda", template="worker", start=False)
        await s.commander.publish("VALIDATION_RESULT", "First.", data={"approved": False})
        await s.settled("wanda")
        assert "First." in contents(s.provider.requests[0].messages)[2]
        await s.commander.publish("VALIDATION_RESULT", "Second.", data={"approved": False})
        await s.settled("wanda")
        shown = next(text for text in contents(s.provider.requests[1].messages) if "VALIDATION_RESULT" in text)
        assert "Second." in shown
        assert "First." not in shown
        newest = await s.value("SELECT max(id) FROM topic_message")
        assert await s.rows("SELECT last_agent_start, last_task_end FROM topic_cursor") == [
            {"last_agent_start": newest, "last_task_end": newest + 1}
        ]


async def test_a_validator_is_told_what_it_need_not_validate_again(tmp_path: Path) -> None:
    results = [
        {"id": "A1", "status": "CANNOT_VALIDATE", "reason": "no network"},
        {"id": "A2", "status": "CANNOT_VALIDATE_YET", "reason": "not built"},
        {"id": "A3", "status": "CANNOT_VALIDATE", "reason": "no key"},
    ]
    async with with_roles(tmp_path) as s:
        await s.commander.create("vera", template="validator", start=False)
        await s.commander.publish("VALIDATION_RESULT", "", data={"criteriaResults": results})
        await s.commander.publish("VALIDATION_RESULT", "", data={"criteriaResults": [{"id": "A3", "status": "PASS"}]})
        await s.commander.publish("IMPLEMENTATION_READY", "Done.")
        await s.settled("vera")
        hints = contents(s.provider.requests[0].messages)[2]
        assert hints.startswith("## Do not validate these again")
        assert hints.endswith("- A1: no network")
        assert "A2" not in hints
        assert "A3" not in hints


async def test_a_turn_that_goes_on_after_a_restart_shows_the_same_messages(tmp_path: Path) -> None:
    async with with_roles(tmp_path) as s:
        await s.commander.create("wanda", template="worker", start=False)
        await s.commander.publish("WORKER_PROGRESS", "Before.")
        last = s.provider.block(after=0, when=lambda _: True)
        await s.commander.publish("PLAN_READY", "Fix the cookie.")
        await last.reached.wait()
        before = s.provider.requests[-1].messages
        await s.commander.publish("WORKER_PROGRESS", "After.")

    again = ScriptedProvider(DONE, metered=True)
    async with with_roles(tmp_path, provider=again) as s:
        await s.commander.start("wanda")
        await s.until(lambda: again.calls > 0)
        await s.settled("wanda")
    assert again.requests[0].messages == before
    assert not any("After." in text for text in contents(before))


async def test_a_request_is_explained_and_rebuilt_from_its_row(tmp_path: Path) -> None:
    async with with_roles(tmp_path) as s:
        await s.commander.create("wanda", template="worker", start=False)
        await s.commander.publish("PLAN_READY", "Fix the cookie.")
        await s.settled("wanda")
        row = (await s.rows("SELECT id FROM request"))[0]
        plan = inspect_request(s.path, row["id"]).plan
        assert plan is not None
        assert contents(plan.messages) == contents(s.provider.requests[0].messages)
        ids = [decision.id for decision in plan.decisions]
        assert ids[:3] == ["header", "system", "schema"]
        assert ids[3:7] == ["ISSUE_OPENED", "STATE_SNAPSHOT", "VALIDATION_RESULT", "WORKER_PROGRESS"]


TWO_PLANS = """
subscribes = ["PLAN_READY", "STATE_SNAPSHOT"]
[context_strategy]
sources = [
  { topic = "PLAN_READY", priority = "required", amount = 2 },
  { topic = "STATE_SNAPSHOT", priority = "required", amount = 1 },
]
"""


async def test_the_message_that_opens_a_turn_stands_once_and_takes_no_slot_of_its_source(tmp_path: Path) -> None:
    async with swarm(tmp_path, DONE, settings=QUIET, templates=templates(tmp_path, worker=TWO_PLANS)) as s:
        for text in ("Plan A", "Plan B", "Plan C"):
            await s.commander.publish("PLAN_READY", text)
        await s.commander.create("wanda", template="worker", start=False)
        await s.commander.publish("PLAN_READY", "Plan D")
        await s.settled("wanda")
        texts = [text for request in s.provider.requests for text in contents(request.messages[1:])]
    plan = next(text for text in texts if text.startswith("## Messages from topic: PLAN_READY"))
    assert [name for name in "ABCD" if f"Plan {name}" in plan] == ["B", "C"]
    assert sum(text.startswith("[topic PLAN_READY") and "Plan D" in text for text in texts) >= 1


async def test_a_state_that_opens_a_turn_replaces_those_before_it(tmp_path: Path) -> None:
    async with swarm(tmp_path, DONE, settings=QUIET, templates=templates(tmp_path, worker=TWO_PLANS)) as s:
        await s.commander.publish("ISSUE_OPENED", "Old issue")
        await s.commander.create("wanda", template="worker", start=False)
        await s.commander.publish("ISSUE_OPENED", "New issue")
        await s.settled("wanda")
        texts = contents(s.provider.requests[0].messages[1:])
        notes = inspect_request(s.path, 1).plan
    assert [("Old issue" in text, "New issue" in text) for text in texts] == [(False, True)]
    assert notes is not None
    assert not any("STATE_SNAPSHOT is required and empty" in note for note in notes.notes)


LARGE = "x" * 240_000
"""60,000 tokens."""


async def test_a_message_may_be_as_long_as_the_requests_of_its_readers(tmp_path: Path) -> None:
    chat = 'subscribes = ["PLAN_READY"]'
    roles, model = templates(tmp_path, worker=WORKER, chat=chat), ScriptedProvider(DONE, context_window=200_000)
    async with swarm(tmp_path, settings=QUIET, templates=roles, provider=model) as s:
        await s.commander.publish("NEWS", LARGE)
        await s.commander.create("wanda", template="worker", start=False)
        await s.commander.publish("PLAN_READY", LARGE)
        await s.settled("wanda")
        assert s.provider.requests[-1].messages[-1].content.endswith(LARGE)
        await s.commander.create("carl", template="chat", start=False)
        with pytest.raises(UsageError, match="fits in no request: that has 50,000"):
            await s.commander.publish("PLAN_READY", LARGE)
        await s.commander.publish("PLAN_READY", LARGE, receiver="wanda")


PLANNER = """
role = "planner"
subscribes = ["ISSUE_OPENED"]
publishes = "PLAN_READY"
[context_strategy]
[output_schema]
type = "object"
required = ["summary", "steps"]
[output_schema.properties]
summary = { type = "string" }
steps = { type = "array", items = { type = "string" } }
"""
PLAN = '{"summary": "Fix the cookie.", "steps": ["one"]}'


def with_planner(folder: Path, *answers: Answer, **more: Any) -> Any:
    made = templates(
        folder, planner=PLANNER, worker=WORKER, silent=f"{PLANNER}\n".replace("role", 'send = "none"\nrole')
    )
    return swarm(folder, script(*answers), settings=QUIET, templates=made, **more)


async def test_an_output_that_matches_its_schema_is_published_with_the_end_of_the_turn(tmp_path: Path) -> None:
    async with with_planner(tmp_path, Answer(text=f"Here it is:\n```json\n{PLAN}\n```"), Answer(text="Done.")) as s:
        await s.commander.create("petra", template="planner", start=False)
        await s.commander.create("wanda", template="worker", start=False)
        await s.commander.publish("ISSUE_OPENED", "The login fails.")
        await s.settled("petra")
        await s.settled("wanda")
        rows = await s.rows("SELECT sender, content, data, hop, turn_id FROM topic_message WHERE topic = 'PLAN_READY'")
        assert rows == [
            {"sender": "petra", "content": "Fix the cookie.", "data": rows[0]["data"], "hop": 1, "turn_id": 1}
        ]
        assert json.loads(rows[0]["data"]) == json.loads(PLAN)
        system = s.provider.requests[0].messages[0].content
        assert "your last answer is one JSON object that this JSON Schema accepts" in system
        assert "It is published on PLAN_READY." in system
        trigger = s.provider.requests[1].messages[-1].content
        assert trigger.startswith("[topic PLAN_READY to wanda, from mysis petra]\nFix the cookie.\nData: {")


@pytest.mark.parametrize(("escaped", "kept"), [(r"\ud800", "\ufffd"), (r"\u0000", "\u2400")])
async def test_an_output_of_characters_that_cannot_be_stored_is_published_with_others(
    tmp_path: Path, escaped: str, kept: str
) -> None:
    async with with_planner(tmp_path, Answer(text=PLAN.replace("cookie", escaped))) as s:
        await s.commander.create("petra", template="planner", start=False)
        await s.commander.publish("ISSUE_OPENED", "The login fails.")
        await s.settled("petra")
        assert await s.value("SELECT outcome FROM turn") == "answered"
        assert await s.value("SELECT content FROM topic_message WHERE topic = 'PLAN_READY'") == f"Fix the {kept}."


async def test_an_output_that_misses_its_schema_is_asked_for_once_more(tmp_path: Path) -> None:
    async with with_planner(tmp_path, Answer(text='{"summary": 1}'), Answer(text=PLAN)) as s:
        await s.commander.create("petra", template="planner", start=False)
        await s.commander.publish("ISSUE_OPENED", "The login fails.")
        await s.settled("petra")
        assert s.provider.calls == 2
        asked = s.provider.requests[1].messages
        assert asked[-2].content == '{"summary": 1}'
        assert "does not match the output schema" in asked[-1].content
        assert asked[: len(asked) - 2] == s.provider.requests[0].messages
        assert await s.value("SELECT count(*) FROM topic_message WHERE topic = 'PLAN_READY'") == 1
        assert await s.value("SELECT outcome FROM turn") == "answered"


async def test_a_second_output_that_misses_its_schema_fails_the_turn_and_says_why(tmp_path: Path) -> None:
    async with with_planner(tmp_path, Answer(text="I would plan."), Answer(text='{"summary": "x"}')) as s:
        await s.commander.create("petra", template="planner", start=False)
        await s.commander.publish("ISSUE_OPENED", "The login fails.")
        await s.settled("petra")
        assert s.provider.calls == 2
        assert await s.value("SELECT count(*) FROM topic_message WHERE topic = 'PLAN_READY'") == 0
        failure = json.loads(await s.value("SELECT failure FROM turn WHERE outcome = 'failed'"))
        assert failure["title"] == "Its answer does not match the output schema"
        assert "'steps' is a required property" in failure["what"]
        assert s.state("petra") is MysisState.ERRORED
        assert await s.value("SELECT last_task_end FROM topic_cursor") == 0


async def test_an_output_that_may_not_be_published_is_noted_for_the_commander(tmp_path: Path) -> None:
    async with with_planner(tmp_path, Answer(text=PLAN)) as s:
        await s.commander.create("sid", template="silent", start=False)
        await s.commander.publish("ISSUE_OPENED", "The login fails.")
        await s.settled("sid")
        assert await s.value("SELECT outcome FROM turn") == "answered"
        assert await s.value("SELECT content FROM turn_note WHERE kind = 'not published'") == (
            "not published on PLAN_READY: the template does not let it write to other myses"
        )


async def test_a_turn_that_is_cut_in_its_repair_asks_no_third_time(tmp_path: Path) -> None:
    async with with_planner(tmp_path, Answer(text="I would plan.")) as s:
        await s.commander.create("petra", template="planner", start=False)
        second = s.provider.block(after=0, when=lambda _: s.provider.calls == 2)
        await s.commander.publish("ISSUE_OPENED", "The login fails.")
        await second.reached.wait()
        before = s.provider.requests[-1].messages
    again = ScriptedProvider(script(Answer(text="Still no plan.")), metered=True)
    async with with_planner(tmp_path, provider=again) as s:
        await s.commander.start("petra")
        await s.until(lambda: again.calls > 0)
        await s.settled("petra")
        assert again.requests[0].messages == before
        assert again.calls == 1
        assert await s.value("SELECT outcome FROM turn") == "failed"


async def test_a_role_with_an_output_schema_has_no_tool_that_ends_its_turn_otherwise(tmp_path: Path) -> None:
    policies: dict[str, Any] = {"policies": lambda body: build_policy(parse_template(body), ("peer",), QUIET)}
    offered = {}
    for name, made in (("planner", with_planner), ("worker", with_roles)):
        answers = [Answer(text=PLAN)] if made is with_planner else DONE
        folder = tmp_path / name
        folder.mkdir()
        async with made(folder, *(answers if isinstance(answers, list) else [answers]), **policies) as s:
            await s.commander.create("petra", template=name, start=False)
            await s.ask("petra", "Begin.")
            offered[name] = {tool.name for tool in s.provider.requests[0].tools}
    assert {"zoea_publish", "zoea_read_topic"} <= offered["planner"]
    assert not {"zoea_wait", "zoea_done", "zoea_ask"} & offered["planner"]
    assert "zoea_wait" in offered["worker"]
    assert "zoea_ask" not in offered["worker"]


async def test_the_plan_names_a_required_topic_without_a_message(tmp_path: Path) -> None:
    async with with_roles(tmp_path) as s:
        await s.commander.create("wanda", template="worker", start=False)
        await s.commander.publish("PLAN_READY", "Fix the cookie.")
        await s.settled("wanda")
        plan = inspect_request(s.path, await s.value("SELECT max(id) FROM request")).plan
        assert plan is not None
        assert plan.notes == ("ISSUE_OPENED is required and empty: there is no message on it that a request may show.",)


SENT = (
    ("A", "ann", False), ("A", "bob", False), ("A", "ann", True), ("B", "ann", False),
    ("A", "ann", False), ("A", "bob", True), ("A", "ann", False), ("A", "bob", False),
)  # fmt: skip


SOURCES: list[dict[str, Any]] = [
    {},
    {"amount": 2},
    {"amount": 2, "strategy": "oldest"},
    {"amount": 3, "strategy": "all"},
    {"limit": 1},
    {"sender": "ann", "amount": 2},
    {"since": "last_task_end"},
    {"since": "last_agent_start", "strategy": "oldest", "amount": 1},
    {"since": 5_000},
    {"since": "1970-01-01T00:00:05Z"},
    {"compact_amount": 3, "compact_strategy": "oldest"},
    {"amount": 5, "compact_amount": 2},
]


async def test_the_ledger_is_read_as_the_source_says(tmp_path: Path) -> None:
    async with with_roles(tmp_path) as s:

        def op(conn: WriterConnection) -> None:
            for place, (topic, sender, is_raw) in enumerate(SENT, start=1):
                conn.execute(
                    "INSERT INTO topic_message(topic, sender_kind, sender, content, is_raw, created_at)"
                    " VALUES (?, 'client', ?, ?, ?, ?)",
                    (topic, sender, f"text {place}", is_raw, place * 1_000_000),
                )

        await s.store.write(op)
        ledger = [topic_message(row) for row in await s.store.read(f"{TOPIC_MESSAGE} ORDER BY id")]
        positions = LedgerPositions(5, 4)
        with closing(open_reader(s.path)) as connection:
            for keys in SOURCES:
                source = TopicSource.model_validate({"topic": "A", **keys})
                answer = render_source(connection, SourceMessages(0, write_source(source), 7, 5, 4), 500_000).value
                for form in ("full", "compact"):
                    shown = select_messages(ledger[:7], source, positions, is_compact=form == "compact")
                    assert answer[form] == render_topic("A", shown), (keys, form)
                    assert shown, keys
                    assert not any(one.is_raw for one in shown)


async def test_a_source_is_read_no_further_than_a_request_may_hold(tmp_path: Path) -> None:
    async with with_roles(tmp_path) as s:
        for place in range(1, 8):
            await s.commander.publish("A", f"{place} " * 100)
        for strategy, first in (("latest", "7 7"), ("oldest", "1 1")):
            source = write_source(TopicSource.model_validate({"topic": "A", "strategy": strategy, "amount": 6}))
            with closing(open_reader(s.path)) as connection:
                answer = render_source(connection, SourceMessages(0, source, 7, 0, 0), 500).value
            assert answer["messages"] == 3
            assert first in answer["full"]
            assert len(answer["full"]) > 500
