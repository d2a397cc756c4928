"""Reads and writes of myses through Zoea's own tools."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.swarm.harness import Swarm, call, script, swarm
from zoea.model.enums import DeliveryMode
from zoea.model.errors import MysisMissing, RateExceeded, StoreError, UsageError
from zoea.model.request import Answer
from zoea.settings.key_paths import Layer
from zoea.settings.schema import Settings
from zoea.settings.template_library import Level, Templates
from zoea.store.memory_reader import MemoryReader
from zoea.store.readers import SearchPool
from zoea.store.search import SearchColumn
from zoea.tools.builtin.answer_size import ROOM
from zoea.tools.builtin.arguments import PARTS, MemorySearchArguments, ReadArguments, SearchArguments
from zoea.tools.builtin.memory_tools import MemoryTools, MysisRows


@pytest.fixture
async def told(tmp_path: Path) -> AsyncIterator[Swarm]:
    """alpha and beta, who have each answered a message."""
    answers = script(
        Answer(text="100% of Iron_Ore 'found'*", reasoning="think: 漢字 é", calls=(call("act", "a|b:c"),)),
        Answer(text="done"),
        Answer(text="beta's secret"),
    )
    async with swarm(tmp_path, answers) as s:
        for name in ("alpha", "beta"):
            await s.commander.create(name, start=False)
            await s.commander.send(name, f"order for {name}")
            await s.settled(name)
        yield s


def memory_tools(s: Swarm, owner: int | None) -> MemoryTools:
    return MemoryTools(s.commander.builtin_backend.memories, MysisRows(with_names=owner is None), owner)


async def search(
    s: Swarm, query: str, column: str = "content", *, mysis: int | None = 1, **arguments: Any
) -> dict[str, Any]:
    """Search as a mysis that may search its own memories. Where `mysis` is None, search everyone's."""
    if column == "broadcasts":
        return await memory_tools(s, mysis).search_broadcasts(SearchArguments(query=query, **arguments))
    return await memory_tools(s, mysis).search(SearchColumn(column), MemorySearchArguments(query=query, **arguments))


async def read(
    s: Swarm, memory: int, offset: int = 0, max_chars: int = 100, *, mysis: int | None = 1, **arguments: Any
) -> dict[str, Any]:
    return await memory_tools(s, mysis).read(ReadArguments(id=memory, offset=offset, **arguments), max_chars)


async def contents(s: Swarm, query: str, column: str = "content", *, mysis: int = 1, limit: int = 20) -> list[str]:
    found = await search(s, query, column, mysis=mysis, limit=limit)
    return [row["content"] for row in found["results"]]


