"""Parses a patch that git wrote into files and lines. Pure."""

from __future__ import annotations

import re

from msgspec import Struct

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NOT_SHOWN = ("diff --git ", "index ", "--- ", "+++ ")


class ChangedLine(Struct, frozen=True, gc=False):
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
    """The change of one file. `former` is its name before a rename."""

    path: str
    lines: tuple[ChangedLine, ...]
    added: int = 0
    removed: int = 0
    former: str = ""


def parse_patch(patch: str) -> tuple[FileDiff, ...]:
    """Return the files of a patch that git wrote. The counts of a hunk say which lines belong to it."""
    files: list[FileDiff] = []
    path = former = ""
    lines: list[ChangedLine] = []
    left = right = old = new = 0

    def end() -> None:
        if path:
            signs = [line.sign for line in lines]
            files.append(FileDiff(path, tuple(lines), signs.count("+"), signs.count("-"), former))

    for text in patch.removesuffix("\n").split("\n"):
        sign = text[:1]
        if (left > 0 or right > 0) and sign in ("+", "-", " ", ""):
            is_old, is_new = sign != "+", sign != "-"
            lines.append(ChangedLine(sign or " ", text[1:], old * is_old, new * is_new))
            left, right, old, new = left - is_old, right - is_new, old + is_old, new + is_new
        elif text.startswith("diff --git "):
            end()
            names = text.removeprefix("diff --git ")  # `a/NAME b/NAME`; names that differ are told by later lines
            path, former, lines, left, right = _unquote(names[: len(names) // 2])[2:], "", [], 0, 0
        elif hunk := _HUNK.match(text):
            old, new = int(hunk[1]), int(hunk[3])
            left, right = (1 if count is None else int(count) for count in (hunk[2], hunk[4]))
            lines.append(ChangedLine("@", text, old, new))
        else:
            if text.startswith(("rename from ", "rename to ")):  # in this order
                former, path = path, _unquote(text.split(" ", 2)[2])
            if text and not text.startswith(_NOT_SHOWN):
                lines.append(ChangedLine("", text))
    end()
    return tuple(files)


def restore_texts(file: FileDiff, text: str) -> tuple[list[str], list[str]] | None:
    """Return the lines of a file before and after its change. None where the text does not fit the patch.

    Args:
        text: What the file holds after the change; only its lines outside of hunks are taken from it.
    """
    old: list[str] = []
    new: list[str] = []
    now = text.split("\n") if text else []
    for line in file.lines:
        if line.sign in ("@", ""):
            continue
        gap = line.new - 1 - len(new) if line.new else line.old - 1 - len(old)
        if not 0 <= gap <= len(now) - len(new):
            return None
        if gap:
            same = now[len(new) : len(new) + gap]
            old += same
            new += same
        if line.sign != "+":
            old.append(line.text)
        if line.sign != "-":
            if len(new) == len(now) or now[len(new)].rstrip("\r") != line.text.rstrip("\r"):
                return None
            new.append(line.text)
    return old + now[len(new) :], new + now[len(new) :]


def _unquote(name: str) -> str:
    """Return a name that git may have written in quotes with escapes."""
    if not (len(name) > 1 and name.startswith('"') and name.endswith('"')):
        return name
    return name[1:-1].encode("utf-8", "replace").decode("unicode_escape").encode("latin-1").decode("utf-8", "replace")
