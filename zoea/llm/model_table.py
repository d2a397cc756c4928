"""Windows, output limits and cache minimums of known models that their provider does not report.

As published on `AS_OF`; prices are in `prices.py`. Sources: https://platform.claude.com/docs/en/models,
https://developers.openai.com/api/docs/models, https://ai.google.dev/gemini-api/docs/models,
https://api-docs.deepseek.com/quick_start/pricing, https://platform.kimi.ai/docs/models,
https://docs.z.ai/guides/llm, https://docs.x.ai/developers/models.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from zoea.llm.model_traits import Trait, Traits
from zoea.model.request import ModelInfo

AS_OF = "2026-11"
_NAMES = 256  # of models whose entry is remembered


class KnownModel(Struct, frozen=True):
    """Tokens; None is unknown."""

    context_window: int | None = None
    max_output: int | None = None


# The longest key that begins the model's name (without its vendor's prefix) holds.
_TABLE: dict[str, KnownModel] = {
    "claude-fable-5": KnownModel(1_000_000, 128_000),
    "claude-mythos-5": KnownModel(1_000_000, 128_000),
    "claude-opus-5": KnownModel(1_000_000, 128_000),
    "claude-opus-4-8": KnownModel(1_000_000),
    "claude-opus-4-7": KnownModel(1_000_000),
    "claude-opus-4-6": KnownModel(1_000_000),
    "claude-sonnet-5": KnownModel(1_000_000, 128_000),
    "claude-sonnet-4-6": KnownModel(1_000_000),
    "claude-haiku-5-5": KnownModel(1_000_000, 128_000),
    "claude-haiku-4-5": KnownModel(200_000, 64_000),
    "claude": KnownModel(200_000),
    "gpt-5": KnownModel(400_000, 128_000),
    "gpt-5.5": KnownModel(1_050_000, 128_000),
    "gpt-4.1": KnownModel(1_047_576, 32_768),
    "gpt-4o": KnownModel(128_000, 16_384),
    "gpt-4-turbo": KnownModel(128_000, 4_096),
    "gpt-oss": KnownModel(131_072),
    "o3": KnownModel(200_000, 100_000),
    "o4-mini": KnownModel(200_000, 100_000),
    "gemini-2.5": KnownModel(1_048_576, 65_536),
    "gemini-3": KnownModel(1_048_576, 65_536),
    "deepseek-chat": KnownModel(128_000),
    "deepseek-reasoner": KnownModel(128_000),
    "deepseek-flash": KnownModel(1_000_000, 384_000),
    "deepseek-v4": KnownModel(1_000_000, 384_000),
    "kimi-k2": KnownModel(262_144),
    "kimi-k3": KnownModel(1_048_576),
    "glm-4.5": KnownModel(128_000, 96_000),
    "glm-4.6": KnownModel(200_000),
    "glm-5": KnownModel(200_000),
    "glm-5.2": KnownModel(1_000_000),
    "glm-5.3": KnownModel(1_000_000, 128_000),
    "grok-4": KnownModel(256_000),
    "grok-4.3": KnownModel(1_000_000),
    "grok-4.5": KnownModel(500_000),
    "grok-4.6": KnownModel(500_000),
    "smollm2": KnownModel(8_192),
}


# Tokens from which on the vendor caches the beginning of a prompt, as published on `AS_OF`. Sources:
# https://platform.claude.com/docs/en/build-with-claude/prompt-caching,
# https://platform.openai.com/docs/guides/prompt-caching, https://ai.google.dev/gemini-api/docs/caching.
_CACHE_MINIMUMS: dict[str, int] = {
    "claude-fable-5": 512,
    "claude-mythos-5": 512,
    "claude-opus-5": 512,
    "claude-opus-4": 1_024,
    "claude-opus-4-5": 4_096,
    "claude-opus-4-6": 4_096,
    "claude-opus-4-7": 2_048,
    "claude-sonnet-5": 1_024,
    "claude-sonnet-4": 1_024,
    "claude-sonnet-4-6": 2_048,
    "claude-haiku-4-5": 4_096,
    "claude-3-5-haiku": 2_048,
    "gpt-5": 1_024,
    "gpt-4.1": 1_024,
    "gpt-4o": 1_024,
    "o3": 1_024,
    "o4-mini": 1_024,
    "gemini-2.5": 2_048,
    "gemini-3": 4_096,
}


_SIZE = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)([bm])(?![a-z0-9])")
_UNITS = {"b": 1e9, "m": 1e6}
# Forms that are known before a refusal names them; all whose pattern is in the name hold. Sources:
# https://api-docs.deepseek.com/guides/thinking_mode,
# https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model,
# https://docs.z.ai/guides/capabilities/thinking-mode, https://docs.mistral.ai/capabilities/function_calling,
# https://platform.openai.com/docs/guides/reasoning, https://huggingface.co/google/gemma-2b-it.
_TRAITS: tuple[tuple[re.Pattern[str], frozenset[Trait]], ...] = (
    (re.compile(r"deepseek(?!-r1)|glm-|minimax|mimo|gpt-oss|kimi"), frozenset({Trait.REASONING_BACK})),
    (re.compile(r"kimi"), frozenset({Trait.OWN_CALL_IDS})),
    (
        re.compile(r"\b(?:mistral|mixtral|ministral|magistral|codestral|devstral|pixtral)"),
        frozenset({Trait.SHORT_CALL_IDS}),
    ),
    (re.compile(r"\bgemma-?(?:2|[0-9]b|it)\b"), frozenset({Trait.NO_SYSTEM})),
    (re.compile(r"\bo1-(?:mini|preview)"), frozenset({Trait.NO_SYSTEM})),
    (re.compile(r"\b(?:o[1-9]\b|gpt-5)"), frozenset({Trait.COMPLETION_TOKENS})),
    (re.compile(r"claude"), frozenset({Trait.FOLDED_SCHEMAS})),
)


@lru_cache(_NAMES)
def preset_traits(model: str) -> Traits:
    """Return the traits that are known of a model by its name."""
    name = model.lower()
    return frozenset(trait for pattern, traits in _TRAITS if pattern.search(name) for trait in traits)


@lru_cache(_NAMES)
def cache_minimum(model: str) -> int | None:
    """Return the tokens from which on a prompt's beginning is cached, or None if unknown."""
    key = _longest_prefix(model, _CACHE_MINIMUMS)
    return None if key is None else _CACHE_MINIMUMS[key]


@lru_cache(_NAMES)
def known(model: str) -> KnownModel | None:
    """Return the table's entry for a model (`vendor/name:variant` is read as `name`), or None."""
    key = _longest_prefix(model, _TABLE)
    return None if key is None else _TABLE[key]


def complete_info(model: str, listed: ModelInfo, window: int | None) -> ModelInfo:
    """Return what a server lists of a model, with what only the table knows.

    Args:
        model: Empty for the only one of the server.
        window: As the settings give it, which goes before all.
    """
    name, table = model or listed.name, known(model) or KnownModel()
    return replace(
        listed,
        name=name,
        context_window=window or listed.context_window or table.context_window,
        max_output=listed.max_output or table.max_output,
        cache_minimum=cache_minimum(name),
    )


def parameters_in(model: str) -> float | None:
    """Return how many parameters a model's name tells, as in `qwen2.5-1.5b-instruct`. None where it tells none."""
    sizes = [float(number) * _UNITS[unit] for number, unit in _SIZE.findall(model.lower())]
    return max(sizes, default=None)


def _longest_prefix(model: str, keys: Iterable[str]) -> str | None:
    name = model.lower().rpartition("/")[2]
    return max((key for key in keys if name.startswith(key)), key=len, default=None)
