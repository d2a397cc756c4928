"""Clients of the MCP server list commits of myses and read what they knew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.run import CALLS
from tests.mcp_server.test_topic_tools import SwarmInProcess
from tests.swarm.harness import script, swarm
from tests.swarm.test_forks import TALK, talk
from zoea.mcp_server.client_tools import ClientTools
from zoea.mcp_server.tokens import McpClient, TokenScope
from zoea.model.errors import RevisionError, UsageError
from zoea.model.request import Answer
from zoea.store.memory_reader import MemoryReader
from zoea.store.readers import SearchPool
from zoea.tools.builtin.definitions import CLIENT_TOOLS

READER, WRITER = McpClient("reader"), McpClient("writer", TokenScope.COMMAND)


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


async def test_a_client_commits_annotates_asks_and_forks_where_it_may_command(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK[:4], Answer(text="Because of iron."), Answer(text="On I go."))) as s:
        await talk(s)
        memories = MemoryReader(SearchPool(s.path, 1))
        tools = ClientTools(SwarmInProcess(s), memories)
        try:
            for name, given in (
                ("checkpoint", {"mysis": "alpha"}),
                ("annotate", {"context": "alpha", "summary": "x"}),
                ("ask", {"context": "alpha", "question": "Why?"}),
                ("fork", {"context": "alpha"}),
            ):
                with pytest.raises(UsageError, match="may only read"):
                    await tools.call(f"zoea_context_{name}", given, READER)
            kept = await tools.call("zoea_context_checkpoint", {"mysis": "alpha"}, WRITER)
            assert kept["is_new"] is False
            note = {"context": "alpha", "summary": "Knows the north", "tags": ["north"]}
            shown = await tools.call("zoea_context_annotate", note, WRITER)
            assert (shown["summary"], shown["tags"], shown["refs"]) == ("Knows the north", ["north"], ["@alpha"])
            found = await tools.call("zoea_context_resolve", {"mysis": "alpha", "at": "2099-01-01T00:00:00Z"}, READER)
            assert found == await tools.call("zoea_context_show", {"context": "alpha"}, READER) == shown
            asked = await tools.call("zoea_context_ask", {"context": "alpha", "question": "Why?"}, WRITER)
            assert (asked["is_done"], asked["answer"]) == (True, "Because of iron.")
            made = await tools.call("zoea_context_fork", {"context": "alpha", "message": "Go on"}, WRITER)
            await s.settled(made["mysis"]["name"])
            assert s.provider.requests[-1].messages[-1].content.endswith("Go on")
            keyed = {"context": "alpha", "message": "Go on", "key": "k1"}
            twice = [await tools.call("zoea_context_fork", keyed, WRITER) for _ in range(2)]
            assert twice[0]["mysis"]["name"] == twice[1]["mysis"]["name"] != made["mysis"]["name"]
            await s.settled(twice[0]["mysis"]["name"])
            said = "SELECT count(*) FROM message WHERE content = 'Go on'"
            assert await s.value(said) == 2, "the message of a repeated call is not sent again"
            with pytest.raises(UsageError, match="is no time"):
                await tools.call("zoea_context_resolve", {"mysis": "alpha", "at": "soon"}, READER)
        finally:
            await memories.close()


def test_the_public_inspector_calls_every_tool_with_arguments_it_takes() -> None:
    given = {tool.name: tool.arguments for tool in CLIENT_TOOLS}
    assert set(CALLS) == set(given)
    for name, arguments in CALLS.items():
        given[name].parse(arguments)
