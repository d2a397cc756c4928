"""A person's keys over the defaults; clashes and invalid keys are reported."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import zoea.tui.dialogs
from documentation import build
from tests.case_tables import walk_cases
from tests.tui.cockpit import cockpit
from zoea.tui.commands.actions import ACTIONS, BY_ID
from zoea.tui.commands.keymap import DECISIONS, FIXED_KEYS, clashes, normal, problems, resolve_keys
from zoea.tui.dialogs.modal import CockpitDialog
from zoea.tui.widgets.status_bars import key_name


def test_no_two_actions_have_one_key_in_one_place() -> None:
    assert clashes() == []


def test_no_default_is_a_key_that_cannot_be_moved() -> None:
    assert problems({action.id: action.key for action in ACTIONS}) == {}


def test_every_default_is_a_key() -> None:
    assert [action.id for action in ACTIONS if normal(action.key) != action.key] == []


@walk_cases(
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


@walk_cases("wrong", ["", " ", "foo", "ctrl+", "ctrl+foo", "hyperspace+a", "\x1b", "ab", "f99"])
def test_an_invalid_key_is_refused(wrong: str) -> None:
    assert normal(wrong) == ""
    assert "is not a key" in problems({"swarm.hold": wrong})["swarm.hold"]


def test_an_unknown_id_names_the_nearest() -> None:
    assert problems({"swarm.holt": "f5"}) == {"swarm.holt": "there is no action 'swarm.holt'; did you mean swarm.hold?"}


def test_a_clash_names_both_actions() -> None:
    said = problems({"swarm.hold": "b"})["swarm.hold"]
    assert "swarm.hold (hold all)" in said
    assert "swarm.broadcast (broadcast)" in said


@walk_cases(
    ("action", "key", "use"),
    [
        ("mysis.new", "j", "go to the next line of a list or a conversation"),
        ("focus.copy", "j", "go to the next line of a list or a conversation"),
        ("log.follow", "pgdn", "go a page down"),
        ("focus.verbose", "space", "go a page down"),
        ("settings.default", "left", "go to the groups, or to the settings of one"),
        ("swarm.hold", "ctrl+q", "ask how to quit, also while you write"),
    ],
)
def test_a_key_that_a_screen_keeps_for_itself_is_taken(action: str, key: str, use: str) -> None:
    assert problems({action: key}) == {action: f"{key_name(normal(key))} is taken: {use}"}


SAME_KEYS = [
    (opener.id, key, answer)
    for decision in DECISIONS
    for opener in ACTIONS
    if decision.opens(opener)
    for key, answer in [*((key, "") for key in decision.keys), *((BY_ID[each].key, each) for each in decision.actions)]
]


def test_no_key_that_opens_a_dialog_decides_in_it() -> None:
    for opener, key, answer in SAME_KEYS:
        keys, wrong = resolve_keys({opener: key})
        assert keys[opener] == BY_ID[opener].key != key, (opener, key)
        assert "answer it" in wrong[opener] or "is the key of both" in wrong[opener], (opener, key)
        if answer:
            keys, wrong = resolve_keys({answer: BY_ID[opener].key})
            assert keys[answer] == BY_ID[answer].key != keys[opener], (opener, answer)
            assert f"{opener}) and also answer it ({answer}); choose another key" in wrong[answer]
    assert len(SAME_KEYS) > 200


def test_enter_at_the_command_line_opens_an_approval_so_that_it_allows_none() -> None:
    assert set(problems({"approval.session": "enter"})) == {"approval.session"}


DECIDING = {"ConfirmDialog y", "ConfirmDialog a", "QuitDialog s", "QuitDialog l", "GrantsDialog r"}
DECIDES_NOTHING = {
    "TopicsDialog p": "opens the prompt for a message",
    "ConfirmDialog n": "answers no",
    "QuitDialog q": "goes back",
    **{f"WorkspaceHeldDialog {key}": "opens at the start, by no key" for key in "arlwq"},
}
MOVES = {"escape", "up", "down", "left", "right", "j", "k", "home", "end", "pageup", "pagedown"}
MOVES |= {"tab", "shift+tab", "ctrl+c", "super+c"}


def test_every_key_of_a_dialog_is_one_that_decides_or_one_that_does_not() -> None:
    for module in pkgutil.iter_modules(zoea.tui.dialogs.__path__, "zoea.tui.dialogs."):
        importlib.import_module(module.name)
    of_forms = next(decision.keys for decision in DECISIONS if decision.dialog == "a form")
    keys = {
        f"{dialog.__name__} {binding.key}"
        for dialog in subclasses(CockpitDialog)
        for bindings in vars(dialog)["_merged_bindings"].key_to_bindings.values()
        for binding in bindings
        if binding.key not in {*of_forms, *MOVES} and binding.id not in BY_ID
    }
    assert keys == {*DECIDING, *DECIDES_NOTHING}
    assert {key.split()[1] for key in DECIDING} == {
        key for decision in DECISIONS if decision.dialog != "a form" for key in decision.keys
    }


def subclasses(base: type[CockpitDialog[object]]) -> set[type[CockpitDialog[object]]]:
    return {base, *(each for child in base.__subclasses__() for each in subclasses(child))}


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
        await stage.press("f9", until=lambda: stage.app.feed.view is not None and stage.app.feed.view.held)


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
