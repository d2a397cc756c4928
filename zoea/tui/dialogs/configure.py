"""The form that configures one mysis, or the marked ones.

Every field starts with the current value, where all of them have the same; only changed values are sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.types import CSSPathType
from textual.widgets import Input, Static, TextArea

from zoea.model.errors import UsageError, ZoeaError
from zoea.model.values import MysisView
from zoea.text.control_characters import one_line, strip
from zoea.text.sentences import count_of
from zoea.tui.dialogs.modal import CockpitDialog, form_row
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.state.server_models import ServerModels
from zoea.tui.widgets.clickable_text import TextBlock, key_hints
from zoea.tui.widgets.inline_choice import InlineChoice
from zoea.tui.widgets.model_field import ModelField

if TYPE_CHECKING:
    from zoea.runtime.mysis_options import MysisConfiguration

_BUDGETS = (
    ("budget.token_budget_per_agent", "per request"),
    ("budget.token_budget_per_task", "per turn"),
    ("budget.mysis", "per mysis"),
)
_KEPT = "\x00kept"
_AS_THEY_ARE = "unchanged"


class SettingsText(TextArea):
    """Lines of settings; up and down lead to the fields beside it from its first and last line."""

    def action_cursor_up(self, select: bool = False) -> None:
        if select or not self.cursor_at_first_line:
            super().action_cursor_up(select)
        else:
            self.app.action_focus_previous()

    def action_cursor_down(self, select: bool = False) -> None:
        if select or not self.cursor_at_last_line:
            super().action_cursor_down(select)
        else:
            self.app.action_focus_next()


class ConfigureDialog(CockpitDialog[None]):
    """Template, provider, model, tags, budgets and settings of one or several myses."""

    CSS_PATH: ClassVar[CSSPathType | None] = ["modal.tcss", "configure.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "keep", "save", priority=True),
        Binding("escape", "leave", "back"),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def __init__(self, views: Sequence[MysisView]) -> None:
        super().__init__()
        self._views = tuple(views)
        self._before: MysisConfiguration | None = None
        self._is_keeping = False
        self._server_models: ServerModels | None = None
        self._is_reading = True

    @classmethod
    def open_over(cls, cockpit: Cockpit) -> ConfigureDialog:
        return cls(cockpit.action_context().targets)

    @property
    def holds_keys(self) -> bool:
        """Hold keys until the fields are filled, because they would replace a text typed before."""
        return self._is_reading

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = Content(f"CONFIGURE {self._who}")
            box.border_subtitle = key_hints("enter save · tab next field · esc back")
            yield from form_row("template", InlineChoice([(_KEPT, _AS_THEY_ARE)], id="template"))
            yield from form_row("provider", InlineChoice([(_KEPT, _AS_THEY_ARE)], id="provider"))
            yield from form_row("model", ModelField(id="model"))
            yield from form_row("tags", Input(id="tags", compact=True))
            yield Static("token limits", classes="head", markup=False)
            for path, label in _BUDGETS:
                yield from form_row(label, Input(id=_id(path), compact=True))
            yield Static("its own settings, as name=value", classes="head", markup=False)
            others = SettingsText(id="others", placeholder="none; as nudge.enabled=false", compact=True, soft_wrap=True)
            others.cursor_blink = False
            yield from form_row("", others)
            yield TextBlock(id="error")

    @property
    def _who(self) -> str:
        return one_line(self._views[0].name) if len(self._views) == 1 else count_of(len(self._views), "mysis")

    def on_mount(self) -> None:
        self.query_one("#template", InlineChoice).focus()
        self.cockpit.run_worker(DeferredWork(self._read), exit_on_error=False)

    def _offer_models(self) -> None:
        """Offer the models of the chosen provider, or of the one that all have now."""
        if self.is_attached and self._before is not None and self._server_models is not None:
            provider = self._chosen("provider") or self._before.provider
            self.query_one(ModelField).offer(self._server_models.of(provider) if provider else None)

    def on_inline_choice_changed(self, event: InlineChoice.Changed) -> None:
        self._offer_models()

    async def _read(self) -> None:
        from zoea.runtime.mysis_options import format_settings, read_configuration

        cockpit, opened = self.cockpit, self.cockpit.opened
        if opened is None:
            self._is_reading = False
            return
        try:
            ids = [view.id for view in self._views]
            found = await asyncio.to_thread(read_configuration, opened.places, opened.database, ids, cockpit.now())
        except ZoeaError as error:
            self._say(error)
            return
        finally:
            self._is_reading = False
        if not self.is_attached:
            return
        self._before = found
        offered = found.choices
        templates = [(one.name, f"{one.name}  {one.title}") for one in offered.templates]
        self.query_one("#template", InlineChoice).offer([(_KEPT, _as_it_is(found.template)), *templates])
        providers = [(one.name, one.title) for one in offered.providers if one.name]
        self.query_one("#provider", InlineChoice).offer([(_KEPT, _as_it_is(found.provider)), *providers])
        for name, value in (("#model", found.model), ("#tags", found.tags)):
            text = self.query_one(name, Input)
            text.value = strip(value)
            text.placeholder = "" if len(self._views) == 1 else _AS_THEY_ARE
        for path, _ in _BUDGETS:
            field = self.query_one(f"#{_id(path)}", Input)
            field.value = str(found.own[path]) if path in found.own else ""
            general = found.general[path]
            field.placeholder = f"from the settings: {general:,}" if general else "from the settings: no limit"
        self.query_one("#others", TextArea).text = strip(format_settings(_rest(found.own)))
        self._server_models = ServerModels(cockpit, self._offer_models)
        await self._server_models.read()

    def action_leave(self) -> None:
        self.dismiss()

    def action_keep(self) -> None:
        if self._is_keeping or self._before is None:
            return
        model = self.query_one(ModelField).value
        if model != self._before.model and (doubt := self.query_one(ModelField).check(may_be_empty=True)):
            self._say(UsageError(doubt, title="Model"))
            return
        try:
            settings = self._settings()
        except UsageError as error:
            self._say(error)
            return
        self._is_keeping = True
        tags = tuple(dict.fromkeys(self.query_one("#tags", Input).value.replace(",", " ").split()))
        configure = partial(
            self.cockpit.api.configure,
            template=self._chosen("template"),
            provider=self._chosen("provider"),
            model=model if model != self._before.model else "",
            tags=None if " ".join(tags) == self._before.tags else tags,
            settings=settings,
        )

        async def configure_all() -> MysisView:
            for view in self._views:
                last = await configure(f"#{view.id}")
            return last

        self.cockpit.ask_swarm(configure_all(), done=self._kept, refused=self._say)

    def _chosen(self, field: str) -> str:
        value = self.query_one(f"#{field}", InlineChoice).value
        return "" if value == _KEPT else value

    def _settings(self) -> dict[str, Any]:
        """Return the changed settings. Raises UsageError for an invalid text."""
        from zoea.runtime.mysis_options import diff_settings, parse_settings

        assert self._before is not None
        after = parse_settings(self.query_one("#others", TextArea).text)
        for path, label in _BUDGETS:
            said = self.query_one(f"#{_id(path)}", Input).value.strip().replace(",", "").replace("_", "")
            if said and not said.isdecimal():
                raise UsageError(
                    f"tokens {label}: {said!r} is not a number", hint="Leave it empty for the value of the settings."
                )
            if said:
                after[path] = int(said)
        return diff_settings(self._before.own, after)

    def _kept(self, view: MysisView) -> None:
        done = f"{self._who} is {one_line(view.template)} now; r starts it"
        if len(self._views) > 1:
            done = f"{self._who} are configured; r starts them"
        self.cockpit.notify(done, markup=False)
        if self.is_current:
            self.dismiss()

    def _say(self, error: ZoeaError) -> None:
        self._is_keeping = False
        if not self.is_attached:
            self.cockpit.show_error(error)
            return
        said = self.query_one("#error", TextBlock)
        said.put_error(error)
        self.call_after_refresh(said.scroll_visible, animate=False)


def _as_it_is(name: str) -> str:
    return f"{name} (unchanged)" if name else _AS_THEY_ARE


def _id(path: str) -> str:
    return path.replace(".", "-")


def _rest(own: Any) -> dict[str, Any]:
    """Return the settings that have no field of their own."""
    return {path: value for path, value in own.items() if path not in dict(_BUDGETS)}
