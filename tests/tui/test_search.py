"""Search while typing, over the conversations of a real swarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.swarm.harness import call, script, swarm
from tests.tui.cockpit import QUIET, Stage, answering, cockpit, cockpit_over
from tests.tui.hostile_texts import HOSTILE, LONG, is_harmless
from zoea.model.request import Answer
from zoea.store.writer_connection import WriterConnection
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.screens.search import SearchScreen
from zoea.tui.widgets.line_list import LineList


async def open_search(stage: Stage, words: str = "") -> LineList:
    await stage.press("ctrl+f")
    assert isinstance(stage.screen, SearchScreen)
    if words:
        await search(stage, words)
    return stage.screen.hits


async def search(stage: Stage, words: str) -> None:
    """Type, and wait until the search for the whole text has ended."""
    await stage.write(words)
    screen = stage.screen
    await stage.until(lambda: all(each.is_finished for each in stage.app.workers if each.node is screen))


async def ask(stage: Stage, name: str, text: str) -> None:
    await stage.api.send(name, text)
    await stage.swarm.settled(name)


async def test_hits_of_all_myses_are_shown_while_the_words_are_typed(tmp_path: Path) -> None:
    model = script(Answer(reasoning="Maybe Osprey.", calls=(call("look", "belt-2"),)), Answer(text="The belt is rich"))
    async with cockpit(tmp_path, model, names=("alpha", "beta")) as stage:
        await ask(stage, "alpha", "Survey the belt")
        await ask(stage, "beta", "And the belt again")
        hits = await open_search(stage, "belt")
        await stage.until(lambda: hits.count >= 5)
        text = hits.plain
        assert "you: Survey the belt" in text
        assert "look →" in text
        assert "alpha" in text
        assert "beta" in text
        assert "found, newest first" in stage.text()
        assert any(("belt", "hit") in stage.top(SearchScreen).draw_hit(at, 100) for at in range(hits.count))
        await search(stage, " role:user @beta")
        assert hits.count == 1
        assert "And the belt again" in stage.text()


async def test_a_search_that_ended_early_says_how_far_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoea.store.search.memory_search.SCANNED", 2)
    async with cockpit(tmp_path, answering("be it so"), names=("alpha",)) as stage:
        for number in range(3):
            await ask(stage, "alpha", f"be number {number}")
        hits = await open_search(stage, "be")
        await stage.until(lambda: hits.count == 2)
        assert "2+ found, newest first · looked through the newest" in stage.text()


async def test_enter_opens_the_turn_with_the_hit_and_esc_comes_back_to_the_list_where_it_was(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering("the belt is rich"), names=("alpha",)) as stage:
        for number in range(3):
            await ask(stage, "alpha", f"belt number {number}")
        hits = await open_search(stage, "belt")
        await stage.until(lambda: hits.count == 6)
        await stage.press("down", "down", "down")
        assert hits.place == 3
        await stage.press("enter", shows=FocusScreen)
        await stage.until(lambda: "belt number 1" in stage.text())
        await stage.press("escape", shows=SearchScreen)
        assert hits.place == 3
        assert hits.count == 6
        await stage.press("escape")
        assert not isinstance(stage.screen, SearchScreen)


async def test_an_invalid_query_and_an_empty_result_are_reported(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=("alpha",)) as stage:
        hits = await open_search(stage)
        assert "since:2h" in hits.plain
        await stage.write("since:soon")
        await stage.until(lambda: "takes 2h" in stage.text())
        await stage.press(*["backspace"] * 10)
        await stage.write("zzz")
        await stage.until(lambda: "No match" in stage.text())
        await stage.press("enter")
        assert isinstance(stage.screen, SearchScreen)


async def test_more_than_a_page_is_cut_with_a_plus_and_read_on_at_its_end(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=("alpha",)) as stage:
        await ask(stage, "alpha", "begin")

        def op(conn: WriterConnection) -> None:
            for number in range(250):
                conn.execute(
                    "INSERT INTO memory(mysis_id, turn_id, seq, role, source, content, tokens, created_at)"
                    " VALUES (1, 1, ?, 'assistant', 'llm', ?, 1, 1)",
                    (100 + number, f"needle {number}"),
                )

        await stage.swarm.store.write(op)
        hits = await open_search(stage, "needle")
        await stage.until(lambda: hits.count == 100)
        assert "100+ found" in stage.text()
        for _ in range(20):
            await stage.press("pagedown")
        await stage.until(lambda: hits.count >= 200)
        for _ in range(20):
            await stage.press("pagedown")
        await stage.until(lambda: hits.count == 250)
        await stage.until(lambda: "250 found" in stage.text())


async def test_hostile_text_is_found_and_shown_as_it_is(tmp_path: Path) -> None:
    async with swarm(tmp_path, answering("ok"), settings=QUIET) as inner:
        await inner.commander.create("alpha")
        for text in (*HOSTILE, f"needle {LONG[:150_000]}"):
            await inner.commander.send("alpha", f"needle {text}")
        await inner.until(lambda: inner.commander.swarm.runner("alpha").life.pending == ())
        for size in ((80, 24), (200, 60)):
            async with cockpit_over(inner.api, inner.path, clock=inner.clock, inner=inner, size=size) as stage:
                hits = await open_search(stage, "needle")
                while hits.count < len(HOSTILE):
                    await stage.pilot.pause(0.01)
                assert "list[int]" in hits.plain
                for _ in range(hits.count):
                    await stage.press("down")
                    assert is_harmless(stage.text())
