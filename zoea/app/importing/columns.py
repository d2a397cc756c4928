"""A line's values as the columns of its table: types, ranges and names after the schema itself.

Whatever a file says, only columns of the schema are written, each with a value of its
type; what SQLite checks beyond that (the closed sets, references, uniqueness) it checks when it inserts.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zoea.app.export_lines import TABLES
from zoea.app.importing.lines import Line
from zoea.text import clean

LATEST = 253_370_764_800_000_000
"""The year 9999 in µs: no later time can be shown."""

_MOST = 1 << 47
"""Of whatever is counted: sums over many rows stay whole numbers to SQLite."""
_ALSO = {"blob": frozenset({"hash", "size", "data"}), "request": frozenset({"plan"}), "memory": frozenset({"owner"})}
"""What a line holds that is no column of its table, or is read by somebody else."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the schema declares it. `must` where it has no default and takes no NULL."""

    name: str
    type: str
    takes_null: bool
    must: bool


class Columns:
    """The columns of every kind of line.

    Args:
        conn: A connection to the database that is written to.
    """

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._of = {kind: _columns(conn, table) for kind, table in TABLES.items()}

    def read(self, line: Line) -> dict[str, Any]:
        """The line's columns, checked; `id` among them where the table has one. Refuses what does not fit."""
        known = self._of[line.kind]
        others = _ALSO.get(line.kind, frozenset())
        for name in line.values:
            if name not in known and name not in others:
                line.place.refuse(
                    f"a {line.kind} has no {name[:40]!r}", "A newer Zoea may have written it: import it with that one."
                )
        found: dict[str, Any] = {}
        for column in known.values():
            if column.name in line.values and column.name not in others:
                found[column.name] = self._value(line, column)
            elif column.must:
                line.place.refuse(f"this {line.kind} has no {column.name}")
        return found

    def _value(self, line: Line, column: Column) -> Any:
        value = line.values[column.name]
        if value is None:
            if not column.takes_null:
                line.place.refuse(f"{column.name} of this {line.kind} is empty")
            return None
        return _typed(line, column, value)


def _typed(line: Line, column: Column, value: Any) -> Any:
    match column.type:
        case "INTEGER" if isinstance(value, int) and not isinstance(value, bool):
            highest = LATEST if column.name.endswith("_at") else _MOST
            lowest = 1 if column.name == "id" or column.name.endswith("_id") else 0
            if not lowest <= value <= highest:
                line.place.refuse(f"{column.name} of this {line.kind} is out of range: {str(value)[:24]}")
            return value
        case "REAL" if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
        case "TEXT" if isinstance(value, str):
            return clean(value)
        case "BLOB" if isinstance(value, str):
            return _bytes(line, column, value)
    return line.place.refuse(f"{column.name} of this {line.kind} is of the wrong type ({type(value).__name__})")


def _bytes(line: Line, column: Column, value: str) -> bytes:
    try:
        return bytes.fromhex(value)
    except ValueError:
        line.place.refuse(f"{column.name} of this {line.kind} is not hexadecimal")


def _columns(conn: sqlite3.Connection, table: str) -> Mapping[str, Column]:
    found = {}
    for row in conn.execute(f"PRAGMA table_info({table})"):  # leaves out what the schema makes itself
        is_id = bool(row["pk"]) and row["name"] == "id"
        has_default = row["dflt_value"] is not None
        takes_null = not row["notnull"] and not row["pk"]
        found[row["name"]] = Column(row["name"], row["type"], takes_null, is_id or not (takes_null or has_default))
    return found
