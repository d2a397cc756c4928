"""An input for a model's name, with the models of a server to pick from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar, Protocol

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from zoea.model.errors import ZoeaError
from zoea.model.values import ProviderView
from zoea.text.control_characters import one_line

if TYPE_CHECKING:
    from zoea.model.swarm_api import SwarmApi


class _ModelInput(Input):
    """Input with a list below it. Its up and down keys step through the list and leave it."""

    BINDINGS: ClassVar[list[BindingType]] = [("down", "step(1)"), ("up", "step(-1)")]

    field: ModelField

    def action_step(self, by: int) -> None:
        if self.field.step(by):
            return
        if by > 0:
            self.screen.focus_next()
        else:
            self.screen.focus_previous()


class HasProviders(Protocol):
    """A cockpit with the commands of its swarm."""

    @property
    def api(self) -> SwarmApi: ...


class ModelField(Vertical):
    """Type a name, or pick one with up and down. The list shows the names with the typed text, else all.

    Args:
        value: The first name.
        id: Of the input; the field has the id `ID-field`.
    """

    DEFAULT_CSS = """
    ModelField { height: auto; width: 1fr; }
    ModelField Input { width: 1fr; }
    ModelField OptionList { height: auto; max-height: 5; border: none; scrollbar-size-vertical: 1; }
    ModelField OptionList.-textual-compact { padding: 0 1; }
    """

    def __init__(self, value: str = "", *, placeholder: str = "", id: str) -> None:
        super().__init__(id=f"{id}-field")
        self.input = _ModelInput(one_line(value), id=id, placeholder=placeholder, compact=True)
        self.input.field = self
        self._list = OptionList(id=f"{id}-list", markup=False, compact=True)
        self._list.can_focus = False  # so that tab leads from the name to the next field of the form
        self.models: tuple[str, ...] | None = None
        """The models of the server; None where they are not known."""
        self._confirmed = ""
        self._picked = ""
        self._providers: Sequence[ProviderView] = ()

    def compose(self) -> ComposeResult:
        yield self.input
        yield self._list

    def on_mount(self) -> None:
        self._list.display = False

    @property
    def value(self) -> str:
        """The name, without blanks around it."""
        return self.input.value.strip()

    @value.setter
    def value(self, name: str) -> None:
        self._suggest(one_line(name))

    @work(exit_on_error=False)
    async def read_providers(self, swarm: HasProviders, known: Callable[[], None]) -> None:
        """Ask every provider for its models, which costs no tokens, then call `known`."""
        with suppress(ZoeaError):  # no model is offered then, and every name is taken as typed
            self._providers = await swarm.api.providers()
            known()

    def offer_of(self, provider: str) -> None:
        """Offer the known models of a provider. An empty name means the default provider."""
        found = (one for one in self._providers if one.name == provider or (not provider and one.is_default))
        view = next(found, None)
        self.offer(view.models or None if view is not None else None)

    def offer(self, models: Sequence[str] | None) -> None:
        """Show the models of a server; None where they are not known."""
        self.models = None if models is None else tuple(models)
        self._arrange()

    def check(self, *, may_be_empty: bool) -> str:
        """Return why the name is doubtful. Empty where it is fine, or was confirmed by a second enter."""
        name = self.value
        if not name:
            return "" if may_be_empty else "no model is chosen: pick one from the list or type its name"
        if self.models is None or name in self.models or name == self._confirmed:
            return ""
        self._confirmed = name
        near = get_close_matches(name, self.models, n=1, cutoff=0.4)
        hint = f"; the nearest is {one_line(near[0])}" if near else ""
        return f"the server lists no model {one_line(name)!r}{hint}. Press enter again to keep it"

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.value != self._picked:
            self._picked = ""
            self._arrange()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take a clicked name."""
        event.stop()
        self._pick(event.option_index)

    def step(self, by: int) -> bool:
        """Pick the next name of the list. False at its end and where there is no list."""
        at = self._list.highlighted
        to = (0 if by > 0 else -1) if at is None else at + by
        if not 0 <= to < self._list.option_count:
            return False
        self._pick(to)
        return True

    def _pick(self, index: int) -> None:
        self._list.highlighted = index
        self._picked = self._list.get_option_at_index(index).id or ""
        self._suggest(self._picked)
        self.input.focus()

    def _suggest(self, name: str) -> None:
        """Fill in a name that typing replaces."""
        self.input.value = name
        self.input.select_all()

    def _arrange(self) -> None:
        """List the models with the typed text. All of them where it is a whole name or in none."""
        typed, models = self.value.casefold(), self.models or ()
        shown = [name for name in models if typed in name.casefold()]
        if not shown or self.value in models:
            shown = list(models)
        self._list.clear_options()
        self._list.add_options([Option(Content(one_line(name)), id=name) for name in dict.fromkeys(shown)])
        self._list.display = bool(shown)
        if self.value in shown:
            self._list.highlighted = shown.index(self.value)
