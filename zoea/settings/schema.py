"""The schema of all settings: sections with defaults, limits, titles and descriptions.

`load` makes a `Settings`; `Settings()` holds the defaults. `settings_conflicts.find_conflicts` checks rules
between fields. Each field's `source` names the system its default comes from.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import AfterValidator

from zoea.model.request import OUTPUT_TOKENS
from zoea.settings.commit_settings import ChainSettings, InheritedSettings
from zoea.settings.early_defaults import NAME_PATTERN, EarlySettings
from zoea.settings.endpoints import ProviderSettings, ProviderType, UpstreamSettings
from zoea.settings.fields import (
    DAY_S,
    HOUR_S,
    MOST_WINDOW,
    NOVA,
    SHANNON,
    Bound,
    KeptTurns,
    Money,
    Number,
    Page,
    Seconds,
    Section,
    Whole,
    Words,
    early_section,
    section,
    setting,
)
from zoea.settings.server_settings import McpSettings, MetricsSettings

_PROVIDER_TYPES = frozenset(ProviderType)


@cache
def _settings_of_type(kind: ProviderType) -> ProviderSettings:
    return ProviderSettings(type=kind, api_key=f"env:{kind.key_variable}" if kind.key_variable else "")


def _clamp(lowest: float, highest: float) -> Callable[[float], float]:
    return lambda value: min(max(value, lowest), highest)


WindowSize = Annotated[Whole, AfterValidator(lambda value: min(max(value, 5), 200))]
"""Messages in a window; a value out of bounds counts as the nearest bound."""


class SwarmSettings(Section):
    """Size of the swarm, and limits on messages between myses."""

    max_myses: Whole = setting(
        16, "Myses at most", "How many living myses the workspace may hold.", source=NOVA, ge=1, le=2000
    )
    active_turns: Whole = setting(
        32, "Turns at once", "Turns that run at the same time; the rest wait in a queue.", ge=1, le=1000
    )
    max_hops: Whole = setting(
        3,
        "Hops that wake",
        "From this hop on, a message between myses is delivered but does not wake its recipient.",
        ge=1,
        le=100,
    )
    inherit_broadcast_hours: Number = setting(
        12,
        "Broadcast offered, hours",
        "How old the commander's newest broadcast may be that a new mysis can get before its task; 0 offers none.",
        ge=0,
        le=24 * 365,
        page=Page.AGENTS,
    )
    restart: Literal["ask", "always", "never"] = setting(
        "ask",
        "After a restart",
        "Whether myses that were running when Zoea ended continue at the next start: the cockpit asks, always, never.",
        page=Page.SYSTEM,
    )
    default_template: str = setting(
        "default",
        "Template of new myses",
        "The template of a mysis created without one.",
        pattern=NAME_PATTERN,
        page=Page.AGENTS,
    )
    default_provider: str = setting(
        "",
        "Provider of new myses",
        "Used if the template names none; empty means the first configured provider, else the autopilot.",
        page=Page.MODEL,
    )
    discover: bool = setting(
        True,
        "Look for a model",
        "Without a configured provider, use a model server found on this machine, else the autopilot. A run without a "
        "screen looks for one only if this is set to true.",
        page=Page.MODEL,
    )
    messages_per_hour: Whole = setting(
        20, "Messages an hour", "Direct messages that one mysis may send to others in an hour.", ge=0, le=100_000
    )
    broadcasts_per_hour: Whole = setting(
        4, "Broadcasts an hour", "Broadcasts that one mysis may send in an hour.", ge=0, le=100_000
    )
    publishes_per_hour: Whole = setting(
        60, "Topic messages an hour", "Messages that one mysis may publish on topics in an hour.", ge=0, le=100_000
    )


class LlmSettings(Section):
    """Deadlines and retries of model calls."""

    timeout: Seconds = setting(120, "First token within", "Seconds until the first token of an answer.", ge=1, le=DAY_S)
    between_tokens: Seconds = setting(60, "Between tokens", "Seconds a stream may be silent.", ge=1, le=DAY_S)
    retries: Whole = setting(4, "Retries", "Retries of a transient failure within a turn.", ge=0, le=20)
    backoff_first: Seconds = setting(
        0.5, "First backoff", "Seconds before the first retry, with full jitter.", ge=0.01, le=HOUR_S
    )
    backoff_max: Seconds = setting(
        20, "Longest backoff", "The longest delay to which the backoff doubles, in seconds.", ge=0.01, le=HOUR_S
    )


class ToolSettings(Section):
    """Deadlines and sizes of tool calls."""

    timeout: Seconds = setting(
        60, "Deadline of a call", "Seconds after which a tool call fails.", source=NOVA, ge=0.01, le=DAY_S
    )
    max_result_chars: Whole = setting(
        100_000,
        "Longest result shown",
        "Characters of a result shown to the model; the whole result is stored.",
        ge=1000,
        le=10_000_000,
    )
    own: Literal["slim", "full"] = setting(
        "slim",
        "Zoea's own tools",
        "slim offers one short tool to recall older things; full offers the three searches with all arguments.",
    )
    show: Literal["auto", "all", "search"] = setting(
        "auto",
        "Tools shown",
        "all puts the schema of every tool into each request; search those of Zoea, pinned and used tools, and the "
        "others as one line each, with a search for them. auto is search where all schemas are over 20 % of a "
        "request, or over 4,000 tokens with more than 24 tools.",
    )
    pin: Words = setting((), "Pinned tools", "Tools, as globs, that stand whole in each request where show is search.")


class TurnSettings(Section):
    """Limits of one turn."""

    max_iterations: Whole = setting(
        20, "Requests in a turn", "Model calls after which a turn ends as iteration_limit.", source=NOVA, ge=1, le=1000
    )
    timeout: Seconds = setting(
        300, "Longest silence", "Seconds without progress after which a turn ends.", source=NOVA, ge=1, le=DAY_S
    )


class NudgeSettings(Section):
    """Nudges that keep an idle mysis going, and their limits."""

    enabled: bool = setting(True, "Nudge idle myses", "If off, a mysis only answers prompts.", source=NOVA)
    without_goal: bool = setting(
        False, "Nudge without a goal", "Nudge also the myses that have no task and no goal from their template."
    )
    idle_interval: Seconds = setting(
        30, "Nudge after", "Seconds between the end of a turn and the nudge.", source=NOVA, ge=0.01
    )
    wait_interval: Seconds = setting(
        120, "Longest wait", "Seconds of silence after which a waiting mysis is nudged.", source=NOVA, ge=0.01
    )
    max_per_hour: Whole = setting(
        60, "Nudges an hour", "Nudges one mysis gets in an hour; 0 is no limit.", ge=0, le=1_000_000
    )


class WaitSettings(Section):
    """Result fields by which a tool tells a mysis to wait."""

    until_fields: Words = setting(
        ("arrival_tick", "travel_arrival_tick"),
        "Fields with a tick",
        "Result fields that hold an absolute tick.",
        source=NOVA,
    )
    for_fields: Words = setting(
        ("cooldown_ticks",), "Fields with a count", "Result fields that hold a number of ticks to wait.", source=NOVA
    )
    tick_fields: Words = setting(
        ("current_tick", "tick"),
        "Fields of the present",
        "Result fields that hold the current tick, at any depth; the first that occurs counts.",
    )

    default_tick: Seconds = setting(
        10,
        "Length of a tick",
        "Seconds of a tick until its length is learned from results.",
        source=NOVA,
        ge=0.01,
        le=DAY_S,
    )


class LoopSettings(Section):
    """What does not count where repeated calls are looked for."""

    volatile: Words = setting(
        ("current_tick", "*timestamp*", "*_at"),
        "Fields never compared",
        "Result fields, as globs, ignored when results are compared.",
    )
    exempt: Words = setting(
        ("zoea_wait", "mine", "get_notifications"),
        "Tools that may repeat",
        "Tools, as globs, that may repeat without limit.",
    )


class RecoverySettings(Section):
    """Automatic restart of a mysis after a transient failure."""

    delays: tuple[Seconds, ...] = setting(
        (30.0, 120.0, 600.0),
        "Delays",
        "Seconds before each automatic restart, with full jitter; after the last it stays errored. Empty turns it off.",
        max_length=100,
    )


class ContextSettings(Section):
    """Composition of a request."""

    strategy: Literal["turns", "window", "topics"] = setting(
        "turns",
        "Strategy",
        "turns shows the current turn and little of the past; window the conversation, with a summary of its middle; "
        "topics messages of the ledger that the template names.",
        source=NOVA,
    )
    keep_answer: bool = setting(True, "Keep the last answer", "Show the final answer of the previous turn.")
    keep_turns: KeptTurns = setting(
        "auto",
        "Earlier turns",
        "How many earlier turns that a message opened are shown whole, where they fit; 0 shows none. auto shows all "
        "that fit half of what is free, then drops the older half; where requests cost money at most 4,000 tokens, or "
        "2,000 where caching is unknown.",
    )
    recall_items: Whole = setting(
        3,
        "Memories recalled",
        "How many older memories that have to do with a message are put before it; 0 searches none.",
        ge=0,
        le=20,
    )
    summary: Literal["auto", "model", "extract"] = setting(
        "auto",
        "Summaries by",
        "Strategy window: model asks a model and appends facts that it lost; extract chooses lines without a model; "
        "auto asks the model of the mysis, unless that is a script or has under 4 billion parameters.",
    )
    summary_provider: str = setting(
        "", "Provider of summaries", "Provider that writes summaries; empty is the one of the mysis."
    )
    summary_model: str = setting(
        "", "Model of summaries", "Model that writes summaries; empty is the one of the mysis or provider."
    )
    summary_timeout: Seconds = setting(
        30.0,
        "Summary within",
        "Seconds that a model has to write a turn's summary, or to show that it goes on; then chosen lines serve.",
        ge=0.01,
        le=600,
    )
    snapshot_tools: Words = setting(
        ("get_*",), "Snapshot tools", "Tools, as globs, with results that supersede earlier ones.", source=NOVA
    )
    keep_tools: Words = setting(
        ("login", "register", "*_login"),
        "Tools kept whole",
        "Tools, as globs, with loop slices that are never compacted.",
        source=NOVA,
    )
    context_window: Whole = setting(
        8192, "Context window", "Tokens assumed for a model with an unknown window.", ge=1024, le=MOST_WINDOW
    )


class SessionSettings(Section):
    """The conversation as the strategy `window` shows it, with Shannon's keys."""

    context_window_default: WindowSize = setting(
        50, "Window", "Messages of the newest that may go verbatim, 5 to 200.", source=SHANNON
    )
    context_window_debugging: WindowSize = setting(
        75, "Window for debugging", "The same under the preset debugging, 5 to 200.", source=SHANNON
    )
    primers_count: Whole = setting(
        3, "First messages kept", "Messages at the start of the conversation that stay.", source=SHANNON, ge=0, le=1000
    )
    recents_count: Whole = setting(
        20,
        "Newest messages kept",
        "Messages before the turn that stay once the rest is summarised.",
        source=SHANNON,
        ge=0,
        le=1000,
    )
    compression_trigger_ratio: Annotated[Number, AfterValidator(_clamp(0.1, 0.95))] = setting(
        0.75, "Summarise from", "Share of the budget from which on the middle is summarised.", source=SHANNON
    )
    compression_target_ratio: Annotated[Number, AfterValidator(_clamp(0.1, 0.9))] = setting(
        0.375, "Longest summary", "Share of the budget that a summary may take.", source=SHANNON
    )
    max_history: Whole = setting(
        0,
        "Messages looked at",
        "Messages of the newest that the window looks at; 0 is no limit. Nothing is deleted.",
        ge=0,
        le=1_000_000,
    )
    ttl: Seconds = setting(
        0, "Oldest message", "Seconds after which the window leaves a message out; 0 is never. Nothing is deleted."
    )


