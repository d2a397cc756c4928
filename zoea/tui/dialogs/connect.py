"""The form that connects a model: provider type, address, model and key."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import ClassVar, Self

from textual import getters
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from zoea.llm.discovery import ProbeResult, ProbeStatus
from zoea.model.errors import SettingsError, UsageError, ZoeaError
from zoea.runtime.model_discovery import (
    ModelConnection,
    check_connection,
    find_context_window,
    probe_connection,
    save_connection,
)
from zoea.settings.endpoints import ProviderSettings, ProviderType
from zoea.settings.key_paths import SettingsInvalid
from zoea.settings.layers import load
from zoea.settings.schema import Settings
from zoea.text.control_characters import one_line
from zoea.tui.commands import swarm_commands
from zoea.tui.commands.action import find_refusing_providers
from zoea.tui.dialogs.modal import FormDialog
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.state.drafts import LAST_CHOICES
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.inline_choice import InlineChoice
from zoea.tui.widgets.model_field import ModelField

TYPES = tuple((kind.value, kind.description) for kind in ProviderType if kind.description)
_ADDRESSES = {kind.value: f"empty: {kind.address}" if kind.address else "not needed" for kind in ProviderType}
_NO_KEY = "empty: none; env:NAME reads a variable"
_KEYS = {"address": "base_url", "model": "model", "window": "context_window"}
"""Keys of a provider's settings by the fields that show them."""
_LABELS = {"type": "kind", "base_url": "address", "context_window": "window", "api_key": "key"}
"""Labels of fields by the keys of a provider's settings, where they differ."""
_MODELS_SHOWN = 6
_SELF_CONTAINED = tuple(kind for kind in ProviderType if not kind.address)
"""Types without a server that lists its models."""
LEAST_WINDOW = 1_024


