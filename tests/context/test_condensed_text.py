"""Cutting and folding of texts, arguments and slices."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.context import condensed_text
from zoea.context.condensed_text import (
    LEAST,
    cut_arguments,
    cut_end,
    cut_text,
    find_identifiers,
    fold_slice,
    join_folds,
)
from zoea.model.enums import Role
from zoea.model.request import RequestCall, RequestMessage


def test_the_marker_counts_the_missing_characters_and_names_the_memory() -> None:
    text = "a" * 41_230 + "b" * 970
    short = cut_text(text, 1050, 812)
    assert short.startswith("a")
    assert short.endswith("b")
    assert "\n[… 41,2" in short
    assert " characters left out; zoea_read_memory(id=812) shows them]\n" in short


def test_the_marker_names_no_memory_if_there_is_none() -> None:
    assert "characters left out]" in cut_text("a" * 5000, 500, None)


@given(st.text(max_size=900), st.integers(0, 500))
def test_a_cut_text_is_never_longer_than_its_limit(text: str, keep: int) -> None:
    short = cut_text(text, keep, 7)
    assert len(short) <= max(keep, LEAST)
    assert short == text or len(short) < len(text)


@given(st.text(max_size=200), st.integers(0, 150))
def test_a_text_cut_at_its_end_has_exactly_the_given_length(text: str, keep: int) -> None:
    assert len(cut_end(text, keep)) == min(len(text), keep)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=300), JSON, max_size=6), st.integers(0, 600))
def test_cut_arguments_are_a_json_object_and_not_longer(values: dict[str, object], keep: int) -> None:
    arguments = json.dumps(values, ensure_ascii=False)
    short = cut_arguments(arguments, keep, 3)
    assert isinstance(json.loads(short), dict)
    assert len(short) <= len(arguments)


@given(st.text(max_size=2000), st.integers(0, 300))
def test_any_stored_arguments_are_cut_to_a_json_object(text: str, keep: int) -> None:
    short = cut_arguments(text, keep, 3)
    assert short == text or isinstance(json.loads(short), dict)


@walk_cases("text", ["[" * 100_000, '{"a": ' * 50_000, '{"a": 1e999, "b": "' + "x" * 5000 + '"}'])
def test_arguments_that_json_cannot_express_are_cut_as_text(text: str) -> None:
    assert list(json.loads(cut_arguments(text, 400, 3))) == ["…"]


def test_many_keys_are_cut_as_text() -> None:
    arguments = json.dumps({f"key {number}": number for number in range(2000)})
    assert list(json.loads(cut_arguments(arguments, 400, 3))) == ["…"]


def test_a_long_list_in_arguments_becomes_its_cut_text() -> None:
    arguments = json.dumps({"path": "a", "rows": list(range(3000))})
    short = json.loads(cut_arguments(arguments, 1000, 3))
    assert short["path"] == "a"
    assert "left out" in short["rows"]


def test_identifiers_are_keyed_values_mixed_words_and_quoted_names() -> None:
    text = (
        '{"session_id": "s-77", "ship": {"id": 12}, "to": "belt_alpha", "at": "2026-11-21T10:00:00Z",'
        ' "playerId": "P1", "credits": 900, "day": "2026-11-21"} trace 3f2b8c1e-1111-4222-8333-123456789abc token=tk_9'
    )
    assert find_identifiers(text) == ["s-77", "12", "belt_alpha", "P1", "3f2b8c1e-1111-4222-8333-123456789abc", "tk_9"]


def test_identifiers_are_found_beside_characters_of_scripts_without_spaces() -> None:
    assert find_identifiers("工单OPS-20931已创建，提交abc1234def已合并") == ["OPS-20931", "abc1234def"]


@pytest.mark.parametrize("text", ['{"id": "s-77"} OPS-20931', 'für "größe_a": key=größe_9 … Ä1b2c Заказ_7 a_id: ж-1'])
def test_texts_with_spaces_take_the_faster_pattern_which_finds_the_same(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [match.group() for match in condensed_text._NAMED_UNSPACED.finditer(text)]
    assert [match.group() for match in condensed_text._NAMED.finditer(text)] == found
    monkeypatch.delattr(condensed_text, "_NAMED_UNSPACED")  # it took half of a plan that folds 30 results
    assert find_identifiers(text)


def test_ordinary_words_and_numbers_are_not_identifiers() -> None:
    assert find_identifiers("You mined 40 units of ore in 3 minutes; fuel is at 87.5 percent.") == []


@walk_cases(
    "piece",
    ["a-", "a1-", "ab_", "x", "----", "__", "id: ", "id", "-id", "'a_b", '"a_', "AId", "key_", "id   ", " \n", "漢e1"],
)
def test_identifiers_are_found_in_one_pass_of_any_text(piece: str) -> None:
    started = time.process_time()
    find_identifiers(piece * (100_000 // len(piece)))
    assert time.process_time() - started < 1.0


def test_a_fold_line_has_tool_arguments_outcome_and_identifiers() -> None:
    answer = RequestMessage(
        Role.ASSISTANT,
        "Mining\n now.",
        calls=(RequestCall("c1", "mine", '{"at": 1}'), RequestCall("c2", "sell", "{" + "z" * 400)),
    )
    results = (
        RequestMessage(Role.TOOL, '{"ore_id": "o-1"}', call_id="c1"),
        RequestMessage(Role.TOOL, "no market", call_id="c2", is_error=True),
    )
    text = fold_slice(answer, results, 100).split("\n")
    assert text[0] == "said: Mining now."
    assert text[1] == 'mine({"at": 1}) ok: o-1'
    assert text[2].startswith("sell({zzz")
    assert text[2].endswith("…) error")
    assert join_folds(["a", "b"]) == "(earlier in this turn: a\nb)"
