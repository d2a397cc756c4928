"""Limits of what one upstream may put into every request: tools, descriptions, schemas. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from zoea.text.control_characters import one_line
from zoea.tools.catalogue import RemoteTool, prefixed_name
from zoea.tools.policy import is_reserved
from zoea.tools.upstream.upstream_config import UpstreamConfig

_NAMED = 5
_LONGEST_PROBLEM = 160


class BoundedTools(Struct, frozen=True):
    """The tools of an upstream within its limits, and sentences on all changes."""

    tools: tuple[RemoteTool, ...]
    notes: tuple[str, ...] = ()


def bound_tools(listed: Sequence[RemoteTool], config: UpstreamConfig) -> BoundedTools:
    """Keep tools in the order of the list as long as they fit. Those that only Zoea calls always stay."""
    kept: list[RemoteTool] = []
    too_many: list[str] = []
    too_large: list[str] = []
    count = size = 0
    broken = [f"{one_line(tool.name)[:64]}: {one_line(tool.problem)}" for tool in listed if tool.problem]
    for tool in (tool for tool in listed if not tool.problem):
        if tool.name in config.hidden_tools:
            kept.append(tool)
            continue
        if count >= config.max_tools:  # not measured, because there may be ten thousand of them
            too_many.append(tool.name)
            continue
        length = _size(tool.input_schema)
        if size + length > config.max_schemas:
            too_large.append(tool.name)
        else:
            kept.append(tool)
            count += 1
            size += length
    cut = [tool.name for tool in kept if len(tool.description) > config.max_description]
    renamed = [tool.name for tool in kept if is_reserved(tool.name)]
    key = f"upstream.{config.name}"
    notes = []
    if broken:
        notes.append(
            f"{_tools(broken)} left out, because its server lists it wrongly ({_names(broken, _LONGEST_PROBLEM)}). "
            "The others are offered; tell the maker of the server"
        )
    if too_many:
        notes.append(
            f"{_tools(too_many)} left out: it offers more than {config.max_tools:,} ({_names(too_many)}). "
            f"Raise {key}.max_tools to offer them"
        )
    if too_large:
        notes.append(
            f"{_tools(too_large)} left out: the schemas together exceed {config.max_schemas:,} bytes "
            f"({_names(too_large)}). Raise {key}.max_schemas to offer them"
        )
    if cut:
        notes.append(
            f"the {'descriptions' if len(cut) > 1 else 'description'} of {_tools(cut)} cut at "
            f"{config.max_description:,} characters ({_names(cut)})"
        )
    if renamed:
        shown = ", ".join(f"{one_line(name)} as {prefixed_name(config.name, name)}" for name in renamed[:_NAMED])
        more = f" and {len(renamed) - _NAMED} more" if len(renamed) > _NAMED else ""
        notes.append(f"names that begin with zoea_ are Zoea's own: it offers {shown}{more}")
    return BoundedTools(tuple(kept), tuple(notes))


def _size(schema: dict[str, Any]) -> int:
    return len(json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))


def _tools(names: Sequence[str]) -> str:
    return f"{len(names):,} tool{'s' * (len(names) != 1)}"


def _names(names: Sequence[str], longest: int = 64) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(one_line(name)[:longest] for name in names[:_NAMED]) + more
