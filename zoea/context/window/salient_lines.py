"""Pick the lines of a conversation that a summary must not lose, without a model.

A line is a sentence of a prompt or an answer, or a line of a result. Cues in ten languages mark errors,
decisions and constraints; identifiers are found by their shape. All other lines are ranked by the rarity
of their words in the text at hand, which needs no language.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from enum import StrEnum
from math import log

from msgspec import Struct

from zoea.context.condensed_text import find_identifiers
from zoea.context.window.fact_cues import CONSTRAINTS, DECISIONS, ERRORS
from zoea.model.enums import Role
from zoea.model.values import Memory
from zoea.text.shorten import head

LONGEST_LINE = 320
"""Characters kept of a line."""
LINES_A_RESULT = 12
"""Lines taken of one result; a result is mostly data."""
ALIKE = 6
"""Lines that differ in their numbers and names alone, of which each is kept as a fact."""
RESULT_CHARS = 8_000
"""Characters of a result that are looked at, half from its head and half from its tail."""


class LineKind(StrEnum):
    """What a line holds, the most important first."""

    CONSTRAINT = "constraint"
    DECISION = "decision"
    ERROR = "error"
    IDENTIFIER = "identifier"
    OTHER = "said"


FACTS = (LineKind.CONSTRAINT, LineKind.DECISION, LineKind.ERROR, LineKind.IDENTIFIER)
_WORTH = {
    LineKind.CONSTRAINT: 4.0,
    LineKind.DECISION: 4.0,
    LineKind.ERROR: 3.0,
    LineKind.IDENTIFIER: 2.0,
    LineKind.OTHER: 0.0,
}


class SalientLine(Struct, frozen=True):
    """A line worth keeping: its turn, kind, text and weight among others."""

    turn: int
    kind: LineKind
    text: str
    weight: float = 0.0

    def __str__(self) -> str:
        return f"- turn {self.turn}, {self.kind.value}: {self.text}"


_LINE = re.compile(r"- turn (\d+), (constraint|decision|error|identifier|said): (.+)")


def parse_line(text: str) -> SalientLine | None:
    """Read a line that `str` wrote; None where it is not one."""
    match = _LINE.fullmatch(text)
    if match is None:
        return None
    kind = LineKind(match[2])
    return SalientLine(int(match[1]), kind, match[3], _WORTH[kind] + 0.5)


_NUMBERED = re.compile(r"\S*\d\S*")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+")
_WORD = re.compile(r"[^\W_][\w.'-]*[^\W_]|[\u2e80-\U0003ffff]")
_BY_KIND = ((LineKind.CONSTRAINT, CONSTRAINTS), (LineKind.DECISION, DECISIONS), (LineKind.ERROR, ERRORS))
_MAY_NAME = re.compile(r"[\d/_#\"'.]\S")
_SPECIAL = re.compile(
    r"https?://\S+|(?<![\w.])(?:~|\.{0,2})/[\w.-]+/[\w./-]+|\b[0-9a-f]{7,40}\b(?=\W|$)|"
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,27}\b|\b[\w-]+\.(?:py|rs|go|ts|js|toml|yaml|yml|json|md|sql|c|h|cpp|java|sh)\b|"
    r"\b[A-Z][A-Z0-9]+-\d+\b|#\d+\b|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b"
)


def find_salient_lines(memories: Iterable[Memory]) -> list[SalientLine]:
    """Return the lines of memories with their weights, in conversation order, each text once (the newest).

    Errors, decisions, constraints and identifiers weigh more than anything else. Of lines that differ in their numbers
    and names alone, as those of a log, only the newest `ALIKE` weigh so much.
    """
    found: dict[str, tuple[int, LineKind, str, Role]] = {}
    for memory in memories:
        for kind, text in _lines_of(memory):
            key = " ".join(text.casefold().split())
            found.pop(key, None)
            found[key] = (memory.turn_number, kind, text, memory.role)
    entries = list(found.values())
    words = [frozenset(_WORD.findall(text.casefold())) for _, _, text, _ in entries]
    counts = Tally(word for line in words for word in line)
    most = log(len(entries) + 1) or 1.0
    return [
        SalientLine(
            turn,
            kind,
            text,
            (0.0 if is_worn else _WORTH[kind]) + _rarity(line, counts, len(entries)) / most + 0.2 * (role is Role.USER),
        )
        for (turn, kind, text, role), line, is_worn in zip(entries, words, _find_worn(found), strict=True)
    ]


def _find_worn(texts: Iterable[str]) -> list[bool]:
    """Return for each line whether enough newer ones differ only in numbers and names. Oldest first."""
    counts: Tally[str] = Tally()
    worn = []
    for text in reversed(list(texts)):
        shape = _NUMBERED.sub("#", text)
        counts[shape] += 1
        worn.append(counts[shape] > ALIKE)
    return worn[::-1]


def _rarity(words: frozenset[str], counts: Tally[str], lines: int) -> float:
    """Return how rare the words of a line are: the mean of its four rarest."""
    rare = sorted((log((lines + 1) / counts[word]) for word in words), reverse=True)[:4]
    return sum(rare) / 4


def _lines_of(memory: Memory) -> list[tuple[LineKind, str]]:
    if memory.role is Role.TOOL:
        return _result_lines(memory)
    return _sentences(memory.content)


def _sentences(content: str) -> list[tuple[LineKind, str]]:
    lines = []
    for text in _SENTENCE.split(content):
        text = " ".join(text.split())
        if len(text) > 1:
            lines.append((classify_line(text), head(text, LONGEST_LINE)))
    return lines


def find_prose_lines(prose: str, turn: int) -> list[SalientLine]:
    """Return the sentences of a summary's prose as lines of a turn.

    They weigh as much as lines that were kept before.
    """
    return [SalientLine(turn, kind, text, _WORTH[kind] + 0.5) for kind, text in _sentences(prose)]


def _result_lines(memory: Memory) -> list[tuple[LineKind, str]]:
    """Return the errors of a result, and one line with its identifiers."""
    content = memory.content
    if len(content) > RESULT_CHARS:
        content = content[: RESULT_CHARS // 2] + "\n" + content[-RESULT_CHARS // 2 :]
    name = memory.tool_name or "result"
    lines: list[tuple[LineKind, str]] = []
    for text in content.splitlines():
        text = " ".join(text.split())
        if not text:
            continue
        kind = classify_line(text)
        if (memory.is_error and not lines) or kind is LineKind.ERROR:
            lines.append((LineKind.ERROR, head(f"{name}: {text}", LONGEST_LINE)))
        elif len(text) <= LONGEST_LINE and kind in (LineKind.CONSTRAINT, LineKind.DECISION):
            lines.append((kind, head(f"{name}: {text}", LONGEST_LINE)))
        if len(lines) >= LINES_A_RESULT:
            break
    known = head(", ".join(find_identifiers(content)), LONGEST_LINE - len(name))
    shown = "\n".join(text for _, text in lines)
    if known and not all(one in shown for one in known.split(", ")):
        lines.append((LineKind.IDENTIFIER, f"{name}: {known}"))
    return lines


def classify_line(text: str) -> LineKind:
    """Return the most important kind of a line."""
    folded = text.casefold()
    words = frozenset(_WORD.findall(folded))
    for kind, cues in _BY_KIND:
        if cues.mark(words, folded):
            return kind
    if _MAY_NAME.search(text) and (_SPECIAL.search(text) or find_identifiers(text)):
        return LineKind.IDENTIFIER
    return LineKind.OTHER


def choose_lines(lines: Sequence[SalientLine], max_chars: int) -> tuple[list[SalientLine], int]:
    """Return the weightiest lines that fit, in their order, and how many were left out."""
    ranked = sorted(range(len(lines)), key=lambda place: (-lines[place].weight, -place))
    taken: list[int] = []
    room = max_chars
    for place in ranked:
        cost = len(str(lines[place])) + 1
        if cost <= room:
            taken.append(place)
            room -= cost
    return [lines[place] for place in sorted(taken)], len(lines) - len(taken)
