"""A mysis's conversation and context are read, and words found, in a real swarm's database."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from tests.swarm.harness import Swarm, call, script, swarm
from zoea.model.enums import MessageKind, Outcome, Role, SenderKind
from zoea.model.errors import StoreError, StoreMissing
from zoea.model.request import Answer
from zoea.model.values import Sender, Usage
from zoea.queries import conversation
from zoea.queries.request_summary import plan_of, read_context
from zoea.queries.search_reader import ConversationFinder
from zoea.settings.schema import Settings
from zoea.store.database_file import open_reader

QUIET = Settings.model_validate({"nudge": {"enabled": False}, "context": {"snapshot_tools": ["look*"]}})


@asynccontextmanager
async def talk(folder: Path, *answers: Answer, prompts: int = 1) -> AsyncIterator[Swarm]:
    """A mysis alpha that got `prompts` prompts, one after the other."""
    async with swarm(folder, script(*(answers or (Answer(text="done"),))), settings=QUIET) as inner:
        await inner.commander.create("alpha", start=True)
        for number in range(1, prompts + 1):
            await inner.commander.send("alpha", f"prompt {number}")
            await inner.settled()
        yield inner


async def test_what_is_stored_while_a_page_is_read_is_in_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page is of one state: a turn whose answer is stored between two of its queries was a KeyError."""
    inserted: list[str] = []

    def insert_once(statement: str) -> None:
        if "FROM turn_note" in statement and not inserted:
            inserted.append(statement)
            with closing(sqlite3.connect(tmp_path / "zoea.db", timeout=10)) as writer, writer:
                writer.execute(
                    "INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, tokens, created_at)"
                    " SELECT mysis_id, turn_id, 99, 'assistant', 'llm', 'late', 1, 0 FROM memory LIMIT 1"
                )

    def open_traced(path: Path) -> sqlite3.Connection:
        reader = open_reader(path)
        reader.set_trace_callback(insert_once)
        return reader

    async with talk(tmp_path) as inner:
        monkeypatch.setattr("zoea.queries.stored_swarm.open_reader", open_traced)
        pages = [await asyncio.to_thread(conversation.read_newest, inner.path, 1) for _ in range(2)]
        assert inserted
        assert [[entry.memory.content for entry in page.turns[0].entries] for page in pages] == [
            ["prompt 1", "done"],
            ["prompt 1", "done", "late"],
        ]


async def test_a_turn_is_read_with_its_memories_notes_and_tokens(tmp_path: Path) -> None:
    asked = Answer(text="I look", reasoning="hm", calls=(call("look", "ore"),), usage=Usage(100, 0, 20))
    async with talk(tmp_path, asked, Answer(text="found", usage=Usage(150, 0, 5))) as inner:
        page = await asyncio.to_thread(conversation.read_newest, inner.path, 1)
    (turn,) = page.turns
    assert (turn.number, turn.outcome, turn.requests, turn.tokens) == (1, Outcome.ANSWERED, 2, 275)
    assert not turn.is_estimate
    assert [entry.memory.role for entry in turn.entries] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert [entry.request_id for entry in turn.entries] == [None, 1, None, 2]
    assert turn.entries[0].kind is MessageKind.DIRECT
    assert turn.entries[2].memory.call_id == turn.entries[1].memory.calls[0].id


def turn_numbers(page: conversation.ConversationPage) -> list[int]:
    return [turn.number for turn in page.turns]


async def test_pages_cover_the_conversation_in_both_directions(tmp_path: Path) -> None:
    async with talk(tmp_path, prompts=7) as inner:
        path = inner.path
    last = conversation.read_newest(path, 1, memories=4)
    assert (turn_numbers(last), last.has_older, last.has_newer) == ([6, 7], True, False)
    before = conversation.read_older(path, 1, 6, memories=4)
    assert (turn_numbers(before), before.has_older, before.has_newer) == ([4, 5], True, True)
    first = conversation.read_older(path, 1, 3, memories=400)
    assert (turn_numbers(first), first.has_older) == ([1, 2], False)
    on = conversation.read_newer(path, 1, 2, memories=4)
    assert (turn_numbers(on), on.has_newer) == ([2, 3], True)
    middle = conversation.read_around(path, 1, 4, memories=4)
    assert (turn_numbers(middle), middle.has_older, middle.has_newer) == ([3, 4], True, True)
    assert {page.last_number for page in (last, before, first, on, middle)} == {7}


async def test_a_turn_larger_than_a_page_is_read_whole(tmp_path: Path) -> None:
    async with talk(tmp_path, prompts=2) as inner:
        page = conversation.read_newest(inner.path, 1, memories=1)
    assert [len(turn.entries) for turn in page.turns] == [2]


async def test_only_the_newest_page_has_the_pending_deliveries(tmp_path: Path) -> None:
    async with talk(tmp_path, prompts=2) as inner:
        await inner.commander.hold(True)
        await inner.commander.send("alpha", "later", sender=Sender(SenderKind.CLIENT, None, "web"))
        newest = conversation.read_newest(inner.path, 1)
        older = conversation.read_older(inner.path, 1, 2)
    assert [(one.content, one.sender.name) for one in newest.pending] == [("later", "web")]
    assert older.pending == ()


