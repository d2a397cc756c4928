"""Parse the patch of a worktree into files and lines, and arrange them in rows of a width. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct

from zoea.text.control_characters import one_line
from zoea.tui.text_layout import Piece, wrap_characters

GUTTER = 12
"""Cells of the two line numbers and the blanks beside them."""
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ROLES = {"+": "ok", "-": "errored", "@": "llm", "": "quiet"}
_NOT_SHOWN = ("diff --git ", "index ", "--- ", "+++ ")


class ChangedLine(Struct, frozen=True):
    """One line of a patch.

    Attributes:
        sign: `+`, `-` or a blank; `@` for the head of a hunk, empty for what git says of the file.
        text: The line without its sign.
        old: Its number before the change; 0 where it was not there.
        new: Its number after the change; 0 where it is not there any more.
    """

    sign: str
    text: str
    old: int = 0
    new: int = 0


class FileDiff(Struct, frozen=True):
    """The change of one file."""

    path: str
    lines: tuple[ChangedLine, ...]
    added: int = 0
    removed: int = 0

    @property
    def head(self) -> list[Piece]:
        return [
            (one_line(self.path), "strong"), (f"  +{self.added:,}", "ok"), (f" -{self.removed:,}", "errored"),
        ]  # fmt: skip


class ChangeRow(Struct, frozen=True):
    """One row of the screen: a part of a line of a file; line -1 is the file's head."""

    file: int
    line: int
    text: str = ""
    is_first: bool = True


def parse_patch(patch: str) -> tuple[FileDiff, ...]:
    """Return the files of a patch that git wrote. The counts of a hunk say which lines belong to it."""
    files: list[FileDiff] = []
    path = ""
    lines: list[ChangedLine] = []
    left = right = old = new = 0

    def end() -> None:
        if path:
            signs = [line.sign for line in lines]
            files.append(FileDiff(path, tuple(lines), signs.count("+"), signs.count("-")))

    for text in patch.removesuffix("\n").split("\n"):
        sign = text[:1]
        if (left > 0 or right > 0) and sign in ("+", "-", " ", ""):
            is_old, is_new = sign != "+", sign != "-"
            lines.append(ChangedLine(sign or " ", text[1:], old * is_old, new * is_new))
            left, right, old, new = left - is_old, right - is_new, old + is_old, new + is_new
        elif text.startswith("diff --git "):
            end()
            names = text.removeprefix("diff --git ")  # `a/NAME b/NAME`; names that differ are told by later lines
            path, lines, left, right = _unquote(names[: len(names) // 2])[2:], [], 0, 0
        elif hunk := _HUNK.match(text):
            old, new = int(hunk[1]), int(hunk[3])
            left, right = (1 if count is None else int(count) for count in (hunk[2], hunk[4]))
            lines.append(ChangedLine("@", text, old, new))
        else:
            if text.startswith("rename to "):
                path = _unquote(text.removeprefix("rename to "))
            if text and not text.startswith(_NOT_SHOWN):
                lines.append(ChangedLine("", text))
    end()
    return tuple(files)


def _unquote(name: str) -> str:
    """Return a name that git may have written in quotes with escapes."""
    if not (len(name) > 1 and name.startswith('"') and name.endswith('"')):
        return name
    return name[1:-1].encode("utf-8", "replace").decode("unicode_escape").encode("latin-1").decode("utf-8", "replace")


def arrange_rows(files: Sequence[FileDiff], folded: Collection[int], width: int) -> list[ChangeRow]:
    """Return the rows of all files; a folded one has its head alone. A long line is wrapped, never cut."""
    room = max(10, width - GUTTER - 2)  # the mark before the numbers, and the sign after them
    rows: list[ChangeRow] = []
    for at, file in enumerate(files):
        rows.append(ChangeRow(at, -1))
        for number, line in enumerate(() if at in folded else file.lines):
            text = line.text
            if len(text) <= room and text.isascii() and text.isprintable():
                rows.append(ChangeRow(at, number, text))
            else:
                parts = wrap_characters(text.replace("\n", " "), room)
                rows += [ChangeRow(at, number, part, not place) for place, part in enumerate(parts)]
    return rows


def build_line(line: ChangedLine, row: ChangeRow, words: str) -> list[Piece]:
    """Return one row of a line, with its numbers and sign, and the found words marked."""
    role = _ROLES.get(line.sign, "")
    if line.sign in ("@", ""):
        return [(" " * GUTTER, "quiet"), *_mark(row.text, role, words)]
    numbers = f"{line.old or '':>5}{line.new or '':>6} " if row.is_first else " " * GUTTER
    sign = line.sign if row.is_first else " "
    return [(numbers, "quiet"), (sign, role), *_mark(row.text, role, words)]


def _mark(text: str, role: str, words: str) -> Iterator[Piece]:
    at = 0
    for start in _find_places(text, words):
        yield text[at:start], role
        at = start + len(words)
        yield text[start:at], "hit"
    yield text[at:], role


def _find_places(text: str, words: str) -> Iterator[int]:
    lower, wanted = text.lower(), words.lower()
    if len(lower) != len(text):  # the small form of a letter is longer: places would not fit
        lower, wanted = text, words
    at = lower.find(wanted) if wanted else -1
    while at >= 0:
        yield at
        at = lower.find(wanted, at + len(wanted))


def find_lines(files: Sequence[FileDiff], words: str) -> list[tuple[int, int]]:
    """Return file and line of each line with the words, without regard to case; line -1 for a path."""
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
    """Return `PATH:FIRST-LAST` with the numbers after the change, or before it where the lines are gone."""
    chosen = [file.lines[line] for line in lines if line >= 0 and file.lines[line].sign in ("+", "-", " ")]
    new, old = [line.new for line in chosen if line.new], [line.old for line in chosen if line.old]
    if not (numbers := new or old):
        return file.path
    first, last = min(numbers), max(numbers)
    return f"{file.path}:{first}" + (f"-{last}" if last > first else "") + ("" if new else " (removed)")