class ConnectDialog(FormDialog[str | None]):
    """Writes the provider to the settings. Returns its name, else None."""

    TITLE = "CONNECT A MODEL"
    VERB = "connect"
    HINTS = "^t test, list models · tab next field"
    GOES_ON = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+t", "try_it", "test", priority=True)]

    def __init__(self, given: ModelConnection | None = None) -> None:
        super().__init__()
        self._given = given or ModelConnection("")
        self._probed: tuple[object, ProbeResult | None] = (None, None)
        self._doubted: ModelConnection | None = None
        self._known: Mapping[str, ProviderSettings] = {}
        self._filled: tuple[str, ProviderSettings | None] = ("", None)
        self._told_of = ""

    def fields(self) -> Iterable[tuple[str, Widget]]:
        given, is_secret = self._given, not self._given.key.startswith("env:")
        window = "tokens it reads; empty: ask the server"
        return (
            ("kind", InlineChoice(TYPES, id="type")),
            ("name", Input(given.name, id="name", placeholder="a name of your choice", compact=True)),
            ("address", Input(given.base_url, id="address", placeholder=_ADDRESSES["openai"], compact=True)),
            ("model", ModelField(given.model, id="model", placeholder="its name; ^t tests and lists models")),
            ("window", Input(id="window", placeholder=window, compact=True)),
            ("key", Input(given.key, id="key", password=is_secret, placeholder=_NO_KEY, compact=True)),
        )

    def on_mount(self) -> None:
        self.query_one("#type", InlineChoice).choose(str(self._given.type))  # and so the hint of the address

    async def fill(self) -> None:
        """Read the connected providers. A typed name fills in their values."""
        with suppress(SettingsError):  # saving says what is wrong with the settings
            self._known = (await asyncio.to_thread(load, self.cockpit.places)).settings.provider

    def on_input_blurred(self, event: Input.Blurred) -> None:
        if event.input.id == "name" and event.value.strip() != self._filled[0]:
            self._take_back()
            self._fill_in_known()

    def _take_back(self) -> None:
        """Clear fields that were filled in for another name and not edited since."""
        _, filled = self._filled
        if filled is None:
            return
        self._filled = ("", None)
        for field, value in _field_values(filled).items():
            if (at := self.query_one(f"#{field}", Input)).value == value:
                at.value = ""
        self.query_one("#key", Input).placeholder = _NO_KEY
        self._tell([])

    def _fill_in_known(self) -> None:
        """Fill empty fields from the connected provider of the typed name, to replace its key."""
        fields = {field: self.query_one(f"#{field}", Input) for field in ("name", "address", "model", "window", "key")}
        name, *others = fields.values()
        known = self._known.get(name.value.strip())
        if known is None or str(known.type) not in dict(TYPES) or any(field.value for field in others):
            return
        self.query_one("#type", InlineChoice).choose(str(known.type))
        for field, value in _field_values(known).items():
            fields[field].value = one_line(value)
        fields["key"].placeholder = "empty: the key that it has" if known.api_key else _NO_KEY
        self._filled = (name.value.strip(), known)
        self._tell([[(f"{one_line(name.value)} is connected already; what you change here replaces it", "quiet")]])

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
        name, address, model, key = map(self.typed, ("name", "address", "model", "key"))
        window = self.typed("window").replace(",", "").replace("_", "")
        of, filled = self._filled
        if not key and filled is not None and name == of:
            key = filled.api_key
        return ModelConnection(name or kind, kind, address, model, key, int(window) if window.isdecimal() else None)

    def action_try_it(self) -> None:
        if not self._is_busy:
            self._is_busy = True
            self._tell([[("Asking for its models…", "quiet")]])
            self.run_worker(DeferredWork(self._try))

    async def _try(self) -> None:
        try:
            if await self._was_changed():
                return
            found = await self._probe(self.connection)
        except SettingsError as error:
            self.say(error)
            return
        finally:
            self._is_busy = False
        self._tell(_result(found))
        if found.models:
            self._models.value = self._models.value or found.models[0].name
            self.query_one("#model", Input).focus()

    async def _was_changed(self) -> bool:
        """Say so where another program changed the provider since its values were filled in. Take them back then."""
        name, filled = self._filled
        self._known = (await asyncio.to_thread(load, self.cockpit.places)).settings.provider
        if filled is None or self._known.get(name) == filled:
            return False
        self._take_back()
        self._tell(
            [[(f"{one_line(name)} was changed meanwhile: leave its name field to see what it has now", "errored")]]
        )
        self.query_one("#name", Input).focus()
        return True

    async def _probe(self, connection: ModelConnection) -> ProbeResult:
        """Ask the server for its models, and offer them. Raises SettingsError."""
        found = await probe_connection(self.cockpit.places, connection)
        self._probed = (_place(connection), found)
        self._models.offer([model.name for model in found.models] if found.models else None)
        return found

    async def carry_out(self) -> None:
        """Save the connection, unless something against it was not confirmed by a second enter."""
        if reason := self.action_context().read_only_reason:
            raise UsageError(reason, hint="`zoea run` opens a cockpit that changes the settings.")
        if await self._was_changed():
            return
        connection = self.connection
        await asyncio.to_thread(check_connection, self.cockpit.places, connection)
        if connection.name in self._known and connection.name not in (self._filled[0], self._told_of):
            self._told_of = connection.name
            name = one_line(connection.name)
            self._tell([[(f"{name} is connected already; enter again changes what is filled in here", "errored")]])
            return
        if doubt := await self._find_doubt(connection):
            self._doubted = connection
            self._tell([[(doubt, "errored")]])
            return
        of, filled = self._filled
        shown = _field_values(filled) if filled is not None and connection.name == of else {}
        emptied = [_KEYS[field] for field in shown if not self.typed(field)]
        with self.cockpit.settings_watch.own_change():
            await asyncio.to_thread(save_connection, self.cockpit.places, connection, cleared=emptied)
        self.cockpit.drafts.keep(LAST_CHOICES, "")  # else the next mysis would not use what was connected
        self.close(connection.name)

    async def _find_doubt(self, connection: ModelConnection) -> str:
        """Return what speaks against saving this connection; empty where it is fine, or was confirmed.

        Raises SettingsError where the key cannot be found.
        """
        typed = self.typed("window")
        if typed and not (connection.context_window and connection.context_window >= LEAST_WINDOW):
            return f"window: {typed!r} is not a number of tokens from {LEAST_WINDOW:,} on"
        if connection.type in _SELF_CONTAINED:
            return ""
        place, found = self._probed
        if found is None or place != _place(connection):
            self._tell([[("asking for its models…", "quiet")]])
            found = await self._probe(connection)
        if doubt := self._models.check(may_be_empty=False):
            return doubt
        if self._doubted == connection:
            return ""
        if found.status is not ProbeStatus.OK:
            detail = f": {found.detail}" if found.detail else ""
            return f"{found.status}{detail}. Press enter again to keep the connection"
        if connection.context_window or await find_context_window(self.cockpit.places, connection):
            return ""
        return (
            f"The server does not say how much text {one_line(connection.model)} can read at once: type its tokens "
            f"under window, as 32768. Enter again assumes {self.assumed_window:,} (setting context.context_window)"
        )

    @property
    def assumed_window(self) -> int:
        """The window that is assumed where none is known."""
        try:
            return load(self.cockpit.places).settings.context.context_window
        except SettingsError:
            return Settings().context.context_window

    _models = getters.query_one(ModelField)

    def say(self, error: ZoeaError) -> None:
        if isinstance(error, SettingsInvalid):
            # A file that cannot be read has no key, but a place.
            named = [(one.key.rpartition(".")[2], one) for one in error.problems]
            said = [f"{_LABELS.get(key, key)}: {one.message}" if key else str(one) for key, one in named]
            self._tell([[(line, "errored")] for line in said])
        else:
            self._tell([[(error.what, "errored")], [(error.hint, "quiet")]])

    def _tell(self, lines: list[list[Piece]]) -> None:
        self.query_one("#error", TextBlock).put(lines)


