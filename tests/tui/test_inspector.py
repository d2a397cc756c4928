"""The inspector over a real swarm: requests as sent, packs and reasons."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.queries.test_request_inspection import ROOMY, comparable, send_prompts, working_model
from tests.swarm.harness import call, script, swarm
from tests.tui.cockpit import QUIET, Stage, answering, cockpit, cockpit_over, patched, take_steps_anew
from tests.tui.hostile_texts import HOSTILE, LONG, is_harmless
from zoea.model.request import Answer, ModelRequest
from zoea.settings.schema import Settings
from zoea.tui.screens.inspector import InspectorScreen
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.folding_list import FoldingList
from zoea.tui.widgets.line_list import LineList


async def open_inspector(stage: Stage) -> InspectorScreen:
    await stage.press("i")
    screen = stage.screen
    assert isinstance(screen, InspectorScreen)
    await stage.until(lambda: screen.inspection is not None)
    await stage.pilot.pause()
    return screen


async def test_every_request_shows_exactly_what_the_model_got_also_after_a_restart_with_other_settings(
    tmp_path: Path,
) -> None:
    sent: list[ModelRequest] = []
    async with swarm(tmp_path, working_model(), settings=Settings.model_validate(ROOMY)) as inner:
        await inner.commander.create("alpha")
        await send_prompts(inner, "Mine the belt", "Again [/] \x1b[2J")
        sent += inner.provider.requests
    other = Settings.model_validate(QUIET.model_dump() | {"context": {"context_window": 12_000, "keep_answer": False}})
    async with swarm(tmp_path, working_model(), settings=other) as inner:
        await inner.commander.start("alpha")
        await send_prompts(inner, "And once more")
        sent += inner.provider.requests
        async with cockpit_over(inner.api, inner.path, clock=inner.clock, inner=inner) as stage:
            await stage.until(lambda: stage.has("alpha"))
            screen = await open_inspector(stage)
            for request in reversed(sent):
                assert comparable(screen.sent) == comparable(request.messages)
                shown = screen.request
                await stage.press("left")
                await stage.until(lambda: screen.request != shown or request is sent[0])  # noqa: B023  waited for here
                await stage.until(lambda: screen.inspection is not None and screen.inspection.request == screen.request)


async def test_a_resize_of_a_screen_that_is_being_left_ends_nothing(tmp_path: Path) -> None:
    async with cockpit(tmp_path, working_model(), names=("alpha",), settings=Settings.model_validate(ROOMY)) as stage:
        await send_prompts(stage.swarm, "Mine the belt")
        screen = await open_inspector(stage)
        stage.app.pop_screen()
        while screen.is_running:
            screen.on_resize()
            await asyncio.sleep(0)
        assert not stage.shows(InspectorScreen)
        await stage.press("i")
        await stage.until(lambda: stage.shows(InspectorScreen))


async def test_packs_reasons_and_numbers_are_shown(tmp_path: Path) -> None:
    async with cockpit(tmp_path, working_model(), names=("alpha",), settings=Settings.model_validate(ROOMY)) as stage:
        await send_prompts(stage.swarm, "Mine the belt")
        screen = await open_inspector(stage)
        text = stage.text()
        for words in ("system", "always sent", "tools", "tokens", "estimated", "by the provider's count", "answered"):
            assert words in text, words
        await stage.press("left", shows="attempt 2")
        await stage.press("left", shows="failed: likely temporary")
        await stage.press("left", until=lambda: screen.request is not None and screen.request.iteration == 1)
        await stage.until(lambda: "answered with tool calls" in stage.text())


async def test_the_usual_faults_of_a_request_stand_below_its_parts_with_what_to_change(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering(), names=("alpha",), settings=QUIET) as stage:
        await send_prompts(stage.swarm, "Mine the belt")
        screen = await open_inspector(stage)
        assert "Troubleshooting" not in stage.text()
        await stage.press("escape")
    tight = Settings.model_validate(
        QUIET.model_dump() | {"budget": {"token_budget_per_agent": 4_000}, "tool": {"max_result_chars": 100_000}}
    )
    numbers = iter(range(100))

    def looks(_: ModelRequest) -> Answer:
        number = next(numbers)
        return Answer(calls=(call("look", f"{number}" * 4_000),)) if number < 5 else Answer(text="done")

    (tmp_path / "tight").mkdir()
    async with cockpit(tmp_path / "tight", looks, names=("alpha",), settings=tight) as stage:
        await send_prompts(stage.swarm, "Look around")
        screen = await open_inspector(stage)
        lines = ["".join(text for text, _ in line) for line in screen._packs]
        at = lines.index("Troubleshooting")
        assert any(line.startswith("truncated: ") for line in lines[at:])
        assert any(line.startswith("→ raise ") for line in lines[at:])


async def bracket_keys_move_from_turn_to_turn(stage: Stage) -> None:
    await send_prompts(stage.swarm, "one", "two", "three")
    screen = await open_inspector(stage)
    for key, turn in (("[", 2), ("[", 1), ("]", 2), ("]", 3)):
        await stage.press({"[": "left_square_bracket", "]": "right_square_bracket"}[key])
        await stage.until(lambda: screen.request is not None and screen.request.turn_number == turn)  # noqa: B023  waited for here
    await stage.press("right_square_bracket")
    await stage.until(lambda: any("no other turn" in notice for notice in stage.notices))


async def messages_unfold_and_the_tools_are_another_part(stage: Stage) -> None:
    await stage.resize(80, 24)
    long = "\n".join(f"line {number}" for number in range(50))
    await send_prompts(stage.swarm, long)
    screen = await open_inspector(stage)
    await stage.until(lambda: "PARTS · MESSAGES 2 · TOOLS 14 · TURNS 1   tab" in stage.text())
    assert stage.app.action_context().hidden
    await stage.press("v")
    assert "verbose: Press tab to go to the messages first" in stage.notices
    await stage.press("tab")
    assert screen.part == "messages"
    assert not stage.app.action_context().hidden
    messages = stage.one(FoldingList, "#messages")
    await stage.until(lambda: "line 0" in messages.plain)
    assert "line 40" not in messages.plain
    await stage.press("G", "enter", until=lambda: "line 49" in messages.plain)
    await stage.press("enter", until=lambda: "line 49" not in messages.plain)
    await stage.press("v", until=lambda: "line 49" in messages.plain)
    await stage.press("y")
    await stage.press("tab")
    assert screen.part == "tools"
    await stage.until(lambda: "zoea_search_messages" in stage.text())
    await stage.press("enter", until=lambda: '"properties"' in stage.one(FoldingList, "#tools").plain)
    await stage.press("enter", until=lambda: "properties" not in stage.one(FoldingList, "#tools").plain)
    await stage.press("G", "enter")  # what unfolds at the lower edge comes into view
    await stage.until(lambda: "properties" in stage.text())


async def a_plan_without_stored_details_says_so(stage: Stage) -> None:
    await send_prompts(stage.swarm, "one")
    with closing(sqlite3.connect(stage.swarm.path)) as connection, connection:
        connection.execute("UPDATE request SET plan = NULL")
    await open_inspector(stage)
    assert "plans older than 200 requests are deleted" in " ".join(stage.one(LineList, "#packs").plain.split())


async def new_requests_are_counted_and_do_not_move_the_shown_one(stage: Stage) -> None:
    await stage.resize(200, 60)
    await send_prompts(stage.swarm, "one")
    screen = await open_inspector(stage)
    shown = screen.request
    await send_prompts(stage.swarm, "two")
    await stage.until(lambda: screen.is_outdated or "1 newer" in stage.text())  # its own tick may come first
    screen.tick()
    await stage.until(lambda: "1 newer" in stage.text())
    assert screen.request == shown
    assert stage.one(LineList, "#requests").count == 2
    await stage.press("right", until=lambda: screen.request is not None and screen.request.turn_number == 2)


async def test_a_mysis_without_requests_says_so(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=("alpha",)) as stage:
        await stage.press("i", until=lambda: stage.text().count("No request yet") >= 3)
        await stage.press("left", "right", "left_square_bracket", "enter", "v", "y", "escape")
        assert not isinstance(stage.screen, InspectorScreen)


async def test_hostile_text_is_shown_as_it_is(tmp_path: Path) -> None:
    replies = [Answer(text=text, reasoning=text) for text in HOSTILE]
    settings = Settings.model_validate(
        ROOMY | {"context": {"context_window": 1_000_000}, "budget": {"token_budget_per_agent": 200_000}}
    )
    async with swarm(tmp_path, script(*replies), settings=settings) as inner:
        await inner.commander.create("alpha")
        await send_prompts(inner, *HOSTILE, LONG[:300_000])
        for size in ((80, 24), (200, 60)):
            async with cockpit_over(inner.api, inner.path, clock=inner.clock, inner=inner, size=size) as stage:
                await stage.until(lambda: stage.has("alpha"))
                screen = await open_inspector(stage)
                await stage.press("tab", "v")
                for _ in range(len(HOSTILE) + 1):
                    await stage.pilot.pause()
                    assert is_harmless(stage.text())
                    await stage.press("left", "pagedown")
                assert screen.sent


@patched
async def it_opens_at_a_request_and_reads_on_in_both_directions(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage.resize(200, 60)
    monkeypatch.setattr("zoea.tui.screens.inspector.PAGE", 2)
    first = (await stage.swarm.value("SELECT coalesce(max(id), 0) FROM request")) + 1
    await send_prompts(stage.swarm, "one", "two", "three", "four", "five")
    screen = InspectorScreen(stage.view().id, request_id=first + 2)
    await stage.app.push_screen(screen)
    for key, place in (("", 2), ("right", 3), ("left", 2), ("left", 1), ("left", 0), ("left", 0)):
        await stage.press(*([key] if key else []))
        await stage.until(lambda: screen.inspection is not None and screen.inspection.request.id == first + place)  # noqa: B023  waited for here
    await stage.press("y")
    assert screen.build_copy().startswith(f"alpha, request {first}\n")


async def a_damaged_plan_is_reported(stage: Stage) -> None:
    await send_prompts(stage.swarm, "one", "two")
    screen = await open_inspector(stage)
    with closing(sqlite3.connect(stage.swarm.path)) as connection, connection:
        connection.execute("UPDATE request SET plan = x'00' WHERE id = (SELECT max(id) - 1 FROM request)")
    await stage.press("left", until=lambda: any("cannot be read" in notice for notice in stage.notices))
    assert screen.is_mounted


async def test_the_head_takes_the_form_of_the_width_when_the_terminal_grows(tmp_path: Path) -> None:
    settings = Settings.model_validate(ROOMY)
    async with cockpit(tmp_path, answering(), names=("alpha",), settings=settings, size=(80, 24)) as stage:
        await send_prompts(stage.swarm, "Mine the belt")
        screen = await open_inspector(stage)

        def head() -> list[str]:
            return screen.query_one("#head", TextBlock).plain.splitlines()

        assert len(head()) == 4, "the name stands alone on a narrow screen"
        await stage.resize(120, 40)
        await stage.until(lambda: len(head()) == 3)
        assert "alpha" in head()[0]
        assert "answered" in head()[0]
        await stage.resize(80, 24)
        await stage.until(lambda: len(head()) == 4)


async def test_requests_are_read_one_after_the_other(tmp_path: Path) -> None:
    await take_steps_anew(
        tmp_path,
        bracket_keys_move_from_turn_to_turn,
        messages_unfold_and_the_tools_are_another_part,
        a_plan_without_stored_details_says_so,
        new_requests_are_counted_and_do_not_move_the_shown_one,
        it_opens_at_a_request_and_reads_on_in_both_directions,
        a_damaged_plan_is_reported,
        rules=answering("yes"),
        names=("alpha",),
    )
