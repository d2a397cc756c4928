"""Base classes of dialogs and forms, and the dialog that confirms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.types import CSSPathType
from textual.widget import Widget
from textual.widgets import Input, Static

from zoea.model.errors import UsageError, ZoeaError
from zoea.text.control_characters import one_line
from zoea.tui.commands.actions import BY_ID, bindings
from zoea.tui.screens.base import BaseScreen
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.clickable_text import TextBlock, key_hints
from zoea.tui.widgets.line_compositor import ShadedLines, shade_lines
from zoea.tui.widgets.line_list import PickList

T = TypeVar("T")
_BORDER = 8
"""Cells of the frame around the text in its lower border, on a narrow screen."""


class CockpitDialog(ModalScreen[T], BaseScreen[T]):
    """A box in the middle of the screen. Keys do not reach the screen behind it, or the app."""

    CSS_PATH: ClassVar[CSSPathType | None] = "modal.tcss"
    IS_SEEN_FIRST = True
    TITLE: ClassVar[str] = ""
    KEYS: ClassVar[str] = ""
    """The keys, as the lower border names them."""
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings((BY_ID["app.back"],)),
        Binding("escape", "leave", "back", show=False),  # also where another key was chosen for it
    ]

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.box = Vertical(classes="box")
        self._shaded: ShadedLines = {}

    @property
    def heading(self) -> str:
        """The title of the box."""
        return self.TITLE

    def content(self) -> Iterable[Widget]:
        """Return the widgets in the box."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        self.box.border_title = Content(self.heading)
        if self.KEYS:
            self.box.border_subtitle = key_hints(self.KEYS)
        with self.box:
            yield from self.content()

    def _render_content(self) -> None:
        """Draw the changed lines of the screen behind. Textual would draw all of them again."""
        behind = self.render()
        if not isinstance(behind, BackgroundScreen):
            super()._render_content()
            return
        size, (kept, strips) = self.size, self._render_cache
        changed = {y for region in self._dirty_regions for y in region.line_range if 0 <= y < size.height}
        if kept != size or len(strips) != size.height:
            strips, changed = [Strip([])] * size.height, set(range(size.height))
        for y, strip in shade_lines(behind, changed, self.visual_style.rich_style, self._shaded).items():
            strips[y] = strip
        self._render_cache = self._render_cache._replace(size=size, lines=strips)
        self._dirty_regions.clear()

    def action_leave(self) -> None:
        self.back()

    def back(self) -> None:
        """Close the dialog without a result."""
        self.dismiss()

    @property
    def is_open(self) -> bool:
        """Whether the dialog was not left yet; it may be below another one."""
        return self.is_attached and self in self.app.screen_stack

    def close(self, result: T | None = None) -> None:
        """Close the dialog, unless it was left or another one is above it."""
        if self.is_active:
            self.dismiss(result)


