"""A fork of a mysis that an agent plays: the agent forks its session where that holds the same conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.agents.agent_harness import OneFolder, agent_swarm, conversation, received, say, work
from tests.swarm.harness import Swarm


def begun(folder: Path) -> list[str]:
    """Return the methods that began sessions, in order."""
    named = [one.get("method", "") for one in received(folder)]
    return [name for name in named if name in ("session/new", "session/fork", "session/resume")]


def prompts(folder: Path) -> list[str]:
    found = [one["params"]["prompt"] for one in received(folder) if one.get("method") == "session/prompt"]
    return ["\n".join(block["text"] for block in blocks) for blocks in found]


async def fork(s: Swarm, commit: str, name: str = "beta") -> None:
    await s.commander.create(name, commit=commit, start=False)
    await say(s, ["say", "from the fork"], name=name)
    await s.settled(name)


async def test_the_agent_forks_its_session_and_is_told_who_it_is_now(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, {"fork": True, "resume": True}, more='prompt = "You are careful."') as s:
        await work(s, ["say", "first answer"])
        await fork(s, "@alpha")
        assert begun(tmp_path) == ["session/new", "session/fork"]
        assert [text for _, text in await conversation(s)] == ["first answer", "from the fork"]
        told = prompts(tmp_path)[1]
        assert "fork of that of the mysis alpha" in told
        assert "you are the mysis beta" in told
        assert "You are careful." in told
        assert "first answer" not in told
        notes = [row["content"] for row in await s.rows("SELECT content FROM turn_note")]
        assert len(notes) == 1
        assert "forked its session with alpha" in notes[0]
    async with agent_swarm(tmp_path, {"fork": True, "resume": True}) as s:
        await work(s, ["say", "again"], name="beta")
        [resumed] = [one["params"] for one in received(tmp_path) if one.get("method") == "session/resume"]
        assert resumed["sessionId"].startswith("fork of ")


@pytest.mark.parametrize("behaviour", [{}, {"fork": True, "forgets": True}], ids=["cannot", "does not know it"])
async def test_else_a_new_session_is_told_the_conversation(tmp_path: Path, behaviour: dict[str, Any]) -> None:
    async with agent_swarm(tmp_path, behaviour) as s:
        await work(s, ["say", "first answer"])
        await fork(s, "@alpha")
        assert begun(tmp_path)[-1] == "session/new"
        assert "first answer" in prompts(tmp_path)[1]


async def test_a_fork_of_an_earlier_moment_forks_no_session_that_knows_more(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, {"fork": True}) as s:
        await work(s, ["say", "first answer"])
        await work(s, ["say", "second answer"])
        await fork(s, "@alpha~1")
        assert begun(tmp_path) == ["session/new", "session/new"]
        told = prompts(tmp_path)[2]
        assert "first answer" in told
        assert "second answer" not in told


async def test_a_fork_whose_origin_went_on_before_it_began_forks_no_session(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, {"fork": True}) as s:
        await work(s, ["say", "first answer"])
        await s.commander.create("beta", commit="@alpha", start=False)
        await work(s, ["say", "second answer"])
        await work(s, ["say", "from the fork"], name="beta")
        assert begun(tmp_path) == ["session/new", "session/new"]
        assert "second answer" not in prompts(tmp_path)[2]


@pytest.mark.parametrize(("acp", "how"), [("", "session/new"), ('agent = "codex"', "session/fork")])
async def test_a_fork_with_a_folder_of_its_own_forks_the_session_of_an_agent_that_moves_it_alone(
    tmp_path: Path, acp: str, how: str
) -> None:
    async with agent_swarm(tmp_path, {"fork": True, "modes": ["read-only"]}, acp=acp) as s:
        await work(s, ["say", "first answer"])
        files = s.commander.swarm.services.files
        assert isinstance(files, OneFolder)
        files.others["beta"] = tmp_path
        await fork(s, "@alpha")
        assert begun(tmp_path) == ["session/new", how]
        assert ("first answer" in prompts(tmp_path)[1]) is (how == "session/new")
