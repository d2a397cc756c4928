"""The strategy `topics`: messages of the template's topics, then the message that opened the turn.

Order of packs: header, instructions, output schema, a pack for each source, hints for validators, situation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from zoea.context.frozen_turn import FrozenTurn
from zoea.context.inherited_pack import inherited_needs, inherited_pack
from zoea.context.needs import (
    CriteriaHints,
    Need,
    NeedAnswer,
    OutsideNeed,
    SourceMessages,
    StandingOrder,
    StoredAnswer,
    TurnSoFar,
)
from zoea.context.plan_values import Pack, Priority
from zoea.context.strategies import turns
from zoea.context.topics.topic_rules import TopicRules, read_source

VALIDATOR = "validator"
_HINTS = "## Do not validate these again\n\nEarlier attempts could not validate them:\n"


def needs(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> tuple[Need, ...]:
    """Return the reads: turn, messages of sources, hints for a validator, order if nudged."""
    rules = frozen.topics or TopicRules()
    wanted: list[Need] = [TurnSoFar(frozen.turn_id), *inherited_needs(frozen), *_source_needs(rules)]
    if rules.role == VALIDATOR:
        wanted.append(_hints_need(rules))
    if frozen.is_nudged and frozen.before:
        wanted.append(StandingOrder(frozen.before))
    return tuple(dict.fromkeys(wanted))


def packs(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> tuple[Pack, ...]:
    """Return the packs before the turn, in order."""
    rules = frozen.topics or TopicRules()
    made: list[Pack | None] = [
        _system("header", rules.opening),
        _system("system", frozen.system),
        _system("schema", rules.ending),
        inherited_pack(frozen, answers),
        *_source_packs(rules, answers),
        _hints(rules, answers),
        turns.situation_pack(frozen) if frozen.situation else None,
        turns.order_pack(frozen, answers),
    ]
    return tuple(pack for pack in made if pack is not None)


def source_notes(frozen: FrozenTurn, answers: Mapping[Need, NeedAnswer]) -> tuple[str, ...]:
    """Return for each required source without messages why it shows none."""
    notes = []
    for need in _source_needs(frozen.topics) if frozen.topics is not None else ():
        source = read_source(need.source)
        if source.pack_priority != Priority.REQUIRED or need not in answers or need.without:
            continue
        if not _value(answers, need)["full"]:
            bounds = [f"from {source.sender}" if source.sender else "", f"since {source.since}" if source.since else ""]
            which = " ".join(filter(None, ("there is no message", *bounds)))
            notes.append(f"{source.topic} is required and empty: {which} on it that a request may show.")
    return tuple(notes)


def _system(name: str, text: str) -> Pack:
    return Pack(name, "system", Priority.REQUIRED, text, preserve=True)


def _source_needs(rules: TopicRules) -> tuple[SourceMessages, ...]:
    return tuple(
        SourceMessages(
            rules.cluster_id,
            source,
            rules.until,
            rules.last_task_end,
            rules.last_agent_start,
            tuple([number for number, topic in rules.triggers if topic == read_source(source).topic]),
        )
        for source in rules.sources
    )


def _source_packs(rules: TopicRules, answers: Mapping[Need, NeedAnswer]) -> Iterator[Pack]:
    """Yield a pack for each source. A topic that is a source again has its number in the name."""
    seen: dict[str, int] = {}
    for need in _source_needs(rules):
        source, found = read_source(need.source), _value(answers, need)
        count = seen[source.topic] = seen.get(source.topic, 0) + 1
        name = source.topic if count == 1 else f"{source.topic} {count}"
        full, compact = found["full"], found["compact"]
        yield Pack(name, "sources", source.pack_priority, full, compact if compact != full else None)


def _hints_need(rules: TopicRules) -> CriteriaHints:
    return CriteriaHints(rules.cluster_id, rules.until)


def _hints(rules: TopicRules, answers: Mapping[Need, NeedAnswer]) -> Pack | None:
    if rules.role != VALIDATOR:
        return None
    hints = _value(answers, _hints_need(rules))
    text = _HINTS + "\n".join(f"- {hint}" for hint in hints) if hints else ""
    return Pack("skip_hints", "hints", Priority.HIGH, text)


def _value(answers: Mapping[Need, NeedAnswer], need: OutsideNeed) -> Any:
    answer = answers[need]
    assert isinstance(answer, StoredAnswer)
    return answer.value
