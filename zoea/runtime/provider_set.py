"""The configured providers by name, each made at its first use."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from zoea.llm.local.model_files import LocalModels
from zoea.llm.model_traits import TraitBook
from zoea.llm.provider_config import ProviderConfig, is_loopback, resolve_provider
from zoea.llm.registry import HTTP_PROVIDERS, Maker, make, makers
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError, SettingsError
from zoea.model.ports import Clock, Provider
from zoea.process.module_imports import import_in_thread
from zoea.runtime.owner import close_within
from zoea.settings.credentials import Credentials
from zoea.settings.endpoints import ProviderType
from zoea.settings.paths import Places
from zoea.settings.schema import Settings

CLOSE_S = 1.0
UNMETERED = tuple(kind for kind in ProviderType if not kind.description)
_WORDS_OF_AN_ANSWER = 25
"""Words of an autopilot's answer for which `provider.NAME.tick` is the time."""


@dataclass(slots=True)
class ProviderChanges:
    """What differs between the providers in use and new settings.

    Attributes:
        changed: The new configuration of each provider to make again.
        gone: Names that the settings no longer have.
        loaded: Names of changed providers that hold a loaded model, so that they stay until the end.
        problems: Names of providers that cannot be made, with the reason; they stay as they are.
        secrets: The keys and header values of all providers, also of those that are not in use yet.
    """

    settings: Settings
    changed: dict[str, ProviderConfig] = field(default_factory=dict, repr=False)
    gone: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = field(default=(), repr=False)


