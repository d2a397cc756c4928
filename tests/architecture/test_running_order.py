"""Long tests begin first for any number of workers, and no test is lost."""

from __future__ import annotations

import pytest

from tests.running_order import put_long_first


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("number", [0, 1, 7, 100])
def test_every_test_runs_once(workers: int, number: int) -> None:
    tests = list(range(number))
    assert sorted(put_long_first(tests, workers, lambda test: test % 5 == 0)) == tests


def test_the_share_of_each_worker_begins_with_its_part_of_the_long_tests() -> None:
    ordered = put_long_first(range(90), 3, lambda test: test >= 84)
    shares = [ordered[:30], ordered[30:60], ordered[60:]]
    assert [share[:2] for share in shares] == [[84, 87], [85, 88], [86, 89]]
    assert shares[0][2:] == list(range(28))
