"""The `context` of a prompt: what it overrides for the turn that it opens.

Values are numbers or numeric texts, as the JSON and the command lines of Shannon write them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from zoea.context.frozen_turn import FrozenTurn
from zoea.context.window.window_rules import DEBUGGING, choose_size, ratio, whole_number
from zoea.model.errors import UsageError
from zoea.text.json_text import parse_object

TRIGGER_BOUNDS = (0.1, 0.95)
TARGET_BOUNDS = (0.1, 0.9)
_RATIOS = {"compression_trigger_ratio": TRIGGER_BOUNDS, "compression_target_ratio": TARGET_BOUNDS}
_BUDGETS = ("token_budget_per_agent", "token_budget_per_task", "token_budget_total")
_PRESET = "use_case_preset"
_MOST_KEPT = 1000
_EXAMPLE = 'For example: {"history_window_size": 100}'
_COMMENT = re.compile(r'(?P<text>"(?:\\.|[^"\\])*")|//[^\n]*')
"""A text, which may hold two slashes, or a comment to the end of its line."""


class PromptContext(Struct, frozen=True):
    """The values that a prompt overrides; None leaves a value as the settings have it.

    `token_budget_total` is what all turns that the message opens may use together; with `own_turn` no other prompt
    opens the turn with it. `ignored` has a sentence for each key that is taken and has no effect, for the sender.
    """

    history_window_size: int | None = None
    use_case_preset: str | None = None
    primers_count: int | None = None
    recents_count: int | None = None
    token_budget_per_agent: int | None = None
    token_budget_per_task: int | None = None
    compression_trigger_ratio: float | None = None
    compression_target_ratio: float | None = None
    token_budget_total: int | None = None
    own_turn: int | None = None
    ignored: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the keys that are set as JSON, "" where there is none."""
        values = {name: value for name in KEYS if (value := getattr(self, name)) is not None}
        return json.dumps(values, sort_keys=True) if values else ""


KEYS = PromptContext.__struct_fields__[:-1]
_WINDOW_KEYS = (
    "history_window_size",
    "use_case_preset",
    "primers_count",
    "recents_count",
    "compression_trigger_ratio",
    "compression_target_ratio",
)
_IGNORED = {"force_p2p": "myses always write to each other directly"}
"""Keys of Shannon that nothing in Zoea needs, and why."""


def parse_prompt_context(values: Mapping[str, Any]) -> PromptContext:
    """Read the overrides of a prompt. A table `context` in them is read as the overrides themselves.

    None overrides nothing. What is no number is refused rather than passed over, as an unusable setting is: the
    sender is there to correct it.

    Raises:
        UsageError: A key is unknown, or a value is no number.
    """
    if set(values) == {"context"} and isinstance(values["context"], Mapping):
        values = values["context"]
    read, ignored = dict[str, Any](), list[str]()
    for key, value in values.items():
        if key in _IGNORED:
            ignored.append(f"{key} is ignored: {_IGNORED[key]}.")
            continue
        if key not in KEYS:
            near = get_close_matches(key, KEYS, n=1)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise UsageError(f"The context has no key {key!r}.", hint=f"{hint}Keys are: {', '.join(KEYS)}.")
        if value is not None:
            read[key] = _read(key, value)
    return PromptContext(**read, ignored=tuple(ignored))


def read_stored(text: str) -> PromptContext:
    """Restore what `to_json` wrote, or read JSON that a person wrote.

    Raises:
        UsageError: It is no JSON object, or holds an unknown key or no number.
    """
    if not text.strip():
        return PromptContext()
    values = parse_object(text)
    if values is None:
        raise UsageError("The context is no JSON object.", hint=_EXAMPLE)
    return parse_prompt_context(values)


