"""Collects the sources of models to probe, and saves the connection that a person chose.

The sources are the settings, local servers and files, and keys in the environment. Used by `zoea providers`, by a run
without a configured provider, and by the dialog that connects a model.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import Struct

from zoea.agents.agent_launch import installed_agents
from zoea.llm.discovery import (
    KEYS,
    LOCAL_DEADLINE_S,
    PORTS,
    REMOTE_DEADLINE_S,
    Discovery,
    ProbeCandidate,
    ProbeResult,
    ProbeStatus,
    SourceOrigin,
    UsualPort,
    VendorKey,
    probe,
)
from zoea.llm.local.model_files import LocalModels
from zoea.llm.provider_config import ProviderConfig, is_loopback, resolve_provider
from zoea.llm.registry import Maker, make, makers
from zoea.model.errors import ProviderError, SettingsError
from zoea.model.ports import Clock, Provider
from zoea.process.clock import SystemClock
from zoea.runtime.model_lists import LISTING_TYPES, ModelLists
from zoea.settings.config_writer import set_keys
from zoea.settings.credentials import Credentials
from zoea.settings.endpoints import REFERENCE, ProviderSettings, ProviderType
from zoea.settings.key_paths import Problem, SettingsInvalid
from zoea.settings.layers import LoadedSettings, load
from zoea.settings.paths import Places
from zoea.settings.schema import Settings
from zoea.settings.template import AGENT_PREFIX

_LOCAL = tuple(kind for kind in ProviderType if not kind.address)


async def load_run_settings(
    places: Places, *, discover: bool = True, is_headless: bool = False, ports: Sequence[UsualPort] = PORTS
) -> LoadedSettings:
    """Load the settings of a run; add a model server found on this machine.

    Looks for no server if `discover` is False, the settings name a provider, or `swarm.discover` forbids it; in a
    headless run only if `swarm.discover` is set to true, because a script must not depend on what runs beside it.
    Without a server the default provider or the autopilot is used.
    """
    loaded = await asyncio.to_thread(load, places)
    swarm = loaded.settings.swarm
    if not discover or loaded.settings.provider or swarm.default_provider or not swarm.discover:
        return loaded
    if is_headless and "discover" not in swarm.model_fields_set:
        return loaded
    overrides = (await build_discovery(loaded, ports).best()).overrides()
    return await asyncio.to_thread(load, places, overrides=overrides) if overrides else loaded


class ModelSources(Struct, frozen=True):
    """The sources of models that are known without network access.

    Attributes:
        loaded: The settings.
        config: The user's settings file, if it exists.
        providers: The configured providers, as (name, type, model).
        keys: The vendors with a key in the environment.
        local: The names of the local model files.
        agents: The external agents on this machine, as (provider that stands for it, title).
    """

    loaded: LoadedSettings
    config: Path | None
    providers: tuple[tuple[str, str, str], ...]
    keys: tuple[VendorKey, ...]
    local: tuple[str, ...] = ()
    agents: tuple[tuple[str, str], ...] = ()


def read_model_sources(where: Places, env: Mapping[str, str] = os.environ) -> ModelSources:
    """Read the settings and the environment; synchronous. Raises SettingsError."""
    loaded = load(where, env=env)
    return ModelSources(
        loaded,
        where.config_file if where.config_file.exists() else None,
        tuple((name, str(provider.type), provider.model) for name, provider in loaded.settings.provider.items()),
        tuple(key for key in KEYS if env.get(key.variable)),
        tuple(model.name for model in LocalModels(where.data / "models").list() if not model.is_missing),
        tuple((f"{AGENT_PREFIX}{agent.name}", agent.title) for agent in installed_agents()),
    )


async def find_servers(loaded: LoadedSettings, ports: Sequence[UsualPort] = PORTS) -> AsyncIterator[ProbeResult]:
    """Yield the model servers of this machine as they answer; asks no other machine."""
    if not loaded.settings.swarm.discover:
        return
    tasks = [asyncio.create_task(probe(candidate)) for candidate in build_discovery(loaded, ports).servers()]
    try:
        for next_done in asyncio.as_completed(tasks):
            results = await next_done
            if results.status is not ProbeStatus.ABSENT:
                yield results
    finally:
        for task in tasks:
            task.cancel()


def build_discovery(loaded: LoadedSettings, ports: Sequence[UsualPort]) -> Discovery:
    """List all candidates of the settings, this machine and the environment; connects to none."""
    local_models = LocalModels(loaded.places.data / "models")
    clock = SystemClock()
    made = {**makers(local_models), "autopilot": _autopilot}

    def opened(name: str, config: ProviderConfig) -> Provider:
        return make(name, config, clock=clock, makers=made)

    configured = _configured(loaded.settings, Credentials(loaded.places.credentials), clock, made)
    return Discovery(opened, (*configured, *_built_in(loaded.settings, local_models, clock, made)), os.environ, ports)


def configured_sources(loaded: LoadedSettings) -> list[ProbeCandidate]:
    """List the providers of the settings, to be tried; connects to none."""
    made = {**makers(LocalModels(loaded.places.data / "models")), "autopilot": _autopilot}
    return _configured(loaded.settings, Credentials(loaded.places.credentials), SystemClock(), made)


def _configured(
    settings: Settings, credentials: Credentials, clock: Clock, made: dict[str, Maker]
) -> list[ProbeCandidate]:
    """List the providers of the settings, and a default that is a type's name."""
    default = settings.swarm.default_provider or next(iter(settings.provider), "")
    providers = dict(settings.provider)
    if default and (named := settings.provider_named(default)) is not None:
        providers.setdefault(default, named)

    def candidate(name: str, wanted: ProviderSettings) -> ProbeCandidate:
        is_near = wanted.type in _LOCAL or (bool(wanted.base_url) and is_loopback(wanted.base_url))
        return ProbeCandidate(
            name,
            str(wanted.type),
            SourceOrigin.SETTINGS,
            lambda: make(name, resolve_provider(wanted, credentials, settings.llm), clock=clock, makers=made),
            address=wanted.base_url,
            variable=wanted.api_key,
            model=wanted.model,
            is_default=name == default,
            deadline_s=LOCAL_DEADLINE_S if is_near else REMOTE_DEADLINE_S,
        )

    return [candidate(name, wanted) for name, wanted in providers.items()]


