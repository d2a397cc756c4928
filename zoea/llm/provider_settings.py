"""From the settings to what providers are made from. The one place in `llm/` that knows their form."""

from __future__ import annotations

import json
from collections.abc import Mapping

from zoea.llm.local.model_files import LocalModels
from zoea.llm.provider_config import ProviderConfig, Timeouts
from zoea.llm.registry import Maker
from zoea.model.errors import SettingsError
from zoea.model.ports import Clock, Provider
from zoea.settings.credentials import Credentials
from zoea.settings.endpoints import ProviderSettings
from zoea.settings.schema import LlmSettings


def config_of(given: ProviderSettings, credentials: Credentials, llm: LlmSettings) -> ProviderConfig:
    """A provider's settings with its secrets resolved.

    The option `examples` is Zoea's own and goes no further; see `ProviderConfig`. Raises
    CredentialMissing (a SettingsError) where a reference leads nowhere, SettingsError for an
    `examples` that is neither true nor false.
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
        concurrency=given.concurrency,
        rate=given.rate,
        context_window=given.context_window,
        temperature=given.temperature,
        thinking=given.thinking,
        tool_mode=given.tool_mode,
        examples=examples,
        options=options,
        timeouts=Timeouts(first=llm.timeout, between=llm.between_tokens),
    )


def makers(shelf: LocalModels) -> dict[str, Maker]:
    """The providers of this package that speak no HTTP of their own; `runtime/` adds the autopilot's."""

    def embedded(name: str, config: ProviderConfig, clock: Clock) -> Provider:
        from zoea.llm.local.embedded_provider import EmbeddedProvider

        return EmbeddedProvider(name, config, clock, shelf)

    return {"embedded": embedded, "scripted": _scripted}


def _scripted(name: str, config: ProviderConfig, clock: Clock) -> Provider:
    """`options` may hold `pace` (seconds between deltas) and `metered`."""
    from zoea.llm.providers.scripted import ScriptedProvider

    return ScriptedProvider(
        name=name,
        metered=bool(config.options.get("metered", False)),
        clock=clock,
        pace_s=_number(config.options, "pace"),
        context_window=config.context_window,
    )


def _number(options: Mapping[str, object], name: str) -> float:
    value = options.get(name, 0.0)
    return float(value) if isinstance(value, (int, float)) else 0.0
