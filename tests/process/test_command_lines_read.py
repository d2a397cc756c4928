"""Command lines of described parameters: the values that are read, and the errors."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.case_tables import walk_cases
from zoea.model.errors import UsageError
from zoea.process.command_line import (
    REQUIRED,
    CommandLine,
    argument,
    arguments,
    flag,
    number,
    option,
    options,
    read_parameters,
    whole_number,
)


def sample(
    where: None,
    name: str = argument("NAME", "A name."),
    words: tuple[str, ...] = arguments("TEXT", "Words.", ()),
    count: int = option("-n, --count N", "How many.", 1, whole_number(1, 50)),
    share: float | None = option("--share N", "A share.", None, number(0)),
    text: str = option("-m, --message TEXT", "A text."),
    tags: tuple[str, ...] = options("--tag TAG", "A tag."),
    verbose: bool = flag("-v, --verbose", "More."),
    yes: bool = flag("-y, --yes", "Do not ask."),
    turbo: bool = flag("--turbo", "Fast.", off="--slow"),
) -> None:
    """Show a sample."""


LINE = CommandLine("zoea sample", read_parameters(sample), sample.__doc__ or "")
DEFAULTS: dict[str, Any] = {
    "words": (), "count": 1, "share": None, "text": "", "tags": (), "verbose": False, "yes": False, "turbo": False,
}  # fmt: skip


@walk_cases(
    ("typed", "values"),
    [
        ("alpha", {}),
        ("alpha sell -v the ore", {"words": ("sell", "the", "ore"), "verbose": True}),
        ("--count=3 alpha", {"count": 3}),
        ("-n3 alpha -yv", {"count": 3, "yes": True, "verbose": True}),
        ("alpha -n 2 -n 4", {"count": 4}),
        ("alpha -m -5 --tag a --tag b", {"text": "-5", "tags": ("a", "b")}),
        ("alpha -- -5 degrees", {"words": ("-5", "degrees")}),
        ("alpha -", {"words": ("-",)}),
        ("alpha --turbo --share 0.5", {"turbo": True, "share": 0.5}),
        ("alpha --turbo --slow", {"turbo": False}),
    ],
)
def test_a_line_is_read_as_values(typed: str, values: dict[str, Any]) -> None:
    assert LINE.parse(typed.split()) == DEFAULTS | {"name": "alpha"} | values


@walk_cases(
    ("typed", "error"),
    [
        ("", "NAME is missing"),
        ("alpha -n 0", "--count 0 is out of range"),
        ("alpha --share -1", "--share -1 is out of range"),
        ("alpha --share nan", "--share nan is out of range"),
        ("alpha -n many", "--count 'many' is not a whole number"),
        ("alpha -m", "-m needs a value: -m TEXT"),
        ("alpha --verbose=yes", "--verbose takes no value"),
        ("alpha --messag x", "there is no option --messag; did you mean --message?"),
        ("alpha -5", "there is no option -5"),
    ],
)
def test_a_wrong_line_is_refused_with_the_value_and_what_to_do(typed: str, error: str) -> None:
    with pytest.raises(UsageError, match=re.escape(error)) as refused:
        LINE.parse(typed.split())
    assert refused.value.hint


def test_help_is_asked_for_wherever_it_stands() -> None:
    assert LINE.parse(["alpha", "--help", "--unknown"]) is None


def test_the_help_shows_words_options_defaults_and_limits() -> None:
    text = LINE.help_text(80)
    assert text.startswith("Usage: zoea sample [OPTIONS] NAME [TEXT]...\n\n  Show a sample.\n")
    assert "  NAME  A name.  [required]" in text
    assert "  -n, --count N       How many.  [default: 1; 1 to 50]" in text
    assert "  --share N           A share.  [at least 0]" in text
    assert "  --turbo / --slow    Fast." in text


def test_an_option_may_be_required() -> None:
    def ask(at: str = option("--at TIME", "When.", REQUIRED)) -> None:
        """Ask."""

    with pytest.raises(UsageError, match="--at is missing"):
        CommandLine("zoea ask", read_parameters(ask), "Ask.").parse([])
