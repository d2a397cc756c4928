"""Replace a text everywhere in the database: columns, packed JSON, search indexes and blobs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import zstandard
from msgspec import Struct

from zoea.model.errors import UsageError
from zoea.store.blobs import blob_path, put_blob, read_blob_file
from zoea.store.retention import RemovedCounts, record_removal
from zoea.store.search import fts_index
from zoea.store.table_schema import read_tables

REDACTED = "[REDACTED]"
SHORTEST = 4
"""Characters that a text must have, because a shorter one stands in too many others."""

_PACKED = (("request", "id", "plan"), ("catalogue", "hash", "tools"))
"""Table, key and name of the columns with zstd-compressed JSON."""
_IDENTITIES = {
    ("mysis", "uid"),
    ("mysis", "name"),
    ("message", "idempotency_key"),
    ("topic_message", "topic"),
    ("topic_message", "receiver"),
    ("topic_message", "idempotency_key"),
    ("message", "context"),
    ("request", "catalogue_hash"),
    ("catalogue", "hash"),
    ("setting", "key"),
    ("spend", "day"),
    ("event", "kind"),
    ("event", "data"),
    ("minute_stat", "statuses"),
    ("minute_stat", "outcomes"),
    ("request", "error_class"),
    ("request", "finish_reason"),
    ("session", "outcome"),
    ("turn_note", "kind"),
    ("turn_answer", "need"),
    ("approval", "schema_hash"),
    ("grant_", "schema_hash"),
    ("memory_blob", "media_type"),
    ("ctx_origin", "ticket_id"),
    ("ctx_origin", "thread_id"),
    ("ctx_commit", "format"),
    ("ctx_commit", "principal"),
    ("ctx_commit", "machine"),
    ("ctx_commit", "ticket_id"),
    ("ctx_commit", "thread_id"),
    ("ctx_note", "model"),
    ("ctx_ref", "name"),
    ("ctx_reflog", "name"),
    ("ctx_reflog", "reason"),
}
"""Columns by which rows are found, and columns with Zoea's own words and numbers, which stay as they are."""
Rewrite = Callable[[bytes, Callable[[str], str]], bytes | None]
"""Return bytes with a function applied to all texts in them; None where they hold none that can be told."""


class RedactedCounts(Struct, frozen=True):
    """The numbers of a redaction: replacements, memories, turns, and blob files to delete."""

    occurrences: int = 0
    memories: int = 0
    turns: int = 0
    blobs: int = 0
    files: tuple[Path, ...] = ()


def text_columns(connection: sqlite3.Connection) -> Iterator[tuple[str, str, bool]]:
    """Yield table, name and JSON flag of each column that may hold foreign text."""
    for table in read_tables(connection).values():
        for column in table.columns.values():
            if column.type == "TEXT" and not column.is_choice and (table.name, column.name) not in _IDENTITIES:
                yield table.name, column.name, column.is_json


def redact_text(
    connection: sqlite3.Connection, directory: Path, text: str, rewrite: Rewrite, *, now: int, who: str
) -> RedactedCounts:
    """Replace `text` by `REDACTED` wherever it is stored, and record it. For use in a transaction.

    The caller deletes the returned files after the COMMIT, and merges the indexes.

    Args:
        rewrite: Rewrites the bytes of a blob; one that it cannot rewrite is emptied.

    Raises:
        UsageError: The text is too short, or a row that needs it cannot do without it.
    """
    if len(text) < SHORTEST:
        raise UsageError(f"a text to redact has at least {SHORTEST} characters, not {len(text)}")
    forms = written_forms(text)
    occurrences = 0

    def replace(value: str) -> str:
        nonlocal occurrences
        for form in forms:
            occurrences += value.count(form)
            value = value.replace(form, REDACTED)
        return value

    def replace_json(value: str) -> str:
        tree = json.loads(value)
        changed = _replace_values(tree, replace)
        return value if changed == tree else _dump(changed)

    holds = " OR ".join(f"instr({{0}}, :form{number}) > 0" for number in range(len(forms)))
    values = {f"form{number}": form for number, form in enumerate(forms)}
    where = " OR ".join(holds.format(column) for column in ("content", "reasoning", "native"))
    touched = connection.execute(f"SELECT id, turn_id FROM memory WHERE {where}", values).fetchall()
    calls = f"SELECT memory_id FROM tool_call WHERE {holds.format('arguments')} OR {holds.format('name')}"
    touched += connection.execute(f"SELECT id, turn_id FROM memory WHERE id IN ({calls})", values).fetchall()
    connection.create_function("zoea_redact_text", 1, replace)
    connection.create_function("zoea_redact_json", 1, replace_json)
    connection.execute(f"UPDATE tool_call SET fingerprint = zeroblob(32) WHERE {holds.format('arguments')}", values)
    try:
        for table, column, is_json in text_columns(connection):
            change = f"{'zoea_redact_json' if is_json else 'zoea_redact_text'}({column})"
            connection.execute(f"UPDATE {table} SET {column} = {change} WHERE {holds.format(column)}", values)
        for table, key, column in _PACKED:
            _replace_packed(connection, table, key, column, replace_json)
    except sqlite3.IntegrityError as problem:
        raise UsageError(
            f"this text cannot be replaced everywhere: {problem}", hint="Redact a longer or a shorter part of it."
        ) from problem
    memories = {row[0] for row in touched}
    for memory_id in memories:
        connection.execute("UPDATE memory SET redacted_at = ? WHERE id = ?", (now, memory_id))
    blobs, files = _redact_blobs(connection, directory, forms, rewrite)
    turns = len({row[1] for row in touched})
    removed = RemovedCounts(turns, len(memories), occurrences * len(text))
    if occurrences or blobs:
        record_removal(connection, "redact", "", None, removed, now=now, who=who)
    fts_index.catch_up(connection)
    return RedactedCounts(occurrences, len(memories), turns, blobs, files)


