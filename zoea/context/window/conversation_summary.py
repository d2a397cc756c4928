"""The text of a summary: a model's prose, if any, and lines kept word for word.

A summary can be extended: its kept lines are read back and chosen again together with new ones.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence

from zoea.context.window.salient_lines import (
    FACTS,
    LineKind,
    SalientLine,
    choose_lines,
    find_prose_lines,
    find_salient_lines,
    parse_line,
)
from zoea.model.values import Memory
from zoea.text.estimate import CHARS_PER_TOKEN
from zoea.text.redact import redact_all

TITLE = "Previous context summary: "
KEPT = "Kept word for word:"
_LEFT_OUT = "({count:,} less important lines are left out; the search tools find them)"
_UNREAD = "(not covered here: {count:,} messages before these; the search tools find them)"
_OWN_LINE = re.compile(r"\((?:not covered here: |[\d,]+ less important lines ).*\)")
_PROSE_SHARE = 0.6
"""The share of a summary that a model's prose may take where lines are to be kept beside it."""
_TERM = re.compile(r"[^\W_][\w./:#-]*[^\W_]|[\u2e80-\U0003ffff]")
_SAID = 0.8


def summarise(
    memories: Iterable[Memory], max_tokens: int, *, earlier: str = "", prose: str = "", unread: int = 0
) -> str:
    """Return the redacted text of a summary, at most `max_tokens` long where anything fits.

    Args:
        memories: The messages that the summary has to cover now.
        earlier: The text of the summary that this one extends.
        prose: What a model wrote about all of it; facts that it lost are appended. Without it, what a model wrote
            of the messages before stays, and the lines to keep of the new ones are appended.
        unread: How many older messages it does not cover, which it says.
    """
    former = read_prose(earlier)
    before = [*find_said_lines(former, read_kept_lines(earlier)), *read_kept_lines(earlier)]
    new = find_salient_lines(memories)
    lines = [*before, *new]
    max_chars = max_tokens * CHARS_PER_TOKEN
    # Redaction may make a text longer, so some room stays free for its labels.
    note = _UNREAD.format(count=unread) if unread else read_unread_note(earlier)
    room = max_chars - len(note) - len(TITLE) - len(KEPT) - len(_LEFT_OUT) - 8
    told = redact_all(" ".join((prose or former).split("\r"))).strip()
    if told:
        # What no cue marks may be a fact too, so that the other lines have what room the prose and the facts leave.
        facts, rest = (lines, [line for line in new if line.kind not in FACTS]) if prose else (before, new)
        missing = find_missing(facts, told)
        for _ in range(2):  # what is cut off may hold facts that need more room
            taken = sum(len(str(line)) + 1 for line in (missing if prose else (*missing, *rest)))
            told = _cut(told, max(int(room * _PROSE_SHARE), room - taken))
            missing = find_missing(facts, told)
        lines = [*missing, *(find_missing(rest, told, frozenset(LineKind)) if prose else rest)]
        room -= len(told) + 2
    return _compose(f"{note}\n{told}".strip(), lines, room)


def _compose(prose: str, lines: Sequence[SalientLine], room: int) -> str:
    kept, left_out = choose_lines(lines, room)
    text = _join(prose, kept, left_out)
    excess = len(text) - len(_join(prose, kept, left_out, is_redacted=False))
    if excess > 0:
        kept, left_out = choose_lines(lines, room - excess)
        text = _join(prose, kept, left_out)
    return text


def _join(prose: str, kept: Sequence[SalientLine], left_out: int, *, is_redacted: bool = True) -> str:
    parts = [prose] if prose else []
    if kept:
        said = "\n".join(map(str, kept))
        parts.append(f"{KEPT}\n{redact_all(said) if is_redacted else said}")
    if left_out:
        parts.append(_LEFT_OUT.format(count=left_out))
    return "\n".join(parts)


def read_kept_lines(text: str) -> list[SalientLine]:
    """Return the lines that a summary kept word for word."""
    _, found, kept = text.rpartition(f"{KEPT}\n")
    return [line for one in kept.splitlines() if (line := parse_line(one)) is not None] if found else []


def read_unread_note(text: str) -> str:
    """Return the line of a summary that says what it does not cover. "" where it has none."""
    first, _, _ = text.partition("\n")
    return first if first.startswith(_UNREAD.partition("{")[0]) else ""


def read_prose(text: str) -> str:
    """Return the part of a summary that a model wrote, "" where it has none."""
    prose, found, _ = text.rpartition(f"{KEPT}\n")
    lines = (prose if found else text).strip().splitlines()
    return "\n".join(line for line in lines if not _OWN_LINE.fullmatch(line)).strip()


def find_said_lines(prose: str, kept: Sequence[SalientLine]) -> list[SalientLine]:
    """Return the facts of a former prose, which the one that extends it must hold too."""
    turn = min((line.turn for line in kept), default=1)
    lines = find_prose_lines(prose, turn)
    return [line for line in lines if line.kind in FACTS]


def find_missing(lines: Iterable[SalientLine], prose: str, kinds: Container[LineKind] = FACTS) -> list[SalientLine]:
    """Return the lines of these kinds that a text does not hold.

    A fact is held where four fifths of its words are, and each word with a digit.
    """
    said = frozenset(_TERM.findall(prose.casefold()))
    missing = []
    for line in lines:
        if line.kind not in kinds:
            continue
        terms = frozenset(_TERM.findall(redact_all(line.text).casefold()))
        exact = {term for term in terms if any(one.isdigit() for one in term)}
        if not exact <= said or len(terms & said) < _SAID * len(terms):
            missing.append(line)
    return missing


def halve(text: str, max_tokens: int) -> str:
    """Return a shorter form of a redacted summary: its prose cut, then the weightiest lines.

    Each plan of a turn's first request needs it, so that nothing is redacted a second time.
    """
    room = max(0, max_tokens * CHARS_PER_TOKEN - len(KEPT) - len(_LEFT_OUT) - 4)
    lines, prose = read_kept_lines(text), text.rpartition(f"{KEPT}\n")[0].strip()
    if not lines:
        return _cut(text, max_tokens * CHARS_PER_TOKEN)
    prose = _cut(prose, int(room * _PROSE_SHARE))
    kept, left_out = choose_lines(lines, room - len(prose))
    return _join(prose, kept, left_out, is_redacted=False)


def _cut(text: str, max_chars: int) -> str:
    """Return the first whole sentences of a text within a length."""
    if len(text) <= max_chars:
        return text
    part = text[: max(0, max_chars)]
    end = max(part.rfind(". "), part.rfind("\n"), part.rfind("。"))
    return part[: end + 1].rstrip() if end > max_chars // 2 else part


__all__ = ["KEPT", "TITLE", "LineKind", "find_missing", "halve", "read_kept_lines", "read_prose", "summarise"]
