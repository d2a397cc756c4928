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
