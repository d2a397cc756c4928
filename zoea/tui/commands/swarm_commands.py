"""Commands to the swarm or several myses, with confirmation and undo."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from zoea.model.enums import MysisState
from zoea.model.errors import UsageError, ZoeaError
from zoea.model.status import wants_review
from zoea.model.swarm_api import ReloadReport, SwarmApi
from zoea.model.values import MysisView, Receipt, Recipients
from zoea.queries.phrases import describe_reload
from zoea.text.control_characters import one_line
from zoea.tui.commands.action import find_refusing_providers
from zoea.tui.screens.base import BaseScreen
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.swarm_list.broadcasts_panel import format_receipt
from zoea.tui.swarm_list.message_targets import MessageTarget, RoundCost, is_confirmed, list_names

if TYPE_CHECKING:
    from zoea.settings.schema import Settings

_NAMED = 2


class BatchCommand(Struct, frozen=True):
    """A command that one key gives to one or several myses.

    Attributes:
        verb: What it does, for the question.
        word: What the myses are afterwards.
        run: Gives it to one mysis, by `#id`.
        undo: Undoes it for one mysis, by id; None where it cannot be undone.
        undone: What the myses are after the undo.
        has_turns: Starts a turn of each, which costs tokens.
        can_undo: Says of a mysis, as it was before, whether the undo leads back to that.
        concerns: Says of a marked mysis whether the command changes it.
    """

    verb: str
    word: str
    run: Callable[[SwarmApi, str], Awaitable[object]]
    undo: Callable[[SwarmApi, int], Awaitable[object]] | None = None
    undone: str = ""
    has_turns: bool = False
    can_undo: Callable[[MysisView], bool] = lambda view: True
    concerns: Callable[[MysisView], bool] = lambda view: True


STOP = BatchCommand(
    "stop",
    "stopped",
    lambda api, ref: api.stop(ref),
    lambda api, mysis_id: api.start(f"#{mysis_id}"),
    "started again",
    can_undo=lambda view: view.state is MysisState.RUNNING,  # one that rested would work, and spend
    concerns=lambda view: view.state is not MysisState.STOPPED,
)
RELAUNCH = BatchCommand(
    "relaunch",
    "started",
    lambda api, ref: api.start(ref),
    lambda api, mysis_id: api.stop(f"#{mysis_id}"),
    "stopped again",
    has_turns=True,
    concerns=lambda view: view.state is not MysisState.RUNNING,
)
PAUSE = BatchCommand(
    "pause",
    "paused",
    lambda api, ref: api.hold(True, ref=ref),
    lambda api, mysis_id: api.hold(False, ref=f"#{mysis_id}"),
    "resumed",
)
RESUME = BatchCommand(
    "resume",
    "resumed",
    lambda api, ref: api.hold(False, ref=ref),
    lambda api, mysis_id: api.hold(True, ref=f"#{mysis_id}"),
    "paused again",
    has_turns=True,
)
DISMISS = BatchCommand(
    "dismiss",
    "dismissed",
    lambda api, ref: api.dismiss(ref),
    concerns=lambda view: view.failure is not None or wants_review(view),
)
DELETE = BatchCommand(
    "delete", "deleted", lambda api, ref: api.delete(ref), lambda api, mysis_id: api.undelete(mysis_id), "restored"
)


def toggle_hold(cockpit: Cockpit) -> None:
    """Hold the swarm, or resume it."""
    view = cockpit.feed.view
    assert view is not None, "the action is possible in an open swarm only"
    cockpit.ask_swarm(cockpit.api.hold(not view.held))
    if not view.held:
        return
    from zoea.swarm.budgets import is_spent

    if is_spent(view.hold_reason):  # otherwise the key seems to do nothing
        cockpit.notify(one_line(view.hold_reason), title="on hold again at the next request", markup=False)


def toggle_pause(cockpit: Cockpit, views: Sequence[MysisView], *, shows_result: bool = True) -> None:
    """Pause these myses; resume them where all of them are paused."""
    paused = [view for view in views if view.held]
    command, chosen = (RESUME, paused) if len(paused) == len(views) else (PAUSE, [v for v in views if not v.held])
    give(cockpit, chosen, command, shows_result=shows_result)


def run_again(cockpit: Cockpit) -> None:
    """Continue the myses that were running when Zoea ended."""
    work = cockpit.api.start_all(again=True)
    cockpit.ask_swarm(work, done=lambda count: cockpit.notify(f"{count} continued", markup=False))


def stop_all_when_pressed_twice(cockpit: Cockpit) -> None:
    """Stop the marked, else the filtered, else all myses on the second press in time."""
    key = cockpit.keys["swarm.stop-all"]
    views, who = _stoppable(cockpit)
    if cockpit.arming.press("stop-all", f"press {key} again to stop {who}"):
        _stop(cockpit, views)


def confirm_stop_all(cockpit: Cockpit) -> None:
    """Ask, then stop the marked, else the filtered, else all. Raises UsageError where none runs."""
    views, who = _stoppable(cockpit)
    if not views:
        raise UsageError("No mysis is running")
    lines = [f"Stop {who}?", "Their current turns are cut off; r relaunches them, z undoes it."]
    cockpit.call_later(confirm, cockpit, "STOP", lines, "stop", lambda: _stop(cockpit, views))


def confirm_deletion(cockpit: Cockpit, views: Sequence[MysisView]) -> None:
    """Ask, naming the myses, then archive each; `undo_last` restores them."""
    running = sum(1 for view in views if view.state == "running")
    cut, kept, what = (
        ("A turn that has not ended is cut off.", "Its name becomes free. Its memories", "it")
        if len(views) == 1
        else ("Turns that have not ended are cut off.", "Their names become free. Their memories", "each")
    )
    lines = [f"Delete {list_names(views)}?", *([cut] if running else [])]
    lines += [f"{kept} are kept: z undoes this, and later the command zoea\u00a0undelete brings {what} back."]
    confirm(cockpit, "DELETE", lines, "delete", lambda: _run(cockpit, views, DELETE, _tell_deleted))


def confirm_broadcast(
    cockpit: Cockpit,
    target: MessageTarget,
    text: str,
    send: Callable[[], None],
    *,
    refused: Callable[[str], None] = lambda why: None,
) -> None:
    """Send a broadcast. First ask where it goes to many, costs much or needs more than a budget has left.

    Args:
        refused: Called with the reason where nothing is sent.
    """

    def ask(short: tuple[str, ...]) -> None:
        if not short and not is_confirmed(cockpit.early.ask_above, target.receivers, target.cost.count(text)):
            send()
            return
        lines = [f"{target.title[:1].upper()}{target.title[1:]}?", target.describe(text), *map(one_line, short)]
        confirm(cockpit, "BROADCAST", lines, "send", send, lambda: refused("Not sent; the text is kept"))

    def failed(error: ZoeaError) -> None:
        refused(f"{error.title}: {error.what}")

    cockpit.ask_swarm(cockpit.api.find_short_budgets(text, to=Recipients(names=target.names)), done=ask, refused=failed)


def confirm(
    cockpit: Cockpit,
    title: str,
    lines: Sequence[str],
    yes: str,
    proceed: Callable[[], None],
    refused: Callable[[], None] = lambda: None,
    more: tuple[str, Callable[[], None]] = ("", lambda: None),
) -> None:
    """Ask a question, and go on after a yes.

    Args:
        more: What another key does instead, as a verb, and the function for it.
    """
    from zoea.tui.dialogs.modal import ConfirmDialog

    dialog = ConfirmDialog(title, lines, yes, more[0])

    def answered(answer: bool | None) -> None:
        if answer and dialog.has_chosen_more:
            more[1]()
        elif answer:
            proceed()
        else:
            refused()

    cockpit.push_screen(dialog, answered)


def give(cockpit: Cockpit, views: Sequence[MysisView], command: BatchCommand, *, shows_result: bool = True) -> None:
    """Give a command to myses. Ask once where they are many, or where their turns cost much.

    Args:
        shows_result: Show the names of those that took it.
    """
    cost = RoundCost.of(views) if command.has_turns else RoundCost()

    def done(cockpit: Cockpit, names: Sequence[str]) -> None:
        if shows_result and names:
            cockpit.notify(f"{_who(names)} {command.word}", markup=False)

    def proceed() -> None:
        _run(cockpit, views, command, done)

    if len(views) > 1 and is_confirmed(cockpit.early.ask_above, len(views), cost.count("")):
        question = f"{command.verb.capitalize()} {len(views)} myses: {list_names(views)}?"
        lines = [question, *([text] if (text := cost.describe()) else [])]
        cockpit.call_later(confirm, cockpit, command.verb.upper(), lines, command.verb, proceed)
    else:
        proceed()


def undo_last(cockpit: Cockpit) -> None:
    """Undo the last deletion, stop, relaunch or pause, of all myses that it concerned."""
    step = cockpit.undo.pop()

    async def run() -> list[str]:
        done, refused = await _each(cockpit, step.myses, step.command)
        cockpit.let_undo(refused, step.command, step.word)
        return done

    def told(names: list[str]) -> None:
        if names:
            cockpit.clear_notifications()  # an older notice may still offer what is undone now
            cockpit.notify(f"{_who(names)} {step.word}", markup=False)

    cockpit.ask_swarm(run(), done=told)


def resume_with_key(cockpit: Cockpit, provider: str) -> None:
    """Apply a provider's new key, and relaunch the myses that it had refused."""

    def relaunch() -> None:
        views = [view for view in cockpit.feed.in_order() if find_refusing_providers((view,)) == [provider]]
        _run(cockpit, views, RELAUNCH, lambda cockpit, names: cockpit.notify(f"{_who(names)} go on", markup=False))

    reload_settings(cockpit, applied=relaunch)


