"""What every screen of the cockpit has: the app's type, the first line, the footer of its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from textual.screen import Screen

from zoea.model.values import Event
from zoea.tui import attention, figures
from zoea.tui.actions import Place, Situation, of
from zoea.tui.widgets.bars import KeyLine, Line

if TYPE_CHECKING:
    from zoea.tui.app import Cockpit

T = TypeVar("T")
NARROW = 100
CLOCK_FROM = 120


class CockpitScreen(Screen[T]):
    """A screen with a first line `#top` and a footer `#keys`; subclasses compose both."""

    PLACES: ClassVar[tuple[Place, ...]] = (Place.EVERYWHERE,)

    @property
    def cockpit(self) -> Cockpit:
        from zoea.tui.app import Cockpit

        return cast(Cockpit, self.app)

    def situation(self) -> Situation:
        return self.cockpit.base_situation()

    def on_mount(self) -> None:
        self.redraw_bars()

    def on_screen_resume(self) -> None:
        self.redraw_bars()

    def feed_changed(self, ids: frozenset[int]) -> None:
        self.redraw_bars()

    def feed_happened(self, event: Event) -> None:
        """Most screens live by changes alone."""

    def tick(self) -> None:
        self.redraw_bars()

    def look_changed(self) -> None:
        for widget in self.query("*"):
            restyle: Any = getattr(widget, "restyle", None)
            if restyle is not None:
                restyle()
            widget.refresh()

    def redraw_bars(self) -> None:
        """The first and the last line, from the feed."""
        if not self.is_mounted:
            return
        for top in self.query("#top").results(Line):
            top.put(*self._top())
        for keys in self.query("#keys").results(KeyLine):
            possible = [action for action in of(*self.PLACES) if self.cockpit.can_do(action, self)]
            keys.describe(possible, self.situation(), self.cockpit.keys, self._badge())

    def _badge(self) -> str:
        if self.cockpit.arming.note:
            return f"{self.cockpit.arming.note} "
        opened = self.cockpit.opened
        return "" if opened is None or opened.is_owner else "attached "

    def _top(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        cockpit = self.cockpit
        glyphs = cockpit.glyphs
        views = list(cockpit.feed.myses.values())
        running = sum(1 for view in views if view.state == "running")
        left = [(f"{glyphs['brand']} Z O E A {glyphs['brand-full']} ", "title")]
        if cockpit.opened is None:
            left.append(
                (" opening the swarm…" if cockpit.open_error is None else f" {cockpit.open_error.title}", "quiet")
            )
            return left, []
        left.append((f" {cockpit.opened.workspace or 'default'}   ", "quiet"))
        left.append((f"{len(views)} myses", ""))
        left.append((f" · {running} running", "running" if running else "quiet"))
        waiting = sum(1 for view in views if view.state == "running" and view.waiting_until is not None)
        is_narrow = self.size.width < NARROW
        needing = attention.needing(views)
        if needing:
            first = needing[0].name
            left.append(
                (
                    f" · {len(needing)} needs you: {first}" if len(needing) == 1 else f" · {len(needing)} need you",
                    "asking",
                )
            )
        if waiting and not is_narrow:
            left.append((f" · {waiting} waiting", "waiting"))
        view = cockpit.feed.view
        if view is not None and view.held:
            left.append((f"  ON HOLD {view.hold_reason}", "asking"))
        if cockpit.feed.lost:
            left.append(("  the swarm has ended", "errored"))
        rate = cockpit.feed.rate()
        right = [(f"~{figures.tokens(rate)}/min", "quiet")] if rate else []
        if view is not None:
            cost = view.cost_today_micros
            if cost is None or not is_narrow:
                budget = f"/{figures.tokens(view.budget_today)}" if view.budget_today else ""
                right.append((f"  {figures.tokens(view.tokens_today)}{budget} today", "quiet"))
            right += [(f"  {figures.money(cost)}", "quiet")] if cost is not None else []
            clock = figures.clock(cockpit.now(), cockpit.now()) if self.size.width >= CLOCK_FROM else ""
            right.append((f"   {clock} " if clock else " ", "quiet"))
        return left, right