class BudgetSettings(Section):
    """Token budgets. The lowest of environment, settings, template and request applies."""

    enforcement: Literal["soft", "hard", "approve"] = setting(
        "soft",
        "Turn or mysis over budget",
        "When the budget of a turn or a mysis is spent: soft warns and slows down, hard refuses, approve asks.",
        source=SHANNON,
    )
    token_budget_per_agent: Whole = setting(
        50_000, "Tokens per request", "The maximum tokens of one request.", source=SHANNON, ge=1000, le=200_000
    )
    token_budget_per_task: Whole = setting(
        200_000,
        "Tokens per turn",
        "The maximum tokens of all requests of a turn together; at least the tokens of one request.",
        source=SHANNON,
        ge=1000,
        le=200_000,
    )
    swarm_per_day: Bound = setting(
        2_000_000, "Tokens per day", 'Tokens the whole swarm may use on one local day; "none" is no limit.'
    )
    swarm_enforcement: Literal["soft", "hard", "approve"] = setting(
        "hard",
        "Day over budget",
        "When the budget of the day is spent: hard holds the swarm, approve asks, soft warns and slows down.",
    )
    mysis: Bound = setting(None, "Tokens per mysis", 'Tokens one mysis may use in total; "none" is no limit.')
    swarm_money_per_day: Money = setting(
        None, "Dollars per day", 'Dollars the whole swarm may spend on one local day; "none" is no limit.'
    )
    mysis_money: Money = setting(None, "Dollars per mysis", 'Dollars one mysis may spend in total; "none" is no limit.')
    max_output_tokens: Whole = setting(
        OUTPUT_TOKENS, "Tokens per answer", "The maximum tokens of one answer; always sent.", ge=16, le=200_000
    )
    background: Bound = setting(
        500_000,
        "Summary tokens per day",
        "Tokens of one local day for summaries and the like, which Zoea asks for; unset it is ten times the tokens of"
        " one request.",
    )

    @property
    def background_tokens(self) -> int | None:
        """The tokens of a day for background work, by default those of ten requests. None is no limit."""
        return self.background if "background" in self.model_fields_set else 10 * self.token_budget_per_agent


