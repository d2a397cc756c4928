"""Reported usage and prices: implausible values count as not reported."""

from __future__ import annotations

import math
from typing import Any

from tests.case_tables import walk_cases
from zoea.llm.providers.openai_stream import micros, usage_of, whole_number


@walk_cases("said", [2**63 - 1, 10**23, -1, True, 1.5, "12", None, [], math.inf])
def test_what_no_request_can_have_used_is_not_reported(said: Any) -> None:
    assert whole_number(said) is None
    assert usage_of({"prompt_tokens": 5, "completion_tokens": said}).output_tokens is None


@walk_cases("said", [math.inf, math.nan, -0.5, 1e300, True, "1"])
def test_what_no_request_can_have_cost_is_not_reported(said: Any) -> None:
    assert micros(said) is None


def test_used_tokens_and_paid_money_are_taken() -> None:
    assert (whole_number(128_000), micros(0.25), micros(2)) == (128_000, 250_000, 2_000_000)
