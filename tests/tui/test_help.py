"""Help: every action, found by typing, with its key and the reason against it."""

from __future__ import annotations

import os
from pathlib import Path

from textual.events import Paste
from textual.screen import Screen
from textual.widgets import Input

from tests.tui.cockpit import Stage, cockpit, take_steps
from tests.tui.hostile_texts import HOSTILE, is_harmless
from zoea.model.status import MEANINGS
from zoea.tui.commands.action import ActionPlace
from zoea.tui.commands.actions import ACTIONS, BY_ID
from zoea.tui.commands.keymap import FIXED_KEYS
from zoea.tui.dialogs.quit import QuitDialog
from zoea.tui.screens.base import BaseScreen, CockpitScreen
from zoea.tui.screens.charts import ChartsScreen
from zoea.tui.screens.help import BEFORE, PLACE_TITLES, SYNONYMS, WORDS, HelpScreen
from zoea.tui.widgets.line_list import PickList
from zoea.tui.widgets.status_bars import KeyFooter, key_name


async def open_help(stage: Stage) -> PickList:
    await stage.press("question_mark")
    assert isinstance(stage.screen, HelpScreen)
    return stage.one(PickList)


async def every_action_is_listed_with_those_of_the_screen_first(stage: Stage) -> None:
    lines = await open_help(stage)
    assert set(lines.ids) == {action.id for action in ACTIONS}
    assert lines.plain.startswith("ON THE DASHBOARD")
    assert "the next delivery mode" in lines.plain


async def test_typing_finds_actions_by_description_and_key(tmp_path: Path) -> None:
    async with cockpit(tmp_path, keymap={"swarm.hold": "f6"}) as stage:
        lines = await open_help(stage)
        await stage.write("stop every")
        assert lines.ids == ["swarm.stop-all"]
        await stage.press("escape")
        await stage.write("f6")
        assert lines.ids == ["swarm.hold"]
        assert "f6" in stage.text()


async def typing_finds_actions_by_the_words_that_people_use(stage: Stage) -> None:
    assert set(SYNONYMS) <= set(BY_ID)
    lines = await open_help(stage)
    for words, action in (
        ("remap", "screen.settings"),
        ("quit", "app.quit"),
        ("exit", "app.quit"),
        ("undo", "mysis.undo"),
        ("kill", "mysis.stop"),
        ("kill all", "swarm.stop-all"),
        ("copy", "focus.copy"),
        ("diff", "mysis.result"),
        ("reject", "approval.deny"),
    ):
        await stage.write(words)
        assert stage.one(Input).value == words
        assert action in lines.ids, words
        await stage.press("escape")


async def the_words_of_zoea_are_explained_and_found_by_typing(stage: Stage) -> None:
    lines = await open_help(stage)
    assert "WORDS OF ZOEA" in lines.plain
    await stage.write("tools to the myses")
    assert "upstream" in lines.plain
    assert "a server (MCP) that offers tools to the myses" in lines.plain


async def an_impossible_action_says_why(stage: Stage) -> None:
    lines = await open_help(stage)
    shown = lines.plain.splitlines()
    undo = next(
        at for at, line in enumerate(shown) if line.endswith("Undo the last delete, stop, relaunch, pause or fork")
    )
    assert shown[undo + 1].strip() == "not now: there is nothing to undo"
    assert "IN A CONVERSATION  not on this screen" in lines.plain
    await stage.enter("undo")
    assert isinstance(stage.screen, HelpScreen)
    assert "undo: There is nothing to undo" in stage.notices


async def test_a_long_description_is_shown_in_full(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(80, 24)) as stage:
        lines = await open_help(stage)
        await stage.write("focus.keep")
        assert not lines.is_cut
        words = " ".join(line.strip("│ ") for line in stage.text().splitlines() if "│" in line).split()
        assert BY_ID["focus.keep"].description in " ".join(words)
        assert " ".join(words).count(BY_ID["focus.keep"].description) == 1


