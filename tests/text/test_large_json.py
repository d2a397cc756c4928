"""JSON of any size."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.text import document_bounds, large_json
from zoea.text.document_bounds import estimate_memory
from zoea.text.large_json import (
    LARGE_CHARS,
    LARGE_COUNT,
    MAX_VALUES,
    count_values,
    dump_large,
    has_too_many_values,
    indent,
    is_large,
    parse_bounded,
    parse_large,
)


@walk_cases(
    ("value", "expected"),
    [
        ("x" * LARGE_CHARS, False),
        ("x" * (LARGE_CHARS + 1), True),
        ([0] * LARGE_COUNT, False),
        ([0] * (LARGE_COUNT + 1), True),
        ({"content": [{"text": "x" * 200_000}, {"text": "x" * 200_000}]}, True),
        ([[0] * 600, [0] * 600], True),
        (None, False),
    ],
)
def test_large_values_are_recognised(value: Any, expected: bool) -> None:
    assert is_large(value) is expected


def test_a_large_document_is_read_and_written_as_any_other() -> None:
    value = {"a": [{"b": "ü", "c": [1, 2.5, None, True]}] * 50}
    assert parse_large(json.dumps(value)) == value
    assert dump_large(value) == json.dumps(value, ensure_ascii=False)
    with pytest.raises(ValueError, match="Expecting"):
        parse_large(b"{")


def test_other_threads_run_while_a_large_document_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser lets go of the interpreter's lock where it calls Python: after each object."""
    objects = [{"a": number} for number in range(1_000)]
    calls: list[int] = []

    def to_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        calls.append(len(pairs))
        return dict(pairs)

    monkeypatch.setattr(large_json, "_to_dict", to_dict)
    assert parse_large(json.dumps(objects)) == objects
    assert len(calls) == len(objects)


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_values_are_counted_outside_texts_alone(value: Any) -> None:
    data = json.dumps(value).encode()
    texts = json.dumps(_texts(value))
    commas, lists, objects = (data.count(mark.encode()) - texts.count(mark) for mark in (",", "[", "{"))
    most = max(commas, lists + objects)  # each list and each object is a value too
    assert has_too_many_values(data) is False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document_bounds, "STEP", 7)  # texts begin in one slice and end in another
        patch.setattr(large_json, "MAX_VALUES", max(1, most))
        assert has_too_many_values(data) is (most >= 1)
        patch.setattr(large_json, "MAX_VALUES", most + 1)
        assert has_too_many_values(data) is False


def _texts(value: Any) -> str:
    """Every sign of the texts of a value that makes values elsewhere."""
    match value:
        case str():
            return "".join(sign for sign in value if sign in ",[{")
        case list():
            return "".join(map(_texts, value))
        case dict():
            return "".join(_texts(part) for pair in value.items() for part in pair)
    return ""


def test_a_document_of_too_many_values_is_known_without_parsing() -> None:
    assert has_too_many_values(b"[" + b"1," * MAX_VALUES + b"1]")
    assert has_too_many_values(b"[" * MAX_VALUES)
    assert not has_too_many_values(json.dumps('\\\\","[{' * MAX_VALUES).encode())
    assert has_too_many_values(b'["\\\\' + b'",' + b"1," * MAX_VALUES + b"1]")


def test_a_document_is_indented_unless_it_would_become_far_longer() -> None:
    assert indent('{"é": [1, "2"]}') == '{\n  "é": [\n    1,\n    "2"\n  ]\n}'
    deep = f"{'[' * 600}{'1,' * 20_000}1{']' * 600}"
    assert indent(deep) == deep
    assert indent("[" * 100_000) == "[" * 100_000


@pytest.mark.parametrize(
    "value",
    [
        *(
            [],
            {},
            [[]] * 20_000,
            [{}] * 20_000,
            [{"a": 1}] * 20_000,
            ["a"] * 20_000,
            {str(n): n for n in range(20_000)},
        ),
        *([{"role": "user", "content": 'say "hi", [a] {b}'}] * 9_000, ["a, b, c [d] {e}"] * 5_000, 'one "text"'),
    ],
    ids=range(10),
)
def test_the_estimate_counts_every_value_and_no_sign_inside_of_texts(
    value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.dumps(value).encode()
    marks = estimate_memory(data) - 2 * len(data)
    values = count_values(value, 10**9)
    assert values * 128 <= marks + 128
    assert marks <= 2 * 128 * values + 128
    monkeypatch.setattr(document_bounds, "MOST_MEMORY", 2 * len(data))
    assert values < 3 or estimate_memory(data) > document_bounds.MOST_MEMORY


def test_wide_and_escaped_characters_take_more() -> None:
    plain, wide, escaped = (f'["{"a" * 1000}{one}"]'.encode() for one in ("aaaa", "\N{ROCKET}", "\\ud83d\\ude80"))
    assert estimate_memory(wide) == 2 * 4 * len(wide) + 128
    assert estimate_memory(escaped) == 2 * 4 * len(escaped) + 128
    assert estimate_memory(plain) == 2 * len(plain) + 128


def test_a_document_that_takes_too_much_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_bounds, "MOST_MEMORY", 1_000)
    assert parse_bounded(b'{"a": [1, 2]}') == {"a": [1, 2]}
    with pytest.raises(ValueError, match="of memory"):
        parse_bounded(b"[1, 2, 3, 4, 5, 6, 7, 8, 9")
    monkeypatch.setattr(document_bounds, "MOST_MEMORY", 10**9)
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_bounded(b"[" * 100_000)
