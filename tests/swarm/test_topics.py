"""The ledger of topics: a message is stored first, then each subscriber gets it as the prompt of a turn, in order."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.swarm.harness import Swarm, script, swarm
from tests.swarm.test_builtin_backend import templates
from zoea.context.topics.topic_block import render_body
from zoea.model.enums import MysisState, SenderKind
from zoea.model.errors import MysisMissing, UsageError, ZoeaError
from zoea.model.request import Answer, AnswerCall
from zoea.model.topics import SNAPSHOT_SENDER, TopicMessage
from zoea.model.values import Sender
from zoea.runtime.upstream_set import build_policy
from zoea.settings.schema import Settings
from zoea.settings.template import parse_template
from zoea.settings.template_library import Templates
from zoea.store import topic_reader
from zoea.store.topic_reader import topic_message
from zoea.swarm import life, topic_commands
from zoea.swarm.persistence import topic_ops
from zoea.swarm.persistence.topic_ops import OutgoingTopicMessage, PublishLimits, publish
from zoea.tools.builtin.arguments import ReadTopicArguments
from zoea.tools.builtin.topic_rows import read_topic_rows

WORKER = 'subscribes = ["PLAN_READY", "VALIDATION_RESULT"]\npublishes = "IMPLEMENTATION_READY"'
VALIDATOR = 'subscribes = ["IMPLEMENTATION_READY"]'
QUIET = Settings.model_validate({"nudge": {"enabled": False}})
DONE = script(Answer(text="Done."))


def roles(folder: Path) -> Templates:
    return templates(folder, worker=WORKER, validator=VALIDATOR, plain="", mute=f'{WORKER}\nsend = "none"')


def with_topics(folder: Path, rules: Any = DONE, settings: Settings = QUIET) -> Any:
    return swarm(
        folder,
        rules,
        settings=settings,
        templates=roles(folder),
        policies=lambda body: build_policy(parse_template(body), ("peer",), settings),
    )


def publishing(topic: str, text: str = "", **more: Any) -> Answer:
    arguments = {"topic": topic, "text": text, **more}
    return Answer(calls=(AnswerCall("zoea_publish", json.dumps(arguments)),))


async def prompts(s: Swarm, name: str) -> list[list[str]]:
    """The prompts of each turn of a mysis, in order."""
    rows = await s.rows(
        "SELECT t.number, m.content FROM memory m JOIN turn t ON t.id = m.turn_id JOIN mysis y ON y.id = m.mysis_id"
        " WHERE y.name = ? AND m.role = 'user' ORDER BY t.number, m.seq",
        name,
    )
    found: dict[int, list[str]] = {}
    for row in rows:
        found.setdefault(row["number"], []).append(row["content"])
    return list(found.values())


async def test_a_subscriber_gets_each_message_as_the_prompt_of_a_turn_of_its_own_in_order(tmp_path: Path) -> None:
    async with with_topics(tmp_path) as s:
        await s.commander.create("wanda", template="worker", start=False)
        await s.commander.create("paul", template="plain", start=False)
        await s.commander.hold(True)
        done = await s.commander.publish("PLAN_READY", "First, then second.", data={"steps": ["one"]})
        await s.commander.publish("PLAN_READY", "Changed plan.")
        await s.commander.send("wanda", "Hurry.")
        await s.commander.publish("VALIDATION_RESULT", "Rejected.")
        await s.commander.publish("OTHER", "Not for her.")
        assert [(line.mysis, line.status) for line in done.lines] == [("wanda", "waiting")]
        await s.commander.hold(False)
        await s.settled("wanda")
        data = 'First, then second.\nData: {\n  "steps": [\n    "one"\n  ]\n}'
        assert await prompts(s, "wanda") == [[data], ["Changed plan."], ["Hurry."], ["Rejected."]]
        assert s.sent()[0][-1] == ("user", f"[topic PLAN_READY to wanda, from the commander]\n{data}")
        assert await prompts(s, "paul") == []
        sources = await s.rows("SELECT DISTINCT source FROM memory WHERE role = 'user' ORDER BY 1")
        assert [row["source"] for row in sources] == ["direct", "topic"]


async def test_a_message_without_subscribers_is_stored_in_the_ledger(tmp_path: Path) -> None:
    async with with_topics(tmp_path) as s:
        receipt = await s.commander.publish("NEWS", "All is well.")
        [row] = await s.rows("SELECT * FROM topic_message")
        assert (receipt.lines, receipt.delivered, receipt.id) == ((), 0, row["id"])
        assert (row["cluster_id"], row["topic"], row["sender"], row["receiver"]) == (
            0,
            "NEWS",
            "commander",
            "broadcast",
        )
        assert (row["content"], row["data"], await s.value("SELECT count(*) FROM message")) == ("All is well.", None, 0)


async def test_a_mysis_publishes_for_the_others_but_not_for_itself(tmp_path: Path) -> None:
    answers = script(publishing("IMPLEMENTATION_READY", "It works.", data={"can_validate": True}), Answer(text="Done."))
    async with with_topics(tmp_path, answers) as s:
        await s.commander.create("wanda", template="worker")
        await s.commander.create("vera", template="validator")
        await s.commander.publish("PLAN_READY", "Go.")
        await s.settled("wanda")
        await s.settled("vera")
        [[prompt]] = await prompts(s, "vera")
        assert prompt.startswith("It works.\nData: {")
        assert any("[topic IMPLEMENTATION_READY to vera, from mysis wanda]" in sent[-1][1] for sent in s.sent())
        row = (await s.rows("SELECT * FROM topic_message WHERE topic = 'IMPLEMENTATION_READY'"))[0]
        assert (row["sender"], row["hop"], row["turn_id"] is not None) == ("wanda", 1, True)
        own = await s.commander.publish(
            "PLAN_READY", "Mine.", sender=Sender(SenderKind.MYSIS, row["sender_id"], "wanda"), hop=1
        )
        assert own.lines == ()


async def test_only_one_receiver_gets_a_message_that_names_it(tmp_path: Path) -> None:
    async with with_topics(tmp_path) as s:
        for name in ("wanda", "walter"):
            await s.commander.create(name, template="worker")
        await s.commander.create("vera", template="validator")
        done = await s.commander.publish("PLAN_READY", "For you.", receiver="WALTER")
        assert [line.mysis for line in done.lines] == ["walter"]
        assert await s.value("SELECT receiver FROM topic_message WHERE id = ?", done.id) == "walter"
        missed = await s.commander.publish("PLAN_READY", "For you.", receiver="vera")
        assert [(line.status, line.reason) for line in missed.lines] == [("skipped", "not subscribed")]
        with pytest.raises(MysisMissing, match="there is no mysis 'nora'"):
            await s.commander.publish("PLAN_READY", "For you.", receiver="nora")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"topic": "PLAN_READY", "text": " "}, "a message needs a text or data"),
        ({"topic": "two words", "text": "x"}, "cannot be a topic"),
        ({"topic": "STATE_SNAPSHOT", "text": "x"}, "only Zoea publishes on STATE_SNAPSHOT"),
        ({"topic": "CONTEXT_METRICS", "text": "x"}, "only Zoea publishes on CONTEXT_METRICS"),
        ({"topic": "PLAN_READY", "text": "x" * 400_004}, "fits in no request"),
        ({"topic": "PLAN_READY", "data": {"x": float("nan")}}, "the data is not a JSON object"),
    ],
)
async def test_what_cannot_be_published_is_refused_and_not_stored(
    tmp_path: Path, given: dict[str, Any], reason: str
) -> None:
    async with with_topics(tmp_path) as s:
        with pytest.raises(UsageError, match=reason):
            await s.commander.publish(**given)
        assert await s.value("SELECT count(*) FROM topic_message") == 0


def nested(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {"a": 1}
    for _ in range(levels - 1):
        found = {"a": found}
    return found


@pytest.mark.parametrize("is_raw", [False, True])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (nested(101), "nested more than 100 levels deep"),
        (nested(900), "nested more than 100 levels deep"),
        ({"a": [0] * 250_000}, "more than 250,000 values"),
    ],
)
async def test_data_that_fronts_could_not_show_is_refused_and_not_stored(
    tmp_path: Path, data: dict[str, Any], said: str, is_raw: bool
) -> None:
    async with with_topics(tmp_path) as s:
        with pytest.raises(UsageError, match=said):
            await s.commander.publish("NEWS", "Look.", data=data, is_raw=is_raw)
        assert await s.value("SELECT count(*) FROM topic_message") == 0
        await s.commander.publish("NEWS", "Look.", data=nested(100), is_raw=is_raw)


async def test_raw_messages_are_bounded_too(tmp_path: Path) -> None:
    async with with_topics(tmp_path) as s:
        for more in ({"text": "x" * (topic_ops.MAX_RAW + 1)}, {"data": {"a": "x" * topic_ops.MAX_RAW}}):
            with pytest.raises(UsageError, match="is longer than 4,000,000"):
                await s.commander.publish("NEWS", is_raw=True, **more)
        await s.commander.publish("NEWS", "x" * topic_ops.MAX_RAW, is_raw=True)
        assert await s.value("SELECT count(*) FROM topic_message") == 1


async def test_data_of_any_size_is_formatted_for_requests_only_where_it_fits_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    formatted: list[int] = []

    def render(text: str, data: Any) -> str:
        formatted.append(len(data["a"]))
        return render_body(text, data)

    monkeypatch.setattr(topic_ops, "render_body", render)
    async with with_topics(tmp_path) as s:
        with pytest.raises(UsageError, match=r"a message of about .* tokens fits in no request"):
            await s.commander.publish("NEWS", data={"a": [0] * 200_000})
        await s.commander.publish("NEWS", data={"a": [0] * 200_000}, is_raw=True)
        await s.commander.publish("NEWS", data={"a": [0]})
    assert set(formatted) == {1}


async def test_a_mysis_that_publishes_nested_data_is_told_and_goes_on(tmp_path: Path) -> None:
    deep = '{"a":' * 900 + "1" + "}" * 900
    call = AnswerCall("zoea_publish", f'{{"topic": "NEWS", "data": {deep}}}')
    async with with_topics(tmp_path, script(Answer(calls=(call,)), Answer(text="Done."))) as s:
        await s.commander.create("wanda", template="worker")
        await s.ask("wanda", "Go.")
        told = await s.value("SELECT content FROM memory WHERE role = 'tool'")
        assert told.startswith("zoea_publish: arguments are nested too deeply.\n")
        assert await s.value("SELECT outcome FROM turn") == "answered"


async def test_raw_output_and_metrics_are_stored_and_never_a_prompt(tmp_path: Path) -> None:
    found = templates(tmp_path, reader='subscribes = ["AGENT_OUTPUT", "LOG"]')
    async with swarm(tmp_path, DONE, templates=found) as s:
        await s.commander.create("rita", template="reader")
        assert (await s.commander.publish("AGENT_OUTPUT", "raw")).lines == ()
        assert (await s.commander.publish("LOG", "raw", is_raw=True)).lines == ()
        assert (await s.commander.publish("LOG", "cooked")).delivered == 1
        assert await s.value("SELECT count(*) FROM topic_message") == 3


async def test_a_stopped_subscriber_reads_in_order_what_came_while_it_stood_still(tmp_path: Path) -> None:
    async with with_topics(tmp_path) as s:
        await s.commander.create("wanda", template="worker")
        await s.commander.stop("wanda")
        first = await s.commander.publish("PLAN_READY", "One.")
        await s.commander.publish("PLAN_READY", "Two.")
        assert [(line.status, line.reason) for line in first.lines] == [("waiting", "stopped")]
        assert await prompts(s, "wanda") == []
        await s.start("wanda")
        assert await prompts(s, "wanda") == [["One."], ["Two."]]


async def test_waiting_messages_outlive_the_process_and_each_is_answered_once(tmp_path: Path) -> None:
    async with with_topics(tmp_path) as s:
        await s.commander.create("wanda", template="worker")
        await s.commander.hold(True)
        for text in ("One.", "Two.", "Three."):
            await s.commander.publish("PLAN_READY", text)
    async with with_topics(tmp_path) as s:
        await s.commander.hold(False)
        await s.commander.start_all()
        await s.settled("wanda")
        assert await prompts(s, "wanda") == [["One."], ["Two."], ["Three."]]
        taken = await s.rows("SELECT state, turn_id FROM delivery")
        assert [row["state"] for row in taken] == ["taken"] * 3
        assert len({row["turn_id"] for row in taken}) == 3


async def test_the_same_idempotency_key_publishes_once(tmp_path: Path) -> None:
    async with with_topics(tmp_path) as s:
        await s.commander.create("wanda", template="worker")
        first = await s.commander.publish("PLAN_READY", "Go.", idempotency_key="k")
        again = await s.commander.publish("PLAN_READY", "Go.", idempotency_key="k")
        assert (again.id, [line.mysis for line in again.lines]) == (first.id, ["wanda"])
        await s.settled("wanda")
        assert await prompts(s, "wanda") == [["Go."]]


async def test_a_mysis_that_may_not_write_to_others_may_not_publish(tmp_path: Path) -> None:
    async with with_topics(tmp_path, script(publishing("NEWS", "x"), Answer(text="Done."))) as s:
        await s.commander.create("mia", template="mute")
        await s.commander.publish("PLAN_READY", "Go.")
        await s.settled("mia")
        assert await s.value("SELECT count(*) FROM topic_message WHERE topic = 'NEWS'") == 0
        mia = Sender(SenderKind.MYSIS, s.commander.swarm.runner("mia").mysis.id, "mia")
        with pytest.raises(UsageError, match="does not let you write"):
            await s.commander.publish("NEWS", "x", sender=mia)


async def test_a_mysis_may_publish_so_often_an_hour(tmp_path: Path) -> None:
    settings = Settings.model_validate({"nudge": {"enabled": False}, "swarm": {"publishes_per_hour": 2}})
    async with with_topics(tmp_path, settings=settings) as s:
        await s.commander.create("wanda", template="worker")
        wanda = Sender(SenderKind.MYSIS, s.commander.swarm.runner("wanda").mysis.id, "wanda")
        for _ in range(2):
            await s.commander.publish("NEWS", "x", sender=wanda)
        with pytest.raises(ZoeaError, match="2 messages within an hour; try again in 3,600 seconds"):
            await s.commander.publish("NEWS", "x", sender=wanda)
        s.clock.by(3601)
        await s.commander.publish("NEWS", "x", sender=wanda)


async def test_two_roles_that_answer_each_other_end_at_the_hop_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer wakes the other role, until `MAX_TOPIC_HOPS`; the last message waits unread."""
    for module in (life, topic_commands):
        monkeypatch.setattr(module, "MAX_TOPIC_HOPS", 4)
    settings = Settings.model_validate({"nudge": {"enabled": False}})

    def answer(request: Any) -> Answer:
        if request.messages[-1].role == "tool":
            return Answer(text="Done.")
        is_worker = "from mysis wanda" not in request.messages[-1].content
        return publishing("IMPLEMENTATION_READY" if is_worker else "VALIDATION_RESULT", "Again.")

    async with with_topics(tmp_path, answer, settings) as s:
        await s.commander.create("wanda", template="worker")
        await s.commander.create("vera", template="validator")
        await s.commander.publish("PLAN_READY", "Go.")
        for _ in range(6):
            await s.settled("wanda")
            await s.settled("vera")
        rows = await s.rows("SELECT hop FROM topic_message WHERE sender_kind <> 'zoea' ORDER BY id")
        assert [row["hop"] for row in rows] == [0, 1, 2, 3, 4]
        assert await s.value("SELECT count(*) FROM delivery WHERE state = 'pending'") == 1


