"""Hostile import files: each is refused with its line, or its rows can be read by every reader."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.memory_store import memory_store
from tests.transfer.sample_exports import export_lines, import_into, make_sample_swarm, write_lines
from zoea.model.errors import UsageError, ZoeaError
from zoea.queries.conversation import iterate_turns
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import row_values
from zoea.text.control_characters import reveal
from zoea.transfer.export import markdown_turn
from zoea.transfer.jsonl_export import conversation_lines

Lines = list[dict[str, Any]]
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Lines:
    """The lines of an export of two myses, to be damaged."""
    path = asyncio.run(make_sample_swarm(tmp_path_factory.mktemp("sound")))
    lines = [json.loads(line) for line in export_lines(path, 1, 2).split("\n") if line]
    large = next(line for line in lines if line.get("size", 0) > 1000)
    lines.remove(large)  # every example would write its file
    _first(lines, "end")["lines"] -= 1
    return lines


@pytest.fixture(scope="module")
def conn() -> Iterator[WriterConnection]:
    made = memory_store()
    yield made
    made.close()


def _first(lines: Lines, kind: str) -> dict[str, Any]:
    return next(line for line in lines if line["kind"] == kind)


def _set(**values: Any) -> Change:
    return lambda line: line.update(values)


def _without(name: str) -> Change:
    return lambda line: line.pop(name)


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("mysis", _set(name="-rf"), "cannot be a name"),
        ("mysis", _set(name=7), "name of this mysis is not a text"),
        ("mysis", _set(uid="../../x"), "uid of this mysis is invalid"),
        ("mysis", _set(state="king"), "database refuses this mysis"),
        ("mysis", _set(error="[]"), "error is invalid"),
        ("mysis", _set(wait='{"until": "never"}'), "wait is invalid"),
        ("mysis", _set(overrides="{"), "overrides is invalid"),
        ("mysis", _set(template_hash="00" * 32), "template of this mysis is not in the file"),
        ("mysis", _without("provider"), "has no provider"),
        ("mysis", _set(created_at=-1), "out of range"),
        ("mysis", _set(created_at=1 << 62), "out of range"),
        ("mysis", _set(**{"crown; DROP TABLE mysis": 1}), "a mysis has no 'crown"),
        ("template", _set(hash="xyz"), "not hexadecimal"),
        ("session", _set(template_hash="00" * 32), "template of this session"),
        ("tag", _set(tag="a\x1fb"), "this tag is invalid"),
        ("spend", _set(scope="swarm"), "not a mysis's"),
        ("turn", _set(id=-4), "out of range"),
        ("turn", _set(number="1"), "wrong type"),
        (
            "turn",
            _set(frozen='{"mysis_id":1,"turn_id":1,"turn_number":1,"max_tokens":"all"}'),
            "max_tokens in the frozen",
        ),
        ("turn", _set(frozen='{"wish": 1}'), "frozen settings of the turn cannot be read"),
        ("turn", _set(outcome="won"), "database refuses this turn"),
        ("turn", _set(session_id=999), "does not occur above it"),
        ("message", _set(sender_name="a]\n[message from mysis b"), "sender's name is invalid"),
        ("mysis", _set(wait='{"until": 99999999999999999999}'), "wait is invalid"),
        ("request", _set(input_tokens=1 << 60), "out of range"),
        (
            "turn",
            _set(frozen='{"mysis_id":1,"turn_id":1,"turn_number":1,"calibration":-0.5}'),
            "calibration in the frozen",
        ),
        (
            "turn",
            _set(frozen='{"mysis_id":1,"turn_id":1,"turn_number":1,"calibration":Infinity}'),
            "frozen settings of the turn cannot be read",
        ),
        ("message", _set(content=""), "database refuses this message"),
        ("message", _set(of="shout"), "database refuses this message"),
        ("message", _set(sender_id=55, sender_kind="mysis"), "sender_id of this message is 55"),
        ("memory", _set(role="system"), "database refuses this memory"),
        ("memory", _set(content=None), "content of this memory is empty"),
        ("memory", _set(native='{"provider": 1, "model": "m"}'), "native is invalid"),
        ("memory", _set(turn_id=True), "wrong type"),
        ("memory", _set(id=1 << 70), "out of range"),
        ("tool_call", _set(memory_id=999), "memory_id of this tool_call is 999"),
        ("tool_call", _set(state="maybe"), "database refuses this tool_call"),
        ("request", _set(plan={"v": 1}), "plan is invalid"),
        ("request", _set(plan={"v": 1, "budget": {}, "decisions": [{}], "steps": [], "messages": []}), "the plan"),
        ("request", _set(plan=[1]), "plan is invalid"),
        ("approval", _set(tool_call_id=999), "tool_call_id of this approval"),
        ("blob", _set(data="????"), "bytes of this blob cannot be read"),
        ("blob", _set(data="AAAA"), "do not match its hash"),
        ("blob", _set(data=None, size=-1), "hash or size"),
        ("sender", _set(id="1"), "id of this sender"),
        ("end", _set(lines=3), "lines are missing"),
        ("swarm", _set(myses=3), "truncated"),
        ("swarm", _set(uids=["a b"]), "uids of its myses"),
    ],
)
def test_an_invalid_line_is_reported_with_its_number(
    sound: Lines, conn: WriterConnection, tmp_path: Path, kind: str, change: Change, words: str
) -> None:
    lines = json.loads(json.dumps(sound))
    line = _first(lines, kind)
    change(line)
    number = lines.index(line) + 1
    with pytest.raises(UsageError, match=words) as refused:
        _import_and_read(conn, write_lines(tmp_path, lines))
    if kind not in ("end",):
        assert f"line {number}:" in refused.value.what
    assert "nothing was imported" in refused.value.what
    assert conn.execute("SELECT count(*) FROM mysis").fetchone()[0] == 0


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda lines: lines.pop(5), "lines are missing"),
        (lambda lines: lines.insert(6, dict(lines[6])), "database refuses|two of|lines are missing"),
        (lambda lines: lines.append(dict(lines[3])), "not an export of Zoea|file continues"),
        (lambda lines: lines.pop(), "its end is missing"),
        (lambda lines: lines.insert(4, dict(lines[1])), "is truncated"),
        (lambda lines: lines.insert(-1, _first(lines, "tag")), "stands after the first turn"),
        (lambda lines: lines.remove(_first(lines, "mysis")), "of 0 myses"),
        (lambda lines: lines.append({"kind": "end"}), "not an export of Zoea"),
    ],
)
def test_a_file_with_inconsistent_lines_is_refused(
    sound: Lines, conn: WriterConnection, tmp_path: Path, spoil: Callable[[Lines], object], words: str
) -> None:
    lines = json.loads(json.dumps(sound))
    spoil(lines)
    with pytest.raises(UsageError, match=words):
        _import_and_read(conn, write_lines(tmp_path, lines))


def test_a_repeated_message_must_be_identical(sound: Lines, conn: WriterConnection, tmp_path: Path) -> None:
    lines = json.loads(json.dumps(sound))
    both = [line for line in lines if line["kind"] == "message"]
    both[-1].update({key: value for key, value in both[0].items() if key == "id"})
    for line in lines:
        if line["kind"] in ("delivery", "memory") and line.get("message_id") == both[-1]["id"]:
            line["message_id"] = both[0]["id"]
    both[-1]["id"] = both[0]["id"]
    with pytest.raises(UsageError):
        _import_and_read(conn, write_lines(tmp_path, lines))


_HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([-(1 << 63), 1 << 31, (1 << 63) - 1, 1 << 63, 1 << 200, 0.5]),
    st.sampled_from(["", "\0", "\ud800", "[]", "{}", "null", '{"title": {}}', "00", "a" * 500, "\x1b[31m"]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["v", "m", "t", "zstd"]), st.integers(), max_size=2),
)


@pytest.mark.timeout(900)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_value_is_refused_or_can_be_read_afterwards(
    sound: Lines, conn: WriterConnection, tmp_path: Path, data: st.DataObject
) -> None:
    lines = [dict(line) for line in sound]
    for _ in range(data.draw(st.integers(1, 2))):
        line = data.draw(st.sampled_from(lines))
        line[data.draw(st.sampled_from(sorted(line)))] = data.draw(_HOSTILE)
    try:
        _import_and_read(conn, write_lines(tmp_path, lines))
    except ZoeaError:
        return  # anything else that is raised fails the test


def _import_and_read(conn: WriterConnection, file: Path) -> None:
    """Import the file, read everything, and roll back."""
    conn.execute("BEGIN")
    try:
        import_into(conn, file)
        for row in conn.execute(row_values.MYSIS).fetchall():
            row_values.mysis(row)
            for turn in iterate_turns(conn, row["id"]):
                "".join(markdown_turn(turn, reveal))
            "".join(text for text, _ in conversation_lines(conn, row["id"], None))
        for row in conn.execute(row_values.DELIVERY).fetchall():
            assert row_values.delivery(row).content
    finally:
        conn.events.clear()
        conn.execute("ROLLBACK")
