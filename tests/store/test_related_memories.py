"""What an older memory has to do with a text, for the pack `recall`."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from tests.store.sample_memories import database, remember
from zoea.store.search import find_related
from zoea.store.search.fts_index import catch_up
from zoea.store.search.related_memories import _compile_sign, _find_signs, _fold
from zoea.store.search.unspaced_words import is_unspaced, list_forms, split_words

NEWEST = 1 << 40


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(database()) as connection:
        yield connection


def test_the_memory_with_the_words_of_the_question_comes_first_and_common_words_count_nothing(
    connection: sqlite3.Connection,
) -> None:
    fact = remember(connection, "The harbour master is called Ortrud.", role="user", source="direct")
    remember(connection, "Who is it, and what is the time there?", role="user", source="direct")
    catch_up(connection)

    assert find_related(connection, 1, "Who is the harbour master?", NEWEST, 3, ()) == [(fact, 0)]


def test_an_own_answer_counts_half(connection: sqlite3.Connection) -> None:
    wrong = remember(connection, "The harbour master is called Otto, I think.")
    fact = remember(connection, "The harbour master is called Ortrud, they say.", role="user", source="direct")
    catch_up(connection)

    assert [hit[0] for hit in find_related(connection, 1, "harbour master", NEWEST, 3, ())] == [fact, wrong]


def test_memories_of_others_later_ones_and_those_shown_are_no_hits(connection: sqlite3.Connection) -> None:
    shown = remember(connection, "ore at the belt", role="user", source="direct")
    old = remember(connection, "ore at the station", role="user", source="direct")
    remember(connection, "ore of another", mysis=2, role="user", source="direct")
    remember(connection, "ore of later", role="user", source="direct")
    catch_up(connection)

    assert [hit[0] for hit in find_related(connection, 1, "ore", old, 3, (shown,))] == [old]


def test_results_of_searches_are_no_hits(connection: sqlite3.Connection) -> None:
    fact = remember(connection, "The harbour master is called Ortrud.", role="user", source="direct")
    remember(connection, "", calls=[("zoea_recall", '{"query": "harbour"}')])
    echo = remember(connection, "The harbour master is called Ortrud.", role="tool", source="tool")
    connection.execute("UPDATE tool_call SET result_memory_id = ?", (echo,))
    catch_up(connection)

    assert [hit[0] for hit in find_related(connection, 1, "harbour master", NEWEST, 3, ())] == [fact]


def test_a_long_text_is_shown_from_shortly_before_the_match(connection: sqlite3.Connection) -> None:
    remember(connection, "word " * 200 + "Ortrud waits", role="user", source="direct")
    catch_up(connection)

    [(_, place)] = find_related(connection, 1, "Where is Ortrud?", NEWEST, 3, ())
    assert place == 5 * 200 - 80


@pytest.mark.parametrize(
    ("fact", "question", "talk"),
    [
        ("The harbour master is called Ortrud.", "Who is the harbour master?", "The harbour is calm. "),
        ("Invoices of the harbour go to Ortrud.", "How does invoicing at the harbour work?", "The harbour is calm. "),
        ("门禁的钥匙在老黄牛下面的抽屉里。", "门禁的钥匙在什么地方？", "今天的天气在这里不错。"),
    ],
)
def test_a_long_text_is_shown_where_most_words_of_the_question_stand_together(
    connection: sqlite3.Connection, fact: str, question: str, talk: str
) -> None:
    long = talk * 50 + fact + talk * 50
    memory = remember(connection, long, role="user", source="direct")
    for _ in range(8):
        remember(connection, "nothing else is said here", role="user", source="direct")
        remember(connection, talk * 100, role="user", source="direct")
    catch_up(connection)

    [(best, place), *_] = find_related(connection, 1, question, NEWEST, 3, ())
    assert best == memory
    assert fact in long[place : place + 400]


def test_words_of_a_script_without_spaces_are_found(connection: sqlite3.Connection) -> None:
    fact = remember(connection, "港の主はオルトルートです", role="user", source="direct")
    catch_up(connection)

    assert [hit[0] for hit in find_related(connection, 1, "オルトルート", NEWEST, 3, ())] == [fact]


def test_a_number_directly_beside_characters_without_spaces_is_found(connection: sqlite3.Connection) -> None:
    fact = remember(connection, "工单OPS-20931已转交网络组", role="user", source="direct")
    for number in range(18):
        remember(connection, f"Ticket {number} is open.", role="user", source="direct")
    catch_up(connection)

    assert [hit[0] for hit in find_related(connection, 1, "Who has ticket OPS-20931?", 19, 1, ())] == [fact]


def test_a_text_without_words_has_no_hits(connection: sqlite3.Connection) -> None:
    assert find_related(connection, 1, "?! ...", NEWEST, 3, ()) == []


def test_an_old_memory_with_a_rare_word_is_found_behind_thousands_with_a_common_one(
    connection: sqlite3.Connection,
) -> None:
    fact = remember(connection, "Captain Ortrud signs for the ore.", role="user", source="direct")
    newest = 0
    for number in range(6_000):
        newest = remember(connection, f"ore sold, load {number}", role="user", source="direct")
    catch_up(connection)

    assert find_related(connection, 1, "Does Ortrud take the ore?", newest, 3, ())[0] == (fact, 0)


def test_a_chinese_question_finds_the_fact_that_shares_two_characters_with_it(connection: sqlite3.Connection) -> None:
    fact = remember(connection, "钥匙放在前台左手边最下面那个抽屉里。", role="user", source="direct")
    for number in range(60):
        remember(connection, f"我们今天继续看第{number}部分，没有别的问题。", role="user", source="direct")
    catch_up(connection)

    assert find_related(connection, 1, "门禁的钥匙在什么地方？", NEWEST, 3, ())[0][0] == fact


@walk_cases("letters", ["ſsS", "Kk", "İiıI", "µμΜ", "ΐΐ", "ẞß", "ſtst", "ÄäÄ", "θϑΘ", "ΣςσΣ"])
def test_a_word_is_left_out_only_where_its_pattern_would_find_nothing(letters: str) -> None:
    for letter, other in product(letters, repeat=2):
        if re.search(letter, other, re.IGNORECASE):
            assert _fold(letter) in _fold(f"x{other}x")


_LETTERS = st.text("aAbiksSßſKıİéÉŸ_1٣ .-漢字ガカ\u3099e\u0301ñΣςﬁ", max_size=40)


@given(_LETTERS, _LETTERS)
def test_words_are_found_where_their_patterns_match(text: str, question: str) -> None:
    words = dict.fromkeys([*split_words(question), *split_words(text)])
    signs = [*words, *[f"{word[:2]}*" for word in words if not is_unspaced(word)]]
    found = sorted(
        _find_signs(text, [(sign, [*map(_fold, list_forms(sign.removesuffix("*")))], 1.0) for sign in signs])
    )
    patterns = map(_compile_sign, signs)
    assert found == sorted(
        (match.start(), place) for place, pattern in enumerate(patterns) for match in pattern.finditer(text)
    )


def test_the_beginning_of_a_long_word_is_found_too(connection: sqlite3.Connection) -> None:
    fact = remember(connection, "The invoices are numbered by client.", role="user", source="direct")
    remember(connection, "It rains.", role="user", source="direct")
    catch_up(connection)

    assert [hit[0] for hit in find_related(connection, 1, "How does invoicing work?", NEWEST, 3, ())] == [fact]