async def test_a_state_snapshot_follows_in_the_same_op_and_only_where_the_state_changes(tmp_path: Path) -> None:
    async with with_topics(tmp_path) as s:
        done = await s.commander.publish("ISSUE_OPENED", "The login fails.", data={"title": "Login"})
        again = await s.commander.publish("ISSUE_OPENED", "The login fails.", data={"title": "Login"})
        other = await s.commander.publish("NEWS", "Nothing.")
        assert (done.snapshot_id, again.snapshot_id, other.snapshot_id) == (done.id + 1, None, None)
        [row] = await s.rows("SELECT * FROM topic_message WHERE topic = 'STATE_SNAPSHOT'")
        assert (row["sender"], row["sender_kind"], row["content"]) == (SNAPSHOT_SENDER, "zoea", "Task: Login")
        assert json.loads(row["data"]) == {"task": {"raw": "The login fails.", "title": "Login"}}
        assert row["created_at"] == await s.value("SELECT created_at FROM topic_message WHERE id = ?", done.id)
        raw = await s.commander.publish("PLAN_READY", "unsafe", is_raw=True)
        assert raw.snapshot_id is None


async def test_publishing_what_changes_no_state_reads_none_of_the_messages_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def convert(row: Any) -> TopicMessage:
        read.append(row["id"])
        return topic_message(row)

    monkeypatch.setattr(topic_ops, "topic_message", convert)
    async with with_topics(tmp_path) as s:
        for _ in range(30):
            await s.commander.publish("PLAN_READY", "The same plan.")
        read.clear()
        done = await s.commander.publish("PLAN_READY", "The same plan.")
        assert read == [2, done.id]  # the last snapshot, and the message itself


