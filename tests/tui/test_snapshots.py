"""Every screen equals its kept picture, at three sizes in dark and light themes.

All of it comes from one database that a scripted model played (`tests/tui/sample_swarm.py`).
`make snapshots` keeps what the screens show now; look at the pictures before committing them.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from tests.fakes.llm_clock import HandClock
from tests.fakes.swarm import FakeSwarm
from tests.swarm.harness import swarm
from tests.tui.cockpit import Stage, cockpit_over
from tests.tui.sample_swarm import MORNING, play_sample_swarm
from tests.tui.snapshots_on_disk import ACCEPTS, SnapshotStore, capture_screen, export_svg
from zoea.model.values import GrantView, McpView, ProviderView, ToolView, UpstreamView
from zoea.settings.paths import Places
from zoea.store.writer_connection import WriterConnection
from zoea.swarm import commit_capture
from zoea.swarm.persistence.stat_ops import MINUTE_US
from zoea.tui.app import TooSmallScreen
from zoea.tui.dialogs.approvals import ApprovalDialog
from zoea.tui.dialogs.configure import ConfigureDialog
from zoea.tui.dialogs.connect import ConnectDialog
from zoea.tui.dialogs.upstream_forms import TryToolDialog
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.screens.welcome import WelcomeScreen
from zoea.tui.state.swarm_connection import OpenSwarm
from zoea.tui.state.swarm_feed import SPARK_POINTS, SPARK_SECONDS, SwarmFeed
from zoea.tui.widgets.line_list import PickList

SIZES = ((80, 24), (120, 40), (200, 60))
THEMES = ("nova", "tide")
IS_THOROUGH = ACCEPTS or bool(os.environ.get("ZOEA_SOAK"))
PATIENCE_S = 30.0
_PRESSED = re.compile(r"app\.press\('([^']+)'\)")
LOOK_S = 0.1 if ACCEPTS else 0.02
STILL_S = 0.5

ONE_BELT = json.dumps(
    {
        "type": "object",
        "properties": {"belt": {"type": "string", "description": "Its name."}, "session_id": {"type": "string"}},
        "required": ["belt", "session_id"],
    }
)
TOOLS = (
    ToolView("scan", "Look for belts and stations around the ship.", "{}", read_only=True),
    ToolView("mine", "Take ore from a belt into the cargo.", ONE_BELT, injected=("session_id",)),
    ToolView("travel", "Set a course; the answer names the tick of arrival.", "{}"),
    ToolView("sell", "Sell from the cargo at the station you are docked at.", "{}", destructive=True),
    ToolView("get_status", "Your ship: where it is, fuel, hull, cargo.", "{}", read_only=True),
)
UPSTREAMS = (
    UpstreamView("reef", "stdio", "open", TOOLS, 3, 0, 12, 0, 3.2, 410.0, server="Reef 1.0"),
    UpstreamView("notes", "http", "lost", last_error="connection refused", errors=2),
)
PROVIDERS = (
    ProviderView("ollama", "ollama", "Ollama at 127.0.0.1:11434", 12.0, ("qwen3:8b", "llama3.2"), is_default=True),
    ProviderView(
        "openai",
        "openai",
        "OpenAI",
        problem="openai answered 401: the API key is not valid",
        hint="Enter a valid key: , settings, connect a model.",
    ),
)
GRANTS = (
    GrantView(1, "miner", "reef", "sell", MORNING - 3 * 3_600_000_000),
    GrantView(2, "trader", "notes", "belt-finder", MORNING - 12 * 60_000_000),
    GrantView(3, "trader", "", "zoea_broadcast", MORNING - 40_000_000),
)


STATUSES = {
    0: {"working": 5, "idle": 0},
    5: {"working": 1, "idle": 4},
    11: {"working": 1, "idle": 4},
    15: {"idle": 4, "stopped": 1},
    16: {"idle": 4, "stopped": 1},
    17: {"idle": 4, "stopped": 1},
    18: {"idle": 3, "stopped": 1, "errored": 1},
    19: {"working": 1, "waiting": 1, "asking": 1, "idle": 0, "stopped": 1, "errored": 1},
    20: {"working": 1, "waiting": 1, "asking": 1, "idle": 0, "stopped": 1, "errored": 1},
}
"""The myses by status in the minutes since the start; those in between are idle."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A screen of the cockpit: the keys that open it, and what holds once it is whole.

    `is_box` stands over another screen, which is laid out anew only while nothing
    stands over it: a box is opened at each size. `sizes` are those at which it differs in more than room.
    """

    name: str
    keys: tuple[str, ...]
    is_whole: Callable[[Stage], Any]
    then: Callable[[Stage], Awaitable[None]] | None = None
    is_box: bool = False
    keeps_theme: bool = False
    """Draws with the theme in which it was opened, or names it."""
    sizes: tuple[tuple[int, int], ...] = SIZES


def says(*words: str) -> Callable[[Stage], bool]:

    def has_words(stage: Stage) -> bool:
        text = stage.text()  # once, because the whole screen is composed for it
        return all(word in text for word in words)

    return has_words


def shows_charts(stage: Stage) -> bool:
    """Whether there are as many charts as fit, drawn for their size."""
    return says("TOKENS PER MINUTE", "k in the last hour")(stage) and (
        stage.app.size.width < 100 or says("SPENT PER MINUTE ·")(stage)
    )


def shows_history(stage: Stage) -> bool:
    """Whether the newest commit is read, and shown where there is room for it."""
    return says("HISTORY OF alpha", "ctx-" if stage.app.size.width >= 100 else "commits")(stage)


async def write_broadcast(stage: Stage) -> None:
    await stage.write("All of you: ")


async def write_search(stage: Stage) -> None:
    stage.one(Input, "#words").value = "iron"


async def write_command(stage: Stage) -> None:
    await stage.write("st")


async def choose_themes(stage: Stage) -> None:
    await choose_page(stage, "look")


async def choose_page(stage: Stage, page: str) -> None:
    sections = stage.one(PickList, "#sections")
    await stage.until(lambda: page in sections.ids)
    sections.select(page)
    await stage.pilot.pause()
    await stage.press("enter")


async def try_tool(stage: Stage) -> None:
    await stage.until(lambda: "openai" in stage.text())
    await stage.press("tab", shows="mine")
    await stage.press("down", "t")


async def choose_keys(stage: Stage) -> None:
    await choose_page(stage, "look")
    stage.one(PickList, "#fields").select('tui.keys."app.command"')


async def export_conversation(stage: Stage) -> None:
    """Open the box once the conversation is at its end. Below a box it is not laid out again."""
    await stage.until(lambda: says("runs thin", "follows new lines")(stage))
    await stage.press("e")


async def write_filter(stage: Stage) -> None:
    await stage.write("gam")


async def find_words(stage: Stage) -> None:
    await stage.until(lambda: "turn 5" in stage.text())
    await stage.press("slash")
    await stage.write("ore")


async def read_messages(stage: Stage) -> None:
    await stage.until(lambda: "PARTS" in stage.text())
    await stage.press("tab")


async def choose_budgets(stage: Stage) -> None:
    await choose_page(stage, "limits")
    stage.one(PickList, "#fields").select("budget.swarm_per_day")


async def listen(stage: Stage) -> None:
    panel = stage.screen
    assert isinstance(panel, ApprovalDialog)
    await stage.until(lambda: panel.is_listening)


async def open_fork(stage: Stage) -> None:
    await stage.until(lambda: shows_history(stage))
    await stage.press("f")


async def open_question(stage: Stage) -> None:
    await stage.until(lambda: shows_history(stage))
    await stage.press("a")


async def compare_commits(stage: Stage) -> None:
    await stage.until(lambda: shows_history(stage))
    await stage.press("c", "j", "c")


async def open_timeline(stage: Stage) -> None:
    await stage.until(lambda: shows_history(stage))
    await stage.press("t")


SCENES = (
    Scene("dashboard", (), says("epsilon")),
    Scene("dashboard-marked", ("space", "space"), says("▌")),
    Scene("broadcast", ("b",), says("All of you:"), write_broadcast),
    Scene("new-mysis", ("n",), says("task", "1 mysis", "default"), is_box=True),
    Scene("confirm", ("D",), says("Delete"), is_box=True),
    Scene("approvals", ("o",), says("gamma asks", "iron ore"), listen, is_box=True),
    Scene("quitting", ("q",), says("end the swarm"), is_box=True),
    Scene("palette", ("ctrl+p",), says("Create a mysis"), is_box=True, keeps_theme=True),
    Scene("command", ("colon",), says("st"), write_command, is_box=True),
    Scene("help", ("question_mark",), says("HELP")),
    Scene("settings", ("comma",), says("Tokens per day"), choose_budgets),
    Scene("themes", ("comma",), says("Nova"), choose_themes, keeps_theme=True),
    Scene("log", ("l",), says("events")),
    Scene("charts", ("C",), shows_charts, sizes=SIZES[:2]),
    Scene("search", ("ctrl+f",), says("iron"), write_search),
    Scene("upstreams", ("u",), says("reef", "openai")),
    Scene("upstreams-try", ("u",), lambda stage: stage.shows(TryToolDialog), try_tool, is_box=True),
    Scene("focus", ("g", "enter"), says("Port Vesper: 11", "turn 5")),
    Scene("focus-verbose", ("g", "enter", "v"), says("belt-2")),
    Scene("focus-error", ("G", "k", "enter"), says("401")),
    Scene("exporting", ("g", "enter"), says("Markdown"), export_conversation, is_box=True),
    Scene("inspector", ("g", "i"), says("PARTS")),
    Scene("inspector-messages", ("g", "i"), says("messages, ~"), read_messages, sizes=SIZES[:1]),
    Scene("history", ("g", "h"), shows_history),
    Scene("history-fork", ("g", "h"), says("First request"), open_fork, is_box=True, sizes=SIZES[:2]),
    Scene("history-ask", ("g", "h"), says("First request"), open_question, is_box=True, sizes=SIZES[:2]),
    Scene("history-compare", ("g", "h"), says("after it"), compare_commits, sizes=SIZES[:2]),
    Scene("history-timeline", ("g", "h"), says("alpha", "gamma"), open_timeline, sizes=SIZES[:2]),
    Scene("clients", ("M",), says("no client can"), is_box=True, sizes=SIZES[:2]),
    Scene("configuring", ("G", "c"), lambda stage: stage.shows(ConfigureDialog), is_box=True, sizes=SIZES[:2]),
    Scene("keys", ("comma",), says("EVERYWHERE", "palette"), choose_keys, sizes=SIZES[:2]),
    Scene("filter", ("slash",), says("1 of 5"), write_filter, sizes=SIZES[:2]),
    Scene("find", ("g", "enter"), says("turn 5"), find_words, sizes=SIZES[:2]),
    Scene("grants", ("A",), says("miner", "belt-finder"), is_box=True, sizes=SIZES[:1]),
    Scene("topics", ("T",), says("PLAN_READY", "no mysis follows it"), is_box=True, sizes=SIZES[:1]),
    # The last ones: the swarm stays on hold.
    Scene("held", ("x",), lambda stage: stage.app.build_context().held, sizes=SIZES[:2]),
    Scene("held-focus", ("g", "enter"), says("Port Vesper: 11"), sizes=SIZES[:2]),
    Scene("hive", ("v",), says("held")),
)
OPENED_ANEW = tuple(scene for scene in SCENES if scene.is_box or scene.keeps_theme)
"""Those that have to be opened for each size, or for each theme."""
PARTS = 3
"""Tests that share the scenes, so that they run beside each other; each plays the swarm anew."""
PART = -(-len(SCENES) // PARTS)
TOO_SMALL = (60, 15)
ALONE = ("welcome", "connect")


class Still:
    """The swarm's api, but with connections of its own: those of a test are measured and never fail."""

    def __init__(self, api: Any) -> None:
        self._api = api

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def upstreams(self) -> tuple[UpstreamView, ...]:
        return UPSTREAMS

    async def grants(self) -> tuple[GrantView, ...]:
        return GRANTS

    async def mcp(self) -> McpView:
        return McpView()

    async def providers(self) -> tuple[ProviderView, ...]:
        return PROVIDERS


