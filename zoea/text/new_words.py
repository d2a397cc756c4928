"""Counts what a text says that earlier texts did not. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from zoea.text.lazy_pattern import compile_lazily

# In scripts without spaces each character counts as a word.
_WORD = compile_lazily(
    r"[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]|\w+?(?=[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]|\W|$)"
)


def words_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the case-folded words of some texts."""
    return frozenset(word for text in texts for word in _WORD.findall(text.casefold()))


def count_new_words(said: Iterable[str], earlier: Iterable[str]) -> int:
    """Count the words of `said` that `earlier` lacks, each once."""
    return len(words_of(said) - words_of(earlier))
