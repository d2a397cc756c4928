"""Reads from a database the columns, references and parts of its tables.

Export, import, redaction and removal follow it, so that a new table needs no line in them.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Container, Iterator, Mapping

from msgspec import Struct

OWNER = "mysis"
"""The table whose rows own others."""
_TABLES = """
SELECT t.name, s.sql FROM pragma_table_list t JOIN sqlite_schema s ON s.name = t.name
WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY s.rowid
"""
_JSON = re.compile(r"\b(\w+) TEXT[^\n]*?json_valid\(\1\)")
_CHOICE = re.compile(r"\b(\w+) TEXT[^,\n]*?CHECK \((?:\1 IS NULL OR )?\1 IN \(")


class Column(Struct, frozen=True):
    """A column that is not generated.

    Attributes:
        is_required: A new row must have a value.
        is_json: Holds JSON, as a CHECK says.
        is_choice: Holds one of some words, as a CHECK says.
        refers_to: The table of the row that it names; empty for none.
    """

    name: str
    type: str
    takes_null: bool
    is_required: bool
    is_json: bool
    is_choice: bool
    refers_to: str = ""


class Table(Struct, frozen=True):
    """A table; `key` are the columns of its primary key."""

    name: str
    columns: Mapping[str, Column]
    key: tuple[str, ...]

    @property
    def references(self) -> Mapping[str, str]:
        """The table of each column that refers to one."""
        return {column.name: column.refers_to for column in self.columns.values() if column.refers_to}

    @property
    def blob_column(self) -> str | None:
        """The column that names a blob; None without one."""
        return next((column for column, other in self.references.items() if other == "blob"), None)


Parts = dict[str, tuple[str, ...]]
"""Tables with the columns that say of which row theirs are part, each after all tables that it refers to."""


_READ: dict[tuple[object, ...], Mapping[str, Table]] = {}
"""What was read last, by the declarations that it follows from, because reading takes 3 ms."""


def read_tables(connection: sqlite3.Connection) -> Mapping[str, Table]:
    """Read all tables in the order in which they were made. Search indexes are left out."""
    declared = tuple(map(tuple, connection.execute(_TABLES).fetchall()))
    tables = _READ.get(declared)
    if tables is None:
        tables = {name: _read_table(connection, name, sql) for name, sql in declared}
        _READ.clear()
        _READ[declared] = tables
    return tables


def _read_table(connection: sqlite3.Connection, name: str, sql: str) -> Table:
    json_names, choices = _JSON.findall(sql), _CHOICE.findall(sql)
    foreign = {row[3]: row[2] for row in connection.execute(f"PRAGMA foreign_key_list({name})")}
    columns, key = {}, []
    for _, column, kind, not_null, default, place in map(tuple, connection.execute(f"PRAGMA table_info({name})")):
        if place:
            key.append((place, column))
        columns[column] = Column(
            column,
            kind,
            takes_null=not (not_null or place),
            is_required=bool((not_null or place) and default is None),
            is_json=column in json_names,
            is_choice=column in choices,
            refers_to=foreign.get(column, ""),
        )
    return Table(name, columns, tuple(column for _, column in sorted(key)))


def find_parts(tables: Mapping[str, Table], root: str) -> Parts:
    """Return the tables whose rows belong to a row of `root`.

    A row is part of that which a reference without NULL names. What always has an owner is also part of those that its
    other references name: a request of a mysis, of the turn in which it was made.
    """
    parts: dict[str, tuple[str, ...]] = {}

    def ties(table: Table, *, takes_null: bool) -> list[str]:
        return [
            column
            for column, other in table.references.items()
            if (other == root or other in parts) and table.columns[column].takes_null is takes_null
        ]

    for takes_null in (False, True):
        is_new = True
        while is_new:
            is_new = False
            for table in tables.values():
                names = ties(table, takes_null=takes_null)
                if table.name in (root, *parts) or not names or (takes_null and not _has_owner(table)):
                    continue
                parts[table.name] = tuple(names)
                is_new = True
    for name, columns in parts.items():
        direct = tuple([column for column in columns if tables[name].references[column] == root])
        if direct and not tables[name].columns[direct[0]].takes_null:
            parts[name] = direct[:1]
    return {name: parts[name] for name in _in_order(tables, parts)}


def _has_owner(table: Table) -> bool:
    return any(other == OWNER and not table.columns[column].takes_null for column, other in table.references.items())


def _in_order(tables: Mapping[str, Table], names: Container[str]) -> Iterator[str]:
    """Yield those of the tables that are named, each after all that it refers to."""
    waiting = {name: {*table.references.values()} - {name} for name, table in tables.items() if name in names}
    while waiting:
        name = next(name for name, others in waiting.items() if not others & waiting.keys())
        del waiting[name]
        yield name


def write_condition(tables: Mapping[str, Table], parts: Parts, name: str, root: str) -> str:
    """Return a condition on the rows of a table that belong to the row `:root`."""

    def one(column: str) -> str:
        other = tables[name].references[column]
        if other == root:
            return f"{column} = :root"
        (key,) = tables[other].key
        return f"{column} IN (SELECT {key} FROM {other} WHERE {write_condition(tables, parts, other, root)})"

    return " OR ".join(map(one, parts[name]))


def write_removal(tables: Mapping[str, Table], root: str, stays: Container[str] = ()) -> Iterator[str]:
    """Yield statements that remove the row `:root` and its parts. The parts come first.

    Rows that only mention a removed one stay without it. `stays` are tables whose rows are not removed.
    """
    parts = find_parts(tables, root)
    for name in (*reversed(parts), root):
        if name in stays:
            continue
        key = tables[name].key[0]
        where = f"{key} = :root" if name == root else write_condition(tables, parts, name, root)
        for other in tables.values():
            for column, named in other.references.items():
                if named == name and other.columns[column].takes_null and column not in parts.get(other.name, ()):
                    rows = f"SELECT {key} FROM {name} WHERE {where}"
                    yield f"UPDATE {other.name} SET {column} = NULL WHERE {column} IN ({rows})"
        yield f"DELETE FROM {name} WHERE {where}"