async def test_a_restart_folds_what_came_after_the_last_snapshot(tmp_path: Path) -> None:
    async with with_topics(tmp_path) as s:
        await s.commander.publish("ISSUE_OPENED", "The login fails.")
        await s.commander.publish("WORKER_PROGRESS", data={"percent_complete": 45})
        await s.store.write(lambda conn: conn.execute("DELETE FROM topic_message WHERE topic = 'STATE_SNAPSHOT'"))
    async with with_topics(tmp_path) as s:
        rows = await s.rows("SELECT content FROM topic_message WHERE topic = 'STATE_SNAPSHOT'")
        assert [row["content"] for row in rows] == ["Task: The login fails.\nProgress: 45%"]
    async with with_topics(tmp_path) as s:
        assert await s.value("SELECT count(*) FROM topic_message WHERE topic = 'STATE_SNAPSHOT'") == 1


async def test_subscribers_of_the_state_get_each_snapshot(tmp_path: Path) -> None:
    found = templates(tmp_path, watcher='subscribes = ["STATE_SNAPSHOT"]')
    async with swarm(tmp_path, DONE, settings=QUIET, templates=found) as s:
        await s.commander.create("walt", template="watcher")
        await s.commander.publish("ISSUE_OPENED", "The login fails.")
        await s.settled("walt")
        assert s.sent()[0][-1][1].startswith(
            "[topic STATE_SNAPSHOT to walt, from client state-snapshotter]\nTask: The login fails.\nData: {"
        )


