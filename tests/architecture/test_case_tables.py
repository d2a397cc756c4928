"""A table that is walked inside one test hides no case that fails."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tests.case_tables import walk_cases


def call(test: Any, *fixtures: object) -> Any:
    """Call a test whose cases a walk gives."""
    return test(*fixtures)


@walk_cases("number", [1, 2, 3, 4])
def fails_for_even_numbers(number: int) -> None:
    assert number % 2, f"{number} is even"


def test_every_case_that_fails_is_named() -> None:
    with pytest.raises(BaseExceptionGroup, match="2 of 4 cases failed") as raised:
        call(fails_for_even_numbers)
    assert [(error.__notes__, "is even" in str(error)) for error in raised.value.exceptions] == [
        (["in the case number=2"], True),
        (["in the case number=4"], True),
    ]


def test_what_ends_a_test_ends_the_walk() -> None:
    seen = []

    @walk_cases("number", range(4))
    def check(number: int) -> None:
        seen.append(number)
        if number == 1:
            raise ValueError
        if number == 2:
            pytest.fail("Timeout")

    with pytest.raises(BaseExceptionGroup, match="2 of 4 cases failed"):
        call(check)
    assert seen == [0, 1, 2]


def test_a_case_that_skips_fails() -> None:
    @walk_cases("reason", ["not here"])
    def check(reason: str) -> None:
        pytest.skip(reason)

    with pytest.raises(AssertionError, match="would hide"):
        call(check)


def test_one_case_alone_fails_with_its_own_error_and_name() -> None:
    @walk_cases(("a", "b"), [pytest.param(1, 1, id="equal"), pytest.param(1, 2, id="other")])
    def compare(a: int, b: int) -> None:
        assert a == b, f"{a} and {b}"

    with pytest.raises(AssertionError, match="1 and 2") as raised:
        call(compare)
    assert raised.value.__notes__ == ["in the case other"]


async def test_each_case_of_each_table_meets_each_of_the_other_and_the_fixtures_stay() -> None:
    seen = []

    @walk_cases("a", "xy")
    @walk_cases("b", [1, 2], ids=["one", "two"])
    async def walk(folder: str, a: str, b: int) -> None:
        seen.append((folder, a, b))

    assert list(inspect.signature(walk).parameters) == ["folder"]
    await call(walk, "here")
    assert seen == [("here", "x", 1), ("here", "x", 2), ("here", "y", 1), ("here", "y", 2)]


def test_a_table_without_a_case_or_with_one_of_another_length_is_refused() -> None:
    with pytest.raises(AssertionError, match="proves nothing"):
        walk_cases("a", [])
    with pytest.raises(ValueError, match="shorter"):
        walk_cases("a, b", [(1,)])
