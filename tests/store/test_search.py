"""Search through the index gives the same result as a plain scan."""

from __future__ import annotations

import asyncio
import sqlite3
import unicodedata
from collections.abc import Iterator
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.case_tables import walk_cases
from tests.store.sample_memories import broadcast, check_indexes, database, remember, turn
from zoea.model.enums import Role, SenderKind, Source
from zoea.model.errors import StoreError, UsageError
from zoea.store.search import (
    BroadcastQuery,
    HitPlace,
    MatchMode,
    MemoryQuery,
    SearchColumn,
    fts_terms,
    memory_search,
    search_broadcasts,
    search_memories,
)
from zoea.store.search.fts_index import catch_up, rebuild
from zoea.store.search.fts_terms import encode_owner
from zoea.store.search.unspaced_words import list_forms
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.text import clean

LATIN = "abcABC ée'"
SYNTAX = 'OR AND NOT NEAR(){}^*"-+:,.%_\\'
ALPHABETS = (
    LATIN,
    SYNTAX + "ab",
    "矿石鉄を掘る한글",
    "аБвжЖ קש عر ไทย",
    "e\u0301a\u0308\u200d\u200bn\u0303",  # combining marks and zero-width characters
    "\U0001f680\U0001f468\u200d\U0001f467\U0001f1e9\U0001f1ea",
    "\0\ud800\udfff\ue000\ufffd\ufffe\uffffab",
    encode_owner(1) + encode_owner(2) + "a",  # as if the text were an owner's mark
)
TEXT = st.one_of(*(st.text(alphabet, max_size=30) for alphabet in ALPHABETS))
LONG = st.lists(TEXT, max_size=4).map("".join)
ROW = st.tuples(st.sampled_from((1, 2)), LONG, LONG, st.lists(st.tuples(TEXT, TEXT), max_size=2))


@cache
def _blank() -> sqlite3.Connection:
    return database()


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(database()) as connection:
        yield connection


@pytest.fixture
def always_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the index for small myses too."""
    monkeypatch.setattr(memory_search, "FEW", 0)


@pytest.fixture(params=[50_000, 0], ids=["all terms", "chosen terms"])
def large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the size from which terms are chosen, with small probes."""
    monkeypatch.setattr("zoea.store.search.fts_terms.LARGE", request.param)
    monkeypatch.setattr("zoea.store.search.fts_terms.PROBE", 3)
    monkeypatch.setattr("zoea.store.search.fts_terms.ROW_COST", 1)
    monkeypatch.setattr(memory_search, "LOOKED", 10)  # enough for some pages only


def found(connection: sqlite3.Connection, query: MemoryQuery) -> list[int]:
    return [hit.memory_id for hit in search_memories(connection, query).hits]


@pytest.mark.usefixtures("always_indexed", "large")
@given(rows=st.lists(ROW, min_size=1, max_size=25), data=st.data())
def test_the_index_answers_as_a_plain_scan_does(
    rows: list[tuple[int, str, str, list[tuple[str, str]]]], data: st.DataObject
) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _blank().backup(connection)
        stored: dict[int, tuple[int, list[str], str]] = {}
        for mysis, content, reasoning, calls in rows:
            memory_id = remember(connection, content, mysis=mysis, reasoning=reasoning, calls=calls)
            texts = [content, *(f"{name}({arguments})" for name, arguments in calls)]
            stored[memory_id] = (mysis, [clean(text) for text in texts], clean(reasoning))
        for _ in range(8):
            said = data.draw(
                st.sampled_from([each for _, texts, thought in stored.values() for each in (*texts, thought)])
            )
            start = data.draw(st.integers(0, max(0, len(said) - 1)))
            cut = said[start : start + data.draw(st.integers(1, 50))]
            text = data.draw(st.sampled_from((cut, cut.swapcase(), cut + "a", data.draw(TEXT)))) or "a"
            column, fold = data.draw(st.sampled_from(SearchColumn)), data.draw(st.booleans())
            owner = data.draw(st.sampled_from(((1,), (2,), (1, 2), None)))
            limit = data.draw(st.sampled_from((1, 2, 100)))
            query = MemoryQuery(text, column=column, fold=fold, mysis_ids=owner, limit=limit)
            assert found(connection, query) == scan(stored, query)[:limit], query


