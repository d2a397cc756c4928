"""No arguments of Zoea's tools let a mysis read another's memory."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.mcp_client import answering_swarm
from zoea.model.request import AnswerCall, CallMeta
from zoea.swarm.commander import Commander
from zoea.tools import Toolbox
from zoea.tools.builtin.definitions import mysis_tools
from zoea.tools.builtin.mysis_tools import MysisTools
from zoea.tools.policy import SearchScope, ToolPolicy
from zoea.tools.toolbox import ToolboxSession

SECRET = "beta keeps beryllium at p16"
TRIES = 400


@pytest.fixture
async def swarm(runtime: Path, tmp_path: Path) -> AsyncIterator[Commander]:
    """Alpha and beta; what beta was told, thought and answered is its own."""
    async with answering_swarm(runtime, tmp_path) as swarm:
        for name in ("alpha", "beta"):
            await swarm.create(name)
        await swarm.send("beta", SECRET)
        await swarm.send("alpha", "alpha keeps silver at p9")
        for name in ("alpha", "beta"):
            await swarm.wait(name, timeout_s=30)
        yield swarm.commander


async def called(session: ToolboxSession, mysis: int, name: str, arguments: dict[str, Any]) -> str:
    meta = CallMeta(mysis_id=mysis, mysis="alpha", turn_id=1, call_id=1, hop=0, deadline_s=10)
    return (await session.call(AnswerCall(name=name, arguments=json.dumps(arguments)), meta=meta)).content


async def test_nothing_in_the_arguments_opens_anothers_memory(swarm: Commander, tmp_path: Path) -> None:
    toolbox = Toolbox([], logs=tmp_path, builtin=MysisTools(swarm.builtin_backend))
    alpha, beta = (await swarm.mysis("alpha")).id, (await swarm.mysis("beta")).id
    session = toolbox.session(alpha, "alpha", "")
    own = await called(session, alpha, "zoea_search_messages", {"query": "silver"})
    assert "alpha keeps silver at p9" in own
    source = random.Random(7)
    whose = [beta, str(beta), float(beta), f"#{beta}", "beta", [beta], {"id": beta}, None, -beta, f"{beta} OR 1=1"]
    queries = ["beryllium", "b", "%", "' OR 1=1 --", "*", "keeps", 'beryllium" OR "e', ""]
    extra = ["mysis", "owner", "mysis_id", "session_id", "scope", "search", "_meta", "before_id"]
    for tool in mysis_tools(ToolPolicy()):
        if not tool.reads:
            continue
        for _ in range(TRIES // 5):
            arguments: dict[str, Any] = {name: source.choice(whose) for name in tool.input_schema["properties"]}
            if "query" in arguments:
                arguments["query"] = source.choice(queries)
            if "id" in arguments:
                arguments["id"] = source.randrange(1, 20)
            arguments |= {name: source.choice(whose) for name in source.sample(extra, source.randrange(3))}
            arguments = {name: value for name, value in arguments.items() if source.random() < 0.8}
            said = await called(session, alpha, tool.name, arguments)
            assert SECRET not in said, (tool.name, arguments)
            assert "beryllium at p16" not in said, (tool.name, arguments)
    await toolbox.close()


async def test_a_template_that_searches_the_swarm_finds_it(swarm: Commander, tmp_path: Path) -> None:
    """So the test above proves the policy."""
    toolbox = Toolbox(
        [],
        logs=tmp_path,
        builtin=MysisTools(swarm.builtin_backend),
        policies=lambda _: ToolPolicy(search=SearchScope.SWARM),
    )
    alpha, beta = (await swarm.mysis("alpha")).id, (await swarm.mysis("beta")).id
    session = toolbox.session(alpha, "alpha", "")
    assert SECRET in await called(session, alpha, "zoea_search_messages", {"query": "beryllium", "mysis_id": beta})
    await toolbox.close()
