"""Parses style rules, and mixes colours, once in a process: an eighth of the time of opening a cockpit."""

from __future__ import annotations

import weakref
from functools import lru_cache
from typing import Any

from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.css.tokenizer import Token
from textual.design import ColorSystem

_parse_rules = Stylesheet._parse_rules
_generate = ColorSystem.generate
_read_tokens: Any = Stylesheet._variable_tokens

RuleSet.__hash__ = object.__hash__  # type: ignore[method-assign]  # Textual's own, in Python, is a twentieth of a test


_variables: weakref.WeakKeyDictionary[Stylesheet, tuple[dict[str, str], frozenset[tuple[str, str]]]]
_variables = weakref.WeakKeyDictionary()
_same_variables: dict[frozenset[tuple[str, str]], frozenset[tuple[str, str]]] = {}


def parse_once(stylesheet: Stylesheet, *source: Any, **more: Any) -> list[RuleSet]:
    """Parse rules as Textual does, but only once for the same source and variables."""
    return _parse(_find_variables(stylesheet), source, tuple(more.items()))


def tokens_once(stylesheet: Stylesheet) -> dict[str, list[Token]]:
    """Return the tokens of the variables as Textual does, but split them only once."""
    return _split(_find_variables(stylesheet))


def generate_once(colours: ColorSystem) -> dict[str, str]:
    """Return the shades of a theme's colours as Textual does, but mix them only once."""
    kept = tuple([value if name != "variables" else frozenset(value.items()) for name, value in vars(colours).items()])
    if (shades := _shades.get(kept)) is None:
        shades = _shades[kept] = _generate(colours)
    return dict(shades)


_shades: dict[tuple[Any, ...], dict[str, str]] = {}


def _find_variables(stylesheet: Stylesheet) -> frozenset[tuple[str, str]]:
    """Return the variables, as one object for all stylesheets that have the same."""
    given, variables = _variables.get(stylesheet, ({}, frozenset[tuple[str, str]]()))
    if given is not stylesheet._variables:
        given, variables = stylesheet._variables, frozenset(stylesheet._variables.items())
        variables = _same_variables.setdefault(variables, variables)
        _variables[stylesheet] = given, variables
    return variables


@lru_cache(maxsize=1024)
def _parse(
    variables: frozenset[tuple[str, str]], source: tuple[Any, ...], more: tuple[tuple[str, Any], ...]
) -> list[RuleSet]:
    return _parse_rules(_make_stylesheet(variables), *source, **dict(more))


@lru_cache(maxsize=16)
def _split(variables: frozenset[tuple[str, str]]) -> dict[str, list[Token]]:
    tokens: dict[str, list[Token]] = _read_tokens.fget(_make_stylesheet(variables))
    return tokens


@lru_cache(maxsize=16)
def _make_stylesheet(variables: frozenset[tuple[str, str]]) -> Stylesheet:
    """Return a stylesheet that reads these variables once for all sources."""
    return Stylesheet(variables=dict(variables))
