"""The text of an error: what happened, and the remedy."""

from __future__ import annotations

from tests.case_tables import walk_cases
from zoea.model.errors import ZoeaError


@walk_cases(
    ("what", "hint", "text"),
    [
        ("the disk is full", "Free some space.", "the disk is full. Free some space."),
        ("The disk is full.", "Free some space.", "The disk is full. Free some space."),
        ("the disk is full", "", "the disk is full"),
        ("The disk is full.", "", "The disk is full."),
    ],
)
def test_a_text_is_what_happened_and_the_remedy(what: str, hint: str, text: str) -> None:
    assert ZoeaError(what, hint=hint).text == text
