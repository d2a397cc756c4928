"""Field types of settings, and the notations they accept.

Durations are seconds, or texts like `"30s"` and `"2m"`. A list may be one comma-separated text, as
environment variables give it. `"none"` removes a bound.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model
from pydantic.fields import FieldInfo

from zoea.settings.early_defaults import EARLY, EARLY_TYPES

NOVA, SHANNON = "Zoea Nova", "Shannon"
"""Systems that settings and their defaults come from."""
HOUR_S, DAY_S = 3_600, 86_400
LONGEST_S = 1_000_000_000
"""Thirty years: the longest duration in seconds."""
MOST_WORDS_CHARS = 20_000
"""Characters of a list that is written as one text."""
MOST_WINDOW = 100_000_000
"""The most tokens of a model's window."""
MOST_TOKENS = 200_000
"""The most that `budget.token_budget_per_agent` gives a request."""
Amount = TypeVar("Amount", bound=float)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


class Section(BaseModel):
    """One table of settings: frozen, validated, without unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False, defer_build=True
    )


class Page(StrEnum):
    """The pages on which forms show the settings."""

    MODEL = "model"
    AGENTS = "agents"
    LIMITS = "limits"
    LOOK = "look"
    SYSTEM = "system"


def section(default: Any, title: str, page: Page, description: str | None = None) -> Any:
    """Return a field that holds a section of settings, on one page by default."""
    return Field(default, title=title, description=description, json_schema_extra={"page": page})


def page_of(field: FieldInfo) -> Page | None:
    """Return the page that a section or setting names; None for its section's."""
    extra = field.json_schema_extra
    return Page(str(extra["page"])) if isinstance(extra, dict) and extra.get("page") else None


def setting(
    default: Any,
    title: str,
    description: str,
    *,
    source: str = "Zoea",
    inert: bool = False,
    page: Page | None = None,
    **limits: Any,
) -> Any:
    """Return a field with title, description and source of its default.

    A `page` is named where it is another one than that of the section.

    With `inert` it takes effect from a project's file that is not trusted: it changes looks, or a number that can
    neither spend, open, remove nor weaken anything.
    """
    extra: dict[str, Any] = {"source": source} | ({"inert": True} if inert else {}) | ({"page": page} if page else {})
    return Field(default, title=title, description=description, json_schema_extra=extra, **limits)


def parse_seconds(value: Any) -> Any:
    """Convert `"1m30s"` to 90.0; other values pass to the field's own validation."""
    if isinstance(value, bool):
        raise ValueError("a duration is a number of seconds or a text like '30s' or '2m'")
    if not isinstance(value, str):
        return value
    text = value.strip().lower().replace(" ", "")
    if _DURATION.fullmatch(text):
        return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    try:
        return float(text)
    except ValueError:
        raise ValueError("a duration is a number of seconds or a text like '30s' or '2m'") from None


def reject_bool(value: Any) -> Any:
    """Reject true and false, which Python would accept as 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("expected a number, not true or false")
    return value


def parse_bound(value: Any) -> Any:
    """Convert `"none"` to None: no bound."""
    if isinstance(value, str) and value.strip().lower() == "none":
        return None
    return reject_bool(value)


def parse_words(value: Any) -> Any:
    """Convert `"a, b"` to `("a", "b")`. A text that starts with `[` is parsed as a JSON list."""
    if not isinstance(value, str):
        return value
    if len(value) > MOST_WORDS_CHARS:
        raise ValueError(f"is longer than {MOST_WORDS_CHARS:,} characters")
    if value.lstrip().startswith("["):
        return _json(value, list)
    return tuple(word.strip() for word in value.split(",") if word.strip())


def parse_table(value: Any) -> Any:
    """Parse a text that begins with `{` as a JSON object, for environment variables."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return _json(value, dict)
    return value


def parse_keys(value: Any) -> Any:
    """Flatten nested tables, because TOML reads the dot in an action id as nesting."""
    value = parse_table(value)
    if not isinstance(value, Mapping):
        return value
    flat: dict[str, Any] = {}
    for name, one in value.items():
        if isinstance(one, Mapping):
            flat.update({f"{name}.{inner}": key for inner, key in one.items()})
        else:
            flat[str(name)] = one
    return flat


def _json(text: str, kind: type[list[Any]] | type[dict[str, Any]]) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("looks like JSON, but is not valid JSON") from None
    if not isinstance(value, kind):
        raise ValueError("is JSON of the wrong type")
    return value


def lowest_bound(values: Mapping[str, Amount | None]) -> tuple[str, Amount | None]:
    """Return the lowest bound and its name. None is no bound, the first of equals wins.

    Of a budget the lowest bound of environment, settings, template and request applies. `values`
    must not be empty.
    """
    return min(values.items(), key=lambda pair: float("inf") if pair[1] is None else pair[1])


Whole = Annotated[int, BeforeValidator(reject_bool, json_schema_input_type=int)]
Number = Annotated[float, BeforeValidator(reject_bool, json_schema_input_type=float)]
Seconds = Annotated[
    float, BeforeValidator(parse_seconds, json_schema_input_type=float | str), Field(ge=0, le=LONGEST_S)
]
Bound = Annotated[
    Annotated[int, Field(ge=1, le=10**15)] | None,
    BeforeValidator(parse_bound, json_schema_input_type=Annotated[int, Field(ge=1, le=10**15)] | Literal["none"]),
]
Money = Annotated[
    Annotated[float, Field(ge=0.000001, le=1_000_000)] | None,
    BeforeValidator(parse_bound, json_schema_input_type=Annotated[float, Field(ge=0.000001)] | Literal["none"]),
]
"""Dollars, at least a millionth, the unit that is counted; None is no bound."""
KeptTurns = Annotated[
    Literal["auto"] | Annotated[int, Field(ge=0, le=10)],
    BeforeValidator(reject_bool, json_schema_input_type=Literal["auto"] | int),
]
Words = Annotated[tuple[str, ...], BeforeValidator(parse_words, json_schema_input_type=list[str] | str)]
Keys = Annotated[dict[str, str], BeforeValidator(parse_keys)]
_EARLY_TYPES: Mapping[Any, Any] = {int: Whole, Mapping[str, str]: Keys}


def early_section(name: str, description: str) -> Any:
    """Return the section of the settings of the first paint that `EarlySettings` describes."""
    fields: dict[str, Any] = {
        key: (
            _EARLY_TYPES.get(kind, kind),
            setting(getattr(EARLY, key), early.title, early.description, inert=early.is_inert, **early.limits),
        )
        for key, (kind, early) in EARLY_TYPES.items()
        if early.section == name
    }
    return create_model(f"{name.capitalize()}Settings", __base__=Section, __doc__=description, **fields)
