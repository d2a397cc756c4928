"""The form that configures one mysis, or the marked ones.

Every field starts with the current value, where all of them have the same; only changed values are sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from zoea.model.enums import MysisState
from zoea.model.errors import UsageError
from zoea.model.values import MysisView
from zoea.text.control_characters import one_line, reveal
from zoea.text.sentences import count_of
from zoea.tui.dialogs.modal import FormDialog
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.widgets.inline_choice import InlineChoice
from zoea.tui.widgets.long_text import FormText
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


class ConfigureDialog(FormDialog[None]):
    """Template, provider, model, tags, budgets and settings of one or several myses."""

    VERB = "save"
    FIRST = "#template"
    LABELS: ClassVar[Mapping[str, str]] = {path: f"token limits, {label}" for path, label in _BUDGETS}

    def __init__(self, views: Sequence[MysisView]) -> None:
        super().__init__()
        self._views = tuple(views)
        self._before: MysisConfiguration | None = None

    @classmethod
    def open_over(cls, cockpit: Cockpit) -> ConfigureDialog:
        return cls(cockpit.action_context().targets)

    def fields(self) -> Iterable[tuple[str, Widget] | Widget]:
        others = FormText(id="others", placeholder="none; as nudge.enabled=false", compact=True, soft_wrap=True)
        others.cursor_blink = False
        return (
            ("template", InlineChoice([(_KEPT, _AS_THEY_ARE)], id="template")),
            ("provider", InlineChoice([(_KEPT, _AS_THEY_ARE)], id="provider")),
            ("model", ModelField(id="model")),
            ("tags", Input(id="tags", compact=True)),
            Static("token limits", classes="head", markup=False),
            *((label, Input(id=_id(path), compact=True)) for path, label in _BUDGETS),
            Static("its own settings, as name=value", classes="head", markup=False),
            ("", others),
        )

    @property
    def heading(self) -> str:
        if all(view.state is not MysisState.RUNNING for view in self._views):
            return f"CONFIGURE {self._who}"
        return f"CONFIGURE {self._who} · from {'its' if len(self._views) == 1 else 'their'} next turn on"

    @property
    def _who(self) -> str:
        return one_line(self._views[0].name) if len(self._views) == 1 else count_of(len(self._views), "mysis")

    @on(InlineChoice.Changed)
    def _offer_models(self) -> None:
        """Offer the models of the chosen provider, or of the one that all have now."""
        if self._before is not None and (provider := self._chosen("provider") or self._before.provider):
            self.query_one(ModelField).offer_of(provider)
        else:
            self.query_one(ModelField).offer(None)

    async def fill(self) -> None:
        from zoea.runtime.mysis_options import format_settings, read_configuration
        from zoea.settings.template import AGENT_PREFIX

        places, ids, now = self.cockpit.places, [view.id for view in self._views], self.cockpit.now()
        found = await self.read(lambda database: read_configuration(places, database, ids, now))
        if found is None:
            return
        self._before = found
        offered = found.choices
        templates = [(one.name, f"{one.name}  {one.title}") for one in offered.templates]
        self.query_one("#template", InlineChoice).offer([(_KEPT, _as_it_is(found.template)), *templates])
        # What plays a mysis is chosen when it is made.
        providers = [
            (one.name, one.title) for one in offered.providers if one.name and not one.name.startswith(AGENT_PREFIX)
        ]
        self.query_one("#provider", InlineChoice).offer([(_KEPT, self._describe_provider(found)), *providers])
        for name, value in (("#model", found.model), ("#tags", found.tags)):
            text = self.query_one(name, Input)
            text.value = reveal(value)
            text.placeholder = "" if len(self._views) == 1 else _AS_THEY_ARE
        for path, _ in _BUDGETS:
            field = self.query_one(f"#{_id(path)}", Input)
            field.value = str(found.own[path]) if path in found.own else ""
            general = found.general[path]
            field.placeholder = f"from the settings: {general:,}" if general else "from the settings: no limit"
        rest = {path: value for path, value in found.own.items() if path not in dict(_BUDGETS)}
        self.query_one("#others", TextArea).text = reveal(format_settings(rest))
        self.query_one(ModelField).read_providers(self.cockpit, self._offer_models)

    async def carry_out(self) -> None:
        if self._before is None:
            return
        model = self.query_one(ModelField).value
        if model != self._before.model and (doubt := self.query_one(ModelField).check(may_be_empty=True)):
            raise UsageError(doubt, title="Model")
        tags = tuple(dict.fromkeys(self.typed("tags").replace(",", " ").split()))
        configure = partial(
            self.cockpit.api.configure,
            template=self._chosen("template"),
            provider=self._chosen("provider"),
            model=model if model != self._before.model else "",
            tags=None if " ".join(tags) == self._before.tags else tags,
            settings=self._settings(),
        )
        for view in self._views:
            last = await configure(f"#{view.id}")
        runs = last.state is MysisState.RUNNING
        new_model = (model,) if model and model != self._before.model else ()
        new_tags = (f"#{tag}" for tag in tags if " ".join(tags) != self._before.tags)
        what = " · ".join(map(one_line, (last.template, *new_model, *new_tags)))
        done = f"{self._who} is {what} {'from its next turn on' if runs else 'now; r starts it'}"
        if len(self._views) > 1:
            done = f"{self._who} are configured; those that run use it from their next turn on"
        self.cockpit.notify(done, markup=False)
        self.close()

    def _describe_provider(self, now: MysisConfiguration) -> str:
        """Describe the provider that all have. For an external agent it is where its models come from."""
        agents, provider = {view.agent for view in self._views}, _as_it_is(now.provider)
        agent = agents.pop() if len(agents) == 1 else ""
        return f"{one_line(agent)} (agent), models of {provider}" if agent else provider

    def _chosen(self, field: str) -> str:
        value = self.query_one(f"#{field}", InlineChoice).value
        return "" if value == _KEPT else value

    def _settings(self) -> dict[str, Any]:
        """Return the changed settings. Raises UsageError for an invalid text."""
        from zoea.runtime.mysis_options import diff_settings, parse_settings

        assert self._before is not None
        after = parse_settings(self.query_one("#others", FormText).full_text)
        for path, label in _BUDGETS:
            text = self.typed(_id(path)).replace(",", "").replace("_", "")
            if text and not text.isdecimal():
                hint = "Leave it empty for the value of the settings."
                raise UsageError(f"token limits, {label}: {text!r} is not a number", hint=hint)
            if text:
                after[path] = int(text)
        return diff_settings(self._before.own, after)


def _as_it_is(name: str) -> str:
    return f"{name} (unchanged)" if name else _AS_THEY_ARE


def _id(path: str) -> str:
    return path.replace(".", "-")