def reload_settings(cockpit: Cockpit, *, applied: Callable[[], None] = lambda: None) -> None:
    """Apply changed settings, keys, themes and upstreams while the myses run. Show what waits for the next start.

    Args:
        applied: Called once they are in force.
    """

    async def reload() -> ReloadReport:
        from zoea.settings.layers import load  # imported after the first paint

        loaded = await asyncio.to_thread(load, cockpit.places)
        report = await cockpit.api.reload()
        _use(cockpit, loaded.settings)
        return report

    def told(report: ReloadReport) -> None:
        cockpit.notify(one_line(describe_reload(report)), markup=False)
        cockpit.redraw_bars()
        applied()

    cockpit.ask_swarm(reload(), done=told)


def follow_reload(cockpit: Cockpit) -> None:
    """Apply settings and themes here too, after the swarm read them again for another front."""

    async def follow() -> None:
        from zoea.settings.layers import load  # imported after the first paint

        _use(cockpit, (await asyncio.to_thread(load, cockpit.places)).settings)

    cockpit.ask_swarm(follow(), done=lambda _: cockpit.redraw_bars())


def _use(cockpit: Cockpit, settings: Settings) -> None:
    """Put settings and themes in force in the cockpit."""
    cockpit.use_settings(settings)
    cockpit.find_themes()
    theme = settings.tui.theme
    if theme in cockpit.theme_specs and theme != cockpit.theme_spec.name:
        cockpit.use_theme(theme)
    cockpit.settings_watch.mark_applied()


