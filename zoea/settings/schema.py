"""`Settings`: the one validated value that the rest of Zoea reads.

Made by `load`; tests and embedders may make one directly (`Settings()` is the
defaults) and ask `disagreements` about what holds between fields.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from zoea.settings.endpoints import ProviderSettings, ProviderType, UpstreamSettings
from zoea.settings.fields import NAME_PATTERN, Section, item
from zoea.settings.sections import (
    BudgetSettings,
    ContextSettings,
    LlmSettings,
    LogSettings,
    LoopSettings,
    McpSettings,
    MemorySettings,
    NudgeSettings,
    RecoverySettings,
    SwarmSettings,
    ToolSettings,
    TuiSettings,
    TurnSettings,
    UpstreamDefaults,
    WaitSettings,
    WorldSettings,
)

_UNCONFIGURED_KEYS = {
    ProviderType.OPENAI: "env:OPENAI_API_KEY",
    ProviderType.ANTHROPIC: "env:ANTHROPIC_API_KEY",
}


def _name(value: str) -> str:
    if not re.fullmatch(NAME_PATTERN, value):
        raise ValueError("a name is 1 to 32 letters, digits, '-' or '_', starting with a letter or digit")
    return value


Name = Annotated[str, AfterValidator(_name)]


class Settings(Section):
    """All settings. Durations are seconds, sizes are tokens or characters as each field says."""

    workspace: str = item(
        "", "Workspace", "The workspace to open where none is named.", pattern=r"^([A-Za-z0-9][A-Za-z0-9_.-]{0,39})?$"
    )
    swarm: SwarmSettings = Field(SwarmSettings(), title="Swarm")
    llm: LlmSettings = Field(LlmSettings(), title="Model calls")
    tool: ToolSettings = Field(ToolSettings(), title="Tool calls")
    turn: TurnSettings = Field(TurnSettings(), title="Turns")
    nudge: NudgeSettings = Field(NudgeSettings(), title="Nudges")
    wait: WaitSettings = Field(WaitSettings(), title="Waiting")
    loop: LoopSettings = Field(LoopSettings(), title="Loop guard")
    recovery: RecoverySettings = Field(RecoverySettings(), title="Recovery")
    context: ContextSettings = Field(ContextSettings(), title="Context")
    budget: BudgetSettings = Field(BudgetSettings(), title="Budgets")
    upstream_defaults: UpstreamDefaults = Field(UpstreamDefaults(), title="Upstream defaults")
    provider: dict[Name, ProviderSettings] = Field({}, title="Providers", description="Sources of models, by name.")
    upstream: dict[Name, UpstreamSettings] = Field({}, title="Upstreams", description="MCP servers, by name.")
    mcp: McpSettings = Field(McpSettings(), title="MCP server")
    world: WorldSettings = Field(WorldSettings(), title="World")
    memory: MemorySettings = Field(MemorySettings(), title="Memory")
    log: LogSettings = Field(LogSettings(), title="Log")
    tui: TuiSettings = Field(TuiSettings(), title="Cockpit")

    def provider_named(self, name: str) -> ProviderSettings | None:
        """A provider's settings; a type's own name works without configuration. None where unknown."""
        if name in self.provider:
            return self.provider[name]
        if name not in set(ProviderType):
            return None
        kind = ProviderType(name)
        return ProviderSettings(type=kind, api_key=_UNCONFIGURED_KEYS.get(kind, ""))

    def provider_name(self, wanted: str = "") -> str:
        """The provider to use: the one wanted, else the default, else the first configured, else the autopilot."""
        return wanted or self.swarm.default_provider or next(iter(self.provider), ProviderType.AUTOPILOT.value)

    def limits_of(self, upstream: UpstreamSettings) -> UpstreamDefaults:
        """An upstream's limits, its own over the defaults."""
        own = {name: value for name in UpstreamDefaults.model_fields if (value := getattr(upstream, name)) is not None}
        return self.upstream_defaults.model_copy(update=own)


def disagreements(settings: Settings) -> list[tuple[tuple[str, ...], str]]:
    """What each field allows but all together do not, as (path, message)."""
    found: list[tuple[tuple[str, ...], str]] = []
    budget = settings.budget
    if budget.token_budget_per_task < budget.token_budget_per_agent:
        found.append(
            (
                ("budget", "token_budget_per_task"),
                f"{budget.token_budget_per_task} is below budget.token_budget_per_agent "
                f"({budget.token_budget_per_agent}); a turn must hold at least one request",
            )
        )
    if settings.llm.backoff_first > settings.llm.backoff_max:
        found.append((("llm", "backoff_first"), "is above llm.backoff_max"))
    for name, upstream in settings.upstream.items():
        if bool(upstream.command) == bool(upstream.url):
            found.append((("upstream", name), "needs either command or url, and not both"))
    default = settings.swarm.default_provider
    if default and settings.provider_named(default) is None:
        known = ", ".join(settings.provider) or "none is configured"
        found.append((("swarm", "default_provider"), f"names no provider ({known})"))
    return found
