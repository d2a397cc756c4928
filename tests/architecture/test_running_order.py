"""Files with long tests begin first for any number of workers, each with one worker, and no test is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running_order import SECONDS, put_long_first


def file_of(test: str) -> str:
    return test[0]


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("number", [0, 1, 7, 100])
def test_every_test_runs_once(workers: int, number: int) -> None:
    tests = [f"{'abcde'[place % 5]}{place}" for place in range(number)]
    assert sorted(put_long_first(tests, workers, file_of, {"b": 3, "d": 9})) == sorted(tests)


def test_the_share_of_each_worker_begins_with_its_part_of_the_long_files() -> None:
    short = [f"-{number}" for number in range(80)]
    long = [f"{file}{number}" for file in "abcd" for number in range(5)]
    ordered = put_long_first([*short, *long], 2, file_of, {"a": 4, "b": 5, "c": 9, "d": 7})
    shares = [ordered[:50], ordered[50:]]
    files = [
        ["".join(sorted({test[0] for test in share[place : place + 5]})) for place in (0, 5, 10)] for share in shares
    ]
    assert files == [["c", "a", "-"], ["d", "b", "-"]]


def test_what_a_file_takes_is_told_of_files_that_are_there() -> None:
    tests = Path(__file__).parents[1]
    assert [file for file in SECONDS if not (tests / file).exists()] == []
