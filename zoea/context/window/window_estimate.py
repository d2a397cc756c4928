"""Estimate the tokens of conversation messages for the strategy `window`.

A message costs a quarter of its characters, or a third where it is heavy with code, and one token for each
character above U+2E80 (ideographs, kana, hangul, emoji), plus 5 for its frame; the sum gets a margin of 10 %.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from zoea.context.measure import MESSAGE_FRAME
from zoea.model.values import Memory
from zoea.text.estimate import CHARS_PER_TOKEN
from zoea.text.lazy_pattern import compile_lazily

MARGIN = 1.10
CODE_CHARS_PER_TOKEN = 3
CODE_SHARE = 0.05
"""The share of brackets and operators above which a message counts as code."""
_CODE_SIGNS = b"{}()[];=<>"
_FENCE = "```"
MOST_MEASURED = 20_000
"""Texts whose size is remembered."""
_measured: dict[tuple[int, int], float] = {}
_WIDE = compile_lazily("[\u2e80-\U0010ffff]+")


def estimate_text(text: str) -> float:
    """Return the tokens of a text, without frame and margin.

    A text that was measured before is found again by its hash, because a conversation is measured at each turn.
    """
    key = (hash(text), len(text))
    tokens = _measured.get(key)
    if tokens is None:
        if len(_measured) >= MOST_MEASURED:
            _measured.clear()
        wide = 0 if text.isascii() else sum(map(len, _WIDE.findall(text)))
        tokens = _measured[key] = (len(text) - wide) / (
            CODE_CHARS_PER_TOKEN if is_code_heavy(text) else CHARS_PER_TOKEN
        ) + wide
    return tokens


def is_code_heavy(text: str) -> bool:
    """Return whether a text has a fenced block, or over 5 % brackets and operators."""
    raw = text.encode("utf-8", "replace")
    return _FENCE in text or len(raw) - len(raw.translate(None, _CODE_SIGNS)) > CODE_SHARE * len(text)


def estimate_memory(memory: Memory) -> float:
    """Return the tokens of a memory as a message, without margin."""
    tokens = estimate_text(memory.content) + MESSAGE_FRAME
    if not memory.calls:
        return tokens
    for call in memory.calls:
        tokens += estimate_text(call.arguments) + len(call.name) / CHARS_PER_TOKEN
    return tokens


def estimate_messages(memories: Iterable[Memory]) -> int:
    """Return the tokens of several memories, with the margin."""
    return ceil(MARGIN * sum(map(estimate_memory, memories)))