def scan(stored: dict[int, tuple[int, list[str], str]], query: MemoryQuery) -> list[int]:
    """Return the expected hits, newest first."""

    hits = []
    for memory_id, (mysis, texts, thought) in stored.items():
        searched = {
            SearchColumn.CONTENT: texts,
            SearchColumn.REASONING: [thought],
            SearchColumn.ANY: [*texts, thought],
        }[query.column]
        if (query.mysis_ids is None or mysis in query.mysis_ids) and any(holds(t, query) for t in searched):
            hits.append(memory_id)
    return hits[::-1]


def holds(text: str, query: MemoryQuery | BroadcastQuery) -> bool:
    def same(text: str) -> str:
        return "".join(each.lower() if each.isascii() else each for each in text) if query.fold else text

    return any(same(form) in same(text) for form in list_forms(query.text))


@pytest.mark.usefixtures("always_indexed")
class TestExact:
    def test_pages_have_no_gaps_or_duplicates(self, db: sqlite3.Connection) -> None:
        for number in range(25):
            remember(db, f"iron ore {number}", mysis=1 + number % 2, calls=[("mine", '{"what": "iron ore"}')] * 2)
        query, seen = MemoryQuery("iron ore", limit=4), list[int]()
        while True:
            page = search_memories(db, query)
            seen += [hit.memory_id for hit in page.hits]
            if page.before_id is None:
                break
            query = replace(query, before_id=page.before_id)
        assert seen == list(range(25, 0, -1))

    def test_filters_limit_the_hits(self, db: sqlite3.Connection) -> None:
        first = remember(db, "ore", role="user", source="direct", at=10)
        second = remember(db, "ore", role="tool", source="tool", at=20)
        third = remember(db, "ore", mysis=2, at=30)
        base = MemoryQuery("ore")
        assert found(db, base) == [third, second, first]
        assert found(db, replace(base, role=Role.USER)) == [first]
        assert found(db, replace(base, source=Source.TOOL)) == [second]
        assert found(db, replace(base, since=20)) == [third, second]
        assert found(db, replace(base, until=20)) == [first]
        assert found(db, replace(base, since=20, until=30)) == [second]
        assert found(db, replace(base, mysis_ids=(2,))) == [third]
        assert found(db, replace(base, mysis_ids=())) == []
        assert found(db, replace(base, mysis_ids=tuple(range(2, 60)))) == [third]
        assert found(db, replace(base, before_id=third)) == [second, first]

    def test_a_hit_shows_where_it_is(self, db: sqlite3.Connection) -> None:
        remember(db, "the Iron ore", reasoning="find ore", calls=[("look", "{}"), ("mine", '{"what": "gold"}')])
        [hit] = search_memories(db, MemoryQuery("ore", max_chars=100)).hits
        assert (hit.spot, hit.excerpt.text, hit.excerpt.marks) == (HitPlace.CONTENT, "the Iron ore", ((9, 3),))
        assert not hit.excerpt.is_cut
        [hit] = search_memories(db, MemoryQuery("gold")).hits
        assert (hit.spot, hit.tool, hit.excerpt.text) == (HitPlace.CALL, "mine", 'mine({"what": "gold"})')
        assert (hit.call_id, hit.content.text, hit.content.marks) == (2, "the Iron ore", ())
        [hit] = search_memories(db, MemoryQuery("ore", column=SearchColumn.REASONING)).hits
        assert (hit.spot, hit.excerpt.text, hit.excerpt.marks) == (HitPlace.REASONING, "find ore", ((5, 3),))
        [hit] = search_memories(db, MemoryQuery("find", column=SearchColumn.ANY)).hits
        assert hit.spot is HitPlace.REASONING
        assert (hit.mysis, hit.turn_number, hit.role, hit.source) == ("m1", 1, Role.ASSISTANT, Source.LLM)

    def test_a_hit_names_the_sender_of_a_prompt_and_the_call_of_a_result(self, db: sqlite3.Connection) -> None:
        said = broadcast(db, "dig ore", sender=2)
        prompt = remember(db, "dig ore", role="user", source="broadcast")
        db.execute("UPDATE memory SET message_id = ? WHERE id = ?", (said, prompt))
        remember(db, "", calls=[("mine", "{}")])
        result = remember(db, "3 ore", role="tool", source="tool")
        db.execute("UPDATE tool_call SET result_memory_id = ?", (result,))
        answered, spoken = search_memories(db, MemoryQuery("ore")).hits
        assert (answered.tool, answered.call_id, answered.sender_kind) == ("mine", 1, None)
        assert (spoken.sender_kind, spoken.sender) == (SenderKind.MYSIS, "m2")

    def test_a_long_text_is_cut_around_its_hit(self, db: sqlite3.Connection) -> None:
        remember(db, "a" * 3_000 + "needle" + "b" * 3_000)
        [hit] = search_memories(db, MemoryQuery("needle", max_chars=200)).hits
        excerpt = hit.excerpt
        assert excerpt.is_cut
        assert (len(excerpt.text), excerpt.start, excerpt.total) == (200, 2_950, 6_006)
        assert excerpt.marks == ((50, 6),)
        [hit] = search_memories(db, MemoryQuery("b" * 300, max_chars=100)).hits
        assert hit.excerpt.text == "b" * 100
        assert hit.excerpt.marks == ()

    def test_removed_or_changed_text_is_not_found(self, db: sqlite3.Connection) -> None:
        first = remember(db, "first ore", reasoning="why ore", calls=[("mine", "ore")])
        second = remember(db, "second ore", calls=[("mine", "gold ore")])
        broadcast(db, "all to the ore")
        db.execute("UPDATE memory SET content = 'gone', reasoning = '' WHERE id = ?", (first,))
        db.execute("UPDATE tool_call SET arguments = 'silver' WHERE memory_id = ?", (first,))
        db.execute("UPDATE message SET content = 'stay'")
        catch_up(db)
        assert found(db, MemoryQuery("silver")) == found(db, MemoryQuery("gone")) == [first]
        assert found(db, MemoryQuery("ore", column=SearchColumn.ANY)) == [second]
        check_indexes(db)
        db.execute("DELETE FROM tool_call")
        db.execute("DELETE FROM memory")
        db.execute("DELETE FROM message")
        check_indexes(db)
        assert db.execute("SELECT count(*) FROM memory_exact WHERE memory_exact MATCH '\"ore\"'").fetchone() == (0,)

    def test_short_queries_stop_at_a_limit_and_report_it(
        self, db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(memory_search, "SCANNED", 10)
        for number in range(25):
            remember(db, "xy" if number == 0 else "other", mysis=1 + number % 2)
        page = search_memories(db, MemoryQuery("xy"))
        assert page.hits == ()
        assert "newest 10 memories" in page.note
        assert page.before_id == 16
        page = search_memories(db, MemoryQuery("xy", before_id=16))
        assert (page.hits, page.before_id) == ((), 6)
        page = search_memories(db, MemoryQuery("xy", before_id=6))
        assert [hit.memory_id for hit in page.hits] == [1]
        assert (page.before_id, page.note) == (None, "")
        assert search_memories(db, MemoryQuery("xy", mysis_ids=(1,))).before_id == 6


class TestRanked:
    def test_words_are_found_in_any_case_and_the_best_comes_first(self, db: sqlite3.Connection) -> None:
        weak = remember(db, "ore among many other words that say nothing at all about what is looked for here")
        strong = remember(db, "Ore, ORE and more óre")
        call = remember(db, "", mysis=2, calls=[("mine", '{"what": "ore"}')])
        ids = [hit.memory_id for hit in search_memories(db, MemoryQuery("oré", match=MatchMode.RANKED)).hits]
        assert ids[0] == strong
        assert sorted(ids) == [weak, strong, call]
        assert found(db, MemoryQuery("ore", match=MatchMode.RANKED, mysis_ids=(2,))) == [call]

    def test_equal_scores_are_sorted_by_time(self, db: sqlite3.Connection) -> None:
        ids = [remember(db, "the same ore") for _ in range(3)]
        assert found(db, MemoryQuery("ore", match=MatchMode.RANKED)) == ids[::-1]

    def test_columns_are_searched_separately(self, db: sqlite3.Connection) -> None:
        said, thought = remember(db, "ore"), remember(db, "", reasoning="ore")
        assert found(db, MemoryQuery("ore", match=MatchMode.RANKED)) == [said]
        assert found(db, MemoryQuery("ore", match=MatchMode.RANKED, column=SearchColumn.REASONING)) == [thought]
        assert set(found(db, MemoryQuery("ore", match=MatchMode.RANKED, column=SearchColumn.ANY))) == {said, thought}

    def test_any_word_matches_if_no_memory_has_all(self, db: sqlite3.Connection) -> None:
        both, one = remember(db, "iron ore"), remember(db, "iron")
        assert found(db, MemoryQuery("ore iron", match=MatchMode.RANKED)) == [both]
        page = search_memories(db, MemoryQuery("iron platinum", match=MatchMode.RANKED))
        assert {hit.memory_id for hit in page.hits} == {both, one}
        assert "some of them" in page.note
        assert search_memories(db, MemoryQuery("platinum", match=MatchMode.RANKED)).hits == ()

    def test_a_query_without_words_returns_a_note(self, db: sqlite3.Connection) -> None:
        assert search_memories(db, MemoryQuery("%_*", match=MatchMode.RANKED)).note == memory_search.NO_WORDS
        assert search_broadcasts(db, BroadcastQuery("%_*", match=MatchMode.RANKED)).note == memory_search.NO_WORDS

    def test_ranking_uses_the_newest_matches_and_reports_it(
        self, db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(memory_search, "RANKED", 3)
        for _ in range(5):
            remember(db, "ore")
        page = search_memories(db, MemoryQuery("ore", match=MatchMode.RANKED))
        assert [hit.memory_id for hit in page.hits] == [5, 4, 3]
        assert "there are older ones" in page.note
        assert "; " in search_memories(db, MemoryQuery("ore gold", match=MatchMode.RANKED)).note

    def test_the_marks_are_on_the_words(self, db: sqlite3.Connection) -> None:
        remember(db, "ore and More ORE")
        [hit] = search_memories(db, MemoryQuery("ore", match=MatchMode.RANKED)).hits
        assert hit.excerpt.marks == ((0, 3), (13, 3))


class TestScriptsWithoutSpaces:
    """Words of Chinese, Japanese, Thai and Korean texts, which the word index does not cut."""

    @pytest.fixture(autouse=True, params=[0, 5_000], ids=["index", "scan"])
    def _route(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(memory_search, "FEW", request.param)

    @pytest.mark.parametrize(
        ("text", "word"),
        [
            ("小行星帯で鉄鉱石を発見した", "鉄鉱石"),
            ("小行星帯で鉄鉱石を発見した", "鉄"),
            ("我们在小行星带发现了铁矿石", "铁矿"),
            ("เรือขนส่งบรรทุกแร่เหล็กเต็มลำ", "แร่เหล็ก"),
            ("เรือขนส่งบรรทุกแร่เหล็กเต็มลำ", "แร่"),
            ("소행성에서 철광석을 발견했다", "철광석"),
            ("工单OPS-20931已创建", "OPS-20931"),
            ("工单OPS-20931已创建", "工单 OPS-20931"),
            ("エラーはEACCESです", "eacces"),
        ],
    )
    def test_a_word_within_a_text_is_found(self, db: sqlite3.Connection, text: str, word: str) -> None:
        remember(db, "iron ore in the belt")
        wanted = remember(db, text)
        page = search_memories(db, MemoryQuery(word, match=MatchMode.RANKED))
        assert [hit.memory_id for hit in page.hits] == [wanted]
        (start, length) = page.hits[0].excerpt.marks[0]
        assert word.casefold().startswith(text[start : start + length].casefold())
        assert page.note == ""

    def test_calls_and_reasoning_are_searched_too(self, db: sqlite3.Connection) -> None:
        called = remember(db, "", calls=[("mine", '{"text": "鉄鉱石"}')])
        thought = remember(db, "", reasoning="鉄鉱石だ")
        ranked = MemoryQuery("鉄鉱石", match=MatchMode.RANKED)
        assert found(db, ranked) == [called]
        assert found(db, replace(ranked, column=SearchColumn.REASONING)) == [thought]
        assert set(found(db, replace(ranked, column=SearchColumn.ANY))) == {called, thought}

    def test_more_and_denser_words_come_first(self, db: sqlite3.Connection) -> None:
        once = remember(db, "鉄" + "長い文" * 50)
        often = remember(db, "鉄と鉄")
        assert found(db, MemoryQuery("鉄", match=MatchMode.RANKED)) == [often, once]

    def test_all_words_are_wanted_before_some(self, db: sqlite3.Connection) -> None:
        both = remember(db, "Iron は 鉄鉱石 です")
        one = remember(db, "鉄鉱石")
        assert found(db, MemoryQuery("iron 鉄鉱石", match=MatchMode.RANKED)) == [both]
        page = search_memories(db, MemoryQuery("金 鉄鉱石", match=MatchMode.RANKED))
        assert {hit.memory_id for hit in page.hits} == {both, one}
        assert "some of them" in page.note
        assert found(db, MemoryQuery("白金 金", match=MatchMode.RANKED)) == []

    def test_only_the_filtered_memories_are_ranked(
        self, db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other, own = remember(db, "鉄", mysis=2), remember(db, "鉄", mysis=1)
        ranked = MemoryQuery("鉄", match=MatchMode.RANKED)
        assert found(db, replace(ranked, mysis_ids=(1,))) == [own]
        assert found(db, replace(ranked, before_id=own)) == [other]
        monkeypatch.setattr(memory_search, "RANKED", 1)
        page = search_memories(db, ranked)
        assert [hit.memory_id for hit in page.hits] == [own]
        assert "there are older ones" in page.note

    @pytest.mark.parametrize("word", ["鉄鉱石", "鉄", "鉄鉱石 iron", "ops-20931", "鉄 OPS"])
    def test_broadcasts_are_found(self, db: sqlite3.Connection, word: str) -> None:
        wanted = broadcast(db, "全員へOPS-20931の鉄鉱石 (iron) を運べ", to=(1,))
        broadcast(db, "iron", to=(1,))
        ranked = BroadcastQuery(word, match=MatchMode.RANKED)
        assert [hit.message_id for hit in search_broadcasts(db, ranked).hits] == [wanted]
        some = search_broadcasts(db, replace(ranked, text=f"{word} 金"))
        assert "some of them" in some.note


class TestBroadcasts:
    @pytest.mark.usefixtures("always_indexed")
    def test_each_is_found_once_newest_first(self, db: sqlite3.Connection) -> None:
        first = broadcast(db, "mine Iron", to=(1, 2), at=10)
        second = broadcast(db, "iron found", sender=1, to=(2,), at=20)
        query = BroadcastQuery("iron", fold=True)
        hits = search_broadcasts(db, query).hits
        assert [hit.message_id for hit in hits] == [second, first]
        assert [(hit.sender_kind, hit.sender) for hit in hits] == [(SenderKind.MYSIS, "m1"), (SenderKind.COMMANDER, "")]
        assert hits[1].excerpt.marks == ((5, 4),)
        page = search_broadcasts(db, replace(query, limit=1))
        assert ([hit.message_id for hit in page.hits], page.before_id) == ([second], second)
        assert [hit.message_id for hit in search_broadcasts(db, replace(query, before_id=second)).hits] == [first]
        assert [hit.message_id for hit in search_broadcasts(db, replace(query, until=20)).hits] == [first]
        assert [hit.message_id for hit in search_broadcasts(db, replace(query, since=20)).hits] == [second]
        assert [hit.message_id for hit in search_broadcasts(db, BroadcastQuery("Iron")).hits] == [first]

    def test_a_mysis_sees_what_it_sent_or_received(self, db: sqlite3.Connection) -> None:
        received = broadcast(db, "ore", to=(1,))
        sent = broadcast(db, "ore", sender=1, to=(2,))
        skipped = broadcast(db, "ore", to=(2,))
        assert [hit.message_id for hit in search_broadcasts(db, BroadcastQuery("ore", mysis_id=1)).hits] == [
            sent,
            received,
        ]
        db.execute("UPDATE delivery SET state = 'skipped' WHERE message_id = ?", (skipped,))
        assert [hit.message_id for hit in search_broadcasts(db, BroadcastQuery("ore", mysis_id=2)).hits] == [sent]

    def test_the_broadcast_with_more_of_its_words_found_comes_first(self, db: sqlite3.Connection) -> None:
        weak = broadcast(db, "iron is among many words here, which say little")
        strong = broadcast(db, "IRON iron")
        hits = search_broadcasts(db, BroadcastQuery("Iron", match=MatchMode.RANKED)).hits
        assert [hit.message_id for hit in hits] == [strong, weak]
        assert hits[0].excerpt.marks == ((0, 4), (5, 4))

    def test_ranked_broadcasts_use_the_newest_matches_and_any_word(
        self, db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("zoea.store.search.broadcast_search.RANKED", 3)
        best = broadcast(db, "ore")
        later = [broadcast(db, "ore among other words, say I") for _ in range(4)]
        page = search_broadcasts(db, BroadcastQuery("ore", match=MatchMode.RANKED))
        assert [hit.message_id for hit in page.hits] == later[:0:-1]
        assert page.note == "chosen from the newest 3 matches, there are older ones"
        page = search_broadcasts(db, BroadcastQuery("platinum ORE", match=MatchMode.RANKED, before_id=later[0]))
        assert [hit.message_id for hit in page.hits] == [best]
        assert page.note == "no broadcast has all of these words; these have some of them"
        assert search_broadcasts(db, BroadcastQuery("platinum", match=MatchMode.RANKED)).hits == ()

    def test_a_short_query_stops_at_a_limit_and_reports_it(
        self, db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("zoea.store.search.broadcast_search.SCANNED", 10)
        said = [broadcast(db, "xY" if number == 0 else "other") for number in range(25)]
        query, pages = BroadcastQuery("xy", fold=True), list[int]()
        while True:
            page = search_broadcasts(db, query)
            assert page.note == ("looked through the newest 10 messages only" if page.before_id else "")
            if page.before_id is None:
                break
            assert page.hits == ()
            pages.append(page.before_id)
            query = replace(query, before_id=page.before_id)
        assert pages == [16, 6]
        assert [hit.message_id for hit in page.hits] == said[:1]

    @pytest.mark.usefixtures("large")
    @given(said=st.lists(TEXT, min_size=1, max_size=12), data=st.data())
    def test_the_index_answers_as_a_plain_scan_does(self, said: list[str], data: st.DataObject) -> None:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            _blank().backup(connection)
            texts = [clean(text) or "a" for text in said]
            ids = [broadcast(connection, text) for text in texts]
            for _ in range(4):
                whole = data.draw(st.sampled_from(texts))
                cut = whole[data.draw(st.integers(0, len(whole) - 1)) :][: data.draw(st.integers(1, 20))]
                query = BroadcastQuery(data.draw(st.sampled_from((cut, cut.swapcase()))), fold=data.draw(st.booleans()))
                hits = [hit.message_id for hit in search_broadcasts(connection, query).hits]
                assert hits == [each for each, text in zip(ids, texts, strict=True) if holds(text, query)][::-1]


@pytest.mark.parametrize("match", list(MatchMode))
def test_a_mysis_finds_neither_its_question_nor_earlier_searches_nor_their_results(
    db: sqlite3.Connection, match: MatchMode
) -> None:
    fact = remember(db, "the lode is in sector nine", role="user", source="direct")
    seen = remember(db, "", calls=[("scan", '{"for": "lode"}')])
    said = remember(db, "I look for the lode", calls=[("zoea_recall", '{"query": "lode"}')])
    remember(db, "", calls=[("zoea_recall", '{"query": "lode"}')])
    echo = remember(db, '{"results": ["the lode is in sector nine"]}', role="tool", source="tool")
    other = remember(db, "a lode of ore", role="tool", source="tool")
    now = turn(db, 1, is_open=True)
    remember(db, "where is the lode?", role="user", source="direct", turn_id=now)
    earlier = remember(db, "the lode again", calls=[("scan", "{}")], turn_id=now)
    remember(db, "no lode", calls=[("zoea_search_messages", '{"query": "lode"}')], turn_id=now)
    link = "UPDATE tool_call SET result_memory_id = ? WHERE name = ? AND memory_id <= ?"
    db.execute(f"{link} AND memory_id > ?", (echo, "zoea_recall", echo, said))
    db.execute(link, (other, "scan", seen))
    (asking,) = db.execute("SELECT max(id) FROM tool_call").fetchone()

    query = MemoryQuery("lode", match=match, mysis_ids=(1,), asking_call=asking)
    assert {hit.memory_id for hit in search_memories(db, query).hits} == {fact, seen, said, other, earlier}
    everything = search_memories(db, replace(query, asking_call=None)).hits
    assert len(everything) == 9, "a person finds all of them"


@walk_cases(
    ("arguments", "message"),
    [
        ({"text": ""}, "query cannot be empty"),
        ({"text": "a", "limit": 0}, "limit must be from 1 to 100, not 0"),
        ({"text": "a", "limit": 101}, "limit must be from 1 to 100, not 101"),
        ({"text": "a", "max_chars": 5}, "max_chars must be from 100 to 10000, not 5"),
    ],
)
def test_an_invalid_query_names_the_problem(arguments: dict[str, Any], message: str) -> None:
    for make in (MemoryQuery, BroadcastQuery):
        with pytest.raises(UsageError, match=message):
            make(**arguments)


def test_a_rebuild_indexes_stored_memories() -> None:
    done: list[tuple[int, int]] = []
    with closing(database()) as connection:
        remember(connection, "iron ore", reasoning="why", calls=[("mine", '{"what": "gold"}'), ("look", "{}")])
        remember(connection, "3 iron", mysis=2, role="tool", source="tool")
        broadcast(connection, "all to the iron")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("zoea.store.search.fts_index.BATCH", 1)
            rebuild(connection, lambda *progress: done.append(progress))
        assert done == [(1, 2), (2, 2)]
        check_indexes(connection)
        assert found(connection, MemoryQuery("iron")) == [2, 1]
        assert found(connection, MemoryQuery("gold")) == [1]
        assert found(connection, MemoryQuery("IRON", match=MatchMode.RANKED, mysis_ids=(2,))) == [2]
        assert len(search_broadcasts(connection, BroadcastQuery("iron")).hits) == 1


class TestIndexing:
    """A row is indexed once, in the transaction that stores it."""

    async def test_an_op_that_fails_leaves_nothing_to_find(self, tmp_path: Path) -> None:
        path = tmp_path / "zoea.db"
        database(path).close()
        store = await Store.open(path, clock_now=lambda: 1)

        def op(connection: WriterConnection, words: str, fails: bool) -> None:
            connection.execute(
                "INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, tokens, created_at)"
                " VALUES (1, 1, (SELECT count(*) FROM memory), 'user', 'direct', ?, 1, 1)",
                (words,),
            )
            if fails:
                raise UsageError("no")

        both = [store.write(partial(op, words=words, fails=words == "silver")) for words in ("copper", "silver")]
        assert [type(each) for each in await asyncio.gather(*both, return_exceptions=True)] == [type(None), UsageError]
        assert [tuple(row) for row in await store.read("SELECT count(*) FROM unindexed")] == [(0,)]
        await store.close()
        with closing(sqlite3.connect(path)) as connection:
            assert len(found(connection, MemoryQuery("copper"))) == 1
            assert found(connection, MemoryQuery("silver")) == []
            check_indexes(connection)

    async def test_rows_of_other_connections_are_indexed_on_open(self, tmp_path: Path) -> None:
        path = tmp_path / "zoea.db"
        with closing(database(path)) as connection:
            connection.execute(
                "INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, tokens, created_at)"
                " VALUES (1, 1, 0, 'user', 'direct', 'a word of its own', 1, 1)"
            )
            connection.execute("UPDATE memory SET content = 'another word'")
            assert connection.execute("SELECT count(*) FROM unindexed").fetchone() == (1,)
        store = await Store.open(path, clock_now=lambda: 1)
        await store.close()
        with closing(sqlite3.connect(path)) as connection:
            assert len(found(connection, MemoryQuery("another word"))) == 1
            check_indexes(connection)


class TestChoosingTerms:
    @pytest.fixture
    def many(self, db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> sqlite3.Connection:
        """Store sixty memories of iron, every tenth of silver iron, one of gold."""
        monkeypatch.setattr(fts_terms, "LARGE", 0)
        monkeypatch.setattr(fts_terms, "PROBE", 3)
        monkeypatch.setattr(fts_terms, "ROW_COST", 2)
        for number in range(60):
            remember(db, "gold" if number == 7 else "silver iron" if number % 10 == 0 else "iron")
        return db

    def test_the_rarest_terms_are_used_while_they_pay(self, many: sqlite3.Connection) -> None:
        asked = ['"iro"', '"ron"', '"sil"', '"ilv"']
        assert fts_terms.choose_rare_terms(many, "memory_exact", asked, 60) == ['"ilv"', '"sil"']

    def test_one_very_rare_term_is_enough(self, many: sqlite3.Connection) -> None:
        assert fts_terms.choose_rare_terms(many, "memory_exact", ['"iro"', '"old"', '"sil"'], 60) == ['"old"']

    def test_all_terms_are_used_in_a_small_index(
        self, many: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fts_terms, "LARGE", 61)
        assert fts_terms.choose_rare_terms(many, "memory_exact", ['"iro"', '"sil"'], 60) == ['"iro"', '"sil"']
        in_any_case = ['("IRO" OR "iro")', '("SIL" OR "sil")']
        assert fts_terms.choose_rare_terms(many, "memory_exact", in_any_case, 60, fold=True) == in_any_case[1:]

    @pytest.mark.usefixtures("always_indexed")
    def test_the_newest_rows_are_scanned_first_for_frequent_terms(
        self, many: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []
        many.set_trace_callback(asked.append)
        assert found(many, MemoryQuery("iron", mysis_ids=(1,), limit=3)) == [60, 59, 58]
        assert not any("f.memory_exact MATCH" in sql for sql in asked)
        assert found(many, MemoryQuery("iron", column=SearchColumn.ANY, fold=True, limit=3)) == [60, 59, 58]
        assert not any("f.memory_exact MATCH" in sql for sql in asked)
        monkeypatch.setattr(memory_search, "LOOKED", 8)  # the index completes the page
        assert found(many, MemoryQuery("iron", limit=3, before_id=8)) == [7, 6, 5]
        many.set_trace_callback(None)

    @pytest.mark.usefixtures("always_indexed")
    def test_chosen_terms_find_the_same_rows(self, many: sqlite3.Connection) -> None:
        assert found(many, MemoryQuery("silver iron")) == [51, 41, 31, 21, 11, 1]
        assert found(many, MemoryQuery("silver iron", mysis_ids=(2,))) == []
        assert found(many, MemoryQuery("SILVER iron", column=SearchColumn.ANY, fold=True)) == [51, 41, 31, 21, 11, 1]

    @pytest.mark.usefixtures("always_indexed")
    def test_rare_terms_are_chosen_for_folded_queries_too(self, many: sqlite3.Connection) -> None:
        asked: list[str] = []
        many.set_trace_callback(asked.append)
        assert found(many, MemoryQuery("the gold iron", column=SearchColumn.ANY, fold=True)) == []
        many.set_trace_callback(None)
        (proposed,) = [sql for sql in asked if "f.memory_exact MATCH" in sql]
        terms = proposed.partition("MATCH")[2].partition("f.rowid")[0]
        assert terms.count(" AND ") == 1  # one group of cases and one other term

    async def test_a_row_that_cannot_be_indexed_fails_its_write(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(_: sqlite3.Connection) -> None:
            raise ValueError("no such alphabet")

        monkeypatch.setattr("zoea.store.store.catch_up", fails)
        store = await Store.open(tmp_path / "zoea.db", clock_now=lambda: 1)
        with pytest.raises(StoreError, match="no such alphabet"):
            await store.write(lambda connection: connection.emit("hold.lifted", None))
        assert [tuple(row) for row in await store.read("SELECT count(*) FROM event")] == [(0,)]
        await store.close()


@pytest.mark.parametrize("word", ["café", "Zürich", "학점인정", "łąka"])
@pytest.mark.parametrize("match", MatchMode)
def test_composed_and_decomposed_letters_find_each_other(db: sqlite3.Connection, word: str, match: MatchMode) -> None:
    forms = [unicodedata.normalize(form, word) for form in ("NFC", "NFD")]
    ids = [remember(db, f"It is about {form} again.") for form in forms]
    catch_up(db)
    for form in forms:
        hits = search_memories(db, MemoryQuery(form, match=match)).hits
        assert sorted(hit.memory_id for hit in hits) == ids
        assert all(hit.excerpt.marks for hit in hits)
