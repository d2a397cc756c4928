"""Files with long tests begin first, each with one worker. No test is lost, for any number of workers."""

from __future__ import annotations

from pathlib import Path

from tests.case_tables import walk_cases
from tests.running_order import SECONDS, TOGETHER, find_part, put_long_first


def file_of(test: str) -> str:
    return test[0]


@walk_cases("workers", [1, 2, 3, 8])
@walk_cases("number", [0, 1, 7, 100])
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
    named = {*SECONDS, *TOGETHER, *TOGETHER.values()}
    assert [file for file in named if not (tests / file).exists()] == []


def test_a_file_that_shares_its_work_with_another_runs_with_it_and_that_one_is_long() -> None:
    assert find_part("tests/architecture/test_clock.py::test_every_named_place_exists") == "architecture/test_house.py"
    assert find_part("tests/tui/test_log.py::TestLog::test_a[b::c]") == "tui/test_log.py"
    assert {*TOGETHER.values()} <= SECONDS.keys()
    assert TOGETHER.keys().isdisjoint(SECONDS)