def show_receipt(cockpit: Cockpit, receipt: Receipt) -> None:
    """Show who received a message, and which of its limits have no effect.

    A toast would cover what a screen shows of a message that all recipients received.
    """
    screen, is_received = cockpit.screen, 0 < receipt.delivered == len(receipt.lines)
    if not (is_received and isinstance(screen, BaseScreen) and screen.shows_message_to(receipt.lines)):
        cockpit.notify(format_receipt(receipt), markup=False)
    if receipt.notes:
        cockpit.notify("\n".join(receipt.notes), severity="warning", markup=False, timeout=15)


def _run(
    cockpit: Cockpit, views: Sequence[MysisView], command: BatchCommand, done: Callable[[Cockpit, Sequence[str]], None]
) -> None:
    """Give a command to each mysis; show errors, and remember how to undo it."""

    async def run() -> list[str]:
        api = cockpit.api
        named = [(view.id, view.name) for view in views]
        names, refused = await _each(cockpit, named, lambda mysis_id: command.run(api, f"#{mysis_id}"))
        if (undo := command.undo) is not None:
            can_undo = {view.id for view in views if command.can_undo(view)}
            taken = (one for one in named if one not in refused and one[0] in can_undo)
            cockpit.let_undo(taken, lambda mysis_id: undo(cockpit.api, mysis_id), command.undone)
        return names

    cockpit.ask_swarm(run(), done=lambda names: done(cockpit, names))


