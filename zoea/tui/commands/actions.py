"""The registry of actions, for bindings, footer, help, palette, prompt and reference.

Keys are defaults; a person remaps them by action id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import ParamSpec

from textual.binding import Binding

from zoea.tui.commands.action import (
    Action,
    ActionPlace,
    require_another_question,
    require_any_mysis,
    require_ended_mysis,
    require_failed_target,
    require_one_target,
    require_open_approval,
    require_open_swarm,
    require_resting_target,
    require_sandbox,
    require_search_hits,
    require_startable_target,
    require_stoppable_target,
    require_target,
    require_undoable_command,
    require_visible_list,
)
from zoea.tui.commands.history_actions import HISTORY_ACTIONS

P = ParamSpec("P")

_defined: list[Action] = []


def _record(create: Callable[P, Action]) -> Callable[P, Action]:
    """Return this constructor of actions, which then also adds them to the registry."""

    def define(*args: P.args, **more: P.kwargs) -> Action:
        action = create(*args, **more)
        _defined.append(action)
        return action

    return define


_define = _record(Action)
_everywhere = partial(_define, ActionPlace.EVERYWHERE)
APP_COMMAND = _everywhere("app.command", "colon", "cmd", "Type a command", footer=80, takes_text=True)
APP_PALETTE = _everywhere("app.palette", "ctrl+p", "palette", "Find and run any action", takes_text=True)
APP_HELP = _everywhere("app.help", "question_mark", "help", "Show every key and its action", footer=90, command="help")
APP_QUIT = _everywhere(
    "app.quit",
    "q",
    "quit",
    "Quit; asks first whether the swarm ends or goes on without a screen",
    footer=95,
    only_if_room=True,
    command="quit",
)
APP_BACK = _everywhere("app.back", "escape", "back", "Leave this screen, or close the open input", footer=5)
SWARM_HOLD = _everywhere(
    "swarm.hold",
    "x",
    "hold all",
    "Hold the swarm: what runs now finishes, nothing new starts; the same key resumes",
    require_open_swarm,
    footer=60,
    command="hold",
    commands_swarm=True,
)
SWARM_STOP_ALL = _everywhere(
    "swarm.stop-all",
    "X",
    "stop all",
    "Stop every mysis, or only the marked or filtered ones; press twice",
    require_any_mysis,
    asks_first=True,
    command="stop-all",
    commands_swarm=True,
)
APPROVAL_OLDEST = _everywhere(
    "approval.oldest",
    "o",
    "approvals",
    "Answer the mysis that has been asking longest",
    require_open_approval,
    footer=50,
    command="approvals",
    commands_swarm=True,
)
SWARM_BROADCAST = _everywhere(
    "swarm.broadcast",
    "b",
    "broadcast",
    "Send a message to all myses, or only to the marked or filtered ones",
    require_any_mysis,
    footer=20,
    command="broadcast",
    commands_swarm=True,
    takes_text=True,
)
SWARM_BROADCAST_ALL = _everywhere(
    "swarm.broadcast-all",
    "B",
    "broadcast to all",
    "Send a message to all that can receive one, chosen or not",
    require_any_mysis,
    command="broadcast-all",
    commands_swarm=True,
    takes_text=True,
)
SCREEN_SEARCH = _everywhere(
    "screen.search",
    "ctrl+f",
    "search",
    "Search all conversations of the swarm",
    require_open_swarm,
    footer=75,
    only_if_room=True,
    command="search",
    takes_text=True,
)
SCREEN_UPSTREAMS = _everywhere(
    "screen.upstreams",
    "u",
    "upstreams",
    "Show tool servers (upstreams) and model providers",
    require_open_swarm,
    command="upstreams",
)
SCREEN_CLIENTS = _everywhere(
    "screen.clients",
    "M",
    "MCP clients",
    "Let other MCP clients search and send messages",
    require_open_swarm,
    command="mcp",
    commands_swarm=True,
)
SCREEN_GRANTS = _everywhere(
    "screen.grants", "A", "allowed tools", "List what you allowed for templates", require_open_swarm, command="grants"
)
SCREEN_TOPICS = _everywhere(
    "screen.topics", "T", "message topics", "List, read and publish their texts", require_open_swarm, command="topic"
)
SCREEN_BUDGETS = _everywhere(
    "screen.budgets",
    "dollar_sign",
    "budgets",
    "Show how much of each budget (limit) is used",
    require_open_swarm,
    command="budgets",
)
SCREEN_CHARTS = _everywhere(
    "screen.charts",
    "C",
    "charts",
    "Show tokens, spending, myses and turns over time",
    require_open_swarm,
    command="charts",
)
SCREEN_LOG = _everywhere("screen.log", "l", "log", "Show the events of the swarm", require_open_swarm, command="events")
SCREEN_SETTINGS = _everywhere("screen.settings", "comma", "settings", "Change settings and themes", command="settings")
SCREEN_WELCOME = _everywhere(
    "screen.welcome", "f1", "welcome", "Show found models and ways to start", command="welcome"
)
APP_SCREENSHOT = _everywhere(
    "app.screenshot", "S", "screenshot", "Write the screen to a file, zoea-TIME.svg", command="screenshot"
)
APP_ZOOM = _everywhere(
    "app.zoom", "plus", "zoom", "Show one panel alone, or all again; tab goes to the next", footer=67, only_if_room=True
)
APP_RELOAD = _everywhere(
    "app.reload",
    "f5",
    "reload",
    "Apply changed settings, keys, themes and upstreams while the myses run",
    require_open_swarm,
    command="reload",
    commands_swarm=True,
)
APP_FIND = _everywhere(
    "app.find", "slash", "filter", "Filter the list, or find in the conversation", footer=70, takes_text=True
)

_dashboard = partial(_define, ActionPlace.DASHBOARD)
MYSIS_NEW = _dashboard(
    "mysis.new",
    "n",
    "new",
    "Create a mysis",
    require_open_swarm,
    footer=10,
    command="new",
    commands_swarm=True,
    takes_text=True,
)
MYSIS_MESSAGE = _dashboard(
    "mysis.message",
    "m",
    "message",
    "Send this mysis a message; a stopped or errored one is relaunched for it",
    require_one_target,
    footer=30,
    command="send",
    commands_swarm=True,
    takes_text=True,
)
MYSIS_TASK = _dashboard(
    "mysis.task",
    "t",
    "task",
    "Give this mysis a new task, which it works on until it reports that it is done",
    require_one_target,
    command="task",
    commands_swarm=True,
)
SWARM_AGAIN = _dashboard(
    "swarm.again",
    "R",
    "continue",
    "Let the myses go on that were running when Zoea ended",
    require_ended_mysis,
    command="again",
    commands_swarm=True,
)
MYSIS_FOCUS = _dashboard(
    "mysis.focus", "enter", "open", "Open the conversation of this mysis", require_one_target, footer=40, command="show"
)
MYSIS_STOP = _dashboard(
    "mysis.stop",
    "s",
    "stop",
    "Stop this mysis, or the marked ones, at once; finished work is kept",
    require_stoppable_target,
    footer=42,
    only_if_room=True,
    command="stop",
    commands_swarm=True,
)
MYSIS_RELAUNCH = _dashboard(
    "mysis.relaunch",
    "r",
    "relaunch",
    "Start this mysis, or the marked ones, after a stop or an error",
    require_startable_target,
    footer=44,
    only_if_room=True,
    command="relaunch",
    commands_swarm=True,
)
MYSIS_CONFIGURE = _dashboard(
    "mysis.configure",
    "c",
    "configure",
    "Change template, model, tags or token limits of this mysis, or of the marked ones",
    require_resting_target,
    command="configure",
    commands_swarm=True,
    takes_text=True,
)
MYSIS_DELETE = _dashboard(
    "mysis.delete",
    "d",
    "delete",
    "Delete this mysis; its memories are kept: z restores it, later zoea undelete",
    require_target,
    asks_first=True,
    command="delete",
    commands_swarm=True,
)
MYSIS_UNDO = _dashboard(
    "mysis.undo",
    "z",
    "undo",
    "Undo the last delete, stop, relaunch, pause or fork",
    require_undoable_command,
    commands_swarm=True,
)
MYSIS_PAUSE = _dashboard(
    "mysis.pause",
    "p",
    "pause",
    "Pause this mysis, or the marked ones: what runs now finishes, nothing new starts; the same key resumes",
    require_target,
    command="pause",
    commands_swarm=True,
)
MYSIS_DISMISS = _dashboard(
    "mysis.dismiss",
    "full_stop",
    "dismiss",
    "Dismiss the error of the row, or mark its report as reviewed",
    require_failed_target,
    commands_swarm=True,
)
MYSIS_MARK = _dashboard("mysis.mark", "space", "mark", "Mark the mysis under the cursor", require_target)
MYSIS_MARK_ALL = _dashboard(
    "mysis.mark-all", "asterisk", "mark all", "Mark all shown myses, or none", require_any_mysis
)
SWARM_ATTENTION = _dashboard(
    "swarm.attention", "a", "attention", "List those that need you first, or the oldest first again"
)
SWARM_HIVE = _dashboard(
    "swarm.hive",
    "v",
    "hive",
    "Show the myses as a hive, one small cell each, or as rows again",
    require_any_mysis,
    footer=68,
    only_if_room=True,
)
SWARM_GROUPING = _dashboard(
    "swarm.grouping", "V", "group", "Group the hive by status, template or tag", require_any_mysis
)
SWARM_NEXT_IN_NEED = _dashboard(
    "swarm.next-in-need", "w", "who needs you", "Go to the next mysis that needs you", require_open_swarm
)
MYSIS_INSPECT = _dashboard(
    "mysis.inspect",
    "i",
    "inspect",
    "Show the requests of this mysis to the model",
    require_one_target,
    footer=46,
    only_if_room=True,
    command="inspect",
)
MYSIS_HISTORY = _dashboard(
    "mysis.history",
    "h",
    "history",
    "Show past contexts of this mysis, as commits",
    require_one_target,
    footer=47,
    only_if_room=True,
    command="history",
)

TURN_PAIR = "previous or next turn"
_focus = partial(_define, ActionPlace.FOCUS)
FOCUS_PREVIOUS_TURN = _focus(
    "focus.previous-turn",
    "left_square_bracket",
    "previous turn",
    "Go to the previous turn",
    footer=34,
    only_if_room=True,
    pair=TURN_PAIR,
)
FOCUS_NEXT_TURN = _focus(
    "focus.next-turn",
    "right_square_bracket",
    "next turn",
    "Go to the next turn",
    footer=35,
    only_if_room=True,
    pair=TURN_PAIR,
)
FOCUS_PREVIOUS_MYSIS = _focus(
    "focus.previous-mysis", "less_than_sign", "previous mysis", "Go to the mysis above in the list"
)
FOCUS_NEXT_MYSIS = _focus("focus.next-mysis", "greater_than_sign", "next mysis", "Go to the mysis below in the list")
FOCUS_NEXT_HIT = _focus("focus.next-hit", "n", "next hit", "Go to the next hit", require_search_hits)
FOCUS_PREVIOUS_HIT = _focus("focus.previous-hit", "N", "previous hit", "Go to the previous hit", require_search_hits)
FOCUS_VERBOSE = _focus("focus.verbose", "v", "verbose", "Show reasoning and results in full", footer=40)
FOCUS_INSPECT = _focus(
    "focus.inspect", "i", "inspect", "Show the requests of this mysis to the model", require_one_target, footer=50
)
FOCUS_HISTORY = _focus(
    "focus.history",
    "h",
    "history",
    "Show past contexts of this mysis, as commits",
    require_one_target,
    footer=52,
    only_if_room=True,
)
FOCUS_EXPORT = _focus(
    "focus.export",
    "e",
    "export",
    "Write the conversation to a file",
    require_one_target,
    footer=60,
    command="export",
    takes_text=True,
)
FOCUS_COPY = _focus("focus.copy", "y", "copy", "Copy the block under the cursor", footer=65, only_if_room=True)
FOCUS_KEEP = _focus(
    "focus.keep",
    "K",
    "keep",
    "Keep this message word for word in each request (for templates with the strategy window), or no longer",
    require_one_target,
    commands_swarm=True,
)
FOCUS_MESSAGE = _focus(
    "focus.message",
    "m",
    "message",
    "Send this mysis a message; a stopped or errored one is relaunched for it",
    require_one_target,
    footer=10,
    commands_swarm=True,
    takes_text=True,
)
FOCUS_STOP = _focus(
    "focus.stop",
    "s",
    "stop",
    "Stop this mysis at once; finished work is kept",
    require_stoppable_target,
    footer=20,
    commands_swarm=True,
)
FOCUS_RELAUNCH = _focus(
    "focus.relaunch",
    "r",
    "relaunch",
    "Start this mysis, after a stop or an error",
    require_startable_target,
    footer=25,
    commands_swarm=True,
)
FOCUS_PAUSE = _focus(
    "focus.pause",
    "p",
    "pause",
    "Pause this mysis: nothing new starts for it; the same key resumes",
    require_one_target,
    commands_swarm=True,
)

_approval = partial(_define, ActionPlace.APPROVAL)
APPROVAL_ONCE = _approval("approval.once", "y", "allow once", "Allow this call only", footer=10)
APPROVAL_SESSION = _approval(
    "approval.session", "s", "allow until stopped", "Allow this tool to this mysis until it is stopped", footer=20
)
APPROVAL_TEMPLATE = _approval(
    "approval.template",
    "t",
    "allow for template",
    "Allow this tool to every mysis of its template, until you revoke it",
    footer=30,
)
APPROVAL_DENY = _approval(
    "approval.deny", "d", "deny", "Refuse it, with a reason for the model", footer=40, takes_text=True
)
APPROVAL_NEXT = _approval(
    "approval.next",
    "o",
    "next question",
    "Show another question; this one stays open",
    require_another_question,
    footer=50,
    only_if_room=True,
)
APPROVAL_LATER = _approval("approval.later", "escape", "later", "Leave the question open")

_settings = partial(_define, ActionPlace.SETTINGS)
SETTINGS_CHANGE = _settings("settings.change", "enter", "change", "Change what is under the cursor", footer=10)
SETTINGS_DEFAULT = _settings(
    "settings.default",
    "ctrl+r",
    "back to default",
    "Remove your value, so that the default applies",
    footer=20,
)

_welcome = partial(_define, ActionPlace.WELCOME)
WELCOME_SANDBOX = _welcome(
    "welcome.sandbox",
    "s",
    "start sandbox",
    "Start five built-in miners, no cost",
    require_sandbox,
    footer=10,
    commands_swarm=True,
)
WELCOME_CONNECT = _welcome(
    "welcome.connect", "c", "connect a model", "Set up a provider and its key", footer=20, takes_text=True
)
WELCOME_NEW = _welcome(
    "welcome.new",
    "n",
    "create a mysis",
    "Create the first mysis by hand",
    require_open_swarm,
    footer=30,
    commands_swarm=True,
    takes_text=True,
)

_inspector = partial(_define, ActionPlace.INSPECTOR)
INSPECT_OLDER = _inspector("inspect.older", "left", "older", "Go to the older request", footer=10)
INSPECT_NEWER = _inspector("inspect.newer", "right", "newer", "Go to the newer request", footer=11)
INSPECT_PREVIOUS_TURN = _inspector(
    "inspect.previous-turn",
    "left_square_bracket",
    "previous turn",
    "Go to the last request of the previous turn",
    footer=12,
    only_if_room=True,
    pair=TURN_PAIR,
)
INSPECT_NEXT_TURN = _inspector(
    "inspect.next-turn",
    "right_square_bracket",
    "next turn",
    "Go to the first request of the next turn",
    footer=13,
    only_if_room=True,
    pair=TURN_PAIR,
)
INSPECT_FOLD = _inspector("inspect.fold", "enter", "fold", "Unfold or fold a message", require_visible_list, footer=20)
INSPECT_VERBOSE = _inspector(
    "inspect.verbose", "v", "verbose", "Unfold or fold all messages", require_visible_list, footer=30
)
INSPECT_COPY = _inspector(
    "inspect.copy", "y", "copy", "Copy the message under the cursor, or the explanation of the plan", footer=40
)

_defined.extend(HISTORY_ACTIONS)

_search = partial(_define, ActionPlace.SEARCH)
SEARCH_OPEN = _search("search.open", "enter", "open", "Open the turn with the hit", footer=10)

_log = partial(_define, ActionPlace.LOG)
LOG_FOLLOW = _log("log.follow", "f", "follow", "Go to the newest line, and show new ones as they come", footer=10)
LOG_OPEN = _log("log.open", "enter", "open conversation", "Open the conversation of the mysis in the line", footer=20)
LOG_REQUESTS = _log(
    "log.requests",
    "v",
    "show request events",
    "Show or hide the events of each request: what it held, what it used of the budgets",
    footer=30,
    only_if_room=True,
)

_charts = partial(_define, ActionPlace.CHARTS, pair="shorter or longer time")
CHARTS_SHORTER = _charts("charts.shorter", "left_square_bracket", "shorter", "Show a shorter time", footer=10)
CHARTS_LONGER = _charts("charts.longer", "right_square_bracket", "longer", "Show a longer time", footer=20)

_upstreams = partial(_define, ActionPlace.UPSTREAMS)
UPSTREAMS_RECONNECT = _upstreams(
    "upstreams.reconnect",
    "r",
    "reconnect",
    "Reopen an upstream, or ask the providers again",
    footer=10,
    commands_swarm=True,
)
UPSTREAMS_TRY = _upstreams(
    "upstreams.try",
    "t",
    "try a tool",
    "Call the tool under the cursor by hand",
    require_visible_list,
    footer=20,
    commands_swarm=True,
    takes_text=True,
)
UPSTREAMS_ADD = _upstreams(
    "upstreams.add", "n", "add", "Add an MCP server", footer=30, commands_swarm=True, takes_text=True
)
UPSTREAMS_SWITCH = _upstreams(
    "upstreams.switch", "space", "on/off", "Switch the upstream on or off", footer=40, commands_swarm=True
)
UPSTREAMS_REMOVE = _upstreams(
    "upstreams.remove", "d", "remove", "Remove the upstream from your settings", footer=50, commands_swarm=True
)


ACTIONS = tuple(_defined)
BY_ID = {action.id: action for action in ACTIONS}


def of(*places: ActionPlace) -> tuple[Action, ...]:
    """Return the actions of these places."""
    return tuple(action for action in ACTIONS if action.place in places)


def bindings(actions: Iterable[Action]) -> list[Binding | tuple[str, str] | tuple[str, str, str]]:
    """Return Textual bindings that carry the action's id, so that `set_keymap` can move them."""
    return [
        Binding(action.key, f"app.do('{action.id}')", action.title, id=action.id, show=action.footer is not None)
        for action in actions
    ]
