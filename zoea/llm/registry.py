"""Makes providers: from the settings to a config, and from its type to the provider.

The type is a setting, never guessed from an address. Modules that speak HTTP are imported when first used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from zoea.llm.local.model_files import LocalModels
from zoea.llm.provider_config import AUTOMATIC_CONCURRENCY, ProviderConfig, Timeouts
from zoea.llm.transport.admission_gate import AdmissionGate
from zoea.model.errors import SettingsError
from zoea.model.ports import Clock, Provider
from zoea.settings.credentials import Credentials
from zoea.settings.endpoints import ProviderSettings
from zoea.settings.schema import LlmSettings

if TYPE_CHECKING:
    from zoea.llm.providers.openai_provider import OpenAIProvider
    from zoea.llm.transport.http_client import HttpClient

Maker = Callable[[str, ProviderConfig, Clock], Provider]

HTTP_TYPES = ("anthropic", "ollama", "openai")


def make(name: str, config: ProviderConfig, *, clock: Clock, makers: Mapping[str, Maker] | None = None) -> Provider:
    """Make the provider that `config.type` names. Opens no connection.

    Raises:
        SettingsError: for an unknown type.
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
    return _make_chat(name, config, gate_of(name, config, clock), clock)


def _make_chat(name: str, config: ProviderConfig, gate: AdmissionGate, clock: Clock) -> OpenAIProvider:
    from zoea.llm.providers.openai_provider import BASE_URL, OpenAIProvider, headers

    return OpenAIProvider(
        name, config, gate, _make_client(name, config, config.base_url or BASE_URL, headers(config)), clock
    )


def make_anthropic(name: str, config: ProviderConfig, clock: Clock) -> Provider:
    from zoea.llm.providers.anthropic_provider import BASE_URL, AnthropicProvider, headers

    base, gate = (config.base_url or BASE_URL).rstrip("/").removesuffix("/v1"), gate_of(name, config, clock)
    return AnthropicProvider(
        name,
        config,
        gate,
        _make_client(name, config, base, headers(config)),
        clock,
        open_chat=lambda: _make_chat(name, replace(config, base_url=f"{base}/v1"), gate, clock),
    )


def make_ollama(name: str, config: ProviderConfig, clock: Clock) -> Provider:
    from zoea.llm.providers.ollama_provider import BASE_URL, OllamaProvider, headers

    base = (config.base_url or BASE_URL).rstrip("/").removesuffix("/api")
    return OllamaProvider(
        name, config, gate_of(name, config, clock), _make_client(name, config, base, headers(config)), clock
    )


def _make_client(name: str, config: ProviderConfig, base_url: str, headers: Mapping[str, str]) -> HttpClient:
    """Make the HTTP client of one provider, with its headers and timeouts."""
    from zoea.llm.transport.http_client import HttpClient

    return HttpClient(base_url, name=name, headers=headers, timeouts=config.timeouts)


def gate_of(name: str, config: ProviderConfig, clock: Clock) -> AdmissionGate:
    places = config.concurrency or AUTOMATIC_CONCURRENCY
    return AdmissionGate(clock, concurrency=places, rate=config.rate, name=config.label or name)


def config_of(given: ProviderSettings, credentials: Credentials, llm: LlmSettings) -> ProviderConfig:
    """Build a provider's config from its settings, with its secrets resolved.

    The option `examples` is Zoea's own and is not sent; see `ProviderConfig`. Raises CredentialMissing (a
    SettingsError) if a reference names no credential, SettingsError for an `examples` that is neither true nor false.
    """
    options = dict(given.options)
    examples = options.pop("examples", None)
    if not isinstance(examples, bool | None):
        raise SettingsError(
            f"the option examples is {json.dumps(examples)}", hint="Set it to true or false, or leave it out."
        )
    key = credentials.resolve(given.api_key).get_secret_value() if given.api_key else ""
    headers = credentials.fill_all(given.headers)
    return ProviderConfig(
        type=str(given.type),
        base_url=given.base_url,
        api_key=key,
        model=given.model,
        headers={name: value.get_secret_value() for name, value in headers.items()},
        concurrency=None if given.is_concurrency_automatic else int(given.concurrency),
        rate=given.rate,
        context_window=given.context_window,
        temperature=given.temperature,
        thinking=given.thinking,
        tool_mode=given.tool_mode,
        examples=examples,
        options=options,
        timeouts=Timeouts(first=llm.timeout, between=llm.between_tokens),
    )


def makers(local_models: LocalModels) -> dict[str, Maker]:
    """Return the makers of local providers; `runtime/` adds the autopilot's."""

    def embedded(name: str, config: ProviderConfig, clock: Clock) -> Provider:
        from zoea.llm.local.embedded_provider import EmbeddedProvider

        return EmbeddedProvider(name, config, clock, local_models)

    return {"embedded": embedded, "scripted": _scripted}


def _scripted(name: str, config: ProviderConfig, clock: Clock) -> Provider:
    """`options` may hold `pace` (seconds between deltas) and `metered`."""
    from zoea.llm.providers.scripted import ScriptedProvider

    pace = config.options.get("pace")
    return ScriptedProvider(
        name=name,
        metered=bool(config.options.get("metered", False)),
        clock=clock,
        pace_s=float(pace) if isinstance(pace, (int, float)) else 0.0,
        context_window=config.context_window,
    )