class TestSearch:
    @pytest.mark.parametrize("query", ["100%", "Iron_Ore", "'found'*", "o", "% of I"])
    async def test_any_characters_are_taken_literally(self, told: Swarm, query: str) -> None:
        assert "100% of Iron_Ore 'found'*" in await contents(told, query)

    @pytest.mark.parametrize("query", ["iron_ore", "100_", "Iron%Ore", "IRON"])
    async def test_it_is_case_sensitive_and_knows_no_wildcards(self, told: Swarm, query: str) -> None:
        assert await contents(told, query) == []

    async def test_newest_first_and_no_more_than_asked_for(self, told: Swarm) -> None:
        assert await contents(told, "o") == ["done", "100% of Iron_Ore 'found'*", "order for alpha"]
        assert await contents(told, "o", limit=1) == ["done"]

    async def test_calls_are_found_by_name_and_arguments_and_results_by_their_text(self, told: Swarm) -> None:
        assert await contents(told, 'act({"text": "a|b:c"})') == ["100% of Iron_Ore 'found'*"]
        assert await contents(told, "act did a|b:c") == ["act did a|b:c"]
        [row] = (await search(told, '"a|b'))["results"]
        assert row["call"] == 'act({"text": "a|b:c"})'

    async def test_a_long_text_is_cut_around_the_hit_and_says_where_that_is(self, told: Swarm) -> None:
        await told.commander.hold(True)
        await told.commander.send("alpha", "a" * 5000 + "needle" + "z" * 5000)
        await told.commander.hold(False)
        await told.settled("alpha")
        [row] = (await search(told, "needle"))["results"]
        assert len(row["content"]) == 2000
        assert row["total_chars"] == 10_006
        part = await read(told, row["id"], row["from_char"], 2000)
        assert part["content"] == row["content"]

    @pytest.mark.parametrize("heavy", ['"\n', "矿石", "\x01"])
    async def test_a_row_fits_into_an_answer_with_any_characters(self, told: Swarm, heavy: str) -> None:
        await told.commander.send("alpha", f"{heavy * 4000}the needle{heavy * 4000}")
        await told.settled("alpha")
        found = await search(told, "needle", "content", max_chars=10_000)
        (row,) = found["results"]
        assert len(json.dumps(row, ensure_ascii=False)) <= ROOM
        assert "needle" in row["content"]
        part = await read(told, row["id"], row["from_char"], len(row["content"]))
        assert part["content"]
        assert row["content"].startswith(part["content"])
        await told.commander.broadcast(f"{heavy * 4000}to all{heavy * 4000}")
        found = await search(told, "to all", "broadcasts", max_chars=10_000)
        (row,) = found["results"]
        assert len(json.dumps(row, ensure_ascii=False)) <= ROOM
        assert "to all" in row["content"]

    async def test_hits_over_the_whole_swarm_name_their_mysis(self, told: Swarm) -> None:
        [row] = (await search(told, "beta's secret", mysis=None))["results"]
        assert row["mysis"] == "beta"
        assert (await read(told, row["id"], 0, 100, mysis=None))["content"] == "beta's secret"
        with pytest.raises(UsageError, match="there is no memory 999"):
            await read(told, 999, 0, 100, mysis=None)

    async def test_ranked_search_finds_words_in_any_case_and_pages_have_ends(self, told: Swarm) -> None:
        found = await search(told, "IRON_ORE found", "content", match="ranked")
        assert [row["content"] for row in found["results"]] == ["100% of Iron_Ore 'found'*"]
        first = await search(told, "o", "content", limit=2)
        assert first["next_before_id"] == first["results"][-1]["id"]
        rest = await search(told, "o", "content", before_id=first["next_before_id"])
        assert [row["content"] for row in rest["results"]] == ["order for alpha"]
        assert "next_before_id" not in rest

    async def test_a_search_that_takes_too_long_is_ended(self, told: Swarm) -> None:
        reader = MemoryReader(SearchPool(told.store.path, 1), deadline_s=0.0)
        tools = MemoryTools(reader, MysisRows(with_names=False), 1)
        with pytest.raises(StoreError, match="took longer than 0 s"):
            await tools.search(SearchColumn.CONTENT, MemorySearchArguments(query="o"))
        await reader.close()

    async def test_reasoning_is_searched_apart(self, told: Swarm) -> None:
        [row] = (await search(told, "漢字", "reasoning"))["results"]
        assert (row["reasoning"], row["role"], row["source"]) == ("think: 漢字 é", "assistant", "llm")
        assert row["created_at"] == "2023-11-14T22:13:20+00:00"
        assert await contents(told, "漢字") == []

    async def test_a_mysis_finds_its_own_memories_only(self, told: Swarm) -> None:
        assert await contents(told, "beta's secret") == []
        assert await contents(told, "beta's secret", mysis=2) == ["beta's secret"]

    async def test_nul_in_a_query_matches_its_stored_replacement(self, told: Swarm) -> None:
        assert await contents(told, "a\0b") == []

    async def test_broadcasts_are_found_by_who_sent_or_received_them(self, told: Swarm) -> None:
        s = told
        await s.commander.stop("beta")
        await s.commander.broadcast("mine iron, all")
        await s.settled("alpha")
        assert await contents(s, "iron, all", "broadcasts") == ["mine iron, all"]
        assert await contents(s, "iron, all", "broadcasts", mysis=2) == []
        await s.commander.start("beta")
        await s.commander.builtin_backend.broadcast(1, 0, "I found iron, all")
        assert await contents(s, "iron, all", "broadcasts") == ["I found iron, all", "mine iron, all"]
        assert await contents(s, "iron, all", "broadcasts", mysis=2) == ["I found iron, all"]
        assert await contents(s, "order for", "broadcasts") == []


class TestRead:
    async def test_a_long_memory_is_read_in_pieces(self, told: Swarm) -> None:
        first = await read(told, 1, 0, 5)
        assert first == {
            "id": 1,
            "role": "user",
            "source": "direct",
            "created_at": "2023-11-14T22:13:20+00:00",
            "offset": 0,
            "total_chars": 15,
            "content": "order",
            "next_offset": 5,
        }
        assert (await read(told, 1, 10, 5))["next_offset"] is None
        assert (await read(told, 1, 99, 5))["content"] == ""

    async def test_the_reasoning_of_a_memory_is_read_as_well(self, told: Swarm) -> None:
        thought = await read(told, 2, 0, 100, part="reasoning")
        assert thought["reasoning"] == "think: 漢字 é"

    async def test_the_calls_of_an_answer_are_listed_and_read(self, told: Swarm) -> None:
        [row] = (await search(told, '"a|b'))["results"]
        assert row["position"] == 0
        whole = await read(told, row["id"], 0, 100)
        assert whole["calls"] == [
            {"position": 0, "name": "act", "arguments": '{"text": "a|b:c"}', "total_chars": len(row["call"])}
        ]
        part = await read(told, row["id"], 4, 6, part="call", position=0)
        assert (part["call"], part["position"], part["next_offset"]) == ('{"text', 0, 10)
        with pytest.raises(UsageError, match="has no call 1"):
            await read(told, row["id"], 0, 100, part="call", position=1)

    async def test_a_memory_of_another_mysis_is_refused(self, told: Swarm) -> None:
        other = await told.value("SELECT id FROM memory WHERE mysis_id = 2")
        for part in PARTS:
            with pytest.raises(UsageError, match=f"you have no memory {other}"):
                await read(told, other, 0, 100, part=part)

    async def test_the_list_shows_every_mysis(self, told: Swarm) -> None:
        assert [view.name for view in told.commander.builtin_backend.list_myses()] == ["alpha", "beta"]


