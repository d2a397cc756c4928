"""Grants for templates: listed, and revoked with two presses."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from textual.containers import Vertical
from textual.content import Content

from tests.fakes.swarm import FakeSwarm
from tests.swarm.harness import swarm
from tests.tui.cockpit import QUIET, START, Stage, asks_when_told, cockpit, cockpit_over
from tests.tui.hostile_texts import HOSTILE, LONG, is_harmless
from zoea.ipc.read_only import REASON, ReadOnlySwarm
from zoea.model.enums import ApprovalAnswer
from zoea.model.errors import NoRunningSwarm
from zoea.model.values import GrantView
from zoea.tui.dialogs.grants import GrantsDialog
from zoea.tui.widgets.line_list import PickList

MINUTE = 60_000_000
PRESS_AGAIN = "press r again to revoke it"


async def opened(stage: Stage, word: str) -> GrantsDialog:
    """The box, once it says this."""
    await stage.press("A", until=lambda: stage.shows(GrantsDialog) and word in stage.text())
    screen = stage.screen
    assert isinstance(screen, GrantsDialog)
    return screen


async def allow_burning(stage: Stage) -> None:
    """A mysis asks, and is answered for its template while the box is open."""
    await stage.api.send("alpha", "burn it")
    await stage.until(lambda: stage.app.approvals.open)
    await stage.api.answer(stage.app.approvals.open[0].id, ApprovalAnswer.TEMPLATE)
    await stage.until(lambda: "without asking, allowed at" in stage.text() and not stage.app.approvals.open)


async def test_a_grant_is_listed_and_its_tool_asks_again_after_it_is_revoked(tmp_path: Path) -> None:
    async with cockpit(tmp_path, asks_when_told, names=("alpha",)) as stage:
        await opened(stage, "Nothing is allowed for a whole template")
        assert "a call that asks (o) with t, template" in stage.text()
        assert "revoke ·" not in stage.text()
        await stage.press("r")
        assert PRESS_AGAIN not in stage.text()
        await allow_burning(stage)
        assert len(stage.one(PickList).ids) == 1
        assert "upstream" in stage.text()
        await stage.pilot.resize_terminal(60, 16)
        await stage.until(lambda: re.search(r"template +tool +allowed", stage.text()))
        await stage.pilot.resize_terminal(120, 40)
        await stage.press("r")
        assert PRESS_AGAIN in stage.text()
        await stage.press("j", "r")  # another key in between takes it away
        assert len(await stage.api.grants()) == 1
        await stage.press("r", shows="Nothing is allowed")
        assert "ask again for peer/burn" in stage.text()
        assert await stage.api.grants() == ()
        await allow_burning(stage)
        assert stage.one(PickList).has_focus
        await stage.press("escape", "colon")
        await stage.enter("grants")
        await stage.until(lambda: stage.shows(GrantsDialog))


async def test_hostile_names_are_text_and_the_cursor_stays_at_its_place(tmp_path: Path) -> None:
    fake = FakeSwarm()
    names = (*HOSTILE, LONG)
    for number, name in enumerate(names, 1):
        fake.granted[number] = GrantView(number, name, name if number % 2 else "", name, START - number * MINUTE)
    async with cockpit_over(fake, tmp_path / "no.db", size=(80, 24)) as stage:
        await opened(stage, "7m ago")
        listed = stage.one(PickList)
        for number in range(1, len(names) + 1):
            assert listed.chosen == str(number)
            assert is_harmless(stage.text())
            await stage.press("r")
            assert PRESS_AGAIN in stage.text()
            await stage.press("j")
        assert Content.from_markup(stage.one(Vertical, ".box").border_subtitle or "").plain == "r revoke · esc back"
        listed.select("3")
        await stage.pilot.pause()
        await stage.press("r", "r", until=lambda: "3" not in listed.ids and listed.chosen == "4")
        assert "Zoea's own" in stage.text()
        assert stage.app._exception is None


async def test_errors_are_shown_below_the_rows_which_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeSwarm()
    for number in (1, 2):
        fake.granted[number] = GrantView(number, "miner", "reef", f"tool-{number}", START - MINUTE)

    async def gone(*_: object) -> tuple[GrantView, ...]:
        raise NoRunningSwarm("the running swarm went away", hint="Start one with `zoea run`.")

    async with cockpit_over(fake, tmp_path / "no.db") as stage:
        screen = await opened(stage, "tool-2")
        del fake.granted[1]  # at another front, and nobody told
        await stage.press("r", "r")
        await stage.until(lambda: "no grant 1 holds" in stage.text() and stage.one(PickList).ids == ["2"])
        monkeypatch.setattr(fake, "grants", gone)
        monkeypatch.setattr(fake, "revoke", gone)
        await stage.press("r", "r", shows="went away. Start one with `zoea run`.")
        assert "tool-2" in stage.text()
        await stage.press("escape")
        await opened(stage, "went away")
        assert "Nothing is allowed" not in stage.text()
        assert screen is not stage.screen
        assert [notice for notice in stage.notices if "There is no database" not in notice] == []


async def test_closing_the_dialog_does_not_cancel_a_revocation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeSwarm()
    fake.granted[1] = GrantView(1, "miner", "", "zoea_broadcast", START)
    may_go, real = asyncio.Event(), fake.revoke

    async def slow(grant_id: int) -> GrantView:
        await may_go.wait()
        return await real(grant_id)

    monkeypatch.setattr(fake, "revoke", slow)
    async with cockpit_over(fake, tmp_path / "no.db") as stage:
        screen = await opened(stage, "zoea_broadcast")
        await stage.press("r", "r", "r", "escape", until=lambda: not screen.is_attached)
        may_go.set()
        await stage.until(lambda: not fake.granted)
        assert [notice for notice in stage.notices if "There is no database" not in notice] == []


async def test_a_read_only_cockpit_shows_grants_and_revokes_none(tmp_path: Path) -> None:
    async with swarm(tmp_path, asks_when_told, settings=QUIET) as inner:
        await inner.commander.create("alpha", start=False)
        await inner.commander.send("alpha", "burn it")
        row = inner.commander.swarm.live_view.row(1)
        await inner.until(lambda: row.approvals)
        [asked] = await inner.commander.approvals()
        await inner.commander.answer(asked.id, ApprovalAnswer.TEMPLATE)
        api = ReadOnlySwarm.over(inner.path)
        async with cockpit_over(api, inner.path, is_owner=False, read_only_reason=REASON) as stage:
            await opened(stage, "burn")
            assert "read-only" in stage.text()
            assert "r revoke" not in stage.text()
            await stage.press("r", "r")
            assert PRESS_AGAIN not in stage.text()
            assert [notice for notice in stage.notices if "There is no database" not in notice] == []
        assert len(await inner.commander.grants()) == 1