class FilesSettings(Section):
    """Work on files, by `zoea workbench` and `zoea merge`."""

    check: str = setting(
        "",
        "Check of a merge",
        "A command line that must succeed in the merged tree, such as `make test`; empty is none.",
    )
    check_timeout: Seconds = setting(900, "Check within", "Seconds that the check may take.", ge=1, le=DAY_S)
    hooks: bool = setting(False, "Hooks of git", "Run the hooks of the repository when Zoea commits and merges.")
    network: bool = setting(
        False, "Network of commands", "Let confined commands of the workbench, and the check, reach the network."
    )


class AcpSettings(Section):
    """External agents, over the Agent Client Protocol."""

    max_processes: Whole = setting(
        4,
        "Agents at once",
        "Processes of external agents that run at once; idle ones are ended for others and go on at their next prompt.",
        ge=1,
        le=64,
    )


class WorldSettings(Section):
    """Reef, the embedded world."""

    tick: Seconds = setting(2.0, "Length of a tick", "Seconds of a tick.", ge=0.01, le=3_600)
    seed: Whole = setting(
        1, "Seed", "The seed of a new world; the same seed and size give the same map.", ge=0, le=2**53, inert=True
    )
    systems: Whole = setting(
        40,
        "Systems",
        "Size of a new world: 40 systems have 120 points, with 30 belts and 12 stations; others in proportion.",
        ge=10,
        le=1000,
        inert=True,
    )
    turbo: bool = setting(False, "Turbo", "Advance a tick as soon as every player has acted; for tests.")