class TestWriting:
    async def test_a_message_from_a_turn_has_its_hop_plus_one(self, told: Swarm) -> None:
        receipt = await told.commander.builtin_backend.send(1, 1, "Beta", "hello")
        rows = await told.rows("SELECT hop, sender_name FROM message WHERE id = ?", receipt.message_id)
        assert rows == [{"hop": 2, "sender_name": "alpha"}]

    async def test_a_message_to_an_unknown_mysis_lists_the_names(self, told: Swarm) -> None:
        with pytest.raises(MysisMissing) as refused:
            await told.commander.builtin_backend.send(1, 0, "gamma", "hello")
        assert refused.value.hint == "there are: alpha, beta"

    async def test_twenty_messages_an_hour_then_it_says_when_again(self, told: Swarm) -> None:
        s, backend = told, told.commander.builtin_backend
        await s.commander.hold(True)
        for number in range(20):
            await backend.send(1, 0, "beta", f"{number}")
            s.clock.by(60)
        with pytest.raises(RateExceeded, match="you have sent 20 messages within an hour; try again in 2,400 seconds"):
            await backend.send(1, 0, "beta", "one more")
        await backend.send(2, 0, "alpha", "who else writes is free to")
        await s.commander.send("beta", "and so is the commander")
        s.clock.by(2400)
        await backend.send(1, 0, "beta", "again")

    async def test_four_broadcasts_an_hour(self, told: Swarm) -> None:
        s, backend = told, told.commander.builtin_backend
        await s.commander.hold(True)
        for number in range(4):
            await backend.broadcast(1, 0, f"{number}")
        with pytest.raises(RateExceeded, match="4 broadcasts within an hour; try again in 3,600 seconds"):
            await backend.broadcast(1, 0, "one more")
        await backend.send(1, 0, "beta", "messages are counted apart")

    async def test_settings_may_let_no_mysis_write_at_all(self, tmp_path: Path) -> None:
        settings = Settings.model_validate({"swarm": {"messages_per_hour": 0, "broadcasts_per_hour": 0}})
        async with swarm(tmp_path, settings=settings) as s:
            await s.create("alpha", "beta")
            with pytest.raises(RateExceeded, match="no mysis send messages"):
                await s.commander.builtin_backend.send(1, 0, "beta", "hello")
            with pytest.raises(RateExceeded, match="no mysis send broadcasts"):
                await s.commander.builtin_backend.broadcast(1, 0, "hello")

    async def test_a_broadcast_never_goes_to_its_sender(self, told: Swarm) -> None:
        await told.commander.hold(True)
        receipt = await told.commander.builtin_backend.broadcast(1, 0, "all hands")
        assert [line.mysis for line in receipt.lines] == ["beta"]

    async def test_a_template_may_not_let_its_myses_write(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, templates=templates(tmp_path, quiet='send = "none"')) as s:
            await s.commander.create("alpha", template="quiet", start=False)
            with pytest.raises(UsageError, match="your template does not let you write"):
                await s.commander.builtin_backend.broadcast(1, 0, "hello")

    async def test_messages_of_myses_are_queued_not_steered(self, told: Swarm) -> None:
        await told.commander.hold(True)
        receipt = await told.commander.builtin_backend.send(1, 0, "beta", "hello")
        mode = await told.value("SELECT mode FROM delivery WHERE message_id = ?", receipt.message_id)
        assert mode == DeliveryMode.QUEUE


def templates(folder: Path, **bodies: str) -> Templates:
    """Templates of a test, by name; each has a prompt and what its body adds."""
    where = folder / "templates"
    where.mkdir(exist_ok=True)
    for name, body in bodies.items():
        (where / f"{name}.toml").write_text(f'prompt = "You are a mysis."\n{body}\n', encoding="utf-8")
    return Templates([Level(Layer.USER, where)])
