"""The form that creates a mysis."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from msgspec.structs import force_setattr
from textual.widgets import Input, OptionList

from tests.tui.cockpit import WITHIN_S, Stage, cockpit, take_steps
from zoea.model.enums import MysisState
from zoea.model.errors import UsageError
from zoea.model.values import MysisView
from zoea.runtime.mysis_options import read_options
from zoea.runtime.run_options import StartOptions
from zoea.settings.paths import places
from zoea.settings.schema import Settings
from zoea.tui.dialogs.new_mysis import NewMysisDialog
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.state.drafts import LAST_CHOICES, NEW_MYSIS
from zoea.tui.state.worktree_access import find_repository
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.inline_choice import InlineChoice
from zoea.tui.widgets.task_text import TaskText


async def dialog(stage: Stage) -> NewMysisDialog:
    await stage.press("n")
    screen = stage.screen
    assert isinstance(screen, NewMysisDialog)
    await stage.until(lambda: stage.one(OptionList).option_count > 1)
    await stage.pilot.pause()
    return screen


def folder_of(stage: Stage) -> Path:
    return stage.swarm.path.parent


def make_folder(stage: Stage) -> Path:
    """Return a new folder for the files of a step."""
    return Path(mkdtemp(dir=folder_of(stage)))


async def fill_forms(stage: Stage, *steps: Callable[[Stage], Awaitable[None]]) -> None:
    """Take steps in one cockpit. Each finds the first myses only, and a form that nobody filled in before."""
    first, deleted = set(stage.app.feed.myses), set[int]()

    async def are_first() -> bool:
        for view in [view for view in stage.app.feed.myses.values() if view.id not in first | deleted]:
            deleted.add(view.id)
            await stage.api.delete(view.name)
        return set(stage.app.feed.myses) == first

    for step in steps:
        stage.app.new_myses = StartOptions()
        for key in (NEW_MYSIS, LAST_CHOICES):
            stage.app.drafts.keep(key, "")
        await take_steps(stage, step)
        await stage.until(are_first)
        stage.notices.clear()


def effect_of(stage: Stage) -> str:
    return stage.one(TextBlock, "#effect").plain


async def enter_alone_creates_a_running_mysis_with_a_generated_name(stage: Stage) -> None:
    await dialog(stage)
    await stage.press("enter", until=lambda: len(stage.app.feed.myses) == 4)
    made = next(v for v in stage.app.feed.myses.values() if v.name not in ("alpha", "beta", "gamma"))
    assert made.name
    await stage.until(lambda: stage.view(made.name).state is MysisState.RUNNING)  # it is there before it is started
    await stage.until(lambda: stage.shows(DashboardScreen))


async def more_myses_than_the_swarm_holds_are_announced_before_enter(stage: Stage) -> None:
    await dialog(stage)
    await stage.write("Scan x14")
    effect = stage.one(TextBlock, "#effect")
    await stage.until(lambda: "only 13 of them fit: the swarm holds at most 16" in effect.plain)
    await stage.press("backspace", "3", until=lambda: "13 myses" in effect.plain and "fit" not in effect.plain)


async def every_field_of_the_form_reaches_the_new_mysis(stage: Stage) -> None:
    (folder_of(stage) / "reef.db").touch()  # its templates are offered
    await dialog(stage)
    names = [option.id for option in stage.one(OptionList).options]
    await stage.write("Find iron")
    await stage.press("tab")
    await stage.write("delta")
    await stage.press("tab", *["down"] * names.index("miner"), "tab", "right")
    provider = stage.one(InlineChoice, "#provider").value
    await stage.press("tab")
    await stage.write("small-model")
    await stage.press("tab")
    await stage.write("fast, cheap fast")
    await stage.press("tab", "tab", "tab", "right", "enter", until=lambda: stage.has("delta"))
    made = stage.view("delta")
    assert provider == "autopilot"
    assert (made.template, made.provider, made.model) == ("miner", "autopilot", "small-model")
    assert set(made.tags) == {"fast", "cheap"}
    assert made.goal == "Find iron"
    assert made.state is MysisState.IDLE


async def a_refused_name_is_reported_in_the_form_and_can_be_corrected(stage: Stage) -> None:
    await dialog(stage)
    await stage.press("tab")
    await stage.enter("alpha")
    await stage.until(lambda: "Name refused" in stage.one(TextBlock, "#error").plain)
    assert stage.shows(NewMysisDialog)
    stage.one(Input, "#name").value = "alphb"
    await stage.press("enter", until=lambda: stage.has("alphb"))


async def a_broadcast_is_offered_with_its_age_and_sent_only_where_it_is_chosen(stage: Stage) -> None:
    await stage.api.broadcast("Mine iron")
    stage.clock.by(125)
    await dialog(stage)
    await stage.press("tab", shows="also send      ‹ no broadcast ›")
    await stage.enter("delta")
    await stage.until(lambda: stage.has("delta"))
    assert await stage.swarm.value(f"SELECT count(*) FROM delivery WHERE mysis_id = {stage.view('delta').id}") == 0
    await dialog(stage)
    await stage.press("tab")
    await stage.write("echo")
    stage.one(InlineChoice, "#broadcast").focus()
    await stage.press("right", shows="first your broadcast of 2 min ago: Mine iron")
    await stage.press("enter", until=lambda: stage.has("echo") and stage.view("echo").turns == 1)


async def without_a_recent_broadcast_there_is_no_first_message(stage: Stage) -> None:
    await dialog(stage)
    await stage.press("tab", shows="also send      no broadcast")


async def escape_creates_no_mysis(stage: Stage) -> None:
    await dialog(stage)
    await stage.press("tab")
    await stage.write("delta")
    await stage.press("escape")
    assert stage.shows(DashboardScreen)
    assert not stage.has("delta")


async def a_click_takes_the_next_choice(stage: Stage) -> None:
    await dialog(stage)
    await stage.press("tab")
    assert stage.one(InlineChoice, "#start").value == "yes"
    await stage.pilot.click("#start")
    assert stage.one(InlineChoice, "#start").value == "no"


async def everything_fits_at_eighty_by_twenty_four(stage: Stage) -> None:
    await dialog(stage)
    await stage.press("tab")
    text = stage.text()
    labels = ("name", "task", "template", "provider", "model", "tags", "start", "also send")
    assert all(label in text for label in labels)


def test_choices_come_from_the_settings(tmp_path: Path) -> None:
    where = places()
    where.config.mkdir(parents=True)
    where.config_file.write_text('[provider.home]\ntype = "ollama"\nmodel = "qwen3:8b"\n')
    found = read_options(where, tmp_path / "no.db", 0)
    assert [one.name for one in found.providers] == ["", "home", "autopilot"]
    assert found.providers[1].title == "home (ollama)"
    assert "no model" in found.providers[2].title
    assert found.models == {"home": "qwen3:8b"}
    assert found.templates[0].name == found.default_template
    assert found.broadcast is None


def add_local_model(name: str) -> None:
    folder = places().data / "models"
    folder.mkdir(parents=True)
    (folder / f"{name}.gguf").write_bytes(b"GGUF" + bytes(20))


def test_local_models_are_offered_without_settings(tmp_path: Path) -> None:
    add_local_model("qwen")
    found = read_options(places(), tmp_path / "no.db", 0)
    assert [one.name for one in found.providers] == ["", "embedded", "autopilot"]
    assert found.providers[1].title == "embedded (on this machine: qwen)"


async def what_the_command_line_gave_is_chosen_first(stage: Stage) -> None:
    stage.app.new_myses = StartOptions(template="miner", provider="embedded", model="qwen")
    await dialog(stage)
    assert stage.one(InlineChoice, "#provider").value == "embedded"
    await stage.press("enter", until=lambda: len(stage.app.feed.myses) == 4)
    made = next(v for v in stage.app.feed.myses.values() if v.name not in ("alpha", "beta", "gamma"))
    assert (made.template, made.provider, made.model) == ("miner", "embedded", "qwen")


async def a_typed_line_uses_what_the_command_line_gave(stage: Stage) -> None:
    stage.app.new_myses = StartOptions(provider="embedded", model="qwen")
    await stage.enter(":new delta miner")
    await stage.until(lambda: stage.has("delta"))
    made = stage.view("delta")
    assert (made.template, made.provider, made.model) == ("miner", "embedded", "qwen")


async def invalid_settings_are_reported_in_the_dialog(stage: Stage) -> None:
    where = places()
    where.config.mkdir(parents=True, exist_ok=True)
    where.config_file.write_text("[provider\n")
    assert stage.app.opened is not None
    force_setattr(stage.app.opened, "places", where)
    await stage.press("n", until=lambda: "config.toml" in stage.one(TextBlock, "#error").plain)


def test_the_provider_that_a_template_means_is_named(tmp_path: Path) -> None:
    where = places()
    where.templates.mkdir(parents=True)
    where.config_file.write_text('[provider.home]\ntype = "ollama"\nmodel = "qwen3:8b"\n')
    (where.templates / "scout.toml").write_text('title = "Scout"\nprovider = "autopilot"\n')
    (where.templates / "clerk.toml").write_text('title = "Clerk"\n')
    found = read_options(where, tmp_path / "no.db", 0)
    assert found.describe_provider("scout") == "autopilot (by the template)"
    assert found.describe_provider("clerk") == "home (by your settings)"
    where.config_file.write_text("")
    assert read_options(where, tmp_path / "no.db", 0).describe_provider("clerk") == "autopilot (no model is connected)"


async def a_model_is_not_asked_for_where_the_autopilot_plays(stage: Stage) -> None:
    await dialog(stage)
    await stage.press("tab")
    stage.one(InlineChoice, "#provider").choose("autopilot")
    await stage.until(lambda: "none: the autopilot needs no model" in stage.text())
    assert "work on files needs a model" not in effect_of(stage)
    stage.one(Input, "#on").value = str(folder_of(stage))
    await stage.until(lambda: "work on files needs a model" in effect_of(stage))


async def many_lines_are_pasted_whole_and_make_one_task(stage: Stage) -> None:
    text = "\n".join(f"line {number} of [/] the log" for number in range(300))
    await dialog(stage)
    await stage.write("Explain:\n")
    await stage.read_at_once(f"\x1b[200~{text}\x1b[201~")
    await stage.until(lambda: "300 lines" in stage.text())
    await stage.press("enter", until=lambda: len(stage.app.feed.myses) == 4)
    assert await stage.swarm.value("SELECT goal FROM mysis ORDER BY id DESC LIMIT 1") == f"Explain:\n{text}"


async def the_chosen_template_is_told_whole_below_the_task(stage: Stage) -> None:
    await stage.press("n", until=lambda: "▸ default" in stage.text())
    assert "default: " not in stage.text()
    await stage.press("tab", until=lambda: "default: Works with any tools" in stage.text())
    await stage.press("tab", "down", "down")
    await stage.until(lambda: "coder: Changes code and tests it; asks before commands" in stage.text())
    assert "Changes code and tests i…" in stage.text()


async def a_count_that_is_too_large_is_told_as_text(stage: Stage) -> None:
    await dialog(stage)
    await stage.write("Find iron x300")
    await stage.until(lambda: "1 mysis: the number at the end is text, x99 is the most" in stage.text())


async def numbered_parts_go_to_a_mysis_each_and_one_key_removes_them(stage: Stage) -> None:
    await dialog(stage)
    await stage.write("Read a.txt\n1. Count words\n2. Count lines\n")
    await stage.until(lambda: "1 mysis gets all 2 parts; x2 at the end makes 2" in stage.text())
    await stage.write("x2")
    await stage.until(lambda: "2 myses, a numbered part each" in stage.text())
    await stage.press("enter", until=lambda: len(stage.app.feed.myses) == 5)
    goals = await stage.swarm.rows("SELECT goal FROM mysis ORDER BY id DESC LIMIT 2")
    assert [row["goal"] for row in goals] == ["Read a.txt\nCount lines", "Read a.txt\nCount words"]
    await stage.until(lambda: stage.shows(DashboardScreen))
    await stage.press("z", until=lambda: len(stage.app.feed.myses) == 3)


async def a_form_for_many_closes_at_the_first_and_the_others_follow(stage: Stage) -> None:
    with pytest.MonkeyPatch.context() as patched:
        first, others, calls = asyncio.Event(), asyncio.Event(), list[Any]()
        create = stage.api.create

        async def slow_create(*names: Any, **more: Any) -> Any:
            calls.append(names)
            await (first if len(calls) == 1 else others).wait()
            return await create(*names, **more)

        patched.setattr(stage.app.api, "create", slow_create)
        form = await dialog(stage)
        await stage.enter("Find iron x3")
        await stage.until(lambda: "under way · esc back: it goes on" in stage.text())
        assert form.holds_keys
        first.set()
        await stage.until(lambda: stage.shows(DashboardScreen) and len(stage.app.feed.myses) == 4)
        assert await dialog(stage) is not form
        await stage.write("Dig")
        others.set()
        await stage.until(lambda: len(stage.app.feed.myses) == 6)
        await stage.until(lambda: any("are created; z removes them" in notice for notice in stage.notices))
        assert stage.one(TaskText).full_text == stage.app.drafts.of(NEW_MYSIS) == "Dig"


async def where_some_are_refused_the_text_is_for_the_others(stage: Stage) -> None:
    config = stage.app.places.config_file
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("[swarm]\nmax_myses = 5\n")  # the form knows, and stays
    await dialog(stage)
    await stage.enter("Find iron x4")
    await stage.until(lambda: "max myses (5) reached" in stage.one(TextBlock, "#error").plain)
    await stage.until(lambda: len(stage.app.feed.myses) == 5)
    assert stage.one(TaskText).full_text == "Find iron\nx2"
    await stage.press("escape", "n", shows=NewMysisDialog)
    assert stage.one(TaskText).full_text == "Find iron\nx2"


async def what_is_refused_after_a_form_for_many_closed_is_told_and_its_text_kept(stage: Stage) -> None:
    await dialog(stage)
    await stage.enter("Find iron x4")
    await stage.until(lambda: any("max myses (5) reached" in notice for notice in stage.notices))
    await stage.until(lambda: len(stage.app.feed.myses) == 5)
    await stage.press("n", shows=NewMysisDialog)
    assert stage.one(TaskText).full_text == "Find iron\nx2"


async def what_is_refused_at_once_behind_the_first_is_told_too(stage: Stage) -> None:
    with pytest.MonkeyPatch.context() as patched:
        create, made = stage.api.create, list[Any]()

        async def create_one(*names: Any, **more: Any) -> Any:
            if made:
                raise UsageError("there is no more room")
            made.append(await create(*names, **more))
            return made[0]

        patched.setattr(stage.app.api, "create", create_one)
        await dialog(stage)
        await stage.enter("Find iron x3")
        await stage.until(lambda: any("there is no more room" in notice for notice in stage.notices))
        await stage.until(lambda: stage.shows(DashboardScreen))
        assert stage.app.drafts.of(NEW_MYSIS) == "Find iron\nx2"


async def a_form_left_before_its_first_mysis_keeps_only_the_text_of_another(
    stage: Stage, task: str, next_task: str
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        may_create = asyncio.Event()
        create = stage.api.create

        async def slow_create(*names: Any, **more: Any) -> Any:
            await may_create.wait()
            return await create(*names, **more)

        patched.setattr(stage.app.api, "create", slow_create)
        form = await dialog(stage)
        await stage.enter(task)
        await stage.until(lambda: form._is_busy)
        form.back()
        await stage.until(lambda: stage.shows(DashboardScreen))
        if next_task:
            await dialog(stage)
            stage.one(TaskText).put(next_task)
            await stage.until(lambda: stage.app.drafts.of(NEW_MYSIS) == next_task)
        may_create.set()
        await stage.until(lambda: any("created; z removes" in notice for notice in stage.notices))
        assert stage.app.drafts.of(NEW_MYSIS) == next_task


async def the_last_choices_are_chosen_again_and_a_typed_task_is_kept(stage: Stage) -> None:
    (folder_of(stage) / "reef.db").touch()  # its templates are offered
    await dialog(stage)
    await stage.press("tab")
    names = [option.id for option in stage.one(OptionList).options]
    stage.one(OptionList).highlighted = names.index("miner")
    stage.one(InlineChoice, "#provider").choose("autopilot")
    stage.one(Input, "#tags").value = "north"
    await stage.press("enter", until=lambda: len(stage.app.feed.myses) == 4)
    await dialog(stage)
    await stage.until(lambda: "▸ miner · autopilot · north" in stage.text())
    await stage.write("Find iron")
    await stage.press("escape")
    await dialog(stage)
    assert stage.one(TaskText).text == "Find iron"
    await stage.enter(" ore")
    await stage.until(lambda: len(stage.app.feed.myses) == 5)
    made = max(stage.app.feed.myses.values(), key=lambda view: view.id)
    assert (made.template, made.provider, made.tags, made.goal) == (
        "miner",
        "autopilot",
        ("north",),
        "Find iron ore",
    )


async def the_form_says_what_the_first_request_costs(stage: Stage) -> None:
    stage.app.new_myses = StartOptions(provider="anthropic", model="claude-opus-5")
    await dialog(stage)
    await stage.write("Find iron x2")
    await stage.until(lambda: "in all, about $0.0" in stage.text() and ", plus tools" in stage.text())
    stage.one(InlineChoice, "#provider").choose("autopilot")
    await stage.until(lambda: "in all, at no cost" in stage.text())


async def tab_completes_the_path_of_a_file(stage: Stage) -> None:
    here = make_folder(stage)
    with pytest.MonkeyPatch.context() as patched:
        (here / "shop").mkdir()
        for name in ("shop/pricing.py", "shop/prices [b].txt", "shop/\x1b[2J.py", "shop/.hidden", "short.md"):
            (here / name).write_text("")
        patched.chdir(here)
        await dialog(stage)
        await stage.write("Read @sho")
        await stage.until(lambda: "tab completes" in stage.text())
        assert "@short.md" in stage.text()
        await stage.press("tab")
        assert stage.one(TaskText).text == "Read @shop/"
        await stage.until(lambda: "@shop/pricing.py" in stage.text())
        assert "hidden" not in stage.text()
        await stage.press("tab")
        assert stage.one(TaskText).text == "Read @shop/pricing.py "
        await stage.until(lambda: "tab completes" not in stage.text())
        await stage.press("tab")
        assert stage.one(Input, "#name").has_focus


async def a_part_of_a_name_finds_the_files_of_a_repository_in_any_folder(stage: Stage) -> None:
    here = make_folder(stage)
    with pytest.MonkeyPatch.context() as patched:
        for folder in ("repo/.git", "repo/source/shop", "elsewhere"):
            (here / folder).mkdir(parents=True)
        for name in (
            "source/shop/pricing.py",
            "source/shop/old_pricing.py",
            "source/a pricing.py",
            "source/pri\x1b[2Jcing.py",
        ):
            (here / "repo" / name).write_text("")
        patched.chdir(here / "elsewhere")
        await dialog(stage)
        stage.one(Input, "#on").value = str(here / "repo")
        await stage.write("Read @pric")
        await stage.until(lambda: "@source/shop/old_pricing.py" in stage.text() or "source/shop/old" in stage.text())
        assert "a pricing" not in stage.text()
        await stage.press("tab")
        assert stage.one(TaskText).text == "Read @source/shop/pricing.py "
        await stage.write("and @shop/old")  # any part of a path
        await stage.until(lambda: "@source/shop/old_pricing.py" in stage.text())
        await stage.press("tab")
        assert stage.one(TaskText).text == "Read @source/shop/pricing.py and @source/shop/old_pricing.py "


async def a_task_typed_while_its_folder_is_looked_at_does_not_end_the_look(stage: Stage) -> None:
    here = make_folder(stage)
    with pytest.MonkeyPatch.context() as patched:
        begun, goes_on = threading.Event(), threading.Event()

        def find_slowly(folder: str) -> Path | None:
            begun.set()
            goes_on.wait(WITHIN_S)
            return find_repository(folder)

        (here / "shop/.git").mkdir(parents=True)
        await dialog(stage)
        patched.setattr("zoea.tui.dialogs.new_mysis.find_repository", find_slowly)
        stage.one(Input, "#on").value = str(here / "shop")
        await stage.until(begun.is_set)
        stage.one(TaskText).insert("Fix it")
        await stage.until(lambda: stage.one(TaskText).typed_file is None)
        goes_on.set()
        await stage.until(lambda: "a worktree, on the branch zoea/NAME, of" in effect_of(stage))


async def a_folder_is_completed_and_several_never_share_a_checkout(stage: Stage) -> None:
    here = make_folder(stage)
    with pytest.MonkeyPatch.context() as patched:
        for folder in ("shop/.git", "shop/source", "plain"):
            (here / folder).mkdir(parents=True)
        patched.chdir(here)
        create, asked = stage.api.create, list[tuple[str, str, bool]]()

        async def listen(name: str, **more: Any) -> MysisView:
            asked.append((more["template"], more.pop("on"), more.pop("worktree")))
            return await create(name, **more)

        patched.setattr(stage.app.api, "create", listen)
        await dialog(stage)
        await stage.press("tab")
        stage.one(Input, "#on").focus()
        await stage.write("sh")
        await stage.until(lambda: "shop/   tab completes" in stage.text())
        await stage.press("tab")
        assert stage.one(Input, "#on").value == "shop/"
        await stage.until(lambda: "a worktree, on the branch zoea/NAME, of shop/" in effect_of(stage))
        stage.one(InlineChoice, "#worktree").choose("no")
        await stage.until(lambda: "without a worktree, it changes the files of shop/" in effect_of(stage))
        await stage.press("enter", shows=DashboardScreen)
        await dialog(stage)
        await stage.until(lambda: stage.one(Input, "#on").value == str(here / "shop"))
        await stage.write("Fix it x2")
        await stage.until(lambda: "a worktree each, on the branch zoea/NAME, of" in effect_of(stage))
        await stage.press("enter", shows=DashboardScreen)
        await dialog(stage)
        stage.one(Input, "#on").value = "plain"
        await stage.until(lambda: "without a worktree, it changes the files of plain" in effect_of(stage))
        await stage.press("enter", shows=DashboardScreen)
        await stage.until(lambda: len(stage.app.feed.myses) == 7)
        shop, plain = str(here / "shop"), str(here / "plain")
        assert asked == [("coder", shop, False), *[("coder", shop, True)] * 2, ("coder", plain, False)]


async def a_folder_that_cannot_be_is_left_to_the_swarm(stage: Stage, typed: str) -> None:
    await dialog(stage)
    stage.one(Input, "#on").value = typed
    await stage.until(lambda: f"it changes the files of {typed}"[:40] in effect_of(stage))
    await stage.press("enter")
    await stage.until(lambda: stage.shows(DashboardScreen))  # the swarm refuses it, where it works on files


async def a_provider_that_is_gone_is_not_chosen_again_nor_its_model(stage: Stage) -> None:
    stage.app.drafts.keep(LAST_CHOICES, '{"provider": "gone", "model": "large", "template": 3}')
    await dialog(stage)
    assert (stage.one(InlineChoice, "#provider").value, stage.one(Input, "#model").value) == ("", "")


def test_templates_for_the_sandbox_world_are_offered_where_it_runs(tmp_path: Path) -> None:
    where = places()
    where.templates.mkdir(parents=True)
    (where.templates / "mine.toml").write_text('extends = "miner"\n')

    def offered(chosen: str = "") -> set[str]:
        return {one.name for one in read_options(where, tmp_path / "no.db", 0, chosen).templates}

    of_world = {"reef", "miner", "scout", "trader"}
    assert not offered() & of_world
    assert "mine" in offered(), "a person's own stays"
    assert offered("miner") & of_world == {"miner"}
    where.data.mkdir(parents=True, exist_ok=True)
    where.world.touch()
    assert offered() >= of_world


async def test_the_form_creates_what_it_says_and_keeps_what_was_typed(tmp_path: Path) -> None:
    tasks = [("Find iron", ""), ("Find iron x2", ""), ("Find iron", "Dig"), ("Find iron x2", "Dig")]
    async with cockpit(tmp_path) as stage:
        await fill_forms(
            stage,
            enter_alone_creates_a_running_mysis_with_a_generated_name,
            more_myses_than_the_swarm_holds_are_announced_before_enter,
            a_count_that_is_too_large_is_told_as_text,
            a_refused_name_is_reported_in_the_form_and_can_be_corrected,
            escape_creates_no_mysis,
            a_click_takes_the_next_choice,
            what_the_command_line_gave_is_chosen_first,
            a_typed_line_uses_what_the_command_line_gave,
            a_provider_that_is_gone_is_not_chosen_again_nor_its_model,
            a_model_is_not_asked_for_where_the_autopilot_plays,
            the_form_says_what_the_first_request_costs,
            many_lines_are_pasted_whole_and_make_one_task,
            numbered_parts_go_to_a_mysis_each_and_one_key_removes_them,
            a_form_for_many_closes_at_the_first_and_the_others_follow,
            what_is_refused_at_once_behind_the_first_is_told_too,
            *(
                partial(a_form_left_before_its_first_mysis_keeps_only_the_text_of_another, task=task, next_task=other)
                for task, other in tasks
            ),
            every_field_of_the_form_reaches_the_new_mysis,
            the_last_choices_are_chosen_again_and_a_typed_task_is_kept,
            without_a_recent_broadcast_there_is_no_first_message,
            a_broadcast_is_offered_with_its_age_and_sent_only_where_it_is_chosen,
        )


async def test_files_and_folders_are_completed_in_the_form(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await fill_forms(
            stage,
            tab_completes_the_path_of_a_file,
            a_part_of_a_name_finds_the_files_of_a_repository_in_any_folder,
            a_task_typed_while_its_folder_is_looked_at_does_not_end_the_look,
            a_folder_is_completed_and_several_never_share_a_checkout,
            *(
                partial(a_folder_that_cannot_be_is_left_to_the_swarm, typed=typed)
                for typed in ("~no-such-user/x", "a" * 300)
            ),
        )


async def test_in_a_small_terminal_the_form_is_whole(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(80, 24)) as stage:
        await fill_forms(
            stage,
            everything_fits_at_eighty_by_twenty_four,
            the_chosen_template_is_told_whole_below_the_task,
            invalid_settings_are_reported_in_the_dialog,
        )


async def test_tasks_for_more_myses_than_the_swarm_takes_are_kept_for_the_others(tmp_path: Path) -> None:
    settings = Settings.model_validate({"nudge": {"enabled": False}, "swarm": {"max_myses": 5}})  # not of the file
    async with cockpit(tmp_path, settings=settings) as stage:
        await fill_forms(
            stage,
            what_is_refused_after_a_form_for_many_closed_is_told_and_its_text_kept,
            where_some_are_refused_the_text_is_for_the_others,
        )
