"""Memories are grouped into units, and invalid ones are named."""

from __future__ import annotations

from msgspec.structs import replace

from tests.context.sample_histories import Asked, Recorder
from zoea.context import StepKind
from zoea.context.units import UnitKind, latest_slice, read_units


def test_results_without_call_and_second_results_are_orphans() -> None:
    recorder = Recorder().open("go")
    result = recorder.slice("mine", "ore")
    again = replace(result, id=50, content="again", seq=8)
    stray = replace(result, id=51, call_id=99, seq=9)
    nameless = replace(result, id=52, call_id=None, seq=10)
    units, left_out = read_units((*recorder.memories, again, stray, nameless))
    assert [unit.kind for unit in units] == [UnitKind.PROMPT, UnitKind.SLICE]
    assert units[1].memories[1].content == "ore"
    assert {(one.memory.id, one.kind) for one in left_out} == {(number, StepKind.ORPHAN) for number in (50, 51, 52)}


def test_a_call_without_result_omits_its_whole_slice() -> None:
    recorder = Recorder().open("go")
    answer = recorder.answer("", Asked("mine"), Asked("sell"))
    recorder.result(answer, 0, "ore")
    units, left_out = read_units(recorder.memories)
    assert [unit.kind for unit in units] == [UnitKind.PROMPT]
    assert [(one.memory.id, one.kind) for one in left_out] == [(2, StepKind.INCOMPLETE), (3, StepKind.INCOMPLETE)]


def test_the_latest_slice_has_its_call_within_the_window() -> None:
    recorder = Recorder().open("go")
    recorder.slice("mine", "ore")
    for number in range(4):
        recorder.steer(f"more {number}")
    found = latest_slice(recorder.memories, 6)
    assert found is not None
    assert found.memories[0].id == 2
    assert latest_slice(recorder.memories, 5) is None
