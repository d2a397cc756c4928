"""Steps of one cockpit that each begin with myses that nobody has used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.tui.cockpit import Stage, take_steps
from zoea.model.values import MysisView
from zoea.runtime.run_options import StartOptions


async def _renew(stage: Stage, unused: tuple[MysisView, ...], *, start: bool) -> tuple[MysisView, ...]:
    """Replace the myses by new ones of the same names, unless they are unused still. Return those there are."""
    commander, app = stage.swarm.commander, stage.app
    if (view := await stage.api.view()).held:
        await commander.hold(False)
    if view.myses != unused:
        names = [one.name for one in unused]
        for other in {one.name for one in view.myses}.difference(names):
            await commander.delete(other)
        for name in names:  # one after the other, because without any mysis the welcome would open
            if name in {one.name for one in view.myses}:
                await commander.delete(name)
            await commander.create(name, start=start)
        view = await stage.api.view()
    await stage.until(lambda: set(app.feed.myses) == {one.id for one in view.myses})
    for key in list(app.drafts._by_key):
        app.drafts.keep(key, "")
    app.new_myses = StartOptions()
    app.undo.clear()
    await stage.press("escape", "home")
    stage.notices.clear()
    return tuple(view.myses)


async def take_steps_anew(stage: Stage, *steps: Callable[[Stage], Awaitable[None]], start: bool = False) -> None:
    """Take steps in one cockpit. Each finds unused myses of the same names, and nothing to undo.

    Args:
        start: Whether the myses run.
    """
    unused = tuple((await stage.api.view()).myses)
    for step in steps:
        if step is not steps[0]:
            unused = await _renew(stage, unused, start=start)
        await take_steps(stage, step)
