"""Actions of a history, of the comparison of two commits, and of the timeline."""

from __future__ import annotations

from functools import partial

from zoea.tui.commands.action import Action, ActionPlace, require_undoable_command, require_visible_list

_history = partial(Action, ActionPlace.HISTORY)
HISTORY_OPEN = _history("history.open", "enter", "open", "Show the commit, or unfold a message", footer=45)
HISTORY_FORK = _history(
    "history.fork",
    "f",
    "fork",
    "Make myses that know the conversation up to the commit",
    require_visible_list,
    footer=20,
    commands_swarm=True,
    takes_text=True,
)
HISTORY_ASK = _history(
    "history.ask",
    "a",
    "ask it",
    "Ask what the mysis knew at the commit; it learns nothing of it",
    require_visible_list,
    footer=24,
    commands_swarm=True,
    takes_text=True,
)
HISTORY_RESUME = _history(
    "history.resume",
    "r",
    "resume",
    "Start the mysis of the commit again with its whole conversation",
    require_visible_list,
    footer=22,
    only_if_room=True,
    commands_swarm=True,
    takes_text=True,
)
HISTORY_NAME = _history(
    "history.name",
    "n",
    "name",
    "Give the commit a name, so that it is kept",
    require_visible_list,
    footer=55,
    only_if_room=True,
    commands_swarm=True,
    takes_text=True,
)
HISTORY_COMPARE = _history(
    "history.compare",
    "c",
    "mark, compare",
    "Mark the commit; on another one, compare the two",
    require_visible_list,
    footer=30,
)
HISTORY_TIMELINE = _history(
    "history.timeline", "t", "timeline", "Show what every mysis knew at the time of the commit", footer=40
)
HISTORY_UNDO = _history(
    "history.undo",
    "z",
    "undo",
    "Remove the last forks again, or undo the last command",
    require_undoable_command,
    footer=50,
    only_if_room=True,
    commands_swarm=True,
)
HISTORY_VERBOSE = _history(
    "history.verbose", "v", "verbose", "Unfold or fold all messages", footer=60, only_if_room=True
)
HISTORY_COPY = _history(
    "history.copy", "y", "copy", "Copy the id of the commit", require_visible_list, footer=65, only_if_room=True
)

_comparison = partial(Action, ActionPlace.COMPARISON)
COMPARE_FOLD = _comparison("compare.fold", "enter", "fold", "Unfold or fold a message", footer=10)
COMPARE_VERBOSE = _comparison("compare.verbose", "v", "verbose", "Unfold or fold all messages", footer=20)

_timeline = partial(Action, ActionPlace.TIMELINE)
TIMELINE_EARLIER = _timeline("timeline.earlier", "left", "earlier", "Go to the commit before", footer=10)
TIMELINE_LATER = _timeline("timeline.later", "right", "later", "Go to the commit after", footer=11)
TIMELINE_OPEN = _timeline("timeline.open", "enter", "open history", "Open the history of the mysis there", footer=20)

HISTORY_ACTIONS = (
    HISTORY_OPEN,
    HISTORY_FORK,
    HISTORY_ASK,
    HISTORY_RESUME,
    HISTORY_NAME,
    HISTORY_COMPARE,
    HISTORY_TIMELINE,
    HISTORY_UNDO,
    HISTORY_VERBOSE,
    HISTORY_COPY,
    COMPARE_FOLD,
    COMPARE_VERBOSE,
    TIMELINE_EARLIER,
    TIMELINE_LATER,
    TIMELINE_OPEN,
)