async def an_action_that_the_screen_below_does_not_have_says_so(stage: Stage) -> None:
    await stage.press("C", shows=ChartsScreen)
    lines = await open_help(stage)
    await stage.write("find")
    shown = lines.plain.splitlines()
    assert shown[next(at for at, line in enumerate(shown) if " find " in line) + 1].strip() == "not on this screen"


async def enter_runs_the_action_on_the_screen_below(stage: Stage) -> None:
    await open_help(stage)
    await stage.enter("mark all")
    await stage.until(lambda: len(stage.app.marks) == 3)
    assert not isinstance(stage.screen, HelpScreen)


async def a_second_click_on_a_line_runs_it(stage: Stage) -> None:
    lines = await open_help(stage)
    await stage.write("mark all")
    await stage.pilot.click(PickList, offset=(10, lines.gutter.top + 1), times=2)
    await stage.until(lambda: len(stage.app.marks) == 3)


async def esc_empties_the_search_then_leaves(stage: Stage) -> None:
    await open_help(stage)
    await stage.write("hold")
    assert " esc clear " in stage.one(KeyFooter).text
    await stage.press("escape")
    assert stage.one(Input).value == ""
    assert isinstance(stage.screen, HelpScreen)
    assert " esc back " in stage.one(KeyFooter).text
    await stage.press("escape")
    assert not isinstance(stage.screen, HelpScreen)


async def arrows_move_while_the_search_has_the_focus(stage: Stage) -> None:
    lines = await open_help(stage)
    first = lines.chosen
    await stage.press("down", "up", "pagedown", "pageup")
    assert lines.chosen == first
    await stage.press("down")
    assert lines.chosen == lines.ids[1]


async def hostile_words_that_are_pasted_find_nothing_and_harm_nothing(stage: Stage) -> None:
    await open_help(stage)
    for text in HOSTILE:
        stage.one(Input).value = ""
        await stage.app.on_event(Paste(text))
        await stage.until(lambda: stage.one(Input).value)
        await stage.pilot.pause()
        assert is_harmless(stage.text())
    assert "No action matches" in stage.text()