def _built_in(
    settings: Settings, local_models: LocalModels, clock: Clock, made: dict[str, Maker]
) -> list[ProbeCandidate]:
    """List the local model files, if any, and the autopilot."""

    def embedded() -> Provider:
        return made["embedded"]("embedded", ProviderConfig(type="embedded"), clock)

    def autopilot() -> Provider:
        return made["autopilot"]("autopilot", ProviderConfig(type="autopilot"), clock)

    types = {str(provider.type) for provider in settings.provider.values()} | {settings.swarm.default_provider}
    sources = []
    if "embedded" not in types and local_models.list():
        sources.append(
            ProbeCandidate("embedded", "embedded", SourceOrigin.SHELF, embedded, deadline_s=LOCAL_DEADLINE_S)
        )
    if "autopilot" not in types:
        sources.append(
            ProbeCandidate("autopilot", "autopilot", SourceOrigin.BUILT_IN, autopilot, deadline_s=LOCAL_DEADLINE_S)
        )
    return sources


def _autopilot(name: str, config: ProviderConfig, clock: Clock) -> Provider:
    from zoea.world.autopilot.autopilot_provider import AutopilotProvider

    return AutopilotProvider(name, clock=clock)


@dataclass(frozen=True, slots=True)
class ModelConnection:
    """A provider to add to the settings. `key` is the secret itself, a reference to it, or empty."""

    name: str
    type: str = ProviderType.OPENAI
    base_url: str = ""
    model: str = ""
    key: str = field(default="", repr=False)
    context_window: int | None = None

    @property
    def reference(self) -> str:
        """The key in the form of the settings: a reference; for a secret `file:NAME`."""
        if not self.key or REFERENCE.fullmatch(self.key):
            return self.key
        return f"file:{self.name}"

    def settings(self) -> dict[str, str | int]:
        """Return the settings by dotted key; leaves out empty values."""
        values: dict[str, str | int | None] = {
            "type": self.type,
            "base_url": self.base_url,
            "model": self.model,
            "api_key": self.reference,
            "context_window": self.context_window,
        }
        return {f"provider.{self.name}.{key}": value for key, value in values.items() if value}