async def test_a_mysis_with_topics_is_offered_the_tools_and_others_are_not(tmp_path: Path) -> None:
    async with with_topics(tmp_path) as s:
        for name, template in (("wanda", "worker"), ("paul", "plain"), ("mia", "mute")):
            await s.commander.create(name, template=template)
            await s.commander.send(name, "Hello.")
            await s.settled(name)
        offered = [{tool.name for tool in request.tools} for request in s.provider.requests]
        topics = {"zoea_publish", "zoea_read_topic"}
        assert [tools & topics for tools in offered] == [topics, set(), {"zoea_read_topic"}]


async def test_a_mysis_reads_topics_and_their_messages(tmp_path: Path) -> None:
    def reading(**arguments: Any) -> Answer:
        return Answer(calls=(AnswerCall("zoea_read_topic", json.dumps(arguments)),))

    answers = script(reading(), reading(topic="NEWS", limit=1), reading(topic="NEVS"), Answer(text="Done."))
    async with with_topics(tmp_path, answers) as s:
        await s.commander.create("wanda", template="worker", start=False)
        await s.commander.publish("NEWS", "One.")
        await s.commander.publish("NEWS", "Two.", data={"n": 2})
        await s.ask("wanda", "What is new?")
        results = await s.rows("SELECT content FROM memory WHERE role = 'tool' ORDER BY seq")
        listed, read = (json.loads(row["content"]) for row in results[:2])
        assert [(row["topic"], row["messages"]) for row in listed["topics"]] == [("NEWS", 2)]
        assert [(row["text"], row["data"]) for row in read["messages"]] == [("Two.", {"n": 2})]
        assert read["next_before_id"] == read["messages"][0]["id"]
        assert "did you mean NEWS?" in results[2]["content"]


