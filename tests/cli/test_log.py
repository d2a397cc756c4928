"""`zoea log`: the stored conversation as text and as JSON."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.cli.conftest import Zoea
from tests.fakes.owner import OwnerThread
from tests.fakes.swarm import FakeSwarm
from zoea.cli import output
from zoea.cli.commands.messages import memory_text
from zoea.model.enums import Role, Source
from zoea.model.values import Memory, ToolCall
from zoea.runtime import run_options
from zoea.runtime.compose import SwarmOptions, running_swarm
from zoea.settings.paths import places
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import mysis_ops

CALL = ToolCall(5, 0, "mine", '{"belt":"b2"}')


def memory(role: Role, content: str, **fields: Any) -> Memory:
    return Memory(1, 1, 1, 3, 1, role, Source.DIRECT, content, created_at=1_700_000_000_000_000, **fields)


class TestText:
    @walk_cases(
        ("shown", "who"),
        [
            (memory(Role.USER, "x"), "you"),
            (memory(Role.USER, "x", label="[message from mysis beta]"), "message from mysis beta"),
            (memory(Role.ASSISTANT, "x"), "mysis"),
            (memory(Role.ASSISTANT, "x", partial=True), "mysis (cut off)"),
            (memory(Role.TOOL, "x", tool_name="mine", is_error=True), "⚙ mine (failed)"),
        ],
    )
    def test_each_memory_shows_sender_and_time(self, shown: Memory, who: str) -> None:
        head, said = memory_text(shown, verbose=False).splitlines()
        assert head.endswith(f"  turn 3  {who}")
        assert said == "    x"

    def test_tool_calls_are_listed_below_the_text(self) -> None:
        text = memory_text(memory(Role.ASSISTANT, "", calls=(CALL,)), verbose=False)
        assert text.splitlines()[1:] == ['    ⚙ mine({"belt":"b2"})']

    def test_a_long_result_is_cut_unless_verbose(self) -> None:
        long = memory(Role.TOOL, "y" * 5_000, tool_name="get_map")
        assert "4,400 more characters; --verbose shows them" in memory_text(long, verbose=False)
        assert "y" * 5_000 in memory_text(long, verbose=True)

    def test_reasoning_is_shown_when_verbose(self) -> None:
        thought = memory(Role.ASSISTANT, "x", reasoning="hm")
        assert "(hm)" in memory_text(thought, verbose=True)
        assert "(hm)" not in memory_text(thought, verbose=False)

    def test_control_characters_in_messages_are_removed(self) -> None:
        assert "\x1b" not in memory_text(memory(Role.USER, "a\x1b[2Jb", label="[\x1b]0;x\x07]"), verbose=True)


class TestStored:
    @pytest.fixture(autouse=True)
    def _stored(self) -> None:
        async def talk() -> None:
            swarm_options = SwarmOptions(overrides={"swarm.default_provider": "scripted", "nudge.enabled": False})
            where = places()
            where.make_data()
            async with running_swarm(where, lambda: None, options=swarm_options) as swarm:
                await swarm.create("alpha")
                await swarm.send("alpha", "Mine the belt")
                await swarm.wait("alpha", timeout_s=20)
                await swarm.hold(True)
                await swarm.send("alpha", "And sell it")

        asyncio.run(talk())

    def test_the_log_is_read_without_a_running_swarm(self, zoea: Zoea) -> None:
        ran = zoea("log", "ALPHA")
        assert ran.code == 0
        assert "    Mine the belt" in ran.out
        assert ran.out.splitlines()[-2:] == [
            ran.out.splitlines()[-2].split("  ")[0] + "  queued (2)  you",
            "    And sell it",
        ]
        assert zoea("log", "alpha", "-n", "1").out.count("turn 1") == 1

    def test_json_is_one_memory_a_line(self, zoea: Zoea) -> None:
        lines = [json.loads(line) for line in zoea("log", "alpha", "--json").out.splitlines()]
        assert [line["role"] for line in lines][:1] == ["user"]
        assert all({"id", "turn_number", "seq", "content", "calls"} <= line.keys() for line in lines)

    def test_a_receipt_is_read_from_the_database(self, zoea: Zoea) -> None:
        assert zoea("send", "--receipt", "1").out == "alpha  answered\n"
        (line,) = zoea("send", "--receipt", "2", "--json").json["lines"]
        assert (line["mysis"], line["status"], line["delivery_id"]) == ("alpha", "delivered", 2)
        nothing = zoea("send", "--receipt", "7")
        assert (nothing.code, "there is no message 7" in nothing.err) == (2, True)
        assert "there is no id" in zoea("send", "--receipt", "0").err

    def test_the_log_of_an_unknown_mysis_is_an_error(self, zoea: Zoea) -> None:
        assert zoea("log", "nobody").code == 6

    def test_show_and_list_read_the_database(self, zoea: Zoea) -> None:
        assert "state     idle: Zoea was closed" in zoea("show", "alpha").out
        assert "alpha" in zoea("list").out
        assert zoea("list", "--workspace", "north", "--json").json == []


class TestDeleted:
    def test_deleted_myses_are_listed_and_restored_by_name(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        asyncio.run(_deleted("alpha", "beta", "alpha"))
        assert [row["id"] for row in zoea("undelete", "--json").json] == [3, 2, 1]
        assert zoea("undelete").out.splitlines()[1].startswith("#2  beta  deleted ")
        other_owner.do(_gone(other_owner.swarm, "x", "beta"))
        assert zoea("undelete", "BETA").out == "beta is stopped\n"
        twice = zoea("undelete", "alpha")
        assert (twice.code, "Give one of these ids: #3, #1." in twice.err) == (2, True)
        assert "`zoea undelete` lists them" in zoea("undelete", "gamma").err


async def _gone(swarm: FakeSwarm, *names: str) -> None:
    for name in names:
        await swarm.create(name)
        await swarm.delete(name)


async def _deleted(*names: str) -> None:
    """A database of deleted myses."""

    def op(conn: WriterConnection) -> None:
        for uid, name in enumerate(names):
            new = mysis_ops.MysisSpec(str(uid), name, "t", b"0" * 32, "", "scripted", "")
            mysis_ops.archive(conn, mysis_ops.create(conn, new, 9).id)

    places().make_data()
    store = await Store.open(places().database, clock_now=lambda: 1)
    await store.write(op)
    await store.close()


class TestWaiting:
    def test_a_command_waits_for_an_opening_owner_and_reports_it(
        self, zoea: Zoea, other_owner: OwnerThread, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(output, "AFTER_S", 0.0)
        where = places()
        hidden = where.socket.with_suffix(".hidden")
        where.socket.rename(hidden)
        other_owner.loop_call_later(0.3, lambda: hidden.rename(where.socket))
        ran = zoea("show", "nobody")
        assert ran.code == 6
        assert ran.err.startswith("zoea: waiting for the running swarm\n")

    def test_a_command_gives_up_on_an_owner_that_never_answers(
        self, zoea: Zoea, other_owner: OwnerThread, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(run_options, "OPENING_S", 0.1)
        Path(places().socket).unlink()
        assert zoea("list", "--json").code == 5
        assert zoea("send", "alpha", "x").code == 5