class MemorySettings(Section):
    """Removal of old memories; everything is kept unless a rule is set."""

    keep_days: Number = setting(
        0,
        "Keep for days",
        "Turns older than this many days are removed for good; 0 keeps all.",
        ge=0,
        le=36_500,
    )
    keep_memories: Whole = setting(
        0,
        "Keep memories",
        "Above this many memories, the oldest turns of a mysis are removed for good; 0 keeps all. The newest 100 "
        "always stay.",
        ge=0,
        le=1_000_000_000,
    )


class LogSettings(Section):
    """The log file."""

    level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "Level", "The lowest level written to the log file."
    )


if TYPE_CHECKING:
    BroadcastSettings: TypeAlias = EarlySettings
    TuiSettings: TypeAlias = EarlySettings
else:
    BroadcastSettings = early_section("broadcast", "When a message or command to many is confirmed first.")
    TuiSettings = early_section("tui", "Appearance and keys of the cockpit.")


def _name(value: str) -> str:
    if not re.fullmatch(NAME_PATTERN, value):
        raise ValueError("a name is 1 to 32 letters, digits, '-' or '_', starting with a letter or digit")
    return value


Name = Annotated[str, AfterValidator(_name)]


class Settings(Section):
    """All settings; durations are seconds."""

    workspace: str = setting(
        "",
        "Workspace",
        "The workspace to open if none is named.",
        pattern=r"^([A-Za-z0-9][A-Za-z0-9_.-]{0,39})?$",
        page=Page.SYSTEM,
    )
    swarm: SwarmSettings = section(SwarmSettings(), "Swarm", Page.LIMITS)
    llm: LlmSettings = section(LlmSettings(), "Model calls", Page.MODEL)
    tool: ToolSettings = section(ToolSettings(), "Tool calls", Page.AGENTS)
    turn: TurnSettings = section(TurnSettings(), "Turns", Page.LIMITS)
    broadcast: BroadcastSettings = section(BroadcastSettings(), "Broadcasts", Page.LOOK)
    nudge: NudgeSettings = section(NudgeSettings(), "Nudges", Page.AGENTS)
    wait: WaitSettings = section(WaitSettings(), "Waiting", Page.AGENTS)
    loop: LoopSettings = section(LoopSettings(), "Loop guard", Page.LIMITS)
    recovery: RecoverySettings = section(RecoverySettings(), "After a failure", Page.AGENTS)
    context: ContextSettings = section(ContextSettings(), "What a request holds", Page.MODEL)
    session: SessionSettings = section(SessionSettings(), "Conversation window", Page.MODEL)
    budget: BudgetSettings = section(BudgetSettings(), "Budgets", Page.LIMITS)
    provider: dict[Name, ProviderSettings] = section({}, "Providers", Page.MODEL, "Sources of models, by name.")
    upstream: dict[Name, UpstreamSettings] = section({}, "Upstreams", Page.SYSTEM, "MCP servers, by name.")
    mcp: McpSettings = section(McpSettings(), "MCP server", Page.SYSTEM)
    files: FilesSettings = section(FilesSettings(), "Work on files", Page.AGENTS)
    acp: AcpSettings = section(AcpSettings(), "External agents", Page.AGENTS)
    world: WorldSettings = section(WorldSettings(), "Sandbox world", Page.SYSTEM)
    memory: MemorySettings = section(MemorySettings(), "Memory", Page.SYSTEM)
    chain: ChainSettings = section(ChainSettings(), "Commits", Page.AGENTS)
    inherited: InheritedSettings = section(InheritedSettings(), "Forks", Page.AGENTS)
    metrics: MetricsSettings = section(MetricsSettings(), "Metrics", Page.SYSTEM)
    log: LogSettings = section(LogSettings(), "Log", Page.SYSTEM)
    tui: TuiSettings = section(TuiSettings(), "Display", Page.LOOK)

    def provider_named(self, name: str) -> ProviderSettings | None:
        """Return a provider's settings, or None; a type's name works without configuration."""
        if name in self.provider:
            return self.provider[name]
        if name not in _PROVIDER_TYPES:
            return None
        return _settings_of_type(ProviderType(name))

    def provider_name(self, wanted: str = "") -> str:
        """Return the provider to use: the wanted, the default, the first configured, or the autopilot."""
        return wanted or self.swarm.default_provider or next(iter(self.provider), ProviderType.AUTOPILOT.value)
