"""The action registry: no clashing keys, no keys of text editing, every action bound."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widgets import Input, TextArea

import zoea.tui
from tests.case_tables import walk_cases
from tests.fakes.swarm import FakeSwarm
from zoea.model.enums import MysisState
from zoea.model.errors import REFUSED_KEY
from zoea.model.values import Failure
from zoea.tui.commands.action import Action, ActionContext, ActionPlace
from zoea.tui.commands.actions import ACTIONS, BY_ID, bindings, of
from zoea.tui.commands.keymap import clashes

COPIES_FIRST = {"ctrl+c"}
"""Ours where nothing is selected; what is selected is copied, as text editing does."""


def keys_of(kind: type[DOMNode], *, only_priority: bool = False) -> set[str]:
    found: set[str] = set()
    for one in Binding.make_bindings(kind.__dict__.get("BINDINGS", [])):
        if one.priority or not only_priority:
            found.add(one.key)
    return found


def classes() -> list[type[Any]]:
    """Every class of the cockpit."""
    found: dict[str, type[Any]] = {}
    for module in pkgutil.walk_packages(zoea.tui.__path__, "zoea.tui."):
        for name, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if kind.__module__.startswith("zoea.tui"):
                found[f"{kind.__module__}.{name}"] = kind
    return list(found.values())


def test_no_key_means_two_actions_in_one_place() -> None:
    assert [(one.id, other.id) for one, other in clashes()] == []


def test_a_clash_is_found() -> None:
    one = BY_ID["mysis.stop"]
    other = replace(one, id="mysis.other")
    assert clashes([one, other]) == [(one, other)]
    everywhere = replace(one, id="app.other", place=ActionPlace.EVERYWHERE)
    assert clashes([one, everywhere]) == [(one, everywhere)]


def test_no_default_takes_a_key_of_text_editing_away() -> None:
    editing = (keys_of(TextArea) | keys_of(Input)) - {"enter", "up", "down"}
    taken = {
        f"{kind.__name__}: {key}"
        for kind in classes()
        if issubclass(kind, DOMNode)
        for key in keys_of(kind, only_priority=True) & editing
        if not (kind.__name__ == "CockpitApp" and key in COPIES_FIRST)
    }
    assert taken == set()


def test_letters_never_have_priority_over_an_input() -> None:
    for action in ACTIONS:
        for binding in bindings([action]):
            assert isinstance(binding, Binding)
            assert not binding.priority


def bound_ids() -> set[str]:
    """The ids to which a screen or the app binds a function."""
    return {
        key.value
        for file in Path(zoea.tui.__file__).parent.rglob("*.py")
        for function in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(function, ast.FunctionDef) and function.name.endswith(("bind_actions", "handlers"))
        for table in ast.walk(function)
        if isinstance(table, ast.Dict)
        for key in table.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def test_every_action_is_carried_out_by_some_screen_or_the_app() -> None:
    assert bound_ids() | {action.id for action in ACTIONS if action.opens} == BY_ID.keys()


@walk_cases("path", sorted(action.opens for action in ACTIONS if action.opens))
def test_what_an_action_opens_is_a_screen_that_can_be_opened_over_another(path: str) -> None:
    module, _, name = path.rpartition(".")
    kind = getattr(importlib.import_module(f"zoea.tui.{module}"), name)
    assert issubclass(kind, Screen)
    assert callable(kind.open_over)


def test_ids_are_unique() -> None:
    assert len(BY_ID) == len(ACTIONS)


def test_titles_and_descriptions_are_short_and_without_exclamation_marks() -> None:
    for action in ACTIONS:
        assert action.description
        assert "!" not in action.title + action.description
        assert len(action.title) <= 20


# Why not.


async def situation(state: MysisState = MysisState.IDLE, **more: Any) -> ActionContext:
    view = replace(await FakeSwarm().create("alpha"), state=state)
    return ActionContext(targets=(view,), shown=1, **more)


def closed() -> ActionContext:
    return ActionContext(is_ready=False)


@walk_cases("action", [a for a in of(ActionPlace.DASHBOARD) if a.id not in ("swarm.attention", "mysis.undo")])
def test_before_the_swarm_is_open_its_actions_are_not_possible(action: Action) -> None:
    assert action.why_not(closed()) == "the swarm is still opening"


@walk_cases(
    ("action_id", "why"),
    [
        ("mysis.message", "there is no mysis yet: press n"),
        ("mysis.focus", "there is no mysis yet: press n"),
        ("mysis.stop", "there is no mysis yet: press n"),
        ("mysis.relaunch", "there is no mysis yet: press n"),
        ("mysis.delete", "there is no mysis yet: press n"),
        ("mysis.dismiss", "there is no mysis yet: press n"),
        ("mysis.inspect", "there is no mysis yet: press n"),
        ("mysis.mark-all", "there is no mysis yet: press n"),
        ("swarm.broadcast", "there is no mysis yet: press n"),
        ("swarm.stop-all", "there is no mysis yet: press n"),
        ("mysis.undo", "there is nothing to undo"),
        ("swarm.again", "no mysis was running when Zoea ended"),
        ("approval.oldest", "nothing waits for your answer"),
        ("focus.next-hit", "press / and type what to find first"),
    ],
)
def test_in_an_empty_swarm_each_action_names_what_is_missing(action_id: str, why: str) -> None:
    assert BY_ID[action_id].why_not(ActionContext()) == why


@walk_cases("action_id", ["mysis.message", "mysis.stop", "mysis.delete", "mysis.inspect"])
def test_where_the_cursor_is_on_no_mysis_an_action_names_that(action_id: str) -> None:
    assert BY_ID[action_id].why_not(ActionContext(shown=1)) == "there is no mysis under the cursor"


async def test_an_action_on_one_mysis_refuses_several_targets() -> None:
    one = (await situation()).targets[0]
    two = ActionContext(targets=(one, one), shown=2)
    for action_id in ("mysis.message", "mysis.task", "mysis.focus", "mysis.inspect"):
        assert "esc removes the marks" in BY_ID[action_id].why_not(two)


async def test_an_action_without_effect_is_refused() -> None:
    assert BY_ID["mysis.stop"].why_not(await situation(MysisState.STOPPED)) == "it is stopped already"
    assert (
        BY_ID["mysis.relaunch"].why_not(await situation(MysisState.RUNNING)) == "it already runs; m sends it a message"
    )
    failed = await situation(MysisState.ERRORED)
    assert BY_ID["mysis.stop"].why_not(failed) == "it failed and does nothing; r relaunches it"
    retried = replace(failed, targets=(replace(failed.targets[0], retry_at=1),))
    assert BY_ID["mysis.stop"].why_not(retried) == "", "a stop ends its retries"
    assert BY_ID["mysis.dismiss"].why_not(await situation()) == "it has no error and no report to read"


async def test_a_possible_action_has_no_reason_against_it() -> None:
    now = await situation(MysisState.ERRORED, approvals=2, can_undo=True, finding=True)
    failed = replace(now.targets[0], failure=Failure("auth", REFUSED_KEY), retry_at=1)
    all_there = replace(now, targets=(failed,), ended=1, in_need=1, has_own_value=True, has_repository=True)
    for action in ACTIONS:
        assert action.why_not(all_there) == "", action.id
