"""Which tools a mysis knows from the turns before, read within the op that opens a turn."""

from __future__ import annotations

import json
from collections.abc import Iterable

from msgspec import Struct

from zoea.context import FrozenTurn
from zoea.store import WriterConnection
from zoea.swarm.persistence import row_values

_LAST = """
SELECT id, frozen -> '$.shown_tools' AS shown FROM turn WHERE mysis_id = ? AND number < ? ORDER BY number DESC LIMIT 1
"""
_FIRST_SHOWN = """
SELECT frozen ->> '$.earlier[0][0]' FROM turn
WHERE mysis_id = ? AND number < ? AND opened_by = 'prompt' ORDER BY number DESC LIMIT 1
"""
_USED = """
SELECT DISTINCT k.name FROM tool_call k JOIN memory m ON m.id = k.memory_id WHERE m.turn_id IN ({marks})
"""


class KnownTools(Struct):
    """Reads the tools that a new turn shows whole because of the turns before, once.

    They are those that the last turn showed whole or used, until the earlier turns that are shown are cut: then
    those that the ones still shown, or the last turn, used.
    """

    conn: WriterConnection
    mysis_id: int
    number: int
    found: frozenset[str] | None = None

    def read(self) -> frozenset[str]:
        """Return the tools that the last turn showed whole or used."""
        if self.found is None:
            last = self.conn.execute(_LAST, (self.mysis_id, self.number)).fetchone()
            shown = json.loads(last["shown"] or "[]") if last is not None else ()
            self.found = frozenset(shown) | self._used(() if last is None else (last["id"],))
        return self.found

    def after_cut(self, frozen: FrozenTurn) -> frozenset[str]:
        """Return the tools that are known where the turn shows fewer earlier turns than the one before."""
        first = self.conn.execute(_FIRST_SHOWN, (self.mysis_id, self.number)).fetchone()
        if first is None or first[0] is None or not frozen.earlier or frozen.earlier[0].turn_id == first[0]:
            return self.read()
        last = self.conn.execute(_LAST, (self.mysis_id, self.number)).fetchone()
        return self._used((last["id"], *(one.turn_id for one in frozen.earlier)))

    def _used(self, turn_ids: Iterable[int]) -> frozenset[str]:
        ids = tuple(dict.fromkeys(turn_ids))
        if not ids:
            return frozenset()
        return frozenset(row[0] for row in self.conn.execute(_USED.format(marks=row_values.marks(ids)), ids))
