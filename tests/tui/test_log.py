"""The log over a real swarm: lines, search, following and the log file."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path

from tests.swarm.harness import Swarm, swarm
from tests.tui.cockpit import QUIET, START, Stage, answering, asks_when_told, cockpit, cockpit_over
from tests.tui.hostile_texts import HOSTILE, LONG, is_harmless
from zoea.model.enums import ApprovalAnswer, ErrorClass, MysisState
from zoea.model.errors import ProviderError
from zoea.model.request import Answer, ModelRequest
from zoea.store.writer_connection import WriterConnection
from zoea.tui.screens.base import CockpitScreen
from zoea.tui.screens.log import LogScreen
from zoea.tui.widgets.line_list import LineList, TextLines

MANY = 100_000 if os.environ.get("ZOEA_SOAK") else 20_000
"""Events of a large log: five times as many as lines are kept, or 25 times."""


async def open_log(stage: Stage) -> LineList:
    await stage.press("l")
    assert isinstance(stage.screen, LogScreen)
    lines = stage.screen.events
    await stage.until(lambda: not any(word in stage.text() for word in ("Reading…", "│ …")))
    await stage.pilot.pause()
    return lines


async def happen(inner: Swarm, count: int, *, kind: str = "hold.set") -> None:
    """So many events, written at once."""

    def op(conn: WriterConnection) -> None:
        for number in range(count):
            conn.execute(
                "INSERT INTO event(mysis_id, kind, data, created_at) VALUES (NULL, ?, ?, ?)",
                (kind, json.dumps({"reason": f"reason {number}"}), START + number),
            )

    await inner.store.write(op)


async def test_each_event_has_a_line_and_errors_are_highlighted(tmp_path: Path) -> None:
    def fails(request: ModelRequest) -> ProviderError:
        return ProviderError("401 no key", hint="Set the key, then press r.", kind=ErrorClass.AUTH)

    async with cockpit(tmp_path, fails, names=("alpha",), size=(80, 24)) as stage:
        await stage.api.send("alpha", "Mine the belt")
        await stage.until(lambda: stage.view().state == "errored")
        lines = await open_log(stage)
        await stage.until(lambda: "is errored" in stage.text())
        assert "you           → alpha: Mine the belt" in lines.plain
        assert "alpha         turn 1 begins" in lines.plain
        assert "turn failed" not in lines.plain  # the errored mysis tells it
        place = next(at for at in range(lines.count) if "is errored" in lines.text_of(at))
        assert "errored" in [role for _, role in stage.top(LogScreen).draw_event(place, 100)]
        error = stage.view().failure
        assert error is not None
        assert lines.text_of(place).count(error.title) == 1
        lines.show(lines.count, place=place)
        whole = stage.one(TextLines)
        await stage.until(lambda: "Set the key, then press r." in " ".join(whole.plain.split("\n")))
        assert whole.plain.startswith(f"is errored: {error.title}. 401 no key.")


async def test_a_question_in_the_log_says_what_is_asked(tmp_path: Path) -> None:
    async with cockpit(tmp_path, asks_when_told, names=("alpha",)) as stage:
        await stage.api.send("alpha", "burn it")
        await stage.until(lambda: stage.app.approvals.open)
        lines = await open_log(stage)
        await stage.until(lambda: "asks to run burn(" in lines.plain)
        await stage.api.answer(stage.app.approvals.open[0].id, ApprovalAnswer.ONCE)
        await stage.until(lambda: stage.view().turns == 1)
        await stage.until(lambda: "asks to run burn(" in lines.plain)


async def test_a_key_that_does_not_work_in_the_log_says_where_it_does(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=("alpha",)) as stage:
        await open_log(stage)
        for key in ("b", "n"):
            stage.notices.clear()
            await stage.press(key, until=lambda: bool(stage.notices))
            assert stage.notices[-1].endswith(": Not on this screen: esc goes back to the list, where it works"), key


async def test_no_cause_is_invented_for_a_failure_in_a_turn_that_continues(tmp_path: Path) -> None:
    def fails(request: ModelRequest) -> ProviderError | Answer:
        return ProviderError("busy", kind=ErrorClass.TRANSIENT) if not tried else Answer(text="done")

    tried: list[int] = []
    async with cockpit(tmp_path, fails, names=("alpha",)) as stage:
        await stage.api.send("alpha", "Mine the belt")

        def is_errored() -> bool:
            # Asked of the swarm itself: what the cockpit knows comes later, and time must not go on to the next try.
            if stage.swarm.commander.swarm.runner("alpha").mysis.state is MysisState.ERRORED:
                return True
            stage.clock.by(1.0)
            return False

        await stage.until(is_errored)
        lines = await open_log(stage)
        await stage.until(lambda: "busy" in lines.plain)
        tried.append(True)

        def goes_on() -> bool:
            stage.clock.by(1.0)
            return stage.view().state == "running"

        await stage.until(goes_on)
        await stage.press("escape", "l")
        lines = stage.one(LineList, "#events")
        await stage.until(lambda: "is errored" in lines.plain)
        assert "busy" not in lines.plain


async def test_new_lines_are_followed_at_the_end_and_counted_elsewhere(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(100, 24)) as stage:
        await happen(stage.swarm, 100)
        lines = await open_log(stage)
        assert lines.is_at_end
        known = lines.count
        await stage.api.hold(True, reason="lunch")
        await stage.until(lambda: lines.count > known and "on hold" in lines.text_of(known))
        assert lines.is_at_end
        await stage.press("g")
        before = lines.scroll_offset
        await stage.api.hold(False)
        await stage.until(lambda: "↓ 1 new" in stage.text())
        assert lines.scroll_offset == before
        await stage.press("f")
        await stage.until(lambda: "the hold is lifted" in stage.text() and "follows new lines" in stage.text())


async def test_a_filter_shows_only_what_says_the_words_also_of_what_comes_later(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await happen(stage.swarm, 5_000)
        lines = await open_log(stage)
        await stage.press("slash")
        await stage.write("reason 4999")
        await stage.until(lambda: lines.count == 1)
        assert "reason 4999" in stage.text()
        for reason in ("another", "REASON 4999 again"):
            await stage.swarm.store.write(partial(WriterConnection.emit, kind="hold.set", mysis_id=None, reason=reason))
        await stage.until(lambda: lines.count == 2)
        await stage.press("escape", until=lambda: lines.count > 5_000)
        assert isinstance(stage.screen, LogScreen)
        await stage.press("escape")
        assert not isinstance(stage.screen, LogScreen)


async def test_the_lines_of_requests_are_shown_on_demand_and_followed(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=("alpha",)) as stage:
        await stage.api.send("alpha", "Mine the belt")
        await stage.until(lambda: stage.view().turns == 1)
        lines = await open_log(stage)
        assert "Preparing context" not in lines.plain
        events = lines.count
        await stage.press("v", until=lambda: lines.count == events + 3)
        await stage.until(lambda: "alpha         Preparing context (" in lines.plain and "Budget used: " in lines.plain)
        place = next(at for at in range(lines.count) if "Preparing context" in lines.text_of(at))
        lines.show(lines.count, place=place)
        await stage.until(lambda: "Request 1, in turn 1, holds " in " ".join(stage.one(TextLines).plain.split()))
        await stage.press("slash")
        await stage.write("preparing")
        await stage.until(lambda: lines.count == 1)
        await stage.api.send("alpha", "Go on")
        await stage.until(lambda: lines.count == 2)
        await stage.press("escape", until=lambda: lines.count > events + 3)
        await stage.press("v", until=lambda: lines.count > events and "Budget used" not in lines.plain)


async def test_a_large_log_opens_and_scrolls_at_once(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await happen(stage.swarm, MANY)
        began = time.process_time()  # what else the machine has to do counts for nothing
        lines = await open_log(stage)
        assert time.process_time() - began < (3 if MANY > 20_000 else 1)
        assert lines.count >= MANY
        await stage.press("g")
        await stage.until(
            lambda: "you           say" in stage.text() or "is back" in stage.text() or "reason 1" in stage.text()
        )
        for _ in range(20):
            await stage.press("pagedown")
        await stage.until(lambda: "…  " not in stage.text())
        assert len(stage.top(LogScreen).kept_lines) <= 4_000


async def test_the_log_file_is_shown_as_another_part(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        log = stage.swarm.path.with_name("zoea.log")
        log.write_text("2026-01-01 ERROR zoea.x: bad [/] \x1b[2J\n2026-01-01 INFO zoea.y: fine\n", encoding="utf-8")
        await open_log(stage)
        await stage.press("shift+tab", shows="zoea.y: fine")
        assert "bad [/]" in stage.text()
        assert is_harmless(stage.text())
        with log.open("a", encoding="utf-8") as file:
            file.write("2026-01-01 WARNING zoea.z: " + "w" * 500 + "\n")
        stage.top(CockpitScreen).tick()
        await stage.until(lambda: "wwwww" in stage.text())


async def test_hostile_text_is_shown_as_it_is(tmp_path: Path) -> None:
    async with swarm(tmp_path, answering("ok"), settings=QUIET) as inner:
        await inner.commander.create("alpha", start=False)
        for text in (*HOSTILE, LONG[:150_000]):
            await inner.commander.send("alpha", text)
        for size in ((80, 30), (200, 60)):
            async with cockpit_over(inner.api, inner.path, clock=inner.clock, inner=inner, size=size) as stage:
                await open_log(stage)
                await stage.until(lambda: "xxxx" in stage.text())
                assert is_harmless(stage.text())
                await stage.press("g", shows="list[int]")
                assert is_harmless(stage.text())
