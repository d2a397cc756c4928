"""Make the catalogue of tools for one template's myses from the upstreams' lists. Pure.

Names are acceptable to all model providers (letters, digits, `_`, `-`, at most 64), and get the
prefix `UPSTREAM__` only if two tools share one, or if they begin as those of Zoea's own tools.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from blake3 import blake3
from msgspec import Struct
from msgspec.structs import replace

from zoea.model.request import Catalogue, ToolSpec
from zoea.text.command_lines import takes_command
from zoea.tools.policy import ODD, ToolPolicy, apply_policy, is_reserved, matches
from zoea.tools.upstream.upstream_config import UpstreamConfig

MAX_NAME = 64
_EMPTY_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


class RemoteTool(Struct, frozen=True):
    """A tool as its upstream lists it. One with a `problem` is named to the person and offered to no mysis."""

    name: str
    description: str
    input_schema: dict[str, Any]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    problem: str = ""


def to_tool_spec(tool: RemoteTool, config: UpstreamConfig) -> ToolSpec:
    """Make the catalogue entry before any policy, without injected arguments.

    The hash covers everything that the upstream listed.
    """
    return ToolSpec(
        name=safe_name(tool.name),
        description=_cut(tool.description, config.max_description),
        input_schema=remove_properties(tool.input_schema, config.inject),
        upstream=config.name,
        origin=tool.name,
        read_only=tool.read_only,
        destructive=tool.destructive,
        idempotent=tool.idempotent or tool.read_only or matches(config.idempotent, tool.name),
        takes_command=takes_command(tool.name, tool.description, tool.input_schema),
        is_own=config.is_own,
        schema_hash=digest([tool.name, tool.description, tool.input_schema, tool.read_only, tool.destructive]),
    )


def build_catalogue(
    own: Iterable[ToolSpec], upstreams: Iterable[Sequence[ToolSpec]], policy: ToolPolicy, names: Iterable[str] = ()
) -> Catalogue:
    """Build the catalogue: Zoea's own tools first, then each upstream's in its order.

    Zoea's own tools keep their names, which no upstream may imitate; if upstreams share a name, all of
    them get a prefix. No glob for Zoea's tools or those of one upstream allows a tool of another that has such a name.

    Args:
        names: The names of all upstreams, also of those that offer no tools now.
    """
    mine = [spec for tool in own if (spec := apply_policy(tool, policy)) is not None]
    listed = tuple(names)
    theirs = [spec for tools in upstreams for tool in tools if (spec := apply_policy(tool, policy, listed)) is not None]
    shared = Counter(spec.name for spec in theirs)
    taken = {spec.name for spec in mine}
    named: list[ToolSpec] = list(mine)
    for spec in theirs:
        clashes = shared[spec.name] > 1 or spec.name in taken or is_reserved(spec.name)
        name = prefixed_name(spec.upstream, spec.origin) if clashes else spec.name
        name = _unused(name, taken) if clashes else name
        taken.add(name)
        named.append(replace(spec, name=name) if name != spec.name else spec)
    return Catalogue(tools=tuple(named), hash=digest([_as_list(spec) for spec in named]))


def safe_name(name: str) -> str:
    """Turn a name into one that every provider accepts; equal for equal names."""
    plain = ODD.sub("_", name) or "tool"
    if len(plain) <= MAX_NAME:
        return plain
    return f"{plain[: MAX_NAME - 9]}_{digest(name)[:8]}"


def prefixed_name(upstream: str, origin: str) -> str:
    """Return the name with its upstream's. An upstream may itself be named as Zoea's tools are."""
    name = safe_name(f"{upstream}__{origin}")
    return safe_name(f"mcp_{upstream}__{origin}") if is_reserved(name) else name


def remove_properties(schema: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Remove top-level properties from a JSON schema; the result is always an object schema."""
    hidden = set(names)
    kept = dict(schema) if schema else dict(_EMPTY_SCHEMA)
    kept.setdefault("type", "object")
    properties = kept.get("properties")
    kept["properties"] = (
        {key: value for key, value in properties.items() if key not in hidden} if isinstance(properties, dict) else {}
    )
    required = kept.get("required")
    if isinstance(required, list):
        kept["required"] = [key for key in required if key not in hidden]
        if not kept["required"]:
            del kept["required"]
    return kept


def digest(value: Any) -> str:
    """Hash the canonical JSON of a value to 32 hex digits."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return blake3(text.encode("utf-8", "surrogatepass")).hexdigest(length=16)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _unused(name: str, taken: set[str]) -> str:
    number, candidate = 2, name
    while candidate in taken:
        candidate = f"{name[: MAX_NAME - 4]}_{number}"
        number += 1
    return candidate


def _as_list(spec: ToolSpec) -> list[Any]:
    return [spec.name, spec.description, spec.input_schema, spec.upstream, spec.origin, spec.asks, spec.schema_hash]
