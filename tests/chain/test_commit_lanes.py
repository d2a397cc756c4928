"""The lanes of a commit graph: every branch is one unbroken line, however the commits lie."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zoea.chain.commit_lanes import GraphRow, Lane, draw_row, lay_out

Commits = list[tuple[int, int | None]]


@st.composite
def forests(draw: st.DrawFn) -> Commits:
    """Commits, newest first, each with an older parent or none; some numbers are missing."""
    numbers = sorted(draw(st.sets(st.integers(1, 60), min_size=1, max_size=25)))
    commits: Commits = []
    for place, number in enumerate(numbers):
        commits.append((number, draw(st.sampled_from([None, *numbers[:place], *numbers[max(0, place - 2) : place]]))))
    return commits[::-1]


@given(forests())
def test_every_commit_is_joined_to_its_parent_by_one_unbroken_lane(commits: Commits) -> None:
    rows, lanes = lay_out(commits)
    place = {seq: at for at, (seq, _) in enumerate(commits)}
    for seq, parent in commits:
        if parent is None:
            continue
        column = rows[place[seq]].column
        assert all(column in row.passing for row in rows[place[seq] + 1 : place[parent]])
        end = rows[place[parent]]
        assert column == end.column or column in end.joined
    assert lanes == ()


@given(forests())
def test_no_two_lanes_share_a_column(commits: Commits) -> None:
    for row in lay_out(commits)[0]:
        columns = [row.column, *row.joined, *row.passing]
        assert len(columns) == len(set(columns))
        assert all(column > row.column for column in row.joined)


@given(forests(), st.integers(0, 25), st.booleans())
def test_pages_are_laid_out_as_all_at_once(commits: Commits, at: int, keeps_first: bool) -> None:
    kept = (Lane(commits[-1][0], is_drawn=False),) if keeps_first else ()
    first, between = lay_out(commits[:at], kept)
    second, _ = lay_out(commits[at:], between)
    assert first + second == lay_out(commits, kept)[0]


@given(forests(), st.data())
def test_a_kept_column_is_that_of_the_branch_it_is_kept_for(commits: Commits, data: st.DataObject) -> None:
    tip = data.draw(st.sampled_from(commits))[0]
    rows, _ = lay_out(commits, (Lane(tip, is_drawn=False),))
    parents, columns = dict(commits), {row.seq: row.column for row in rows}
    seq: int | None = tip
    while seq is not None:
        assert columns[seq] == 0
        seq = parents[seq]


@given(forests(), st.integers(1, 30))
def test_a_drawn_row_has_two_cells_a_column_and_shows_its_commit(commits: Commits, most: int) -> None:
    for row in lay_out(commits)[0]:
        drawn = "".join(text for text, _ in draw_row(row, "o", most))
        last = max(row.column, *row.joined, *row.passing, 0)
        assert len(drawn) == 2 * min(last + 1, most)
        assert drawn.count("o") == 1


def test_a_graph_of_forks_is_drawn_as_lanes() -> None:
    commits: Commits = [(9, 6), (8, 5), (7, 3), (6, 4), (5, 3), (4, 3), (3, 2), (2, None)]
    rows, _ = lay_out(commits, (Lane(8, is_drawn=False),))
    drawn = ["".join(text for text, _ in draw_row(row, "●", 9)).rstrip() for row in rows]
    assert drawn == ["  ●", "● │", "│ │ ●", "│ ● │", "● │ │", "│ ● │", "●─┴─╯", "●"]


def test_a_lane_that_is_crossed_goes_on() -> None:
    row = GraphRow(1, 0, (3,), (1, 4))
    assert "".join(text for text, _ in draw_row(row, "●", 9)) == "●─┼───╯ │ "
    assert "".join(text for text, _ in draw_row(row, "●", 3)) == "●─┼──…"
