"""From a provider's type to the provider. The type is a setting, never guessed from an address.

The three that speak HTTP are known here and imported when first wanted; all
others (`autopilot`, `embedded`, `scripted`) come as makers from `runtime/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from zoea.llm.provider_config import ProviderConfig
from zoea.llm.transport.admission_gate import Gate
from zoea.model.errors import SettingsError
from zoea.model.ports import Clock, Provider

if TYPE_CHECKING:
    from zoea.llm.transport.http_client import HttpClient

Maker = Callable[[str, ProviderConfig, Clock], Provider]

HTTP_TYPES = ("anthropic", "ollama", "openai")


def make(name: str, config: ProviderConfig, *, clock: Clock, makers: Mapping[str, Maker] | None = None) -> Provider:
    """The provider that `config.type` names. Nothing is connected yet.

    Raises:
        SettingsError: for a type that nobody makes.
    """
    made_elsewhere = makers or {}
    if (maker := made_elsewhere.get(config.type)) is not None:
        return maker(name, config, clock)
    match config.type:
        case "openai":
            return make_openai(name, config, clock)
        case "anthropic":
            return make_anthropic(name, config, clock)
        case "ollama":
            return make_ollama(name, config, clock)
    types = ", ".join(sorted({*HTTP_TYPES, *made_elsewhere}))
    raise SettingsError(f"provider {name} has the type '{config.type}'", hint=f"Use one of: {types}.")


def make_openai(name: str, config: ProviderConfig, clock: Clock) -> Provider:
    from zoea.llm.providers.openai_provider import BASE_URL, OpenAIProvider, headers

    out = _way_out(name, config, config.base_url or BASE_URL, headers(config))
    return OpenAIProvider(name, config, gate_of(config, clock), out, clock)


def make_anthropic(name: str, config: ProviderConfig, clock: Clock) -> Provider:
    from zoea.llm.providers.anthropic_provider import BASE_URL, AnthropicProvider, headers

    base = (config.base_url or BASE_URL).rstrip("/").removesuffix("/v1")
    return AnthropicProvider(name, config, gate_of(config, clock), _way_out(name, config, base, headers(config)), clock)


def make_ollama(name: str, config: ProviderConfig, clock: Clock) -> Provider:
    from zoea.llm.providers.ollama_provider import BASE_URL, OllamaProvider, headers

    base = (config.base_url or BASE_URL).rstrip("/").removesuffix("/api")
    return OllamaProvider(name, config, gate_of(config, clock), _way_out(name, config, base, headers(config)), clock)


def _way_out(name: str, config: ProviderConfig, base_url: str, headers: Mapping[str, str]) -> HttpClient:
    from zoea.llm.transport.http_client import HttpClient

    return HttpClient(base_url, name=name, headers=headers, timeouts=config.timeouts)


def gate_of(config: ProviderConfig, clock: Clock) -> Gate:
    return Gate(clock, concurrency=config.concurrency, rate=config.rate)
