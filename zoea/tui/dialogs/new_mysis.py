"""The form for a new mysis. Every field has a default, so that enter alone creates one."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from zoea.model.errors import UsageError, ZoeaError
from zoea.model.values import MysisView
from zoea.runtime.mysis_options import MysisOptions, read_options
from zoea.runtime.run_options import StartOptions
from zoea.text.control_characters import one_line, strip
from zoea.tui.dialogs.modal import CockpitDialog, form_row
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.state.server_models import ServerModels
from zoea.tui.swarm_list.mysis_row import AUTOPILOT
from zoea.tui.widgets.clickable_text import TextBlock, key_hints
from zoea.tui.widgets.inline_choice import InlineChoice
from zoea.tui.widgets.model_field import ModelField

_YES, _NO = "yes", "no"
_START = [(_YES, "now; with neither task nor message it waits"), (_NO, "later: it stays idle until you start it")]


class NewMysisDialog(CockpitDialog[None]):
    """Name, task, template, provider, model, tags, start, and a broadcast to get before the task.

    Args:
        given: Its template, provider and model are chosen first.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "create", "create", priority=True),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def __init__(self, given: StartOptions = StartOptions()) -> None:
        super().__init__()
        self._given = given
        self._choices: MysisOptions | None = None
        self._server_models: ServerModels | None = None
        self._is_creating = False
        self._is_reading = True

    @classmethod
    def open_over(cls, cockpit: Cockpit) -> NewMysisDialog:
        return cls(cockpit.new_myses)

    @property
    def holds_keys(self) -> bool:
        """Hold keys until the templates are listed; the list forgets earlier choices."""
        return self._is_reading

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = "NEW MYSIS"
            box.border_subtitle = key_hints("enter create · tab next field · esc back")
            yield from form_row("name", Input(id="name", placeholder="empty: Zoea chooses one", compact=True))
            yield from form_row("task", Input(id="task", placeholder="empty: none", compact=True))
            with Horizontal(classes="field -list"):
                yield Static("template", classes="label", markup=False)
                yield OptionList(id="template", markup=False, compact=True)
            yield from form_row("provider", InlineChoice([("", "from the template")], id="provider"))
            yield from form_row("model", ModelField(id="model", placeholder="empty: the model of the provider"))
            yield from form_row("tags", Input(id="tags", placeholder="words separated by spaces", compact=True))
            yield from form_row("start", InlineChoice(_START, id="start"))
            yield from form_row("also send", InlineChoice([("", "nothing")], id="broadcast"))
            yield TextBlock(id="error")

    def on_mount(self) -> None:
        self.query_one("#name", Input).focus()
        self.cockpit.run_worker(DeferredWork(self._read), exit_on_error=False)

    def _offer_models(self) -> None:
        """Offer the models of the chosen provider. A template may name another one, so it is not checked then."""
        if self.is_attached and self._server_models is not None:
            self.query_one(ModelField).offer(self._server_models.of(self.query_one("#provider", InlineChoice).value))

    async def _read(self) -> None:
        cockpit = self.cockpit
        opened = cockpit.opened
        if opened is None:
            self._is_reading = False
            return
        try:
            found = await asyncio.to_thread(read_options, opened.places, opened.database, cockpit.now())
        except ZoeaError as error:
            self._say(error)
            return
        finally:
            self._is_reading = False
        if not self.is_attached:
            return  # closed during the read
        self._choices = found
        templates = self.query_one("#template", OptionList)
        templates.clear_options()
        templates.add_options([Option(_template(one.name, one.title), id=one.name) for one in found.templates])
        names = [one.name for one in found.templates]
        templates.highlighted = (
            names.index(self._given.template) if self._given.template in names else 0 if names else None
        )
        self._offer_providers()
        self.query_one("#provider", InlineChoice).choose(self._given.provider)
        self.query_one(ModelField).value = self._given.model
        if (latest := found.broadcast) is not None:
            offered = [("", "nothing"), (str(latest.id), f"first {latest.describe(cockpit.now())}")]
            self.query_one("#broadcast", InlineChoice).offer(offered)
        self._server_models = ServerModels(cockpit, self._offer_models)
        await self._server_models.read()

    def _offer_providers(self) -> None:
        """Offer the providers; the first one is that of the chosen template."""
        found = self._choices
        if found is None:
            return
        chosen = self.query_one("#template", OptionList).highlighted_option
        usual = strip(found.describe_provider((chosen.id or "") if chosen is not None else ""))
        given = self._given.provider
        offered = [(one.name, one.title if one.name else usual) for one in found.providers]
        if given and all(name != given for name, _ in offered):
            offered.append((given, one_line(given)))
        self.query_one("#provider", InlineChoice).offer(offered)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self._offer_providers()

    def on_inline_choice_changed(self, event: InlineChoice.Changed) -> None:
        if event.choice.id == "provider" and self._choices is not None:
            self.query_one(ModelField).placeholder = self._model_hint(event.choice.value)
            self._offer_models()

    def _model_hint(self, provider: str) -> str:
        """Return what an empty model means with a provider."""
        assert self._choices is not None
        if (provider or self._choices.usual_provider) == AUTOPILOT:
            return "none: the autopilot needs no model"
        own = self._choices.models.get(provider, "")
        return f"empty: {strip(own)}" if own else "empty: the model of the provider"

    def action_create(self) -> None:
        if self._is_creating:
            return
        doubt = self.query_one(ModelField).check(may_be_empty=True)
        if doubt:
            self._say(UsageError(doubt, title="Model"))
            return
        self._is_creating = True
        templates = self.query_one("#template", OptionList)
        chosen = templates.highlighted_option
        work = self.cockpit.api.create(
            self.query_one("#name", Input).value.strip(),
            template=(chosen.id or "") if chosen is not None else "",
            provider=self.query_one("#provider", InlineChoice).value,
            model=self.query_one("#model", Input).value.strip(),
            tags=tuple(dict.fromkeys(self.query_one("#tags", Input).value.replace(",", " ").split())),
            start=self.query_one("#start", InlineChoice).value == _YES,
            broadcast=int(self.query_one("#broadcast", InlineChoice).value or 0),
            task=self.query_one("#task", Input).value.strip(),
        )
        self.cockpit.ask_swarm(work, done=self._created, refused=self._say)

    def _created(self, view: MysisView) -> None:
        self.cockpit.notify(f"{one_line(view.name)} is created", markup=False)
        if self.is_current:
            self.dismiss()

    def _say(self, error: ZoeaError) -> None:
        self._is_creating = False
        if not self.is_attached:
            self.cockpit.show_error(error)
            return
        said = self.query_one("#error", TextBlock)
        said.put_error(error)
        self.call_after_refresh(said.scroll_visible, animate=False)


def _template(name: str, title: str) -> Content:
    return Content.assemble((f"{strip(name):<12} ", "bold"), (strip(title), "$text-quiet"))
