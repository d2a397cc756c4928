"""`fast_replace.replace` equals `dataclasses.replace`."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from zoea.model.fast_replace import replace
from zoea.swarm.rules import TurnRules, WaitRules
from zoea.swarm.turn.turn_types import TurnState


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    left: int
    right: int = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Computed:
    left: int
    right: int

    def __post_init__(self) -> None:
        assert self.left < self.right


@dataclasses.dataclass(frozen=True)
class Loose:
    left: int
    right: int


def test_a_copy_has_the_changes_and_the_original_stays() -> None:
    value = Pair(1)
    assert (replace(value, right=5), replace(value), value) == (Pair(1, 5), Pair(1, 2), Pair(1, 2))


def test_the_result_equals_the_standard_library() -> None:
    turn = TurnState(turn_id=1, rules=TurnRules(), rules_wait=WaitRules())
    changes: dict[str, Any] = {"iteration": 3, "running": frozenset({7}), "stops": True}
    assert replace(turn, **changes) == dataclasses.replace(turn, **changes)


def test_a_class_without_slots_is_copied_too() -> None:
    value = Loose(1, 2)
    assert (replace(value, right=5), replace(value), value) == (Loose(1, 5), Loose(1, 2), Loose(1, 2))


def test_a_class_with_computed_fields_is_refused() -> None:
    with pytest.raises(TypeError, match=r"use dataclasses\.replace"):
        replace(Computed(1, 2), left=0)


@pytest.mark.parametrize("value", [Pair(1), Loose(1, 2)])
def test_an_unknown_field_is_named(value: Any) -> None:
    names: dict[str, Any] = {"middle": 1}
    with pytest.raises(TypeError, match=f"{type(value).__name__} has no field 'middle'"):
        replace(value, **names)
