"""The loop guard: detects that a mysis repeats itself. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct

from zoea.context import Note
from zoea.model.enums import Role
from zoea.model.values import Memory
from zoea.swarm.turn.turn_types import PastCall

if TYPE_CHECKING:
    from zoea.settings.schema import LoopSettings

NOTE_KIND = "loop"
COMPARED_CALLS = 10
"""The last calls or texts, of this turn and the previous one, that are compared."""
SAME_RESULT, SAME_CALL, SAME_TEXT = 3, 5, 3
"""Repetitions that make a loop. A call with changing results may be a poll, so more of them are allowed."""
_MARK = "[note from Zoea]"
_SENTENCES = re.compile(r"(?<=\.)\s+")


class Repetition(Struct, frozen=True):
    """A repetition in words, and the fingerprints of its calls or its text."""

    words: str
    of: frozenset[bytes | str]


def warning_text(repeated: str) -> str:
    """Return the note that the model reads before its turn is ended as a loop."""
    return (
        f"{_MARK} You are repeating yourself: {repeated}. Do something else, or answer without tool calls. "
        "If it happens again this turn ends."
    )


def drop_warning(text: str, notes: Sequence[Note]) -> str:
    """Return an answer without repeated sentences of a warning. Later turns would copy them."""
    kept = text
    for note in notes:
        for sentence in _SENTENCES.split(note.content) if note.kind == NOTE_KIND else ():
            kept = re.sub(re.escape(sentence.removeprefix(_MARK).strip()), "", kept, flags=re.IGNORECASE)
    return text if kept == text else re.sub(re.escape(_MARK), "", kept, flags=re.IGNORECASE).strip()


def is_warned(notes: Sequence[Note], memories: Sequence[Memory]) -> bool:
    """Return whether the next request ends with a warning, the newest entry of the turn."""
    return any(note.kind == NOTE_KIND and note.after_seq >= memories[-1].seq for note in notes)


def calls_of(memories: tuple[Memory, ...]) -> tuple[PastCall, ...]:
    """Return the finished calls of these memories, in call order."""
    return tuple(
        PastCall(call.name, call.fingerprint, call.result_fingerprint)
        for memory in memories
        for call in memory.calls
        if not call.state.is_open
    )


def texts_of(memories: tuple[Memory, ...]) -> tuple[str, ...]:
    """Return the non-empty texts of the answers."""
    return tuple(
        text
        for memory in memories
        if memory.role is Role.ASSISTANT and not memory.partial and (text := memory.content.strip())
    )


def find_repetition(
    memories: tuple[Memory, ...],
    earlier_calls: tuple[PastCall, ...],
    earlier_texts: tuple[str, ...],
    rules: LoopSettings,
) -> Repetition | None:
    """Return a repetition in the last calls or texts, if there is one.

    Args:
        memories: Those of the current turn.
        earlier_calls, earlier_texts: Those of the previous turn, oldest first.
    """
    own = calls_of(memories)
    # A call of this turn must be part of the repetition.
    if own:
        newest = (*earlier_calls, *own)[-COMPARED_CALLS:]
        window = [call for call in newest if not any(fnmatchcase(call.name, pattern) for pattern in rules.exempt)]
        repetition = _calls(window)
        if repetition is not None:
            return repetition
    texts = texts_of(memories)
    if texts:
        counts = Counter((*earlier_texts, *texts)[-COMPARED_CALLS:])
        if counts[texts[-1]] >= SAME_TEXT:
            return Repetition(f"the same text {counts[texts[-1]]} times", frozenset({texts[-1]}))
    return None


def is_warning_of(
    after_seq: int,
    repeated: Repetition,
    memories: tuple[Memory, ...],
    earlier_calls: tuple[PastCall, ...],
    earlier_texts: tuple[str, ...],
    rules: LoopSettings,
) -> bool:
    """True where the note at that place warned of this repetition.

    It did if it named the same calls or text, or if it is among the last calls. The other
    arguments are those of `find_repetition`.
    """
    before = tuple(memory for memory in memories if memory.seq <= after_seq)
    if len(calls_of(memories)) - len(calls_of(before)) < COMPARED_CALLS:
        return True
    named = find_repetition(before, earlier_calls, earlier_texts, rules)
    return named is not None and not named.of.isdisjoint(repeated.of)


def _calls(window: list[PastCall]) -> Repetition | None:
    if not window:
        return None
    last = window[-1]
    same = [call for call in window if call.fingerprint == last.fingerprint]
    if len(same) >= SAME_CALL:
        return Repetition(f"the same call {len(same)} times: {last.name}", frozenset({last.fingerprint}))
    alike = [call for call in same if call.result_fingerprint == last.result_fingerprint]
    if len(alike) >= SAME_RESULT:
        words = f"the same call {len(alike)} times, with the same result: {last.name}"
        return Repetition(words, frozenset({last.fingerprint}))
    tail = [call.fingerprint for call in window[-6:]]
    if len(tail) == 6 and tail[0] != tail[1] and tail == [tail[0], tail[1]] * 3:
        return Repetition(f"{window[-2].name} and {last.name} in turns, three times", frozenset(tail))
    return None
