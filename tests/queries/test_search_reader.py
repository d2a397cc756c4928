"""Search over the whole swarm: hits, filters, pages, limits, interruption."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest

from tests.case_tables import walk_cases
from tests.swarm.harness import call, script, swarm
from zoea.model.enums import Role
from zoea.model.errors import StoreError
from zoea.model.request import Answer
from zoea.queries import search_reader
from zoea.queries.search_reader import HitPlace, SwarmSearcher, SwarmSearchHit, SwarmSearchQuery, parse_search
from zoea.queries.written_times import parse_moment
from zoea.settings.schema import Settings
from zoea.store.database_file import open_reader
from zoea.store.writer_connection import WriterConnection

NOW = 1_700_000_000_000_000
QUIET = Settings.model_validate({"nudge": {"enabled": False}})


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Path]:
    """The database of two myses with prompts, reasoning, calls, results and answers."""
    model = script(
        Answer(reasoning="The Osprey is near.", calls=(call("look", "belt-2"),)),
        Answer(text="Belt two holds iron. 100% [/] 漢字"),
    )
    async with swarm(tmp_path, model, settings=QUIET) as inner:
        for name in ("alpha", "beta"):
            await inner.commander.create(name)
            await inner.commander.send(name, f"Survey the belt, {name}")
            await inner.settled(name)
        yield inner.path


def find(database: Path, typed: str, now: int = NOW) -> list[SwarmSearchHit]:
    searcher = SwarmSearcher(database)
    hits = searcher.search(searcher.begin(), parse_search(typed, now))
    assert hits is not None
    return list(hits.hits)


def marked_words(hit: SwarmSearchHit) -> str:
    return hit.text[hit.start : hit.start + hit.length]


@pytest.mark.parametrize(
    ("typed", "spot", "role", "mark"),
    [
        ("osprey", HitPlace.REASONING, Role.ASSISTANT, "Osprey"),
        ("two holds", HitPlace.CONTENT, Role.ASSISTANT, "two holds"),
        ("100% [/]", HitPlace.CONTENT, Role.ASSISTANT, "100% [/]"),
        ("漢字", HitPlace.CONTENT, Role.ASSISTANT, "漢字"),
        ("survey", HitPlace.CONTENT, Role.USER, "Survey"),
        ("look did", HitPlace.CONTENT, Role.TOOL, "look did"),
        ('{"text', HitPlace.CALL, Role.ASSISTANT, '{"text'),
    ],
)
async def test_words_are_found_in_contents_reasoning_calls_and_results(
    database: Path, typed: str, spot: HitPlace, role: Role, mark: str
) -> None:
    hits = find(database, typed)
    assert {(hit.spot, hit.role, marked_words(hit)) for hit in hits} == {(spot, role, mark)}
    assert hits == sorted(hits, key=lambda hit: -hit.memory_id)


async def test_a_hit_has_its_call_or_its_sender(database: Path) -> None:
    (result,) = find(database, "@alpha look did")
    assert (result.tool, result.mysis) == ("look", "alpha")
    assert result.call_id is not None
    assert find(database, "@beta survey")[0].sender == "you"


async def test_a_capital_letter_makes_the_search_exact(database: Path) -> None:
    assert find(database, "Osprey")
    assert not find(database, "OSPREY")


async def test_filters_narrow_it_down(database: Path) -> None:
    assert {hit.mysis for hit in find(database, "@ALPHA belt")} == {"alpha"}
    assert {hit.role for hit in find(database, "role:tool belt")} == {Role.TOOL}
    assert find(database, "@nobody belt") == []
    assert find(database, "since:1h belt")
    assert find(database, "until:1h belt") == []
    assert {hit.role for hit in find(database, "role:user")} == {Role.USER}


async def test_a_long_text_is_cut_around_the_words(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="yes")), settings=QUIET) as inner:
        await inner.commander.create("alpha", start=False)
        await inner.commander.send("alpha", "x" * 60_000 + "needle" + "y" * 60_000)
        await inner.commander.start("alpha")
        await inner.settled()
        (hit,) = find(inner.path, "needle")
    assert marked_words(hit) == "needle"
    assert len(hit.text) < 1_000
    assert hit.text.startswith("…x")
    assert hit.text.endswith("y…")


class TestPages:
    @pytest.fixture
    async def many(self, tmp_path: Path) -> Path:
        """Memories enough for several pages: every tenth holds `needle`."""
        async with swarm(tmp_path, script(Answer(text="yes")), settings=QUIET) as inner:
            await inner.commander.create("alpha")
            await inner.commander.send("alpha", "begin")
            await inner.settled()

            def op(conn: WriterConnection) -> None:
                for number in range(5_000):
                    text = "needle" if number % 10 == 0 else "hay"
                    conn.execute(
                        "INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, tokens, created_at)"
                        " VALUES (1, 1, ?, 'assistant', 'llm', ?, 1, ?)",
                        (100 + number, text, NOW),
                    )

            await inner.store.write(op)
            return inner.path

    async def test_pages_follow_each_other_without_gap_or_repetition(self, many: Path) -> None:
        searcher, wish = SwarmSearcher(many), parse_search("needle", NOW)
        seen: list[int] = []
        before: int | None = None
        while True:
            hits = searcher.search(searcher.begin(), wish, before)
            assert hits is not None
            seen += [hit.memory_id for hit in hits.hits]
            before = hits.before
            if before is None:
                break
            assert len(hits.hits) == search_reader.PAGE
        assert len(seen) == 500
        assert seen == sorted(set(seen), reverse=True)

    async def test_a_search_for_short_words_stops_at_a_limit_and_says_so(
        self, many: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("zoea.store.search.memory_search.SCANNED", 1_000)
        searcher = SwarmSearcher(many)
        hits = searcher.search(searcher.begin(), parse_search("qq", NOW))
        assert hits is not None
        assert hits.hits == ()
        assert hits.before is not None
        assert hits.note.startswith("looked through the newest ")

    async def test_filters_without_words_list_memories_by_pages(self, many: Path) -> None:
        searcher = SwarmSearcher(many)
        first = searcher.search(searcher.begin(), parse_search("@alpha role:assistant", NOW))
        assert first is not None
        assert (len(first.hits), first.before) == (search_reader.PAGE, first.hits[-1].memory_id)
        assert find(many, "@nobody") == []

    async def test_a_replaced_search_returns_none(self, many: Path) -> None:
        searcher = SwarmSearcher(many)
        old = searcher.begin()
        searcher.begin()
        assert searcher.search(old, parse_search("needle", NOW)) is None

    async def test_a_new_search_interrupts_the_running_query(self, many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        running = threading.Event()

        def slow(path: Path) -> sqlite3.Connection:
            reader = open_reader(path)

            def instr(text: str, words: str) -> int:
                running.set()
                time.sleep(0.01)  # a query that would take a minute
                return 0

            reader.create_function("instr", 2, instr)
            return reader

        monkeypatch.setattr("zoea.queries.search_reader.open_reader", slow)
        searcher = SwarmSearcher(many)
        query = asyncio.create_task(asyncio.to_thread(searcher.search, searcher.begin(), parse_search("needle", NOW)))
        await asyncio.to_thread(running.wait, 10)
        began = time.monotonic()
        searcher.stop()
        assert await query is None
        assert time.monotonic() - began < 20


async def test_a_database_that_cannot_be_searched_is_an_error(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("ALTER TABLE memory RENAME TO gone")
    with pytest.raises(StoreError, match="cannot be searched"):
        find(database, "belt")


class TestParsing:
    def test_words_and_filters_are_parsed(self) -> None:
        wish = parse_search("iron  @alpha role:tool ore", NOW)
        assert (wish.words, wish.mysis, wish.role) == ("iron ore", "alpha", Role.TOOL)
        assert parse_search('"@alpha role:tool"', NOW).words == "@alpha role:tool"
        assert parse_search("a:b @", NOW).words == "a:b @"
        assert parse_search('{"status":  "docked"} @alpha', NOW) == SwarmSearchQuery(
            words='{"status":  "docked"}', mysis="alpha"
        )
        assert parse_search('say "role:tool" twice', NOW).words == "say role:tool twice"
        assert parse_search("nul\x00", NOW).words == "nul␀"
        assert parse_search("   ", NOW) == SwarmSearchQuery()
        assert SwarmSearchQuery().is_empty

    @walk_cases("typed", ["role:nobody", "since:yesterday", "until:", "since:25:99"])
    def test_an_invalid_filter_is_reported(self, typed: str) -> None:
        assert parse_search(typed, NOW).problem

    def test_times_are_parsed_from_spans_times_and_dates(self) -> None:
        assert parse_moment("2h", NOW) == NOW - 7_200_000_000
        assert parse_moment("1w", NOW) == NOW - 7 * 86_400_000_000
        noon = parse_moment("12:00", NOW)
        assert noon == parse_moment("12:00", NOW + 999_999) == parse_moment("12:00", NOW + 500_001)
        assert noon is not None
        assert datetime.fromtimestamp(noon / 1_000_000).hour == 12
        day = parse_moment("2026-01-31", NOW)
        assert day is not None
        assert datetime.fromtimestamp(day / 1_000_000).day == 31
