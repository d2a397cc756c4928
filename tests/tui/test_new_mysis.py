"""The form that creates a mysis."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import force_setattr
from textual.widgets import Input, OptionList

from tests.tui.cockpit import WITHIN_S, Stage, cockpit
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


def effect_of(stage: Stage) -> str:
    return stage.one(TextBlock, "#effect").plain


async def test_enter_alone_creates_a_running_mysis_with_a_generated_name(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await dialog(stage)
        await stage.press("enter", until=lambda: len(stage.app.feed.myses) == 4)
        made = next(v for v in stage.app.feed.myses.values() if v.name not in ("alpha", "beta", "gamma"))
        assert made.name
        await stage.until(lambda: stage.view(made.name).state is MysisState.RUNNING)  # it is there before it is started
        await stage.until(lambda: stage.shows(DashboardScreen))


async def test_more_myses_than_the_swarm_holds_are_announced_before_enter(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await dialog(stage)
        await stage.write("Scan x14")
        effect = stage.one(TextBlock, "#effect")
        await stage.until(lambda: "only 13 of them fit: the swarm holds at most 16" in effect.plain)
        await stage.press("backspace", "3", until=lambda: "13 myses" in effect.plain and "fit" not in effect.plain)


async def test_every_field_of_the_form_reaches_the_new_mysis(tmp_path: Path) -> None:
    (tmp_path / "reef.db").touch()  # its templates are offered
    async with cockpit(tmp_path) as stage:
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


async def test_a_refused_name_is_reported_in_the_form_and_can_be_corrected(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await dialog(stage)
        await stage.press("tab")
        await stage.enter("alpha")
        await stage.until(lambda: "Name refused" in stage.one(TextBlock, "#error").plain)
        assert stage.shows(NewMysisDialog)
        stage.one(Input, "#name").value = "alphb"
        await stage.press("enter", until=lambda: stage.has("alphb"))


async def test_a_broadcast_is_offered_with_its_age_and_sent_only_where_it_is_chosen(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await stage.api.broadcast("Mine iron")
        stage.clock.by(125)
        await dialog(stage)
        await stage.press("tab", shows="also send      ‹ no broadcast ›")
        await stage.enter("delta")
        await stage.until(lambda: stage.has("delta"))
        assert await stage.swarm.value("SELECT count(*) FROM delivery WHERE mysis_id = 4") == 0
        await dialog(stage)
        await stage.press("tab")
        await stage.write("echo")
        stage.one(InlineChoice, "#broadcast").focus()
        await stage.press("right", shows="first your broadcast of 2 min ago: Mine iron")
        await stage.press("enter", until=lambda: stage.has("echo") and stage.view("echo").turns == 1)


async def test_without_a_recent_broadcast_there_is_no_first_message(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await dialog(stage)
        await stage.press("tab", shows="also send      no broadcast")


async def test_escape_creates_no_mysis(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await dialog(stage)
        await stage.press("tab")
        await stage.write("delta")
        await stage.press("escape")
        assert stage.shows(DashboardScreen)
        assert not stage.has("delta")


async def test_a_click_takes_the_next_choice(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await dialog(stage)
        await stage.press("tab")
        assert stage.one(InlineChoice, "#start").value == "yes"
        await stage.pilot.click("#start")
        assert stage.one(InlineChoice, "#start").value == "no"


async def test_everything_fits_at_eighty_by_twenty_four(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(80, 24)) as stage:
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


async def test_what_the_command_line_gave_is_chosen_first(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        stage.app.new_myses = StartOptions(template="miner", provider="embedded", model="qwen")
        await dialog(stage)
        assert stage.one(InlineChoice, "#provider").value == "embedded"
        await stage.press("enter", until=lambda: len(stage.app.feed.myses) == 4)
        made = next(v for v in stage.app.feed.myses.values() if v.name not in ("alpha", "beta", "gamma"))
        assert (made.template, made.provider, made.model) == ("miner", "embedded", "qwen")


async def test_a_typed_line_uses_what_the_command_line_gave(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        stage.app.new_myses = StartOptions(provider="embedded", model="qwen")
        await stage.enter(":new delta miner")
        await stage.until(lambda: stage.has("delta"))
        made = stage.view("delta")
        assert (made.template, made.provider, made.model) == ("miner", "embedded", "qwen")


async def test_invalid_settings_are_reported_in_the_dialog(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
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


async def test_a_model_is_not_asked_for_where_the_autopilot_plays(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await dialog(stage)
        await stage.press("tab")
        stage.one(InlineChoice, "#provider").choose("autopilot")
        await stage.until(lambda: "none: the autopilot needs no model" in stage.text())
        assert "work on files needs a model" not in effect_of(stage)
        stage.one(Input, "#on").value = str(tmp_path)
        await stage.until(lambda: "work on files needs a model" in effect_of(stage))


async def test_many_lines_are_pasted_whole_and_make_one_task(tmp_path: Path) -> None:
    text = "\n".join(f"line {number} of [/] the log" for number in range(300))
    async with cockpit(tmp_path) as stage:
        await dialog(stage)
        await stage.write("Explain:\n")
        await stage.read_at_once(f"\x1b[200~{text}\x1b[201~")
        await stage.until(lambda: "300 lines" in stage.text())
        await stage.press("enter", until=lambda: len(stage.app.feed.myses) == 4)
        assert await stage.swarm.value("SELECT goal FROM mysis WHERE id = 4") == f"Explain:\n{text}"


async def test_the_chosen_template_is_told_whole_below_the_task(tmp_path: Path) -> None:
    async with cockpit(tmp_path, size=(80, 24)) as stage:
        await stage.press("n", until=lambda: "▸ default" in stage.text())
        assert "default: " not in stage.text()
        await stage.press("tab", until=lambda: "default: Works with any tools" in stage.text())
        await stage.press("tab", "down", "down")
        await stage.until(lambda: "coder: Changes code and tests it; asks before commands" in stage.text())
        assert "Changes code and tests i…" in stage.text()


async def test_a_count_that_is_too_large_is_told_as_text(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await dialog(stage)
        await stage.write("Find iron x300")
        await stage.until(lambda: "1 mysis: the number at the end is text, x99 is the most" in stage.text())


async def test_numbered_parts_go_to_a_mysis_each_and_one_key_removes_them(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        await dialog(stage)
        await stage.write("Read a.txt\n1. Count words\n2. Count lines\n")
        await stage.until(lambda: "1 mysis gets all 2 parts; x2 at the end makes 2" in stage.text())
        await stage.write("x2")
        await stage.until(lambda: "2 myses, a numbered part each" in stage.text())
        await stage.press("enter", until=lambda: len(stage.app.feed.myses) == 5)
        goals = await stage.swarm.rows("SELECT goal FROM mysis WHERE id > 3 ORDER BY id")
        assert [row["goal"] for row in goals] == ["Read a.txt\nCount words", "Read a.txt\nCount lines"]
        await stage.until(lambda: stage.shows(DashboardScreen))
        await stage.press("z", until=lambda: len(stage.app.feed.myses) == 3)


async def test_a_form_for_many_closes_at_the_first_and_the_others_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, others, calls = asyncio.Event(), asyncio.Event(), list[Any]()
    async with cockpit(tmp_path) as stage:
        create = stage.api.create

        async def slow_create(*names: Any, **more: Any) -> Any:
            calls.append(names)
            await (first if len(calls) == 1 else others).wait()
            return await create(*names, **more)

        monkeypatch.setattr(stage.app.api, "create", slow_create)
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


async def test_where_some_are_refused_the_text_is_for_the_others(tmp_path: Path) -> None:
    settings = Settings.model_validate({"nudge": {"enabled": False}, "swarm": {"max_myses": 16}})
    async with cockpit(tmp_path, settings=settings) as stage:
        await dialog(stage)
        await stage.enter("Find iron x15")
        await stage.until(lambda: "max myses (16) reached" in stage.one(TextBlock, "#error").plain)
        await stage.until(lambda: len(stage.app.feed.myses) == 16)
        assert stage.one(TaskText).full_text == "Find iron\nx2"
        await stage.press("escape", "n", shows=NewMysisDialog)
        assert stage.one(TaskText).full_text == "Find iron\nx2"


async def test_what_is_refused_after_a_form_for_many_closed_is_told_and_its_text_kept(tmp_path: Path) -> None:
    settings = Settings.model_validate({"nudge": {"enabled": False}, "swarm": {"max_myses": 5}})  # not of the file
    async with cockpit(tmp_path, settings=settings) as stage:
        await dialog(stage)
        await stage.enter("Find iron x4")
        await stage.until(lambda: any("max myses (5) reached" in notice for notice in stage.notices))
        await stage.until(lambda: len(stage.app.feed.myses) == 5)
        await stage.press("n", shows=NewMysisDialog)
        assert stage.one(TaskText).full_text == "Find iron\nx2"


async def test_what_is_refused_at_once_behind_the_first_is_told_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cockpit(tmp_path) as stage:
        create, made = stage.api.create, list[Any]()

        async def create_one(*names: Any, **more: Any) -> Any:
            if made:
                raise UsageError("there is no more room")
            made.append(await create(*names, **more))
            return made[0]

        monkeypatch.setattr(stage.app.api, "create", create_one)
        await dialog(stage)
        await stage.enter("Find iron x3")
        await stage.until(lambda: any("there is no more room" in notice for notice in stage.notices))
        await stage.until(lambda: stage.shows(DashboardScreen))
        assert stage.app.drafts.of(NEW_MYSIS) == "Find iron\nx2"


@pytest.mark.parametrize(
    ("task", "next_task"), [("Find iron", ""), ("Find iron x2", ""), ("Find iron", "Dig"), ("Find iron x2", "Dig")]
)
async def test_a_form_left_before_its_first_mysis_keeps_only_the_text_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, next_task: str
) -> None:
    may_create = asyncio.Event()
    async with cockpit(tmp_path) as stage:
        create = stage.api.create

        async def slow_create(*names: Any, **more: Any) -> Any:
            await may_create.wait()
            return await create(*names, **more)

        monkeypatch.setattr(stage.app.api, "create", slow_create)
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


async def test_the_last_choices_are_chosen_again_and_a_typed_task_is_kept(tmp_path: Path) -> None:
    (tmp_path / "reef.db").touch()  # its templates are offered
    async with cockpit(tmp_path) as stage:
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


async def test_the_form_says_what_the_first_request_costs(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        stage.app.new_myses = StartOptions(provider="anthropic", model="claude-opus-5")
        await dialog(stage)
        await stage.write("Find iron x2")
        await stage.until(lambda: "in all, about $0.0" in stage.text() and ", plus tools" in stage.text())
        stage.one(InlineChoice, "#provider").choose("autopilot")
        await stage.until(lambda: "in all, at no cost" in stage.text())


async def test_tab_completes_the_path_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop").mkdir()
    for name in ("shop/pricing.py", "shop/prices [b].txt", "shop/\x1b[2J.py", "shop/.hidden", "short.md"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    async with cockpit(tmp_path) as stage:
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


async def test_a_part_of_a_name_finds_the_files_of_a_repository_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("repo/.git", "repo/source/shop", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    for name in (
        "source/shop/pricing.py",
        "source/shop/old_pricing.py",
        "source/a pricing.py",
        "source/pri\x1b[2Jcing.py",
    ):
        (tmp_path / "repo" / name).write_text("")
    monkeypatch.chdir(tmp_path / "elsewhere")
    async with cockpit(tmp_path) as stage:
        await dialog(stage)
        stage.one(Input, "#on").value = str(tmp_path / "repo")
        await stage.write("Read @pric")
        await stage.until(lambda: "@source/shop/old_pricing.py" in stage.text() or "source/shop/old" in stage.text())
        assert "a pricing" not in stage.text()
        await stage.press("tab")
        assert stage.one(TaskText).text == "Read @source/shop/pricing.py "
        await stage.write("and @shop/old")  # any part of a path
        await stage.until(lambda: "@source/shop/old_pricing.py" in stage.text())
        await stage.press("tab")
        assert stage.one(TaskText).text == "Read @source/shop/pricing.py and @source/shop/old_pricing.py "


async def test_a_task_typed_while_its_folder_is_looked_at_does_not_end_the_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def find_slowly(folder: str) -> Path | None:
        begun.set()
        goes_on.wait(WITHIN_S)
        return find_repository(folder)

    (tmp_path / "shop/.git").mkdir(parents=True)
    async with cockpit(tmp_path) as stage:
        await dialog(stage)
        monkeypatch.setattr("zoea.tui.dialogs.new_mysis.find_repository", find_slowly)
        stage.one(Input, "#on").value = str(tmp_path / "shop")
        await stage.until(begun.is_set)
        stage.one(TaskText).insert("Fix it")
        await stage.until(lambda: stage.one(TaskText).typed_file is None)
        goes_on.set()
        await stage.until(lambda: "a worktree, on the branch zoea/NAME, of" in effect_of(stage))


async def test_a_folder_is_completed_and_several_never_share_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("shop/.git", "shop/source", "plain"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    async with cockpit(tmp_path) as stage:
        create, asked = stage.api.create, list[tuple[str, str, bool]]()

        async def listen(name: str, **more: Any) -> MysisView:
            asked.append((more["template"], more.pop("on"), more.pop("worktree")))
            return await create(name, **more)

        monkeypatch.setattr(stage.app.api, "create", listen)
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
        await stage.until(lambda: stage.one(Input, "#on").value == str(tmp_path / "shop"))
        await stage.write("Fix it x2")
        await stage.until(lambda: "a worktree each, on the branch zoea/NAME, of" in effect_of(stage))
        await stage.press("enter", shows=DashboardScreen)
        await dialog(stage)
        stage.one(Input, "#on").value = "plain"
        await stage.until(lambda: "without a worktree, it changes the files of plain" in effect_of(stage))
        await stage.press("enter", shows=DashboardScreen)
        shop, plain = str(tmp_path / "shop"), str(tmp_path / "plain")
        assert asked == [("coder", shop, False), *[("coder", shop, True)] * 2, ("coder", plain, False)]


@pytest.mark.parametrize("typed", ["~no-such-user/x", "a" * 300])
async def test_a_folder_that_cannot_be_is_left_to_the_swarm(tmp_path: Path, typed: str) -> None:
    async with cockpit(tmp_path) as stage:
        await dialog(stage)
        stage.one(Input, "#on").value = typed
        await stage.until(lambda: f"it changes the files of {typed}"[:40] in effect_of(stage))
        await stage.press("enter")
        await stage.until(lambda: stage.shows(DashboardScreen))  # the swarm refuses it, where it works on files


async def test_a_provider_that_is_gone_is_not_chosen_again_nor_its_model(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
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