@pytest.fixture(autouse=True)
def _same_everywhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One time zone, one encoding, and no measuring against a real clock."""

    async def never(self: SwarmFeed) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(SwarmFeed, "_measure", never)
    monkeypatch.setattr(commit_capture, "describe_machine", lambda: "kestrel 0f3a9c11d2e4")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("TZ", "UTC")
    for name in ("LC_ALL", "LC_CTYPE", "NO_COLOR", "COLORTERM", "TERM"):
        monkeypatch.delenv(name, raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


async def look(stage: Stage, store: SnapshotStore, name: str) -> None:
    """Wait until the screen is the kept picture, or keep it once it stands still.

    A screen that is as it was is not exported again: that takes as long as opening it.
    """
    kept, drawn, image = store.kept(name), "", None
    since, ends = time.monotonic(), time.monotonic() + (PATIENCE_S if not store.failed else 1.0)
    while time.monotonic() < ends:
        await asyncio.sleep(LOOK_S)
        last, image = image, capture_screen(stage.app)
        if image != last:
            before, drawn = drawn, export_svg(image)
            if not ACCEPTS and drawn == kept:
                return
            if drawn != before:
                since = time.monotonic()
        if ACCEPTS and time.monotonic() - since > STILL_S:
            store.keep(name, drawn)
            return
    store.differs(name, drawn)


async def look_at(stage: Stage, store: SnapshotStore, theme: str, scene: str, is_whole: Callable[[], Any]) -> None:
    """Look at a scene once it is whole: when its kept picture was accepted, it was."""
    width, height = stage.app.size
    name = f"{theme}/{width}x{height}/{scene}"
    if not ACCEPTS and export_svg(capture_screen(stage.app)) == store.kept(name):
        return
    try:
        await stage.until(is_whole, within=PATIENCE_S)
    except TimeoutError:
        raise AssertionError(f"{scene} at {width}x{height} never was whole:\n{stage.text()}") from None
    await look(stage, store, name)


async def open_scene(stage: Stage, scene: Scene) -> None:
    """From the dashboard as it was at the beginning."""
    await stage.press(*scene.keys)
    if scene.then is not None:
        await scene.then(stage)


async def home(stage: Stage) -> None:
    """Back to the dashboard as it was at the beginning."""
    for _ in range(12):
        if stage.shows(DashboardScreen):
            break
        await stage.press("escape")
    await stage.pilot.press_in_a_burst("escape", "escape", "g")
    assert stage.shows(DashboardScreen)


def dead_hints(stage: Stage) -> list[str]:
    """The keys that the frames of a box name and that do nothing there."""
    screen = stage.app.screen
    shown = [widget for widget in screen.query("*") if widget.region.area]
    frames = [f"{widget.border_title} {widget.border_subtitle}" for widget in shown]
    named = [key for frame in frames for key in _PRESSED.findall(frame)]
    return [key for key in named if key not in screen.active_bindings]


async def spent(stage: Stage) -> None:
    """The sparklines: what each mysis's requests of the last two minutes came to, as if they had been watched."""
    rows = await stage.swarm.rows(
        "SELECT mysis_id, input_tokens + output_tokens AS tokens, ended_at FROM request WHERE input_tokens IS NOT NULL"
    )
    now, step = stage.clock.now(), SPARK_SECONDS * 1_000_000
    for interval in reversed(range(SPARK_POINTS)):
        used = dict.fromkeys(stage.app.feed.myses, 0)
        for row in rows:
            if (now - row["ended_at"]) // step == interval:
                used[row["mysis_id"]] += row["tokens"]
        stage.app.feed.add_spent(used)


