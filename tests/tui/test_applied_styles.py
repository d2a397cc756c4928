"""Styles that tests keep for equal widgets are those that Textual chooses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from textual.css.styles import Styles
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.screen import Screen

from tests.fakes import applied_styles
from tests.tui.cockpit import SIZE, Stage, answering, cockpit
from zoea.tui.dialogs.modal import ConfirmDialog
from zoea.tui.dialogs.new_mysis import NewMysisDialog
from zoea.tui.screens.focus import FocusScreen
from zoea.tui.screens.help import HelpScreen
from zoea.tui.screens.history import HistoryScreen
from zoea.tui.screens.settings import SettingsScreen
from zoea.tui.widgets.message_prompt import MessagePrompt
from zoea.tui.widgets.swarm_table import SwarmTable

SCREENS: tuple[tuple[tuple[str, ...], type[Screen[Any]]], ...] = (
    (("enter",), FocusScreen),
    (("n",), NewMysisDialog),
    (("D",), ConfirmDialog),
    (("question_mark",), HelpScreen),
    (("comma",), SettingsScreen),
    (("h",), HistoryScreen),
)
"""Keys that lead to a screen of each kind: a conversation, a form, a question, a text, settings and a list."""
# A small screen has other classes; the other sizes and a theme are for the full strength.
LOOKS = ((80, 24, "nova"), *(((200, 60, "tide"), (*SIZE, "nova")) if os.environ.get("ZOEA_SOAK") else ()))


def list_flags(node: DOMNode) -> tuple[bool, bool, bool, bool]:
    return node._has_hover_style, node._has_focus_within, node._has_order_style, node._has_odd_or_even


def choose_as_textual(stylesheet: Stylesheet, node: DOMNode) -> dict[str, Any]:
    """Return the rules that Textual's own `apply` would give a node. The node keeps what it has."""
    chosen: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(
            Stylesheet, "replace_rules", staticmethod(lambda node, rules, animate=False: chosen.update(rules))
        )
        patches.setattr(Stylesheet, "_process_component_classes", lambda stylesheet, node: None)
        applied_styles._apply(stylesheet, node)
    return chosen


def convert(rules: dict[str, Any]) -> dict[str, Any]:
    """Return what rules become by setting them."""
    fresh = Styles()
    for name, value in rules.items():
        setattr(fresh, name, value)
    return list_rules(fresh)


def list_rules(styles: Styles) -> dict[str, Any]:
    """Return the rules of styles. A layout is of one node alone, so its kind stands for it."""
    return {name: type(value) if name == "layout" else value for name, value in styles._rules.items()}


def find_differences(stylesheet: Stylesheet, node: DOMNode) -> list[str]:
    """Say where a node differs from what Textual would give it."""
    flags, wanted = list_flags(node), convert(choose_as_textual(stylesheet, node))
    found = list_rules(node.styles.base)
    named = [
        f"{node!r}: {name} is {found.get(name)!r}, not {wanted.get(name)!r}"
        for name in sorted(found.keys() | wanted.keys())
        if found.get(name) != wanted.get(name)
    ]
    return named if flags == list_flags(node) else [*named, f"{node!r}: {flags}, not {list_flags(node)}"]


def check_styles(stage: Stage) -> int:
    """Compare all widgets of the top screen, and their parts. Return how many nodes there are."""
    stylesheet, differences, count = stage.app.stylesheet, list[str](), 0
    for node in stage.screen.walk_children(DOMNode, with_self=True):
        parts = [node.__dict__["_parts"][name] for name in sorted(node._get_component_classes())]
        for each in (node, *parts):
            differences += find_differences(stylesheet, each)
            count += 1
    assert differences == []
    return count


async def test_widgets_have_the_styles_that_textual_gives_them(tmp_path: Path) -> None:
    async with cockpit(tmp_path, answering("yes"), start=True) as stage:
        await stage.swarm.commander.send("alpha", "one")
        await stage.swarm.settled()
        for width, height, theme in LOOKS:
            stage.app.use_theme(theme)
            await stage.resize(width, height)
            for keys, kind in SCREENS:
                await stage.press(*keys, shows=kind)
                assert check_styles(stage) >= 5, kind
                await stage.press("tab")
                check_styles(stage)
                await stage.go_home()
            await stage.press("m", until=lambda: stage.one(MessagePrompt).is_open)
            assert check_styles(stage) > 20
            await stage.press("escape")


async def test_a_style_that_is_not_textual_s_is_found(tmp_path: Path) -> None:
    async with cockpit(tmp_path) as stage:
        assert check_styles(stage) > 15
        del stage.one(SwarmTable).styles.base._rules["width"]
        with pytest.raises(AssertionError, match=r"SwarmTable.*: width is None, not"):
            check_styles(stage)
