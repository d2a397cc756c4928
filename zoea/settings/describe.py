"""A field's kind in words, for the reference, the sample file and forms."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BeforeValidator, SecretStr
from pydantic.fields import FieldInfo

from zoea.settings.fields import bound, seconds, words


def kind(field: FieldInfo) -> str:
    """What may stand there: `whole number, 1 to 2000`, `true or false`, `soft, hard or approve`."""
    return _kind(field.annotation, field.metadata)


def source(field: FieldInfo) -> str:
    """Which system the setting and its default come from."""
    extra = field.json_schema_extra
    return str(extra.get("source", "")) if isinstance(extra, dict) else ""


def _kind(annotation: Any, metadata: Sequence[Any]) -> str:
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return _kind(inner, [*more, *metadata])
    special = {one.func for one in metadata if isinstance(one, BeforeValidator)}
    limits = _limits(metadata)
    if seconds in special:
        return "seconds" + limits
    if words in special:
        return "list of texts"
    if bound in special:
        return 'whole number or "none"'
    if get_origin(annotation) in (Union, UnionType):
        return _either([_kind(one, ()) for one in get_args(annotation) if one is not NoneType])
    return _plain(annotation) + limits


def _plain(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return _either([str(one) or '""' for one in inner])
    if origin is tuple:
        one = _kind(inner[0], ())
        return "list of texts" if one == "text" else f"list of {one}"
    if origin is dict:
        return "table"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _either([str(one.value) for one in annotation])
    return {bool: "true or false", int: "whole number", float: "number", str: "text", SecretStr: "text"}.get(
        annotation, "value"
    )


def _either(kinds: Sequence[str]) -> str:
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} or {kinds[-1]}"


def _limits(metadata: Sequence[Any]) -> str:
    """`, 1 to 2000`, `, above 0`, …, as far as bounds are set."""
    found: dict[str, Any] = {}
    for one in metadata:
        for part in (one, *getattr(one, "metadata", ())):
            for name in ("ge", "gt", "le"):
                if (value := getattr(part, name, None)) is not None:
                    tighter = min if name == "le" else max
                    found[name] = tighter(found.get(name, value), value)
    low, high = found.get("ge"), found.get("le")
    if "gt" in found:
        return f", above {found['gt']}"
    if low is not None and high is not None:
        return f", {low} to {high}"
    return f", at least {low}" if low is not None else ""
