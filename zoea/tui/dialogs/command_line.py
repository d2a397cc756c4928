"""The `:` prompt of a screen: completes commands and runs them.

Every action with a command word can be typed. Those on myses take names, so that the cursor does not matter.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar

from msgspec import Struct
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from zoea.model.errors import MysisMissing, UsageError, ZoeaError
from zoea.model.values import MysisView, Recipients
from zoea.settings.paths import absolute_path
from zoea.text.control_characters import one_line
from zoea.tui.commands import swarm_commands
from zoea.tui.commands.action import Action, ActionContext, needs_open_swarm
from zoea.tui.commands.actions import ACTIONS, BY_ID
from zoea.tui.dialogs.modal import CockpitDialog
from zoea.tui.screens.base import BaseScreen
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.swarm_list.message_targets import Audience, target_many
from zoea.tui.text_layout import Piece, fit_text, wrap_words
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.task_text import find_folders

NAMES = frozenset({"mysis.stop", "mysis.relaunch", "mysis.delete", "mysis.dismiss", "mysis.pause", "swarm.hold"})
"""Actions that take one or more names."""
ONE_NAME = frozenset({"mysis.focus", "mysis.inspect", "mysis.message", "mysis.result", "mysis.review"})
_SAID = {"swarm.stop-all": "Stop every mysis, or only the marked or filtered ones (asks you first)"}
"""Descriptions of actions that work differently when they are typed."""
_ALIASES = {
    "mysis.relaunch": "start",
    "mysis.dismiss": "dismiss",
    "mysis.inspect": "explain",
    "approval.oldest": "answer",
    "screen.upstreams": "upstream",
    "screen.charts": "stats",
    "screen.settings": "config",
}
"""Other words of actions, the same as the CLI's; completions do not show them."""
SHOWN = 8
THEME = "theme"
WITHDRAW = "withdraw"


class CommandCompletion(Struct, frozen=True):
    """A possible line with its description; `why_not` where it is not possible now."""

    line: str
    title: str
    why_not: str = ""


def words_of(action: Action) -> tuple[str, ...]:
    """Return the words of an action at the prompt: its command word, its id, and that of the CLI."""
    return tuple(word for word in (action.command, action.id, _ALIASES.get(action.id, "")) if word)


def complete(cockpit: Cockpit, line: str) -> list[CommandCompletion]:
    """Return the possible completions of a line, the nearest first."""
    word, space, rest = line.lstrip().partition(" ")
    if not space:
        return _commands(cockpit, word)
    if word == THEME:
        cockpit.find_themes()
        return [
            CommandCompletion(f"{THEME} {name}", look.title)
            for name, look in cockpit.theme_specs.items()
            if name.startswith(rest.strip())
        ]
    if word == WITHDRAW:
        return [
            CommandCompletion(f"{WITHDRAW} {view.name}", f"{view.pending} waiting")
            for view in cockpit.feed.in_order()
            if view.pending and view.name.casefold().startswith(rest.strip().casefold())
        ][:SHOWN]
    action = _action(word)
    if action is BY_ID["mysis.new"] and (head := rest.rpartition("--on ")[0]):
        found = find_folders(rest.rpartition("--on ")[2])
        return [CommandCompletion(f"{word} {head}--on {path}", "") for path in found[:SHOWN]]
    if action is None or action.id not in NAMES | ONE_NAME:
        return []
    *before, part = rest.split(" ")
    if before and action.id in ONE_NAME:
        return []
    head = " ".join([word, *before])
    return [
        CommandCompletion(f"{head} {view.name}", f"{view.state} · {one_line(view.template)}")
        for view in cockpit.feed.in_order()
        if view.name.casefold().startswith(part.casefold()) and view.name not in before
    ][:SHOWN]


def needs_open_swarm_for(line: str) -> bool:
    """Return whether a line is possible in an open swarm only."""
    word = line.strip().partition(" ")[0]
    action = _action(word)
    return word == WITHDRAW or (action is not None and needs_open_swarm(action.requires))


