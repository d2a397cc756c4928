"""Clients of the MCP server list commits of myses and read what they knew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mcp_server.test_topic_tools import SwarmInProcess
from tests.swarm.harness import script, swarm
from tests.swarm.test_forks import TALK, talk
from zoea.mcp_server.client_tools import ClientTools
from zoea.mcp_server.tokens import McpClient
from zoea.model.errors import RevisionError
from zoea.store.memory_reader import MemoryReader
from zoea.store.search_pool import SearchPool

READER = McpClient("reader")


async def test_a_client_lists_commits_and_reads_the_conversation_up_to_one(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK)) as s:
        await talk(s)
        memories = MemoryReader(SearchPool(s.path, 1))
        tools = ClientTools(SwarmInProcess(s), memories)
        try:
            listed = (await tools.call("zoea_context_log", {"context": "alpha", "limit": 3}, READER))["commits"]
            assert [(one["by"], one["checkpoint"], one["messages"]) for one in listed] == [
                ("alpha", "turn_boundary", 2),
                ("alpha", "turn_boundary", 2),
                ("alpha", "turn_boundary", 3),
            ]
            given = {"context": listed[-1]["id"], "max_chars": 20}
            read = await tools.call("zoea_context_materialize", given, READER)
            assert [one["content"] for one in read["messages"]][:2] == ["find iron", "I look."]
            assert read["messages"][-1]["content"] == "Found iron at 7."
            assert len(read["messages"][1]["calls"]) == 2
            assert (read["tier"], read["left_out"], read["commit"]) == (1, 0, listed[-1])
            with pytest.raises(RevisionError, match="beta"):
                await tools.call("zoea_context_log", {"context": "beta"}, READER)
        finally:
            await memories.close()
