"""`<think>` blocks become reasoning, wherever the stream cuts them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.llm.messages.think_splitter import ThinkSplitter


def split(*pieces: str) -> tuple[str, str]:
    splitter = ThinkSplitter()
    parts = [splitter.feed(piece) for piece in pieces] + [splitter.end()]
    return "".join(text for text, _ in parts), "".join(reasoning for _, reasoning in parts)


@walk_cases(
    ("said", "text", "reasoning"),
    [
        ("plain", "plain", ""),
        ("<think>why</think>\n\nso", "so", "why"),
        ("  \n<think>\nwhy\n</think>so", "  \nso", "\nwhy\n"),
        ("<thinking>why</thinking>so", "so", "why"),
        ("<think>never closed", "", "never closed"),
        ("<think></think>so", "so", ""),
        ("one\n<think>two</think>\nthree", "one\nthree", "two"),
        ("<think>a</think><think>b</think>so", "so", "ab"),
        ("a < b and <b>bold</b>", "a < b and <b>bold</b>", ""),
        ("the tag `<think>` opens a block", "the tag `<think>` opens a block", ""),
        ("<thin", "<thin", ""),
        ("<think>half a </thi", "", "half a </thi"),
        ("<think>1 < 2 </b> 3</think>yes", "yes", "1 < 2 </b> 3"),
    ],
)
def test_a_block_is_found_whole_and_character_by_character(said: str, text: str, reasoning: str) -> None:
    assert split(said) == (text, reasoning)
    assert split(*said) == (text, reasoning)


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "\n", "<", "a", "think", ">", "</", " "]), max_size=14), st.data()
)
def test_cutting_never_changes_what_is_found(words: list[str], data: st.DataObject) -> None:
    said = "".join(words)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(said)), max_size=6)))
    edges = [0, *cuts, len(said)]
    assert split(*(said[a:b] for a, b in pairwise(edges))) == split(said)


def test_what_stands_before_a_closing_tag_that_was_never_opened_was_reasoning() -> None:
    splitter = ThinkSplitter()
    text, _ = splitter.feed("I should look.\n</think>\n\nIt is ore.")
    assert splitter.orphan(text) == ("It is ore.", "I should look.")


def test_a_closing_tag_inside_a_sentence_stays_text() -> None:
    splitter = ThinkSplitter()
    text, _ = splitter.feed("Write </think> to end it.")
    assert splitter.orphan(text) == ("Write </think> to end it.", "")


def test_a_block_that_was_opened_leaves_no_orphan() -> None:
    splitter = ThinkSplitter()
    text, _ = splitter.feed("<think>a</think>b\n</think>\nc")
    assert splitter.orphan(text) == (text, "")
