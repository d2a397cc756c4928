"""The panel of broadcasts: what was said to many, whole where there is room, and what became of it."""

from __future__ import annotations

from msgspec.structs import replace

from tests.tui.test_roster import PLAIN
from zoea.model.enums import MysisState
from zoea.queries.broadcasts import Broadcast
from zoea.tui.swarm_list.broadcasts_panel import build_broadcast_lines, format_replies
from zoea.tui.text_layout import count_cells

AT = 1_700_000_000_000_000
TEXT = "Iridium worth 40 credits at p98 in s33, orbit 0; sell at p15 in s6 or at p66 in s23 (seven ticks)"
SAID = Broadcast(1, "alpha", TEXT, AT, 4, 3, 0, 1, 0, 0, to_commander=False)


def shown(*said: Broadcast, width: int = 40, height: int = 0) -> list[str]:
    lines = build_broadcast_lines(said, AT, width, height)
    assert all(count_cells(line) <= width for line in lines)
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def test_a_broadcast_is_wrapped_if_there_is_room_and_cut_with_an_ellipsis_if_not() -> None:
    cut, became = shown(SAID)
    assert cut.endswith("alpha → 4 myses  Iridium worth 40…")
    assert became.strip() == "3 answered · 1 queued"
    first, second, third, became = shown(SAID, height=4)
    assert first.endswith("alpha → 4 myses  Iridium worth 40")
    assert (second.strip(), third.strip()) == ("credits at p98 in s33, orbit 0;", "sell at p15 in s6 or at p66 in s2…")
    assert {len(line) - len(line.lstrip()) for line in (second, third, became)} == {6}


def test_broadcasts_are_wrapped_only_if_all_of_them_fit() -> None:
    assert len(shown(SAID, SAID, height=8)) == 8
    assert len(shown(SAID, SAID, height=7)) == 6
    assert len(shown(SAID, SAID, height=5)) == 4
    short = replace(SAID, text="Go")
    assert len(shown(SAID, short, height=6)) == 6
    assert shown(short, height=9)[0].endswith("alpha → 4 myses  Go")


def test_those_that_have_not_answered_are_counted_by_the_words_of_their_rows() -> None:
    asking = replace(PLAIN, id=5, state=MysisState.RUNNING, approvals=1)
    stopped = replace(PLAIN, id=6, state=MysisState.STOPPED)
    said = replace(SAID, recipients=6, working=1, interrupted=1, open_ids="5,6")
    assert format_replies(said, {5: asking, 6: stopped}) == "3 answered · 1 asking · 1 stopped · 1 queued"
    assert format_replies(said) == "3 answered · 1 working · 1 errored or stopped · 1 queued"
    assert format_replies(said, {5: asking}) == format_replies(said), "one was deleted"


def test_no_broadcast_is_lost_in_a_narrow_panel() -> None:
    wide = replace(SAID, sender="鯨" * 6, text="鉱石 " * 30)
    assert "…" in "".join(shown(wide, width=30, height=9))
    assert "…" in "".join(shown(wide, width=44, height=9))
    assert shown(replace(SAID, text="x" * 200), height=9)[2].endswith("x…")
    assert shown(replace(SAID, text="x" * 30), height=9)[1].strip() == "x" * 30
    assert len(build_broadcast_lines([SAID], AT, 12)) == 2
    assert shown(SAID, width=80)[0].endswith("3 answered · 1 queued")