def let_remove(cockpit: Cockpit, made: Sequence[MysisView]) -> None:
    """Let the key for undo remove these new myses."""
    taken = [(one.id, one.name) for one in made]
    cockpit.let_undo(taken, lambda mysis_id: cockpit.api.delete(f"#{mysis_id}"), "removed")


async def _each(
    cockpit: Cockpit, myses: Sequence[tuple[int, str]], command: Callable[[int], Awaitable[object]]
) -> tuple[list[str], list[tuple[int, str]]]:
    """Run a command for each mysis and show errors. Returns the names that took it, and those that refused."""
    answers = await asyncio.gather(*(command(mysis_id) for mysis_id, _ in myses), return_exceptions=True)
    names: list[str] = []
    refused: list[tuple[int, str]] = []
    for one, answer in zip(myses, answers, strict=True):
        if isinstance(answer, ZoeaError):
            cockpit.show_error(answer)
            refused.append(one)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            names.append(one[1])
    return names, refused


def _tell_deleted(cockpit: Cockpit, names: Sequence[str]) -> None:
    if names:
        words = ("is", "it") if len(names) == 1 else ("are", "them")
        cockpit.notify(f"{_who(names)} {words[0]} deleted: z restores {words[1]}", markup=False)
    trees = cockpit.places.data / "worktrees"
    if held := [name for name in names if (trees / f"{name}.json").exists()]:
        what = f"Its worktree holds work and stays: {trees / held[0]}"
        if len(held) > 1:
            what = f"The worktrees of {', '.join(held)} hold work and stay in {trees}"
        hint = f"`zoea merge {' '.join(held)}` keeps the work, `zoea drop NAME --force` loses it"
        cockpit.notify(one_line(f"{what}. {hint}"), severity="warning", markup=False, timeout=15)


def _who(names: Sequence[str]) -> str:
    return f"{len(names)} myses" if len(names) > _NAMED else " and ".join(map(one_line, names))


def _stop(cockpit: Cockpit, views: Sequence[MysisView]) -> None:
    _run(cockpit, views, STOP, lambda cockpit, names: cockpit.notify(f"{len(names)} stopped", markup=False))


def _stoppable(cockpit: Cockpit) -> tuple[list[MysisView], str]:
    """Return the myses that a stop of all stops now, and who they are."""
    audience = cockpit.choose_audience()
    views = [view for view in audience.views if view.state != "stopped"]
    if not audience.why:
        return views, f"all {len(views)}"
    others = sum(1 for view in cockpit.feed.myses.values() if view.state != "stopped") - len(views)
    return views, f"{len(views)} ({audience.why}), not the other {others}"
