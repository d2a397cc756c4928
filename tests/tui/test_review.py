"""The review of what a mysis changed in its worktree, with the installed git."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import force_setattr

from tests.files.repositories import commit, git, make_repository, state
from tests.tui.cockpit import START, Stage, cockpit, take_steps
from tests.tui.hostile_texts import HOSTILE, is_harmless
from zoea.files.worktrees import Worktrees
from zoea.queries.broadcasts import read_commander_messages
from zoea.queries.change_origins import HunkOrigin
from zoea.settings.paths import Places
from zoea.tui.dialogs.commit_forms import WorktreeCommitDialog
from zoea.tui.dialogs.modal import ConfirmDialog
from zoea.tui.screens import review
from zoea.tui.screens.dashboard import DashboardScreen
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.screens.review import ReviewScreen
from zoea.tui.state import worktree_access
from zoea.tui.state.worktree_access import FileCounts
from zoea.tui.widgets.line_list import LineList, TextLines
from zoea.tui.widgets.message_prompt import MessagePrompt
from zoea.tui.widgets.swarm_table import SwarmTable

SHOP = "import math\n\n\ndef total(items):\n    return sum(i.price for i in items)\n"


@asynccontextmanager
async def reviewed(tmp_path: Path, *names: str, **more: Any) -> AsyncIterator[tuple[Stage, Path, dict[str, Path]]]:
    """Run a cockpit whose myses have worktrees of one repository."""
    repository = make_repository(tmp_path / "repository", shop__py=SHOP, notes__txt="one\ntwo\nthree\n")
    async with cockpit(tmp_path, **more) as stage:
        trees = Worktrees(stage.app.places.data)
        folders = {name: trees.owned.path(trees.make(name, repository).name) for name in names or ("alpha",)}
        yield stage, repository, folders


def find_worktree(stage: Stage) -> Path:
    """Return the worktree of alpha."""
    return Worktrees(stage.app.places.data).owned.path("alpha")


def change(folder: Path) -> None:
    """Change two files as a turn does."""
    commit(folder, "cents", shop__py=SHOP.replace("i.price", "cents(i)"), notes__txt="one\n2\nthree\nfour\n")


def lines(stage: Stage) -> str:
    return stage.one(LineList, "#changes").plain


def has_line(stage: Stage, text: str) -> bool:
    return text in lines(stage)


def said(stage: Stage) -> str:
    return stage.one(TextLines).plain


async def open_review(stage: Stage, text: str = "return sum") -> None:
    await stage.press("f", until=lambda: stage.shows(ReviewScreen) and text in lines(stage))


async def the_change_is_shown_by_file_and_folds(stage: Stage) -> None:
    new = find_worktree(stage) / "new.txt"
    new.write_text("not committed\n")
    await open_review(stage)
    assert "notes.txt  +2 -1" in lines(stage)
    assert "    2       -two" in lines(stage)
    assert "          2 +2" in lines(stage)
    assert "+not committed" in lines(stage)
    assert "+4 -2, 3 files · zoea/alpha from main" in stage.text()
    await stage.press("enter", until=lambda: "not committed" not in lines(stage))
    assert "new.txt  +1 -0" in lines(stage)
    await stage.press("enter", until=lambda: "not committed" in lines(stage))
    await stage.press("v", until=lambda: "@@" not in lines(stage))
    assert [line.split()[1] for line in lines(stage).split("\n")] == ["new.txt", "notes.txt", "shop.py"]
    await stage.press("v", until=lambda: "@@" in lines(stage))
    await stage.press("right_square_bracket")
    first = stage.one(LineList, "#changes").place
    await stage.press("right_square_bracket")
    assert stage.one(LineList, "#changes").place > first
    await stage.press("left_square_bracket")
    assert stage.one(LineList, "#changes").place == first
    await stage.press("escape")
    assert stage.shows(DashboardScreen)
    new.unlink()


async def test_a_change_that_needs_a_scrollbar_is_laid_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out: list[object] = []
    lay_out = review._lay_out

    def count(*given: Any) -> Any:
        laid_out.append(given)
        return lay_out(*given)

    monkeypatch.setattr(review, "_lay_out", count)
    async with reviewed(tmp_path) as (stage, _, folders):
        (folders["alpha"] / "new.txt").write_text("a line\n" * 500)
        await open_review(stage, "a line")
        assert stage.one(LineList, "#changes").show_vertical_scrollbar
        assert len(laid_out) == 1


async def f_opens_the_review_from_a_conversation(stage: Stage) -> None:
    await stage.press("enter", shows=FocusScreen)
    await open_review(stage)
    await stage.press("escape")
    assert stage.shows(FocusScreen)


async def a_changed_place_names_its_turns_and_its_approval(stage: Stage) -> None:
    for answer, is_command, words in (
        ("once", False, "allowed by you "),
        ("template", False, "by your grant of "),
        ("once", True, "a command · allowed by you "),
    ):
        origins = {
            (0, 0): HunkOrigin((3, 7), START, answer, is_command=is_command),
            (1, 0): HunkOrigin((), 0, "", is_committed=False),
        }
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(worktree_access, "read_change_origins", lambda *given, found=origins: found)
            await open_review(stage)
            await stage.until(partial(has_line, stage, f"turn 3, 7 · {words}"))
            assert "def total(items):" in lines(stage)
            assert "not committed" in lines(stage)
            await stage.press("escape", shows=DashboardScreen)


async def both_sides_stand_side_by_side_where_there_is_room(stage: Stage) -> None:
    await stage.pilot.resize_terminal(170, 40)
    await open_review(stage)
    changes = stage.one(LineList, "#changes")
    [row] = [line for line in lines(stage).split("\n") if "i.price" in line]
    assert row.split() == ["5", "-", *["return", "sum(i.price", "for", "i", "in", "items)"], "│", "5", "+",
                           *["return", "sum(cents(i)", "for", "i", "in", "items)"]]  # fmt: skip
    await stage.press("slash")
    await stage.enter("cents")
    await stage.until(lambda: "cents(i)" in changes.text_of(changes.place))
    await stage.press("w", until=lambda: "│" not in lines(stage))
    assert "cents(i)" in changes.text_of(changes.place)
    await stage.press("escape", "space", "up", "w", until=lambda: "│" in lines(stage))
    await stage.press("s", until=lambda: stage.one(MessagePrompt).text == "shop.py:5: ")
    await stage.pilot.resize_terminal(120, 40)


async def test_d_shows_the_changes_of_a_worktree_and_there_the_report(tmp_path: Path) -> None:
    async with reviewed(tmp_path, "alpha", "beta") as (stage, _, folders):
        change(folders["alpha"])
        for name in ("alpha", "beta"):
            force_setattr(stage.view(name), "works_on", "worktree of /repository")
        await stage.press("asterisk", "d", until=lambda: stage.shows(ReviewScreen) and "return sum" in lines(stage))
        await stage.press("greater_than_sign", shows="CHANGES OF beta")
        await stage.press("d", until=lambda: stage.shows(FocusScreen) and "RESULT" in stage.text())
        await stage.press("escape", shows=ReviewScreen)


async def test_without_a_worktree_or_a_change_the_review_says_so(tmp_path: Path) -> None:
    async with reviewed(tmp_path) as (stage, _, _):
        await open_review(stage, "Nothing changed")
        await stage.press("greater_than_sign", until=lambda: "Zoea made no worktree for beta" in lines(stage))
        await stage.press("less_than_sign", until=lambda: "Nothing changed" in lines(stage))


async def words_are_found_also_in_a_folded_file(stage: Stage) -> None:
    await open_review(stage)
    await stage.press("v", "slash")
    await stage.enter("SUM")
    await stage.until(lambda: "return sum(i.price" in lines(stage))
    assert "-    return sum(i.price" in stage.one(LineList, "#changes").text_of(stage.one(LineList, "#changes").place)
    await stage.press("n", shows="2 of 2")
    assert "cents(i)" in stage.one(LineList, "#changes").text_of(stage.one(LineList, "#changes").place)
    await stage.press("N", shows="1 of 2")
    await stage.press("escape", until=lambda: "1 of 2" not in stage.text())
    assert stage.shows(ReviewScreen)


async def test_m_merges_after_a_question_and_says_what_the_command_says(tmp_path: Path) -> None:
    async with reviewed(tmp_path) as (stage, repository, folders):
        change(folders["alpha"])
        await open_review(stage)
        await stage.press("m", shows=ConfirmDialog)
        assert "Merge alpha into main?" in stage.text()
        await stage.press("y", until=lambda: "alpha is merged into main:" in said(stage))
        assert (repository / "notes.txt").read_text() == "one\n2\nthree\nfour\n"
        await stage.until(lambda: "Nothing changed" in lines(stage))


async def test_a_refused_merge_changes_nothing_and_says_why(tmp_path: Path) -> None:
    async with reviewed(tmp_path) as (stage, repository, folders):
        change(folders["alpha"])
        (repository / "notes.txt").write_text("mine\n")
        before = state(repository)
        await open_review(stage)
        await stage.press("m", shows=ConfirmDialog)
        await stage.press("y", until=lambda: "has uncommitted changes: notes.txt" in " ".join(said(stage).split()))
        assert "alpha was not merged" in said(stage)
        assert state(repository) == before


async def test_the_check_of_a_merge_runs_while_the_cockpit_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOEA_FILES__CHECK", "grep -c cents shop.py; test ! -f new.txt")
    async with reviewed(tmp_path) as (stage, repository, folders):
        change(folders["alpha"])
        commit(folders["alpha"], "more", new__txt="new\n")
        await open_review(stage)
        for words in ("failed with exit code 1", "alpha is merged into main:"):
            await stage.press("m", shows=ConfirmDialog)
            await stage.press("y")
            await stage.until(lambda words=words: words in " ".join(said(stage).split()))  # type: ignore[misc]  # a default
            (folders["alpha"] / "new.txt").unlink(missing_ok=True)
            commit(folders["alpha"], "less")
        assert not (repository / "new.txt").exists()


async def test_s_after_a_conflict_gives_it_to_its_mysis(tmp_path: Path) -> None:
    async with reviewed(tmp_path) as (stage, repository, folders):
        change(folders["alpha"])
        commit(repository, "mine", notes__txt="one\nzwei\nthree\n")
        await open_review(stage)
        await stage.press("m", shows=ConfirmDialog)
        await stage.press("y", until=lambda: "alpha was not merged" in said(stage))
        await stage.press("s", until=lambda: stage.one(MessagePrompt).is_open)
        assert "Your branch and main changed the same in notes.txt." in stage.one(MessagePrompt).text
        assert "<<<<<<< HEAD\n2\n=======\nzwei\n>>>>>>> " in stage.one(MessagePrompt).text
        await stage.press("enter", until=lambda: not stage.one(MessagePrompt).is_open)
        assert read_commander_messages(stage.swarm.path)[-1].startswith("Your branch and main")
        await stage.swarm.settled("alpha")
        assert "=======" in (folders["alpha"] / "notes.txt").read_text()


async def test_the_question_offers_to_merge_all_that_are_done(tmp_path: Path) -> None:
    async with reviewed(tmp_path, "alpha", "beta", "gamma") as (stage, _, folders):
        commit(folders["alpha"], "a", a__txt="a\n")
        commit(folders["beta"], "b", b__txt="b\n")
        await open_review(stage, "a.txt")
        await stage.press("m", shows=ConfirmDialog)
        assert "merge all" not in stage.text()
        await stage.press("a", "escape", shows=ReviewScreen)
        force_setattr(stage.view("beta"), "state_reason", "done")
        await stage.press("m", shows=ConfirmDialog)
        assert "Done too: beta. One after the other" in stage.text()
        await stage.press("a", until=lambda: "beta is merged into main" in said(stage))
        assert "alpha is merged into main" in said(stage)
        commit(folders["alpha"], "more", a__txt="more\n")
        await stage.press("m", shows=ConfirmDialog)
        assert "Done too" not in stage.text()


async def test_marked_myses_are_merged_one_after_the_other(tmp_path: Path) -> None:
    async with reviewed(tmp_path, "alpha", "beta") as (stage, repository, folders):
        commit(folders["alpha"], "a", a__txt="a\n")
        commit(folders["beta"], "b", b__txt="b\n")
        await stage.press("asterisk")
        await open_review(stage, "a.txt")
        await stage.press("m", shows=ConfirmDialog)
        assert "Merge alpha, beta?" in stage.text()
        await stage.press("y", until=lambda: "beta is merged into main" in said(stage))
        assert "alpha is merged into main" in said(stage)
        assert (repository / "a.txt").exists()
        assert (repository / "b.txt").exists()


async def test_hidden_characters_of_names_and_lines_are_shown_at_every_step(tmp_path: Path) -> None:
    """A file, a branch and their lines may hold anything. A newline of a name forges no line."""
    async with reviewed(tmp_path) as (stage, repository, _):
        git(repository, "checkout", "-q", "-b", "ma\u202ein\u200b")
        trees = Worktrees(stage.app.places.data)
        trees.drop("alpha", force=True)
        folder = trees.owned.path(trees.make("alpha", repository).name)
        name = "a\x1b[31m\u202eb\n+forged.txt"
        shown = r"a\u001b[31m\u202eb +forged.txt"
        (folder / name).write_text("\n".join(HOSTILE) + "\n")
        (repository / name).write_text("mine\n")
        git(repository, "add", "-A")
        git(repository, "commit", "-q", "-m", "mine")
        trees.commit("alpha", "work")
        await open_review(stage, shown)
        seen = [stage.text(), lines(stage)]
        assert r"from ma\u202ein\u200b" in stage.text()
        assert r"+\u202eright to left\u202c" in lines(stage)
        await stage.press("s", until=lambda: stage.one(MessagePrompt).is_open)
        assert stage.one(MessagePrompt).text == f"{shown}: "
        seen.append(stage.text())
        await stage.press("escape", until=lambda: not stage.one(MessagePrompt).is_open)
        for key, done in (("D", "holds work"), ("m", "changed the same in")):
            await stage.press(key, shows=ConfirmDialog)
            seen.append(stage.text())
            await stage.press("y")
            await stage.until(lambda done=done: done in " ".join(said(stage).split()))  # type: ignore[misc]  # a default
            seen += [stage.text(), said(stage)]
        assert r"Merge alpha into ma\u202ein\u200b?" in "".join(seen)
        assert rf"changed the same in {shown}" in " ".join(said(stage).split())
        assert r"new\u2028line" in said(stage)
        assert all(is_harmless(text) and "\u202e" not in text and "\n+forged" not in text for text in seen)


async def s_sends_a_sentence_about_the_marked_lines(stage: Stage) -> None:
    await open_review(stage)
    await stage.press("right_square_bracket", "down", "space", "down", "down", "s")
    await stage.until(lambda: stage.one(MessagePrompt).is_open)
    assert stage.one(MessagePrompt).text == "notes.txt:1-2: "
    await stage.enter("say why")
    await stage.until(lambda: not stage.one(MessagePrompt).is_open)
    assert read_commander_messages(stage.swarm.path)[-1] == "notes.txt:1-2: say why"
    await stage.swarm.settled("alpha")


async def test_drop_keeps_work_and_removes_a_worktree_without_it(tmp_path: Path) -> None:
    async with reviewed(tmp_path) as (stage, _, folders):
        (folders["alpha"] / "new.txt").write_text("new\n")
        await open_review(stage, "new.txt")
        await stage.press("D", shows=ConfirmDialog)
        await stage.press("y", until=lambda: "holds work: 1 uncommitted: new.txt" in said(stage))
        (folders["alpha"] / "new.txt").unlink()
        await stage.press("D", shows=ConfirmDialog)
        await stage.press("y", until=lambda: "alpha dropped; its last commit was" in said(stage))
        assert not folders["alpha"].exists()


def is_told(stage: Stage, text: str) -> bool:
    return any(text in one for one in stage.notices)


def is_target(stage: Stage, name: str) -> bool:
    assert isinstance(stage.screen, DashboardScreen)
    return [view.name for view in stage.screen.targets()] == [name]


async def test_a_deletion_names_the_worktree_that_stayed(tmp_path: Path) -> None:
    async with reviewed(tmp_path, "beta") as (stage, _, folders):
        for name in ("alpha", "beta"):
            assert not any("worktree" in one for one in stage.notices)
            # A deletion is told before its row is gone, and until then the key concerns the deleted mysis.
            await stage.until(partial(is_target, stage, name))
            await stage.press("D", shows=ConfirmDialog)
            await stage.press("y", until=partial(is_told, stage, f"{name} is deleted"))
        await stage.until(lambda: any("worktree" in one for one in stage.notices))
        assert f"Its worktree holds work and stays: {folders['beta']}. `zoea merge beta` keeps" in stage.notices[-1]


async def test_c_commits_with_a_message(tmp_path: Path) -> None:
    async with reviewed(tmp_path) as (stage, _, folders):
        (folders["alpha"] / "new.txt").write_text("new\n")
        await open_review(stage, "new.txt")
        await stage.press("c", shows=WorktreeCommitDialog)
        await stage.press("enter", shows="A commit needs a message")
        await stage.enter("by hand")
        await stage.until(lambda: stage.shows(ReviewScreen) and "alpha is committed:" in said(stage))
        assert git(folders["alpha"], "log", "-1", "--format=%s") == "by hand"


async def test_e_opens_the_file_at_its_line_but_no_link_that_leads_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "vi"
    editor.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    async with reviewed(tmp_path) as (stage, _, folders):
        change(folders["alpha"])
        (folders["alpha"] / "a.link").symlink_to(tmp_path / "vi")
        with monkeypatch.context() as patched:
            patched.setattr(stage.app, "suspend", nullcontext)
            await open_review(stage, "a.link")
            await stage.press("e", until=lambda: any("is no file in the worktree" in one for one in stage.notices))
            assert not (tmp_path / "arguments").exists()
            await stage.press("right_square_bracket", "right_square_bracket", "down", "e")
            await stage.until((tmp_path / "arguments").exists)
        assert (tmp_path / "arguments").read_text() == f"+1 {folders['alpha']}/notes.txt\n"


async def test_ten_thousand_lines_open_and_scroll_soon(tmp_path: Path) -> None:
    async with reviewed(tmp_path) as (stage, _, folders):
        (folders["alpha"] / "big.txt").write_text("".join(f"line {number} of many\n" for number in range(10_000)))
        await open_review(stage, "line 9 of many")
        await stage.press("G", shows="line 9999 of many")


async def test_a_read_only_cockpit_changes_nothing(tmp_path: Path) -> None:
    async with reviewed(tmp_path, read_only_reason="this cockpit only shows") as (stage, _, folders):
        change(folders["alpha"])
        await open_review(stage)
        for key in ("m", "D", "c", "s", "e"):
            await stage.press(key)
            assert stage.shows(ReviewScreen)
        assert sum("his cockpit only shows" in one for one in stage.notices) == 5


async def test_the_list_shows_what_myses_changed_while_one_did(tmp_path: Path) -> None:
    async with reviewed(tmp_path, "alpha", "beta") as (stage, repository, folders):
        stage.app.tick()
        await stage.pilot.pause()
        assert " files " not in stage.text()
        change(folders["alpha"])
        stage.app.tick()
        await stage.until(lambda: "+3 -2, 2 files" in stage.text())
        assert stage.one(SwarmTable).columns.files
        git(repository, "merge", "--quiet", "--ff-only", "zoea/alpha")
        stage.app.tick()
        await stage.until(lambda: "2 files" not in stage.text())
        assert not stage.one(SwarmTable).columns.files


async def test_the_list_and_the_review_say_that_a_mysis_has_conflicts_until_it_resolves_them(tmp_path: Path) -> None:
    async with reviewed(tmp_path) as (stage, repository, folders):
        change(folders["alpha"])
        commit(repository, "mine", notes__txt="one\nzwei\nthree\n")
        stage.app.tick()
        await stage.until(lambda: "has conflicts" in stage.text())
        await open_review(stage)
        assert "+3 -2, 2 files, has conflicts · zoea/alpha from main" in stage.text()
        await stage.press("escape")
        git(folders["alpha"], "merge", "main", check=False)
        commit(folders["alpha"], "resolve", notes__txt="one\n2\nthree\n")
        stage.app.tick()
        await stage.until(lambda: "+2 -2, 2 files" in stage.text())
        assert "has conflicts" not in stage.text()


def test_a_tree_is_counted_again_only_after_a_commit_or_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = make_repository(tmp_path / "repository")
    places = Places(data=tmp_path / "data", config=tmp_path / "config", runtime=tmp_path / "run")
    counts = FileCounts()
    assert counts.read(places, {"alpha": 1}) == {}
    folder = Worktrees(places.data).owned.path(Worktrees(places.data).make("alpha", repository).name)
    commit(folder, "more", b__txt="b\n")
    assert counts.read(places, {"alpha": 1}) == {"alpha": "+1 -0, 1 file"}
    with monkeypatch.context() as patched:
        patched.setattr("zoea.files.changes.open_diff", None)
        assert counts.read(places, {"alpha": 1, "beta": 1}) == {"alpha": "+1 -0, 1 file"}
    assert counts.read(places, {"beta": 1}) == {}
    commit(folder, "still more", b__txt="b\nc\n")
    assert counts.read(places, {"alpha": 1}) == {"alpha": "+2 -0, 1 file"}
    (folder / "b.txt").write_text("b\nc\nd\n")  # by the tool of a turn that has not ended
    assert counts.read(places, {"alpha": 2}) == {"alpha": "+3 -0, 1 file"}


async def test_a_change_is_read_by_file_by_side_and_by_word(tmp_path: Path) -> None:
    async with reviewed(tmp_path) as (stage, _, folders):
        change(folders["alpha"])
        await take_steps(
            stage,
            the_change_is_shown_by_file_and_folds,
            f_opens_the_review_from_a_conversation,
            a_changed_place_names_its_turns_and_its_approval,
            s_sends_a_sentence_about_the_marked_lines,
            both_sides_stand_side_by_side_where_there_is_room,
            words_are_found_also_in_a_folded_file,
        )
