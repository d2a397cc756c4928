"""One registry of everything a person can do: bindings, footer, help, palette, `:` prompt and the docs read it.

An action says when it is possible and, where it is not, why not. Screens carry
actions out in methods named after them (`swarm.hold` -> `do_swarm_hold`).
Keys are defaults: a person remaps them by id. Source: spec tui.md, "Actions and keys".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from textual.binding import Binding

from zoea.model.enums import MysisState
from zoea.model.values import MysisView


class Place(StrEnum):
    """Where a key means this action."""

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


@dataclass(frozen=True, slots=True)
class Situation:
    """What an action may depend on: the mysis under the cursor, the marks, the swarm.

    `targets` are the marked myses, or the one under the cursor. `hidden` says how to come to the
    list that an action of this screen works on, where it is not shown. `looks_only` says why the
    swarm cannot be commanded.
    """

    targets: tuple[MysisView, ...] = ()
    shown: int = 0
    approvals: int = 0
    held: bool = False
    is_ready: bool = True
    can_undo: bool = False
    is_owner: bool = True
    finding: bool = False
    has_sandbox: bool = True
    hidden: str = ""
    looks_only: str = ""


WhyNot = Callable[[Situation], str]


def always(situation: Situation) -> str:
    return ""


def _when_open(situation: Situation) -> str:
    return "" if situation.is_ready else "the swarm is still opening"


def _some_mysis(situation: Situation) -> str:
    return _when_open(situation) or ("" if situation.targets else "there is no mysis under the cursor")


def _one_mysis(situation: Situation) -> str:
    if why := _some_mysis(situation):
        return why
    return "" if len(situation.targets) == 1 else "this works on one mysis: take the marks off first"


def _stoppable(situation: Situation) -> str:
    if why := _some_mysis(situation):
        return why
    if all(view.state is MysisState.STOPPED for view in situation.targets):
        return "it is stopped already"
    return ""


def _startable(situation: Situation) -> str:
    if why := _some_mysis(situation):
        return why
    if all(view.state is MysisState.RUNNING for view in situation.targets):
        return "mysis already running"
    return ""


def _configurable(situation: Situation) -> str:
    if why := _some_mysis(situation):
        return why
    running = any(view.state is MysisState.RUNNING for view in situation.targets)
    return "stop it first: what it is changes between two runs" if running else ""


def _with_error(situation: Situation) -> str:
    if why := _some_mysis(situation):
        return why
    return "" if any(view.failure for view in situation.targets) else "it has no error"


def _with_myses(situation: Situation) -> str:
    return _when_open(situation) or ("" if situation.shown else "there is no mysis yet: press n")


def _with_approvals(situation: Situation) -> str:
    return _when_open(situation) or ("" if situation.approvals else "nothing waits for your answer")


def _with_undo(situation: Situation) -> str:
    return "" if situation.can_undo else "there is nothing to undo"


def _while_finding(situation: Situation) -> str:
    return "" if situation.finding else "press / and type what to find first"


def _while_shown(situation: Situation) -> str:
    return situation.hidden


def _with_sandbox(situation: Situation) -> str:
    if not situation.is_owner:
        return "the swarm is another process's: start it there with --world reef"
    return _when_open(situation) or ("" if situation.has_sandbox else "this cockpit cannot open the sandbox world")


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a person can do.

    `footer` is its rank in the footer, lowest first; None keeps it out. A `spare`
    one stands there only where all others have room. `asks`
    marks what spends or destroys and is confirmed first. `command` is its word
    at the `:` prompt and, where there is one, the CLI's.
    """

    id: str
    place: Place
    key: str
    title: str
    description: str
    why_not: WhyNot = field(default=always)
    footer: int | None = None
    spare: bool = False
    asks: bool = False
    command: str = ""

    @property
    def method(self) -> str:
        return "do_" + self.id.replace(".", "_").replace("-", "_")


_E, _D, _F, _A = Place.EVERYWHERE, Place.DASHBOARD, Place.FOCUS, Place.APPROVAL
_S, _W = Place.SETTINGS, Place.WELCOME
_I, _Q, _L, _U = Place.INSPECTOR, Place.SEARCH, Place.LOG, Place.UPSTREAMS

_COMMANDING = frozenset({
    "swarm.hold", "swarm.stop-all", "swarm.broadcast", "approval.oldest", "screen.clients",
    "mysis.new", "mysis.message", "mysis.stop", "mysis.relaunch", "mysis.configure", "mysis.delete", "mysis.undo",
    "mysis.dismiss", "focus.message", "focus.stop", "focus.relaunch", "upstreams.reconnect", "upstreams.try",
    "welcome.sandbox", "welcome.new",
})  # fmt: skip
"""What tells the swarm to do something: not possible where it can only be looked at."""