def check_connection(where: Places, connection: ModelConnection) -> None:
    """Check the values of a connection; reads files, writes none. Raises SettingsInvalid."""
    if not connection.name or "." in connection.name:
        raise SettingsInvalid([Problem("name", "a name is 1 to 32 letters, digits, '-' or '_'")])
    load(where, overrides=connection.settings())


def save_connection(where: Places, connection: ModelConnection, *, cleared: Collection[str] = ()) -> None:
    """Store the key as a credential and `[provider.NAME]` in the settings. A new one becomes the default.

    Args:
        cleared: Keys of a provider of this name that are removed. Others that the connection leaves empty stay.

    Raises:
        SettingsInvalid: if a value is not allowed; nothing is written then.
        SettingsError: if a file cannot be written; the settings and the key are as they were then.
    """
    check_connection(where, connection)
    values: dict[str, str | int | None] = {f"provider.{connection.name}.{key}": None for key in cleared}
    values |= connection.settings()
    if connection.name not in load(where).settings.provider:
        values["swarm.default_provider"] = connection.name
    if connection.reference and connection.reference != connection.key:
        where.make_data()
        credentials = Credentials(where.credentials)
        former = credentials.get(connection.name)
        credentials.set(connection.name, connection.key)
        try:
            set_keys(where.config_file, values)
        except SettingsError:
            # With the settings as they were, the new key would go to the former address.
            if former is None:
                credentials.delete(connection.name)
            else:
                credentials.set(connection.name, former)
            raise
    else:
        set_keys(where.config_file, values)


async def probe_connection(where: Places, connection: ModelConnection) -> ProbeResult:
    """Ask the provider for its models, at no cost.

    Raises:
        SettingsInvalid: if a value is not allowed, such as an address that is none.
        SettingsError: if the key cannot be found.
    """
    name = connection.name or connection.type
    await asyncio.to_thread(check_connection, where, replace(connection, name=name))
    config = _config_of(where, connection)
    discovery = build_discovery(load(where), ())
    candidate = ProbeCandidate(
        name,
        connection.type,
        SourceOrigin.SETTINGS,
        lambda: discovery.open(name, config),
        address=connection.base_url,
        deadline_s=REMOTE_DEADLINE_S,
    )
    result = await probe(candidate)
    provider = ProviderSettings(type=ProviderType(connection.type), base_url=connection.base_url)
    if result.models and provider.type in LISTING_TYPES:
        names = [model.name for model in result.models]
        await asyncio.to_thread(ModelLists(where).record, provider, names)
    return result


async def find_context_window(where: Places, connection: ModelConnection) -> int | None:
    """Ask for the context window of the connection's model, at no cost. None where it is not known.

    Raises SettingsError if the key cannot be found.
    """
    config = _config_of(where, connection)
    try:
        provider = build_discovery(load(where), ()).open(connection.name or connection.type, config)
        try:
            async with asyncio.timeout(REMOTE_DEADLINE_S):
                return (await provider.info(connection.model)).context_window
        finally:
            await provider.close()
    except (TimeoutError, ProviderError):
        return None


def _config_of(where: Places, connection: ModelConnection) -> ProviderConfig:
    """Build the provider's configuration with its key resolved. Raises SettingsError."""
    key = connection.key
    if connection.reference and connection.reference == key:
        key = Credentials(where.credentials).resolve(key).get_secret_value()
    return ProviderConfig(
        type=connection.type,
        base_url=connection.base_url,
        api_key=key,
        model=connection.model,
        context_window=connection.context_window,
    )
