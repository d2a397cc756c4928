"""Advice of `zoea config check` on templates of the strategy `topics`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from zoea.model.topics import METRICS_TOPIC, RAW_TOPIC, SNAPSHOT_TOPIC, STATE_TOPICS
from zoea.settings.key_paths import KeyPath, find_nearest, format_key
from zoea.settings.template import Template
from zoea.settings.topic_source import ContextStrategy, source_warnings

SNAPSHOT_ROLES = ("worker", "planner", "validator")
"""Roles that cannot do without the state of the work."""
FROM_PEOPLE = ("ISSUE_OPENED",)
"""Topics that people publish on, by `zoea topic publish`."""
PUBLISH_TOOL = "zoea_publish"
FROM_ZOEA = (SNAPSHOT_TOPIC, METRICS_TOPIC)
_MISTYPED = 0.85
"""Similarity of a mistyped name to the right one; names that share a word, as VALIDATION_FAILED, are less alike."""

Advice = tuple[KeyPath, str]


def advise_template(template: Template, produced: Iterable[str], *, is_default_topics: bool = False) -> list[Advice]:
    """Return what a template of topics may lack, each with its key.

    Args:
        produced: Topics on which the templates publish.
        is_default_topics: Whether templates without a strategy have the strategy `topics`.
    """
    strategy = template.chosen_strategy or ("topics" if is_default_topics else "")
    if strategy != "topics":
        return list(_unused(template))
    topics = {*produced, *FROM_PEOPLE, *FROM_ZOEA, *((template.publishes,) if template.publishes else ())}
    return [*_sources(template, topics), *_anchors(template), *_outputs(template), *_role(template)]


def list_produced(templates: Iterable[Template]) -> set[str]:
    """Return the topics on which templates publish, by outputs or tools in prompts."""
    all_templates = tuple(templates)
    read = {source.topic for one in all_templates for source in (one.context_strategy or ContextStrategy()).sources}
    read |= {topic for one in all_templates for topic in one.subscribes}
    topics = {one.publishes for one in all_templates if one.publishes}
    for one in all_templates:
        if PUBLISH_TOOL in one.prompt and one.send != "none":
            topics |= {topic for topic in read if re.search(rf"\b{re.escape(topic)}\b", one.prompt)}
    return topics


def describe_advice(advice: Advice) -> str:
    """Return advice as `key: text`."""
    path, text = advice
    return f"{format_key(path)}: {text}"


def _unused(template: Template) -> Iterator[Advice]:
    for name in ("context_strategy", "output_schema", "role"):
        if getattr(template, name):
            yield (name,), 'has no effect without strategy = "topics"'


def _sources(template: Template, known: set[str]) -> Iterator[Advice]:
    strategy = template.context_strategy or ContextStrategy()
    for place, source in enumerate(strategy.sources):
        path = ("context_strategy", "sources", str(place))
        for text in source_warnings(source):
            yield path, text
        if source.topic == RAW_TOPIC:
            yield path, f"{RAW_TOPIC} is raw output, which no request shows"
        elif source.topic not in known:
            near = _find_meant(source.topic, known)
            meant = f"; did you mean {near}?" if near else ""
            yield path, f"{source.topic}: no template publishes on it{meant}"
    shown = {source.topic for source in strategy.sources}
    for topic in template.subscribes:
        if topic not in shown:
            yield ("subscribes",), f"{topic} opens turns and is no source, so earlier messages on it are not shown"
        if near := _find_meant(topic, known):
            yield ("subscribes",), f"{topic}: no template publishes on it; did you mean {near}?"


def _find_meant(topic: str, known: set[str]) -> str:
    """Return the topic that a mistyped name means; "" where the name may be right."""
    if topic in known or topic in STATE_TOPICS:
        return ""
    return find_nearest(topic, known, _MISTYPED) or find_nearest(topic.upper(), known, _MISTYPED)


def _anchors(template: Template) -> Iterator[Advice]:
    if template.role not in SNAPSHOT_ROLES:
        return
    path = ("context_strategy", "sources")
    sources = [one for one in (template.context_strategy or ContextStrategy()).sources if one.topic == SNAPSHOT_TOPIC]
    if not sources:
        yield path, f"{SNAPSHOT_TOPIC} is no source; a {template.role} needs it, with priority required"
    elif all(source.pack_priority != "required" for source in sources):
        yield path, f"{SNAPSHOT_TOPIC} is not required; a {template.role} needs it in each request"


def _outputs(template: Template) -> Iterator[Advice]:
    if template.output_schema is None:
        return
    if not template.publishes:
        yield ("output_schema",), "outputs are checked and published nowhere; name a topic in publishes"
    elif template.send != "swarm":
        yield ("send",), f'{template.send} lets it publish nothing, also no output; use "swarm"'


def _role(template: Template) -> Iterator[Advice]:
    role = template.role
    if role not in SNAPSHOT_ROLES and (near := find_nearest(role.lower(), SNAPSHOT_ROLES)):
        yield ("role",), f"{role} is a role of your own; did you mean {near}?"
