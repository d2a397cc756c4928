"""Composes a summary from a model's prose and from lines kept verbatim.

A range of messages is condensed once, by itself (`RangeDigest`), so that early lines compete with their neighbours
only. A digest ranks more lines than a summary has room for, and is stored so. A summary takes the weightiest lines of
each of its ranges, in proportion to their messages, as many as fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from zoea.context.window.conversation_shape import MIDDLE_SHARE, RANGE_MESSAGES, SMALLEST_SUMMARY
from zoea.context.window.salient_lines import LineKind, SalientLine, rank_lines
from zoea.context.window.window_estimate import estimate_memory, estimate_text
from zoea.model.values import Memory
from zoea.text.estimate import CHARS_PER_TOKEN
from zoea.text.lazy_pattern import compile_lazily
from zoea.text.redact import redact_all
from zoea.text.sentences import UNSPACED, split_sentences

TITLE = "Previous context summary: "
KEPT = "Kept word for word:"
_RANKED = "Kept word for word, the weightiest first:"
_LEFT_OUT = "({count:,} less important lines are left out; the search tools find them)"
_UNREAD = "(not covered here: {count:,} messages before these; the search tools find them)"
_IN_ALL = "(of {count:,} lines)"
_NO_MODEL = "(no model wrote it: {why})"
_NO_MODEL_START = _NO_MODEL.partition("{")[0]
_OWN_LINE = compile_lazily(
    r"\((?:not covered here: |[\d,]+ less important lines |of [\d,]+ lines|no model wrote it: ).*\)"
)
_LINE = compile_lazily(r"- (\d+)\.(\d+)\.(\d+) ([^:]{0,100}): (.+)")
_FORMER_LINE = compile_lazily(r"- turn (\d+), (constraint|decision|error|identifier|said): (.+)")
_LEFT_OUT_LINE = compile_lazily(r"\(([\d,]+) less important lines ")
_FORMER_ORDER = {kind.value: rank for rank, kind in enumerate(LineKind)}
_PROSE_SHARE = 0.6
"""The share of a summary that a model's prose may take where lines are to be kept beside it."""
MOST_STORED = 6_000
"""Tokens of the lines that are stored of one range."""
COMPARED_MESSAGES = 400
"""Messages before a range that show what is said often."""
_JOINT = 1.0
"""Tokens of what joins two lines of a message."""
_MOST_MISSES = 50
"""Lines in a row that may be too long for the room that is left."""
_TERM = compile_lazily(rf"[^\W_{UNSPACED}](?:[^\W{UNSPACED}]|[./:#-])*[^\W_{UNSPACED}]|[{UNSPACED}]")
_SAID = 0.8
_LABEL = compile_lazily(r"\[turn \d+, [^\]\n]*\]|- (?:turn )?\d+[^:\n]{0,60}: |```+\w*|</?[a-z_]+>")
_digests: dict[tuple[object, ...], RangeDigest] = {}
_MOST_DIGESTS = 200
_MOST_REMEMBERED = 5_000
"""Lines that are remembered as they are redacted, and by their words."""


class RangeDigest(Struct, frozen=True):
    """A range of messages, condensed.

    Attributes:
        messages: How many they are.
        lines: Redacted, the weightiest first.
        whole: How many lines the messages have.
        prose: What a model wrote of them, redacted.
        failure: Why no model did, in a few words; empty where one did or none was to.
    """

    messages: int
    lines: tuple[SalientLine, ...] = ()
    whole: int = 0
    prose: str = ""
    failure: str = ""


class ComposedSummary(Struct, frozen=True):
    """The text of a summary. Lines kept and left out are counted since the beginning."""

    text: str = ""
    kept: int = 0
    left_out: int = 0


def digest_messages(memories: Sequence[Memory], before: Sequence[Memory] = ()) -> RangeDigest:
    """Condense a range of messages without a model. The same messages are condensed only once.

    Args:
        before: Older ones, which show what is said often.
    """
    key = (len(before), *[(one.id, hash(one.content)) for part in (before, memories) for one in part])
    digest = _digests.get(key)
    if digest is None:
        if len(_digests) >= _MOST_DIGESTS:
            _digests.clear()
        digest = _digests[key] = _digest(memories, before)
    return digest


def _digest(memories: Sequence[Memory], before: Sequence[Memory]) -> RangeDigest:
    ranked = rank_lines(memories, before)
    room = min(MOST_STORED, max(SMALLEST_SUMMARY, sum(map(estimate_memory, memories)) / MIDDLE_SHARE))
    kept = []
    for line in ranked:
        room -= estimate_text(line.text) + _JOINT
        if room < 0:
            break
        kept.append(replace(line, text=_redact_line(line.text)))
    return RangeDigest(len(memories), tuple(kept), len(ranked))


@lru_cache(_MOST_REMEMBERED)
def _redact_line(text: str) -> str:
    """Redact a line. The range that still grows is condensed at each turn, of the same lines."""
    return redact_all(text)


