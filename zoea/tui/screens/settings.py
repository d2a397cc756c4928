"""The settings as a form: pages left, fields with value and origin right.

A value is written to the person's `config.toml` when it is entered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, ClassVar

from msgspec.structs import replace
from rich.cells import cell_len
from textual import events, getters
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.types import CSSPathType
from textual.widget import Widget
from textual.widgets import Input

from zoea.model.errors import SettingsError, ZoeaError
from zoea.runtime.model_lists import check_setting, has_list, keep_setting
from zoea.settings.fields import Page
from zoea.settings.key_paths import DEFAULT, Layer, SettingsInvalid
from zoea.settings.layers import LoadedSettings, load
from zoea.text.control_characters import one_line, reveal
from zoea.tui.commands import keymap
from zoea.tui.commands.action import Action, ActionContext, ActionPlace, Handlers
from zoea.tui.commands.actions import BY_ID
from zoea.tui.commands.swarm_commands import reload_settings
from zoea.tui.dialogs.modal import CockpitDialog
from zoea.tui.screens.base import CockpitScreen
from zoea.tui.screens.help import PLACE_TITLES
from zoea.tui.screens.theme_choice import ThemeChooser
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.state.settings_form import KEYS, LOOK, SettingField, SettingGroup, groups, lock, parsed, save
from zoea.tui.text_layout import Piece, cut_pieces, fit_text
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.line_list import PickItem, PickList
from zoea.tui.widgets.search_inputs import FilterLine

CONNECT = "+"
ALL = "all"
POLL_S = 1.0
_KEY = "key"
_LEAST_TITLE, _WIDEST_TITLE = 16, 36
_BOTH_FROM = 72
"""Width from which pages and fields stand side by side."""
_VALUE_KEPT = 12
"""Cells of a value that its origin leaves it."""
_AT_ONCE = ("nudge", "wait", "upstream", "swarm", "budget")
"""Sections whose changes do not wait for the next turn."""
_NEXT_TURN = ("budget.token_budget_per_agent", "budget.max_output_tokens")
"""Fields of these sections whose changes do."""


class SettingsScreen(CockpitScreen[None]):
    """Shows all settings as a form, with the choice of a theme.

    Args:
        group: The section to open at, on its page.
        field: The key of the setting to open at, in that section.
    """

    CSS_PATH = "settings.tcss"
    PLACE = ActionPlace.SETTINGS
    ON_ENTER: ClassVar[str] = "save"
    IS_SEEN_FIRST = True
    BINDINGS: ClassVar[list[BindingType]] = [("right", "deeper"), ("left", "shallower")]

    def __init__(self, *, group: str = "", field: str = "") -> None:
        super().__init__()
        self._first_field = field
        self._is_at_field = bool(field)
        self._first = group
        self._themes = ThemeChooser(self)
        self._groups: tuple[SettingGroup, ...] = ()
        self._fields: dict[str, SettingField] = {}
        self._page = ""
        self.note: tuple[str, str] = ("", "")
        self._doubted: tuple[str, str] | None = None
        self._own_keys: dict[str, str] = {}

    def bind_actions(self) -> Handlers:
        return {
            "app.find": lambda: self._filter.open(),
            "settings.change": lambda: (self.fields if self.fields.has_focus else self.sections).action_choose(),
            "settings.default": self._restore_default,
        }

    def compose_body(self) -> ComposeResult:
        with Container(id="body"):
            yield PickList(id="sections", classes="panel", title="SETTINGS")
            with Vertical(id="right"):
                yield FilterLine(placeholder="words of a setting, on all pages", id="filter")
                yield PickList(id="fields", classes="panel")
                with Vertical(id="editor", classes="panel"):
                    yield TextBlock(id="about")
                    yield Input(id="value", compact=True)
                    yield TextBlock(id="said")

    def on_mount(self) -> None:
        self._themes.begin()
        self.sections.focus()
        self.editor.display = False
        self.set_interval(POLL_S, self.poll_themes)
        self.run_worker(DeferredWork(self._load), exclusive=True, group="load")

    def on_unmount(self) -> None:
        self._themes.restore()

    sections = getters.query_one("#sections", PickList)
    fields = getters.query_one("#fields", PickList)
    editor = getters.query_one("#editor", Vertical)
    value = getters.query_one("#value", Input)
    _filter = getters.query_one(FilterLine)

    @property
    def holds_keys(self) -> bool:
        """Hold keys until a value is written, because the next one is chosen by it."""
        return self.cockpit.writes.waiting > 0

    # Reading.

    async def _load(self) -> None:
        try:
            loaded = await asyncio.to_thread(load, self.cockpit.places)
        except SettingsError as error:
            self._show_broken(error)
            return
        self._take(loaded)

    def _take(self, loaded: LoadedSettings) -> None:
        context = super().action_context()
        reason, looks = context.read_only_reason, context.writes_files
        self._groups = tuple(lock(group, reason, but_looks=looks) if reason else group for group in groups(loaded))
        self._fields = {field.key: field for group in self._groups for field in group.fields}
        self._own_keys = dict(loaded.settings.tui.keys)
        choices = [PickItem(((page.title(), ""),), page) for page in (*Page, ALL)]
        of_group = next((field for group in self._groups if group.id == self._first for field in group.fields), None)
        first = self._fields.get(self._first_field, of_group)
        on = first.page if first is not None else Page.LOOK if self._first == LOOK else ""
        self.sections.put([*choices, PickItem((("+ connect a model", "title"),), CONNECT)], on=on)
        self._page = self._page or self.sections.chosen
        self._draw()
        if first is not None:
            self.fields.select(first.key)
        if self._first_field:
            self.fields.focus()
        self._first = self._first_field = ""

    def _show_broken(self, error: SettingsError) -> None:
        problems = error.problems if isinstance(error, SettingsInvalid) else ()
        lines = [str(problem) for problem in problems] or [error.what]
        self.fields.border_title = "THE SETTINGS CANNOT BE READ"
        self.fields.put([PickItem(((one_line(line), "errored"),)) for line in lines])
        self.sections.put([])

    # Drawing.

    @property
    def field(self) -> SettingField | None:
        """The field under the cursor."""
        return self._fields.get(self.fields.chosen)

    @property
    def theme(self) -> str:
        """The theme under the cursor; empty where there is none."""
        chosen = self.fields.chosen
        return chosen if chosen in self.cockpit.theme_specs and chosen not in self._fields else ""

    def _draw(self) -> None:
        if not self._groups:
            return
        words = self._filter.text
        self.fields.border_title = Content(f"ALL WITH {reveal(words)}" if words else self._page.upper())
        wanted = words.casefold().split()
        lines = [line for group in self._groups for line in self._group_lines(group, wanted)]
        shows_kept = self._page in (LOOK, ALL) and not wanted and not self.fields.chosen
        nothing = PickItem((("No setting has these words", "quiet"),))
        self.fields.put(lines or [nothing], on=self._themes.kept if shows_kept else "")
        self._draw_editor()

    def _group_lines(self, group: SettingGroup, words: list[str]) -> list[PickItem]:
        """Return the lines of a section on this page. With words, return its settings that have all of them."""
        lines: list[PickItem] = []
        if group.id == LOOK:
            lines = [line for line in self._themes.lines() if self._is_shown(Page.LOOK, f"theme {line.id}", words)]
        place: ActionPlace | None = None
        for field in group.fields:
            told = f"{group.title} {field.key} {field.title} {field.description} {field.text}"
            if not self._is_shown(field.page, told, words):
                continue
            if group.id == KEYS and (its_place := BY_ID[field.path[-1]].place) is not place:
                place = its_place
                lines.append(PickItem(((PLACE_TITLES[its_place], "title"),)))
            lines += self._field_lines(field)
        return [PickItem(((group.title.upper(), "title"),)), *lines] if lines else []

    def _is_shown(self, page: Page, told: str, words: list[str]) -> bool:
        return all(word in told.casefold() for word in words) if words else self._page in (page, ALL)

    def on_filter_line_changed(self, event: FilterLine.Changed) -> None:
        self._themes.restore()
        self._draw()

    def on_filter_line_closed(self, event: FilterLine.Closed) -> None:
        self._is_at_field |= bool(self._filter.text)
        self.fields.focus()

    def _field_lines(self, field: SettingField) -> list[PickItem]:
        is_own = field.origin.layer is not Layer.DEFAULT
        shown = one_line(field.text) or "unset"
        if field.text and field.kind.startswith("seconds"):
            shown = f"{shown} s"
        if shown == "none" and '"none"' in field.kind:
            shown = "none: no limit"
        role = "quiet" if field.locked or not field.text else "strong"
        width = min(_WIDEST_TITLE, max(_LEAST_TITLE, self.fields.width // 2))
        origin: Piece = (f"  {one_line(field.origin_text)}", "tool" if is_own else "quiet")
        # A short value comes before its origin.
        room = self.fields.width - width - 1 - min(cell_len(shown), _VALUE_KEPT)
        choice = PickItem(
            ((fit_text(field.title, width), ""), (" ", ""), (shown, role)),
            field.key,
            tuple(cut_pieces([origin], max(3, room))),
        )
        if self.note[0] == field.key and self.note[1].startswith("!"):
            return [choice, PickItem(((f"  {self.note[1][1:]}", "errored"),))]
        return [choice]

    def on_resize(self) -> None:
        self._share_width()
        self.call_after_refresh(self._draw)

    def _share_width(self) -> None:
        """Show the pages beside the fields. Where both are too narrow, show only what has the focus."""
        self.sections.display = self.size.width >= _BOTH_FROM or self.focused in (None, self.sections)

    def _draw_editor(self) -> None:
        field = self.field
        self.editor.display = True
        change = "" if self.fields.has_focus else "open"
        if self._retitled.get("settings.change", "") != change:
            self.retitle("settings.change", change)
        self.redraw_bars()
        about = self.query_one("#about", TextBlock)
        said = self.query_one("#said", TextBlock)
        self.value.display = field is not None and not field.locked and not field.options
        if self.theme:
            self.editor.border_title = "SAMPLE"
            about.put(self._themes.sample())
            said.put([])
            return
        if field is None:
            self.editor.border_title = ""
            about.put([])
            said.put([])
            return
        self.editor.border_title = Content(one_line(field.key))
        about.put([[(field.description, "")], [(self._hint(field), "quiet")]])
        if not self.value.has_focus:
            self.value.value = reveal(field.text)
        key, text = self.note
        said.put(
            [[(text.removeprefix("!"), "errored" if text.startswith("!") else "running")]] if key == field.key else []
        )

    def _hint(self, field: SettingField) -> str:
        default = f" · default {field.default or 'unset'}"
        if field.locked:
            return field.locked
        if field.options:
            return f"{field.kind}{default} · enter or space: next value"
        if field.kind == _KEY:
            return f'{field.kind} · default "{field.default}" · enter, then press a key · space, then type its name'
        return f"{field.kind}{default}"

    # Moving.

    def on_pick_list_moved(self, event: PickList.Moved) -> None:
        if event.lines is self.sections:
            if event.id != CONNECT and event.id != self._page:
                self._themes.restore()
                self._page = event.id
                self.note = ("", "")
                self._filter.drop()
                self.fields.put([])  # so that the cursor begins at the first line
                self._draw()
        else:
            if self.theme and self.fields.has_focus:
                self.cockpit.use_theme(self.theme)
            else:
                self._themes.restore()
                self.note = ("", "")
            self._draw_editor()

    def on_pick_list_chosen(self, event: PickList.Chosen) -> None:
        if event.lines is self.sections:
            if event.id == CONNECT:
                self._connect()
            else:
                self.action_deeper()
        elif self.theme:
            self._themes.keep(self.theme)
            self._draw()
        else:
            self._enter_field()

    def action_deeper(self) -> None:
        if self.sections.has_focus and self.fields.ids:
            self.fields.focus()
            if self.theme:
                self.cockpit.use_theme(self.theme)

    def action_shallower(self) -> None:
        if self.fields.has_focus:
            self._leave_fields()

    def back(self) -> None:
        """Leave the input, else the fields, else the screen. A theme that is only previewed is taken back.

        A screen that was opened at a field, or searched, is left from its fields.
        """
        if self.value.has_focus:
            self.fields.focus()
            self.note = ("", "")
            self._draw()
        elif self._filter.text:
            self._filter.action_clear()
        elif self.fields.has_focus and not self._is_at_field:
            self._leave_fields()
        else:
            self.cockpit.pop_screen()

    def _leave_fields(self) -> None:
        self._themes.restore()
        self.sections.display = True
        self.sections.focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self._share_width()
        if self._groups:
            self._draw_editor()

    def action_context(self) -> ActionContext:
        field = self.field if self.fields.has_focus or self.value.has_focus else None
        is_own = field is not None and not field.locked and field.origin.layer is Layer.USER
        return replace(super().action_context(), has_own_value=is_own)

    def _connect(self) -> None:
        from zoea.tui.dialogs.connect import ConnectDialog

        def connected(name: str | None) -> None:
            if name:
                reload_settings(self.cockpit)
                self.run_worker(DeferredWork(self._load), exclusive=True, group="load")

        self.cockpit.push_screen(ConnectDialog(), connected)

    # Changing.

    def _enter_field(self) -> None:
        field = self.field
        if field is None:
            return
        if field.locked:
            self.notify(field.locked, title=field.title, severity="warning", markup=False)
            self.cockpit.type_ahead.discard_text()  # what is typed for it would run as commands
        elif field.options:
            here = field.options.index(field.text) if field.text in field.options else -1
            self._save(field, field.options[(here + 1) % len(field.options)])
        elif field.kind == _KEY:
            self._capture(field)
        else:
            self._type(field)

    def _type(self, field: SettingField) -> None:
        self.value.value = reveal(field.text)
        self.value.focus()
        self.value.cursor_position = len(field.text)

    def _capture(self, field: SettingField) -> None:
        """Ask for a key by pressing it."""
        action = BY_ID[field.path[-1]]

        def pressed(key: str | None) -> None:
            if key is not None:
                self._save(field, key)

        self.cockpit.push_screen(KeyCaptureDialog(action, self._own_keys), pressed)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if self.field is not None:
            self._save(self.field, event.value)

    def key_space(self) -> None:
        field = self.field
        if not self.fields.has_focus or field is None or field.locked:
            return
        if field.options:
            self._enter_field()
        elif field.kind == _KEY:
            self._type(field)

    def _restore_default(self) -> None:
        field = self.field
        if field is not None and not field.locked:
            self.cockpit.writes.put(lambda: self._write(field, None))

    def _save(self, field: SettingField, text: str) -> None:
        value = parsed(field, text)
        self.cockpit.writes.put(lambda: self._write(field, value))

    async def _doubts(self, field: SettingField, value: Any) -> bool:
        """Say what speaks against a model's name, once. The same name a second time is kept."""
        section, provider, *key = (*field.path, "", "")[:3]
        if section != "provider" or key != ["model"]:
            return False
        name = str(value or "")
        if self._doubted == (provider, name):
            await asyncio.to_thread(keep_setting, self.cockpit.places, provider, name)
            return False
        if not await asyncio.to_thread(has_list, self.cockpit.places, provider):
            with suppress(ZoeaError):
                await self.cockpit.api.providers()  # the swarm stores what the servers list
        if doubt := await asyncio.to_thread(check_setting, self.cockpit.places, provider, name):
            self._doubted = (provider, name)
            self._say(field, f"!{doubt}. Press enter again to keep it")
        return bool(doubt)

    async def _write(self, field: SettingField, value: Any) -> None:
        try:
            if await self._doubts(field, value):
                return
            with self.cockpit.settings_watch.own_change():
                loaded = await asyncio.to_thread(save, self.cockpit.places, field.path, value)
        except SettingsInvalid as error:
            messages = "; ".join(problem.message for problem in error.problems)
            self._say(field, f"!{messages}")
            return
        except SettingsError as error:
            self._say(field, f"!{error.what}")
            return
        origin = loaded.origins.get(field.key, DEFAULT)
        if value is not None and origin.layer is not Layer.USER:
            self.note = (field.key, f"written, but {origin} overrides it")
        else:
            counts = "" if field.path[0] in ("tui", "broadcast") else await self._counts(field)
            self.note = (field.key, ("taken out" if value is None else "written") + counts)
        self.cockpit.use_settings(loaded.settings)
        if self.is_attached:
            if self.value.has_focus:
                self.fields.focus()
            self.redraw_bars()
            self._take(loaded)

    async def _counts(self, field: SettingField) -> str:
        """Let the running swarm apply a written setting; return when it takes effect."""
        try:
            report = await self.cockpit.api.reload()
        except ZoeaError as error:
            return f"; the running swarm does not apply it: {error.what}"
        if field.key in report.waiting:
            return "; it applies when the swarm is opened again"
        is_at_once = field.path[0] in _AT_ONCE and field.key not in _NEXT_TURN
        return "; it applies at once" if is_at_once else "; it applies from the next turn on"

    def _say(self, field: SettingField, text: str) -> None:
        self.note = (field.key, text)
        if self.is_attached:
            self._draw()
        else:
            self.cockpit.notify(f"{field.key} is not written: {text.lstrip('!')}", severity="error", markup=False)

    # Themes.

    def poll_themes(self) -> None:
        """Reload changed theme files while themes are shown."""
        if self._page in (LOOK, ALL) and self.is_current and self._themes.reload_changed():
            self._draw()

    def theme_changed(self) -> None:
        super().theme_changed()
        if self._groups and self.query("#editor"):
            self._draw_editor()


