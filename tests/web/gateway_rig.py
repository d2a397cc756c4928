"""Run a swarm with an open turn, and a client at its gateway. A fake vendor is behind that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.fakes import anthropic_server, openai_server
from tests.fakes.wire_server import Outgoing, Received, WireServer
from tests.swarm.harness import OneProvider, Swarm, swarm
from zoea.llm.prices import PriceList
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.providers.anthropic_provider import AnthropicProvider
from zoea.llm.providers.openai_provider import OpenAIProvider
from zoea.model.ports import GatewayAccess, Provider
from zoea.model.request import ToolResult, ToolSpec
from zoea.process.clock import SystemClock
from zoea.settings.schema import Settings
from zoea.web.gateway import GatewayServer

KEY = "sk-reef-0123456789abcdef"
MARK = "from the agent"
"""Stands in each request of the agent; Zoea's own have none, and the vendor never answers them."""


class Vendor(openai_server.OpenAIServer):
    """Chat completions and responses. Zoea's own requests wait for ever, so that their turns stay open."""

    refuses_responses: tuple[int, Any] | None = None

    async def handle(self, request: Received, out: Outgoing) -> None:
        if request.method == "POST" and MARK.encode() not in request.body:
            await asyncio.Event().wait()
        if request.path.endswith("/responses"):
            return out.json(*self.refuses_responses) if self.refuses_responses else await _respond(request, out)
        return await super().handle(request, out)

    @property
    def asked(self) -> list[Received]:
        """The requests of agents."""
        return [one for one in self.received if MARK.encode() in one.body]


RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "model": "reef-1",
    "status": "completed",
    "output": [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "All is well.", "annotations": []}],
        }
    ],
    "usage": {
        "input_tokens": 90,
        "input_tokens_details": {"cached_tokens": 40},
        "output_tokens": 7,
        "total_tokens": 97,
    },
}


async def _respond(request: Received, out: Outgoing) -> None:
    if not request.json.get("stream"):
        return out.json(200, RESPONSE)
    out.begin("text/event-stream")
    [item] = RESPONSE["output"]
    [part] = item["content"]
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": [], "usage": None}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **place, "delta": part["text"]},
        {"type": "response.output_text.done", **place, "text": part["text"]},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": RESPONSE},
    ]
    for event in events:
        out.piece(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    out.end()
    return None


class AnthropicVendor(anthropic_server.AnthropicServer):
    """The messages API. Zoea's own requests wait for ever, so that their turns stay open."""

    async def handle(self, request: Received, out: Outgoing) -> None:
        if request.method == "POST" and MARK.encode() not in request.body:
            await asyncio.Event().wait()
        if request.path.startswith("/v1/messages/count_tokens"):
            return out.json(200, {"input_tokens": 77})
        return await super().handle(request, out)


class OneTool:
    """Zoea's own tools as one process of an agent has them: one that says what it is told."""

    is_open = True

    def list_tools(self) -> tuple[ToolSpec, ...]:
        return (ToolSpec("look", "Looks.", {"type": "object"}),)

    async def call_tool(self, name: str, arguments: str) -> ToolResult:
        return ToolResult(f"{name} {arguments}")


class Rig:
    """What a test holds."""

    def __init__(self, s: Swarm, server: WireServer, gateway: GatewayServer, access: GatewayAccess, http: Any) -> None:
        self.s = s
        self.server = server
        self.gateway = gateway
        self.access = access
        self.http: aiohttp.ClientSession = http

    @property
    def mysis_id(self) -> int:
        return self.s.commander.swarm.runner("alpha").mysis.id

    async def chat(self, text: str = "look", **more: Any) -> tuple[int, Any]:
        """Ask for a chat completion that is not streamed; return status and body."""
        body = {"model": "gpt-9", "messages": [{"role": "user", "content": f"{text} {MARK}"}], **more}
        return await self.post("/chat/completions", body)

    async def post(self, path: str, body: Any, **options: Any) -> tuple[int, Any]:
        async with self.http.post(f"{self.access.openai_url}{path}", json=body, **options) as reply:
            return reply.status, await reply.json(content_type=None)

    async def stream(self, path: str, body: dict[str, Any]) -> str:
        """Ask for a stream, and return all of it."""
        async with self.http.post(f"{self.access.openai_url}{path}", json={**body, "stream": True}) as reply:
            assert reply.status == 200, await reply.text()
            return await reply.text()

    async def settled(self) -> None:
        """Wait until no request of the agent is under way any more."""
        opened = self.gateway._open.get(self.mysis_id)
        await self.s.until(lambda: not (self.gateway._settling or (opened and opened.running)))

    async def requests(self) -> list[dict[str, Any]]:
        """Return the rows of the agent's requests: all but the own one of the turn. All are settled that have ended."""
        await self.settled()
        rows = await self.s.rows("SELECT * FROM request ORDER BY id")
        return rows[1:]


@asynccontextmanager
async def rig(
    folder: Path,
    *,
    server: WireServer | None = None,
    settings: dict[str, Any] | None = None,
    prices: PriceList | None = None,
    model: str = "reef-1",
    concurrency: int = 8,
    has_turn: bool = True,
    makes: bool = True,
    provider: Provider | None = None,
) -> AsyncIterator[Rig]:
    server = server or Vendor()
    values = {"budget": {"max_output_tokens": 100}, "llm": {"retries": 0}, **(settings or {})}
    async with server, aiohttp.ClientSession() as http, aclosing_provider(server, model, concurrency) as made:
        given, known = Settings.model_validate(values), prices or PriceList()
        async with swarm(folder, settings=given, providers=OneProvider(provider or made), prices=known) as s:
            gateway = GatewayServer(s.commander.swarm)
            if makes:
                await s.commander.create("alpha", start=True)
            if has_turn:
                await s.commander.send("alpha", "work")
                await s.until(lambda: any(one.method == "POST" for one in server.received))
            try:
                access = await gateway.open(s.commander.swarm.runner("alpha").mysis.id)
                yield Rig(s, server, gateway, access, http)
            finally:
                await gateway.shut_down()


@asynccontextmanager
async def aclosing_provider(
    server: WireServer, model: str, concurrency: int
) -> AsyncIterator[OpenAIProvider | AnthropicProvider]:
    provider = make_provider(server, model, concurrency)
    try:
        yield provider
    finally:
        await provider.close()


def make_provider(server: WireServer, model: str, concurrency: int = 8) -> OpenAIProvider | AnthropicProvider:
    if isinstance(server, AnthropicVendor):
        server.key = KEY
        config = ProviderConfig(
            type="anthropic", base_url=server.url, model=model, api_key=KEY, concurrency=concurrency
        )
        return AnthropicProvider.open("reef", config, SystemClock())
    assert isinstance(server, openai_server.OpenAIServer)
    server.key = KEY
    config = ProviderConfig(
        type="openai", base_url=server.base_url, model=model, api_key=KEY, concurrency=concurrency, tool_mode="native"
    )
    return OpenAIProvider.open("reef", config, SystemClock())
