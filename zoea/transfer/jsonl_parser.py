"""Reads the lines of a JSON lines export, and checks their columns and JSON.

Only columns of the schema are accepted, each with a value of its type. SQLite checks closed
sets, references and uniqueness at the insert.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from zoea.context import FrozenTurn
from zoea.model.errors import PlanError, UsageError
from zoea.model.topics import IMPORTED_CLUSTER
from zoea.settings.small_file import open_regular
from zoea.store.table_schema import Column, Table
from zoea.text import clean
from zoea.text.document_bounds import check_memory, estimate_memory
from zoea.transfer.jsonl_export import VERSION

LONGEST_LINE = 128 * 1024 * 1024
"""Limit in bytes; plans and images in base64 are far smaller."""

_LINE_BYTES = 800
"""Bytes of memory of a parsed line besides its values."""
_OTHER_KINDS = frozenset({"conversation", "swarm", "sender", "end"})
_EXPORT_AGAIN = "Export it again with `zoea export NAME --format jsonl`."
_SQLITE = b"SQLite format 3\0"

LATEST = 253_370_764_800_000_000
"""The year 9999 in µs, the latest time that can be shown."""

_MOST = 1 << 47
"""Limit of numbers: sums over many rows stay integers in SQLite."""
_MOST_RATIO = 1000.0
_FIELD = re.compile(r"at `\$\.(\w+)")
"""The first field in the path of msgspec's errors."""
_PACKED = {"request": frozenset({"plan"})}
"""Columns whose values stand in a line in another form, and are read elsewhere."""
_DECIDED = {
    "id": str,
    "section": str,
    "status": str,
    "reason": str,
    "tokens": int,
    "wanted_tokens": int,
    "setting": str,
}
"""Values of a decision in a plan, with their types."""


class FilePosition(Struct, frozen=True):
    """The position of a line: file and number."""

    file: Path
    number: int

    def refuse(self, what: str, hint: str = _EXPORT_AGAIN) -> NoReturn:
        """Raise a UsageError that names this position."""
        raise UsageError(f"{self.file}, line {self.number}: {what}; nothing was imported from this file", hint=hint)


class JsonLine(Struct, frozen=True):
    """A parsed line; `values` are without `kind`, and take about `memory` bytes."""

    place: FilePosition
    kind: str
    values: dict[str, Any]
    memory: int = 0


def read_lines(file: Path, kinds: Container[str]) -> Iterator[tuple[JsonLine, int]]:
    """Yield every line of the file with the number of bytes read so far. `kinds` are those of rows.

    Raises:
        UsageError: if the file cannot be read, has another format, or is truncated.
    """
    number = read = 0
    try:
        with open_regular(file) as stream:
            while raw := stream.readline(LONGEST_LINE):
                number += 1
                read += len(raw)
                if number == 1 and raw.startswith(_SQLITE[: len(raw)]):
                    FilePosition(file, 1).refuse(
                        "this is a SQLite database, not JSON lines",
                        f"For a Zoea Nova database: `zoea import nova {file}`.",
                    )
                if raw.strip():
                    yield _line(FilePosition(file, number), raw, kinds), read
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


def _line(place: FilePosition, raw: bytes, kinds: Container[str]) -> JsonLine:
    if not raw.endswith(b"\n") and len(raw) >= LONGEST_LINE:
        place.refuse("the line is too long")
    memory = estimate_memory(raw)
    try:
        check_memory(memory)
    except ValueError as problem:
        place.refuse(f"the line is too large: {problem}")
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
    if not isinstance(kind, str) or (kind not in kinds and kind not in _OTHER_KINDS):
        place.refuse(f"unknown kind of line {str(kind)[:40]!r}")
    if "of" in value:
        value["kind"] = value.pop("of")
    return JsonLine(place, kind, value, memory + _LINE_BYTES)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def read_columns(line: JsonLine, table: Table) -> dict[str, Any]:
    """Return the checked columns of a line. Refuses invalid values, and columns that the table has not."""
    others = frozenset({"hash", "size", "data"}) if table.blob_column is not None else _PACKED.get(line.kind, ())
    for name in line.values:
        if name not in table.columns and name not in others:
            line.place.refuse(
                f"a {line.kind} has no {name[:40]!r}", "A newer Zoea may have written it: import it with that one."
            )
    row: dict[str, Any] = {}
    for column in table.columns.values():
        if column.name in line.values and column.name not in others:
            row[column.name] = _value(line, column, line.values[column.name])
        elif column.is_required:
            line.place.refuse(f"this {line.kind} has no {column.name}")
    return row


def _value(line: JsonLine, column: Column, value: Any) -> Any:
    if value is None:
        if not column.takes_null:
            line.place.refuse(f"{column.name} of this {line.kind} is empty")
        return None
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
            try:
                return bytes.fromhex(value)
            except ValueError:
                line.place.refuse(f"{column.name} of this {line.kind} is not hexadecimal")
    return line.place.refuse(f"{column.name} of this {line.kind} is of the wrong type ({type(value).__name__})")


Ids = Mapping[int, int]
"""Ids of the file to ids of this workspace."""


class InvalidColumn(ValueError):
    """A value that its reader could not decode; the text is the reason."""


