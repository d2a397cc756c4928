"""Shares the lines that the list leaves free among the dashboard's panels. Pure."""

from __future__ import annotations

from msgspec import Struct

DETAIL, DETAIL_WIDE = 11, 14
"""Lines of the detail where the list needs the rest, as in dashboard.tcss."""
SIDE, SIDE_JOINED, SIDE_JOINED_HIGH = 8, 5, 9
"""Lines of NEEDS YOU and BROADCASTS where they need no more, as in dashboard.tcss."""
COUNTED_MOST = 40
"""Lines of a panel that are counted as needed, at most."""
_LEAST_LIST = 14
"""Lines of the list, with frame and head, before another panel gets the lines that few myses leave free."""
_LEAST_ROWS = 6
"""Rows of the list in one frame with the other panels."""
_LEAST_FEED = 6
"""Lines of BROADCASTS beside many myses that need the person."""
_FRAME = 2


class PanelRoom(Struct, frozen=True):
    """Lines of the panels; None where the style file decides.

    Attributes:
        detail: Of the detail, with its frame.
        side: Of NEEDS YOU and BROADCASTS where they are below the list, with their frame.
        needs: Of NEEDS YOU at most where it is beside the list, with its frame.
    """

    detail: int | None = None
    side: int | None = None
    needs: int | None = None


def share_in_one_frame(body: int, rows: int, needed: int, *, is_high: bool) -> PanelRoom:
    """Share the lines of a small screen, where NEEDS YOU and BROADCASTS have one place.

    Args:
        body: Lines between header and footer.
        rows: Rows of the list.
        needed: Lines of the longer one of the two panels.
    """
    least, detail, heads = (SIDE_JOINED_HIGH, 6, 1) if is_high else (SIDE_JOINED, 1, 0)
    free = body - 3 - heads - detail - least - max(_LEAST_ROWS, rows)
    more = min(needed + 1 - least, free)
    return PanelRoom(side=least + more) if more > 0 else PanelRoom()


def share_below(body: int, rows: int, needed: int) -> PanelRoom:
    """Share the lines below the list: the panels' needs first, the rest for the detail."""
    least = max(_LEAST_LIST, rows + 4)
    more = max(0, min(needed + _FRAME - SIDE, body - least - DETAIL - SIDE))
    return PanelRoom(_grow_detail(body - SIDE - more, least, DETAIL), SIDE + more if more else None)


def share_beside(body: int, rows: int, said: int, *, is_high: bool) -> PanelRoom:
    """Share the lines beside the list. NEEDS YOU gets what BROADCASTS leaves, or half.

    Args:
        said: Lines of the broadcasts.
    """
    detail = _grow_detail(body, max(_LEAST_LIST, rows + 4), DETAIL_WIDE) if is_high else None
    needs = body - max(_LEAST_FEED, said + _FRAME)
    return PanelRoom(detail, needs=needs if needs > body // 2 else None)


def _grow_detail(room: int, least_list: int, least: int) -> int | None:
    """Return the lines of an enlarged detail, at most half of the room."""
    height = min(room - least_list, room // 2)
    return height if height > least else None
