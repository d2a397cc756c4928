"""Turns opened under the planning rules 2 are planned as they were."""

from __future__ import annotations

from tests.context.recorded_plans import plan_again, read_record


def test_every_recorded_plan_of_rules_2_is_made_again_byte_for_byte() -> None:
    entries = read_record()

    assert len(entries) > 100
    assert {entry["frozen"]["plan_version"] for entry in entries} == {2}
    assert [plan_again(entry) for entry in entries] == [entry["made"] for entry in entries]
