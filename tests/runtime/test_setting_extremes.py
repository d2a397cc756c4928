"""Each setting at its extremes passes the check and lets a turn end.

Otherwise it says why it does not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import tomlkit
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from tests.case_tables import walk_cases
from tests.fakes import mcp_faulty
from tests.fakes.openai_server import Call, OpenAIServer, Say
from tests.fakes.setting_values import list_limits, list_values
from tests.fakes.wire_server import Received
from tests.web.gateway_rig import OneTool
from tests.web.test_gateway_tables import BODIES
from zoea.queries.stored_swarm import read_memories
from zoea.runtime.compose import RunningSwarm, SwarmOptions, running_swarm
from zoea.settings.inert_keys import iterate_fields
from zoea.settings.key_paths import KeyPath, get_value, put_value
from zoea.settings.layers import load
from zoea.settings.paths import Places
from zoea.settings.schema import Settings
from zoea.settings.template import OVERRIDES, Template
from zoea.web.gateway import ROUTES, WIRES, GatewayServer

FREE = {("upstream", "NAME", "login", "fixed")}
"""Tables of values that Zoea passes on as they are."""
LARGEST = 10**15
"""No number of a setting is larger, so that sums and microseconds of it fit into 64 bits."""
FIELDS: list[tuple[type[Settings | Template], KeyPath, FieldInfo]] = [
    (Settings, *one) for one in iterate_fields(Settings)
]
FIELDS += [(Template, *one) for one in iterate_fields(Template) if one[0][0] not in OVERRIDES]
NUMBERS = [one for one in FIELDS if list_limits(one[2]) and one[1] not in FREE]


@walk_cases(("model", "path", "field"), NUMBERS, ids=[".".join(path) for _, path, _ in NUMBERS])
def test_a_number_without_meaning_is_refused_or_counts_as_the_nearest_bound(
    model: type[Settings | Template], path: KeyPath, field: FieldInfo
) -> None:
    for value in (10**30, -(10**30), 1e308, -1e308, 2**63, float("inf"), float("nan")):
        tree: dict[str, Any] = {"name": "x"} if model is Template else {}
        if path[0] == "provider":
            tree = {"provider": {"NAME": {"type": "openai"}}}
        if path[:2] == ("context_strategy", "sources"):
            tree["context_strategy"] = {"sources": [{"topic": "X", path[-1]: value}]}
        else:
            put_value(tree, path, [value] if path[-1] == "delays" else value)
        try:
            found = model.model_validate(tree)
        except ValidationError:
            continue
        assert abs(get_value(found.model_dump(), path)) <= LARGEST


OTHERS = ("mcp", "metrics", "world")
"""Sections that no turn reads."""
MEANT = {
    "turn.max_iterations": "the turn ends after its first request",
    "budget.swarm_per_day": "the swarm is on hold after its first request",
    "budget.mysis": "each request is slowed down",
    "budget.token_budget_per_task": "it may not be below token_budget_per_agent",
    "provider.NAME.rate": "the second request waits for 1,000 s",
    "upstream.NAME.start_timeout": "no server starts in 0.1 s",
}
"""Keys whose lowest value stops or delays a turn, as it says."""
SECTIONS = sorted({path[0] for model, path, _ in NUMBERS if model is Settings} - {*OTHERS})
_NUMBER = len(SECTIONS) if os.environ.get("ZOEA_SOAK") else 3
GROUPS = [SECTIONS[place::_NUMBER] for place in range(_NUMBER)]
"""At full strength each section is tried alone, else with every third other one."""


def answer(request: Received) -> Say:
    """Call the tool of an upstream, else one of Zoea; then answer."""
    if request.json["messages"][-1]["role"] == "tool":
        return Say("Done.")
    names = [tool["function"]["name"] for tool in request.json["tools"]]
    return Say(calls=(Call("echo", '{"text": "x"}') if "echo" in names else Call("zoea_recall", '{"query": "belts"}'),))


async def ask_gateway(swarm: RunningSwarm) -> dict[str, int]:
    """Ask each route of the gateway as an external agent does. Return the status of each."""
    gateway = GatewayServer(swarm.commander.swarm)
    access = await gateway.open(1)
    tools = await gateway.serve_tools(OneTool())
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping", "model": "m", "messages": []}
    statuses = {}
    try:
        async with aiohttp.ClientSession(headers={"authorization": f"Bearer {access.token}"}) as http:
            for route, method in ROUTES.items():
                address = f"http://127.0.0.1:{gateway.port}{route}"
                head = {"authorization": f"Bearer {tools.token}"} if route in tools.url else {}
                body = {"model": "m", **BODIES[WIRES[route]]} if route in WIRES else ping
                async with http.request(method, address, json=body, headers=head) as reply:
                    statuses[route] = reply.status
    finally:
        await gateway.shut_down()
    return statuses


@pytest.mark.parametrize("end", [min, max])
@pytest.mark.parametrize("sections", GROUPS, ids=" ".join)
async def test_a_turn_is_answered_with_each_number_of_a_section_at_its_extreme(
    runtime: Path, tmp_path: Path, sections: list[str], end: Callable[[Iterable[float]], float]
) -> None:
    where = Places(tmp_path / "data", tmp_path / "config", runtime)
    where.make_config()
    async with OpenAIServer(otherwise=answer) as server:
        tree: dict[str, Any] = {"provider": {"mine": {"type": "openai", "base_url": server.base_url, "model": "m"}}}
        tree["nudge"] = {"enabled": False}
        if "upstream" in sections:
            tree["upstream"] = {"mine": {"command": sys.executable, "args": [mcp_faulty.__file__]}}
        for _, path, field in NUMBERS:
            if path[0] in sections and not (end is min and ".".join(path) in MEANT):
                values = [
                    one for value in list_values(path, field) for one in (value if path[-1] == "delays" else [value])
                ]
                value = end(one for one in values if type(one) in (int, float))
                place = tuple("mine" if part == "NAME" else part for part in path)
                put_value(tree, place, [value] if path[-1] == "delays" else value)
        where.config_file.write_text(tomlkit.dumps(tree))
        options = SwarmOptions(loaded=load(where, env={}))
        async with running_swarm(where, lambda: None, options=options) as swarm:
            await swarm.create("alpha")
            await swarm.send("alpha", "Go.")
            await swarm.wait("alpha", timeout_s=20)
            statuses = await ask_gateway(swarm)
            assert statuses == {**dict.fromkeys(ROUTES, 200), "/v1/messages/count_tokens": 404}, (
                "this vendor counts none"
            )
    *_, result, last = read_memories(where.database, "alpha", last=2)
    assert last.content == "Done."
    assert (result.content == "x") is ("upstream" in sections)
