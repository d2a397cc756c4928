"""The SDK's client with a token, and swarms that serve it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from zoea.llm.providers.scripted import ScriptedProvider
from zoea.mcp_server.address import listen, url_of
from zoea.mcp_server.server_process import serve_clients
from zoea.mcp_server.tokens import McpClient, Tokens, TokenScope
from zoea.model.enums import Finish, Role
from zoea.model.ports import Provider
from zoea.model.request import Answer, AnswerCall, ModelRequest
from zoea.model.swarm_api import SwarmApi
from zoea.runtime.compose import RunningSwarm, SwarmOptions, running_swarm
from zoea.settings.credentials import Credentials
from zoea.settings.paths import Places

NOW = 1_800_000_000_000_000


@asynccontextmanager
async def let_in(url: str, token: str, *, mode: str = "auto") -> AsyncIterator[Client]:
    """A session of the client with the token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30.0, verify=False) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


@dataclass(frozen=True)
class Served:
    """A swarm that serves MCP clients over HTTP, with a reader's and a commander's token."""

    swarm: SwarmApi
    where: Places
    url: str
    reader: str
    commander: str

    @property
    def tokens(self) -> Tokens:
        return Tokens(Credentials(self.where.credentials))


class LocalSwarmClient:
    """Gives clients the swarm of this process."""

    def __init__(self, api: SwarmApi) -> None:
        self._api = api

    async def swarm(self, client: McpClient) -> SwarmApi:
        return self._api


def _answer(request: ModelRequest) -> Answer:
    last = request.messages[-1]
    if last.role is Role.USER and "Who is there" in last.content:
        return Answer(
            calls=(AnswerCall("zoea_send_message", '{"to": "commander", "text": "wolframite"}'),), finish=Finish.CALLS
        )
    return Answer(text="Heard, and done.", reasoning="The commander wants it so.")


def answering() -> dict[str, Provider]:
    """A model that answers with text; to "Who is there" it calls a tool first."""
    return {"scripted": ScriptedProvider(_answer)}


@asynccontextmanager
async def answering_swarm(runtime: Path, folder: Path, **settings: Any) -> AsyncIterator[RunningSwarm]:
    """A real swarm whose model answers in words, without upstreams and nudges."""
    where = Places(data=folder / "data", config=folder / "config", runtime=runtime)
    where.make_data()
    overrides = {"swarm.default_provider": "scripted", "nudge.enabled": False, **settings}
    swarm_options = SwarmOptions(providers=answering(), overrides=overrides)
    async with running_swarm(where, lambda: None, options=swarm_options) as swarm:
        yield swarm


@asynccontextmanager
async def served_swarm(folder: Path) -> AsyncIterator[Served]:
    """Open a real swarm with the scripted provider. Serve its clients in this process on a free port."""
    with tempfile.TemporaryDirectory(prefix="zoea-") as runtime:
        async with answering_swarm(Path(runtime), folder) as swarm:
            where = Places(data=folder / "data", config=folder / "config", runtime=Path(runtime))
            tokens = Tokens(Credentials(where.credentials))
            reader = tokens.new("reader", TokenScope.READ, NOW)
            listener = listen("127.0.0.1", 0)
            async with serve_clients(where, listener, LocalSwarmClient(swarm), ()):
                yield Served(swarm, where, url_of(listener), reader, tokens.new("codex", TokenScope.COMMAND, NOW))


def structured(result: CallToolResult) -> dict[str, Any]:
    """The answer of a call that went well."""
    assert not result.is_error, said(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def said(result: CallToolResult) -> str:
    """The text of an answer."""
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def rpc(method: str, params: Mapping[str, Any] | None = None, number: int = 1) -> dict[str, Any]:
    """A JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": dict(params or {})}
