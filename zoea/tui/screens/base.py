"""What every screen of the cockpit has: the app's type, the first line, the footer of its place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from textual.events import DescendantBlur, DescendantFocus
from textual.screen import Screen

from zoea.model.values import Event
from zoea.text.control_characters import one_line
from zoea.tui import number_format
from zoea.tui.commands.actions import Action, Place, Situation, of
from zoea.tui.commands.typed_keys import is_typing, typed_keys
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.status_bars import KeyFooter, PieceLine

if TYPE_CHECKING:
    from zoea.tui.app import Cockpit

T = TypeVar("T")
NARROW = 100
CLOCK_FROM = 120


@dataclass(frozen=True, slots=True)
class _Bars:
    """The lines around a screen and what its keys can do, looked up once: both are drawn with every change."""

    tops: list[PieceLine]
    keys: list[KeyFooter]
    possible: list[Action]

    @property
    def are_attached(self) -> bool:
        return all(bar.is_attached for bar in (*self.tops, *self.keys)) and bool(self.tops or self.keys)


class CockpitScreen(Screen[T]):
    """A screen with a first line `#top` and a footer `#keys`; subclasses compose both."""

    PLACES: ClassVar[tuple[Place, ...]] = (Place.EVERYWHERE,)
    TITLES: ClassVar[dict[str, str]] = {}
    """What the footer calls an action here, by id, where it does something of its own."""
    LEADS_BACK: ClassVar[bool] = True
    """Whether escape goes to another screen, which the footer then says."""
    _bars: _Bars | None = None

    @property
    def cockpit(self) -> Cockpit:
        return cast("Cockpit", self.app)

    def situation(self) -> Situation:
        return self.cockpit.base_situation()

    def on_mount(self) -> None:
        self.redraw_bars()

    def on_screen_resume(self) -> None:
        self.redraw_bars()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        self.redraw_bars()

    def on_descendant_blur(self, event: DescendantBlur) -> None:
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
        if self._bars is None or not self._bars.are_attached:
            possible = [
                replace(action, title=self.TITLES.get(action.id, action.title))
                for action in of(*self.PLACES)
                if self.cockpit.can_do(action, self)
            ]
            self._bars = _Bars(
                list(self.query("#top").results(PieceLine)), list(self.query("#keys").results(KeyFooter)), possible
            )
        for top in self._bars.tops:
            top.put(*self._top())
        for keys in self._bars.keys:
            if self.focused is not None and is_typing(self.focused):
                keys.describe_typed(typed_keys(self.focused, self._bars.possible, self.cockpit.keys), self._badge())
            else:
                keys.describe(
                    self._bars.possible,
                    self.situation(),
                    self.cockpit.keys,
                    self._badge(),
                    leads_back=self.LEADS_BACK,
                )

    def _badge(self) -> str:
        if self.cockpit.arming.note:
            return f"{self.cockpit.arming.note} "
        opened = self.cockpit.opened
        if opened is not None and opened.looks_only:
            return "looking only "
        return "" if opened is None or opened.is_owner else "attached "

    def _stands_still(self) -> list[Piece]:
        """That nothing goes on, which is said before everything else."""
        view = self.cockpit.feed.view
        if self.cockpit.feed.lost:
            return [("the swarm has ended   ", "errored")]
        return [("ON HOLD   ", "asking")] if view is not None and view.held else []

    def _needed(self) -> list[Piece]:
        """Who needs the commander, by name where it is one."""
        needing = self.cockpit.feed.roster.in_need
        if len(needing) == 1:
            return [(f" · 1 needs you: {one_line(needing[0].name)}", "asking")]
        return [(f" · {len(needing)} need you", "asking")] if needing else []

    def _top(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        cockpit = self.cockpit
        glyphs = cockpit.glyphs
        roster = cockpit.feed.roster
        running = roster.running
        left = [(f"{glyphs['brand']} Z O E A {glyphs['brand-full']} ", "title")]
        if cockpit.opened is None:
            left.append(
                (" opening the swarm…" if cockpit.open_error is None else f" {cockpit.open_error.title}", "quiet")
            )
            return left, []
        still = self._stands_still()
        is_narrow = self.size.width < NARROW
        # Where there is little room, why it stands still is worth more than where.
        left += [] if still and is_narrow else [(f" {cockpit.opened.workspace or 'default'}   ", "quiet")]
        left += [(" ", ""), *still] if still and is_narrow else still
        left.append(("1 mysis" if len(roster.myses) == 1 else f"{len(roster.myses)} myses", ""))
        left.append((f" · {running} running", "running" if running else "quiet"))
        left += self._needed()
        if roster.waiting and not is_narrow:
            left.append((f" · {roster.waiting} waiting", "waiting"))
        view = cockpit.feed.view
        if view is not None and view.held and view.hold_reason:
            left.append((f"  {one_line(view.hold_reason)}", "waiting"))
            if is_narrow:
                return left, []
        rate = cockpit.feed.rate()
        right = [(f"~{number_format.tokens(rate)}/min", "quiet")] if rate else []
        if view is not None:
            cost = view.cost_today_micros
            if cost is None or not is_narrow:
                budget = f"/{number_format.tokens(view.budget_today)}" if view.budget_today else ""
                right.append((f"  {number_format.tokens(view.tokens_today)}{budget} today", "quiet"))
            right += [(f"  {number_format.money(cost)}", "quiet")] if cost is not None else []
            clock = number_format.clock(cockpit.now(), cockpit.now()) if self.size.width >= CLOCK_FROM else ""
            right.append((f"   {clock} " if clock else " ", "quiet"))
        return left, right
