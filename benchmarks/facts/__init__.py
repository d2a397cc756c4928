"""Conversations with planted facts: filler messages, and errors, decisions, identifiers and constraints among them.

`known` may be read while the rules are written. `held_out` has other wording and other languages, and only the
benchmark reads it.
"""

from __future__ import annotations

from benchmarks.facts.planted import Fact, Half, converse, held_out, known, recalled

__all__ = ["Fact", "Half", "converse", "held_out", "known", "recalled"]
