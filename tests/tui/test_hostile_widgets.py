"""Hostile text goes through every widget and screen there is: a new one fails this test until it has been through it.

The mark stands between hidden characters, within what a terminal takes as a title or an invisible text: a widget that
leaves out any of it never shows the mark.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.types import ToolAnnotations
from msgspec.structs import replace
from rich.cells import cell_len
from textual import events
from textual.widget import Widget

from tests.swarm.harness import call, plain, swarm
from tests.tui.cockpit import QUIET, Stage, cockpit_over
from tests.tui.hostile_texts import HOSTILE, is_harmless
from zoea.model.enums import Role
from zoea.model.errors import StoreError
from zoea.model.request import Answer, ModelRequest
from zoea.tools import UpstreamConfig
from zoea.tui import commands, dialogs, screens, widgets
from zoea.tui.dialogs.approvals import ApprovalDialog
from zoea.tui.dialogs.configure import ConfigureDialog
from zoea.tui.dialogs.modal import ConfirmDialog
from zoea.tui.dialogs.new_mysis import NewMysisDialog
from zoea.tui.dialogs.upstream_forms import ChangedArgumentsDialog
from zoea.tui.dialogs.workspace_held import WorkspaceHeldDialog
from zoea.tui.screens.base import BaseScreen
from zoea.tui.screens.inspector import InspectorScreen
from zoea.tui.widgets.clickable_text import TitledRule
from zoea.tui.widgets.context_panel import ContextPanel
from zoea.tui.widgets.conversation_view import ConversationView
from zoea.tui.widgets.inline_choice import InlineChoice
from zoea.tui.widgets.line_list import PickList
from zoea.tui.widgets.live_answer import LiveAnswer
from zoea.tui.widgets.long_text import FormText
from zoea.tui.widgets.message_prompt import LimitsInput, MessagePrompt
from zoea.tui.widgets.model_field import ModelField
from zoea.tui.widgets.status_bars import KeyFooter
from zoea.tui.widgets.task_text import FolderInput, TaskText

MARK = "list[int]"
BAD = " ".join((f"\x9d{MARK}\u202e\x9c", *HOSTILE[1:], HOSTILE[0].replace(MARK, "list")))
PRINTABLE = "".join(char for char in BAD if char.isprintable() and char not in '\\"')
SETTINGS = f'[provider.a]\ntype = "ollama"\nmodel = "{PRINTABLE}\\u001b[2J"\n'

FROM_THE_REGISTRY = {KeyFooter, TitledRule}
"""They show actions, keys and titles of the program alone, and nothing that anybody else said."""


ELSEWHERE = {
    "AnswerDialog": "test_history.py",
    "ComparisonScreen": "test_history.py",
    "ConnectDialog": "test_welcome.py",
    "RefusedKeyDialog": "test_welcome.py",
    "ResultScreen": "test_focus.py",
    "ReviewScreen": "test_review.py",
    "TryToolDialog": "test_upstreams.py",
    "WelcomeScreen": "test_welcome.py",
}
"""Screens that open on other occasions, with the test that brings hostile texts to them or to their base."""
FROM_THE_PROGRAM = {"KeyCaptureDialog", "WorktreeCommitDialog"}
"""They show texts of the program alone."""


MOVES = ("down", "tab")
KEYS = (
    *("dollar_sign", "M", "A", "T", "C", "l", "question_mark", "ctrl+p", "ctrl+f", "q", "colon"),
    *("u n", "d", "enter e", "h a", "h f", "h r", "h n"),
)
"""Keys that open screens from the dashboard; all but those of `MOVES` open one."""


def all_screens() -> set[str]:
    """The names of every screen and dialog that is not the base of another."""
    found = set()
    for package in (screens, dialogs, commands):
        for each in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            things = vars(importlib.import_module(each.name)).values()
            found |= {thing for thing in things if isinstance(thing, type) and issubclass(thing, BaseScreen)}
    return {each.__name__ for each in found if not each.__subclasses__() or each.__name__ == "FocusScreen"}


def all_widgets() -> set[type[Widget]]:
    """Every widget class of the cockpit's own."""
    modules = [
        importlib.import_module(each.name) for each in pkgutil.iter_modules(widgets.__path__, "zoea.tui.widgets.")
    ]
    found = {thing for module in modules for thing in vars(module).values() if isinstance(thing, type)}
    return {thing for thing in found if issubclass(thing, Widget) and thing.__module__.startswith(widgets.__name__)}