def run(cockpit: Cockpit, line: str) -> None:
    """Run a line.

    Raises:
        UsageError: The line is no command, lacks an argument or is not possible now.
        MysisMissing: It names a mysis that does not exist.
    """
    word, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    if word == THEME:
        _theme(cockpit, rest)
        return
    if word == WITHDRAW:
        _withdraw(cockpit, rest)
        return
    action = _action(word)
    if action is None:
        raise UsageError(f"there is no command {word!r}", hint="Type a part of it; tab completes.")
    takes = _TAKING.get(action.id)
    if rest and takes is None:
        raise UsageError(f"{word} takes nothing after it")
    if rest and takes is not None:
        takes(cockpit, action, rest)
        return
    if action.id == "swarm.stop-all":
        swarm_commands.confirm_stop_all(cockpit)
        return
    why = action.why_not(cockpit.action_context())
    if why:
        raise UsageError(why)
    cockpit.call_later(cockpit.action_do, action.id)


def _commands(cockpit: Cockpit, word: str) -> list[CommandCompletion]:
    context = cockpit.action_context()
    found: list[tuple[int, str, CommandCompletion]] = []
    for action in ACTIONS:
        if not _is_typed(action):
            continue
        rank = _rank(word, action)
        if rank is not None:
            shown = words_of(action)[0]
            said = _SAID.get(action.id, action.description)
            found.append((rank, shown, CommandCompletion(shown, said, action.why_not(context))))
    if THEME.startswith(word):
        found.append((0, THEME, CommandCompletion(THEME, "Show another theme")))
    if WITHDRAW.startswith(word):
        found.append((0, WITHDRAW, CommandCompletion(WITHDRAW, "Withdraw all waiting messages of a mysis")))
    return [completion for _, _, completion in sorted(found, key=lambda one: one[:2])][:SHOWN]


def _is_typed(action: Action) -> bool:
    """Return whether an action is a command; keys of one screen only are not."""
    return bool(action.command) or action.id.startswith(("app.", "swarm.", "screen.", "mysis.", "approval.oldest"))


def _rank(word: str, action: Action) -> int | None:
    names = words_of(action)
    if any(name.startswith(word) for name in names):
        return 0
    if any(word in name for name in names):
        return 1
    return 2 if word in action.description.casefold() and len(word) > 2 else None


def _action(word: str) -> Action | None:
    return next((action for action in ACTIONS if word in words_of(action) and _is_typed(action)), None)


def _find(cockpit: Cockpit, name: str) -> MysisView:
    for view in cockpit.feed.myses.values():
        if view.name.casefold() == name.casefold() or name == f"#{view.id}":
            return view
    raise MysisMissing(f"there is no mysis {name!r}")


def _theme(cockpit: Cockpit, name: str) -> None:
    cockpit.find_themes()
    if name not in cockpit.theme_specs:
        for error in cockpit.theme_errors:
            if error.what.startswith(str(cockpit.config / "themes" / f"{name}.toml")):
                raise error
        known = ", ".join(cockpit.theme_specs)
        raise UsageError(f"there is no theme {name!r}" if name else "theme needs a name", hint=f"There are: {known}.")
    cockpit.use_theme(name)


def _withdraw(cockpit: Cockpit, name: str) -> None:
    """Withdraw the messages that no turn of a mysis has taken yet."""
    if not name:
        raise UsageError(f"{WITHDRAW} needs a name")
    view, opened = _find(cockpit, name), cockpit.opened
    assert opened is not None, "who is in the list was read from a swarm"

    async def work() -> int:
        from zoea.queries.stored_swarm import read_queued  # imported after the first paint

        count = 0
        for delivery in await asyncio.to_thread(read_queued, opened.database, f"#{view.id}"):
            with suppress(UsageError):
                await cockpit.api.withdraw(delivery.id)
                count += 1
        return count

    def told(count: int) -> None:
        what = f"{count} taken back" if count else "nothing waits"
        cockpit.notify(f"{one_line(view.name)}: {what}", markup=False)

    cockpit.ask_swarm(work(), done=told)