def store_minutes(conn: WriterConnection) -> None:
    """The minutes since the swarm began, as it would have stored them: tokens, turns and statuses."""
    first, last = MORNING // MINUTE_US - 1, conn.now() // MINUTE_US
    conn.execute("DELETE FROM minute_stat")
    for minute in range(first, last + 1):
        ends = min((minute + 1) * MINUTE_US, conn.now() + 1)
        tokens = conn.execute(
            "SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM request WHERE ended_at < ?", (ends,)
        ).fetchone()[0]
        outcomes = conn.execute(
            "SELECT coalesce(data ->> 'outcome', data ->> 'why') AS end, count(*) FROM event"
            " WHERE kind IN ('turn.ended', 'turn.broke_off') AND created_at >= ? AND created_at < ? GROUP BY end",
            (minute * MINUTE_US, ends),
        ).fetchall()
        statuses = {"idle": 5 if minute > first else 0} | STATUSES.get(minute - first - 1, {})
        newest = conn.execute("SELECT coalesce(max(id), 0) FROM event WHERE created_at < ?", (ends,)).fetchone()[0]
        row = (minute, newest, tokens, 0, json.dumps(statuses), json.dumps(dict(map(tuple, outcomes))), 0)
        conn.execute("INSERT INTO minute_stat VALUES (?,?,?,?,?,?,?)", row)


