"""Writes a tool as one line for a model: name, arguments, first sentence. Pure.

JSON Schema in a prompt teaches small models that arguments look like schemas. Measured with Qwen2.5-Coder 1.5B and 14
tools: signatures took 961 tokens and the right tool was called in 3 of 3, whole schemas 2,023 and 2 of 3.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from zoea.text.control_characters import one_line, prose_line
from zoea.text.flat_schema import flat
from zoea.text.shorten import head

MOST_ARGUMENTS = 8
"""Arguments that a line shows; optional ones above are counted as `…`, required ones are always there."""
MOST_VALUES = 5
_LONGEST_SENTENCE = 100
_LONGEST_VALUE = 24
_LONGEST_NAME = 64
_SENTENCE = re.compile(r"(?<=[.!?])\s|\n")
_QUOTED = re.compile(
    r"(?:e\.g\.|for example|for instance|such as|like)[:,]?\s*[\"'`]([^\"'`\n]{1,60})[\"'`]", re.IGNORECASE
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_TYPES = {"integer": "number", "number": "number", "boolean": "true|false", "array": "list", "object": "object"}

_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}

# Values for examples by the last word of an argument's name that is in the table; two of each, to tell calls apart.
_VALUES: dict[str, tuple[str, str]] = {
    "city": ("Oslo", "Lima"),
    "location": ("Oslo", "Lima"),
    "place": ("Oslo", "Lima"),
    "country": ("Norway", "Peru"),
    "timezone": ("Europe/Oslo", "America/Lima"),
    "tz": ("Europe/Oslo", "America/Lima"),
    "zone": ("Europe/Oslo", "America/Lima"),
    "directory": ("src", "tests"),
    "dir": ("src", "tests"),
    "folder": ("src", "tests"),
    "repo": (".", "src"),
    "repository": (".", "src"),
    "repo_path": (".", "src"),
    "path": ("notes.txt", "src/main.py"),
    "file": ("notes.txt", "src/main.py"),
    "filename": ("notes.txt", "main.py"),
    "url": ("https://example.org/a", "https://example.org/b"),
    "uri": ("https://example.org/a", "https://example.org/b"),
    "query": ("harbour fees", "night shift"),
    "words": ("harbour fees", "night shift"),
    "date": ("2026-05-04", "2026-06-01"),
    "day": ("2026-05-04", "2026-06-01"),
    "time": ("09:30", "17:45"),
    "since": ("2026-05-04", "2026-06-01"),
    "until": ("2026-06-01", "2026-07-01"),
    "email": ("mara@example.org", "timo@example.org"),
    "name": ("mara", "timo"),
    "user": ("mara", "timo"),
    "to": ("mara", "timo"),
    "mysis": ("mara", "timo"),
    "text": ("The list is ready.", "The door is open."),
    "message": ("The list is ready.", "The door is open."),
    "content": ("The list is ready.", "The door is open."),
    "body": ("The list is ready.", "The door is open."),
    "summary": ("The list is ready.", "The door is open."),
    "question": ("Which list?", "Which door?"),
    "reason": ("it is late", "it is done"),
    "title": ("Weekly list", "Open points"),
    "subject": ("Weekly list", "Open points"),
    "branch": ("main", "develop"),
    "revision": ("HEAD", "HEAD~1"),
    "commit": ("HEAD", "HEAD~1"),
    "ref": ("HEAD", "HEAD~1"),
    "language": ("en", "fr"),
    "currency": ("EUR", "USD"),
    "command": ("ls", "date"),
    "sql": ("SELECT 1", "SELECT 2"),
    "pattern": ("*.md", "*.py"),
    "glob": ("*.md", "*.py"),
    "id": ("a17", "b23"),
}
_OTHER = ("oak", "pine")
_FORMATS = {
    "date": ("2026-05-04", "2026-06-01"),
    "time": ("09:30:00Z", "17:45:00Z"),
    "date-time": ("2026-05-04T09:30:00Z", "2026-06-01T17:45:00Z"),
    "uuid": ("3f0c1a52-6f0e-4a53-9b53-0d8f0c0a7f11", "7d2b9a10-15c4-4a0e-8f3e-5b1f6a2c9e22"),
    "email": _VALUES["email"],
    "uri": _VALUES["uri"],
}


def write_signature(name: str, description: str, schema: Mapping[str, Any], *, is_whole: bool = False) -> str:
    """Return `name(arg, other=default, …): first sentence`; with `is_whole` all arguments and all values.

    Types stand only where a text would be wrong. An argument with `=` or `?` may be left out.
    """
    made = flat(schema, with_hints=True)
    wanted = _required(made)
    properties = properties_of(made)
    names = [*(key for key in properties if key in wanted), *(key for key in properties if key not in wanted)]
    most = len(names) if is_whole else max(MOST_ARGUMENTS, sum(key in wanted for key in names))
    shown = [_write_argument(key, properties[key], key in wanted, is_whole) for key in names[:most]]
    shown += ["…"] if len(names) > most else []
    sentence = "" if is_whole else first_sentence(description)
    return f"{name}({', '.join(shown)})" + (f": {sentence}" if sentence else "")


def first_sentence(description: str) -> str:
    return head(prose_line(_SENTENCE.split(description.strip(), maxsplit=1)[0]).strip(), _LONGEST_SENTENCE)


def describe_call(name: str, schema: Mapping[str, Any]) -> str:
    """Return a tool's whole signature with example arguments, for the error of a call."""
    example = json.dumps(example_arguments(schema), ensure_ascii=False)
    return f"{write_signature(name, '', schema, is_whole=True)}, for example {example}"


