"""Commands to the swarm: hold, stop all, delete after a question, and undo."""

from __future__ import annotations

from collections.abc import Sequence

from zoea.model.errors import UsageError, ZoeaError
from zoea.model.values import MysisView, Receipt
from zoea.text.control_characters import one_line
from zoea.tui.commands import actions
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.swarm_list.broadcasts_panel import format_receipt

_NAMED = 5
"""Names that a confirmation lists; of more it says how many."""


def toggle_hold(cockpit: Cockpit) -> None:
    """Hold the swarm, or resume it."""
    view = cockpit.feed.view
    assert view is not None, "the action is possible in an open swarm only"
    cockpit.ask_swarm(cockpit.api.hold(not view.held))


def stop_all_when_pressed_twice(cockpit: Cockpit) -> None:
    """Stop every mysis on the second press in time."""
    key = cockpit.keys[actions.SWARM_STOP_ALL.id]
    if cockpit.arming.press("stop-all", f"press {key} again to stop all {_count_active(cockpit)}"):
        _stop_all(cockpit)


def confirm_stop_all(cockpit: Cockpit) -> None:
    """Ask, then stop every mysis. Raises UsageError where none runs."""
    from zoea.tui.dialogs.confirm import ConfirmDialog

    count = _count_active(cockpit)
    if not count:
        raise UsageError("No mysis is running")

    def answered(yes: bool | None) -> None:
        if yes:
            _stop_all(cockpit)

    lines = [f"Stop all {count}?", "Their current turns are cut off; r relaunches them."]
    cockpit.call_after_refresh(cockpit.push_screen, ConfirmDialog("STOP ALL", lines, "stop all"), answered)


def confirm_deletion(cockpit: Cockpit, views: Sequence[MysisView]) -> None:
    """Ask, naming the myses, then archive each; `undo_deletion` restores them."""
    from zoea.tui.dialogs.confirm import ConfirmDialog

    names = ", ".join(one_line(view.name) for view in views[:_NAMED])
    names += f" and {len(views) - _NAMED} more" if len(views) > _NAMED else ""
    running = sum(1 for view in views if view.state == "running")
    lines = [f"Delete {names}?"]
    if len(views) == 1:
        lines += ["It is running; its current turn is cut off."] if running else []
        lines += ["Its name becomes free. Its memories are kept; z restores it."]
    else:
        lines += [f"{running} of them are running; their current turns are cut off."] if running else []
        lines += ["Their names become free. Their memories are kept; z restores them."]

    def answered(yes: bool | None) -> None:
        for view in views if yes else ():
            cockpit.ask_swarm(cockpit.api.delete(f"#{view.id}"), done=deleted)

    def deleted(view: MysisView) -> None:
        cockpit.deleted.append((view.id, view.name))
        cockpit.notify(f"{one_line(view.name)} is deleted: z restores it", markup=False)
        cockpit.redraw_bars()

    cockpit.push_screen(ConfirmDialog("DELETE", lines, "delete"), answered)


def undo_deletion(cockpit: Cockpit) -> None:
    """Restore the mysis that was deleted last."""
    mysis_id, name = cockpit.deleted.pop()

    def refused(error: ZoeaError) -> None:
        cockpit.deleted.append((mysis_id, name))
        cockpit.show_error(error)

    cockpit.ask_swarm(
        cockpit.api.undelete(mysis_id),
        done=lambda _: cockpit.notify(f"{one_line(name)} is back", markup=False),
        refused=refused,
    )


def show_receipt(cockpit: Cockpit, receipt: Receipt) -> None:
    """Show who received a message."""
    cockpit.notify(format_receipt(receipt), markup=False)


def _stop_all(cockpit: Cockpit) -> None:
    cockpit.ask_swarm(cockpit.api.stop_all(), done=lambda count: cockpit.notify(f"{count} stopped", markup=False))


def _count_active(cockpit: Cockpit) -> int:
    return sum(1 for view in cockpit.feed.myses.values() if view.state != "stopped")