class RefusedKeyDialog(ConnectDialog):
    """Asks for another key of a provider that refused it. The myses that it stopped go on."""

    TITLE = "ENTER A KEY · the myses that wait for it go on"
    VERB = "save"
    FIRST = "#key"

    @classmethod
    def open_over(cls, cockpit: Cockpit) -> Self:
        return cls(ModelConnection(find_refusing_providers(cockpit.action_context().targets)[0]))

    async def fill(self) -> None:
        await super().fill()
        self._fill_in_known()

    def close(self, result: str | None = None) -> None:
        super().close(result)
        if result:
            swarm_commands.resume_with_key(self.cockpit, result)


def _field_values(known: ProviderSettings) -> dict[str, str]:
    """Return what the fields show of a provider."""
    return {field: str(getattr(known, key) or "") for field, key in _KEYS.items()}


def _place(connection: ModelConnection) -> tuple[str, str, str]:
    """Return what decides which server answers."""
    return connection.type, connection.base_url, connection.key


def _result(found: ProbeResult) -> list[list[Piece]]:
    if found.status is not ProbeStatus.OK:
        detail = f": {found.detail}" if found.detail else ""
        return [[(f"{found.status}{detail}", "errored")], [(found.hint, "quiet")]]
    names = [one_line(model.name) for model in found.models or ()]
    more = f", and {len(names) - _MODELS_SHOWN} more" if len(names) > _MODELS_SHOWN else ""
    if not names:
        return [[("It answers, but lists no model: type the model's name", "running")]]
    return [
        [(f"It answers. Models: {', '.join(names[:_MODELS_SHOWN])}{more}", "running")],
        [("up and down pick one · enter connects it", "quiet")],
    ]
