"""What stands around a conversation: whose it is and what it does, and where its reader is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from zoea.model.enums import Activity, MysisState
from zoea.model.values import MysisView
from zoea.text.control_characters import one_line
from zoea.tui import number_format
from zoea.tui.swarm_list import attention
from zoea.tui.swarm_list.mysis_row import Piece, cells, fit, glyph, waits_for

CUT_LEAST = 12
"""Cells that a piece of the first line keeps when it is cut."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Where the reader is: `turn` is the one under the cursor, 0 for none; `unseen` came while they read above."""

    unseen: int = 0
    turns: int = 0
    turn: int = 0
    is_empty: bool = False
    is_loaded: bool = False
    follows: bool = False
    verbose: bool = False


def edge_pieces(edge: Edge) -> list[tuple[str, str]]:
    """Text and style, for the lower border."""
    if edge.unseen:
        said = (f" ↓ {edge.unseen} new ", "bold $role-asking")
    elif edge.is_empty:
        said = (" nothing was said yet: press m " if edge.is_loaded else " reading… ", "")
    else:
        count = f"{edge.turns} turn{'s' * (edge.turns != 1)}"
        where = f"turn {edge.turn} of {edge.turns}" if edge.turn else count
        said = (f" following · {count} " if edge.follows else f" {where} · G to the end ", "")
    return [said, ("· verbose ", "")] if edge.verbose else [said]


def who_and_what(view: MysisView, place: int, many: int, now: int, glyphs: dict[str, str]) -> list[Piece]:
    """Name, its place in the list (0 where it was deleted), state, and what it does this moment."""
    state = glyph(view)
    words = [(f" {glyphs.get(state, '?')} ", state), (one_line(view.name), "strong")]
    words.append((f"  {place} of {many}" if place else "  deleted", "quiet"))
    words.append((f"  {view.state}", state))
    return words + [(f" · {text}", role) for text, role in doing(view, now)]


def shortened(pieces: Sequence[Piece], width: int) -> list[Piece]:
    """The pieces in `width` cells: the longest one is cut, so that a long error leaves room for whose it is."""
    found = list(pieces)
    over = cells(found) - width
    if over > 0:
        at = max(range(len(found)), key=lambda place: cell_len(found[place][0]))
        text, role = found[at]
        found[at] = (fit(text, max(CUT_LEAST, cell_len(text) - over)).rstrip(), role)
    return found


def doing(view: MysisView, now: int) -> list[Piece]:
    """What it does this moment, and since when."""
    if view.state in (MysisState.ERRORED, MysisState.IDLE) and view.failure is not None:
        return [(one_line(attention.cause(view.failure)), "errored")]
    if view.activity is Activity.IDLE:
        return [(one_line(view.state_reason), "quiet")] if view.state_reason else []
    if view.waiting_until is not None:
        left = number_format.span(max(0, (view.waiting_until - now) / number_format.SECOND))
        return [(f"waits: {waits_for(view.waiting_for)} ({left})", "waiting")]
    return [(f"{view.activity} {number_format.age(view.progress_at, now)}", str(view.activity))]


def failure_lines(view: MysisView, mark: str, relaunch: str, *, is_told: bool = False) -> list[list[Piece]]:
    """What went wrong and what to do, below a conversation that stands still for it; nothing where none does.

    `mark` is the sign of an error, `relaunch` the key that starts the mysis again. Where the conversation ends with
    the same words (`is_told`), one line is enough.
    """
    if view.failure is None or view.state is MysisState.RUNNING:
        return []
    cause, title, hint = (
        one_line(text) for text in (attention.cause(view.failure), view.failure.title, view.failure.hint)
    )
    key: list[Piece] = [(relaunch, "key"), (" relaunch", "quiet")]
    first: list[Piece] = [(f"{mark} ", "errored"), (cause, "errored")]
    if is_told:
        return [[*first, ("  ", ""), *key]]
    return [
        [*first, (f"  {title}" if title != cause else "", "quiet")],
        [("  ", ""), (f"{hint}  ".lstrip(), ""), *key],
    ]