async def test_help_lists_finds_and_runs_actions(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await take_steps(
            stage,
            every_action_is_listed_with_those_of_the_screen_first,
            typing_finds_actions_by_the_words_that_people_use,
            the_words_of_zoea_are_explained_and_found_by_typing,
            an_impossible_action_says_why,
            an_action_that_the_screen_below_does_not_have_says_so,
            enter_runs_the_action_on_the_screen_below,
            a_second_click_on_a_line_runs_it,
            esc_empties_the_search_then_leaves,
            arrows_move_while_the_search_has_the_focus,
            hostile_words_that_are_pasted_find_nothing_and_harm_nothing,
        )


async def test_it_follows_the_theme(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(80, 24)) as stage:
        await open_help(stage)
        stage.app.use_theme("tide")
        await stage.pilot.pause()
        assert "ON THE DASHBOARD" in stage.text()


async def test_help_has_a_legend_of_every_status(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(120, 60)) as stage:
        lines = await open_help(stage)
        for status, meaning in MEANINGS.items():
            assert f"{stage.app.glyphs[str(status)]}  {status}" in lines.plain
            assert meaning in lines.plain


async def test_each_line_can_be_read_in_full_by_keys_in_a_small_terminal(tmp_path: Path) -> None:
    """Read all lines in the smaller terminal, which shows the fewest at once. At full strength, in the other too.

    The quick run reads in the other one what is left by words that no action matches.
    """
    async with cockpit(tmp_path, size=(80, 24)) as stage:
        for size in ((80, 24), (60, 16)):
            await stage.resize(*size)
            lines = await open_help(stage)
            said = " ".join(word for line in lines.plain.splitlines() for word in line[BEFORE:].split())
            fixed = [key.description for key in FIXED_KEYS]
            for description in (*MEANINGS.values(), *WORDS.values(), *(each.description for each in ACTIONS), *fixed):
                assert description in said, size
            is_whole = size == (60, 16) or bool(os.environ.get("ZOEA_SOAK"))
            if is_whole:
                await can_be_read(stage, lines)
            found = ("status", "a server", "queue")  # other lines above actions, below them, and no action at all
            for words in found if is_whole else found[-1:]:
                await stage.write(words)
                await can_be_read(stage, lines)
                await stage.press("escape")
            await stage.go_home()


async def can_be_read(stage: Stage, lines: PickList) -> None:
    """Go through a list by keys to each end, and expect each line in view."""
    assert stage.screen.region.contains_region(lines.region)
    for key in ("pagedown", "pageup"):
        seen, before = "", None
        while before != (lines.scroll_offset.y, lines.chosen):
            before = (lines.scroll_offset.y, lines.chosen)
            seen += "\n".join(line.text for line in lines.render_lines(lines.outer_size.region))
            await stage.press(key)
        assert [line for line in lines.plain.splitlines() if line.strip() not in seen] == [], key


WAYS: dict[ActionPlace, tuple[str, ...]] = {
    ActionPlace.DASHBOARD: (),
    ActionPlace.FOCUS: ("enter",),
    ActionPlace.INSPECTOR: ("i",),
    ActionPlace.HISTORY: ("h",),
    ActionPlace.REVIEW: ("f",),
    ActionPlace.SEARCH: ("ctrl+f",),
    ActionPlace.LOG: ("l",),
    ActionPlace.CHARTS: ("C",),
    ActionPlace.UPSTREAMS: ("u",),
    ActionPlace.SETTINGS: ("comma",),
    ActionPlace.WELCOME: ("f1",),
}
"""The keys that lead from the list to the screens."""
OF_THE_SYSTEM = "super+c"
"""No terminal sends it; Textual binds it to copying."""


def keys_in_force(screen: Screen[object]) -> set[str]:
    """Return the keys that do something on a screen where no text is written."""
    bound: set[str] = set()
    for widget in [None, *screen.focus_chain]:
        if not isinstance(widget, Input):
            screen.set_focus(widget)
            bound |= set(screen.active_bindings)
    return {key_name(key) for key in bound - {OF_THE_SYSTEM}}


def keys_of_help(lines: PickList, place: ActionPlace) -> set[str]:
    """The keys that help names for the screen of a place, and for every screen."""
    keys: set[str] = set()
    section = ""
    for line in lines.plain.splitlines():
        name = line.split("  not on this screen")[0]
        section = name if name in PLACE_TITLES.values() else "" if name.isupper() else section
        if section in (PLACE_TITLES[place], PLACE_TITLES[ActionPlace.EVERYWHERE]) and line[:BEFORE].strip():
            keys |= set(line.strip().split("  ")[0].split())
    return keys


async def test_the_help_of_every_screen_names_each_key_that_works_there(tmp_path: Path) -> None:
    async with cockpit(tmp_path, start=True) as stage:
        for place, keys in WAYS.items():
            await stage.press(*keys, until=lambda: isinstance(stage.screen, CockpitScreen))
            screen = stage.screen
            assert isinstance(screen, BaseScreen)
            assert screen.PLACE is place
            bound = keys_in_force(screen)
            stage.app.action_do("app.help")
            await stage.until(lambda: stage.shows(HelpScreen))
            assert bound - keys_of_help(stage.one(PickList), place) == set(), place
            await stage.go_home()


async def test_the_keys_to_quit_ask_as_help_says(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        lines = await open_help(stage)
        await stage.write("how to quit")
        assert next(line.split()[0] for line in lines.plain.splitlines() if line.startswith(" ")) == "^c"
        await stage.press("escape", "escape")
        await stage.press("m")
        await stage.press("ctrl+q", shows=QuitDialog)
        await stage.press("escape")
        await stage.go_home()
        await stage.press("ctrl+c")
        assert not isinstance(stage.screen, QuitDialog)
        await stage.press("ctrl+c", shows=QuitDialog)
        assert stage.app.is_running
