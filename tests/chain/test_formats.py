"""Contexts of other programs: read, written, joined and translated."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.memory_store import memory_store
from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import Checkpoint, CommitNote, CommitType, ContextCommit, Provenance
from zoea.chain.entries import ContextCall, ContextEntry, encode_delta
from zoea.chain.formats import known_formats
from zoea.chain.imports import prepare_import, store_import
from zoea.chain.materialize import Tier, materialize, write_as
from zoea.model.enums import Role
from zoea.model.errors import ContextFormatError

CLAUDE, OPENAI = known_formats()["claude-code-v1"], known_formats()["openai-chat-v1"]

TALK = (
    ContextEntry(Role.USER, "Where is the bug?", "direct", at=1_763_800_000_000_000),
    ContextEntry(
        Role.ASSISTANT,
        "I look.",
        "llm",
        at=1_763_800_001_000_000,
        calls=(ContextCall("read", '{"path": "a.py"}'), ContextCall("read", '{"path": "b.py"}')),
    ),
    ContextEntry(Role.TOOL, "def a(): ...", "tool", at=1_763_800_002_000_000, position=0),
    ContextEntry(Role.TOOL, "no such file", "tool", at=1_763_800_002_000_000, position=1, is_error=True),
    ContextEntry(Role.ASSISTANT, "In a.py.", "llm", at=1_763_800_003_000_000),
)


def no_blob(digest: bytes) -> bytes:
    raise AssertionError("a foreign format has no lifted texts")


def commit(number: int, format_name: str, kind: CommitType = CommitType.DELTA) -> ContextCommit:
    about = Provenance("test")
    note = CommitNote("what it knew")
    return ContextCommit(
        number, bytes(32), None, kind, bytes([number]) * 32, format_name, Checkpoint.EXPLICIT, about, 1, 1, 1, note
    )


def transcript(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def test_a_transcript_comes_back_as_it_was_written() -> None:
    assert CLAUDE.read(CLAUDE.write(TALK), no_blob) == TALK
    assert CLAUDE.write(TALK) == CLAUDE.write(TALK), "all ids follow from the entries"


def test_messages_come_back_as_they_were_written() -> None:
    back = OPENAI.read(OPENAI.write(TALK), no_blob)
    assert [(one.role, one.content, one.calls, one.position) for one in back] == [
        (one.role, one.content, one.calls, one.position) for one in TALK
    ]


def test_an_answer_in_several_lines_is_one_entry() -> None:
    def block(content: dict[str, Any]) -> dict[str, Any]:
        return {"type": "assistant", "message": {"id": "m1", "role": "assistant", "content": [content]}}

    data = transcript(
        {"type": "summary", "summary": "no message"},
        {"type": "user", "message": {"role": "user", "content": "go"}, "timestamp": "2026-11-22T10:00:00.000Z"},
        block({"type": "thinking", "thinking": "hm", "signature": "x"}),
        block({"type": "text", "text": "I look."}),
        block({"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}}),
        block({"type": "tool_use", "id": "t2", "name": "read", "input": {"path": "b"}}),
        {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t2", "content": "B"}]}},
        {
            "type": "user",
            "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"text": "A"}]}]},
        },
        {"type": "user", "isSidechain": True, "message": {"content": "of a helper"}},
        {"type": "user", "isMeta": True, "message": {"content": "a note"}},
    )
    prompt, answer, second, first, note = CLAUDE.read(data, no_blob)
    assert (prompt.content, prompt.at) == ("go", 1_795_341_600_000_000)
    assert (answer.content, answer.reasoning, [one.name for one in answer.calls]) == ("I look.", "hm", ["read"] * 2)
    assert [(second.content, second.position), (first.content, first.position)] == [("B", 1), ("A", 0)]
    assert (note.content, note.is_synthetic) == ("a note", True)


@walk_cases(
    "data",
    [
        b"{",
        b'"text"',
        b'{"messages": 3}',
        b'[{"role": "boss", "content": "x"}]',
        b'[{"role": "tool", "tool_call_id": "c", "content": "x"}]',
        b'[{"role": "user", "content": 5}]',
        b'[{"role": "assistant", "tool_calls": [{"id": "c"}]}]',
        b'[{"role": "assistant", "tool_calls": true}]',
        b"[" * 100_000,
    ],
)
def test_messages_that_do_not_parse_whole_are_refused(data: bytes) -> None:
    with pytest.raises(ContextFormatError):
        OPENAI.read(data, no_blob)


@walk_cases(
    ("bad", "why"),
    [
        ({"role": "wizard", "content": "x"}, "message 2 has the role 'wizard'"),
        ({"content": "x"}, "message 2 has the role None"),
        (7, "message 2 is no object"),
        ({"role": "user", "content": 5}, "the content of message 2 is neither a text nor a list of parts"),
        ({"role": "assistant", "tool_calls": [{"id": "c"}]}, "message 2 has a tool call without a function's name"),
        (
            {"role": "tool", "tool_call_id": "c", "content": "x"},
            "message 2 is the result of call 'c', which the answer",
        ),
    ],
)
def test_one_bad_message_is_left_out_of_a_list_by_name(bad: object, why: str) -> None:
    messages = [{"role": "user", "content": "One"}, bad, {"role": "assistant", "content": "Two"}]
    imported = prepare_import(json.dumps(messages).encode(), "talk")
    assert [note.startswith(why) and note.endswith("; it was left out") for note in imported.notes] == [True]
    conn = memory_store()
    conn.execute("BEGIN")
    found = ChainReader(conn).materialize(store_import(conn, imported))
    conn.execute("ROLLBACK")
    conn.close()
    assert [one.content for one in found.entries] == ["One", "Two"]


def test_a_message_without_a_time_has_that_of_its_commit() -> None:
    conn = memory_store()
    conn.execute("BEGIN")
    stored = store_import(conn, prepare_import(b'[{"role": "user", "content": "One"}]', "talk"))
    found = ChainReader(conn).materialize(stored)
    conn.execute("ROLLBACK")
    conn.close()
    assert found.entries[0].at == stored.created_at > 0
    assert b"1970-" not in write_as(found, "claude-code-v1")


def test_many_bad_messages_are_counted() -> None:
    messages = [{"role": "user", "content": "One"}, *[{"role": "wizard"}] * 12]
    notes = prepare_import(json.dumps(messages).encode(), "talk").notes
    assert (len(notes), notes[-1]) == (11, "2 more messages could not be read and were left out")


@walk_cases("data", [b"{\n", b"[1]\n", b'{"type": "user"}\n', b'{"type": "user", "message": {"content": 5}}\n'])
def test_a_transcript_that_does_not_parse_whole_is_refused(data: bytes) -> None:
    with pytest.raises(ContextFormatError, match="line 1"):
        CLAUDE.read(data, no_blob)


@walk_cases("content", [7, True, {}])
def test_a_result_without_readable_content_is_refused(content: object) -> None:
    block = {"type": "tool_result", "tool_use_id": "t", "content": content}
    call = {"type": "tool_use", "id": "t", "name": "read", "input": {}}
    data = transcript(
        {"type": "assistant", "message": {"content": [call]}}, {"type": "user", "message": {"content": [block]}}
    )
    with pytest.raises(ContextFormatError, match="line 2"):
        CLAUDE.read(data, no_blob)


_ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    1.5,
    10**30,
    "",
    "\ud800",
    "a\0b",
    [],
    {},
    [[]],
    [{}],
    [1],
    {"text": 7},
    "x" * 300,
)
_EVERY = 1 if os.environ.get("ZOEA_SOAK") else 3
"""In the quick run each place takes every third value, beginning at another one, so that each is in many places."""
_TIMES = ("9999-12-31T23:59:59.999999-23:59", "0001-01-01T00:00:00+23:59", "1969-12-31T00:00:00Z", "99999", "x")


@pytest.mark.parametrize("name", ["claude-code-v1", "openai-chat-v1"])
def test_any_value_in_any_place_is_refused_or_can_be_stored_and_written(name: str) -> None:
    chosen = known_formats()[name]
    sound = chosen.write(TALK)
    tree = json.loads(sound) if name.startswith("openai") else [json.loads(line) for line in sound.splitlines()]
    conn, read, written = memory_store(), 0, set[str]()
    for number, path in enumerate(_paths(tree)):
        for odd in (*_ODD, *_TIMES)[number % _EVERY :: _EVERY]:
            changed = _with_value(tree, path, odd)
            lines = changed if isinstance(changed, list) else [changed]
            data = json.dumps(changed).encode() if name.startswith("openai") else transcript(*lines)
            try:
                imported = prepare_import(data, "talk", name)
            except ContextFormatError:
                continue
            read += 1
            conn.execute("BEGIN")
            found = ChainReader(conn).materialize(store_import(conn, imported))
            conn.execute("ROLLBACK")
            if (entries := repr(found.entries)) in written:  # all that a format writes
                continue
            for other in known_formats():
                assert write_as(found, other), (path, odd)
            written.add(entries)
    conn.close()
    assert read > 300 / _EVERY


def _paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield above
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield from _paths(one, (*above, key))


def _with_value(tree: Any, path: tuple[Any, ...], odd: object) -> Any:
    if not path:
        return odd
    changed = copy.copy(tree)
    changed[path[0]] = _with_value(tree[path[0]], path[1:], odd)
    return changed


def test_arguments_that_are_nested_deeply_are_written_as_the_text_they_are() -> None:
    deep = "[" * 5_000 + "]" * 5_000
    entries = (
        ContextEntry(Role.USER, "go"),
        ContextEntry(Role.ASSISTANT, "", calls=(ContextCall("read", deep),)),
        ContextEntry(Role.ASSISTANT, "", calls=(ContextCall("read", deep[4_500:5_500]),)),
    )
    for form in (CLAUDE, OPENAI):
        assert deep in form.write(entries).decode()


def test_a_file_in_no_known_format_says_why_for_each() -> None:
    with pytest.raises(ContextFormatError) as caught:
        prepare_import(b"hello", "x")
    assert "claude-code-v1" in caught.value.hint
    assert "openai-chat-v1" in caught.value.hint


def test_the_worst_tier_of_a_chain_is_told() -> None:
    parts = {
        1: ("zoea-v1", encode_delta(TALK).data),
        2: ("openai-chat-v1", OPENAI.write(TALK)),
        3: ("other-v9", b"they spoke of ships"),
        4: ("other-v9", b"\xff\x00\xfe"),
    }
    for number, tier in ((1, Tier.NATIVE), (2, Tier.MAPPED), (3, Tier.NARRATIVE), (4, Tier.RAW)):
        chain = [commit(one, parts[one][0]) for one in range(1, number + 1)]
        found = materialize(chain, lambda one: parts[one.seq][1], no_blob)
        assert found.tier is tier
        for name in known_formats():
            assert write_as(found, name), name
    assert "they spoke of ships" in found.entries[-2].content
    assert all("what it knew" in one.content for one in found.entries[-2:])


def test_a_damaged_commit_of_a_known_format_is_told_as_a_narrative() -> None:
    found = materialize([commit(1, "openai-chat-v1")], lambda one: b"not json at all", no_blob)
    assert (found.tier, found.entries[0].content.endswith("not json at all")) == (Tier.NARRATIVE, True)


def test_a_stored_request_is_read_as_its_messages(tmp_path: Path) -> None:
    data = json.dumps(
        {"model": "m", "messages": [{"role": "system", "content": "be"}, {"role": "user", "content": "hi"}]}
    )
    assert [one.content for one in OPENAI.read(data.encode(), no_blob)] == ["be", "hi"]