def _named(cockpit: Cockpit, names: str) -> list[MysisView]:
    return [_find(cockpit, name) for name in dict.fromkeys(names.split())]


def _refuse(action: Action, cockpit: Cockpit, views: Sequence[MysisView]) -> None:
    why = action.why_not(cockpit.build_context(*views))
    if why:
        raise UsageError(why)


def _give(command: swarm_commands.BatchCommand, cockpit: Cockpit, action: Action, rest: str) -> None:
    views = _named(cockpit, rest)
    _refuse(action, cockpit, views)
    swarm_commands.give(cockpit, views, command)


def _pause(cockpit: Cockpit, action: Action, rest: str) -> None:
    views = _named(cockpit, rest)
    _refuse(action, cockpit, views)
    swarm_commands.toggle_pause(cockpit, views)


def _delete(cockpit: Cockpit, action: Action, rest: str) -> None:
    cockpit.call_later(swarm_commands.confirm_deletion, cockpit, _named(cockpit, rest))


def _send(cockpit: Cockpit, action: Action, rest: str) -> None:
    name, _, text = rest.partition(" ")
    view = _find(cockpit, name)
    if not text.strip():
        _at(cockpit, action, name)
        return
    if not view.state.accepts_messages:
        raise UsageError(f"{one_line(view.name)} is {view.state}", hint=f"`:relaunch {one_line(view.name)}` first.")
    cockpit.ask_swarm(
        cockpit.api.send(f"#{view.id}", text.strip(), is_task=action.id == "mysis.task"),
        done=partial(swarm_commands.show_receipt, cockpit),
    )


def _broadcast(cockpit: Cockpit, action: Action, rest: str) -> None:
    _refuse(action, cockpit, ())
    everyone = action is BY_ID["swarm.broadcast-all"]
    audience = Audience(tuple(cockpit.feed.in_order())) if everyone else cockpit.choose_audience()
    if not audience.views:
        raise UsageError(f"no mysis matches the {audience.why}", hint="broadcast-all speaks to all.")
    target = target_many(audience)

    def send() -> None:
        cockpit.ask_swarm(
            cockpit.api.broadcast(rest, to=Recipients(names=target.names)),
            done=partial(swarm_commands.show_receipt, cockpit),
        )

    swarm_commands.confirm_broadcast(cockpit, target, rest, send, refused=lambda why: cockpit.notify(why, markup=False))


_NEW = "`:new NAME TEMPLATE --on DIR --worktree`, of which NAME is needed."


def _new(cockpit: Cockpit, action: Action, rest: str) -> None:
    """Create a mysis of `NAME [TEMPLATE] [--on DIR [--worktree]]`, as `zoea new` does. Raises UsageError."""
    _refuse(action, cockpit, ())
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise UsageError(f"the quotes of {rest!r} do not match", hint="Close them.") from error
    on, worktree = "", "--worktree" in words
    words = [word for word in words if word != "--worktree"]
    if "--on" in words:
        at = words.index("--on")
        on = " ".join(words[at + 1 : at + 2])
        del words[at : at + 2]
        if not on:
            raise UsageError("--on needs a folder", hint=_NEW)
    if unknown := [word for at, word in enumerate(words) if at > 1 or word.startswith("--")]:
        raise UsageError(f"{unknown[0]!r} is unknown here", hint=_NEW)
    if worktree and not on:
        raise UsageError("--worktree is of a folder", hint=_NEW)
    name, template = (*words, "", "")[:2]
    given = cockpit.new_myses
    work = cockpit.api.create(
        name,
        template=template or given.template,
        provider=given.provider,
        model=given.model,
        on=str(absolute_path(on)) if on else "",
        worktree=worktree,
    )
    cockpit.ask_swarm(work)


def _at(cockpit: Cockpit, action: Action, rest: str) -> None:
    """Select the mysis in the list, then run the action there."""
    view = _find(cockpit, rest)
    cockpit.call_later(cockpit.act_on_mysis, action.id, view.id)


