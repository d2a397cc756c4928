"""Arrange the files and lines of a patch in rows of a width. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby, zip_longest

from msgspec import Struct

from zoea.text.control_characters import one_line
from zoea.text.patches import ChangedLine, FileDiff
from zoea.tui.text_layout import Piece, count_cells, wrap_characters

GUTTER = 12
"""Cells of the two line numbers and the blanks beside them."""
_PAIR_GUTTER = 7
"""Cells of one line number, a blank and the sign."""
DIFF_ROLES = {"+": "+", "-": "-", "@": "llm", "": "quiet"}
"""The roles of the lines of any diff by their signs: what was added or removed stands on a tint."""
SYNTAX = {"k": "keyword", "s": "string", "c": "comment"}
"""The roles of the letters of `syntax_lexer`."""


def describe_file(file: FileDiff) -> list[Piece]:
    """Return the head of a file: its path and counts."""
    return [(one_line(file.path), "strong"), (f"  +{file.added:,}", "ok"), (f" -{file.removed:,}", "errored")]


class ChangeRow(Struct, frozen=True, gc=False):
    """One row of the screen: a part of a line of a file; line -1 is the file's head.

    Side by side, `left` is the line before the change and `right` the one after it, each -1 for none; `line` is one of
    them.
    """

    file: int
    line: int
    text: str = ""
    is_first: bool = True
    left: int = -1
    right: int = -1
    left_text: str = ""

    @property
    def is_pair(self) -> bool:
        return self.left >= 0 or self.right >= 0


def arrange_rows(files: Sequence[FileDiff], folded: Collection[int], width: int) -> list[ChangeRow]:
    """Return the rows of all files; a folded one has its head alone. A long line is wrapped, never cut."""
    room = max(10, width - GUTTER - 2)  # the mark before the numbers, and the sign after them
    rows: list[ChangeRow] = []
    for at, file in enumerate(files):
        rows.append(ChangeRow(at, -1))
        for number, line in enumerate(() if at in folded else file.lines):
            rows += [ChangeRow(at, number, part, not place) for place, part in enumerate(_wrap(line.text, room))]
    return rows


def _wrap(text: str, room: int) -> Sequence[str]:
    if len(text) <= room and text.isascii() and text.isprintable():
        return (text,)
    return wrap_characters(text.replace("\n", " "), room)


def arrange_pairs(files: Sequence[FileDiff], folded: Collection[int], width: int) -> list[ChangeRow]:
    """Return the rows of all files: before the change at the left, after it at the right."""
    room = _side(width) - _PAIR_GUTTER
    rows: list[ChangeRow] = []
    for at, file in enumerate(files):
        rows.append(ChangeRow(at, -1))
        for left, right in () if at in folded else _pair_lines(file.lines):
            line = max(left, right) if min(left, right) < 0 else right
            if file.lines[line].sign in ("@", ""):
                parts = _wrap(file.lines[line].text, max(10, width - GUTTER - 2))
                rows += [ChangeRow(at, line, part, not place) for place, part in enumerate(parts)]
                continue
            old = _wrap(file.lines[left].text, room) if left >= 0 else ()
            new = _wrap(file.lines[right].text, room) if right >= 0 else ()
            rows += [
                ChangeRow(at, line, after, not place, left, right, before)
                for place, (before, after) in enumerate(zip_longest(old, new, fillvalue=""))
            ]
    return rows


def _pair_lines(lines: Sequence[ChangedLine]) -> Iterator[tuple[int, int]]:
    """Yield the lines that stand beside each other, by number. Removed ones stand beside those that follow them."""
    removed: list[int] = []
    added: list[int] = []
    for at, line in enumerate(lines):
        if line.sign == "-" and not added:
            removed.append(at)
        elif line.sign == "+":
            added.append(at)
        else:
            yield from zip_longest(removed, added, fillvalue=-1)
            removed, added = ([at], []) if line.sign == "-" else ([], [])
            if line.sign != "-":
                yield (at, at)
    yield from zip_longest(removed, added, fillvalue=-1)


def _side(width: int) -> int:
    """Return the cells of each side: the mark stands before them, a line between them."""
    return max(_PAIR_GUTTER + 10, (width - 4) // 2)


def build_pair(
    file: FileDiff, row: ChangeRow, words: str, width: int, marks: tuple[str, str] = ("", "")
) -> list[Piece]:
    """Return one row side by side, with the marks of both texts."""
    before, after = marks
    left = _build_side(file, row.left, row.left_text, row.is_first, words, before, is_new=False)
    gap = " " * max(0, _side(width) - count_cells(left))
    right = _build_side(file, row.right, row.text, row.is_first, words, after, is_new=True)
    return [*left, (f"{gap} │ ", "quiet"), *right]


def _build_side(
    file: FileDiff, at: int, text: str, is_first: bool, words: str, marks: str, *, is_new: bool
) -> list[Piece]:
    sign = file.lines[at].sign if at >= 0 else " "
    marked = _mark(text, sign, words, marks)
    if at < 0 or not is_first:
        return [(" " * _PAIR_GUTTER, ""), *marked]
    number = file.lines[at].new if is_new else file.lines[at].old
    return [(f"{number or '':>5} ", "quiet"), (sign, DIFF_ROLES.get(sign, "")), *marked]


def build_line(line: ChangedLine, row: ChangeRow, words: str, marks: str = "") -> list[Piece]:
    """Return one row of a line, with its numbers and sign, and found words marked.

    Args:
        marks: Letters of the syntax of the text, which may be fewer.
    """
    if line.sign in ("@", ""):
        return [(" " * GUTTER, "quiet"), *_mark(row.text, line.sign, words, "")]
    numbers = f"{line.old or '':>5}{line.new or '':>6} " if row.is_first else " " * GUTTER
    sign = line.sign if row.is_first else " "
    return [(numbers, "quiet"), (sign, DIFF_ROLES.get(line.sign, "")), *_mark(row.text, line.sign, words, marks)]


def _mark(text: str, sign: str, words: str, marks: str) -> Iterator[Piece]:
    at = 0
    for start in _find_places(text, words):
        yield from _colour(text[at:start], sign, marks[at:start])
        at = start + len(words)
        yield text[start:at], "hit"
    yield from _colour(text[at:], sign, marks[at:])


def _colour(text: str, sign: str, marks: str) -> Iterator[Piece]:
    """Yield the text in the colours of its syntax, over the tint of its sign."""
    tint, at = DIFF_ROLES.get(sign, ""), 0
    for letter, same in groupby(marks[: len(text)]):
        end = at + len(list(same))
        yield text[at:end], tint + SYNTAX.get(letter, "")
        at = end
    if at < len(text):
        yield text[at:], tint


def find_start(rows: Sequence[ChangeRow], place: int) -> tuple[int, int]:
    """Return where the texts of a row begin in their lines, left and right."""
    first = place
    while not rows[first].is_first:
        first -= 1
    above = rows[first:place]
    return sum(len(row.left_text) for row in above), sum(len(row.text) for row in above)


def _find_places(text: str, words: str) -> Iterator[int]:
    lower, wanted = text.lower(), words.lower()
    if len(lower) != len(text):  # the small form of a letter is longer: places would not fit
        lower, wanted = text, words
    at = lower.find(wanted) if wanted else -1
    while at >= 0:
        yield at
        at = lower.find(wanted, at + len(wanted))


def find_lines(files: Sequence[FileDiff], words: str) -> list[tuple[int, int]]:
    """Return file and line of each line with the words, without regard to case. Line -1 is the path."""
    wanted = words.lower()
    if not wanted:
        return []
    return [
        (at, number)
        for at, file in enumerate(files)
        for number, text in enumerate((file.path, *(line.text for line in file.lines)), -1)
        if wanted in text.lower()
    ]


def find_hunks(rows: Sequence[ChangeRow], files: Sequence[FileDiff]) -> list[int]:
    """Return the places of hunks, and of files without one."""
    with_hunk = {at for at, file in enumerate(files) if any(line.sign == "@" for line in file.lines)}
    return [
        place
        for place, row in enumerate(rows)
        if row.is_first and (row.file not in with_hunk if row.line < 0 else files[row.file].lines[row.line].sign == "@")
    ]


def name_lines(file: FileDiff, lines: Iterable[int]) -> str:
    """Return `PATH:FIRST-LAST` with the numbers after the change. Where the lines are gone, they are those before."""
    chosen = [file.lines[line] for line in lines if line >= 0 and file.lines[line].sign in ("+", "-", " ")]
    new, old = [line.new for line in chosen if line.new], [line.old for line in chosen if line.old]
    if not (numbers := new or old):
        return file.path
    first, last = min(numbers), max(numbers)
    return f"{file.path}:{first}" + (f"-{last}" if last > first else "") + ("" if new else " (removed)")
