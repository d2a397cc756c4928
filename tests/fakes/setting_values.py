"""Values that a key of the settings may have, made from its field: each choice, and the extremes of each number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from zoea.settings.fields import parse_bound
from zoea.settings.key_paths import KeyPath

TEXTS: Mapping[str, tuple[Any, ...]] = {
    "workspace": ("lab",),
    "swarm.default_template": ("reef",),
    "swarm.default_provider": ("mine",),
    "chain.capture": ("off", "every:1", "every:9999"),
    "chain.mirror": ("/nowhere",),
    "session.context_window_default": (5, 200),
    "session.context_window_debugging": (5, 200),
    "session.compression_trigger_ratio": (0.1, 0.95),
    "session.compression_target_ratio": (0.1, 0.9),
    "tui.theme": ("tide",),
    "tui.keys": ({"swarm.hold": "f5"},),
    "provider.NAME.base_url": ("http://127.0.0.1:1/v1",),
    "provider.NAME.api_key": ("env:OTHER",),
    "provider.NAME.headers": ({"X-Key": "env:OTHER"},),
    "provider.NAME.options": ({"seed": 1},),
    "upstream.NAME.url": ("http://127.0.0.1:1/mcp",),
    "upstream.NAME.env": ({"LD_PRELOAD": "/x.so"},),
    "upstream.NAME.headers": ({"X-Key": "env:OTHER"},),
    "upstream.NAME.inject": ({"note": "account"},),
    "upstream.NAME.login.mapping": ({"user": "name"},),
    "upstream.NAME.wait": ({"tick_fields": ["turn"]},),
    "acp.env": ({"LD_PRELOAD": "/x.so"},),
    "output_schema": ({"type": "object"},),
    "upstreams": (["mine"],),
    "subscribes": (["ISSUE_OPENED"],),
    "publishes": ("ISSUE_OPENED",),
    "upstream.NAME.login.fixed": ({"to": "other", "note": "file:code"},),
}
"""Values of keys whose text or table has a form of its own, or whose numbers count as the nearest bound."""


def list_values(path: KeyPath, field: FieldInfo) -> list[Any]:
    """Return values of a key as TOML has them."""
    found: list[Any] = []
    for value in TEXTS.get(".".join(path)) or _values(field.annotation, field.metadata):
        if not any(value == one and type(value) is type(one) for one in found):
            found.append(value)
    return found


def list_limits(field: FieldInfo) -> list[tuple[type, float | None, float | None]]:
    """Return type, lowest and highest value of each number that a key may hold. None is no limit."""
    return list(_limits(field.annotation, field.metadata))


def _values(annotation: Any, metadata: Any) -> Iterator[Any]:
    origin, inner = get_origin(annotation), get_args(annotation)
    if any(getattr(one, "func", None) is parse_bound for one in metadata):
        yield "none"
    if origin is Annotated:
        yield from _values(inner[0], [*inner[1:], *metadata])
    elif origin in (Union, UnionType):
        for one in inner:
            if one is not NoneType:
                yield from _values(one, metadata)
    elif origin is Literal:
        yield from inner
    elif origin is tuple:
        yield []
        yield [next(_values(inner[0], ()))]
    elif annotation is bool:
        yield from (True, False)
    elif annotation in (int, float):
        yield from (end for _, *ends in _limits(annotation, metadata) for end in ends if end is not None)
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        yield from (one.value for one in annotation)
    elif annotation in (str, SecretStr):
        yield "other"
    else:
        raise AssertionError(f"no values of {annotation} are known: add some to TEXTS")


def _limits(annotation: Any, metadata: Any) -> Iterator[tuple[type, float | None, float | None]]:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _limits(inner[0], [*inner[1:], *metadata])
    elif origin in (Union, UnionType, tuple, dict):
        for one in inner:
            yield from _limits(one, metadata if origin in (Union, UnionType) else ())
    elif annotation in (int, float):
        marks = [part for one in metadata for part in (one, *getattr(one, "metadata", ()))]
        lows = [value for mark in marks for name in ("ge", "gt") if (value := getattr(mark, name, None)) is not None]
        highs = [value for mark in marks for name in ("le", "lt") if (value := getattr(mark, name, None)) is not None]
        yield annotation, max(lows, default=None), min(highs, default=None)
