"""Lines of the NEEDS YOU panel: who waits for the commander, and how to answer. Pure.

A click on a word acts on the mysis of its line. Keys act on the marked myses or on the one under the cursor, so those
of another line stand behind the key that goes there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from msgspec import Struct, field
from rich.cells import cell_len

from zoea.model.status import wants_review
from zoea.model.values import ApprovalView, MysisView, UpstreamFault
from zoea.queries.phrases import approval_line, approval_question
from zoea.text.control_characters import one_line
from zoea.tui import number_format
from zoea.tui.state.open_approvals import OpenApprovals
from zoea.tui.swarm_list import attention
from zoea.tui.swarm_list.broadcasts_panel import ONE_LINE_FROM
from zoea.tui.text_layout import cut_pieces, fit_text, wrap_words
from zoea.tui.widgets.clickable_text import ClickablePiece
from zoea.tui.widgets.status_bars import key_name

Line = list[ClickablePiece]

WORDS_FROM = 90
"""From this width on a line names the actions of every mysis, not only of the one that keys act on."""
NAME_MOST = 20
CAUSE_LINES = 2
NEED_LEAST = 32
"""Cells that a line keeps for the name and the need, while it names more than one answer."""
_UNMARKS = " unmarks: keys act on the marked now"
WAY_MOST = 3
"""A line names the key that leads to its mysis, if so many presses reach it."""


class KeyScope(Struct, frozen=True):
    """Define which myses the keys act on.

    Args:
        cursor: Mysis under the cursor.
        marked: Marked myses.
        keys: Keys in force, by action id.
    """

    cursor: int | None = None
    marked: frozenset[int] = frozenset()
    keys: Mapping[str, str] = field(default_factory=dict)

    def means(self, mysis_id: int) -> bool:
        """Return whether a key acts on this mysis and on no other."""
        return self.marked == {mysis_id} if self.marked else self.cursor == mysis_id

    def key(self, action_id: str) -> str:
        return key_name(self.keys.get(action_id, ""))


class _Need(Struct, frozen=True):
    """One mysis with its need, the keys that answer it, and the way to it.

    `others` is the number of myses that one answer helps too.
    """

    view: MysisView
    question: ApprovalView | None
    words: Line
    way: Line
    presses: int = 1
    others: int = 0

    @property
    def name(self) -> str:
        """Its name, and how many others have the same need."""
        return f"{one_line(self.view.name)}{f' and {self.others} more' if self.others else ''}"

    @property
    def asks(self) -> str:
        return approval_line(self.question) if self.question else self.view.text if self.view.approvals else ""

    @property
    def answers(self) -> Line:
        """The words that answer it, behind the way to it."""
        return [*self.way, (", then ", "quiet", ""), *self.words] if self.way else self.words

    def since(self, now: int, ago: str = "") -> Line:
        age = number_format.age(self.question.asked_at, now) if self.question else ""
        return [(f"  {age}{ago}", "quiet", "")] if age else []


def build_needs_lines(
    views: Sequence[MysisView],
    asked: OpenApprovals,
    reach: KeyScope,
    now: int,
    glyphs: Mapping[str, str],
    width: int,
    height: int,
) -> list[Line]:
    """Build at most `height` lines. Several for each mysis if the panel is narrow and all fit.

    The last line counts the myses that are not shown.
    """
    height = max(1, height)
    ahead = _count_presses([view.id for view in views], reach.cursor)
    groups = _join_refused(views, reach.cursor)
    shown = groups[: height if len(groups) <= height else height - 1]
    needs = [_need(view, asked, reach, ahead[view.id], count - 1) for view, count in shown]
    if width < ONE_LINE_FROM and len(shown) == len(groups):
        blocks = [_block(need, now, glyphs, width) for need in needs]
        lines = [line for at, block in enumerate(blocks) for line in ([[], *block] if at else block)]
        if len(lines) <= height:
            return lines
    name = min(NAME_MOST, max((cell_len(need.name) for need in needs), default=0))
    lines = [_briefly(need, reach, now, glyphs, name, width) for need in needs]
    if more := sum(count for _, count in groups[len(shown) :]):
        click = "app.do('swarm.next-in-need')"
        key = reach.key("swarm.next-in-need")
        lines.append([(f"and {more} more: ", "quiet", ""), (key, "key", click), (" goes to each", "quiet", click)])
    return lines


def restart_line(ended: Mapping[str, int], reach: KeyScope) -> Line:
    """Build the line that offers to continue myses that had work when Zoea ended. Empty for none.

    They worked, or a nudge or an unread message was to wake them.
    """
    shown = {reason: count for reason, count in ended.items() if count > 0}
    if not shown:
        return []
    when = next(iter(shown)) if len(shown) == 1 else "Zoea ended"
    click, count = "app.do('swarm.again')", sum(shown.values())
    return [
        (f"{count} had work to do when {when}", "strong", ""),
        ("  ", "", ""),
        (reach.key("swarm.again"), "key", click),
        (" continues it" if count == 1 else f" continues all {count}", "", click),
    ]


def build_swarm_lines(
    ended: Mapping[str, int], faults: Sequence[UpstreamFault], reach: KeyScope, glyphs: Mapping[str, str], width: int
) -> list[Line]:
    """Build the lines about interrupted myses and failing upstreams."""
    offered = restart_line(ended, reach)
    return [*([offered] if offered else []), *(_fault_line(one, reach, glyphs, width) for one in faults)]


def _fault_line(fault: UpstreamFault, reach: KeyScope, glyphs: Mapping[str, str], width: int) -> Line:
    """Build the line of an upstream without connection: its name and why, and the key that shows it."""
    click, key = "app.do('screen.upstreams')", reach.key("screen.upstreams")
    begin = "reconnects" if fault.state == "lost" else "down"
    why = f": {one_line(fault.why)}" if fault.why else ""
    left: Line = [
        (f"{glyphs.get('errored', '?')} ", "errored", click),
        (one_line(fault.name), "strong", click),
        (f"  tool server {begin}{why}", "errored", ""),
    ]
    right: Line = [("  ", "", ""), (key, "key", click), (" opens it", "", click)]
    return [*_cut(left, max(0, width - _cells(right))), *right]


def find_next_in_need(ids: Sequence[int], cursor: int | None) -> int | None:
    """Return the mysis after the cursor among those in need, or the first. None if no other."""
    at = ids.index(cursor) + 1 if cursor in ids else 0
    found = ids[at % len(ids)] if ids else None
    return None if found == cursor else found


def _count_presses(ids: Sequence[int], cursor: int | None) -> dict[int, int]:
    """Return how many presses of the key for the next in need lead to each."""
    first = ids.index(cursor) + 1 if cursor in ids else 0
    return {mysis_id: (place - first) % len(ids) + 1 for place, mysis_id in enumerate(ids)}


def _join_refused(views: Sequence[MysisView], cursor: int | None) -> list[tuple[MysisView, int]]:
    """Return the myses with a need of their own, each with how many have it. A refused key is one need of all."""
    groups: dict[int | str, list[MysisView]] = {}
    for view in views:
        is_joint = view.failure is not None and view.failure.is_refused_key
        groups.setdefault(view.provider if is_joint else view.id, []).append(view)
    return [(next((one for one in group if one.id == cursor), group[0]), len(group)) for group in groups.values()]


def _need(view: MysisView, asked: OpenApprovals, reach: KeyScope, presses: int, others: int) -> _Need:
    question = asked.of(view.id)
    way = _way(reach, view.id, presses)
    if question is not None or view.approvals:
        is_oldest = question is not None and asked.open[0].id == question.id
        return _Need(view, question, _word(reach, "approval.oldest", "answer", view.id, named=is_oldest), [])
    is_meant = reach.means(view.id)
    if reach.marked and not is_meant:
        click = "app.do('app.back')"
        return _Need(view, None, [(reach.key("app.back"), "key", click), (_UNMARKS, "", click)], [], presses)
    is_named = is_meant or bool(way)
    if wants_review(view):
        words = _word(reach, "mysis.result", "result", view.id, named=is_named)
        words += [("  ", "", ""), *_word(reach, "mysis.dismiss", "mark reviewed", view.id, named=is_named)]
        words += [("  ", "", ""), *_word(reach, "mysis.message", "message", view.id, named=is_named)]
        return _Need(view, None, words, [] if is_meant else way, presses)
    words = _word(reach, "mysis.relaunch", "relaunch", view.id, named=is_named)
    if view.failure is not None and view.failure.hint:
        # A relaunch alone would fail again: the key is mended first, or what the conversation says.
        advice = _word(reach, "mysis.focus", "explains it", view.id, named=is_named)
        if view.failure.is_refused_key:
            advice = _word(reach, "provider.key", "replaces its key", view.id, named=is_named)
        if not is_meant or others:
            return _Need(view, None, advice, [] if is_meant else way, presses, others)
        words = [*advice, ("  ", "", ""), *words]
    if view.failure is not None:
        words += [("  ", "", ""), *_word(reach, "mysis.dismiss", "dismiss error", view.id, named=is_named)]
    return _Need(view, None, words, [] if is_meant else way, presses)


def _word(reach: KeyScope, action_id: str, title: str, mysis_id: int, *, named: bool) -> Line:
    click = f"screen.at({action_id!r}, {mysis_id})"
    # A key acts on the mysis under the cursor, so those that no key leads to have a button for the mouse.
    return (
        [(reach.key(action_id), "key", click), (f" {title}", "", click)] if named else [(f"click: {title}", "", click)]
    )


def _way(reach: KeyScope, mysis_id: int, presses: int) -> Line:
    """Build the keys, or click, that move the cursor to this mysis. Empty if that takes too many presses."""
    if presses > WAY_MOST:
        return []
    click = f"screen.go({mysis_id})"
    times = {1: "", 2: " twice"}.get(presses, f" {presses} times")
    return [(reach.key("swarm.next-in-need"), "key", click), (f"{times} goes to it", "", click)]


def _head(need: _Need, glyphs: Mapping[str, str], width: int = 0) -> Line:
    state, click, name = str(need.view.status), f"screen.go({need.view.id})", need.name
    return [(f"{glyphs.get(state, '?')} ", state, click), (fit_text(name, width) if width else name, "strong", click)]


def _block(need: _Need, now: int, glyphs: Mapping[str, str], width: int) -> list[Line]:
    head = _head(need, glyphs)
    words: Line = [("  ", "", ""), *need.answers]
    if need.asks:
        asked = need.question
        is_call = asked is not None and asked.kind == "tool" and not approval_question(asked)
        what = "asks to run" if is_call else "asks"
        more = f" ×{need.view.approvals}" if need.view.approvals > 1 else ""
        lines: list[Line] = [
            [*head, (f" {what}{more}", "", ""), *need.since(now, " ago")],
            [("  ", "", ""), (one_line(need.asks), "tool", "")],
        ]
    else:
        failure, cause = need.view.failure, one_line(attention.attention_reason(need.view))
        title = one_line(failure.title) if failure else ""
        head += [(f"  {title}", "quiet", "")] if title and title != cause else []
        if len(head) == 2 and _cells(head) + cell_len(cause) + 2 <= width:
            head, cause = [*head, (f"  {cause}", "errored", "")], ""
        found = list(islice(wrap_words(cause, width - 2), CAUSE_LINES + 1))
        if len(found) > CAUSE_LINES:
            found = [*found[: CAUSE_LINES - 1], " ".join(found[CAUSE_LINES - 1 :])]
        lines = [head, *([(f"  {line}", "errored", "")] for line in found if line)]
    return [_cut(line, width) for line in (*lines, words)]


def _briefly(need: _Need, reach: KeyScope, now: int, glyphs: Mapping[str, str], name: int, width: int) -> Line:
    """Build one line of `width` cells; the need is cut before the answers."""
    left = _head(need, glyphs, name)
    right: Line = [("  ", "", "")]
    if need.asks:
        left += [("  asks  ", "quiet", ""), (one_line(need.asks), "tool", "")]
        right = [*need.since(now), *right, *need.words]
    else:
        left.append((f"  {one_line(attention.attention_reason(need.view))}", "errored", ""))
        if reach.means(need.view.id) or width >= WORDS_FROM:
            right += need.answers
        elif need.presses == 1:
            right += need.way or need.words  # its keys are named once it is under the cursor
    # The last answers go before a need of which hardly a word would be left.
    while not need.asks and ("  ", "", "") in right[1:] and width - _cells(right) < min(_cells(left), NEED_LEAST):
        del right[max(at for at, piece in enumerate(right) if piece == ("  ", "", "")) :]
    room = max(0, width - _cells(right))
    left = _cut(left, room)
    return [*left, (" " * (room - _cells(left)), "", ""), *right]


def _cut(line: Line, width: int) -> Line:
    shown = cut_pieces([(text, role) for text, role, _ in line], width)
    return [(text, role, click) for (text, role), (_, _, click) in zip(shown, line, strict=False)]


def _cells(line: Line) -> int:
    return sum(cell_len(text) for text, _, _ in line)
