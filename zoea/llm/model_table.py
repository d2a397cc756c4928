"""Windows, output limits and prices of well-known models, used when the provider does not report them.

Prices are in micros (millionths of a US dollar) per million tokens, as published on `AS_OF`; None is unknown, which
is not zero. Sources: https://platform.claude.com/docs/en/about-claude/models/overview,
https://platform.openai.com/docs/models, https://ai.google.dev/gemini-api/docs/models.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

AS_OF = "2026-11"


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Tokens, and micros per million tokens."""

    context_window: int | None = None
    max_output: int | None = None
    input_micros: int | None = None
    cached_micros: int | None = None
    output_micros: int | None = None


def _dollars(amount: float) -> int:
    return round(amount * 1_000_000)


def _claude(window: int, output: int, per_input: float, per_output: float) -> KnownModel:
    return KnownModel(window, output, _dollars(per_input), _dollars(per_input / 10), _dollars(per_output))


# The longest key that begins the model's name (without its vendor's prefix) holds.
_TABLE: dict[str, KnownModel] = {
    "claude-fable-5": _claude(1_000_000, 128_000, 10, 50),
    "claude-opus-5-5": _claude(1_000_000, 128_000, 4, 20),
    "claude-opus-5": _claude(1_000_000, 128_000, 5, 25),
    "claude-sonnet-5": _claude(1_000_000, 128_000, 2, 10),
    "claude-haiku-5-5": KnownModel(1_000_000, 128_000),
    "claude-haiku-4-5": _claude(200_000, 64_000, 1, 5),
    "claude": KnownModel(200_000),
    "gpt-5": KnownModel(400_000, 128_000),
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
    "kimi-k2": KnownModel(256_000),
    "glm-4.6": KnownModel(200_000),
    "smollm2": KnownModel(8_192),
}


# Tokens from which on the vendor caches the beginning of a prompt, as published on `AS_OF`. Sources:
# https://platform.claude.com/docs/en/build-with-claude/prompt-caching,
# https://platform.openai.com/docs/guides/prompt-caching, https://ai.google.dev/gemini-api/docs/caching.
_CACHE_MINIMUMS: dict[str, int] = {
    "claude-opus-4": 1_024,
    "claude-opus-4-5": 4_096,
    "claude-opus-4-6": 4_096,
    "claude-sonnet-4": 1_024,
    "claude-sonnet-4-6": 2_048,
    "claude-haiku-4-5": 4_096,
    "claude-3-5-haiku": 2_048,
    "gpt-5": 1_024,
    "gpt-4.1": 1_024,
    "gpt-4o": 1_024,
    "o3": 1_024,
    "o4-mini": 1_024,
    "gemini-2.5-flash": 1_024,
    "gemini-2.5-pro": 4_096,
    "gemini-3-flash": 1_024,
    "gemini-3-pro": 4_096,
}


def cache_minimum(model: str) -> int | None:
    """Return the tokens from which on a prompt's beginning is cached, or None if unknown."""
    key = _longest_prefix(model, _CACHE_MINIMUMS)
    return None if key is None else _CACHE_MINIMUMS[key]


def known(model: str) -> KnownModel | None:
    """Return the table's entry for a model (`vendor/name:variant` is read as `name`), or None."""
    key = _longest_prefix(model, _TABLE)
    return None if key is None else _TABLE[key]


def _longest_prefix(model: str, keys: Iterable[str]) -> str | None:
    name = model.lower().rpartition("/")[2]
    return max((key for key in keys if name.startswith(key)), key=len, default=None)


def cost_micros(model: str, input_tokens: int, cached_tokens: int, output_tokens: int) -> int | None:
    """Return the price of a call in micros, or None if unknown. `input_tokens` includes cached ones."""
    entry = known(model)
    if entry is None or entry.input_micros is None or entry.output_micros is None:
        return None
    cached_price = entry.input_micros if entry.cached_micros is None else entry.cached_micros
    fresh = max(input_tokens - cached_tokens, 0)
    total = fresh * entry.input_micros + cached_tokens * cached_price + output_tokens * entry.output_micros
    return round(total / 1_000_000)
