"""The values that every plan of one turn needs, fixed when the turn opens.

They are stored as JSON in the turn's row, so that all requests of a turn, also after a restart or
an update, are planned with the same values.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from zoea.context.selection import DEFAULT_MAX_CHARS
from zoea.context.topics.topic_rules import TopicRules
from zoea.context.window.window_rules import WindowRules
from zoea.model.enums import OpenedBy
from zoea.model.errors import PlanError
from zoea.settings.fields import MOST_TOKENS
from zoea.settings.schema import BudgetSettings, ContextSettings, ToolSettings

PLAN_VERSION = 2
"""The version of the planning rules for new turns; a turn ends under the version it was opened with."""
PLAN_VERSIONS = (PLAN_VERSION,)
"""The versions that this Zoea can plan: `tests/context/recorded_plans.py` holds plans of each."""
WINDOW_SETTING = "provider.NAME.context_window"
"""Replaces the window that the provider reports, and `context.context_window`."""
ASSUMED_WINDOW_SETTING = "context.context_window"
"""The window that is assumed where the provider reports none: a larger one may be true."""

TOPICS_SETTING = "context_strategy.max_tokens"
"""The budget of the strategy `topics`, in its template."""

AGENT_SETTING = "budget.token_budget_per_agent"
"""The budget of each request; it bounds that of the strategy `topics` where it is set."""

_CONTEXT, _BUDGET, _TOOL = ContextSettings(), BudgetSettings(), ToolSettings()


class EarlierTurn(Struct, frozen=True, array_like=True):
    """An earlier turn that the requests show.

    Attributes:
        whole: Whether it is shown with its tool calls; else its prompts and its last answer.
    """

    turn_id: int
    whole: bool


class FrozenTurn(Struct, frozen=True, forbid_unknown_fields=True):
    """The inputs of a turn's plans.

    Attributes:
        system: The template's prompt; the JSON holds only `template_hash` (hex).
        before: The newest memory id of this mysis before the turn; 0 if there is none.
        max_tokens: The budget of each request, in calibrated tokens.
        max_output_tokens: Always sent; counts against the window only.
        tools_tokens: The base estimate of the tool schemas' JSON.
        withheld_tokens: That of the tools it is not offered because its mysis is alone.
        withheld_tools: Names of all tools that its mysis had no use for when it opened.
        snapshot_tools, keep_tools: Globs.
        tool_mode: `json_schema` where the answers are held to a schema of calls; empty for the provider's own way.
        tool_form: `signatures` where the prompt has one line for each tool; empty for whole schemas.
        task_tokens: The most that all requests of the turn may use, where its prompts say so.
        mission_id, mission_tokens: The message that gave its turns a total, and the tokens of that.
        window: The limits of the strategy `window`; None in every other strategy.
        topics: Sources, texts and places in the ledger of the strategy `topics`; None in every other strategy.
        left_out_tools: Names of tools that the requests do not offer, because they would not fit with them.
        keep_turns: How many earlier turns the requests may show; 0 shows none.
        keep_turns_why: Why it is so many, where Zoea chose.
        earlier_tokens: The most that they may take; 0 for no bound beside half of what is free.
        earlier: The earlier turns that they do show, oldest first.
        label_to: The name of the mysis, where the line above each prompt says it; see `context/labels.py`.
        tool_show: `search` where only some tools of upstreams stand whole in the requests; else `all`.
        shown_tools: Names of those that do.
        tools_note: Why, and how many do not.
        all_tools_tokens: The budget with room for all tools, where some are left out.
        is_window_assumed: Whether `context_window` is the setting, because the provider reports none.
        inherited: The row of the commit that the mysis was made from; 0 for none.
        inherited_tokens: The most that its conversation may take, before calibration.
        is_inherited_whole: Whether its newest messages that have room are shown as they stand; else its summary.
        keeps_fitting_inherited: Whether messages that all have room are shown in every turn; its pack is then named by
            what it holds.
        inherits_from_root: Whether summaries of the window are passed over as far as messages have room.
        inherited_upto: The newest memory of the mysis itself that it holds, which no other pack shows; 0 for none.
        inherited_turn: The number of the last turn that it holds.
        recall_items: How many older memories are searched for the prompt's words; 0 searches none.
    """

    mysis_id: int
    turn_id: int
    turn_number: int
    strategy: str = _CONTEXT.strategy
    plan_version: int = PLAN_VERSION  # a stored turn always names its own
    system: str = ""
    template_hash: str = ""
    opened_by: OpenedBy = OpenedBy.PROMPT
    nudge_level: int = 0
    nudge_text: str = ""
    before: int = 0
    scan_window: int = 20
    keep_answer: bool = _CONTEXT.keep_answer
    situation: str = ""
    calibration: float = 1.0
    max_tokens: int = _BUDGET.token_budget_per_agent
    max_chars: int = DEFAULT_MAX_CHARS
    max_output_tokens: int = _BUDGET.max_output_tokens
    context_window: int | None = None
    tools_tokens: int = 0
    snapshot_tools: tuple[str, ...] = _CONTEXT.snapshot_tools
    keep_tools: tuple[str, ...] = _CONTEXT.keep_tools
    max_result_chars: int = _TOOL.max_result_chars
    left_out_tools: tuple[str, ...] = ()
    tool_mode: str = ""
    tool_form: str = ""
    window: WindowRules | None = None
    keep_turns: int = 0
    keep_turns_why: str = ""
    earlier_tokens: int = 0
    earlier: tuple[EarlierTurn, ...] = ()
    recall_items: int = 0
    label_to: str = ""
    task_tokens: int | None = None
    inherited: int = 0
    inherited_tokens: int = 0
    is_inherited_whole: bool = False
    inherited_upto: int = 0
    inherited_turn: int = 0
    mission_id: int | None = None
    mission_tokens: int | None = None
    topics: TopicRules | None = None
    tool_show: str = "all"
    shown_tools: tuple[str, ...] = ()
    tools_note: str = ""
    is_window_assumed: bool = False
    all_tools_tokens: int = 0
    withheld_tokens: int = 0
    withheld_tools: tuple[str, ...] = ()
    keeps_fitting_inherited: bool = False
    inherits_from_root: bool = False

    @property
    def is_nudged(self) -> bool:
        return self.opened_by is OpenedBy.NUDGE

    @property
    def system_text(self) -> str:
        """The whole text of the system message."""
        if self.topics is None:
            return self.system
        return f"{self.topics.opening}{self.system}{self.topics.ending}"

    def tightened(self, limit: int) -> FrozenTurn:
        """Return the turn with fewer tokens for each request, after one was too long."""
        return replace(self, max_tokens=max(1, min(request_limit(self).tokens, limit)))

    def to_json(self) -> str:
        """Return JSON without the prompt's text, which `from_json` takes as an argument."""
        return msgspec.json.encode(replace(self, system=""), order="sorted").decode()

    @classmethod
    def from_json(cls, text: str, *, system: str) -> FrozenTurn:
        """Restore the value that `to_json` wrote.

        Raises:
            PlanError: The text is not a frozen turn of this Zoea or an older one.
        """
        try:
            return replace(msgspec.json.decode(text, type=cls), system=system)
        except (msgspec.DecodeError, RecursionError) as error:
            raise PlanError(
                f"What the turn froze when it opened cannot be read: {error}.",
                hint="A newer Zoea wrote it, or its row is damaged; open the workspace with that version.",
            ) from error


