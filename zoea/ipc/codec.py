"""Encode the model's structs as JSON and decode them by their type hints.

Used by the socket and by `--json`. Decoding is strict: a wrong type, a missing or an
unknown field raises `Mismatch` with its place. Imports nothing heavy, because
`zoea list` imports it.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

Json = Any
Decoder = Callable[[Json, str], Any]
_PLAIN = frozenset({str, int, float, bool, type(None)})


class Mismatch(ValueError):
    """A JSON value of the wrong type or shape."""


def encode(value: Any) -> Json:
    """Convert a value of the model to plain JSON values."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Struct):
        # Most fields are plain, and a view has tens of thousands of them.
        values = [(name, getattr(value, name)) for name in _field_names(type(value))]
        return {name: one if type(one) in _PLAIN else encode(one) for name, one in values}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def decode(kind: Any, value: Json, where: str = "") -> Any:
    """Convert a JSON value to `kind`: a struct, enumeration, tuple, optional or plain type.

    Raises:
        Mismatch: naming the place, which starts with `where`.
    """
    return decoder(kind)(value, where)


@cache
def decoder(kind: Any) -> Decoder:
    """Return the function that decodes `kind`, made once per type."""
    if kind is Any:
        return lambda value, _where: value
    if kind is type(None):
        return _none
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _union(get_args(kind))
    if origin is tuple:
        return _tuple(get_args(kind)[0])
    if origin is dict:
        return _mapping(get_args(kind)[1])
    if not isinstance(kind, type):
        raise TypeError(f"{kind!r} cannot cross the socket")
    if issubclass(kind, Struct):
        return _record(kind)
    if issubclass(kind, Enum):
        return _member(kind)
    return _plain(kind)


@cache
def _field_names(kind: type[Struct]) -> tuple[str, ...]:
    return (*kind.__struct_fields__, *_derived_names(kind))


def _derived_names(kind: type) -> tuple[str, ...]:
    """Return the properties that a class adds to its JSON; decoding leaves them out."""
    return getattr(kind, "derived", ())


def _none(value: Json, where: str) -> None:
    if value is not None:
        raise Mismatch(f"{where or 'value'}: null expected")


def _plain(kind: type) -> Decoder:
    def read(value: Json, where: str) -> Any:
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if kind is bytes and isinstance(value, str):
            try:
                return bytes.fromhex(value)
            except ValueError:
                raise Mismatch(f"{where or 'value'}: hexadecimal digits expected") from None
        if type(value) is not kind:
            raise Mismatch(f"{where or 'value'}: {kind.__name__} expected, not {type(value).__name__}")
        return value

    return read


def _member(kind: type[Enum]) -> Decoder:
    def read(value: Json, where: str) -> Any:
        try:
            return kind(value)
        except ValueError:
            members = ", ".join(str(member.value) for member in kind)
            raise Mismatch(f"{where or 'value'}: one of {members} expected") from None

    return read


def _tuple(item: Any) -> Decoder:
    def read(value: Json, where: str) -> Any:
        if not isinstance(value, list):
            raise Mismatch(f"{where or 'value'}: a list expected")
        one = decoder(item)
        return tuple(one(entry, f"{where}[{position}]") for position, entry in enumerate(value))

    return read


def _mapping(item: Any) -> Decoder:
    def read(value: Json, where: str) -> Any:
        if not isinstance(value, dict):
            raise Mismatch(f"{where or 'value'}: an object expected")
        one = decoder(item)
        return {key: one(entry, f"{where}.{key}") for key, entry in value.items()}

    return read


def _union(kinds: tuple[Any, ...]) -> Decoder:
    def read(value: Json, where: str) -> Any:
        if value is None and type(None) in kinds:
            return None
        problem: Mismatch | None = None
        for kind in kinds:
            if kind is type(None):
                continue
            try:
                return decoder(kind)(value, where)
            except Mismatch as mismatch:
                problem = problem or mismatch
        raise problem or Mismatch(f"{where or 'value'}: null expected")

    return read


def _record(kind: type[Struct]) -> Decoder:
    hints = get_type_hints(kind)
    fields = {name: hints[name] for name in kind.__struct_fields__}
    derived = _derived_names(kind)
    required = set(kind.__struct_fields__[: len(fields) - len(kind.__struct_defaults__)])

    def read(value: Json, where: str) -> Any:
        if not isinstance(value, dict):
            raise Mismatch(f"{where or kind.__name__}: an object expected")
        for name in value:
            if name not in fields and name not in derived:
                raise Mismatch(f"{where or kind.__name__}: no field {name!r}")
        missing = sorted(required - value.keys())
        if missing:
            raise Mismatch(f"{where or kind.__name__}: {missing[0]!r} is missing")
        prefix = f"{where}." if where else ""
        own_items = {name: item for name, item in value.items() if name not in derived} if derived else value
        return kind(**{name: decoder(fields[name])(item, f"{prefix}{name}") for name, item in own_items.items()})

    return read
