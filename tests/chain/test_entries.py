"""The native format: canonical bytes, lifted texts, and answers to open calls."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.chain.entries import (
    LIFTED_BYTES,
    NOT_EXECUTED,
    ContextCall,
    ContextEntry,
    ContextMedia,
    answer_open_calls,
    decode_delta,
    encode_delta,
    join_deltas,
    lifted_hashes,
    summarise_entries,
)
from zoea.model.enums import Role
from zoea.model.errors import ContextFormatError, MissingBlob

short_texts = st.text(max_size=40)
long_texts = st.builds(lambda text, size: (text * size)[:size], st.text(min_size=1), st.integers(LIFTED_BYTES, 300))
"""Repeats what was drawn: drawing so many letters took most of the time."""
texts = st.one_of(short_texts, long_texts)
calls = st.builds(ContextCall, st.text(min_size=1, max_size=20), texts)
media = st.builds(
    ContextMedia, st.binary(min_size=32, max_size=32), st.sampled_from(["image/png"]), st.text(max_size=9)
)
entries = st.builds(
    ContextEntry,
    st.sampled_from([Role.USER, Role.ASSISTANT, Role.TOOL]),
    texts,
    st.sampled_from(["", "direct", "llm", "tool"]),
    st.text(max_size=10),
    st.integers(0, 2**60),
    texts,
    st.lists(calls, max_size=3).map(tuple),
    st.one_of(st.none(), st.integers(0, 100)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.lists(media, max_size=2).map(tuple),
)


@given(st.lists(entries, max_size=8))
def test_entries_come_back_and_equal_ones_give_equal_bytes(given_entries: list[ContextEntry]) -> None:
    encoded = encode_delta(given_entries)
    assert decode_delta(encoded.data, encoded.lifted.__getitem__) == tuple(given_entries)
    assert encode_delta(list(given_entries)).data == encoded.data
    pictures = {one.digest for entry in given_entries for one in entry.media}
    assert lifted_hashes(encoded.data) == set(encoded.lifted) | pictures


@given(st.lists(st.lists(entries, max_size=4), max_size=4))
def test_joined_deltas_are_the_bytes_of_all_their_entries(parts: list[list[ContextEntry]]) -> None:
    joined = join_deltas(encode_delta(part).data for part in parts)
    assert joined == encode_delta([entry for part in parts for entry in part]).data


def test_a_long_text_is_stored_once_and_a_short_one_stands_in_the_delta() -> None:
    long, short = "x" * LIFTED_BYTES, "x" * (LIFTED_BYTES - 1)
    encoded = encode_delta(
        [ContextEntry(Role.USER, long), ContextEntry(Role.USER, long), ContextEntry(Role.USER, short)]
    )
    assert list(encoded.lifted.values()) == [long.encode()]
    assert encoded.data.count(short.encode()) == 1


@walk_cases(
    "data",
    [
        b"",
        b"\xff\xff",
        cbor2.dumps([1]),
        cbor2.dumps({"v": 2, "entries": []}),
        cbor2.dumps({"v": 1, "entries": [], "new": 1}),
        cbor2.dumps({"v": 1, "entries": [{"r": "user", "z": 1}]}),
        cbor2.dumps({"v": 1, "entries": [{"c": "no role"}]}),
        cbor2.dumps({"v": 1, "entries": [{"r": "user", "c": 5}]}),
        cbor2.dumps({"v": 1, "entries": [{"r": "assistant", "x": [["only a name"]]}]}),
    ],
)
def test_bytes_that_do_not_parse_whole_are_refused(data: bytes) -> None:
    with pytest.raises(ContextFormatError):
        decode_delta(data, lambda digest: b"")


def test_a_missing_text_is_named() -> None:
    def missing(digest: bytes) -> bytes:
        raise MissingBlob(digest.hex())

    encoded = encode_delta([ContextEntry(Role.USER, "x" * LIFTED_BYTES)])
    with pytest.raises(MissingBlob, match=next(iter(encoded.lifted)).hex()):
        decode_delta(encoded.data, missing)


def test_each_call_gets_one_result() -> None:
    asked = ContextEntry(Role.ASSISTANT, calls=(ContextCall("a"), ContextCall("b"), ContextCall("c")))
    told = ContextEntry(Role.TOOL, "b's", position=1)
    twice = ContextEntry(Role.TOOL, "b's again", position=1)
    after = ContextEntry(Role.USER, "go on")
    repaired, added = answer_open_calls([asked, told, twice, after])
    assert added == 2
    assert [(one.role, one.content, one.position) for one in repaired] == [
        (Role.ASSISTANT, "", None),
        (Role.TOOL, "b's", 1),
        (Role.TOOL, NOT_EXECUTED, 0),
        (Role.TOOL, NOT_EXECUTED, 2),
        (Role.USER, "go on", None),
    ]


def test_a_result_without_its_call_is_left_out() -> None:
    repaired, added = answer_open_calls([ContextEntry(Role.TOOL, "whose?", position=0), ContextEntry(Role.USER, "hi")])
    assert ([one.content for one in repaired], added) == (["hi"], 0)


DONE = ContextCall("zoea_done", '{"summary": "I counted 42 units."}')
RESULT = ContextEntry(Role.TOOL, "You are done.", position=0)


@walk_cases(
    ("entries", "report", "summary"),
    [
        (
            [ContextEntry(Role.USER, "Count."), ContextEntry(Role.ASSISTANT, calls=(DONE,))],
            "",
            "Count. … I counted 42 units.",
        ),
        ([ContextEntry(Role.ASSISTANT, calls=(DONE,)), RESULT], "", "I counted 42 units."),
        ([RESULT], "I counted 42 units.", "I counted 42 units."),
        ([RESULT], "", "You are done."),
        ([ContextEntry(Role.USER, "Again."), ContextEntry(Role.ASSISTANT, "Yes.")], "I counted.", "Again. … Yes."),
    ],
)
def test_a_summary_has_the_report_of_a_task_instead_of_the_result_of_its_call(
    entries: list[ContextEntry], report: str, summary: str
) -> None:
    assert summarise_entries(entries, report) == summary
