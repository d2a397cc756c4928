"""Planning stays linear in the turn, and carries texts along instead of copying them."""

from __future__ import annotations

from benchmarks.planning import cpu_us, turn
from zoea.context import plan_turn


def test_twice_the_turn_costs_about_twice() -> None:
    short, long = turn(201, 20), turn(801, 20)
    once = cpu_us(lambda: plan_turn(*short), rounds=3, repeats=2)
    assert cpu_us(lambda: plan_turn(*long), rounds=3, repeats=2) < 8 * once


def test_texts_that_fit_are_the_stored_ones_themselves() -> None:
    frozen, answers = turn(11, 90_000)
    stored = {
        id(one.content) for record in answers.values() if not isinstance(record, tuple) for one in record.memories
    }
    shown = [message for message in plan_turn(frozen, answers).messages if len(message.content) > 1000]
    assert sum(id(message.content) in stored for message in shown) == 5