async def test_a_long_memory_is_cut_and_can_be_read_whole(tmp_path: Path) -> None:
    text = "é" * 30_000
    async with talk(tmp_path, Answer(text=text)) as inner:
        entry = conversation.read_newest(inner.path, 1).turns[0].entries[-1]
        assert (len(entry.memory.content), entry.chars) == (conversation.SHOWN_CHARS, 30_000)
        assert conversation.read_content(inner.path, entry.memory.id) == text
        assert conversation.read_content(inner.path, 10**9) == ""


async def test_an_unknown_mysis_has_an_empty_conversation(tmp_path: Path) -> None:
    async with talk(tmp_path) as inner:
        assert conversation.read_newest(inner.path, 99) == conversation.ConversationPage()


def test_a_missing_database_raises_store_missing(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing):
        conversation.read_newest(tmp_path / "none.db", 1)


class TestFinding:
    @pytest.fixture
    async def path(self, tmp_path: Path) -> Path:
        thinks = Answer(text="Iron is here", reasoning="where is IRON", calls=(call("look", "iron ore"),))
        async with talk(tmp_path, thinks, Answer(text="done ürgend 100%_x"), prompts=3) as inner:
            return inner.path

    def test_words_in_lower_case_match_any_case(self, path: Path) -> None:
        found = ConversationFinder(path).find(1, "iron")
        assert found is not None
        hits = [(hit.turn_number, hit.at, hit.thought, hit.call_id) for hit in found.hits]
        assert hits == [(1, 0, 9, 1), (1, 9, -1, 1)]

    def test_a_capital_letter_makes_the_match_exact(self, path: Path) -> None:
        found = ConversationFinder(path).find(1, "IRON")
        assert found is not None
        assert [(hit.at, hit.thought) for hit in found.hits] == [(-1, 9)]

    @pytest.mark.parametrize(
        ("words", "count"), [("100%_x", 3), ("%", 3), ("nowhere", 0), ("ü", 3), (" ", 0), ("'", 0)]
    )
    def test_special_characters_are_searched_literally(self, path: Path, words: str, count: int) -> None:
        found = ConversationFinder(path).find(1, words)
        assert found is not None
        assert len(found.hits) == count

    def test_a_cut_result_is_marked(self, path: Path) -> None:
        found = ConversationFinder(path).find(1, "prompt", limit=2)
        assert found is not None
        assert found.is_cut
        assert [hit.turn_number for hit in found.hits] == [2, 3]

    def test_only_the_conversation_of_the_mysis_is_searched(self, path: Path) -> None:
        found = ConversationFinder(path).find(2, "iron")
        assert found is not None
        assert found.hits == ()

    def test_a_search_can_be_stopped(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The query is endless, so it ends only if it is stopped."""
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i), ?1, ?2 FROM n"
        monkeypatch.setattr("zoea.queries.search_reader._PLACES", endless)
        finder = ConversationFinder(path)
        results: list[object] = []
        thread = threading.Thread(target=lambda: results.append(finder.find(1, "x")))
        thread.start()
        while thread.is_alive():
            finder.stop()
            thread.join(0.01)
        assert results == [None]
        finder.stop()

    def test_a_broken_database_raises_store_error_in_a_search(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("zoea.queries.search_reader._PLACES", "SELECT * FROM nothing")
        with pytest.raises(StoreError, match="cannot be searched"):
            ConversationFinder(path).find(1, "x")


class TestContext:
    async def test_the_context_has_the_newest_request_and_the_newest_snapshots(self, tmp_path: Path) -> None:
        looks = Answer(text="", calls=(call("look", "a"), call("act", "b")), usage=Usage(90, 0, 1))
        async with talk(tmp_path, looks, Answer(text="done", usage=Usage(120, 0, 1))) as inner:
            found = read_context(inner.path, 1)
        assert found.seen is not None
        assert (found.seen.turn_number, found.seen.iteration, found.seen.input_tokens) == (1, 2, 120)
        assert found.seen.turn_tokens == 212
        assert {pack.id for pack in found.seen.packs} >= {"system", "turn", "history"}
        history = next(pack for pack in found.seen.packs if pack.id == "history")
        assert (history.form, history.reason, history.tokens) == ("", "empty", 0)
        assert [(one.tool, one.content) for one in found.snapshots] == [("look", "look did a")]

    async def test_the_context_is_empty_before_the_first_request(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, settings=QUIET) as inner:
            await inner.commander.create("alpha", start=False)
            found = read_context(inner.path, 1)
        assert found.seen is None
        assert found.snapshots == ()

    @pytest.mark.parametrize("blob", [b"no zstd", b"\x28\xb5\x2f\xfd\x20\x02\x11\x00\x00[]"])
    def test_a_damaged_plan_raises_store_error(self, blob: bytes) -> None:
        with pytest.raises(StoreError, match="cannot be read"):
            plan_of(blob)
