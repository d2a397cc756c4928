"""Parses style rules once in a process. This is an eighth of the time of opening a cockpit."""

from __future__ import annotations

import weakref
from functools import lru_cache
from typing import Any

from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

_parse_rules = Stylesheet._parse_rules

RuleSet.__hash__ = object.__hash__  # type: ignore[method-assign]  # Textual's own, in Python, is a twentieth of a test


_variables: weakref.WeakKeyDictionary[Stylesheet, tuple[dict[str, str], frozenset[tuple[str, str]]]]
_variables = weakref.WeakKeyDictionary()
_same_variables: dict[frozenset[tuple[str, str]], frozenset[tuple[str, str]]] = {}


def parse_once(stylesheet: Stylesheet, *source: Any, **more: Any) -> list[RuleSet]:
    """Parse rules as Textual does, but only once for the same source and variables."""
    given, variables = _variables.get(stylesheet, ({}, frozenset[tuple[str, str]]()))
    if given is not stylesheet._variables:
        given, variables = stylesheet._variables, frozenset(stylesheet._variables.items())
        variables = _same_variables.setdefault(variables, variables)
        _variables[stylesheet] = given, variables
    return _parse(variables, source, tuple(more.items()))


@lru_cache(maxsize=1024)
def _parse(
    variables: frozenset[tuple[str, str]], source: tuple[Any, ...], more: tuple[tuple[str, Any], ...]
) -> list[RuleSet]:
    return _parse_rules(_make_stylesheet(variables), *source, **dict(more))


@lru_cache(maxsize=16)
def _make_stylesheet(variables: frozenset[tuple[str, str]]) -> Stylesheet:
    """Return a stylesheet that reads these variables once for all sources."""
    return Stylesheet(variables=dict(variables))
