"""Reads the lines of a JSON lines file with their numbers, for error messages.

Checks only that each line is a JSON object of a known kind.
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
"""Limit in bytes; plans and images in base64 are far smaller."""

_KINDS = frozenset({*TABLES, "conversation", "swarm", "sender", "end"})
_EXPORT_AGAIN = "Export it again with `zoea export NAME --format jsonl`."
_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class FilePosition:
    """The position of a line: file and number."""

    file: Path
    number: int

    def refuse(self, what: str, hint: str = _EXPORT_AGAIN) -> NoReturn:
        """Raise a UsageError that names this position."""
        raise UsageError(f"{self.file}, line {self.number}: {what}; nothing was imported from this file", hint=hint)


@dataclass(frozen=True, slots=True)
class JsonLine:
    """A parsed line; `values` are without `kind`."""

    place: FilePosition
    kind: str
    values: dict[str, Any]


def read_lines(file: Path) -> Iterator[tuple[JsonLine, int]]:
    """Yield every line of the file with the number of bytes read so far.

    Raises:
        UsageError: if the file cannot be read, has another format, or is truncated.
    """
    number = read = 0
    try:
        with file.open("rb") as stream:
            while raw := stream.readline(LONGEST_LINE):
                number += 1
                read += len(raw)
                place = FilePosition(file, number)
                if number == 1 and raw.startswith(_SQLITE[: len(raw)]):
                    place.refuse(
                        "this is a SQLite database, not JSON lines",
                        f"For a Zoea Nova database: `zoea import nova {file}`.",
                    )
                if raw.strip():
                    yield _line(place, raw), read
    except OSError as problem:
        raise UsageError(
            f"{file} cannot be read: {problem.strerror}", hint="Name a file of `zoea export`."
        ) from problem
    if not number:
        FilePosition(file, 1).refuse("the file is empty")


def check_header(line: JsonLine, kind: str) -> None:
    """Refuse a line that is not a header of this kind and version."""
    if line.kind != kind:
        line.place.refuse(f"this is not an export of Zoea: it begins with {line.kind!r}")
    version = line.values.get("version")
    if version != VERSION:
        line.place.refuse(
            f"the file is of version {str(version)[:20]}; this Zoea reads {VERSION}",
            "Import it with the version of Zoea that wrote it, or a newer one.",
        )


def _line(place: FilePosition, raw: bytes) -> JsonLine:
    if not raw.endswith(b"\n") and len(raw) >= LONGEST_LINE:
        place.refuse("the line is too long")
    try:
        value = json.loads(raw.decode("utf-8-sig"), parse_constant=_no_constant)
    except UnicodeDecodeError:
        place.refuse("this is not UTF-8 text")
    except (ValueError, RecursionError):
        if not raw.endswith(b"\n"):
            place.refuse("the file is truncated: it ends in the middle of a line")
        place.refuse("this is not JSON")
    if not isinstance(value, dict):
        place.refuse("this is not a JSON object")
    kind = value.pop("kind", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        place.refuse(f"unknown kind of line {str(kind)[:40]!r}")
    if "of" in value:
        value["kind"] = value.pop("of")
    return JsonLine(place, kind, value)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")
