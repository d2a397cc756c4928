"""Answers to clients of the MCP server: bounded for all characters, and readable to the end."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.fakes.mcp_client import LocalSwarmClient
from tests.fakes.swarm import FakeSwarm
from tests.store.sample_memories import broadcast, database, remember
from zoea.mcp_server.client_tools import ClientTools
from zoea.mcp_server.factory import open_memories
from zoea.mcp_server.swarm_client import SocketSwarmClient
from zoea.mcp_server.tokens import McpClient, TokenScope
from zoea.model.errors import UsageError
from zoea.settings.paths import Places
from zoea.tools.builtin.answer_size import MAX_ANSWER
from zoea.tools.builtin.definitions import CLIENT_TOOLS

CLIENT = McpClient("codex", TokenScope.COMMAND)
SCHEMAS = {tool.name: Draft202012Validator(tool.output_schema) for tool in CLIENT_TOOLS}
HEAVY = {
    "quotes": '"' * 12_000,
    "newlines": "\n" * 12_000,
    "both and words": 'he said: "go"\n\\t' * 900,
    "CJK": "矿石鉄を掘る" * 2_500,
    "emoji": "\U0001f680\U0001f1e9\U0001f1ea" * 5_000,
    "control characters": "\x01\x1b" * 8_000,
}

Asking = Callable[..., Any]


@pytest.fixture
def places(tmp_path: Path, runtime: Path) -> Places:
    places = Places(data=tmp_path / "data", config=tmp_path / "config", runtime=runtime)
    places.make_data()
    with closing(database(places.database, myses=120)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    return places


@pytest.fixture
async def ask(places: Places) -> AsyncIterator[Asking]:
    """Call a tool; its answer must be short and fit its output schema."""
    memories, swarm_client = open_memories(places.database), SocketSwarmClient(places)
    tools = ClientTools(swarm_client, memories)

    async def ask(name: str, /, **arguments: Any) -> dict[str, Any]:
        answer = await tools.call(name, arguments, CLIENT)
        SCHEMAS[name].validate(answer)
        assert len(json.dumps(answer, ensure_ascii=False)) <= MAX_ANSWER
        return answer

    yield ask
    await swarm_client.close()
    await memories.close()


def stored(places: Places, text: str, **more: Any) -> int:
    with closing(database_of(places)) as connection:
        return remember(connection, text, **more)


def database_of(places: Places) -> sqlite3.Connection:
    return sqlite3.connect(places.database, isolation_level=None)


async def parts(ask: Asking, memory: int, **arguments: Any) -> Iterator[str]:
    """Everything that is read, by following next_offset."""
    read, offset = list[str](), 0
    while True:
        part = await ask("zoea_read_memory", id=memory, offset=offset, **arguments)
        read.append(part["text"])
        if "next_offset" not in part:
            return iter(read)
        assert part["next_offset"] > offset
        offset = part["next_offset"]


async def test_any_text_is_found_and_read_whole_in_short_answers(ask: Asking, places: Places) -> None:
    for name, heavy in HEAVY.items():
        text = f"{heavy[: len(heavy) // 2]}the needle of {name}{heavy[len(heavy) // 2 :]}"
        memory = stored(places, heavy, reasoning=text, calls=[("act", text), ("look", "{}")])
        for tool, where in (("zoea_search_reasoning", "reasoning"), ("zoea_search_messages", "call")):
            for max_chars in (100, 2_000, 10_000):
                answer = await ask(tool, query=f"needle of {name}", max_chars=max_chars)
                (found,) = answer["results"]
                assert f"needle of {name}" in found[where]
                assert text[found["from_char"] - (4 if where == "call" else 0) :].startswith(found[where])
                assert found["is_cut"]
        assert "".join(await parts(ask, memory)) == heavy
        assert "".join(await parts(ask, memory, part="reasoning")) == text


async def test_a_call_is_read_on_from_where_it_was_found(ask: Asking, places: Places) -> None:
    arguments = json.dumps({"plan": [f'step {number}: "mine"\n' for number in range(2_000)]})
    memory = stored(places, "I do it", calls=[("look", "{}"), ("act", arguments)])
    (found,) = (await ask("zoea_search_messages", query="step 1500: "))["results"]
    assert (found["id"], found["position"], found["tool"]) == (memory, 1, "act")
    assert "step 1500: " in found["call"]
    around = await ask("zoea_read_memory", id=memory, part="call", position=1, offset=found["from_char"])
    assert around["text"].startswith(found["call"])
    assert "".join(await parts(ask, memory, part="call", position=1)) == f"act({arguments})"
    first = await ask("zoea_read_memory", id=memory, part="call")
    assert (first["text"], first["position"], first["total_chars"]) == ("look({})", 0, 8)
    listed = (await ask("zoea_read_memory", id=memory))["calls"]
    assert [(one["position"], one["name"], one["total_chars"]) for one in listed] == [
        (0, "look", 8),
        (1, "act", len(arguments) + 5),
    ]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"part": "call", "position": 2}, "position: memory {id} has no call 2"),
        ({"part": "call", "position": -1}, "position must be 0 or more"),
        ({"position": 1}, "position goes with part call only"),
        ({"part": "arguments"}, "part must be one of content, reasoning, call"),
    ],
)
async def test_a_call_that_is_not_there_is_said(
    ask: Asking, places: Places, arguments: dict[str, Any], why: str
) -> None:
    memory = stored(places, "I do it", calls=[("look", "{}"), ("act", "{}")])
    with pytest.raises(UsageError) as refused:
        await ask("zoea_read_memory", id=memory, **arguments)
    assert why.format(id=memory) in refused.value.what


async def test_calls_that_are_too_many_or_too_long_are_counted(ask: Asking, places: Places) -> None:
    memory = stored(places, '"' * 30_000, calls=[("n" * 5_000, "\x01" * 5_000)] * 40)
    read = await ask("zoea_read_memory", id=memory)
    assert len(read["calls"]) + read["more_calls"] == 40
    assert read["calls"]
    assert len(read["text"]) > 4_000
    (found,) = (await ask("zoea_search_messages", query="nnnnn(", max_chars=10_000))["results"]
    assert len(found["tool"]) == 100


async def test_broadcasts_of_any_characters_are_short_answers(ask: Asking, places: Places) -> None:
    with closing(database_of(places)) as connection:
        for heavy in HEAVY.values():
            broadcast(connection, f"{heavy[:3_000]} the needle {heavy[:3_000]}")
    seen, before = 0, dict[str, int]()
    while seen < len(HEAVY):
        page = await ask("zoea_search_broadcasts", query="the needle", max_chars=10_000, **before)
        assert page["results"]
        assert all("the needle" in found["content"] for found in page["results"])
        seen += len(page["results"])
        before = {"before_id": page["results"][-1]["id"]}
        assert ("next_before_id" in page) is (seen < len(HEAVY))


async def test_every_mysis_is_listed_page_by_page_and_found_by_its_name(ask: Asking, places: Places) -> None:
    names, after = list[str](), dict[str, int]()
    while True:
        page = await ask("zoea_list_myses", **after)
        names += [mysis["name"] for mysis in page["myses"]]
        assert len(names) + page["more"] == 120
        if "next_after_id" not in page:
            break
        after = {"after_id": page["next_after_id"]}
    assert after
    assert names == [f"m{number}" for number in range(1, 121)]
    named = await ask("zoea_list_myses", name="M11")
    assert [mysis["name"] for mysis in named["myses"]] == ["m11", *(f"m{number}" for number in range(110, 120))]
    assert (await ask("zoea_list_myses", name="nobody"))["myses"] == []


async def test_the_answer_to_a_wait_is_short_and_can_be_read_on(places: Places) -> None:
    memory, swarm, memories = stored(places, HEAVY["both and words"]), FakeSwarm(), open_memories(places.database)
    await swarm.create("m1")
    answer = await ClientTools(LocalSwarmClient(swarm), memories).call("zoea_wait", {"mysis": "m1"}, CLIENT)
    SCHEMAS["zoea_wait"].validate(answer)
    assert len(json.dumps(answer, ensure_ascii=False)) <= MAX_ANSWER
    assert len(answer["answer"]) > 8_000
    assert HEAVY["both and words"].startswith(answer["answer"])
    assert answer["answer_id"] == memory
    await memories.close()


async def test_a_search_that_has_not_looked_everywhere_says_how_to_look_further(
    ask: Asking, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoea.store.search.memory_search.SCANNED", 1)
    for text in ("xy", "other", "another"):
        stored(places, text)
    page = await ask("zoea_search_messages", query="xy")
    assert (page["results"], page["next_before_id"]) == ([], 3)
    assert page["hint"] == "looked through the newest 1 memories only; more, use before_id 3"
    page = await ask("zoea_search_messages", query="xy", before_id=3)
    assert page["next_before_id"] == 2
    (found,) = (await ask("zoea_search_messages", query="xy", before_id=2))["results"]
    assert found["content"] == "xy"
