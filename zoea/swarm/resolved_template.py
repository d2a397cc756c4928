"""Template, provider, rules and limits of a mysis, resolved to values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from zoea.context import KEEP_WHILE_ROOM, FrozenTurn, TopicRules, WindowRules
from zoea.context.inherited_pack import Inheritance, freeze_inherited
from zoea.context.topics.agent_texts import write_ending, write_opening
from zoea.context.topics.topic_rules import write_source
from zoea.context.window.window_rules import choose_size
from zoea.model.enums import DONE_TOOL, OpenedBy, ToolForm, ToolMode
from zoea.model.errors import TemplateError
from zoea.model.ports import Provider
from zoea.model.request import Catalogue, ModelInfo
from zoea.model.values import Mysis
from zoea.settings.schema import Settings
from zoea.settings.template import Template, effective_settings, parse_template
from zoea.settings.topic_source import ContextStrategy
from zoea.swarm.rules import TurnRules, WaitRules, to_micros
from zoea.text.shorten import head

NUDGES = (
    "Continue your mission. Check notifications and coordinate with the swarm.",
    "You need to respond. Check your notifications and status.",
    "URGENT: Respond immediately. Check your system status.",
)
WINDOW_RECALL = 5
"""Memories that the strategy `window` recalls by default."""
_RECALL = "Context is limited: what is older is found with {tools}."
_GOAL = "Your goal: {task}"
_REACHED = "If it is reached, call zoea_done."
_ORDER_REACHED = "If your standing order is carried out, call zoea_done."
_TASK_CHARS = 500
ANSWER_LEAST, ANSWER_PARTS = 512, 8
CACHED_EARLIER_TOKENS, PLAIN_EARLIER_TOKENS = 4_000, 2_000
"""The most that earlier turns may take where requests cost money, because each request pays for them again."""
MISSING_WINDOW = "context window of {model} is not known: {window} tokens are assumed (context.context_window)"


class Providers(Protocol):
    """The configured providers by name."""

    def get(self, name: str) -> Provider:
        """Return a provider. Raises ProviderError (model_missing) with the nearest name."""
        ...

    def metered(self) -> dict[str, bool]: ...


class MysisProfile(Struct, frozen=True):
    """The values of a mysis that stay the same during a turn.

    `window` is the model's context window, or the setting where it is unknown. `model` is that of the mysis, else
    the one that its provider says answers; empty where it does not say. `traits` are those known when the
    turn was opened.
    """

    mysis_id: int
    uid: str
    name: str
    template: Template
    settings: Settings
    provider: Provider
    model: str
    window: int
    window_known: bool
    max_output_tokens: int
    tool_mode: ToolMode = ToolMode.AUTO
    model_info: ModelInfo = ModelInfo("")
    traits: tuple[tuple[str, str], ...] = ()

    @property
    def turn_rules(self) -> TurnRules:
        return TurnRules.of(self.settings)

    @property
    def wait_rules(self) -> WaitRules:
        return WaitRules.of(self.settings)


class ResolvedTemplate(Struct, frozen=True):
    """A parsed template and the settings under it.

    Where the stored text cannot be parsed, `damage` says why, and only the settings apply.
    """

    template: Template
    settings: Settings
    damage: TemplateError | None = None

    def runs_once(self, mysis: Mysis) -> bool:
        """Return whether a mysis rests after each turn. One that answers questions in a thread does."""
        return self.template.run == "once" or mysis.is_asked


def resolve_stored_template(body: str, settings: Settings) -> ResolvedTemplate:
    """Parse a stored template. A damaged one is returned as `damage`, so that other myses load (I10)."""
    try:
        return resolve_template(body, settings)
    except TemplateError as error:
        hint = "create it again from its template, or set back the settings that no longer agree with it"
        return ResolvedTemplate(Template(), settings, TemplateError(error.what, hint=hint))


def resolve_template(body: str, settings: Settings) -> ResolvedTemplate:
    """Parse a template text. Raises TemplateError."""
    template = parse_template(body)
    return ResolvedTemplate(template, effective_settings(settings, template))


async def build_profile(mysis: Mysis, known: ResolvedTemplate, providers: Providers) -> MysisProfile:
    """Build the profile. Raises ProviderError where the provider or model is missing."""
    own = known.settings
    provider = providers.get(mysis.provider)
    info = await provider.info(mysis.model)
    window = info.context_window or own.context.context_window
    source = own.provider_named(mysis.provider)
    output = output_limit(own, None if source is None else source.max_output_tokens, info.max_output, window)
    return MysisProfile(
        mysis_id=mysis.id,
        uid=mysis.uid,
        name=mysis.name,
        template=known.template,
        settings=own,
        provider=provider,
        model=mysis.model or info.name,
        window=window,
        window_known=info.context_window is not None,
        max_output_tokens=output,
        tool_mode=ToolMode.AUTO if source is None else source.tool_mode,
        model_info=info,
    )


def offline_profile(mysis: Mysis, known: ResolvedTemplate, providers: Providers) -> MysisProfile:
    """Build the profile of a mysis whose requests bypass its provider."""
    window = known.settings.context.context_window
    return MysisProfile(
        mysis_id=mysis.id,
        uid=mysis.uid,
        name=mysis.name,
        template=known.template,
        settings=known.settings,
        provider=providers.get(mysis.provider),
        model=mysis.model,
        window=window,
        window_known=False,
        max_output_tokens=output_limit(known.settings, None, None, window),
    )


def output_limit(settings: Settings, of_provider: int | None, of_model: int | None, window: int) -> int:
    """Return the tokens kept free for an answer.

    Unless the settings name a number, an eighth of the window, so that a small model has room for its prompt; never
    more than half of it.
    """
    is_set = of_provider is not None or "max_output_tokens" in settings.budget.model_fields_set
    share = max(64, window // 2)
    if not is_set:
        share = min(share, max(ANSWER_LEAST, window // ANSWER_PARTS))
    limits = (settings.budget.max_output_tokens, of_provider, of_model, share)
    return min(limit for limit in limits if limit)


def freezer(
    profile: MysisProfile,
    catalogue: Catalogue,
    *,
    nudge_level: int,
    nudged: bool,
    situation: str,
    task: str = "",
    now: int = 0,
    inherited: Inheritance = Inheritance(),
) -> Callable[[int, int, int, float], FrozenTurn]:
    """Return a function that freezes a turn from id, number, memory before it and calibration."""
    settings = profile.settings
    topics, max_tokens = None, request_budget(settings, profile.template)
    if settings.context.strategy == "topics":
        topics = topic_rules(profile)
    frozen = FrozenTurn(
        mysis_id=profile.mysis_id,
        turn_id=0,
        turn_number=0,
        strategy=settings.context.strategy,
        system=profile.template.prompt,
        template_hash=profile.template.hash.hex(),
        opened_by=OpenedBy.NUDGE if nudged else OpenedBy.PROMPT,
        nudge_level=nudge_level,
        nudge_text=nudge_text(nudge_level, catalogue, task) if nudged else "",
        keep_answer=settings.context.keep_answer,
        situation=situation,
        max_tokens=max_tokens,
        max_output_tokens=profile.max_output_tokens,
        context_window=profile.window,
        is_window_assumed=not profile.window_known,
        snapshot_tools=settings.context.snapshot_tools,
        keep_tools=settings.context.keep_tools,
        max_result_chars=settings.tool.max_result_chars,
        window=window_rules(settings, now) if settings.context.strategy == "window" else None,
        topics=topics,
        recall_items=recalled_items(settings) if not nudged else 0,
        label_to=profile.name,
        tool_form=tool_form(profile).value,
    )

    if settings.context.strategy == "turns" and not nudged:
        keep_turns, tokens, why = kept_turns(profile)
        frozen = replace(frozen, keep_turns=keep_turns, earlier_tokens=tokens, keep_turns_why=why)

    def freeze(turn_id: int, number: int, before: int, calibration: float) -> FrozenTurn:
        ended_topics = topics and replace(topics, ending=_ending(profile.template, number))
        opened = replace(
            frozen, turn_id=turn_id, turn_number=number, before=before, calibration=calibration, topics=ended_topics
        )
        return freeze_inherited(opened, inherited, settings.inherited.max_tokens, settings.inherited.keep)

    return freeze


def tool_form(profile: MysisProfile) -> ToolForm:
    """Return how the prompts of a turn may describe tools: only answers that keep to a schema need no whole schemas."""
    if profile.tool_mode is ToolMode.NATIVE:
        return ToolForm.WHOLE
    if profile.tool_mode is ToolMode.AUTO and not profile.model_info.takes_schema:
        return ToolForm.BY_MODE
    return ToolForm.SIGNATURES if profile.model_info.is_small else ToolForm.BY_SIZE


def topic_rules(profile: MysisProfile) -> TopicRules:
    """Return what a turn of the strategy `topics` freezes."""
    template, budget = profile.template, profile.settings.budget
    strategy = template.context_strategy or ContextStrategy()
    is_set = "token_budget_per_agent" in budget.model_fields_set
    most = request_budget(profile.settings, template)
    return TopicRules(
        opening=write_opening(
            profile.name, template.role, has_schema=template.output_schema is not None, prompt=template.prompt
        ),
        role=template.role,
        sources=tuple(map(write_source, strategy.sources)),
        is_capped=most < strategy.max_tokens,
        own_tokens=strategy.max_tokens,
        agent_tokens=budget.token_budget_per_agent if is_set else 0,
    )


def request_budget(settings: Settings, template: Template) -> int:
    """Return the most tokens of a request, before the window of the model."""
    budget = settings.budget
    if settings.context.strategy != "topics":
        return budget.token_budget_per_agent
    own = (template.context_strategy or ContextStrategy()).max_tokens
    return min(own, budget.token_budget_per_agent) if "token_budget_per_agent" in budget.model_fields_set else own


def _ending(template: Template, number: int) -> str:
    return write_ending(template.output_schema, template.publishes, number, prompt=template.prompt)


def recalled_items(settings: Settings) -> int:
    """Return how many memories are recalled. The strategy `window` takes more where the setting has its default."""
    if settings.context.strategy not in ("turns", "window"):
        return 0
    if settings.context.strategy == "window" and "recall_items" not in settings.context.model_fields_set:
        return WINDOW_RECALL
    return settings.context.recall_items


def window_rules(settings: Settings, now: int) -> WindowRules:
    """Return the limits of the strategy `window` for a turn that opens at `now`, µs."""
    session = settings.session
    return WindowRules(
        size=choose_size((session.context_window_default,)),
        primers=session.primers_count,
        recents=session.recents_count,
        trigger=session.compression_trigger_ratio,
        target=session.compression_target_ratio,
        max_history=session.max_history,
        debugging=session.context_window_debugging,
        since=now - to_micros(session.ttl) if session.ttl else 0,
    )


NO_EARLIER_TURNS = "Of earlier turns only the newest one's last calls and answer are sent (context.keep_turns = 0)."


def kept_turns(profile: MysisProfile) -> tuple[int, int, str]:
    """Return how many earlier turns may be shown, the most tokens of them, and why. 0 tokens is no bound."""
    wanted = profile.settings.context.keep_turns
    if wanted != "auto":
        return wanted, 0, "" if wanted else NO_EARLIER_TURNS
    how = "Earlier turns are kept while they fit half of what is free"
    if not profile.provider.metered:
        return KEEP_WHILE_ROOM, 0, f"{how}; then the older half goes at once (context.keep_turns = auto)."
    is_cached = profile.model_info.cache_minimum is not None
    most = CACHED_EARLIER_TOKENS if is_cached else PLAIN_EARLIER_TOKENS
    why = "the model caches them" if is_cached else "it is not known whether the model caches them"
    return KEEP_WHILE_ROOM, most, f"{how} and {most:,} tokens, because {why} (context.keep_turns = auto)."


def nudge_text(level: int, catalogue: Catalogue, task: str = "") -> str:
    """Return the nudge of this level, with the search tools and the open goal."""
    lines = [NUDGES[min(max(level, 1), len(NUDGES)) - 1]]
    tools = [tool.name for tool in catalogue.tools if tool.name.startswith(("zoea_search_", "zoea_recall"))]
    if tools:
        lines.append(_RECALL.format(tools=", ".join(tools)))
    can_report = any(tool.name == DONE_TOOL for tool in catalogue.tools)
    if task:
        goal = head(" ".join(task.split()), _TASK_CHARS)
        lines.append(_GOAL.format(task=goal))
        lines += [_REACHED] if can_report else []
    return "\n".join(lines)


def drop_told_goal(nudge: str, order: str) -> str:
    """Return a nudge without the goal where the standing order says the same."""
    opening, mark, rest = nudge.partition(f"\n{_GOAL.format(task='')}")
    goal, _, more = rest.partition("\n")
    if not mark or goal.removesuffix("…") not in " ".join(order.split()):
        return nudge
    return f"{opening}\n{_ORDER_REACHED}" if more == _REACHED else opening
