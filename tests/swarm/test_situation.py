"""The parts of the situation pack that a template may name."""

from __future__ import annotations

from pathlib import Path

from tests.swarm.harness import Swarm, call, script, swarm
from tests.swarm.test_builtin_backend import templates
from zoea.model.request import Answer
from zoea.settings.schema import Settings


async def test_every_part_is_in_the_request_titled_as_data_and_frozen_with_the_turn(tmp_path: Path) -> None:
    found = templates(tmp_path, aware='situation = ["time", "swarm", "broadcast", "snapshot"]')
    settings = Settings.model_validate({"context": {"snapshot_tools": ["look", "get_*"]}})
    replies = script(
        Answer(calls=(call("look", "one"), call("act", "two"))),
        Answer(text="seen"),
        Answer(calls=(call("look", "three"),)),
        Answer(text="done"),
        Answer(text="done"),
    )
    async with swarm(tmp_path, replies, templates=found, settings=settings) as s:
        await s.commander.create("alpha", template="aware", start=False)
        await s.commander.create("beta", start=False)
        await s.commander.stop("beta")
        await s.commander.broadcast("mine iron")
        await s.settled()
        s.clock.by(7)
        s.commander.swarm.runner("alpha")
        s.clock.by(30)
        await s.until(lambda: s.provider.calls == 4)
        await s.settled()
        situation = [text for _, text in s.sent()[2] if text.startswith("[data: situation]")]
        assert situation == [
            "[data: situation]\nTime: 2023-11-14 22:13 UTC\nOther myses: beta (stopped)\n"
            "Latest broadcast of the commander: mine iron\nlook (37 s ago): look did one"
        ]
        assert [text for _, text in s.sent()[3] if text.startswith("[data: situation]")] == situation
        await s.ask("alpha", "a direct word")
        s.clock.by(31)
        await s.until(lambda: s.provider.calls == 6)
        last = next(text for _, text in s.sent()[-1] if text.startswith("[data: situation]"))
        assert "Latest broadcast" not in last
        assert "look did three" in last


async def test_alone_and_with_nothing_seen_it_says_so_or_nothing(tmp_path: Path) -> None:
    found = templates(tmp_path, aware='situation = ["swarm", "broadcast", "snapshot"]')
    async with swarm(tmp_path, script(Answer(text="ok")), templates=found) as s:
        await s.commander.create("alpha", template="aware", start=False)
        await s.ask("alpha", "go")
        assert s.sent()[0][0] == ("user", "[data: situation]\nOther myses: none")


def situation(s: Swarm) -> str:
    """That of the newest request."""
    return next((text for _, text in s.sent()[-1] if text.startswith("[data: situation]")), "")


async def test_the_turn_that_a_direct_message_opens_reads_no_older_broadcast(tmp_path: Path) -> None:
    found = templates(tmp_path, aware='situation = ["broadcast"]')
    async with swarm(tmp_path, script(Answer(text="ok")), templates=found) as s:
        await s.commander.create("alpha", template="aware", start=False)
        await s.commander.broadcast("to the north belt")
        await s.settled()
        assert situation(s) == ""
        s.clock.by(30)
        await s.until(lambda: s.provider.calls == 2)
        await s.settled()
        assert "to the north belt" in situation(s)
        await s.ask("alpha", "go south")
        assert s.sent()[-1][-1] == ("user", "go south")
        assert situation(s) == ""


async def test_the_turn_that_a_broadcast_opens_reads_no_older_one_beside_it(tmp_path: Path) -> None:
    found = templates(tmp_path, aware='situation = ["broadcast"]')
    async with swarm(tmp_path, script(Answer(text="ok")), templates=found) as s:
        await s.commander.create("alpha", template="aware", start=False)
        await s.commander.broadcast("to the north belt")
        await s.settled()
        await s.commander.broadcast("to the south belt")
        await s.settled()
        assert situation(s) == ""
        assert s.sent()[-1] == [("assistant", "ok"), ("user", "to the south belt")]


async def test_a_snapshot_that_is_long_is_left_to_the_tool(tmp_path: Path) -> None:
    found = templates(tmp_path, aware='situation = ["snapshot"]')
    settings = Settings.model_validate({"context": {"snapshot_tools": ["look"]}})
    replies = script(Answer(calls=(call("look", "x" * 3000),)), Answer(text="seen"))
    async with swarm(tmp_path, replies, templates=found, settings=settings) as s:
        await s.commander.create("alpha", template="aware", start=False)
        await s.ask("alpha", "go")
        await s.ask("alpha", "again")
        assert "[data: situation]" not in str(s.sent()[-1])