_TAKING: dict[str, Callable[[Cockpit, Action, str], None]] = {
    "mysis.stop": partial(_give, swarm_commands.STOP),
    "mysis.relaunch": partial(_give, swarm_commands.RELAUNCH),
    "mysis.dismiss": partial(_give, swarm_commands.DISMISS),
    "mysis.pause": _pause,
    "swarm.hold": _pause,
    "mysis.delete": _delete,
    "mysis.message": _send,
    "mysis.task": _send,
    "mysis.new": _new,
    "mysis.focus": _at,
    "mysis.inspect": _at,
    "mysis.result": _at,
    "mysis.review": _at,
    "swarm.broadcast": _broadcast,
    "swarm.broadcast-all": _broadcast,
}


def typed() -> Iterable[Action]:
    """Yield every action that can be typed."""
    return (action for action in ACTIONS if _is_typed(action))


_AROUND = 3
"""Lines of the prompt besides the completions."""
_WORD = 24


class CommandPromptDialog(CockpitDialog[None]):
    """Tab takes a completion, up and down choose one, enter runs the line."""

    IS_SEEN_FIRST = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "take", "complete", priority=True),
        Binding("up", "choose(-1)", show=False, priority=True),
        Binding("down", "choose(1)", show=False, priority=True),
        Binding("enter", "run", "run", priority=True),
    ]

    _found: Sequence[CommandCompletion] = ()
    _chosen = -1

    def compose(self) -> ComposeResult:
        with Vertical(id="commands"):
            yield TextBlock(id="completions")
            yield TextBlock(id="error")
            with Horizontal(id="line"):
                yield Static(":", id="mark", markup=False)
                yield Input(id="command", compact=True)

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._complete()

    def action_context(self) -> ActionContext:
        """Return the context of the screen below, where commands are run."""
        below = self.cockpit.screen_stack[-2] if len(self.cockpit.screen_stack) > 1 else None
        return below.action_context() if isinstance(below, BaseScreen) else self.cockpit.build_context()

    @on(Input.Changed)
    def _complete(self) -> None:
        self._found = complete(self.cockpit, self.query_one(Input).value)
        self._chosen = -1
        self.query_one("#error", TextBlock).put([])
        self._draw()

    def _draw(self) -> None:
        lines: list[list[Piece]] = []
        room = max(1, self.size.height - _AROUND)
        for place, one in enumerate(self._found):
            if len(lines) >= room and place > self._chosen:
                break
            mark = "› " if place == self._chosen else "  "
            role = "quiet" if one.why_not else "title" if place == self._chosen else "strong"
            said = one_line(f"{one.title} (not now: {one.why_not})" if one.why_not else one.title)
            first, *more = wrap_words(said, max(_WORD, self.size.width - _WORD - 5))
            lines.append([(mark, "key"), (fit_text(one_line(one.line), _WORD), role), (f" {first}", "quiet")])
            lines += [[(" " * (_WORD + 3), ""), (line, "quiet")] for line in more]
        # On a low screen the chosen one stays in sight, and the line that is typed does.
        self.query_one("#completions", TextBlock).put(lines[:room] if self._chosen < 0 else lines[-room:])

    def action_choose(self, by: int) -> None:
        if self._found:
            self._chosen = (max(self._chosen, -1 if by > 0 else 0) + by) % len(self._found)
            self._draw()

    def action_take(self) -> None:
        if self._found:
            line = self.query_one(Input)
            found = self._found[max(0, self._chosen)].line
            line.value = found if found.endswith("/") else f"{found} "
            line.cursor_position = len(line.value)

    def action_run(self) -> None:
        line = self.query_one(Input).value.strip()
        if self._chosen >= 0 and self._found:
            line = self._found[self._chosen].line
        if not line:
            self.action_leave()
            return
        if needs_open_swarm_for(line) and self.cockpit.opening_wait.defer(self.action_run):
            return
        try:
            run(self.cockpit, line)
        except ZoeaError as error:
            said = [(error.what, "errored")] + ([(f"  {error.hint}", "quiet")] if error.hint else [])
            self.query_one("#error", TextBlock).put([said])
            return
        if self.is_active:
            self.dismiss()
