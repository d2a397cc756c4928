"""Dollars have one form everywhere."""

from __future__ import annotations

from tests.case_tables import walk_cases
from zoea.text.amounts import format_dollars


@walk_cases(
    ("micros", "text"),
    [
        (None, "$?"),
        (0, "$0.00"),
        (1_204_500_000, "$1,204.50"),
        (30_000, "$0.03"),
        (12_345, "$0.0123"),
        (999_999, "$1.00"),
        (44_000, "$0.044"),
        (10_000, "$0.01"),
        (9_999, "$0.01"),
        (400, "$0.0004"),
        (1, "$0.000001"),
    ],
)
def test_an_amount_below_a_cent_is_never_written_as_nothing(micros: int | None, text: str) -> None:
    assert format_dollars(micros) == text