def _replace_packed(
    connection: sqlite3.Connection, table: str, key: str, column: str, replace: Callable[[str], str]
) -> None:
    changed = []
    for row_key, packed in connection.execute(f"SELECT {key}, {column} FROM {table} WHERE {column} IS NOT NULL"):
        try:
            plain = zstandard.ZstdDecompressor().decompress(packed).decode()
            replaced = replace(plain)
        except (zstandard.ZstdError, ValueError):
            continue  # damaged, so that no one can read it
        if replaced != plain:
            changed.append((zstandard.ZstdCompressor().compress(replaced.encode()), row_key))
    connection.executemany(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", changed)


def _replace_values(value: Any, replace: Callable[[str], str]) -> Any:
    """Replace in the texts of a JSON value. Keys are Zoea's or a schema's and stay."""
    match value:
        case str():
            return replace(value)
        case list():
            return [_replace_values(each, replace) for each in value]
        case dict():
            return {key: _replace_values(each, replace) for key, each in value.items()}
        case _:
            return value


def _dump(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # an escaped half of a character must stay escaped
        return json.dumps(value, separators=(",", ":"))
    return text


def written_forms(text: str) -> list[str]:
    """Return the text as it stands in texts, in JSON, and in JSON within JSON. Longest first."""
    forms = {text}
    for _ in range(2):
        forms |= {json.dumps(form, ensure_ascii=ascii_only)[1:-1] for form in forms for ascii_only in (False, True)}
    return sorted(forms, key=lambda form: (-len(form), form))


def redact_released(connection: sqlite3.Connection, digests: Iterable[bytes]) -> None:
    """Mark blobs as redacted, so that no bytes come back from elsewhere."""
    sql = "UPDATE blob SET place = 'redacted', data = NULL, released_at = NULL WHERE hash = ?"
    connection.executemany(sql, [(digest,) for digest in digests])


def _redact_blobs(
    connection: sqlite3.Connection, directory: Path, forms: list[str], rewrite: Rewrite
) -> tuple[int, tuple[Path, ...]]:
    """Replace the blobs that hold one of these texts. Return how many, and their files."""
    count, files = 0, list[Path]()
    needles = [form.encode() for form in forms]

    def replace(value: str) -> str:
        for form in forms:
            value = value.replace(form, REDACTED)
        return value

    for blob_id, digest, place, size in connection.execute(
        "SELECT id, hash, place, size FROM blob WHERE place <> 'redacted'"
    ).fetchall():
        file = blob_path(directory, digest)
        try:
            packed = (
                read_blob_file(file, size)
                if place == "file"
                else connection.execute("SELECT data FROM blob WHERE id = ?", (blob_id,)).fetchone()[0]
            )
            if zstandard.get_frame_parameters(packed).content_size != size:
                continue
            data = zstandard.ZstdDecompressor().decompress(packed)
        except (OSError, zstandard.ZstdError):
            continue  # damaged or gone: `zoea doctor` reports it
        if not any(needle in data for needle in needles):
            continue
        changed = rewrite(data, replace)
        is_clean = changed is not None and not any(needle in changed for needle in needles)
        new = put_blob(connection, changed) if changed is not None and is_clean else None
        connection.execute(
            "UPDATE blob SET place = 'redacted', data = NULL, released_at = NULL, replaced_by = ? WHERE id = ?",
            (new, blob_id),
        )
        connection.execute("UPDATE blob SET replaced_by = ? WHERE replaced_by = ?", (new, blob_id))
        count += 1
        if place == "file":
            files.append(file)
    return count, tuple(files)
