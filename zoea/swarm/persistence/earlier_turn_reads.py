"""Which earlier turns a new turn shows, read and decided within the op that opens it."""

from __future__ import annotations

import json

from msgspec.structs import replace

from zoea.context import MESSAGE_FRAME, EarlierTurn, FrozenTurn, choose_earlier, request_limit
from zoea.store import WriterConnection
from zoea.swarm.persistence import row_values
from zoea.text import estimate

_SHARE = 0.5  # of what the system prompt, the tools and the prompts leave free
_PER_ROW = MESSAGE_FRAME + 4  # the frame of a message, and what rounding may add
_LOOKED = 200  # turns back, so that a long time of nudges costs nothing
_NEWEST = """
SELECT id, frozen -> '$.earlier' AS earlier FROM turn
WHERE mysis_id = ? AND number BETWEEN ? AND ? AND opened_by = 'prompt' AND outcome IS NOT NULL
ORDER BY number DESC LIMIT 1
"""
# Characters and messages of each turn: whole, and of its prompts and last answer alone.
_SIZES = """
SELECT m.turn_id, count(*) AS rows, sum(length(m.content)) AS chars,
  coalesce(sum((SELECT sum(length(k.name) + length(k.arguments) + 8) FROM tool_call k WHERE k.memory_id = m.id)), 0)
    AS calls,
  sum(m.role = 'user') AS bare_rows, sum(iif(m.role = 'user', length(m.content), 0)) AS bare_chars,
  coalesce((SELECT length(n.content) FROM memory n WHERE n.turn_id = m.turn_id AND n.role = 'assistant'
    ORDER BY n.seq DESC LIMIT 1), 0) AS answer
FROM memory m WHERE m.turn_id IN ({marks}) GROUP BY m.turn_id
"""


def choose_earlier_turns(conn: WriterConnection, frozen: FrozenTurn, prompt_tokens: int) -> FrozenTurn:
    """Freeze the earlier turns that the requests show, and whether anything is left to recall.

    Args:
        prompt_tokens: Of the prompts that open the turn, before calibration.
    """
    if frozen.is_nudged:
        return frozen
    earlier = _choose(conn, frozen, prompt_tokens) if frozen.keep_turns else ()
    # Turns are numbered from 1, so all of the past is shown where so many are shown whole.
    is_all_shown = sum(one.whole for one in earlier) >= frozen.turn_number - 1
    return replace(frozen, earlier=earlier, recall_items=0 if is_all_shown else frozen.recall_items)


def _choose(conn: WriterConnection, frozen: FrozenTurn, prompt_tokens: int) -> tuple[EarlierTurn, ...]:
    first = max(frozen.turn_number - _LOOKED, frozen.inherited_turn + 1)
    newest = conn.execute(_NEWEST, (frozen.mysis_id, first, frozen.turn_number)).fetchone()
    if newest is None:
        return ()
    shown = tuple(EarlierTurn(turn_id, bool(whole)) for turn_id, whole in json.loads(newest["earlier"] or "[]"))
    ids = (*(one.turn_id for one in shown), newest["id"])
    whole, bare = dict[int, int](), dict[int, int]()
    for row in conn.execute(_SIZES.format(marks=row_values.marks(ids)), ids):
        chars = row["chars"] + row["calls"]
        whole[row["turn_id"]] = -(-chars // estimate.CHARS_PER_TOKEN) + _PER_ROW * row["rows"]
        short = row["bare_chars"] + row["answer"]
        bare[row["turn_id"]] = -(-short // estimate.CHARS_PER_TOKEN) + _PER_ROW * (row["bare_rows"] + 1)
    limit = int(request_limit(frozen).tokens / frozen.calibration)
    free = limit - estimate.tokens(frozen.system) - frozen.tools_tokens - prompt_tokens - 2 * MESSAGE_FRAME
    room = max(0, int(free * _SHARE))
    room = min(room, frozen.earlier_tokens or room)
    return choose_earlier(shown, newest["id"], whole, bare, keep=frozen.keep_turns, room=room)
