"""The box of budgets: bars, what is nearly used up, and what one can do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.swarm.harness import script
from tests.tui.cockpit import cockpit
from zoea.model.request import Answer
from zoea.model.values import SwarmView, Usage
from zoea.queries.budget_report import BudgetUse
from zoea.settings.paths import places
from zoea.tui.dialogs.budgets import BudgetsDialog, _row
from zoea.tui.screens.dashboard import DashboardScreen

COSTLY = script(Answer(text="Done.", usage=Usage(input_tokens=1_800_000, output_tokens=10)))


async def test_the_day_is_shown_with_a_bar_and_what_to_do_near_its_end(tmp_path: Path) -> None:
    async with cockpit(tmp_path, COSTLY, names=("alpha",)) as stage:
        await stage.press("dollar_sign")
        await stage.until(lambda: stage.shows(BudgetsDialog) and "the swarm today" in stage.text())
        await stage.press("escape", until=lambda: not stage.shows(BudgetsDialog))
        await stage.api.send("alpha", "go")
        await stage.until(lambda: stage.swarm.commander.swarm.runner("alpha").is_settled)
        await stage.press("dollar_sign", shows="1.8M of 2M")
        assert "raise budget.swarm_per_day, then resume the swarm" in stage.text()
        assert "0 of 500k, then without a model" in stage.text()
        assert "1.8M of 2M, then on hold" in stage.text()
        assert "soft slows down, hard stops, approve asks you." in " ".join(stage.text().replace("│", " ").split())


async def test_enter_opens_the_limit_of_the_day_and_one_esc_leads_back(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=("alpha",), places=places("", {"ZOEA_DATA_DIR": str(tmp_path)})) as stage:
        await stage.press("dollar_sign", shows="enter change limits")
        await stage.press("enter", shows="budget.swarm_per_day")
        await stage.press("escape", shows=DashboardScreen)


async def test_the_built_in_player_is_said_to_be_not_counted(tmp_path: Path) -> None:
    async with cockpit(tmp_path, names=("alpha",)) as stage:
        player = replace(stage.view(), provider="autopilot")
        stage.app.feed.take(SwarmView(1, False, "", (player,)))
        await stage.press("dollar_sign", shows="The built-in player (autopilot) uses no model")


def test_a_budget_with_reservations_stands_on_one_line_of_80_columns() -> None:
    use = BudgetUse("message", "21", False, 1_954_000, 107_100, 2_000_000, "soft", "")
    assert sum(len(text) for text, *_ in _row(use)) <= 69


@pytest.mark.parametrize("size", [(60, 16), (80, 24)])
async def test_what_follows_at_a_limit_is_wrapped_below_itself(tmp_path: Path, size: tuple[int, int]) -> None:
    async with cockpit(tmp_path, COSTLY, names=("alpha",), size=size) as stage:
        await stage.press("dollar_sign")
        await stage.until(lambda: stage.shows(BudgetsDialog) and "summaries today" in stage.text())
        use = BudgetUse("day", "", False, 67_000, 7_100, 2_000_000, "hard", "budget.swarm_per_day")
        dialog = stage.screen
        assert isinstance(dialog, BudgetsDialog)
        dialog._found = (use, replace(use, scope="message", name="21", enforcement="approve"))
        dialog.draw()
        await stage.until(lambda: "message 21" in stage.text())
        rest = [line for line in stage.text().splitlines() if "reserved" in line and "67k" not in line]
        assert all(re.match(r"[│├─]* {20,}", line.replace("├─", "│")) for line in rest), rest
        assert bool(rest) is (size[0] == 60)


def test_the_words_say_what_follows_at_each_limit() -> None:
    use = BudgetUse("day", "", False, 5, 0, 10, "hard", "")
    after = {
        (scope, how): _row(replace(use, scope=scope, enforcement=how))[-1][0]
        for scope in ("day", "mysis", "message", "background")
        for how in ("soft", "hard", "approve")
    }
    assert after["day", "hard"] == ", then on hold"
    assert after["mysis", "hard"] == ", then it stops"
    assert after["message", "hard"] == ", then its turn ends"
    assert {after[scope, "soft"] for scope in ("day", "mysis", "message")} == {", then slower"}
    assert {after[scope, "approve"] for scope in ("day", "mysis", "message")} == {", then you are asked"}
    assert {after["background", how] for how in ("soft", "hard", "approve")} == {", then without a model"}
