"""Style rules that are parsed once in a process, because that is an eighth of the time of opening a cockpit."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

_parse_rules = Stylesheet._parse_rules

# Textual's own is the same, in Python: each widget that is styled asks it of every rule, a twentieth of a test's time.
RuleSet.__hash__ = object.__hash__  # type: ignore[method-assign]


def parse_once(stylesheet: Stylesheet, *source: Any, **more: Any) -> list[RuleSet]:
    """Parse rules as Textual does, unless the same source was parsed with the same variables before."""
    return _parse(frozenset(stylesheet._variables.items()), source, tuple(more.items()))


@lru_cache(maxsize=1024)
def _parse(
    variables: frozenset[tuple[str, str]], source: tuple[Any, ...], more: tuple[tuple[str, Any], ...]
) -> list[RuleSet]:
    return _parse_rules(Stylesheet(variables=dict(variables)), *source, **dict(more))
