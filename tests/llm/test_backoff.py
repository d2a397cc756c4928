"""Waiting doubles up to a ceiling, spread evenly below it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zoea.llm.transport.backoff import backoff


def test_the_ceiling_doubles_from_half_a_second_to_twenty() -> None:
    assert [backoff(attempt, 1.0) for attempt in range(1, 9)] == [0.5, 1, 2, 4, 8, 16, 20, 20]


@given(st.integers(1, 2000), st.floats(0, 1, exclude_max=True))
def test_the_whole_span_is_used(attempt: int, jitter: float) -> None:
    assert 0 <= backoff(attempt, jitter) <= 20
    assert backoff(attempt, 0.0) == 0


@given(st.integers(1, 10), st.floats(0, 1, exclude_max=True), st.floats(0, 600))
def test_nobody_comes_back_before_the_time_that_was_named(attempt: int, jitter: float, named: float) -> None:
    waited = backoff(attempt, jitter, retry_after=named)
    assert named <= waited <= named + 20