def digest_all(memories: Sequence[Memory], before: Sequence[Memory] = ()) -> list[RangeDigest]:
    """Condense messages in ranges of about `RANGE_MESSAGES`, each with those before it."""
    digests: list[RangeDigest] = []
    for part in split_ranges(memories):
        digests.append(digest_messages(part, before))
        before = (*before, *part)[-COMPARED_MESSAGES:]
    return digests


def split_ranges(memories: Sequence[Memory]) -> list[Sequence[Memory]]:
    """Return parts of about `RANGE_MESSAGES` messages, of which the last is not much smaller."""
    count = max(1, round(len(memories) / RANGE_MESSAGES))
    size = max(1, -(-len(memories) // count))
    return [memories[at : at + size] for at in range(0, len(memories), size)]


def join_digests(digests: Sequence[RangeDigest]) -> RangeDigest:
    """Return one digest for several that follow each other. It holds no more than one range may."""
    kept, room = [], float(MOST_STORED)
    for line in _merge(digests):
        room -= estimate_text(line.text) + _JOINT
        if room < 0:
            break
        kept.append(line)
    text = "\n".join(one.prose for one in digests if one.prose)
    return RangeDigest(
        sum(one.messages for one in digests),
        tuple(kept),
        sum(one.whole for one in digests),
        _cut(text, MOST_STORED // 2),
    )


def _merge(digests: Sequence[RangeDigest]) -> list[SalientLine]:
    """Return the lines of all, each range's weightiest first. Ranges share in proportion to their messages."""
    places = sorted(
        ((rank + 1) / max(1, digest.messages), number, rank)
        for number, digest in enumerate(digests)
        for rank in range(len(digest.lines))
    )
    return [digests[number].lines[rank] for _, number, rank in places]


def compose_summary(digests: Sequence[RangeDigest], max_tokens: int, *, unread: int = 0) -> ComposedSummary:
    """Return the summary of ranges in at most so many estimated tokens, where anything fits.

    Args:
        unread: How many older messages it does not cover, which it says.
    """
    note = _UNREAD.format(count=unread) if unread else ""
    whole = sum(one.whole for one in digests)
    room = max_tokens - estimate_text(note) - estimate_text(KEPT) - estimate_text(_LEFT_OUT) - 1
    merged = _merge(digests)
    prose = _fit_prose(digests, merged, room)
    text = f"{note}\n{prose}".strip()
    terms = frozenset(_TERM.findall(prose.casefold()))
    chosen = _choose(merged, terms, room - estimate_text(prose))
    composed = _join(text, chosen, whole)
    while chosen and (excess := estimate_text(composed.text) / max_tokens - 1) > 0:
        chosen = chosen[: len(chosen) - ceil(len(chosen) * min(1.0, excess))]
        composed = _join(text, chosen, whole)
    return composed


def _fit_prose(digests: Sequence[RangeDigest], lines: Sequence[SalientLine], room: float) -> str:
    """Return what models wrote of all ranges. Each is cut to its share where the lines need room too."""
    parts = [(one.prose, one.messages) for one in digests if one.prose]
    if not parts:
        return ""
    taken = sum(_cost(line) for line in lines)
    most = max(int(room * _PROSE_SHARE), int(room - taken))
    size = sum(estimate_text(prose) + 1 for prose, _ in parts)
    if size > most:
        messages = sum(count for _, count in parts)
        parts = [(_cut(prose, max(0, most * count // messages)), count) for prose, count in parts]
    return "\n".join(prose for prose, _ in parts if prose)


def _choose(lines: Sequence[SalientLine], said: frozenset[str], room: float) -> list[SalientLine]:
    """Return the first lines that fit and that the prose does not say."""
    chosen: list[SalientLine] = []
    messages: set[tuple[int, int]] = set()
    misses = 0
    for line in lines:
        if said and _is_said(line.text, said):
            continue
        cost = estimate_text(line.text) + _JOINT if line.place[:2] in messages else _cost(line)
        if cost > room:
            misses += 1
            if misses == _MOST_MISSES:
                break
            continue
        room -= cost
        chosen.append(line)
        messages.add(line.place[:2])
    return chosen


def _label(line: SalientLine) -> str:
    """Return the label of a message: its turn, and its speaker unless that is a person."""
    return f"- {line.turn}: " if line.origin in ("", "prompt") else f"- {line.turn} {line.origin}: "


def _cost(line: SalientLine) -> float:
    """Return the tokens of a message's first line, with its label and its end."""
    return estimate_text(line.text) + (len(_label(line)) + 1) / CHARS_PER_TOKEN


def _join(prose: str, chosen: Sequence[SalientLine], whole: int) -> ComposedSummary:
    """Compose the text: the prose, then the lines in the order of the conversation, those of a message together."""
    parts = [prose] if prose else []
    if chosen:
        parts.append(KEPT)
    before: SalientLine | None = None
    for line in sorted(chosen, key=lambda one: one.place):
        if before is None or line.place[:2] != before.place[:2]:
            parts.append(f"{_label(line)}{line.text}")
        else:
            joint = " " if line.index == before.index + 1 else " … "
            parts[-1] += joint + line.text
        before = line
    left_out = whole - len(chosen)
    if left_out > 0:
        parts.append(_LEFT_OUT.format(count=left_out))
    return ComposedSummary("\n".join(parts), len(chosen), max(0, left_out))


def summarise(memories: Iterable[Memory], max_tokens: int, *, prose: str = "", unread: int = 0) -> str:
    """Return the redacted text of a summary of messages.

    Args:
        prose: What a model wrote about all of them; lines that it lost are appended.
        unread: How many older messages it does not cover, which it says.
    """
    digests = digest_all(list(memories))
    if prose and digests:
        whole = sum(one.messages for one in digests)
        digests.append(RangeDigest(whole, prose=clean_prose(prose)))
    return compose_summary(digests, max_tokens, unread=unread).text


def clean_prose(prose: str) -> str:
    """Redact what a model wrote, and drop labels of its source and repeated sentences."""
    seen_lines: set[str] = set()
    lines = []
    for line in _LABEL.sub(" ", redact_all(" ".join(prose.split("\r")))).splitlines():
        new = [one for one in split_sentences(line) if one.casefold() not in seen_lines]
        seen_lines.update(map(str.casefold, new))
        lines.append(" ".join(dict.fromkeys(new)))
    return "\n".join(filter(None, lines))


def read_statements(text: str) -> list[str]:
    """Return what a summary says, a line each, without its labels and counts."""
    lines = [line for line in text.removeprefix(TITLE).splitlines() if line != KEPT and not _OWN_LINE.fullmatch(line)]
    return clean_prose("\n".join(lines)).splitlines()


def write_digest(digest: RangeDigest) -> str:
    """Return a digest as the text that is stored."""
    lines = [f"- {one.turn}.{one.seq}.{one.index} {one.origin[:100]}: {one.text}" for one in digest.lines]
    prose = [digest.prose] if digest.prose else []
    failure = [_NO_MODEL.format(why=" ".join(digest.failure.split()))] if digest.failure else []
    return "\n".join([*prose, _RANKED, *lines, *failure, _IN_ALL.format(count=digest.whole)])


def read_digest(text: str, messages: int) -> RangeDigest:
    """Read a stored digest, or a summary of an older release, which has no ranks."""
    prose, is_ranked, kept = text.rpartition(f"{_RANKED}\n")
    if not is_ranked:
        return _read_former(text, messages)
    rows = kept.splitlines()
    matches = [match for row in rows if (match := _LINE.fullmatch(row)) is not None]
    lines = [SalientLine(int(one[1]), int(one[2]), int(one[3]), one[4], one[5]) for one in matches]
    count = re.search(r"\(of ([\d,]+) lines\)\Z", text)
    whole = int(count[1].replace(",", "")) if count is not None else len(lines)
    failure = next((row[len(_NO_MODEL_START) : -1] for row in rows if row.startswith(_NO_MODEL_START)), "")
    return RangeDigest(messages, tuple(lines), whole, prose.strip(), failure)


def _read_former(text: str, messages: int) -> RangeDigest:
    _, is_kept, kept = text.rpartition(f"{KEPT}\n")
    matches = [match for row in kept.splitlines() if (match := _FORMER_LINE.fullmatch(row))] if is_kept else []
    lines = [(rank, one[2], SalientLine(int(one[1]), 0, rank, "", one[3])) for rank, one in enumerate(matches)]
    lines.sort(key=lambda one: (_FORMER_ORDER[one[1]], -one[0]))
    left_out = _LEFT_OUT_LINE.search(text)
    more = int(left_out[1].replace(",", "")) if left_out is not None else 0
    return RangeDigest(messages, tuple(line for _, _, line in lines), len(lines) + more, read_prose(text))


def read_prose(text: str) -> str:
    """Return the part of a summary that a model wrote, "" where it has none."""
    prose, is_kept, _ = text.rpartition(f"{KEPT}\n")
    lines = (prose if is_kept else text).strip().splitlines()
    return "\n".join(line for line in lines if not _OWN_LINE.fullmatch(line) and line != KEPT).strip()


def _is_said(text: str, said: frozenset[str]) -> bool:
    """Return whether a prose covers a line: four fifths of its words, and all with digits."""
    terms, exact = _find_terms(text)
    return exact <= said and len(terms & said) >= _SAID * len(terms)


@lru_cache(_MOST_REMEMBERED)
def _find_terms(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words of a line, and those of them with digits. The lines of a range serve many turns."""
    terms = frozenset(_TERM.findall(text.casefold()))
    return terms, frozenset([term for term in terms if any(map(str.isdigit, term))])


def _cut(text: str, max_tokens: int) -> str:
    """Return the first whole sentences of a text within a number of estimated tokens."""
    size = estimate_text(text)
    if size <= max_tokens:
        return text
    part = text[: max(0, int(len(text) * max_tokens / size))]
    end = max(part.rfind(". "), part.rfind("\n"), part.rfind("。"))
    return part[: end + 1].rstrip() if end > len(part) // 2 else part
