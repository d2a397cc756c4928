"""Lines of the BROADCASTS panel: each broadcast and the replies to it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

from rich.cells import cell_len

from zoea.model.values import MysisView, Receipt, ReceiptLine
from zoea.queries.broadcasts import NOT_DELIVERED, Broadcast
from zoea.text.control_characters import one_line, prose_line
from zoea.text.sentences import begin_sentence, count_of
from zoea.tui import number_format
from zoea.tui.text_layout import Piece, count_cells, fit_text, wrap_words


def format_receipt(receipt: Receipt) -> str:
    """Format the immediate result of sending a message, with the names of its recipients."""
    heard = [line for line in receipt.lines if line.status not in ("skipped", "withdrawn")]
    words = [f"delivered to {_list_names(heard)}"] if heard else []
    for status, word in (("started", "working"), ("waiting", "queued")):
        count = sum(1 for line in heard if line.status == status)
        words += [f"{count} {word}" if len(heard) > 1 else word] if count else []
    missed: dict[str, list[ReceiptLine]] = {}
    for line in receipt.lines:
        if line.status == "skipped":
            missed.setdefault(prose_line(line.reason), []).append(line)
    for reason, lines in missed.items():
        words.append(f"{NOT_DELIVERED} to {_list_names(lines)}" + (f": {reason}" if reason else ""))
    return begin_sentence(" · ".join(words) or "nothing was delivered")


_NAMES_MOST = 3


def _list_names(lines: Sequence[ReceiptLine]) -> str:
    names = ", ".join(one_line(line.mysis) for line in lines[:_NAMES_MOST])
    return names if len(lines) <= _NAMES_MOST else f"{names} and {len(lines) - _NAMES_MOST} more"


ONE_LINE_FROM = 60
"""From this width on a broadcast and its replies share a line."""
TEXT_LINES = 3
"""Lines of a text in a narrower panel, at most."""
LEAST_ROOM = 8
"""A text with fewer cells after its head is not wrapped."""


def build_broadcast_lines(
    said: Sequence[Broadcast], now: int, width: int, height: int = 0, myses: Mapping[int, MysisView] | None = None
) -> list[list[Piece]]:
    """Build the broadcasts, newest first, in lines of at most `width` cells.

    A `width` of 0 means unknown. In a narrow panel texts are wrapped as long as all of them fit in `height`.

    Args:
        myses: Myses by id, so that a receipt has the words of their rows.
    """
    replies = {one.id: format_replies(one, myses) for one in said}
    if not said:
        return [[("No broadcast yet: b sends one message to many myses", "quiet")]]
    if width >= ONE_LINE_FROM:
        return [line for one in said for line in _one_line(one, replies[one.id], now, width)]
    for most in range(TEXT_LINES, 0, -1):
        lines = [line for one in said for line in _stacked(one, replies[one.id], now, width, most)]
        if len(lines) <= height:
            break
    return lines


def format_replies(said: Broadcast, myses: Mapping[int, MysisView] | None = None) -> str:
    """Format the replies: `4 answered · 1 asking · 1 queued`. Empty for a message to the commander.

    Args:
        myses: Myses by id. Those that have not answered yet are counted by the statuses of their rows.
    """
    if said.to_commander:
        return ""
    known = [myses[int(one)].status for one in said.open_ids.split(",") if one and int(one) in myses] if myses else []
    if len(known) == said.working + said.interrupted:
        counts = Counter(map(str, known))
    else:
        counts = Counter({"working": said.working, "errored or stopped": said.interrupted})
    counts["queued"] += said.queued
    parts = [
        (said.answered, "answered"),
        *((count, word) for word, count in counts.items()),
        (said.unanswered, "not answered"),
        (said.skipped, NOT_DELIVERED),
    ]
    return " · ".join(f"{count} {word}" for count, word in parts if count)


def _head(said: Broadcast, now: int, *, has_unit: bool = True) -> list[Piece]:
    to = "you" if said.to_commander else count_of(said.recipients, "mysis") if has_unit else str(said.recipients)
    who = "commander" if said.sender == "you" else "mysis"
    clock = f"{number_format.clock(said.created_at, now)} "
    return [(clock, "quiet"), (one_line(said.sender), who), (f" → {to}  ", "quiet")]


def _one_line(said: Broadcast, became: str, now: int, width: int) -> list[list[Piece]]:
    head = _head(said, now)
    room = width - count_cells(head) - (cell_len(became) + 2 if became else 0)
    line = [*head, (fit_text(prose_line(said.text), max(8, room)), "")]
    return [[*line, (f"  {became}", "quiet")] if became else line]


def _stacked(said: Broadcast, became: str, now: int, width: int, most: int) -> list[list[Piece]]:
    """Build the head and the wrapped text in at most `most` lines, then the replies."""
    head = _head(said, now)
    if width - count_cells(head) < LEAST_ROOM:
        head = _head(said, now, has_unit=False)
    room = width - count_cells(head)
    text = prose_line(said.text)
    indent = " " * cell_len(head[0][0])
    if room < LEAST_ROOM:
        lines: list[list[Piece]] = [[*head, (fit_text(text, room).rstrip() if room > 0 else text, "")]]
    else:
        # A placeholder word as wide as the head reserves its room in the first line.
        taken = count_cells(head[1:]) - 1
        parts = list(islice(wrap_words(f"{'.' * taken} {text}", width - len(indent)), most + 1))
        if len(parts) > most:
            parts[most - 1 :] = [fit_text(f"{parts[most - 1]} {parts[most]}", width - len(indent)).rstrip()]
        lines = [[*head, (parts[0][taken + 1 :], "")], *([(indent + part, "")] for part in parts[1:])]
    return [*lines, [(indent + became, "quiet")]] if became else lines
