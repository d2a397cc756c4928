"""A template's `context_strategy`: its sources, the ledger messages that a request shows, and their budget.

Keys may be written in camelCase, so that a strategy written for Zeroshot loads as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasGenerator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)
from pydantic.alias_generators import to_camel

from zoea.model.errors import UsageError
from zoea.model.topics import check_topic
from zoea.settings.fields import MOST_WINDOW, Section, Whole, setting
from zoea.settings.key_paths import KeyPath

Selection = Literal["latest", "oldest", "all"]
DEFAULT_MAX_TOKENS = 100_000
MOST_MESSAGES = 1_000_000
_LAST_MS = 253_402_300_799_000
"""The end of the year 9999, which is the last that a time can have."""
SINCE_NAMES = ("cluster_start", "last_task_end", "last_agent_start")
DEFAULT_PRIORITIES = {
    "STATE_SNAPSHOT": "required",
    "ISSUE_OPENED": "required",
    "PLAN_READY": "required",
    "VALIDATION_RESULT": "high",
    "IMPLEMENTATION_READY": "high",
}


def parse_since(value: Any) -> Any:
    """Check a lower bound: a name, an ISO 8601 time, or Unix milliseconds. Times become microseconds UTC."""
    if value is None or value in SINCE_NAMES:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LAST_MS:
        return value * 1000
    if isinstance(value, str):
        try:
            read = datetime.fromisoformat(value)
            aware = read if read.tzinfo else read.replace(tzinfo=UTC)
            return round(aware.timestamp() * 1_000_000)
        except (ValueError, OverflowError):
            pass
    names = ", ".join(SINCE_NAMES)
    near = get_close_matches(value.lower(), SINCE_NAMES, n=1) if isinstance(value, str) else []
    meant = f"; did you mean {near[0]}?" if near else ""
    raise ValueError(f"use one of {names}, an ISO 8601 time or Unix milliseconds, not {value!r:.60}{meant}")


def write_since(value: int | str | None) -> str | None:
    """Return a lower bound as `parse_since` reads it. A time in µs becomes an ISO 8601 time."""
    if not isinstance(value, int):
        return value
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)).isoformat()


def parse_max_tokens(value: Any) -> Any:
    """Check a budget. Nothing or 0 is the default, and a numeric text is read as a number."""
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,18}\s*", value):
        value = int(value)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_WINDOW):
        return value or DEFAULT_MAX_TOKENS
    most = f" up to {MOST_WINDOW:,}" if isinstance(value, int) and value > MOST_WINDOW else ""
    what = f"expected a number of tokens{most}, not {value!r:.60}"
    raise ValueError(f"{what}; 0 or nothing means {DEFAULT_MAX_TOKENS:,}")


Since = Annotated[
    int | str | None,
    BeforeValidator(parse_since, json_schema_input_type=int | str | None),
    PlainSerializer(write_since, return_type=str | None, when_used="json"),
]
Amount = Annotated[Whole, Field(ge=1, le=MOST_MESSAGES)] | None
MaxTokens = Annotated[int, BeforeValidator(parse_max_tokens, json_schema_input_type=int | str | None)]


def _checked_topic(name: str) -> str:
    try:
        return check_topic(name)
    except UsageError as error:
        raise ValueError(f"{error.what}; {error.hint}") from None


TopicName = Annotated[str, AfterValidator(_checked_topic)]


class CamelSection(Section):
    """A section with keys that may also be written in camelCase."""

    model_config = ConfigDict(
        alias_generator=AliasGenerator(validation_alias=lambda name: AliasChoices(name, to_camel(name))),
        populate_by_name=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _reject_twice(cls, given: Any) -> Any:
        if isinstance(given, dict):
            for name in cls.model_fields:
                if name != to_camel(name) and name in given and to_camel(name) in given:
                    raise ValueError(f"{name} is given twice, also as {to_camel(name)}")
        return given


class TopicSource(CamelSection):
    """Selects messages of one topic; `compact_*` select them where the full form does not fit."""

    topic: TopicName = Field(title="Topic", description="The topic of the messages.")
    sender: str | None = setting(None, "Sender", "Only messages of this sender.")
    since: Since = setting(None, "Since", "The first message that counts: a name, an ISO time or Unix milliseconds.")
    strategy: Selection | None = setting(None, "Selection", "The end of the topic that is taken.")
    amount: Amount = setting(None, "Amount", "The most messages.")
    limit: Amount = setting(None, "Limit", "The deprecated name of amount.")
    priority: Literal["required", "high", "medium", "low"] | None = setting(None, "Priority", "The pack's priority.")
    compact_amount: Annotated[Whole, Field(ge=1, le=MOST_MESSAGES)] = setting(
        1, "Compact amount", "The most messages of the short form."
    )
    compact_strategy: Selection | None = setting(None, "Compact selection", "The selection of the short form.")

    @property
    def most(self) -> int | None:
        """The most messages of the full form; None is no bound."""
        return self.amount if self.amount is not None else self.limit

    @property
    def selection(self) -> Selection:
        return self.strategy or ("latest" if self.most is not None else "all")

    @property
    def compact_selection(self) -> Selection:
        return self.compact_strategy or ("latest" if self.selection == "all" else self.selection)

    @property
    def pack_priority(self) -> str:
        return self.priority or DEFAULT_PRIORITIES.get(self.topic, "medium")


class ContextStrategy(CamelSection):
    """What a request of the strategy `topics` shows of the ledger, and its budget."""

    sources: tuple[TopicSource, ...] = setting(
        (TopicSource(topic="STATE_SNAPSHOT", priority="required", strategy="latest", amount=1),),
        "Sources",
        "Messages of topics that each request shows, in this order.",
        max_length=100,
    )
    max_tokens: MaxTokens = setting(
        DEFAULT_MAX_TOKENS, "Budget", "The most tokens of a request; budget.token_budget_per_agent bounds it if set."
    )


def use_snake_case(tree: Mapping[str, Any], lines: Mapping[KeyPath, int]) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """Return a template's tree and lines with the keys of this module in snake_case.

    A key that is given in both forms stays as it is.
    """

    def named(path: KeyPath) -> str:
        return _SNAKE.get(path[-1], path[-1]) if path[0] in _TABLES else path[-1]

    def renamed(node: Any, above: KeyPath) -> Any:
        if isinstance(node, list):
            return [renamed(item, (*above, str(place))) for place, item in enumerate(node)]
        if not isinstance(node, Mapping) or (above and above[0] not in _STRATEGY):
            return node
        return {
            key if named((*above, key)) in node else named((*above, key)): renamed(value, (*above, key))
            for key, value in node.items()
        }

    places = {tuple(named(path[: end + 1]) for end in range(len(path))): line for path, line in lines.items()}
    return renamed(tree, ()), {**places, **lines}


_STRATEGY = ("context_strategy", to_camel("context_strategy"))
_TABLES = (*_STRATEGY, "output_schema", to_camel("output_schema"))
_SNAKE = {
    to_camel(name): name
    for name in ("context_strategy", "output_schema", *ContextStrategy.model_fields, *TopicSource.model_fields)
    if to_camel(name) != name
}


def source_warnings(source: TopicSource) -> list[str]:
    """Return advice on a valid source: a deprecated key, a missing priority, messages without bound."""
    warnings = []
    if source.limit is not None:
        other = ", which wins over it" if source.amount is not None else ""
        warnings.append(f"{source.topic}: limit is the deprecated name of amount{other}")
    if source.priority is None:
        warnings.append(f"{source.topic}: no priority is set; it is {source.pack_priority}")
    if source.most is None and source.strategy not in (None, "all"):
        warnings.append(f"{source.topic}: the selection {source.strategy} has no amount, so all messages are taken")
    return warnings
