"""The order in which tests run: the long ones first, so that short ones fill the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

LONG = ("tests/e2e/", "tests/faults/", "tests/tui/test_snapshots.py")
"""Where tests take seconds, most of them waiting for other processes."""


def put_long_first(tests: Sequence[T], workers: int, is_long: Callable[[T], bool]) -> list[T]:
    """Return the tests in an order in which the share of each worker begins with its part of the long ones.

    pytest-xdist (worksteal) gives each worker an equal run of the list, and idle ones what others have at their end.
    """
    long = [test for test in tests if is_long(test)]
    short = iter([test for test in tests if not is_long(test)])
    ordered: list[T] = []
    for worker in range(workers):
        share = long[worker::workers]
        size = (len(tests) - len(ordered)) // (workers - worker)
        ordered += [*share, *islice(short, max(0, size - len(share)))]
    return [*ordered, *short]