class Limit(Struct, frozen=True):
    """The tokens a request may take, and the setting that limits them.

    `setting` is empty for the limit on characters, which no setting changes.
    """

    tokens: int
    setting: str


def request_limit(frozen: FrozenTurn) -> Limit:
    """Return the least of the budget, the window without the answer, and `max_chars` in tokens.

    A message costs at least a quarter of its characters in tokens, so the last bound keeps every
    request within `max_chars` without counting twice.
    """
    tokens, setting = frozen.max_tokens, _budget_setting(frozen)
    if frozen.context_window is not None and frozen.context_window - frozen.max_output_tokens < tokens:
        tokens, setting = frozen.context_window - frozen.max_output_tokens, _window_setting(frozen)
    of_chars = _tokens_of_chars(frozen)
    return Limit(tokens, setting) if tokens <= of_chars else Limit(of_chars, "")


def _tokens_of_chars(frozen: FrozenTurn) -> int:
    return int(frozen.max_chars / 4 * frozen.calibration)


def _budget_setting(frozen: FrozenTurn) -> str:
    is_own = frozen.topics is not None and not frozen.topics.is_capped
    return TOPICS_SETTING if is_own else AGENT_SETTING


def _window_setting(frozen: FrozenTurn) -> str:
    return ASSUMED_WINDOW_SETTING if frozen.is_window_assumed else WINDOW_SETTING


def name_settings(bound: Limit, frozen: FrozenTurn, tokens: int) -> str:
    """Return the settings with values that would allow `tokens`.

    Joined by " and ", the binding one first. It is empty where no setting allows so many.
    """
    if not bound.setting or tokens > _tokens_of_chars(frozen):
        return ""
    settings = {bound.setting: raised_setting(bound, frozen, tokens)}
    if tokens > frozen.max_tokens:
        settings.setdefault(_budget_setting(frozen), tokens)
    if frozen.topics is not None:
        # The strategy's own budget and that of all requests bound each other.
        both = {TOPICS_SETTING: frozen.topics.own_tokens, AGENT_SETTING: frozen.topics.agent_tokens}
        for name, limit in both.items():
            if 0 < limit < tokens:
                settings.setdefault(name, tokens)
    if frozen.context_window is not None and tokens > frozen.context_window - frozen.max_output_tokens:
        settings.setdefault(_window_setting(frozen), tokens + frozen.max_output_tokens)
    if settings.get(AGENT_SETTING, 0) > MOST_TOKENS:
        return ""
    return " and ".join(f"{name} = {value}" for name, value in settings.items())


def raised_setting(bound: Limit, frozen: FrozenTurn, tokens: int) -> int:
    """Return the value of the binding setting that would allow `tokens`."""
    is_window = bound.setting in (WINDOW_SETTING, ASSUMED_WINDOW_SETTING)
    return tokens + frozen.max_output_tokens if is_window else tokens
