"""The welcome screen: models and keys found on this machine, and the ways to start."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import structs
from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Vertical

from zoea.model.errors import SettingsError, ZoeaError
from zoea.runtime.run_options import StartOptions
from zoea.settings.key_paths import SettingsInvalid
from zoea.settings.paths import absolute_path
from zoea.text.control_characters import one_line
from zoea.tui.commands.action import ActionContext, ActionPlace, Handlers
from zoea.tui.commands.actions import BY_ID
from zoea.tui.screens.base import CockpitScreen
from zoea.tui.state.deferred_work import DeferredWork, WorkQueue
from zoea.tui.state.worktree_access import find_repository
from zoea.tui.text_layout import fit_text
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.line_list import PickItem, PickList
from zoea.tui.widgets.status_bars import key_name

if TYPE_CHECKING:
    from zoea.llm.discovery import ProbeResult
    from zoea.runtime.model_discovery import ModelSources

SANDBOX_MYSES = 5
TITLE_WIDTH = 18
_OTHER_LINES, _LEAST_LINES = 7, 4
"""Lines of the bars and texts around the list of ways, and those that it gets at least."""
HERE = ("welcome.repository", "Agents change {folder}, each in a worktree: you merge or drop")
"""The first way where Zoea was started in a git repository."""
WAYS = (
    ("welcome.sandbox", "Five agents mine in a small world: no model, no cost"),
    ("welcome.connect", "Use your own model server, or a vendor's with your key"),
    ("welcome.new", "Give one agent a name, a task and a model"),
    ("app.help", "Show every key and its action"),
)


class WelcomeScreen(CockpitScreen[None]):
    """Helps to choose a model for the first mysis, and closes once there is one."""

    CSS_PATH = "welcome.tcss"
    PLACE = ActionPlace.WELCOME
    LEADS_BACK: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self._around: ModelSources | None = None
        self._servers: list[ProbeResult] = []
        self._is_discovering = True
        self._problem = ""
        self._doing = ""
        self._had_none = False
        self._connected_to = ""
        self._repository = find_repository(str(absolute_path("")))

    @cached_property
    def _beginnings(self) -> WorkQueue:
        return WorkQueue(self.cockpit.start_work)

    def bind_actions(self) -> Handlers:
        return {
            "welcome.sandbox": self._begin_sandbox,
            "welcome.connect": lambda: self._open_form(None),
            "welcome.repository": lambda: self._create_mysis(self.cockpit.new_myses, str(self._repository)),
            "welcome.new": lambda: self._create_mysis(self.cockpit.new_myses),
        }

    def action_context(self) -> ActionContext:
        return structs.replace(super().action_context(), has_repository=self._repository is not None)

    def compose_body(self) -> ComposeResult:
        with Vertical(id="middle"):
            yield TextBlock(id="title")
            yield PickList(id="ways", classes="panel", title="BEGIN")
            yield TextBlock(id="doing")

    def on_mount(self) -> None:
        self._had_none = not self.cockpit.feed.myses
        self.ways.focus()
        self._draw()
        self.run_worker(DeferredWork(self._discover), exclusive=True, group="look")

    ways = getters.query_one(PickList)

    # Discovery.

    async def _discover(self) -> None:
        """Look for models in a worker, and show each as it is found."""
        found = await asyncio.to_thread(_import_discovery)
        try:
            around: ModelSources = await asyncio.to_thread(found.read_model_sources, self.cockpit.places)
        except SettingsError as error:
            problems = error.problems if isinstance(error, SettingsInvalid) else ()
            self._problem = "; ".join(f"{one.key}: {one.message}" for one in problems) or error.what
            self._is_discovering = False
            self._draw()
            return
        self._around = around
        self._draw()
        ports = self.cockpit.discovery_ports
        more = () if ports is None else (ports,)
        async for server in found.find_servers(around.loaded, *more):
            self._servers.append(server)
            self._draw()
        self._is_discovering = False
        self._draw()

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        glyphs, cockpit = self.cockpit.glyphs, self.cockpit
        brand = f"{glyphs['brand']}  Z  O  E  A  {glyphs['brand-full']}"
        is_empty = bool(self._doing) or not cockpit.feed.myses
        if not is_empty and self._connected_to:
            name = one_line(self._connected_to)
            said = f"{name} is connected. Myses that name no provider use it from their next turn on; esc shows them."
        elif not is_empty:
            said = "There are myses already: esc shows them."
        elif self._connected_to:
            key = key_name(cockpit.keys["welcome.new"])
            said = f"{one_line(self._connected_to)} is connected. Next: {key} creates a mysis, which works with it."
        else:
            said = "There is no mysis yet. A mysis is an agent: a model that works on a task with tools."
        lines = [[(brand, "title")], [(said, "quiet")]]
        given = cockpit.new_myses
        if given.provider:
            model = f" with {given.model}" if given.model else ""
            lines.append([(f"New myses use {one_line(given.provider + model)}.", "quiet")])
        self.query_one("#title", TextBlock).put(lines)
        context = self.action_context()
        ways: tuple[tuple[str, str], ...] = WAYS
        if (here := self._repository) is not None:
            ways = ((HERE[0], HERE[1].format(folder=one_line(here.name))), *WAYS)
        choices = [self._way(action_id, text, BY_ID[action_id].why_not(context)) for action_id, text in ways]
        self.ways.put([*choices, PickItem(), PickItem((("FOUND HERE", "title"),)), *self._found()])
        self._draw_foot()

    @on(PickList.Moved)
    def _draw_foot(self) -> None:
        """Show the current step, or the full text of the chosen line if cut."""
        ways, foot = self.ways, self.query_one("#doing", TextBlock)
        if self._doing or not ways.is_cut:
            foot.put([[(self._doing, "waiting")]] if self._doing else [])
        else:
            foot.put([[(ways.chosen_text, "quiet")]])

    def on_resize(self) -> None:
        self.ways.styles.max_height = max(_LEAST_LINES, self.size.height - _OTHER_LINES)
        self.call_after_refresh(self._draw)

    def _way(self, action_id: str, text: str, why: str) -> PickItem:
        action = BY_ID[action_id]
        key = self.cockpit.key(action_id)
        pieces = (
            (f" {fit_text(key, 4)}", "quiet" if why else "key"),
            (fit_text(action.title, TITLE_WIDTH), "quiet" if why else "strong"),
            (why or text, "quiet" if why else ""),
        )
        return PickItem(pieces, action_id)

    def _found(self) -> list[PickItem]:
        lines: list[PickItem] = []
        around = self._around
        if self._problem:
            lines.append(_line("!", "settings", self._problem, role="errored"))
        for place, server in enumerate(self._servers):
            lines.append(self._server(server, f"server:{place}"))
        if around is not None:
            for name, kind, model in around.providers:
                lines.append(
                    _line(self._dot(), name, f"{kind}{f', {model}' if model else ''}: set up in your settings")
                )
            for name in around.local:
                words = "on this machine; enter creates a mysis with it"
                lines.append(_line(self._dot(), name, words, id=f"local:{name}"))
            for key in around.keys:
                words = f"{key.variable} is set; enter connects it"
                lines.append(_line(self._dot(), key.title, words, id=f"key:{key.variable}"))
            for provider, title in around.agents:
                words = "your agent; enter creates a mysis that it plays"
                lines.append(_line(self._dot(), title, words, id=provider))
        if self._is_discovering:
            lines.append(_line(" ", "looking…", "for model servers on this machine", role="quiet"))
        elif not self._servers and around is not None:
            where = (
                "none found on this machine"
                if around.loaded.settings.swarm.discover
                else "not searched: the setting swarm.discover is off"
            )
            lines.append(_line(" ", "model servers", where, role="quiet"))
        if around is not None and not around.agents:
            words = "none on your PATH; `zoea agents list` names them"
            lines.append(_line(" ", "agents", words, role="quiet"))
        lines.append(_line(self._dot(), "autopilot", "built in: plays the sandbox by fixed rules, at no cost"))
        if around is not None:
            words = str(around.config) if around.config else "no settings file: all defaults apply"
            lines.append(_line(self._dot() if around.config else " ", "config.toml", words, role="quiet"))
        return lines

    def _dot(self) -> str:
        return self.cockpit.glyphs["running"]

    def _server(self, server: ProbeResult, id: str) -> PickItem:
        if not server.is_usable:
            return _line(" ", server.name, f"{server.address}: {server.status}", role="quiet", id=id)
        names = [model.name for model in server.models or ()]
        more = f" and {len(names) - 2} more" if len(names) > 2 else ""
        return _line(self._dot(), server.name, f"has {', '.join(names[:2])}{more}; enter connects it", id=id)

    # News.

    def feed_changed(self, ids: frozenset[int]) -> None:
        super().feed_changed(ids)
        if not self.is_mounted:
            return
        if self._had_none and self.cockpit.feed.myses and not self._doing and self.is_active:
            self.cockpit.pop_screen()
        else:
            self._draw()

    def on_screen_resume(self) -> None:
        if self._had_none and self.cockpit.feed.myses and not self._doing:
            self.call_after_refresh(self._leave)

    def _leave(self) -> None:
        if self.is_active:
            self.cockpit.pop_screen()

    # Ways to start.

    def on_pick_list_chosen(self, event: PickList.Chosen) -> None:
        if event.id in BY_ID:
            self.cockpit.action_do(event.id)
        elif event.id.startswith("key:"):
            variable = event.id.removeprefix("key:")
            for key in self._around.keys if self._around is not None else ():
                if key.variable == variable:
                    self._connect(key.title, key.type, key.base_url, "", f"env:{variable}")
        elif event.id.startswith("local:"):
            self._create_mysis(StartOptions(provider="embedded", model=event.id.removeprefix("local:")))
        elif event.id.startswith("agent:"):
            self._create_mysis(StartOptions(provider=event.id), str(self._repository or ""))
        elif event.id.startswith("server:"):
            server = self._servers[int(event.id.removeprefix("server:"))]
            self._connect(server.name, server.type, server.address, next((one.name for one in server.models or ()), ""))

    def _create_mysis(self, given: StartOptions, on: str = "") -> None:
        from zoea.tui.dialogs.new_mysis import NewMysisDialog

        self.cockpit.push_screen(NewMysisDialog(given, on))

    def _connect(self, title: str, type: str, address: str, model: str, key: str = "") -> None:
        """Open the form with a found server or key."""
        from zoea.runtime.model_discovery import ModelConnection

        self._open_form(
            ModelConnection(re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "model", type, address, model, key)
        )

    def _open_form(self, given: Any) -> None:
        from zoea.tui.dialogs.connect import ConnectDialog

        self.cockpit.push_screen(
            ConnectDialog(given), lambda name: self._beginnings.put(lambda: self._use(name)) if name else None
        )

    async def _use(self, name: str) -> None:
        """Reopen an empty own swarm with the new settings. Let any other one read them."""
        cockpit = self.cockpit
        opened = cockpit.opened
        if opened is not None and opened.is_owner and not cockpit.feed.myses:
            if await self._reopened("reading the new settings…", None):
                cockpit.settings_watch.mark_applied()
                self._use_for_new_myses(name)
        else:
            try:
                await cockpit.api.reload()
            except ZoeaError as error:
                cockpit.show_error(error)
                cockpit.notify(f"{name} is in your settings; it applies when the swarm is opened again", markup=False)
            else:
                self._use_for_new_myses(name)
        self._servers.clear()
        if not self.is_attached:
            return
        self._is_discovering = True
        self.run_worker(DeferredWork(self._discover), exclusive=True, group="look")

    def _use_for_new_myses(self, name: str) -> None:
        """Let new myses use the connected model instead of that of the command line."""
        self._connected_to = name
        if self.is_attached:
            self.ways.select("welcome.new")
        self.cockpit.new_myses = replace(self.cockpit.new_myses, provider="", model="")

    def _begin_sandbox(self) -> None:
        if not self._doing:
            self._say("opening Reef…")
            self._beginnings.put(self._open_sandbox)

    async def _open_sandbox(self) -> None:
        """Open the swarm with the sandbox world, create the miners and start them."""
        cockpit = self.cockpit
        if not await self._reopened("opening Reef…", cockpit.sandbox_opener):
            return
        self._say("creating five miners…")
        try:
            for _ in range(SANDBOX_MYSES):
                await cockpit.api.create("", template="miner", provider="autopilot", start=False)
            await cockpit.api.start_all()
        except ZoeaError as error:
            cockpit.show_error(error)
        if self.is_active and cockpit.feed.myses:
            cockpit.pop_screen()
        self._say("")

    async def _reopened(self, doing: str, opener: Any) -> bool:
        self._say(doing)
        try:
            await self.cockpit.connection.reopen(opener)
        except ZoeaError as error:
            self._say("")
            self.cockpit.show_error(error)
            return False
        if opener is None:
            self._say("")
        return True

    def _say(self, text: str) -> None:
        self._doing = text
        if self.is_attached:
            self._draw()


def _import_discovery() -> Any:
    """Import the model discovery in a thread, because that blocks too long."""
    from zoea.runtime import model_discovery as found

    return found


def _line(mark: str, title: str, text: str, *, role: str = "", id: str = "") -> PickItem:
    shown_mark = "errored" if role == "errored" else "running"
    return PickItem(
        (
            (f" {fit_text(mark, 1)}   ", shown_mark),
            (f"{fit_text(one_line(title), TITLE_WIDTH - 1)} ", role or "strong"),
            (one_line(text), role),
        ),
        id,
    )