class ListDialog(CockpitDialog[None]):
    """Shows rows that are read again while it is open. A line holds results and errors."""

    problem: Piece = ("", "")
    """Why the rows could not be read."""
    result: Piece = ("", "")
    """What the last command did, or why it was refused."""
    _is_reading = False
    _is_old = False

    async def catch_up(self) -> None:
        """Read the rows. Raises ZoeaError, which becomes `problem`."""
        raise NotImplementedError

    def draw(self) -> None:
        """Show the rows as they are now."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.draw()
        self.read_again()

    def read_again(self) -> None:
        """Read the rows once the current read is done, and draw them.

        The app's worker does it, so that closing the dialog does not cancel what it began.
        """
        self._is_old = True
        if not self._is_reading:
            self._is_reading = True
            self.cockpit.run_worker(DeferredWork(self._catch_up), exit_on_error=False)

    async def _catch_up(self) -> None:
        try:
            while self._is_old:
                self._is_old = False
                try:
                    await self.catch_up()
                    self.problem = ("", "")
                except ZoeaError as error:
                    self.problem = describe_problem(error)
        finally:
            self._is_reading = False
            self.redraw_bars()

    @property
    def note(self) -> Piece:
        """The line below the rows: a key to repeat, a problem, or a result."""
        reason = self.action_context().read_only_reason
        notes = ((self.cockpit.arming.note, "asking"), self.problem, self.result, (reason, "waiting"))
        return next((note for note in notes if note[0]), ("", ""))

    def on_resize(self) -> None:
        self.redraw_bars()

    def redraw_bars(self) -> None:
        if self.is_attached:
            self.draw()

    def tick(self) -> None:
        self.redraw_bars()

    def on_pick_list_moved(self, event: PickList.Moved) -> None:
        event.stop()
        self.redraw_bars()


def describe_problem(error: ZoeaError) -> Piece:
    """Return an error on one line."""
    return (one_line(error.text), "errored")


class FormDialog(CockpitDialog[T]):
    """Lines with a label and an input. Enter carries the form out, and an error is shown below its lines."""

    VERB: ClassVar[str] = ""
    """What enter does."""
    HINTS: ClassVar[str] = "tab next field"
    """More keys, as the lower border names them."""
    FIRST: ClassVar[str] = "#name"
    """The input that has the focus first."""
    LABELS: ClassVar[Mapping[str, str]] = {}
    """The labels of fields by the keys that errors name."""
    GOES_ON: ClassVar[bool] = True
    """Whether closing the form lets what it carries out go on."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "proceed", "proceed", priority=True),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    _is_busy = False
    _is_filled = False

    @property
    def heading(self) -> str:
        return self.TITLE or self.VERB.upper()

    def fields(self) -> Iterable[tuple[str, Widget] | Widget]:
        """Return the lines of the form: a label with its input, or a widget alone."""
        raise NotImplementedError

    async def fill(self) -> None:
        """Read what the inputs offer; keys wait until then. Raises ZoeaError, which is shown."""

    async def carry_out(self) -> None:
        """Do what the form is for, then `close` it. Raises ZoeaError, which is shown."""
        raise NotImplementedError

    @property
    def holds_keys(self) -> bool:
        """Hold keys until the inputs are filled, because they would replace a text typed before."""
        return not self._is_filled

    def content(self) -> Iterable[Widget]:
        for field in self.fields():
            yield field if isinstance(field, Widget) else form_row(*field)
        yield TextBlock(id="error")

    def on_resize(self) -> None:
        """Name the keys in the lower border. The first of the hints go where it is narrow."""
        if self._is_busy:
            self.box.border_subtitle = key_hints(f"under way · esc {'back: it goes on' if self.GOES_ON else 'cancel'}")
            return
        hints, room = [hint for hint in self.HINTS.split(" · ") if hint], self.app.size.width - _BORDER
        while hints and len(" · ".join((f"enter {self.VERB}", *hints, "esc back"))) > room:
            del hints[0]
        self.box.border_subtitle = key_hints(" · ".join((f"enter {self.VERB}", *hints, "esc back")))

    def on_mount(self) -> None:
        self.query_one(self.FIRST).focus()
        self.run_worker(DeferredWork(self._fill), exit_on_error=False)

    async def _fill(self) -> None:
        try:
            await self.fill()
        except ZoeaError as error:
            self.say(error)
        finally:
            self._is_filled = True

    def typed(self, field: str) -> str:
        """Return the text of an input by its id, without blanks around it."""
        return self.query_one(f"#{field}", Input).value.strip()

    def action_proceed(self) -> None:
        if not self._is_busy:
            self._is_busy = True
            self.on_resize()
            worker = self.cockpit if self.GOES_ON else self
            worker.run_worker(DeferredWork(self._proceed), exit_on_error=False)

    async def _proceed(self) -> None:
        try:
            await self.carry_out()
        except ZoeaError as error:
            self.say(error)
        finally:
            self._is_busy = False
            if self.is_open:
                self.on_resize()

    def say(self, error: ZoeaError) -> None:
        """Show an error in the form, which keeps its texts."""
        if not self.is_open:
            self.cockpit.show_error(error)
            return
        what = error.what
        for key, label in self.LABELS.items():
            what = what.replace(key, label)
        block = self.query_one("#error", TextBlock)
        block.put_error(error if what == error.what else UsageError(what, hint=error.hint, title=error.title))
        self.call_after_refresh(block.scroll_visible, animate=False)


def form_row(label: str, widget: Widget, *, classes: str = "field") -> Horizontal:
    """Return one line of a form: a label and an input."""
    return Horizontal(Static(label, classes="label", markup=False), widget, classes=classes)


class ConfirmDialog(CockpitDialog[bool]):
    """Returns True when the person said yes.

    Args:
        title: The action, in capitals.
        lines: Its effect; the first line is the question.
        yes: What `y` does, as a verb.
        more: What `a` does instead of `y`; empty for nothing.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("a", "answer_more", show=False),
        Binding("n,escape", "answer(False)", "no"),
    ]

    has_chosen_more = False

    def __init__(self, title: str, lines: Sequence[str], yes: str, more: str = "") -> None:
        super().__init__()
        self._more = more
        self._title = title
        self._lines = lines
        self._yes = yes

    @property
    def heading(self) -> str:
        return one_line(self._title)

    def content(self) -> Iterable[Widget]:
        return (TextBlock(id="words"),)

    def on_mount(self) -> None:
        lines: list[list[Piece]] = [[(line, "" if number else "strong")] for number, line in enumerate(self._lines)]
        more: list[Piece] = [("     a", "key"), (f"  {self._more}", "")] if self._more else []
        lines += [[], [("y", "key"), (f"  {self._yes}", ""), *more, ("     esc", "key"), ("  cancel", "")]]
        self.query_one(TextBlock).put(lines)

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)

    def action_answer_more(self) -> None:
        if self._more:
            self.has_chosen_more = True
            self.dismiss(True)
