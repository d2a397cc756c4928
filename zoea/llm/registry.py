"""Makes the provider of a type. Modules that speak HTTP are imported when first used.

The type is a setting, never guessed from an address.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from zoea.llm.local.model_files import LocalModels
from zoea.llm.provider_config import ProviderConfig
from zoea.model.errors import SettingsError
from zoea.model.ports import Clock, Provider
from zoea.settings.endpoints import ProviderType

Maker = Callable[[str, ProviderConfig, Clock], Provider]

HTTP_PROVIDERS: Mapping[ProviderType, tuple[str, str]] = {
    ProviderType.OPENAI: ("zoea.llm.providers.openai_provider", "OpenAIProvider"),
    ProviderType.ANTHROPIC: ("zoea.llm.providers.anthropic_provider", "AnthropicProvider"),
    ProviderType.OLLAMA: ("zoea.llm.providers.ollama_provider", "OllamaProvider"),
}
"""Modules and classes of the providers over HTTP."""


def make(name: str, config: ProviderConfig, *, clock: Clock, makers: Mapping[str, Maker] | None = None) -> Provider:
    """Make the provider that `config.type` names. Opens no connection.

    Raises:
        SettingsError: It is none over HTTP and none of `makers`.
    """
    if (maker := (makers or {}).get(config.type)) is not None:
        return maker(name, config, clock)
    if config.type in HTTP_PROVIDERS:
        module, provider = HTTP_PROVIDERS[config.type]
        opened: Provider = getattr(import_module(module), provider).open(name, config, clock)
        return opened
    types = ", ".join(sorted({*HTTP_PROVIDERS, *(makers or {})}))
    raise SettingsError(f"provider {name} has the type '{config.type}'", hint=f"Use one of: {types}.")


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