class ProviderSet:
    """The providers of the settings and the built-in ones; one instance serves all myses.

    Args:
        extra: Existing providers by name, for tests and embedding.
    """

    def __init__(
        self, settings: Settings, places: Places, clock: Clock, extra: Mapping[str, Provider] | None = None
    ) -> None:
        self._settings = settings
        self._credentials = Credentials(places.credentials)
        self._clock = clock
        self._made: dict[str, Provider] = dict(extra or {})
        self._configs: dict[str, ProviderConfig] = {}
        self._retired: list[Provider] = []
        self._local_models = LocalModels(places.data / "models")
        self._makers: dict[str, Maker] = {**makers(self._local_models), "autopilot": self._autopilot}

    def get(self, name: str) -> Provider:
        """Return the provider of that name.

        Raises:
            ProviderError: `model_missing` if it does not exist, naming the most similar one;
                `auth` if its key cannot be found.
        """
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    async def load(self) -> None:
        """Import what the configured providers need. No request then does it on the event loop."""
        for kind in {provider.type for provider in self._settings.provider.values()} & HTTP_PROVIDERS.keys():
            with suppress(Exception):  # where it is first needed, its error is shown
                await import_in_thread(HTTP_PROVIDERS[kind][0])

    def names(self) -> tuple[str, ...]:
        """List the providers that are configured, default, local with models, or in use."""
        local = [ProviderType.EMBEDDED.value] if self._local_models.list() else []
        return tuple(dict.fromkeys([*self._settings.provider, self.default, *local, *self._made]))

    @property
    def default(self) -> str:
        """The provider of a mysis that names no other."""
        return self._settings.provider_name()

    def forget_traits(self, name: str, model: str) -> None:
        """Forget what a provider in use learnt of one or all of its models."""
        book = getattr(self._made.get(name), "traits", None)
        if isinstance(book, TraitBook):
            book.forget(model)

    def metered(self) -> dict[str, bool]:
        """Return for every provider name whether its tokens count against budgets."""
        configured = {name: given.type for name, given in self._settings.provider.items()}
        by_type = {kind.value: kind for kind in ProviderType} | configured
        types = {name: kind not in UNMETERED for name, kind in by_type.items()}
        return types | {name: provider.metered for name, provider in self._made.items()}

    def is_free(self, name: str, model: str) -> bool:
        """Return whether a provider runs this model on this machine, so that it costs nothing."""
        return is_on_this_machine(self._settings, name, model)

    def secrets(self, settings: Settings | None = None) -> tuple[str, ...]:
        """List the keys and header values, to be masked in logs. Skips references that cannot be resolved."""
        values, settings = list[str](), settings or self._settings
        for provider in settings.provider.values():
            try:
                config = resolve_provider(provider, self._credentials, settings.llm)
            except SettingsError:
                continue
            values += [config.api_key, *config.hidden, *config.headers.values()]
        return tuple(value for value in values if value)

    def prepare(self, settings: Settings) -> ProviderChanges:
        """Find the providers in use with changed settings or keys."""
        changes = ProviderChanges(settings, secrets=self.secrets(settings))
        for name, before in tuple(self._configs.items()):
            provider = settings.provider_named(name)
            if provider is None:
                changes.gone.append(name)
                continue
            try:
                config = resolve_provider(provider, self._credentials, settings.llm)
            except SettingsError as error:
                changes.problems[name] = error.what
                continue
            if config != before:
                is_loaded = ProviderType.EMBEDDED in (config.type, before.type)
                if is_loaded:
                    changes.loaded.append(name)
                else:
                    changes.changed[name] = config
        return changes

    async def adopt(self, changes: ProviderChanges) -> None:
        """Use the changed settings. New turns get new providers, open turns keep theirs."""
        await self._close_retired()
        for name in changes.gone:
            del self._configs[name]
        self._configs |= changes.changed
        for name in (*changes.changed, *changes.gone):
            if (old := self._made.pop(name, None)) is not None:
                self._retired.append(old)
        self._settings = changes.settings

    async def close(self) -> None:
        """Close every provider that was made, each within a second."""
        await self._close_retired()
        for name, provider in self._made.items():
            await close_within(CLOSE_S, provider.close, f"provider {name}")

    async def _close_retired(self) -> None:
        """Close the providers that were replaced. One that an open turn still uses connects again by itself."""
        for provider in self._retired:
            await close_within(CLOSE_S, provider.close, f"the former provider {provider.name}")

    def _make(self, name: str) -> Provider:
        provider_settings = self._settings.provider_named(name)
        if provider_settings is None:
            names = [*self._settings.provider, *(kind.value for kind in ProviderType)]
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"Did you mean {near[0]}?" if near else "`zoea providers` lists them."
            raise ProviderError(
                f"there is no provider {name!r}", kind=ErrorClass.MODEL_MISSING, hint=hint, title="No such provider"
            )
        try:
            config = resolve_provider(provider_settings, self._credentials, self._settings.llm)
            provider = make(name, config, clock=self._clock, makers=self._makers)
        except SettingsError as error:
            raise ProviderError(
                f"provider {name}: {error.what}", kind=ErrorClass.AUTH, hint=error.hint, title=error.title
            ) from error

        self._configs[name] = config
        return provider

    def _autopilot(self, name: str, config: ProviderConfig, clock: Clock) -> Provider:
        from zoea.world.autopilot.autopilot_provider import AutopilotProvider

        if config.tick is None:
            return AutopilotProvider(name, clock=clock)
        return AutopilotProvider(name, clock=clock, pace=config.tick / _WORDS_OF_AN_ANSWER)


def is_on_this_machine(settings: Settings, name: str, model: str) -> bool:
    """Return whether a provider runs this model on this machine.

    A name that ends in `-cloud` is a model that Ollama forwards. The autopilot and scripts are no models.
    """
    provider = settings.provider_named(name)
    if provider is None or provider.type is ProviderType.EMBEDDED:
        return provider is not None
    return is_loopback(provider.base_url or provider.type.address) and not model.endswith("-cloud")


def costs_nothing(settings: Settings, name: str, model: str) -> bool:
    """Return whether no money is spent with a provider: it runs here, or is no model."""
    provider = settings.provider_named(name)
    return (provider is not None and provider.type in UNMETERED) or is_on_this_machine(settings, name, model)
