"""Ranks the sentences of a conversation by their weight for a summary.

A line is a sentence, of a result as of any other message. No single sign decides: what is said once and in rare words,
in a short message, by a person, with names, numbers or paths, or with a word that marks an error, a decision or a
constraint weighs more for each token that it takes; what is said over and over in alike words wears off. All is
measured over the lines of the messages together, and those before them. Rarity counts words, and pairs of characters
where a script has no spaces; it is compared with the other lines of such scripts, or of those with spaces.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain, pairwise
from math import log

from msgspec import Struct

from zoea.context.condensed_text import find_identifiers
from zoea.context.window.fact_cues import CONSTRAINTS, DECISIONS, ERRORS
from zoea.context.window.window_estimate import estimate_text
from zoea.model.enums import Role
from zoea.model.values import Memory
from zoea.text.lazy_pattern import compile_lazily
from zoea.text.sentences import UNSPACED, split_sentences
from zoea.text.shorten import head

LONGEST_LINE = 320
"""Characters kept of a line."""
ALIKE = 6
"""Lines that differ in their numbers and names alone, of which each weighs as if it were alone."""
RESULT_CHARS = 8_000
"""Characters of a result that are looked at, half from its head and half from its tail."""
_RAREST = 12
"""The rarest words of a line, by which its rarity is measured; of pairs of characters twice as many."""
_DECAY = 0.8
"""What each further line of a message weighs, as a share of the one before."""
_SHORT_MESSAGE = 25
"""Tokens of a short message; longer ones say less with each sentence."""
_FREE_TOKENS = 15
"""Tokens added to those of a line, because a line weighs by what it says for each token that it takes."""
_PRECISE_SHARE = 0.5
"""What names, numbers and paths add to the weight of a line."""
_USUAL_SHARE, _MOST_LIFT = 0.4, 3.0
"""The share of lines with a sign from which on it adds what it does, and how many times as much a rare one may add."""
_LEAST_NEW = 0.05
"""What a line counts as new whose words were all said before, so that alike lines have an order too."""
_FEW_LINES = 10
"""Lines of one kind of script from which on they, more than all lines, say what is usual among them."""
_SAID_BY = {Role.USER: 0.15, Role.ASSISTANT: 0.0, Role.TOOL: -0.1}


class LineKind(StrEnum):
    """What the words of a line mark, the most important first."""

    CONSTRAINT = "constraint"
    DECISION = "decision"
    ERROR = "error"
    IDENTIFIER = "identifier"
    OTHER = "said"


_MARKED = dict.fromkeys(LineKind, 0.2) | {LineKind.IDENTIFIER: 0.15, LineKind.OTHER: 0.0}
"""What the words of a line add to its weight; they are only one sign of several."""


class SalientLine(Struct, frozen=True):
    """A line worth keeping, and its place: turn, message in the turn, sentence in the message.

    Attributes:
        origin: `prompt`, `answer`, or the name of a tool.
    """

    turn: int
    seq: int
    index: int
    origin: str
    text: str
    kind: LineKind = LineKind.OTHER

    @property
    def place(self) -> tuple[int, int, int]:
        return self.turn, self.seq, self.index


_NUMBERED = compile_lazily(r"[^\s\u0e00-\U0010ffff]*\d+[^\s\u0e00-\U0010ffff]*")
"""A number and the letters around it. Those of a script without spaces are words of their own."""
_DIGITS = compile_lazily(r"\d+(?:[.,:]\d+)*")
_WORD = compile_lazily(rf"[{UNSPACED}]+|[^\W_{UNSPACED}](?:[^\W{UNSPACED}]|[.'#-](?=[\w#]))*|#")
_FIRST_UNSPACED = "\u0e00"
_BY_KIND = ((LineKind.CONSTRAINT, CONSTRAINTS), (LineKind.DECISION, DECISIONS), (LineKind.ERROR, ERRORS))
_MAY_NAME = compile_lazily(r"[\d/_#\"'.]\S")
_SPECIAL = compile_lazily(
    r"https?://\S+|(?<![\w.])(?:~|\.{0,2})/[\w.-]+/[\w./-]+|\b[0-9a-f]{7,40}\b(?=\W|$)|"
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,27}\b|\b[\w-]+\.(?:py|rs|go|ts|js|toml|yaml|yml|json|md|sql|c|h|cpp|java|sh)\b|"
    r"\b[A-Z][A-Z0-9]+-\d+\b|#\d+\b|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b",
    re.ASCII,  # so that these also begin and end beside a character of a script without spaces
)
_PRECISE = compile_lazily(r"\d|[\w-]+[./_@][\w-]+|(?<=[\w,] )[A-ZÀ-Þ]\w")


class _Entry(Struct, frozen=True):
    """A line while it is weighed.

    Attributes:
        text: In lower case.
        shape: The same without its numbers and names.
        words, pairs: Its words, each once, and those that stand side by side.
        is_precise: Whether it has a name, a number or a path.
        said_by: What its role adds to its weight.
        size: What divides its weight, by its tokens and those of its message.
    """

    line: SalientLine
    text: str
    shape: str
    words: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    is_wide: bool
    is_precise: bool
    said_by: float
    size: float

    @classmethod
    def of(cls, line: SalientLine, role: Role, tokens: float) -> _Entry:
        text = line.text.casefold()
        words = find_words(_DIGITS.sub("#", text))
        is_wide = any(word[0] >= _FIRST_UNSPACED for word in words)
        is_precise = _PRECISE.search(line.text) is not None
        size = (1 + tokens / _SHORT_MESSAGE) ** 0.5 * (estimate_text(line.text) + _FREE_TOKENS)
        pairs, shape = frozenset(pairwise(words)), _NUMBERED.sub("#", text)
        return cls(line, text, shape, frozenset(words), pairs, is_wide, is_precise, _SAID_BY[role], size)

    def weigh_signs(self, marked: float, precise: float) -> float:
        """Return its weight by its own signs. `marked` and `precise` are the factors of marks and names."""
        worth = 1 + self.said_by + marked * _MARKED[self.line.kind] + precise * _PRECISE_SHARE * self.is_precise
        return worth / self.size


_read: dict[tuple[int, int, int], tuple[_Entry, ...]] = {}
MOST_READ = 2_000
"""Memories whose lines are remembered."""


class _Vocabulary(Struct, frozen=True):
    """How often words, and words side by side, stand in lines; each text counts once. `single` stand in one line."""

    texts: frozenset[str]
    words: Tally[str]
    pairs: Tally[tuple[str, str]]
    single: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, entries: Mapping[str, _Entry]) -> _Vocabulary:
        words = Tally(chain.from_iterable([entry.words for entry in entries.values()]))
        pairs = Tally(chain.from_iterable([entry.pairs for entry in entries.values()]))
        return cls(frozenset(entries), words, pairs, frozenset([pair for pair, count in pairs.items() if count == 1]))


_vocabularies: dict[tuple[tuple[int, int], ...], _Vocabulary] = {}
MOST_VOCABULARIES = 16
"""Vocabularies that are remembered, because the same older messages are compared with in many turns."""


def _read_vocabulary(memories: Sequence[Memory]) -> _Vocabulary:
    """Return the vocabulary of older messages. That of the same messages is made only once."""
    key = tuple([(one.id, hash(one.content)) for one in memories])
    vocabulary = _vocabularies.get(key)
    if vocabulary is None:
        if len(_vocabularies) >= MOST_VOCABULARIES:
            _vocabularies.clear()
        vocabulary = _vocabularies[key] = _Vocabulary.of(_read_entries(memories))
    return vocabulary


def rank_lines(memories: Iterable[Memory], before: Sequence[Memory] = ()) -> list[SalientLine]:
    """Return the lines of memories, the weightiest first. Equal texts count once, as the newest of them.

    Args:
        before: Older memories, which only show frequent lines.
    """
    older = _read_vocabulary(before)
    own = _read_entries(memories)
    entries = [*own.values()]
    new = _Vocabulary.of({text: entry for text, entry in own.items() if text not in older.texts})
    count = len(older.texts) + len(new.texts)
    words = {word for entry in entries for word in entry.words}
    in_older, in_new, whole = older.words.get, new.words.get, log(count + 1)  # `Counter` takes long for what it lacks
    rarity = {word: log((count + 1) / (in_older(word, 0) + in_new(word, 0))) / whole for word in words}
    single = frozenset([pair for pair in new.single if pair not in older.pairs])
    novelty = []
    for entry in entries:
        size = _RAREST * (2 if entry.is_wide else 1)
        rare = sum(sorted([rarity[word] for word in entry.words], reverse=True)[:size]) / size
        once = len(entry.pairs & single)
        if entry.text in older.texts:
            once = sum([pair not in new.pairs for pair in entry.pairs & older.single])
        novelty.append(rare * (_LEAST_NEW + (once / len(entry.pairs) if entry.pairs else 0.0)))
    # Pairs of characters are new more often than words. So what is new counts less where all lines of a script are.
    # Signs add more where few lines of a script have them, because there they tell more than what is new.
    usual, lifts, mean = {}, {}, sum(novelty) / max(1, len(novelty))
    for is_wide in (False, True):
        own_script = [(one, entry) for one, entry in zip(novelty, entries, strict=True) if entry.is_wide is is_wide]
        count = len(own_script)
        usual[is_wide] = 1 + (sum([one for one, _ in own_script]) + _FEW_LINES * mean) / (count + _FEW_LINES)
        lifts[is_wide] = (
            _lift(sum([entry.line.kind is not LineKind.OTHER for _, entry in own_script]), count),
            _lift(sum([entry.is_precise for _, entry in own_script]), count),
        )
    weighed = []
    for place, (entry, newer) in enumerate(zip(entries, _count_newer(entries), strict=True)):
        worn = 1 + max(0, newer + 1 - ALIKE) / 2
        signs = entry.weigh_signs(*lifts[entry.is_wide])
        weighed.append(((novelty[place] / usual[entry.is_wide]) ** 2 * signs / worn, place))
    weighed.sort(reverse=True)
    # What a message says beside its weightiest line is worth less.
    further: Tally[tuple[int, int]] = Tally()
    ranked = []
    for weight, place in weighed:
        message = entries[place].line.place[:2]
        ranked.append((weight * _DECAY ** further[message], place))
        further[message] += 1
    ranked.sort(reverse=True)
    return [entries[place].line for _, place in ranked]


def _lift(count: int, lines: int) -> float:
    """Return the factor for the weight of a sign that `count` of `lines` have."""
    share = (count + _USUAL_SHARE * _FEW_LINES) / (lines + _FEW_LINES)
    return min(_MOST_LIFT, max(1.0, log(share) / log(_USUAL_SHARE)))


def _read_entries(memories: Iterable[Memory]) -> dict[str, _Entry]:
    """Return the lines of memories by their text in lower case, each text once."""
    entries: dict[str, _Entry] = {}
    for memory in memories:
        for entry in _read_memory(memory):
            entries.pop(entry.text, None)
            entries[entry.text] = entry
    return entries


def _read_memory(memory: Memory) -> tuple[_Entry, ...]:
    """Return the lines of a memory. Those of one that was read before are found again by its id and text."""
    key = (memory.id, hash(memory.content), memory.turn_number)
    entries = _read.get(key)
    if entries is None:
        if len(_read) >= MOST_READ:
            _read.clear()
        origin, size = _origin(memory), estimate_text(memory.content)
        lines = [
            SalientLine(memory.turn_number, memory.seq, index, origin, text, kind)
            for index, (kind, text) in enumerate(_lines_of(memory))
        ]
        entries = _read[key] = tuple([_Entry.of(line, memory.role, size) for line in lines])
    return entries


def _origin(memory: Memory) -> str:
    if memory.role is Role.TOOL:
        return memory.tool_name or "result"
    return "prompt" if memory.role is Role.USER else "answer"


def find_words(text: str) -> tuple[str, ...]:
    """Return the words of a text in lower case. Scripts without spaces give pairs of characters."""
    words: list[str] = []
    for word in _WORD.findall(text):
        if word[0] < _FIRST_UNSPACED or len(word) < 3:
            words.append(word)
        else:
            words += [word[at : at + 2] for at in range(len(word) - 1)]
    return tuple(words)


def _count_newer(entries: Sequence[_Entry]) -> list[int]:
    """Return for each line how many newer ones differ only in numbers and names. Oldest first."""
    counts: Tally[str] = Tally()
    newer = []
    for entry in reversed(entries):
        newer.append(counts[entry.shape])
        counts[entry.shape] += 1
    return newer[::-1]


def _lines_of(memory: Memory) -> list[tuple[LineKind, str]]:
    """Return the sentences of a memory with their kinds. Of long results only head and tail are read."""
    content = memory.content
    if memory.role is Role.TOOL and len(content) > RESULT_CHARS:
        content = content[: RESULT_CHARS // 2] + "\n" + content[-RESULT_CHARS // 2 :]
    lines = [(classify_line(text), head(text, LONGEST_LINE)) for text in split_sentences(content) if len(text) > 1]
    if memory.is_error and lines:
        lines[0] = (LineKind.ERROR, lines[0][1])
    return lines


def classify_line(text: str) -> LineKind:
    """Return the most important kind that the words of a line mark."""
    folded = text.casefold()
    words = frozenset(_WORD.findall(folded))
    for kind, cues in _BY_KIND:
        if cues.mark(words, folded):
            return kind
    if _MAY_NAME.search(text) and (_SPECIAL.search(text) or find_identifiers(text)):
        return LineKind.IDENTIFIER
    return LineKind.OTHER