class KeyCaptureDialog(CockpitDialog[str]):
    """Returns the pressed key; None after escape, which only `app.back` may have.

    Args:
        action: The action that gets the key.
        chosen: The person's keys, by action id.
    """

    CSS_PATH: ClassVar[CSSPathType | None] = "../dialogs/modal.tcss"
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, action: Action, chosen: dict[str, str]) -> None:
        super().__init__()
        self._action = action
        self._chosen = chosen

    @property
    def heading(self) -> str:
        return f"A KEY FOR {self._action.title.upper()}"

    def content(self) -> Iterable[Widget]:
        return (TextBlock(id="words"),)

    def on_mount(self) -> None:
        self._draw("")

    def _draw(self, problem: str) -> None:
        now = self.cockpit.key(self._action.id)
        lines: list[list[Piece]] = [
            [(self._action.description, "strong"), (f"   now {now}", "quiet")],
            [],
            [("Press the new key", ""), ("     esc", "key"), (" cancels", "")],
        ]
        self.query_one(TextBlock).put([*lines, [], [(problem, "errored")]] if problem else lines)

    async def on_event(self, event: events.Event) -> None:
        """Take every key as the answer."""
        if not isinstance(event, events.Key):
            await super().on_event(event)
            return
        event.stop()
        event.prevent_default()
        if event.key == "escape":
            self.dismiss(None)
            return
        problem = keymap.problems({**self._chosen, self._action.id: event.key}).get(self._action.id, "")
        if problem:
            self._draw(problem)
        else:
            self.dismiss(event.key)
