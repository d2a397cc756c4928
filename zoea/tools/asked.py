"""What Zoea's tools are asked, by a mysis or a client of the MCP server: read from a call's arguments. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zoea.model.errors import UsageError
from zoea.model.values import MysisView
from zoea.tools.fields import Fields
from zoea.tools.own import PARTS


@dataclass(frozen=True, slots=True)
class Reading:
    """Which part of which memory, from which character on; `position` is that of a call where the part is one."""

    memory: int
    part: str
    offset: int
    position: int


def reading(fields: Fields) -> Reading:
    """What `zoea_read_memory` is to read. Raises UsageError naming the field."""
    memory, offset = fields.whole("id", 1, None), fields.whole("offset", 0, None)
    part = fields.choice("part", PARTS, PARTS[0])
    position = fields.whole("position", 0, None)
    fields.no_more()
    if memory is None:
        raise UsageError("id is missing: give the id of a memory, as a search shows it")
    if position is not None and part != "call":
        raise UsageError("position goes with part call only")
    return Reading(memory, part, offset or 0, position or 0)


@dataclass(frozen=True, slots=True)
class Listing:
    """Which myses `zoea_list_myses` is to list."""

    name: str = ""
    after_id: int = 0

    def of(self, myses: Iterable[MysisView]) -> list[MysisView]:
        """Those that are asked for, the oldest first, so that a page follows the one before."""
        name = self.name.casefold()
        chosen = (view for view in myses if view.id > self.after_id and name in view.name.casefold())
        return sorted(chosen, key=lambda view: view.id)


def listing(fields: Fields) -> Listing:
    """Which myses are to be listed. Raises UsageError naming the field."""
    name, after_id = fields.raw_text("name"), fields.whole("after_id", 1, None)
    fields.no_more()
    return Listing(name, after_id or 0)
