"""A model connected by hand: tried, its key stored apart, its provider written to the person's settings."""

from __future__ import annotations

from dataclasses import dataclass

from zoea.llm.discovery import REMOTE_DEADLINE_S, Candidate, Found, Origin, probe
from zoea.llm.provider_config import ProviderConfig
from zoea.runtime.model_discovery import build_discovery
from zoea.settings import Credentials, load
from zoea.settings.config_writer import set_keys
from zoea.settings.endpoints import REFERENCE, ProviderType
from zoea.settings.key_paths import Problem, SettingsInvalid
from zoea.settings.paths import Places


@dataclass(frozen=True, slots=True)
class ModelConnection:
    """What a person says of a model. `key` is the secret itself, a reference to it, or empty."""

    name: str
    type: str = ProviderType.OPENAI
    base_url: str = ""
    model: str = ""
    key: str = ""

    def __repr__(self) -> str:
        return f"Connection({self.name!r}, {self.type!r})"

    @property
    def reference(self) -> str:
        """How the settings name the key: a reference as it is, a secret by the provider's name."""
        if not self.key or REFERENCE.fullmatch(self.key):
            return self.key
        return f"file:{self.name}"

    def settings(self) -> dict[str, str]:
        """By dotted key; what is empty is left to the provider's own."""
        said = {"type": self.type, "base_url": self.base_url, "model": self.model, "api_key": self.reference}
        values = {f"provider.{self.name}.{key}": value for key, value in said.items() if value}
        return values | {"swarm.default_provider": self.name}


def save_connection(where: Places, connection: ModelConnection) -> None:
    """Store the key as a credential and write `[provider.NAME]`, which new myses use from then on. Writes files.

    Raises:
        SettingsInvalid: where a part of it is not allowed; nothing was written.
        SettingsError: where a file cannot be written.
    """
    if not connection.name or "." in connection.name:
        raise SettingsInvalid([Problem("name", "a name is 1 to 32 letters, digits, '-' or '_'")])
    values = connection.settings()
    load(where, overrides=values)
    if connection.reference and connection.reference != connection.key:
        where.make_data()
        Credentials(where.credentials).set(connection.name, connection.key)
    set_keys(where.config_file, values)


async def probe_connection(where: Places, connection: ModelConnection) -> Found:
    """Ask it for its models, which no provider charges for. Raises SettingsError for a key that cannot be found."""
    key = connection.key
    if connection.reference and connection.reference == key:
        key = Credentials(where.credentials).resolve(key).get_secret_value()
    config = ProviderConfig(type=connection.type, base_url=connection.base_url, api_key=key, model=connection.model)
    discovery = build_discovery(load(where), ())
    candidate = Candidate(
        connection.name or connection.type,
        connection.type,
        Origin.SETTINGS,
        lambda: discovery.open(connection.name or connection.type, config),
        address=connection.base_url,
        deadline_s=REMOTE_DEADLINE_S,
    )
    return await probe(candidate)