def cells_of(line: str) -> list[str]:
    """Return one text for each cell; the second cell of a wide character is empty."""
    return [text for char in line for text in (char, *[""] * (cell_len(char) - 1))]


class Seen:
    """Which widgets have shown the mark so far."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.kinds: set[type[Widget]] = set()
        self.screens: set[str] = set()

    def look(self) -> bool:
        """Look at every widget of the screen on top. Always true, so that it can be waited with."""
        text = self._stage.text()
        assert is_harmless(text)
        self.screens.add(type(self._stage.screen).__name__)
        marked = {y: cells_of(line) for y, line in enumerate(text.splitlines()) if MARK in line}
        for widget in self._stage.screen.walk_children(Widget) if marked else ():
            if ALL.isdisjoint(type(widget).__mro__) or self.kinds.issuperset(ALL.intersection(type(widget).__mro__)):
                continue
            left, top, width, height = widget.region
            if any(MARK in "".join(marked[y][left : left + width]) for y in marked if top <= y < top + height):
                self.kinds |= ALL.intersection(type(widget).__mro__)
        return True

    async def until(self, *kinds: type[Widget]) -> None:
        await self._stage.until(lambda: self.look() and self.kinds >= set(kinds))


ALL = all_widgets()


async def paste(stage: Stage, text: str) -> None:
    stage.app.post_message(events.Paste(text))
    await stage.pilot.pause()


def hostile_model(request: ModelRequest) -> Answer:
    """Ask for a destructive tool where it is told to burn. Else read the state and say all of it."""
    last = request.messages[-1]
    if plain(last.content).startswith("burn"):
        return Answer(text=BAD, reasoning=BAD, calls=(call("burn", BAD),))
    if last.role is Role.USER:
        return Answer(text=BAD, reasoning=BAD, calls=(call("get_state", BAD),))
    return Answer(text=BAD, reasoning=BAD)


def hostile_world() -> UpstreamConfig:
    """An MCP server whose state is what it was told."""
    server: MCPServer[Any] = MCPServer("world", log_level="ERROR")

    async def get_state(text: str) -> str:
        return json.dumps({text: text})

    server.add_tool(get_state, description=BAD, annotations=ToolAnnotations(read_only_hint=True))
    return UpstreamConfig("world", server=server)


async def test_every_widget_shows_hostile_text_unharmed(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "config.toml").write_text(SETTINGS, encoding="utf-8")
    async with swarm(tmp_path, hostile_model, settings=QUIET, upstreams=[hostile_world()]) as inner:
        for name in ("alpha", "beta"):
            await inner.commander.create(name)
        await inner.commander.broadcast(BAD)
        await inner.settled("alpha")
        await inner.settled("beta")
        await inner.commander.publish("news", BAD)
        block = inner.provider.block(after=12)
        await inner.commander.send("alpha", BAD)
        await inner.until(block.reached.is_set)
        await inner.commander.send("beta", f"burn {BAD}")
        async with cockpit_over(
            inner.api, inner.path, clock=inner.clock, inner=inner, size=(200, 60), config=config
        ) as stage:
            seen = Seen(stage)
            await stage.until(lambda: stage.app.approvals.open)
            assert stage.app.opened is not None
            stage.app.connection.opened = replace(stage.app.opened, workspace=f"{MARK} \x1b[2J [/]")
            stage.app.redraw_bars()
            await through_all(stage, seen)
            seen.look()
            await through_others(stage, seen)
            assert stage.app._exception is None
    missed_screens = all_screens() - seen.screens - FROM_THE_PROGRAM - ELSEWHERE.keys()
    assert not missed_screens, f"hostile text never went through {', '.join(sorted(missed_screens))}"
    missed = ALL - seen.kinds - FROM_THE_REGISTRY
    assert not missed, f"hostile text never went through {', '.join(sorted(each.__name__ for each in missed))}"


async def through_all(stage: Stage, seen: Seen) -> None:
    """Every screen whose widgets show what others said or what a person types."""
    await stage.until(lambda: MARK in stage.text())
    for key in ("slash", "m"):
        await stage.press(key)
        await paste(stage, BAD)
        seen.look()
        await stage.press("escape")
    await stage.press("m", "up", until=lambda: MARK in stage.one(MessagePrompt).text)
    seen.look()
    await stage.press("ctrl+c", "ctrl+l")
    await paste(stage, MARK)
    await seen.until(LimitsInput)
    await stage.press("ctrl+l", "escape", "escape", "g", "enter")
    await seen.until(LiveAnswer, ContextPanel, ConversationView)
    await stage.press("v", "slash")
    await paste(stage, MARK)
    seen.look()
    await stage.press("escape", "escape", "escape", "i")
    await stage.until(lambda: isinstance(stage.screen, InspectorScreen) and stage.screen.inspection is not None)
    await stage.press("tab", "v")
    seen.look()
    stage.app.notify(BAD, title="NOTICE", markup=False)
    await stage.until(lambda: "NOTICE" in stage.text())
    seen.look()
    await stage.press("escape", "o")
    await stage.until(lambda: isinstance(stage.screen, ApprovalDialog) and stage.screen.is_listening)
    seen.look()
    await stage.press("end", until=lambda: isinstance(stage.screen, ApprovalDialog) and stage.screen.is_read)
    await stage.press("e", shows=ChangedArgumentsDialog)
    seen.look()
    await stage.press("escape", "escape", "n")
    await stage.until(lambda: isinstance(stage.screen, NewMysisDialog) and not stage.screen.holds_keys)
    stage.one(TaskText).put(f"{MARK} [/] \x1b[2J")
    await seen.until(TaskText)
    await stage.press("tab")
    stage.one(InlineChoice, "#broadcast").action_step(1)
    await stage.until(lambda: "your broadcast of" in stage.text())
    seen.look()
    stage.one(ModelField).value = f"{MARK} [/] \x1b[2J"
    await seen.until(ModelField)
    stage.one(FolderInput).value = f"{MARK} [/] \x1b[2J"
    await seen.until(FolderInput)
    await stage.press("escape", "c")
    await stage.until(lambda: isinstance(stage.screen, ConfigureDialog) and not stage.screen.holds_keys)
    stage.one(FormText).put(f"{MARK} [/] \x1b[2J")
    await seen.until(FormText)
    await stage.press("escape", "comma", until=lambda: "model" in sections(stage).ids)
    stage.one(PickList, "#fields").select("provider.a.type")
    await seen.until(PickList)


async def through_others(stage: Stage, seen: Seen) -> None:
    """The screens and dialogs that show records of the swarm with widgets of others."""
    await stage.press("escape", "escape", "escape")
    for keys in KEYS:
        first = stage.screen
        for key in keys.split():
            before = stage.screen
            await stage.press(key)
            if key not in MOVES:
                await stage.until(lambda: stage.screen is not before)  # noqa: B023  waited for here
            for _ in range(3):
                await stage.pilot.pause()
            seen.look()
        while stage.screen is not first:
            await stage.press("escape")
    for dialog in (WorkspaceHeldDialog(StoreError(BAD, hint=BAD)), ConfirmDialog(BAD, [BAD], "go")):
        stage.app.push_screen(dialog)
        await stage.until(lambda: stage.shows(type(dialog)) and MARK in stage.text())  # noqa: B023  waited for here
        seen.look()
        stage.app.pop_screen()


def sections(stage: Stage) -> PickList:
    return stage.one(PickList, "#sections")
