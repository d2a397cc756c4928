"""Clients of the MCP server publish on topics and read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.swarm.harness import Swarm
from tests.swarm.test_topics import with_topics
from zoea.mcp_server.client_tools import ClientTools
from zoea.mcp_server.tokens import McpClient, TokenScope
from zoea.model.errors import UsageError
from zoea.model.swarm_api import SwarmApi
from zoea.store.memory_reader import MemoryReader
from zoea.store.readers import SearchPool

CODEX = McpClient("codex", TokenScope.COMMAND)


class SwarmInProcess:
    """A `SwarmClient` of the swarm of a test."""

    def __init__(self, swarm: Swarm) -> None:
        self._swarm = swarm

    async def swarm(self, client: McpClient) -> SwarmApi:
        return self._swarm.api


async def test_a_client_publishes_under_its_name_and_reads_the_ledger(tmp_path: Path) -> None:
    async with with_topics(tmp_path) as s:
        await s.commander.create("wanda", template="worker", start=False)
        memories = MemoryReader(SearchPool(s.path, 1))
        tools = ClientTools(SwarmInProcess(s), memories)
        try:
            given = {"topic": "PLAN_READY", "text": "Go.", "data": '{"steps": 1}'}
            done = await tools.call("zoea_publish", given, CODEX)
            assert (done["delivered"], done["recipients"][0]["mysis"], done["snapshot_id"]) == (1, "wanda", 2)
            listed = await tools.call("zoea_read_topic", {}, CODEX)
            assert [row["topic"] for row in listed["topics"]] == ["STATE_SNAPSHOT", "PLAN_READY"]
            read = await tools.call("zoea_read_topic", {"topic": "PLAN_READY"}, CODEX)
            [row] = read["messages"]
            assert (row["sender"], row["text"], row["data"]) == ("codex", "Go.", {"steps": 1})
            with pytest.raises(UsageError, match="may only read"):
                await tools.call("zoea_publish", given, McpClient("reader"))
        finally:
            await memories.close()
        await s.settled("wanda")
        assert s.sent()[0][-1][1].startswith("[topic PLAN_READY to wanda, from client codex]\nGo.\nData: {")