def _unless_looking(action: Action) -> Action:
    if action.id not in _COMMANDING:
        return action
    return replace(action, why_not=lambda situation: situation.looks_only or action.why_not(situation))


_ALL: tuple[Action, ...] = (
    Action("app.command", _E, "colon", "cmd", "Type an action's name", footer=80),
    Action("app.palette", _E, "ctrl+p", "palette", "Find and run any action"),
    Action("app.help", _E, "question_mark", "help", "What every key does", footer=90, command="help"),
    Action(
        "app.quit",
        _E,
        "q",
        "quit",
        "Quit, or detach from a swarm that another process owns",
        footer=95,
        spare=True,
        command="quit",
    ),
    Action("app.back", _E, "escape", "back", "Leave this screen or close what is open", footer=5),
    Action("swarm.hold", _E, "x", "hold", "Hold the swarm, or resume it", _when_open, footer=60, command="hold"),
    Action(
        "swarm.stop-all",
        _E,
        "X",
        "stop all",
        "Stop every mysis; press twice",
        _with_myses,
        asks=True,
        command="stop-all",
    ),
    Action("approval.oldest", _E, "o", "approvals", "Open the oldest question", _with_approvals, footer=50),
    Action(
        "swarm.broadcast",
        _E,
        "b",
        "broadcast",
        "Say something to all, or to the marked",
        _with_myses,
        footer=20,
        command="broadcast",
    ),
    Action(
        "screen.search",
        _E,
        "ctrl+f",
        "search",
        "Search everything the swarm ever said",
        _when_open,
        footer=75,
        spare=True,
        command="search",
    ),
    Action("screen.upstreams", _E, "u", "upstreams", "Upstreams and providers", _when_open, command="upstreams"),
    Action(
        "screen.clients", _E, "M", "MCP clients", "Let other MCP clients search and talk", _when_open, command="mcp"
    ),
    Action(
        "screen.grants", _E, "A", "grants", "Tools that you allowed for a whole template", _when_open, command="grants"
    ),
    Action("screen.log", _E, "l", "log", "What happened, line by line", _when_open, command="events"),
    Action("screen.settings", _E, "comma", "settings", "Settings and themes", command="settings"),
    Action("screen.welcome", _E, "f1", "welcome", "What was found, and ways to begin", command="welcome"),
    Action("app.find", _E, "slash", "filter", "Filter the list, or find in the conversation", footer=70),
    Action("mysis.new", _D, "n", "new", "Create a mysis", _when_open, footer=10, command="new"),
    Action(
        "mysis.message",
        _D,
        "m",
        "message",
        "Say something to the mysis under the cursor",
        _one_mysis,
        footer=30,
        command="send",
    ),
    Action("mysis.focus", _D, "enter", "focus", "Open its conversation", _one_mysis, footer=40, command="show"),
    Action("mysis.stop", _D, "s", "stop", "Stop it, or the marked", _stoppable, footer=42, spare=True, command="stop"),
    Action(
        "mysis.relaunch",
        _D,
        "r",
        "relaunch",
        "Start or relaunch it, or the marked",
        _startable,
        footer=44,
        spare=True,
        command="start",
    ),
    Action(
        "mysis.configure",
        _D,
        "c",
        "configure",
        "Change what it is, or the marked: model, tags, budgets",
        _configurable,
        command="configure",
    ),
    Action(
        "mysis.delete", _D, "d", "delete", "Archive it; its memories stay", _some_mysis, asks=True, command="delete"
    ),
    Action("mysis.undo", _D, "z", "undo", "Bring back what was deleted last", _with_undo),
    Action("mysis.dismiss", _D, "full_stop", "dismiss", "Take the error off the row", _with_error),
    Action("mysis.mark", _D, "space", "mark", "Mark the mysis under the cursor", _some_mysis),
    Action("mysis.mark-all", _D, "asterisk", "mark all", "Mark all that are shown, or none", _with_myses),
    Action("swarm.attention", _D, "a", "attention", "Show those that need you first"),
    Action("swarm.next-in-need", _D, "w", "who needs you", "Go to the next mysis that needs you", _when_open),
    Action(
        "mysis.inspect",
        _D,
        "i",
        "inspect",
        "What its requests held, and why",
        _one_mysis,
        footer=46,
        spare=True,
        command="inspect",
    ),
    Action(
        "focus.previous-turn",
        _F,
        "left_square_bracket",
        "previous turn",
        "Go to the turn before",
        footer=34,
        spare=True,
    ),
    Action("focus.next-turn", _F, "right_square_bracket", "next turn", "Go to the turn after", footer=35, spare=True),
    Action("focus.previous-mysis", _F, "less_than_sign", "previous mysis", "The mysis above in the list"),
    Action("focus.next-mysis", _F, "greater_than_sign", "next mysis", "The mysis below in the list"),
    Action("focus.next-hit", _F, "n", "next hit", "The next place found", _while_finding),
    Action("focus.previous-hit", _F, "N", "previous hit", "The place found before", _while_finding),
    Action("focus.verbose", _F, "v", "verbose", "Show reasoning and results in full", footer=40),
    Action("focus.inspect", _F, "i", "inspect", "What its requests held, and why", _one_mysis, footer=50),
    Action(
        "focus.export", _F, "e", "export", "Write the conversation to a file", _one_mysis, footer=60, command="export"
    ),
    Action("focus.copy", _F, "y", "copy", "Copy the block under the cursor", footer=65, spare=True),
    Action("focus.message", _F, "m", "message", "Say something to it", _one_mysis, footer=10),
    Action("focus.stop", _F, "s", "stop", "Stop it", _stoppable, footer=20),
    Action("focus.relaunch", _F, "r", "relaunch", "Start or relaunch it", _startable, footer=25, spare=True),
    Action("approval.once", _A, "o", "once", "Allow this call", footer=10),
    Action("approval.session", _A, "s", "session", "Allow this tool until the mysis stops", footer=20),
    Action("approval.template", _A, "t", "template", "Allow this tool for all myses of the template", footer=30),
    Action("approval.deny", _A, "d", "deny", "Refuse it, with a sentence the model sees", footer=40),
    Action("approval.later", _A, "escape", "later", "Leave it waiting", footer=50),
    Action(
        "settings.default", _S, "ctrl+r", "default", "Take your own value out, so that the default holds", footer=10
    ),
    Action("welcome.sandbox", _W, "s", "sandbox", "Five miners on the autopilot in Reef", _with_sandbox, footer=10),
    Action("welcome.connect", _W, "c", "connect a model", "Set up a provider and its key", footer=20),
    Action("welcome.new", _W, "n", "create a mysis", "Create the first mysis by hand", _when_open, footer=30),
    Action("inspect.older", _I, "left", "older", "The request before", footer=10),
    Action("inspect.newer", _I, "right", "newer", "The request after", footer=11),
    Action(
        "inspect.previous-turn",
        _I,
        "left_square_bracket",
        "previous turn",
        "The last request of the turn before",
        footer=12,
        spare=True,
    ),
    Action(
        "inspect.next-turn",
        _I,
        "right_square_bracket",
        "next turn",
        "The first request of the turn after",
        footer=13,
        spare=True,
    ),
    Action("inspect.fold", _I, "enter", "fold", "Show a message whole, or folded", _while_shown, footer=20),
    Action("inspect.verbose", _I, "v", "verbose", "Show all messages whole, or folded", _while_shown, footer=30),
    Action(
        "inspect.copy", _I, "y", "copy", "Copy the message under the cursor, or the explanation of the plan", footer=40
    ),
    Action("search.open", _Q, "enter", "open", "Go to the turn with what was found", footer=10),
    Action("log.follow", _L, "f", "follow", "Go to the newest line and stay there", footer=10),
    Action("log.open", _L, "enter", "conversation", "Open the conversation of the mysis in the line", footer=20),
    Action("upstreams.reconnect", _U, "r", "reconnect", "Open an upstream anew, or try the providers again", footer=10),
    Action("upstreams.try", _U, "t", "try a tool", "Call the tool under the cursor by hand", _while_shown, footer=20),
)

ACTIONS = tuple(_unless_looking(action) for action in _ALL)
BY_ID = {action.id: action for action in ACTIONS}


def of(*places: Place) -> tuple[Action, ...]:
    return tuple(action for action in ACTIONS if action.place in places)


def bindings(actions: Iterable[Action]) -> list[Binding | tuple[str, str] | tuple[str, str, str]]:
    """Textual bindings that carry the action's id, so that `set_keymap` can move them."""
    return [
        Binding(action.key, f"app.do('{action.id}')", action.title, id=action.id, show=action.footer is not None)
        for action in actions
    ]


def clashes(actions: Iterable[Action] = ACTIONS) -> list[tuple[Action, Action]]:
    """Pairs of actions that one key would mean in one place. What is everywhere is in every place but input."""
    found = []
    known = list(actions)
    for index, one in enumerate(known):
        for other in known[index + 1 :]:
            together = one.place is other.place or Place.EVERYWHERE in (one.place, other.place)
            modal = Place.APPROVAL in (one.place, other.place) and one.place is not other.place
            if together and not modal and one.key == other.key:
                found.append((one, other))
    return found
