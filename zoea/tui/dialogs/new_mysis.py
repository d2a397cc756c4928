"""The form for a new mysis. Every field has a default, so that enter alone creates one."""

from __future__ import annotations

from collections.abc import Iterable

from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from zoea.model.errors import UsageError
from zoea.runtime.mysis_options import MysisOptions, read_options
from zoea.runtime.run_options import StartOptions
from zoea.text.control_characters import one_line, reveal
from zoea.tui.dialogs.modal import FormDialog
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.swarm_list.mysis_row import AUTOPILOT
from zoea.tui.widgets.inline_choice import InlineChoice
from zoea.tui.widgets.model_field import ModelField

_YES, _NO = "yes", "no"
_START = [(_YES, "now; with neither task nor message it waits"), (_NO, "later: it stays idle until you start it")]


class NewMysisDialog(FormDialog[None]):
    """Name, task, template, provider, model, tags, start, and a broadcast to get before the task.

    Args:
        given: Its template, provider and model are chosen first.
    """

    TITLE = "NEW MYSIS"
    VERB = "create"

    def __init__(self, given: StartOptions = StartOptions()) -> None:
        super().__init__()
        self._given = given
        self._choices: MysisOptions | None = None

    @classmethod
    def open_over(cls, cockpit: Cockpit) -> NewMysisDialog:
        return cls(cockpit.new_myses)

    def fields(self) -> Iterable[tuple[str, Widget] | Widget]:
        templates = OptionList(id="template", markup=False, compact=True)
        return (
            ("name", Input(id="name", placeholder="empty: Zoea chooses one", compact=True)),
            ("task", Input(id="task", placeholder="empty: none", compact=True)),
            Horizontal(Static("template", classes="label", markup=False), templates, classes="field -list"),
            ("provider", InlineChoice([("", "from the template")], id="provider")),
            ("model", ModelField(id="model", placeholder="empty: the model of the provider")),
            ("tags", Input(id="tags", placeholder="words separated by spaces", compact=True)),
            ("start", InlineChoice(_START, id="start")),
            ("also send", InlineChoice([("", "nothing")], id="broadcast")),
        )

    def _offer_models(self) -> None:
        """Offer the models of the chosen provider. A template may name another one, so it is not checked then."""
        self.query_one(ModelField).offer_of(self.query_one("#provider", InlineChoice).value)

    async def fill(self) -> None:
        places, now = self.cockpit.places, self.cockpit.now()
        found = await self.read(lambda database: read_options(places, database, now))
        if found is None:
            return
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
            offered = [("", "nothing"), (str(latest.id), f"first {latest.describe(now)}")]
            self.query_one("#broadcast", InlineChoice).offer(offered)
        self.query_one(ModelField).read_providers(self.cockpit, self._offer_models)

    def _offer_providers(self) -> None:
        """Offer the providers; the first one is that of the chosen template."""
        found = self._choices
        if found is None:
            return
        chosen = self.query_one("#template", OptionList).highlighted_option
        usual = reveal(found.describe_provider((chosen.id or "") if chosen is not None else ""))
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
        return f"empty: {reveal(own)}" if own else "empty: the model of the provider"

    async def carry_out(self) -> None:
        if doubt := self.query_one(ModelField).check(may_be_empty=True):
            raise UsageError(doubt, title="Model")
        template = self.query_one("#template", OptionList).highlighted_option
        view = await self.cockpit.api.create(
            self.typed("name"),
            template=(template.id or "") if template is not None else "",
            provider=self.query_one("#provider", InlineChoice).value,
            model=self.typed("model"),
            tags=tuple(dict.fromkeys(self.typed("tags").replace(",", " ").split())),
            start=self.query_one("#start", InlineChoice).value == _YES,
            broadcast=int(self.query_one("#broadcast", InlineChoice).value or 0),
            task=self.typed("task"),
        )
        self.cockpit.notify(f"{one_line(view.name)} is created", markup=False)
        self.close()


def _template(name: str, title: str) -> Content:
    return Content.assemble((f"{reveal(name):<12} ", "bold"), (reveal(title), "$text-quiet"))
