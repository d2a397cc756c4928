"""A changed configuration: from the next turn on where the mysis runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.swarm.harness import Peer, Swarm, call, script, swarm
from zoea.model.enums import MysisState, Role
from zoea.model.request import Answer
from zoea.settings.schema import Settings
from zoea.settings.template import parse_template
from zoea.settings.template_library import Templates
from zoea.tools import ToolPolicy

QUIET = Settings.model_validate({"nudge": {"enabled": False}})


def systems(s: Swarm) -> list[str]:
    """Return the system message of each request."""
    return ["".join(m.content for m in request.messages if m.role is Role.SYSTEM) for request in s.provider.requests]


def prompt_of(template: str) -> str:
    return Templates().get(template).prompt


async def test_the_open_turn_ends_as_it_began_and_the_next_one_has_the_change(tmp_path: Path) -> None:
    peer = Peer(gates={"act": asyncio.Event()})
    rule = script(Answer(calls=(call("act"),)), Answer(text="one"), Answer(text="two"))
    async with swarm(tmp_path, rule, settings=QUIET, peer=peer) as s:
        await s.commander.create("alpha", model="small")
        await s.commander.send("alpha", "begin")
        await s.until(lambda: peer.running)
        changed = await s.commander.configure("alpha", template="miner", model="large", tags=("north",))
        assert (changed.state, changed.in_turn, changed.tags) == (MysisState.RUNNING, True, ("north",))
        peer.gates["act"].set()
        await s.settled()
        await s.ask("alpha", "again")
        assert [row["model"] for row in await s.rows("SELECT model FROM request ORDER BY id")] == [
            "small",
            "small",
            "large",
        ]
        first, second, third = systems(s)
        assert first == second != third
        assert third.startswith(prompt_of("miner").strip()[:40])
        assert await s.value("SELECT count(*) FROM session") == 1
        commits = await s.rows("SELECT p.name FROM ctx_commit c JOIN template p ON p.hash = c.template_hash")
        assert [row["name"] for row in commits] == ["default", "default", "miner"]


async def test_tools_of_the_new_template_are_offered_from_the_next_turn_on(tmp_path: Path) -> None:
    def policy(body: str) -> ToolPolicy:
        return ToolPolicy(deny=("burn",) if parse_template(body).name == "miner" else ())

    async with swarm(tmp_path, script(Answer(text="ok")), settings=QUIET, policies=policy) as s:
        await s.commander.create("alpha")
        for _ in range(2):
            await s.ask("alpha", "go")
            await s.commander.configure("alpha", template="miner")
        names = [{tool.name for tool in request.tools} for request in s.provider.requests]
        assert ["burn" in one for one in names] == [True, False]


async def test_a_turn_that_is_resumed_keeps_the_system_message_that_it_began_with(tmp_path: Path) -> None:
    peer = Peer(gates={"act": asyncio.Event()})
    async with swarm(tmp_path, script(Answer(calls=(call("act"),))), settings=QUIET, peer=peer) as s:
        await s.commander.create("alpha")
        await s.commander.send("alpha", "begin")
        await s.until(lambda: peer.running)
        before = systems(s)
    async with swarm(tmp_path, script(Answer(text="done")), settings=QUIET) as s:
        await s.commander.configure("alpha", template="miner")
        await s.start("alpha")
        assert systems(s) == before
