"""The form that connects a model: provider type, address, model and key."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.types import CSSPathType
from textual.widgets import Input

from zoea.llm.discovery import ProbeResult, ProbeStatus
from zoea.model.errors import SettingsError
from zoea.runtime.model_discovery import ModelConnection, probe_connection, save_connection
from zoea.settings.key_paths import SettingsInvalid
from zoea.tui.dialogs.modal import CockpitDialog, form_row
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.clickable_text import TextBlock, key_hints
from zoea.tui.widgets.inline_choice import InlineChoice

TYPES = (
    ("openai", "OpenAI, or a compatible server"),
    ("anthropic", "Anthropic"),
    ("ollama", "Ollama"),
    ("embedded", "a model file, run by Zoea"),
)
_ADDRESSES = {
    "openai": "empty: https://api.openai.com/v1",
    "anthropic": "empty: Anthropic's own",
    "ollama": "empty: http://127.0.0.1:11434",
    "embedded": "not needed",
}
_MODELS_SHOWN = 6


class ConnectDialog(CockpitDialog[str | None]):
    """Writes the provider to the settings. Returns its name, else None."""

    CSS_PATH: ClassVar[CSSPathType | None] = ["modal.tcss", "connect.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "connect", "connect", priority=True),
        Binding("ctrl+t", "try_it", "try it", priority=True),
        Binding("escape", "leave", "back"),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def __init__(self, given: ModelConnection | None = None) -> None:
        super().__init__()
        self._given = given or ModelConnection("")
        self._is_busy = False

    def compose(self) -> ComposeResult:
        given = self._given
        with Vertical(classes="box") as box:
            box.border_title = "CONNECT A MODEL"
            box.border_subtitle = key_hints("enter connect · ^t try it · tab next field · esc back")
            yield from form_row("speaks", InlineChoice(TYPES, id="type"))
            yield from form_row("name", Input(given.name, id="name", placeholder="a name of your choice", compact=True))
            yield from form_row("address", Input(given.base_url, id="address", compact=True))
            yield from form_row("model", Input(given.model, id="model", placeholder="^t lists them", compact=True))
            yield from form_row(
                "key",
                Input(
                    given.key,
                    id="key",
                    password=not given.key.startswith("env:"),
                    placeholder="the key, or env:NAME; stored apart from the settings",
                    compact=True,
                ),
            )
            yield TextBlock(id="error")

    def on_mount(self) -> None:
        kind = self.query_one("#type", InlineChoice)
        kind.choose(str(self._given.type))
        self.query_one("#address", Input).placeholder = _ADDRESSES.get(kind.value, "")
        self.query_one("#name", Input).focus()

    def on_inline_choice_changed(self, event: InlineChoice.Changed) -> None:
        self.query_one("#address", Input).placeholder = _ADDRESSES.get(event.choice.value, "")

    def on_input_changed(self, event: Input.Changed) -> None:
        # A reference to a key is no secret, so it is shown.
        if event.input.id == "key":
            event.input.password = not event.value.startswith(("env:", "file:", "keyring:"))

    @property
    def connection(self) -> ModelConnection:
        """The connection as the fields describe it."""
        kind = self.query_one("#type", InlineChoice).value
        name, address, model, key = (
            self.query_one(f"#{field}", Input).value.strip() for field in ("name", "address", "model", "key")
        )
        return ModelConnection(name or kind, kind, address, model, key)

    def action_leave(self) -> None:
        self.dismiss(None)

    def back(self) -> None:
        self.dismiss(None)

    def action_try_it(self) -> None:
        if not self._is_busy:
            self._say([[("asking for its models…", "quiet")]])
            self.run_worker(DeferredWork(self._try), exclusive=True)

    async def _try(self) -> None:
        self._is_busy = True
        try:
            found = await probe_connection(self.cockpit.places, self.connection)
        except SettingsError as error:
            self._say([[(error.what, "errored")], [(error.hint, "quiet")]])
            return
        finally:
            self._is_busy = False
        self._say(_result(found))
        model = self.query_one("#model", Input)
        if found.models and not model.value:
            model.value = found.models[0].name

    def action_connect(self) -> None:
        if not self._is_busy:
            self._is_busy = True
            self.run_worker(DeferredWork(lambda: self._connect(self.connection)), exclusive=True)

    async def _connect(self, connection: ModelConnection) -> None:
        try:
            await asyncio.to_thread(save_connection, self.cockpit.places, connection)
        except SettingsInvalid as error:
            self._say([[(f"{one.key.rpartition('.')[2]}: {one.message}", "errored")] for one in error.problems])
        except SettingsError as error:
            self._say([[(error.what, "errored")], [(error.hint, "quiet")]])
        else:
            self.dismiss(connection.name)
        finally:
            self._is_busy = False

    def _say(self, lines: list[list[Piece]]) -> None:
        self.query_one("#error", TextBlock).put(lines)


def _result(found: ProbeResult) -> list[list[Piece]]:
    if found.status is not ProbeStatus.OK:
        detail = f": {found.detail}" if found.detail else ""
        return [[(f"{found.status}{detail}", "errored")], [(found.hint, "quiet")]]
    names = [model.name for model in found.models or ()]
    more = f", and {len(names) - _MODELS_SHOWN} more" if len(names) > _MODELS_SHOWN else ""
    return [[(f"It answers. Models: {', '.join(names[:_MODELS_SHOWN])}{more}", "running")]]