def check_json(column: Column, text: str | None) -> None:
    """Check that the reader of a JSON column can decode the text. Raises InvalidColumn."""
    if text is None or not (column.is_json or column.name == "recipients_filter"):
        return
    name = column.name
    try:
        value = json.loads(text)
        match name:
            case "error" | "failure":
                sound = all(isinstance(value.get(part, ""), str) for part in ("class", "title", "what", "hint"))
            case "native":
                sound = isinstance(value["provider"], str) and isinstance(value["model"], str) and "blocks" in value
            case "wait":
                until = value.get("until")
                sound = (until is None or (_is_int(until) and 0 <= until <= LATEST)) and isinstance(
                    value.get("reason", ""), str
                )
            case "overrides" | "about" | "data" | "recipients_filter":
                sound = isinstance(value, dict)
            case _:
                sound = True
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise InvalidColumn(f"{name} is invalid")


class RowIds(Struct, frozen=True):
    """Maps ids of the file to ids of this workspace, by table. Template hashes are hexadecimal."""

    memories: Ids
    turns: Ids
    messages: Ids
    topic_messages: Ids
    templates: Mapping[str, str]


def convert_frozen(text: str, ids: RowIds, *, mysis_id: int, turn_id: int) -> str:
    """Convert the frozen settings of a turn to the ids of this workspace.

    Rows that are not in the file are left out. The conversation that the mysis inherited does not come with it.

    Raises:
        InvalidColumn: if the text cannot be decoded.
    """
    try:
        value = FrozenTurn.from_json(text, system="")
    except PlanError as error:
        field = _FIELD.search(error.what)
        why = f"{field[1]} in the frozen settings of the turn is of the wrong type" if field else ""
        raise InvalidColumn(why or "the frozen settings of the turn cannot be read") from None
    if not 0 < value.calibration < _MOST_RATIO:
        raise InvalidColumn("calibration in the frozen settings of the turn is out of range")
    topics = value.topics
    if topics is not None:
        topics = replace(
            topics,
            cluster_id=IMPORTED_CLUSTER,
            until=_not_after(ids.topic_messages, topics.until),
            last_task_end=_not_after(ids.topic_messages, topics.last_task_end - 1) + 1 if topics.last_task_end else 0,
            last_agent_start=_not_after(ids.topic_messages, topics.last_agent_start),
            triggers=tuple(
                [(ids.topic_messages[one], name) for one, name in topics.triggers if one in ids.topic_messages]
            ),
        )
    mission_id = ids.messages.get(value.mission_id or 0)
    moved = replace(
        value,
        mysis_id=mysis_id,
        turn_id=turn_id,
        before=_not_after(ids.memories, value.before),
        earlier=tuple(
            [replace(one, turn_id=ids.turns[one.turn_id]) for one in value.earlier if one.turn_id in ids.turns]
        ),
        inherited=0,
        inherited_upto=0,
        inherited_turn=0,
        mission_id=mission_id,
        mission_tokens=None if mission_id is None else value.mission_tokens,
        topics=topics,
        template_hash=ids.templates.get(value.template_hash, value.template_hash),
    )
    return moved.to_json()


def _not_after(ids: Ids, bound: int) -> int:
    """Return the row here of the newest id up to the file's; 0 for none."""
    return ids.get(bound) or max((new for old, new in ids.items() if old <= bound), default=0)


def convert_plan(value: Any, memories: Ids, calls: Ids) -> bytes | None:
    """Convert a request's plan to the ids of this workspace; return it as JSON.

    A memory that is not in the file gets id 0, which no memory has. Returns None without a
    plan and for `{"zstd": hex}`, a plan that was damaged before the export.

    Raises:
        InvalidColumn: if the plan cannot be decoded.
    """
    if value is None or (isinstance(value, dict) and set(value) == {"zstd"}):
        return None
    try:
        moved = dict(value)
        if not (_is_int(moved["v"]) and isinstance(moved["budget"], dict)):
            raise InvalidColumn("the plan is invalid")
        if not all(isinstance(one[name], kind) for one in moved["decisions"] for name, kind in _DECIDED.items()):
            raise InvalidColumn("a decision of the plan is invalid")
        moved["steps"] = [{**one, "memory_id": memories.get(one["memory_id"], 0)} for one in moved["steps"]]
        moved["messages"] = [_message(one, memories, calls) for one in moved["messages"]]
        return json.dumps(moved, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        raise InvalidColumn("the plan is invalid") from None


def _message(value: dict[str, Any], memories: Ids, calls: Ids) -> dict[str, Any]:
    if "m" in value:
        return {**value, "m": memories.get(value["m"], 0), "f": str(value["f"])}
    moved = {**value, "t": _text(value["t"]), "role": _text(value["role"])}
    if "id" in value:
        moved["id"] = memories.get(value["id"], 0)
    if "call_id" in value:
        moved["call_id"] = _wire_id(value["call_id"], calls)
    if "calls" in value:
        moved["calls"] = [[_wire_id(one[0], calls), _text(one[1]), _text(one[2])] for one in value["calls"]]
    return moved


def _wire_id(value: Any, calls: Ids) -> str:
    """Convert a call's id in a request: `c` and the row's id."""
    text = _text(value)
    if text[:1] == "c" and text[1:].isascii() and text[1:].isdigit() and len(text) < 20:
        return f"c{calls.get(int(text[1:]), 0)}"
    return text


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidColumn("a message of the plan is invalid")
    return value


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
