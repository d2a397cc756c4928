"""Replace the words that typer and pydantic write in help texts and errors, for people who know neither."""

from __future__ import annotations

import re
from typing import Any

_RANGE = re.compile(r"(-?[\d.]+)<=x<=(-?[\d.]+)")
_LEAST = re.compile(r"x>=(-?[\d.]+)")
_ERRORS = (
    (re.compile(r"Input should be a valid integer\b.*"), "it is not a whole number"),
    (re.compile(r"Input should be a valid number\b.*"), "it is not a number"),
    (re.compile(r"Input should be greater than or equal to (\S+)"), r"it is less than \1"),
    (re.compile(r"Input should be less than or equal to (\S+)"), r"it is more than \1"),
    (re.compile(r"Value error, "), ""),
    (re.compile(r" \(Possible options: (.+)\)"), r"; did you mean \1?"),
    (re.compile(r"Got unexpected extra argument\(s\) \((.+)\)"), r"It takes no further arguments: \1"),
    (re.compile(r" requires an argument\.?$"), " needs a value"),
)
"""Patterns of messages, and what is said instead."""


def describe_error(message: str) -> str:
    """Return the message of a wrong command line in words, without a full stop."""
    for pattern, words in _ERRORS:
        message = pattern.sub(words, message)
    return message.rstrip(".")


def simplify_help(command: Any) -> Any:
    """Leave the types of arguments out of the help of a typer command, and write ranges in words. Return it."""
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: None
        parameter.get_help_record = _with_words(parameter.get_help_record)
    for below in getattr(command, "commands", {}).values():
        simplify_help(below)
    return command


def _with_words(read: Any) -> Any:
    """Wrap the method that returns the names and the help of a parameter."""

    def read_in_words(ctx: Any) -> tuple[str, str] | None:
        row = read(ctx)
        return None if row is None else (row[0], _LEAST.sub(r"at least \1", _RANGE.sub(r"\1 to \2", row[1])))

    return read_in_words
