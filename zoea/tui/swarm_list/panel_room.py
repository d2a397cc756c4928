"""Shares the dashboard's lines among its panels, by what each needs. Pure."""

from __future__ import annotations

from msgspec import Struct

DETAIL = 11
"""Lines of the detail where the list needs the rest, with its frame."""
DETAIL_LOW, DETAIL_JOINED, DETAIL_JOINED_HIGH = 7, 1, 6
"""The same on a low screen beside the list, and in one frame with the list."""
SIDE, SIDE_JOINED, SIDE_JOINED_HIGH = 5, 5, 9
"""Lines of NEEDS YOU and BROADCASTS at least, with their frame, so that one line more moves nothing."""
COUNTED_MOST = 40
"""Lines of a panel that are counted as needed, at most."""
_LEAST_ROWS = 4
"""Rows of a list at least, so that the first myses move nothing."""
_LEAST_ROWS_JOINED = 6
_LEAST_FEED = 6
"""Lines of BROADCASTS beside many myses that need the person."""
_DETAIL_GROWN = 3
"""Lines from which on a detail shows the newest of the conversation below its one line."""
_FRAME, _HEADS = 2, 1


class PanelRoom(Struct, frozen=True):
    """Lines of the panels; None where the style file decides.

    Attributes:
        detail: Of the detail, with its frame.
        side: Of NEEDS YOU and BROADCASTS together, with their frames.
        needs: Of NEEDS YOU at most where it is above BROADCASTS, with its frame.
    """

    detail: int | None = None
    side: int | None = None
    needs: int | None = None


def has_room_below(body: int, rows: int) -> bool:
    """Return whether all rows fit above the other panels, each as wide as the screen."""
    return rows + _HEADS + _FRAME + DETAIL + SIDE <= body


def share_in_one_frame(body: int, rows: int, needed: int, *, is_high: bool, has_side: bool = True) -> PanelRoom:
    """Share the lines of a small screen, where NEEDS YOU and BROADCASTS have one place.

    Args:
        body: Lines between header and footer.
        rows: Rows of the list.
        needed: Lines of the longer one of the two panels.
        has_side: Whether these two are shown, and the names of the columns.
    """
    detail = DETAIL_JOINED_HIGH if is_high else DETAIL_JOINED
    if not has_side:
        # The frame of the list, the title of the detail, and the lower edge.
        grown = body - 3 - max(_LEAST_ROWS_JOINED, rows)
        return PanelRoom(grown + 1) if grown >= _DETAIL_GROWN else PanelRoom()
    least = SIDE_JOINED_HIGH if is_high else SIDE_JOINED
    free = max(0, body - 3 - _HEADS - detail - least - max(_LEAST_ROWS_JOINED, rows))
    more = max(0, min(needed + 1 - least, free))
    grown = detail + free - more
    return PanelRoom(grown if grown >= _DETAIL_GROWN else None, least + more if more else None)


def share_below(body: int, rows: int, needed: int) -> PanelRoom:
    """Share the lines below the list: the panels get what they need, the detail the rest.

    Args:
        needed: Lines of the longer one of NEEDS YOU and BROADCASTS.
    """
    listed = max(_LEAST_ROWS, rows) + _HEADS + _FRAME
    side = max(SIDE, min(needed + _FRAME, body // 2, body - listed - DETAIL))
    return PanelRoom(max(DETAIL, body - listed - side), side)


def share_beside(body: int, needed: int, said: int, *, is_high: bool) -> PanelRoom:
    """Share the column beside a long list: NEEDS YOU, BROADCASTS, and the detail below them.

    Args:
        needed: Lines of NEEDS YOU; 0 where it is not shown.
        said: Lines of the broadcasts.
    """
    most = max(_LEAST_FEED, body - (DETAIL if is_high else DETAIL_LOW))
    feed = max(3, said + _FRAME)
    needs = min(needed + _FRAME, most - min(feed, _LEAST_FEED)) if needed else 0
    return PanelRoom(None, min(needs + feed, most), needs or None)