def example_arguments(schema: Mapping[str, Any], variant: int = 0) -> dict[str, Any]:
    """Return required arguments with values that the schema allows. `variant` 1 gives other ones than 0."""
    value = _example(flat(schema, with_hints=True), "", variant)
    return value if isinstance(value, dict) else {}


def fits(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    """Return whether a call's arguments fit a schema. Required ones are there, none unknown, all of right type."""
    made = flat(schema)
    properties = properties_of(made)
    is_open = made.get("additionalProperties") not in (None, False) or not properties
    if any(key not in arguments for key in _required(made)):
        return False
    return all(_has_type(value, properties[key]) if key in properties else is_open for key, value in arguments.items())


def _has_type(value: Any, schema: Any) -> bool:
    """Return whether a value has the type of its schema. A choice allows anything, because servers convert values."""
    if not isinstance(schema, Mapping):
        return True
    values = schema.get("enum")
    if isinstance(values, list) and value not in values:
        return False
    kind = schema.get("type")
    kinds = _JSON_TYPES.get(kind) if isinstance(kind, str) else None
    return kinds is None or (isinstance(value, kinds) and (kind == "boolean" or not isinstance(value, bool)))


def _write_argument(name: str, schema: Any, is_required: bool, is_whole: bool) -> str:
    schema = _main_choice(schema)
    name = one_line(name)[:_LONGEST_NAME]
    kind = _write_type(schema, is_whole)
    default = schema.get("default")
    if is_required or default is None:
        mark = name if is_required else f"{name}?"
        return f"{mark}: {kind}" if kind else mark
    written = json.dumps(default, ensure_ascii=False)
    if len(written) > _LONGEST_VALUE:
        return f"{name}?: {kind}" if kind else f"{name}?"
    return f"{name}: {kind} = {written}" if "|" in kind and '"' in kind else f"{name}={written}"


def _write_type(schema: Mapping[str, Any], is_whole: bool) -> str:
    """Return what a value may be; empty for a text and for any value."""
    values = schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else []
    if values and (is_whole or len(values) <= MOST_VALUES):
        return "|".join(json.dumps(value, ensure_ascii=False) for value in values)
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        inner = _write_type(_main_choice(items), is_whole) if isinstance(items, Mapping) else ""
        return f"list of {inner}" if inner else "list"
    if kind == "object" and (keys := list(properties_of(schema))):
        shown = keys if is_whole else keys[:MOST_VALUES]
        return f"{{{', '.join([*shown, *(['…'] if len(shown) < len(keys) else [])])}}}"
    return _TYPES.get(kind, "") if isinstance(kind, str) else ""


def _main_choice(schema: Any) -> Mapping[str, Any]:
    """Return the first choice of a schema that is not null."""
    if not isinstance(schema, Mapping):
        return {}
    for key in ("anyOf", "oneOf"):
        choices = [one for one in schema.get(key) or () if isinstance(one, Mapping) and one.get("type") != "null"]
        if choices:
            return {**{name: value for name, value in schema.items() if name != key}, **_main_choice(choices[0])}
    kind = schema.get("type")
    if isinstance(kind, list):
        return {**schema, "type": next((one for one in kind if one != "null"), "null")}
    return schema


def _example(schema: Any, name: str, variant: int) -> Any:
    schema = _main_choice(schema)
    if "const" in schema:
        return schema["const"]
    for key in ("enum", "examples"):
        values = schema.get(key)
        if isinstance(values, list) and values:
            return values[variant % len(values)]
    match schema.get("type"):
        case "integer" | "number":
            return _example_number(schema)
        case "boolean":
            return True
        case "null":
            return None
        case "array":
            items = schema.get("items")
            return [_example(items if isinstance(items, Mapping) else {}, name.removesuffix("s"), variant)]
        case kind if kind == "object" or (kind is None and (not name or properties_of(schema))):
            properties = properties_of(schema)
            return {key: _example(properties.get(key), key, variant) for key in _required(schema)}
        case _:
            return _example_text(schema, name, variant)


def _example_number(schema: Mapping[str, Any]) -> Any:
    least, most = schema.get("minimum"), schema.get("maximum")
    default = schema.get("default")
    value = default if isinstance(default, int | float) else 3
    value = max(value, least) if isinstance(least, int | float) else value
    return min(value, most) if isinstance(most, int | float) else value


def _example_text(schema: Mapping[str, Any], name: str, variant: int) -> str:
    if (values := _FORMATS.get(str(schema.get("format")))) is not None:
        return values[variant % 2]
    described = schema.get("description")
    quoted = _QUOTED.search(described) if isinstance(described, str) else None
    default = schema.get("default")
    if not variant and quoted is not None:
        return quoted[1]
    if not variant and isinstance(default, str) and default:
        return default
    words = [name.casefold(), *(word.casefold() for word in reversed(_WORD.findall(name)))]
    values = next((_VALUES[word] for word in words if word in _VALUES), _OTHER)
    return values[variant % 2]


def _required(schema: Mapping[str, Any]) -> list[str]:
    wanted = schema.get("required")
    return [key for key in wanted if isinstance(key, str)] if isinstance(wanted, list) else []


def properties_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schemas of a tool's arguments; none where its server wrote something else."""
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}
