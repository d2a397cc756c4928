"""Planning takes linear time and does not copy texts."""

from __future__ import annotations

from benchmarks.planning import cpu_us, turn
from zoea.context import TurnRecord, plan_turn


def test_planning_time_is_linear_in_the_turn() -> None:
    short, long = turn(201, 20), turn(801, 20)
    once = cpu_us(lambda: plan_turn(*short), rounds=3, repeats=2)
    assert cpu_us(lambda: plan_turn(*long), rounds=3, repeats=2) < 8 * once


def test_texts_that_fit_are_not_copied() -> None:
    frozen, answers = turn(11, 90_000)
    stored = {
        id(one.content) for record in answers.values() if isinstance(record, TurnRecord) for one in record.memories
    }
    shown = [message for message in plan_turn(frozen, answers).messages if len(message.content) > 1000]
    assert sum(id(message.content) in stored for message in shown) == 5
