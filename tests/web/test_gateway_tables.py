"""Each route of the gateway gets values that go off, each wire hostile texts.

A new one is in it by itself.
"""

from __future__ import annotations

import gc
import io
import json
import os
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest

from tests.acp_server.test_acp_tables import BOMBS, TEXT_SIZE
from tests.cli.conftest import Zoea, zoea  # noqa: F401  a fixture
from tests.cli.test_hidden_characters import EVIL, READS, TEXT
from tests.fakes.anthropic_server import Say as AnthropicSay
from tests.fakes.anthropic_server import Text
from tests.fakes.import_bombs import MIB, forget_peak, read_peak
from tests.fakes.openai_server import Say
from tests.fakes.wire_server import Outgoing, Received
from tests.text.hidden_characters import is_hidden
from tests.web.gateway_rig import MARK, RESPONSE, AnthropicVendor, OneTool, Vendor, rig
from zoea.llm.messages.wire_bodies import Wire
from zoea.settings.paths import places
from zoea.web.gateway import ROUTES, WIRES
from zoea.web.gateway_tools import PATH as TOOLS

MOST_MEMORY = 4 * MIB + 30 * TEXT_SIZE
"""Of one request, which holds the longest text twice."""
EVERY = 1 if os.environ.get("ZOEA_SOAK") else 3
"""Of routes, bombs and fields, every so many combinations are tried: each two of them meet."""
FIELDS = ("model", "messages", "input", "system", "tools", "max_tokens", "metadata", "stream", "params", "id", "x")
SOUND = {
    "model": "m",
    "messages": [{"role": "user", "content": MARK}],
    "input": MARK,
    "max_tokens": 5,
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/list",
}


TOOL = {"name": "look", "description": TEXT}
SCHEMA = {"type": "object", "description": TEXT, "properties": {TEXT: {"type": "string"}}}
SAID = [{"role": "user", "content": f"{MARK} {TEXT}"}]
BODIES: dict[Wire, dict[str, Any]] = {
    Wire.CHAT: {"messages": SAID, "tools": [{"type": "function", "function": {**TOOL, "parameters": SCHEMA}}]},
    Wire.MESSAGES: {"messages": SAID, "max_tokens": 5, "tools": [{**TOOL, "input_schema": SCHEMA}]},
    Wire.RESPONSES: {"input": SAID, "tools": [{"type": "function", **TOOL, "parameters": SCHEMA}]},
}
"""Requests of each wire with hostile texts."""


def list_bodies(value: str) -> Iterator[str]:
    """Yield bodies that are a value, and that hold it in each field.

    Others hold it in a message.
    """
    yield value
    sound = {name: json.dumps(one) for name, one in SOUND.items()}
    message = f'[{{"role":"user","content":{json.dumps(MARK)},"x":{value}}},{{"role":"user","content":{value}}}]'
    for field, one in (*((name, value) for name in FIELDS), ("messages", message), ("input", message)):
        yield "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in {**sound, field: one}.items()) + "}"


WHOLE = {"choices": [{"index": 0, "message": {"content": "ore"}, "finish_reason": "stop"}]}


class Answering(Vendor):
    """Answers whatever it is asked."""

    async def handle(self, request: Received, out: Outgoing) -> None:
        out.json(200, RESPONSE if request.path.endswith("/responses") else WHOLE)


def test_every_wire_has_a_route() -> None:
    assert set(WIRES.values()) == set(Wire) == BODIES.keys()
    assert WIRES.keys() < ROUTES.keys()


async def test_no_body_of_any_route_takes_much_memory_or_ends_the_gateway(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gc.collect()  # asyncio logs what an earlier test left, such as a pipe that broke, where Python finds it
    budget = {"max_output_tokens": 100, "swarm_per_day": "none"}  # else the largest answers hold the swarm
    async with rig(tmp_path, server=Answering(), settings={"budget": budget}, has_turn=False) as r:
        base = r.access.openai_url.removesuffix("/v1")
        tools = await r.gateway.serve_tools(OneTool())
        for (first, bomb), (route, method) in product(enumerate(BOMBS), ROUTES.items()):
            address, head = base + route, {}
            if route == TOOLS:
                address, head = tools.url, {"authorization": f"Bearer {tools.token}"}
            place = first + [*ROUTES].index(route)
            for body in islice(list_bodies(BOMBS[bomb]), place % EVERY, None, EVERY):
                forget_peak()
                before = read_peak()
                async with r.http.request(method, address, data=io.BytesIO(body.encode()), headers=head) as reply:
                    text = await reply.text()
                    r.server.received.clear()
                    assert reply.status < 500, (bomb, route, body[:200], text[:500])
                assert read_peak() - before < MOST_MEMORY, (bomb, route, body[:200])
            assert (await r.chat())[0] == 200, (bomb, route)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("vendor", [Vendor, AnthropicVendor])
@pytest.mark.parametrize("wire", WIRES)
async def test_what_an_agent_asked_for_is_shown_whole_and_with_hidden_characters_as_escapes(
    tmp_path: Path,
    zoea: Zoea,  # noqa: F811  the fixture
    monkeypatch: pytest.MonkeyPatch,
    wire: str,
    vendor: type[Vendor] | type[AnthropicVendor],
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    where = places("")
    where.database.parent.mkdir(parents=True, exist_ok=True)
    server = Vendor(otherwise=lambda _: Say(TEXT)) if vendor is Vendor else AnthropicVendor(AnthropicSay((Text(TEXT),)))
    body = {"model": TEXT, "metadata": {TEXT: TEXT}, **BODIES[WIRES[wire]]}
    async with rig(where.database.parent, server=server) as r:
        status, said = await r.post(wire.removeprefix("/v1"), body)
        await r.settled()
    assert status == 200, said
    shown = zoea("explain", "alpha", "--text").out
    assert EVIL in shown
    for line in READS:
        if line.split()[0] in ("show", "log", "export", "explain", "stats", "metrics", "search", "list", "doctor"):
            text = zoea(*line.split()).out
            assert not is_hidden(text), line


@pytest.mark.parametrize(
    ("message", "number"),
    [({"id": 1.5, "method": "ping"}, None), ({"id": [], "method": "ping"}, None), ({"id": 7, "method": 5}, 7)],
)
async def test_a_message_to_the_tools_that_is_no_request_is_refused(
    tmp_path: Path, message: dict[str, Any], number: int | None
) -> None:
    async with rig(tmp_path, has_turn=False) as r:
        tools = await r.gateway.serve_tools(OneTool())
        async with r.http.post(tools.url, json=message, headers={"authorization": f"Bearer {tools.token}"}) as reply:
            said = await reply.json()
    assert (said["id"], said["error"]["code"]) == (number, -32600)
