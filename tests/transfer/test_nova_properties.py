"""Properties of the import of Zoea Nova: no text is lost, and exports of it can be imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.memory_store import NOW, memory_store
from tests.fakes.nova import ALPHA, BETA
from tests.transfer.sample_exports import import_into, parse_without_ids, write_lines
from zoea.context.units import UnitKind, read_units
from zoea.settings.schema import Settings
from zoea.settings.template import Template
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import row_values
from zoea.text import clean
from zoea.transfer.jsonl_export import conversation_lines, swarm_line
from zoea.transfer.nova_database import NovaMemory, NovaMysis
from zoea.transfer.nova_import import NovaImport, NovaOptions
from zoea.transfer.nova_turns import UNKNOWN_TOOL, parse_calls, parse_result

_TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
_ODD = st.one_of(_TEXT, st.sampled_from(["a|b:c", '|x:login:{"p":1}', "}:", "鉄|:", '"', "\\", "\0", "[TOOL_CALLS]"]))
_ARGUMENTS = st.dictionaries(_ODD, st.one_of(_ODD, st.integers(), st.none(), st.lists(_ODD, max_size=2)), max_size=3)
_ID = st.from_regex(r"[A-Za-z0-9_.-]{1,12}", fullmatch=True)
_NAME = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)


@pytest.mark.timeout(900)
@given(st.lists(st.tuples(_ID, _NAME, _ARGUMENTS, st.booleans()), min_size=1, max_size=4))
def test_calls_with_any_arguments_are_parsed_unchanged(stored: list[tuple[str, str, dict[str, Any], bool]]) -> None:
    parts = [f"{id_}:{name}:{json.dumps(given_, ensure_ascii=odd)}" for id_, name, given_, odd in stored]
    found = parse_calls("[TOOL_CALLS]" + "|".join(parts))
    assert found is not None
    assert [(one.id, one.name, json.loads(one.arguments)) for one in found] == [one[:3] for one in stored]
    assert not any(one.is_mended or one.is_broken for one in found)


@pytest.mark.timeout(900)
@given(st.text(max_size=60))
def test_no_text_of_a_malformed_message_is_lost(text: str) -> None:
    found = parse_calls(f"[TOOL_CALLS]{text}")
    assert found is not None
    kept = "".join(f"{one.id}{one.name.replace(UNKNOWN_TOOL, '')}{one.arguments}" for one in found)
    assert set("".join(char for char in text if char.isalnum())) <= set(kept) | set(UNKNOWN_TOOL)


@pytest.mark.timeout(900)
@given(_ID, _ODD, st.lists(_ID, max_size=3))
def test_a_result_belongs_to_the_longest_matching_id(call_id: str, content: str, others: list[str]) -> None:
    found, said = parse_result(f"{call_id}:{content}", [*others, call_id])
    assert f"{found}:{said}" == f"{call_id}:{content}"
    assert found == max([one for one in [*others, call_id] if f"{call_id}:{content}".startswith(f"{one}:")], key=len)


class _Story:
    """As a database that was opened, without one."""

    passwords = ()

    def __init__(self, memories: list[NovaMemory]) -> None:
        self._memories = memories

    def count(self, _: NovaMysis) -> int:
        return len(self._memories)

    def memories(self, _: NovaMysis) -> list[NovaMemory]:
        return self._memories

    def system_prompt(self, _: NovaMysis) -> str:
        return next((one.content for one in self._memories if one.role == "system"), "")


@st.composite
def _stories(draw: st.DrawFn) -> list[NovaMemory]:
    found = []
    for number in range(draw(st.integers(1, 14))):
        role = draw(st.sampled_from(["user", "user", "assistant", "assistant", "tool", "tool", "system", "odd"]))
        source, sender, content = "", "", f"w{number}w {draw(_ODD)}"
        match role:
            case "user":
                source = draw(st.sampled_from(["direct", "broadcast", "system", ""]))
                sender = draw(st.sampled_from(["", "", BETA, "stranger"]))
            case "assistant" if draw(st.booleans()):
                made = [f"c{draw(st.integers(1, 3))}:act:{json.dumps({'w': f'w{number}w', 'x': draw(_ODD)})}"]
                content = "[TOOL_CALLS]" + "|".join(made * draw(st.integers(1, 2)))
            case "tool":
                content = f"c{draw(st.integers(1, 4))}:{content}"
        at = NOW - 1000 + number // 2
        found.append(NovaMemory(number + 1, role, source, sender, content, draw(_ODD), at))
    return found


@pytest.mark.timeout(900)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(story=_stories())
def test_every_text_is_imported_paired_and_survives_an_export(story: list[NovaMemory], tmp_path: Path) -> None:
    mysis = NovaMysis(ALPHA, "alpha", created="then", created_at=5)
    wanted = NovaOptions(Settings(), Template(name="default"), "autopilot", "")
    conn = memory_store()
    database: Any = _Story(story)
    arrival = NovaImport(database, mysis, [mysis], wanted, lambda *_: None)(conn)
    assert not isinstance(arrival, str)
    assert NovaImport(database, mysis, [mysis], wanted, lambda *_: None)(conn) == "alpha"

    everything = "\n".join(_texts(conn)) + "\n".join(arrival.notes)
    for memory in story:
        assert f"w{memory.id - 1}w" in everything
        if memory.role == "assistant":
            assert clean(memory.reasoning) in everything
    memories = [
        row_values.memory(row) for row in conn.execute(f"{row_values.MEMORY} ORDER BY t.number, m.seq").fetchall()
    ]
    assert [one.id for one in memories if one.calls or one.role != "tool"] == sorted(
        one.id for one in memories if one.calls or one.role != "tool"
    )
    units, left_out = read_units(memories)
    assert not left_out  # every call has its result, every result its call
    assert len([one for one in units if one.kind is UnitKind.SLICE]) == len([one for one in memories if one.calls])

    mysis_id, uid = conn.execute("SELECT id, uid FROM mysis WHERE name = 'alpha'").fetchone()
    file = swarm_line([uid]) + "".join(text for text, _ in conversation_lines(conn, mysis_id, None))
    other = memory_store()
    import_into(other, write_lines(tmp_path, file))
    again_id = other.execute("SELECT id FROM mysis WHERE name = 'alpha'").fetchone()[0]
    again = swarm_line([uid]) + "".join(text for text, _ in conversation_lines(other, again_id, None))
    assert parse_without_ids(again) == parse_without_ids(file)
    conn.close()
    other.close()


def _texts(conn: WriterConnection) -> list[str]:
    queries = (
        "SELECT content || ' ' || reasoning FROM memory",
        "SELECT arguments FROM tool_call",
        "SELECT content FROM turn_note",
        "SELECT json_extract(frozen, '$.nudge_text') FROM turn",
        "SELECT json_extract(body, '$.prompt') FROM template",
    )
    return [str(row[0]) for query in queries for row in conn.execute(query).fetchall()]
