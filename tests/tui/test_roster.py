"""The counts and orders of the roster equal those computed from all rows."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from zoea.model.enums import Activity, MysisState
from zoea.model.values import MysisView
from zoea.tui.state.swarm_feed import Roster
from zoea.tui.swarm_list import attention
from zoea.tui.swarm_list.mysis_row import format_time

PLAIN = MysisView(1, "m", "t", "p", "x", MysisState.IDLE, "", 0, Activity.IDLE, None, None, False, ())

views = st.builds(
    lambda number, state, approvals, until: replace(
        PLAIN, id=number, state=state, approvals=approvals, waiting_until=until
    ),
    st.integers(1, 6),
    st.sampled_from(MysisState),
    st.integers(0, 1),
    st.sampled_from([None, 9]),
)


def test_the_time_of_a_status_begins_with_it_and_not_with_the_last_progress() -> None:
    at = [5_000_000]
    roster = Roster(lambda: at[0])
    working = replace(PLAIN, state=MysisState.RUNNING, in_turn=True, activity=Activity.LLM, progress_at=2_000_000)
    roster.take([working])
    for seconds, view, shown in (
        (30, replace(working, progress_at=30_000_000), "28s"),
        (40, replace(working, approvals=1, progress_at=39_000_000), "0s"),
        (60, replace(working, approvals=1, progress_at=59_000_000), "20s"),
        (70, replace(working, progress_at=70_000_000), "0s"),
        (90, replace(PLAIN, state_at=75_000_000), "15s"),
    ):
        at[0] = seconds * 1_000_000
        roster.take([view])
        assert format_time(view, at[0], roster.since(1)) == shown


def test_those_whose_call_ends_in_spite_of_a_hold_are_counted() -> None:
    roster = Roster()
    calling = replace(PLAIN, state=MysisState.RUNNING, in_turn=True, activity=Activity.LLM)
    roster.take(
        [calling, replace(calling, id=2, activity=Activity.TOOL), replace(calling, id=3, activity=Activity.IDLE)]
    )
    assert roster.finishing == 2
    roster.take([PLAIN])
    assert roster.finishing == 1


@given(st.lists(st.tuples(st.lists(views, max_size=4), st.lists(st.integers(1, 6), max_size=2)), max_size=8))
def test_a_roster_equals_a_count_of_all_myses(news: list[tuple[list[MysisView], list[int]]]) -> None:
    roster = Roster()
    known: dict[int, MysisView] = {}
    for changed, removed in news:
        known |= {view.id: view for view in changed}
        for mysis_id in removed:
            known.pop(mysis_id, None)
        roster.take(changed, removed)
        assert roster.myses == known
        assert [view.id for view in roster.in_order()] == sorted(known)
        assert list(roster.in_need) == attention.list_needing_attention(known.values())
        running = [view for view in known.values() if view.state is MysisState.RUNNING]
        assert roster.running == len(running)
        assert +roster.statuses == Counter(view.status for view in known.values())
    roster.clear()
    assert (roster.myses, roster.in_order(), roster.in_need, roster.running) == ({}, [], (), 0)