def parse_pairs(pairs: Iterable[str]) -> dict[str, Any]:
    """Read `key=value` texts or JSON objects, as command lines give them.

    Objects may have `//` comments.

    Raises:
        UsageError: A text has no `=`, or is no JSON object.
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        if pair.lstrip().startswith("{"):
            values |= _read_object(pair)
            continue
        key, is_given, value = pair.partition("=")
        if not is_given:
            raise UsageError(f"{pair!r} is not key=value.", hint="For example: --context history_window_size=100")
        values[key.strip()] = value.strip()
    return values


def _read_object(text: str) -> dict[str, Any]:
    try:
        values = json.loads(_COMMENT.sub(lambda found: found["text"] or "", text))
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"The context is no JSON object: {problem}.", hint=_EXAMPLE) from None
    inner = values.get("context")
    return inner if set(values) == {"context"} and isinstance(inner, dict) else values


def merge_contexts(contexts: Iterable[PromptContext]) -> PromptContext:
    """Join the overrides of several prompts: the last one's keys win, of each budget the lowest."""
    values: dict[str, Any] = {}
    for context in contexts:
        for key in KEYS:
            value = getattr(context, key)
            if value is None:
                continue
            values[key] = min(value, values.get(key, value)) if key in _BUDGETS else value
    return PromptContext(**values)


def list_unused_limits(context: PromptContext, ref: str, bounds: Mapping[str, int], strategy: str) -> list[str]:
    """Return a sentence for each override that changes nothing for a mysis.

    Args:
        ref: How its commands name the mysis.
        bounds: Its own budgets in tokens, by key; 0 is no limit.
        strategy: Its strategy; those but `window` have no window.
    """
    sentences = []
    for key, bound in bounds.items():
        value = getattr(context, key)
        if value is not None and 0 < bound < value:
            sentences.append(
                f"{key}={value} has no effect, because a message can only lower it, and it is {bound:,}. "
                f"To raise it: zoea configure {ref} --set budget.{key}={value}"
            )
    unused = [key for key in _WINDOW_KEYS if getattr(context, key) is not None] if strategy != "window" else []
    if unused:
        keys, verb = " and ".join(unused), "has" if len(unused) == 1 else "have"
        sentences.append(
            f"{keys} {verb} no effect with the strategy {strategy}. "
            f"To change it: zoea configure {ref} --set context.strategy=window"
        )
    return sentences


def override_turn(frozen: FrozenTurn, context: PromptContext) -> FrozenTurn:
    """Return the turn with what its prompts override; budgets only become lower."""
    if context == PromptContext():
        return frozen
    lowest = min(frozen.max_tokens, context.token_budget_per_agent or frozen.max_tokens)
    task_tokens = min(filter(None, (context.token_budget_per_task, context.token_budget_total)), default=None)
    topics = frozen.topics
    if topics is not None and lowest < frozen.max_tokens:
        topics = replace(topics, is_capped=True)
    frozen = replace(frozen, max_tokens=lowest, task_tokens=task_tokens, topics=topics)
    rules = frozen.window
    if rules is None:
        return frozen
    preset = rules.debugging if context.use_case_preset == DEBUGGING else None
    limits: dict[str, Any] = {
        "size": choose_size((context.history_window_size, preset, rules.size)),
        "primers": context.primers_count,
        "recents": context.recents_count,
        "trigger": context.compression_trigger_ratio,
        "target": context.compression_target_ratio,
    }
    return replace(frozen, window=replace(rules, **{key: value for key, value in limits.items() if value is not None}))


def _read(key: str, value: object) -> int | float | str:
    if key == "own_turn":
        if str(value).lower() in ("true", "1"):
            return 1
        raise UsageError(f"own_turn is {value!r}.", hint="Leave it out, or use true.")
    if key == _PRESET:
        if isinstance(value, str) and value.lower() in (DEBUGGING, "default"):
            return value.lower()
        raise UsageError(f"The context has the preset {value!r}.", hint=f"Use {DEBUGGING} or default.")
    if key in _RATIOS:
        share = ratio(value, *_RATIOS[key])
        if share is None:
            raise UsageError(f"{key} is {value!r}, which is no number.", hint="Give a share of the budget, like 0.75.")
        return share
    number = whole_number(value)
    if number is None:
        raise UsageError(f"{key} is {value!r}, which is no whole number.", hint=f"For example: {key}=50")
    if key in _BUDGETS and not number:
        raise UsageError(f"{key} is 0, which no request can keep.", hint=f"For example: {key}=30000")
    return number if key in _BUDGETS else min(number, _MOST_KEPT)
