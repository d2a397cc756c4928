"""One entry of a template's `context_strategy.sources`: the ledger messages that a request shows.

Keys may be written in camelCase, so that a strategy written for Zeroshot loads as it stands.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, AliasGenerator, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from zoea.settings.fields import Section, Whole, setting

Selection = Literal["latest", "oldest", "all"]
SINCE_NAMES = ("cluster_start", "last_task_end", "last_agent_start")
DEFAULT_PRIORITIES = {
    "STATE_SNAPSHOT": "required",
    "ISSUE_OPENED": "required",
    "PLAN_READY": "required",
    "VALIDATION_RESULT": "high",
    "IMPLEMENTATION_READY": "high",
}


def parse_since(value: Any) -> Any:
    """Check a lower bound: a name, an ISO 8601 time, or Unix milliseconds; times become microseconds UTC."""
    if value is None or value in SINCE_NAMES:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value * 1000
    if isinstance(value, str):
        try:
            read = datetime.fromisoformat(value)
        except ValueError:
            pass
        else:
            aware = read if read.tzinfo else read.replace(tzinfo=UTC)
            return round(aware.timestamp() * 1_000_000)
    names = ", ".join(SINCE_NAMES)
    raise ValueError(f"use one of {names}, an ISO 8601 time or Unix milliseconds, not {value!r}")


Since = Annotated[int | str | None, BeforeValidator(parse_since)]
Amount = Annotated[Whole, Field(ge=1)] | None


class TopicSource(Section):
    """Selects messages of one topic; `compact_*` select them where the full form does not fit."""

    model_config = ConfigDict(
        alias_generator=AliasGenerator(validation_alias=lambda name: AliasChoices(name, to_camel(name))),
        populate_by_name=True,
    )

    topic: str = Field(title="Topic", description="The topic of the messages.", min_length=1)
    sender: str | None = setting(None, "Sender", "Only messages of this sender.")
    since: Since = setting(None, "Since", "The first message that counts: a name, an ISO time or Unix milliseconds.")
    strategy: Selection | None = setting(None, "Selection", "The end of the topic that is taken.")
    amount: Amount = setting(None, "Amount", "The most messages.")
    limit: Amount = setting(None, "Limit", "The deprecated name of amount.")
    priority: Literal["required", "high", "medium", "low"] | None = setting(None, "Priority", "The pack's priority.")
    compact_amount: Annotated[Whole, Field(ge=1)] = setting(1, "Compact amount", "The most messages of the short form.")
    compact_strategy: Selection | None = setting(None, "Compact selection", "The selection of the short form.")

    @model_validator(mode="before")
    @classmethod
    def _reject_twice(cls, given: Any) -> Any:
        if isinstance(given, dict):
            for name in cls.model_fields:
                if name != to_camel(name) and name in given and to_camel(name) in given:
                    raise ValueError(f"{name} is given twice, also as {to_camel(name)}")
        return given

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


def source_warnings(source: TopicSource) -> list[str]:
    """Return advice on a valid source: a deprecated key, a missing priority, messages without bound."""
    found = []
    if source.limit is not None:
        other = ", which wins over it" if source.amount is not None else ""
        found.append(f"{source.topic}: limit is the deprecated name of amount{other}")
    if source.priority is None:
        found.append(f"{source.topic}: no priority is set; it is {source.pack_priority}")
    if source.most is None and source.strategy not in (None, "all"):
        found.append(f"{source.topic}: the selection {source.strategy} has no amount, so all messages are taken")
    return found
