"""Lines of a file of JSON lines, each with its number, so that every complaint can name its place.

Nothing of what a line holds is believed here but that it is a JSON object of a known kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from zoea.model.errors import UsageError
from zoea.transfer.jsonl_export import TABLES, VERSION

LONGEST_LINE = 256 * 1024 * 1024
"""Bytes: a request's plan or an image in base64 are far below it."""

_KINDS = frozenset({*TABLES, "conversation", "swarm", "sender", "end"})
_ANEW = "Export it anew with `zoea export NAME --format jsonl`."
_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class LinePosition:
    """A line of a file."""

    file: Path
    number: int

    def refuse(self, what: str, hint: str = _ANEW) -> NoReturn:
        """Raise the error that names this place."""
        raise UsageError(f"{self.file}, line {self.number}: {what}; nothing was imported from this file", hint=hint)


@dataclass(frozen=True, slots=True)
class JsonLine:
    """One line as it was read. `values` are without `kind`."""

    place: LinePosition
    kind: str
    values: dict[str, Any]


def read_lines(file: Path) -> Iterator[tuple[JsonLine, int]]:
    """Every line of the file, and how many bytes were read when it ended.

    Raises:
        UsageError: the file cannot be read, is something else, or ends in the middle.
    """
    number = read = 0
    try:
        with file.open("rb") as stream:
            while raw := stream.readline(LONGEST_LINE):
                number += 1
                read += len(raw)
                place = LinePosition(file, number)
                if number == 1 and raw.startswith(_SQLITE[: len(raw)]):
                    place.refuse("this is a SQLite database, no JSON lines", f"Try `zoea import nova {file}`.")
                if raw.strip():
                    yield _line(place, raw), read
    except OSError as problem:
        raise UsageError(
            f"{file} cannot be read: {problem.strerror}", hint="Name a file of `zoea export`."
        ) from problem
    if not number:
        LinePosition(file, 1).refuse("the file is empty")


def check_header(line: JsonLine, kind: str) -> None:
    """Refuse a line that is no header of this kind, or of another version."""
    if line.kind != kind:
        line.place.refuse(f"this is no export of Zoea: it begins with {line.kind!r}")
    version = line.values.get("version")
    if version != VERSION:
        line.place.refuse(
            f"the file is of version {str(version)[:20]}; this Zoea reads {VERSION}",
            "Import it with the Zoea that wrote it, or a newer one.",
        )


def _line(place: LinePosition, raw: bytes) -> JsonLine:
    if not raw.endswith(b"\n") and len(raw) >= LONGEST_LINE:
        place.refuse("the line is too long")
    try:
        value = json.loads(raw.decode("utf-8-sig"), parse_constant=_no_constant)
    except UnicodeDecodeError:
        place.refuse("this is no UTF-8 text")
    except (ValueError, RecursionError):
        if not raw.endswith(b"\n"):
            place.refuse("the file ends in the middle of a line: it was cut off")
        place.refuse("this is no JSON")
    if not isinstance(value, dict):
        place.refuse("this is no JSON object")
    kind = value.pop("kind", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        place.refuse(f"there is no kind of line {str(kind)[:40]!r}")
    if "of" in value:
        value["kind"] = value.pop("of")
    return JsonLine(place, kind, value)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")
