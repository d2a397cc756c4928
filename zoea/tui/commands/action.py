"""An action: one thing that a person can do, where, by which key, and when.

A requirement says why an action is impossible, or returns an empty text. A screen or the app binds actions to
the functions that carry them out, in `bind_actions`. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from zoea.model.enums import MysisState
from zoea.model.status import wants_review
from zoea.model.values import ApprovalView, MysisView
from zoea.queries.phrases import approval_question
from zoea.tui.conversation.argument_lines import has_lines

OPENING = "the swarm is still opening"
NO_TARGET = "there is no mysis under the cursor"
NO_MYSIS = "there is no mysis yet: press n"


class ActionContext(Struct, frozen=True):
    """The state that decides which actions are possible.

    Attributes:
        targets: The marked myses, or the one under the cursor.
        shown: Number of myses in the swarm.
        approvals: Number of questions that wait for an answer.
        question: The question that is shown.
        failure: Why the swarm could not be opened.
        hidden: How to reach the list that an action works on, where that list is hidden.
        read_only_reason: Why the swarm cannot be commanded; empty where it can.
        writes_files: Whether settings, exports and screenshots may be written here.
        in_need: Number of myses that need the person.
        busy: Number of myses that could be held: they work, or go on by themselves.
        ended: Number of myses that ran when Zoea ended and were not started since.
        has_own_value: Whether the setting under the cursor has a value that the person wrote.
        has_repository: Whether Zoea was started in a git repository.
    """

    targets: tuple[MysisView, ...] = ()
    shown: int = 0
    approvals: int = 0
    question: ApprovalView | None = None
    held: bool = False
    is_ready: bool = True
    can_undo: bool = False
    is_owner: bool = True
    finding: bool = False
    has_sandbox: bool = True
    failure: str = ""
    hidden: str = ""
    read_only_reason: str = ""
    writes_files: bool = True
    in_need: int = 0
    busy: int = 0
    ended: int = 0
    has_own_value: bool = False
    has_repository: bool = False


Requirement = Callable[[ActionContext], str]
"""Returns why an action is not possible; an empty text where it is."""


def needs_open_swarm(requires: Requirement) -> bool:
    """Return whether something is possible in an open swarm only."""
    return requires(ActionContext(is_ready=False)) == OPENING


def needs_target(requires: Requirement) -> bool:
    """Return whether an action acts on marked myses, or the one under the cursor."""
    return requires(ActionContext(shown=1)) == NO_TARGET


def require_nothing(context: ActionContext) -> str:
    return ""


def require_open_swarm(context: ActionContext) -> str:
    return "" if context.is_ready else context.failure or OPENING


def _require(
    is_met: Callable[[ActionContext], object], why_not: str, before: Requirement = require_nothing
) -> Requirement:
    """Return the requirement that something is met, after the one that comes before it."""
    return lambda context: before(context) or ("" if is_met(context) else why_not)


def require_target(context: ActionContext) -> str:
    return require_open_swarm(context) or ("" if context.targets else NO_TARGET if context.shown else NO_MYSIS)


def require_one_target(context: ActionContext) -> str:
    if why := require_target(context):
        return why
    return "" if len(context.targets) == 1 else "this works on one mysis; esc removes the marks"


def has_worktree(targets: tuple[MysisView, ...]) -> bool:
    """Return whether the first of these myses works in a worktree of its own."""
    return bool(targets) and targets[0].works_on.startswith("worktree of ")


def require_readable_work(context: ActionContext) -> str:
    return require_target(context) if has_worktree(context.targets) else require_one_target(context)


def require_stoppable_target(context: ActionContext) -> str:
    if why := require_target(context):
        return why
    if all(view.state is MysisState.STOPPED for view in context.targets):
        return "it is stopped already"
    if all(view.state is MysisState.ERRORED and view.retry_at is None for view in context.targets):
        return "it failed and does nothing; r relaunches it"
    return ""


def require_startable_target(context: ActionContext) -> str:
    if why := require_target(context):
        return why
    if all(view.state is MysisState.RUNNING for view in context.targets):
        return "it already runs; m sends it a message"
    return ""


def require_failed_target(context: ActionContext) -> str:
    if why := require_target(context):
        return why
    can_dismiss = any(view.failure or wants_review(view) for view in context.targets)
    return "" if can_dismiss else "it has no error and no report to read"


NO_REFUSED_KEY = "no provider refused the key of this mysis"


def require_refused_key(context: ActionContext) -> str:
    return require_open_swarm(context) or ("" if find_refusing_providers(context.targets) else NO_REFUSED_KEY)


def find_refusing_providers(views: Iterable[MysisView]) -> list[str]:
    """Return the providers that refused the key of these myses."""
    return [view.provider for view in views if view.failure is not None and view.failure.is_refused_key]


require_need = _require(lambda it: it.in_need, "no other mysis needs you", require_open_swarm)
require_ended_mysis = _require(lambda it: it.ended, "no mysis was running when Zoea ended", require_open_swarm)
require_any_mysis = _require(lambda it: it.shown, NO_MYSIS, require_open_swarm)
require_open_approval = _require(lambda it: it.approvals, "nothing waits for your answer", require_open_swarm)


NO_OWN_VALUE = "the setting under the cursor has no value of yours"


NO_REPOSITORY = "Zoea was not started in a git repository"
NO_OTHER_QUESTION = "no other question waits"
UNLISTED = frozenset((NO_OWN_VALUE, NO_REPOSITORY, NO_OTHER_QUESTION))
"""Reasons for which a footer leaves a key out instead of showing it as off."""


require_repository = _require(lambda it: it.has_repository, NO_REPOSITORY, require_open_swarm)
require_own_value = _require(lambda it: it.has_own_value, NO_OWN_VALUE)
require_undoable_command = _require(lambda it: it.can_undo, "there is nothing to undo")
require_search_hits = _require(lambda it: it.finding, "press / and type what to find first")
require_another_question = _require(lambda it: it.approvals > 1, NO_OTHER_QUESTION)


def require_tool_call(context: ActionContext) -> str:
    question = context.question
    is_call = question is None or (question.kind == "tool" and not approval_question(question))
    return "" if is_call else "only the arguments of a tool call can be changed"


def require_text_arguments(context: ActionContext) -> str:
    question = context.question
    return "" if question is None or has_lines(question.arguments) else "its arguments are shown as they are sent"


def require_more_than_once(context: ActionContext) -> str:
    return context.question.why_once if context.question else ""


def require_grantable_call(context: ActionContext) -> str:
    return context.question.why_no_grant if context.question else ""


def require_visible_list(context: ActionContext) -> str:
    return context.hidden


def require_sandbox(context: ActionContext) -> str:
    if not context.is_owner:
        return "another process owns the swarm: start it there with --world reef"
    return require_open_swarm(context) or ("" if context.has_sandbox else "this cockpit cannot open the sandbox world")


class ActionPlace(StrEnum):
    """Where a key triggers an action. EVERYWHERE only on screens that bind it, unless the app does."""

    EVERYWHERE = "everywhere"
    DASHBOARD = "dashboard"
    FOCUS = "focus"
    APPROVAL = "approval"
    INPUT = "input"
    SETTINGS = "settings"
    WELCOME = "welcome"
    INSPECTOR = "inspector"
    SEARCH = "search"
    LOG = "log"
    UPSTREAMS = "upstreams"
    CHARTS = "charts"
    HISTORY = "history"
    COMPARISON = "comparison"
    REVIEW = "review"


SWARM, TEXT, SPARE, ASKS, FILES = 1, 2, 4, 8, 16
"""Flags of actions: see `Action.flags`."""


class Action(Struct, frozen=True):
    """One thing a person can do.

    Attributes:
        id: Stable name, for key settings, the palette and the `:` prompt.
        key: Default key, as Textual names it; each action has one.
        requires: Says why the action is not possible in a context.
        footer: Rank in the footer, lowest first; None keeps it out.
        command: Word at the `:` prompt. Where the CLI's differs, `_ALIASES` of the prompt has that too.
        flags: SWARM: changes the swarm, so that it is not possible in a read-only cockpit. TEXT: opens an input; where
            it is refused, the text that follows in the same burst is dropped. SPARE: in the footer only where all
            others fit. ASKS: spends or destroys, so that it is confirmed. FILES: writes a file of this machine, so
            that it is not possible in a read-only cockpit of a browser.
        pair: The title in the footer of this action and its neighbour with the same pair, shown as one.
        opens: The screen or dialog that it opens where no screen carries it out itself: module and class in `zoea.tui`.
        place: Where the key works.
    """

    id: str
    key: str
    title: str
    description: str
    requires: Requirement = require_nothing
    footer: int | None = None
    command: str = ""
    flags: int = 0
    pair: str = ""
    opens: str = ""
    place: ActionPlace = ActionPlace.EVERYWHERE

    @property
    def commands_swarm(self) -> bool:
        return bool(self.flags & SWARM)

    @property
    def takes_text(self) -> bool:
        return bool(self.flags & TEXT)

    @property
    def only_if_room(self) -> bool:
        return bool(self.flags & SPARE)

    @property
    def elsewhere(self) -> str:
        """Say that the screen on top does not carry it out, and which one does."""
        is_of_list = self.place in (ActionPlace.EVERYWHERE, ActionPlace.DASHBOARD)
        return "not on this screen" + (": esc goes back to the list, where it works" if is_of_list else "")

    def why_not(self, context: ActionContext) -> str:
        """Return why this is not possible now; an empty text where it is."""
        if context.read_only_reason and (self.commands_swarm or (self.flags & FILES and not context.writes_files)):
            return context.read_only_reason
        return self.requires(context)


Handlers = Mapping[str, Callable[[], object]]
"""The functions that carry actions out, by action id."""
