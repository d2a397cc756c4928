"""Published prices of well-known models.

Prices are dollars per million tokens, for prompts of ordinary length, without discounts for batches. A model whose
price depends on the length of its prompt or on the hour is left out, because an unknown price is shown as such and a
wrong one is not.
"""

from __future__ import annotations

from typing import NamedTuple

ANTHROPIC = "https://platform.claude.com/docs/en/about-claude/pricing"
OPENAI = "https://platform.openai.com/docs/pricing"
MOONSHOT = "https://platform.kimi.ai/docs/pricing/chat"
AS_OF = "2026-11"


class PublishedPrice(NamedTuple):
    """Dollars per million tokens of input, of input that the provider had cached, and of output."""

    input: float
    cached: float
    output: float
    source: str
    as_of: str = AS_OF


def _claude(per_input: float, per_output: float, cached: float | None = None) -> PublishedPrice:
    return PublishedPrice(per_input, per_input / 10 if cached is None else cached, per_output, ANTHROPIC)


def _openai(per_input: float, cached: float, per_output: float) -> PublishedPrice:
    return PublishedPrice(per_input, cached, per_output, OPENAI)


# A name holds for itself and for its dated releases: `gpt-5` for `gpt-5-2025-08-07`, not for `gpt-5-pro`.
PUBLISHED: dict[str, PublishedPrice] = {
    "claude-fable-5": _claude(10, 50),
    "claude-fable-5-1": _claude(10, 50, 0.25),
    "claude-fable-5-2": _claude(8, 40, 0.2),
    "claude-opus-5-5": _claude(4, 20, 0.2),
    "claude-opus-5": _claude(5, 25),
    "claude-opus-4-8": _claude(5, 25),
    "claude-opus-4-7": _claude(5, 25),
    "claude-opus-4-6": _claude(5, 25),
    "claude-opus-4-5": _claude(5, 25),
    "claude-opus-4-1": _claude(15, 75),
    "claude-opus-4": _claude(15, 75),
    "claude-sonnet-5-5": _claude(2, 10, 0.1),
    "claude-sonnet-5": _claude(2, 10),
    "claude-sonnet-4-6": _claude(3, 15),
    "claude-sonnet-4-5": _claude(3, 15),
    "claude-sonnet-4": _claude(3, 15),
    "claude-haiku-4-5": _claude(1, 5),
    "claude-3-5-haiku": _claude(0.8, 4),
    "gpt-5": _openai(1.25, 0.125, 10),
    "gpt-5.1": _openai(1.25, 0.125, 10),
    "gpt-5-mini": _openai(0.25, 0.025, 2),
    "gpt-5-nano": _openai(0.05, 0.005, 0.4),
    "gpt-4.1": _openai(2, 0.5, 8),
    "gpt-4.1-mini": _openai(0.4, 0.1, 1.6),
    "gpt-4.1-nano": _openai(0.1, 0.025, 0.4),
    "gpt-4o": _openai(2.5, 1.25, 10),
    "gpt-4o-mini": _openai(0.15, 0.075, 0.6),
    "o3": _openai(2, 0.5, 8),
    "o4-mini": _openai(1.1, 0.275, 4.4),
    "kimi-k3": PublishedPrice(3, 0.3, 15, MOONSHOT),
}