async def test_of_large_messages_only_those_that_an_answer_shows_are_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[int] = []

    def convert(row: Any) -> TopicMessage:
        parsed.append(row["id"])
        return topic_message(row)

    monkeypatch.setattr(topic_reader, "topic_message", convert)
    async with with_topics(tmp_path) as s:
        backend = s.commander.builtin_backend
        for _ in range(6):
            await s.commander.publish("PLAN_READY", "x", data={"a": [{}] * 4_000}, is_raw=True)
        parsed.clear()
        seen: list[int] = []
        before: int | None = None
        while before is not None or not seen:
            given = ReadTopicArguments(topic="PLAN_READY", limit=100, before_id=before)
            answer = await read_topic_rows(given, backend.read_topics, backend.read_topic)
            seen += [row["id"] for row in answer["messages"]]
            assert len(parsed) <= 2
            parsed.clear()
            before = answer.get("next_before_id")
        assert seen == [6, 5, 4, 3, 2, 1]


async def test_many_publishers_at_once_keep_one_order_for_every_subscriber(tmp_path: Path) -> None:
    async with with_topics(tmp_path) as s:
        for name in ("wanda", "walter", "wilma"):
            await s.commander.create(name, template="worker")
        await asyncio.gather(*(s.commander.publish("PLAN_READY", f"Plan {number}.") for number in range(25)))
        await s.settled_in_time("wanda", "walter", "wilma")
        ledger = [
            [row["content"]]
            for row in await s.rows("SELECT content FROM topic_message WHERE topic = 'PLAN_READY' ORDER BY id")
        ]
        for name in ("wanda", "walter", "wilma"):
            assert await prompts(s, name) == ledger


async def test_an_idle_subscriber_is_woken(tmp_path: Path) -> None:
    async with with_topics(tmp_path) as s:
        await s.commander.create("wanda", template="worker", start=False)
        assert s.state("wanda") is MysisState.IDLE
        await s.commander.publish("PLAN_READY", "Go.")
        await s.until(lambda: s.state("wanda") is MysisState.RUNNING)


async def test_a_publish_with_twenty_subscribers_is_one_transaction_of_few_statements(tmp_path: Path) -> None:
    """The count of statements bounds its CPU: four for each subscriber, and few more."""
    settings = Settings.model_validate({"swarm": {"max_myses": 20}})
    async with with_topics(tmp_path, settings=settings) as s:
        ids = [(await s.commander.create("", template="worker", start=False)).id for _ in range(20)]
        statements: list[str] = []

        def op(conn: Any) -> None:
            conn.set_trace_callback(statements.append)
            try:
                outgoing = OutgoingTopicMessage("NEWS", "x", None, Sender())
                publish(conn, outgoing, lambda _: ids, PublishLimits(60, 30))
            finally:
                conn.set_trace_callback(None)

        await s.store.write(op)
        assert len(ids) * 2 <= len(statements) <= len(ids) * 4 + 10
