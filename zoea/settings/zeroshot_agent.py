"""Convert an agent of Zeroshot into a template: id, prompt, triggers, hooks and schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from zoea.settings.early_defaults import NAME_PATTERN

_MARKS = ("id", "triggers", "hooks", "jsonSchema", "outputFormat")
"""Keys that only an agent of Zeroshot has."""
NEVER_WOKEN = "it subscribes to nothing, so no message on a topic wakes it; set `subscribes`"
_SAME = ("title", "contextStrategy", "context_strategy", "provider", "output_schema", "outputSchema")
_ROLES = {"planning": "planner", "implementation": "worker", "validation": "validator"}
_PLACEHOLDER = re.compile(r"\{\{[^{}]*\}\}")
_STRATEGY = ("contextStrategy", "context_strategy")
_BUDGETS = ("maxTokens", "max_tokens")


class ConvertedAgent(Struct, frozen=True):
    """A template's tree, its name, and a sentence for each part that it lacks."""

    name: str
    tree: dict[str, Any]
    notes: tuple[str, ...]


def find_agents(tree: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the agents of a file: its list `agents`, or the file itself as one agent."""
    if isinstance(agents := tree.get("agents"), list):
        return [one for one in agents if isinstance(one, Mapping)]
    is_agent = any(key in tree for key in _MARKS) or isinstance(tree.get("prompt"), Mapping)
    return [tree] if is_agent else []


def convert_agent(agent: Mapping[str, Any], fallback: str) -> ConvertedAgent:
    """Return the template of an agent.

    Args:
        fallback: Its name where it has no `id` that may be one.
    """
    notes: list[str] = []
    agent_id = agent.get("id")
    name = agent_id if isinstance(agent_id, str) and re.match(NAME_PATTERN, agent_id) else fallback
    tree: dict[str, Any] = {key: agent[key] for key in _SAME if key in agent}
    _take_prompt(agent.get("prompt"), tree, notes)
    role = agent.get("role")
    if isinstance(role, str) and role:
        tree["role"] = _ROLES.get(role, role)
    _take_strategy(tree, notes)
    if topics := _take_triggers(agent.get("triggers"), notes):
        tree["subscribes"] = topics
    else:
        notes.append(NEVER_WOKEN)
    if "jsonSchema" in agent:
        tree["output_schema"] = agent["jsonSchema"]
    if topic := _find_published(agent.get("hooks")):
        tree["publishes"] = topic
        if "output_schema" not in tree:
            notes.append(f"it publishes on {topic} with its tool for it, because it has no output schema")
    taken = {"id", "prompt", "role", "triggers", "hooks", "jsonSchema", *_SAME}
    if left := sorted(set(agent) - taken):
        notes.append(f"not taken: {', '.join(left)}")
    if _PLACEHOLDER.search(str(tree.get("prompt", ""))):
        notes.append("the prompt holds placeholders such as {{…}}; write what they stand for")
    return ConvertedAgent(name, {"strategy": "topics", **tree}, tuple(notes))


def _take_prompt(prompt: object, tree: dict[str, Any], notes: list[str]) -> None:
    if isinstance(prompt, str):
        tree["prompt"] = prompt
    elif isinstance(prompt, Mapping):
        name = next((key for key in ("system", "initial") if isinstance(prompt.get(key), str)), "")
        tree |= {"prompt": prompt[name]} if name else {}
        if left := sorted(set(prompt) - {name}):
            notes.append(f"of the prompt only {name or 'nothing'} is taken, not {', '.join(left)}")


def _take_strategy(tree: dict[str, Any], notes: list[str]) -> None:
    for key in _STRATEGY:
        if isinstance(strategy := tree.get(key), Mapping):
            kept = {name: value for name, value in strategy.items() if name != "format"}
            for name in _BUDGETS:
                if isinstance(value := kept.get(name), str) and _PLACEHOLDER.search(value):
                    del kept[name]
                    notes.append(f"{name} is a placeholder, so the default holds")
            tree[key] = kept


def _take_triggers(triggers: object, notes: list[str]) -> list[str]:
    topics: list[str] = []
    for one in triggers if isinstance(triggers, list) else []:
        topic = one.get("topic") if isinstance(one, Mapping) else one
        if not isinstance(topic, str) or topic in topics:
            continue
        action = one.get("action", "execute_task") if isinstance(one, Mapping) else "execute_task"
        if action != "execute_task":
            notes.append(f"the trigger {topic} is not taken, because its action is {action}")
            continue
        topics.append(topic)
        if isinstance(one, Mapping) and "logic" in one:
            notes.append(f"the condition of the trigger {topic} is not taken: each message on it opens a turn")
    return topics


def _find_published(hooks: object) -> str:
    node = hooks
    for key in ("onComplete", "config", "topic"):
        node = node.get(key) if isinstance(node, Mapping) else None
    return node if isinstance(node, str) else ""
