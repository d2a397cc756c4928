"""From a provider's type to the provider. The type is a setting, never guessed from an address.

The three that speak HTTP are known here and imported when first wanted; all
others (`autopilot`, `embedded`, `scripted`) come as makers from `app/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zoea.llm.config import ProviderConfig
from zoea.llm.gate import Gate
from zoea.model.errors import SettingsError
from zoea.model.ports import Clock, Provider

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
    from zoea.llm import http, openai

    out = http.Http(
        config.base_url or openai.BASE_URL, name=name, headers=openai.headers(config), timeouts=config.timeouts
    )
    return openai.OpenAIProvider(name, config, gate_of(config, clock), out, clock)


def make_anthropic(name: str, config: ProviderConfig, clock: Clock) -> Provider:
    from zoea.llm import anthropic, http

    out = http.Http(
        (config.base_url or anthropic.BASE_URL).rstrip("/").removesuffix("/v1"),
        name=name,
        headers=anthropic.headers(config),
        timeouts=config.timeouts,
    )
    return anthropic.AnthropicProvider(name, config, gate_of(config, clock), out, clock)


def make_ollama(name: str, config: ProviderConfig, clock: Clock) -> Provider:
    from zoea.llm import http, ollama

    out = http.Http(
        (config.base_url or ollama.BASE_URL).rstrip("/").removesuffix("/api"),
        name=name,
        headers=ollama.headers(config),
        timeouts=config.timeouts,
    )
    return ollama.OllamaProvider(name, config, gate_of(config, clock), out, clock)


def gate_of(config: ProviderConfig, clock: Clock) -> Gate:
    return Gate(clock, concurrency=config.concurrency, rate=config.rate)
