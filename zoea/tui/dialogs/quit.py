"""The dialog of `q`: end the swarm or leave it running.

Where there is no swarm to command, the cockpit closes without a question. The end takes at most ten seconds; a second
ctrl+c skips it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from zoea.model.errors import ZoeaError
from zoea.model.status import StatusWord
from zoea.text.sentences import count_of
from zoea.tui import number_format
from zoea.tui.dialogs.modal import CockpitDialog
from zoea.tui.text_layout import Piece, wrap_pieces
from zoea.tui.widgets.clickable_text import TextBlock

_WITHIN_S = 10
_BAR = 40
_BOX, _EDGES = 76, 6
"""Columns of the box, and those of its frame and padding."""
_SAID = {
    "stop": "Ending the swarm: running calls are cut off, stored data is kept.",
    "leave": "The swarm continues without a screen; zoea run shows it again.",
    "detach": "Closing this cockpit; the swarm continues.",
    "end": "Ending the swarm: running calls are cut off, stored data is kept.",
    "lost": "Closing the cockpit; the swarm has ended.",
}

_AT_WORK = (StatusWord.WORKING, StatusWord.QUEUED, StatusWord.RETRYING)


class QuitDialog(CockpitDialog[None]):
    """The choices, then the progress of the end."""

    TITLE = "QUIT"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "end('stop')", "end the swarm"),
        Binding("l", "end('leave')", "leave it running"),
        Binding("escape,q", "stay", "back"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._how = ""
        self._since = 0.0
        self._words = TextBlock(id="words")

    def content(self) -> Iterable[Widget]:
        return (self._words,)

    @property
    def is_ending(self) -> bool:
        return bool(self._how)

    @property
    def _is_owner(self) -> bool:
        return self.cockpit.opened is None or self.cockpit.opened.is_owner

    def on_mount(self) -> None:
        opened = self.cockpit.opened
        if opened is None:
            self.action_end("stop")
        elif opened.read_only_reason or self.cockpit.feed.lost:
            self.action_end("leave")
        else:
            self._ask()

    def on_resize(self) -> None:
        self.feed_changed(frozenset())

    def feed_changed(self, ids: frozenset[int]) -> None:
        if self.is_mounted and not self.is_ending:
            self._ask()

    def _ask(self) -> None:
        if self.cockpit.feed.lost:
            ended: list[Piece] = [("The swarm has ended.", "strong")]
            self._words.put([ended, [], [("l   ", "key"), ("close this cockpit", "")], [("esc ", "key"), ("back", "")]])
            return
        running = [view for view in self.cockpit.feed.myses.values() if view.state == "running"]
        busy = sum(1 for view in running if view.status in _AT_WORK)
        waiting = sum(1 for view in running if view.status is StatusWord.WAITING)
        asking = self.cockpit.action_context().approvals
        said = f"{len(running)} of {count_of(len(self.cockpit.feed.myses), 'mysis')} running: {busy} working"
        said += f", {asking} asking you" if asking else ""
        said += f", {waiting} waiting" if waiting else ""
        rest = len(running) - busy - asking - waiting
        nudged = min(rest, sum(1 for view in running if view.status is StatusWord.IDLE and not view.is_at_rest))
        said += f", {nudged} between turns" if nudged > 0 else ""
        said += f", {rest - nudged} at rest" if rest > nudged else ""
        again = self.cockpit.key("swarm.again")
        leaving = "leave it running, and spending; zoea run shows it again"
        ending = f"end the swarm for now: no more costs; next time {again} continues it"
        if not self._is_owner:
            leaving, ending = "leave it running: close this cockpit", f"{ending} (its other screens end too)"
        room = min(_BOX, self.size.width) - _EDGES
        lines: list[list[Piece]] = [
            [(said, "strong")],
            [],
            *wrap_pieces([("s   ", "key"), (ending, "")], room, by_words=True),
            *wrap_pieces([("l   ", "key"), (leaving, "")], room, by_words=True),
            [("esc ", "key"), ("back", "")],
        ]
        self._words.put(lines)

    def action_stay(self) -> None:
        if not self.is_ending:
            self.dismiss()

    def action_end(self, how: str) -> None:
        """Start to end or to leave the swarm; later calls do nothing."""
        if self.is_ending:
            return
        if self.cockpit.feed.lost:
            how = "leave"  # another cockpit has ended the swarm meanwhile
        if not self._is_owner:
            how = {"stop": "end", "leave": "detach"}[how]
        self._how, self._since = how, time.monotonic()
        self._draw_progress()
        self.set_interval(0.25, self._draw_progress)
        if how == "end":
            self.cockpit.start_work(self._end_for_all)
        else:
            self.cockpit.start_leaving(how)

    async def _end_for_all(self) -> None:
        try:
            await self.cockpit.connection.api.shutdown()
        except ZoeaError as error:
            self.dismiss()
            self.cockpit.show_error(error)
        else:
            self.cockpit.start_leaving("end")

    def interrupt(self) -> None:
        """Handle ctrl+c: end an own swarm, leave another process's; the second time exit at once."""
        if self.is_ending:
            self.cockpit.leave_now()
        else:
            self.action_end("stop" if self._is_owner else "leave")

    def _draw_progress(self) -> None:
        passed = time.monotonic() - self._since
        said = _SAID["lost" if self.cockpit.feed.lost and self._how == "detach" else self._how]
        filled, empty = number_format.bar(passed / _WITHIN_S, _BAR)
        self._words.put(
            [
                [(said, "strong")],
                [],
                [(filled, "running"), (empty, "quiet"), (f"  {passed:.0f} s of {_WITHIN_S} at most", "quiet")],
                [("^c ", "key"), ("exits at once", "")],
            ]
        )