def store_topics(conn: WriterConnection) -> None:
    """A few messages of topics, without events."""
    said = (("ISSUE_OPENED", "commander", "The login fails."), ("PLAN_READY", "alpha", "Read the log, then fix it."))
    for topic, sender, text in said:
        conn.execute(
            "INSERT INTO topic_message(topic, sender_kind, sender, content, created_at) VALUES (?, 'client', ?, ?, ?)",
            (topic, sender, text, conn.now() - MINUTE_US),
        )


@asynccontextmanager
async def the_morning(folder: Path) -> AsyncIterator[Stage]:
    """The cockpit over the played swarm."""
    async with play_sample_swarm(folder) as morning:
        inner = morning.inner
        api: Any = Still(inner.commander)
        places = Places(folder, folder / "config", folder)
        async with cockpit_over(api, inner.path, clock=inner.clock, inner=inner, size=SIZES[0], places=places) as stage:
            await stage.until(lambda: stage.has("alpha", "epsilon") and stage.app.approvals.open)
            await spent(stage)
            await inner.store.write(store_minutes)
            await inner.store.write(store_topics)
            stage.app.feed_changed(frozenset())
            yield stage


def list_views(scene: Scene, shown: str) -> list[tuple[tuple[int, int], str]]:
    """Return the sizes and themes to look at, beginning with the theme that is shown.

    A theme changes colours and no place. So the quick run looks at two sizes of a scene, each in another theme: the
    smallest, where room is scarce, and by turns the middle and the largest one. Of two scenes in a row, one is shown
    at its smallest size in the first theme, the other in the second. A scene that is opened anew for each view, which
    takes most of its time, is looked at once: by turns at each of its sizes and in each theme.
    """
    if IS_THOROUGH:
        return [(size, theme) for size in scene.sizes for theme in THEMES]
    smallest, *larger = scene.sizes
    other = THEMES[1 - THEMES.index(shown)]
    if scene in OPENED_ANEW and larger:
        return [(scene.sizes[OPENED_ANEW.index(scene) % len(scene.sizes)], other)]
    second = larger[SCENES.index(scene) // 2 % len(larger)] if larger else smallest
    return [(smallest, shown), (second, other)]


def show_theme(stage: Stage, theme: str) -> None:
    """Show a theme, where it is not the one that is shown."""
    if stage.app.theme != theme:
        stage.app.use_theme(theme)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("part", range(PARTS))
async def test_every_screen_of_a_running_swarm_matches_its_snapshot(tmp_path: Path, part: int) -> None:
    store = SnapshotStore()
    async with the_morning(tmp_path) as stage:
        for scene in SCENES[part * PART : (part + 1) * PART]:
            before = None
            for size, theme in list_views(scene, stage.app.theme):
                opens = before is None or scene.keeps_theme or (scene.is_box and size != before)
                if opens:
                    await home(stage)
                if size != before:
                    await stage.pilot.resize_terminal(*size)
                before = size
                show_theme(stage, theme)  # a screen that stays open takes the new one, as in a box of one size
                if opens:
                    await open_scene(stage, scene)
                if scene.is_box:
                    for behind in stage.app.screen_stack[:-1]:
                        stage.app.stylesheet.update(behind)  # as it is without the focus
                await look_at(stage, store, theme, scene.name, lambda: scene.is_whole(stage))  # noqa: B023  waited for here
                assert not scene.is_box or dead_hints(stage) == [], scene.name
        await stage.pilot.resize_terminal(*TOO_SMALL)
        for theme in THEMES:
            stage.app.use_theme(theme)
            await look_at(stage, store, theme, "too-small", lambda: stage.shows(TooSmallScreen))
    assert not store.complaint(), store.complaint()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("theme", THEMES)
async def test_the_first_screens_of_a_new_person_match_their_snapshots(tmp_path: Path, theme: str) -> None:
    store = SnapshotStore()

    @asynccontextmanager
    async def with_world() -> AsyncIterator[OpenSwarm]:
        yield OpenSwarm(FakeSwarm(), tmp_path / "no.db", True, "reef-run")

    clock = HandClock(MORNING)
    async with (
        swarm(tmp_path, clock=clock) as inner,
        cockpit_over(
            inner.api, inner.path, clock=clock, theme=theme, size=SIZES[0], sandbox_opener=with_world
        ) as stage,
    ):
        for width, height in SIZES:
            await stage.pilot.resize_terminal(width, height)
            await look_at(
                stage, store, theme, "welcome", lambda: stage.shows(WelcomeScreen) and says("config.toml")(stage)
            )
            await stage.press("c")
            await look_at(stage, store, theme, "connect", lambda: stage.shows(ConnectDialog))
            await stage.press("escape")
    assert not store.complaint(), store.complaint()


def test_every_snapshot_belongs_to_a_screen() -> None:
    drawn = [(scene.name, size) for scene in SCENES for size in scene.sizes]
    drawn += [(name, size) for name in ALONE for size in SIZES] + [("too-small", TOO_SMALL)]
    names = [f"{theme}/{width}x{height}/{name}" for theme in THEMES for name, (width, height) in drawn]
    assert SnapshotStore().strangers(names) == []
