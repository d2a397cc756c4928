"""`zoea topic`: publish to a running swarm; list, read and follow from the database."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Zoea
from tests.fakes.owner import OwnerThread
from tests.swarm.test_topics import with_topics
from zoea.settings.paths import places


@pytest.fixture
def data() -> Path:
    """The data directory of a workspace with a few messages and a subscriber."""
    where = places(configured=False)
    where.make_data()

    async def publish() -> None:
        async with with_topics(where.data) as s:
            await s.commander.create("wanda", template="worker", start=False)
            await s.commander.publish("NEWS", "All is\nwell.", data={"ore": 7})
            await s.commander.publish("NEWS", "Still well.", receiver="wanda")
            await s.commander.publish("ISSUE_OPENED", "The login fails.")

    asyncio.run(publish())
    return where.data


def test_topics_are_listed_with_counts_newest_and_subscribers(zoea: Zoea, data: Path) -> None:
    said = zoea("topic", "list").out.splitlines()
    assert [line.split()[:2] for line in said] == [
        ["STATE_SNAPSHOT", "1"],
        ["ISSUE_OPENED", "1"],
        ["NEWS", "2"],
        ["PLAN_READY", "0"],
        ["VALIDATION_RESULT", "0"],
    ]
    assert "you: Still well." in said[2]
    assert "read by wanda" in said[3]
    rows = zoea("topic", "list", "--json").json
    assert (rows[2]["topic"], rows[2]["messages"], rows[3]["subscribers"]) == ("NEWS", 2, ["wanda"])


def test_messages_are_read_oldest_first_with_their_data(zoea: Zoea, data: Path) -> None:
    said = zoea("topic", "read", "NEWS").out
    assert said.index("All is\n    well.") < said.index('"ore": 7') < said.index("you to wanda\n    Still well.")
    newest = zoea("topic", "read", "NEWS", "--last", "1", "--json")
    assert json.loads(newest.out)["text"] == "Still well."
    wrong = zoea("topic", "read", "NEVS")
    assert (wrong.code, "did you mean NEWS?" in wrong.err) == (2, True)


def test_a_message_is_published_on_the_running_swarm(zoea: Zoea, other_owner: OwnerThread) -> None:
    done = zoea("topic", "publish", "NEWS", "All", "is", "well", "--data", '{"ore": 7}', "--json")
    assert (done.code, done.json["topic"]) == (0, "NEWS")
    [message] = other_owner.swarm.published
    assert (message.text, message.data, message.sender) == ("All is well", {"ore": 7}, "commander")
    assert "no mysis subscribes to it" in zoea("topic", "publish", "NEWS", "x").out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("STATE_SNAPSHOT", "x"), "only Zoea publishes on STATE_SNAPSHOT"),
        (("NEWS",), "the message is empty"),
        (("NEWS", "--data", "[1]"), "--data is not a JSON object"),
        (("NEWS", "--data", "{"), "--data is not JSON"),
        (("NEWS", "--data", '{"a":' * 900 + "1" + "}" * 900), "--data is nested more than 100 levels deep"),
        (("two words", "x"), "cannot be a topic"),
    ],
)
def test_what_cannot_be_published_is_refused_before_the_swarm_is_asked(
    zoea: Zoea, given: tuple[str, ...], said: str
) -> None:
    wrong = zoea("topic", "publish", *given)
    assert (wrong.code, said in wrong.err) == (2, True)


@pytest.mark.usefixtures("forked_programs")
def test_tail_shows_each_new_message_once_as_it_is_stored(data: Path) -> None:
    command = [sys.executable, "-m", "zoea", "topic", "tail", "NEWS", "--last", "1", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["text"] == "Still well."

        async def publish() -> None:
            async with with_topics(data) as s:
                for number in range(3):
                    await s.commander.publish("NEWS", f"News {number}")
                    await s.commander.publish("OTHER", "x")

        asyncio.run(publish())
        assert [json.loads(process.stdout.readline())["text"] for _ in range(3)] == ["News 0", "News 1", "News 2"]
        process.terminate()
