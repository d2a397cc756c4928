"""A person's keys over the defaults; clashes and invalid keys are reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documentation import build
from tests.tui.cockpit import cockpit
from zoea.tui.commands.actions import ACTIONS, BY_ID, clashes
from zoea.tui.commands.keymap import FIXED_KEYS, normal, problems, resolve_keys


def test_no_two_actions_have_one_key_in_one_place() -> None:
    assert clashes() == []


def test_no_default_is_a_key_that_cannot_be_moved() -> None:
    assert problems({action.id: action.key for action in ACTIONS}) == {}


def test_every_default_is_a_key() -> None:
    assert [action.id for action in ACTIONS if normal(action.key) != action.key] == []


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("?", "question_mark"),
        ("^f", "ctrl+f"),
        ("ctrl+f", "ctrl+f"),
        ("esc", "escape"),
        ("PgUp", "pageup"),
        ("G", "G"),
        ("+", "plus"),
        (",", "comma"),
        ("f5", "f5"),
        ("é", "é"),
        ("±", "plus_minus_sign"),
        ("§", "section_sign"),
        (" f5 ", "f5"),
        ("ctrl+shift+k", "ctrl+shift+k"),
    ],
)
def test_keys_are_read_as_people_write_them(written: str, meant: str) -> None:
    assert normal(written) == meant


@pytest.mark.parametrize("wrong", ["", " ", "foo", "ctrl+", "ctrl+foo", "hyperspace+a", "\x1b", "ab", "f99"])
def test_an_invalid_key_is_refused(wrong: str) -> None:
    assert normal(wrong) == ""
    assert "is not a key" in problems({"swarm.hold": wrong})["swarm.hold"]


def test_an_unknown_id_names_the_nearest() -> None:
    assert problems({"swarm.holt": "f5"}) == {"swarm.holt": "there is no action 'swarm.holt'; did you mean swarm.hold?"}


def test_a_clash_names_both_actions() -> None:
    said = problems({"swarm.hold": "b"})["swarm.hold"]
    assert "swarm.hold (hold all)" in said
    assert "swarm.broadcast (broadcast)" in said


def test_a_key_that_moves_the_cursor_is_taken() -> None:
    assert problems({"mysis.new": "j"}) == {"mysis.new": "j is taken: go to the next mysis"}


def test_two_actions_may_swap_their_keys() -> None:
    keys, wrong = resolve_keys({"mysis.stop": "r", "mysis.relaunch": "s"})
    assert wrong == {}
    assert (keys["mysis.stop"], keys["mysis.relaunch"]) == ("r", "s")


def test_an_action_with_an_invalid_key_keeps_its_default_and_the_others_hold() -> None:
    keys, wrong = resolve_keys({"swarm.hold": "b", "mysis.new": "f7", "no.action": "f8"})
    assert set(wrong) == {"swarm.hold", "no.action"}
    assert (keys["swarm.hold"], keys["mysis.new"]) == ("x", "f7")


@given(
    st.dictionaries(st.sampled_from([action.id for action in ACTIONS]), st.sampled_from("abcdnmsrxXo?,/") | st.text())
)
def test_no_choice_of_keys_leads_to_a_clash_in_force(chosen: dict[str, str]) -> None:
    keys, _ = resolve_keys(chosen)
    assert set(keys) == set(BY_ID)
    assert problems({action_id: key for action_id, key in keys.items() if key != BY_ID[action_id].key}) == {}


async def test_a_remapped_key_runs_its_action_and_the_old_key_does_nothing(tmp_path: Path) -> None:
    async with cockpit(tmp_path, keymap={"swarm.hold": "f9"}) as stage:
        await stage.press("x")
        assert stage.app.feed.view is not None
        assert not stage.app.feed.view.held
        await stage.press("f9")
        await stage.until(lambda: stage.app.feed.view is not None and stage.app.feed.view.held)


async def test_invalid_keys_are_reported_when_the_cockpit_opens(tmp_path: Path) -> None:
    async with cockpit(tmp_path, keymap={"swarm.hold": "b"}) as stage:
        assert any("swarm.broadcast" in notice and "swarm.hold" in notice for notice in stage.notices)


def test_the_key_reference_is_complete() -> None:
    page = (build.REFERENCE / "keys.md").read_text(encoding="utf-8")
    assert page == build.pages()["keys.md"]
    assert all(f"`{action.id}`" in page for action in ACTIONS)
    assert all(fixed.description in page for fixed in FIXED_KEYS)


def test_a_key_that_a_person_took_before_an_action_had_it_stays_theirs() -> None:
    keys, wrong = resolve_keys({"swarm.hold": "f5", "mysis.new": "+"})
    assert wrong == {}
    assert (keys["swarm.hold"], keys["mysis.new"]) == ("f5", "plus")
    assert (keys["app.reload"], keys["app.zoom"]) == ("alt+f5", "alt+plus")
