"""Selection of packs under a budget and a limit on characters."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.context import Counter, Pack, PackStatus, Plan, Priority, Reason, Variant, plan
from zoea.model.errors import SettingsError

MARK = "\n\n[Context truncated to fit limit]\n"


def kept(result: Plan) -> dict[str, str]:
    """Return each pack's variant, or that it was skipped."""
    return {one.id: one.variant.value if one.variant else "skipped" for one in result.decisions}


def test_tokens_are_a_quarter_of_the_characters_rounded_up() -> None:
    result = plan([Pack("a", "s", "required", "12345"), Pack("b", "s", "low", "1")])
    assert [one.tokens for one in result.decisions] == [2, 1]
    assert [one.chars for one in result.decisions] == [5, 1]


def test_packs_are_chosen_by_priority_then_declaration() -> None:
    packs = [
        Pack("low", "s", "low", "l" * 40),
        Pack("medium", "s", "medium", "m" * 40),
        Pack("high 1", "s", "high", "h" * 40),
        Pack("high 2", "s", "high", "i" * 40),
        Pack("required", "s", "required", "r" * 40),
    ]
    assert kept(plan(packs, max_tokens=20)) == {
        "low": "skipped",
        "medium": "skipped",
        "high 1": "full",
        "high 2": "skipped",
        "required": "full",
    }


def test_the_output_is_in_declaration_order() -> None:
    packs = [Pack("a", "s", "low", "low"), Pack("b", "s", "required", "must"), Pack("c", "s", "high", "high")]
    result = plan(packs)
    assert result.text == "lowmusthigh"
    assert [one.id for one in result.decisions] == ["a", "b", "c"]
    assert [message.content for message in result.messages] == ["low", "must", "high"]


def test_required_packs_are_included_over_the_budget_and_the_excess_is_counted() -> None:
    result = plan([Pack("a", "s", "required", "x" * 400), Pack("b", "s", "high", "y" * 4)], max_tokens=60)
    assert kept(result) == {"a": "full", "b": "skipped"}
    assert result.budget.over_budget_tokens == 40
    assert result.budget.remaining_tokens == 0
    assert result.budget.final_tokens == 100
    assert result.budget.max_tokens == 60


def test_a_required_pack_is_compact_if_only_that_fits() -> None:
    result = plan([Pack("a", "s", "required", "x" * 400, compact="x" * 40)], max_tokens=60)
    (decision,) = result.decisions
    assert (decision.variant, decision.reason) == (Variant.COMPACT, Reason.BUDGET)
    assert result.budget.over_budget_tokens == 0
    assert result.budget.remaining_tokens == 50


def test_a_required_pack_is_compact_if_neither_fits_but_compact_is_smaller() -> None:
    result = plan([Pack("a", "s", "required", "x" * 400, compact="x" * 300)], max_tokens=60)
    assert kept(result) == {"a": "compact"}
    assert result.budget.over_budget_tokens == 15


def test_a_required_pack_stays_full_if_its_compact_form_is_larger() -> None:
    assert kept(plan([Pack("a", "s", "required", "x" * 400, compact="x" * 500)], max_tokens=60)) == {"a": "full"}


def test_an_optional_pack_is_compact_if_only_that_fits() -> None:
    result = plan([Pack("a", "s", "high", "x" * 400, compact="x" * 40)], max_tokens=60)
    (decision,) = result.decisions
    assert (decision.status, decision.variant, decision.reason) == (PackStatus.INCLUDED, Variant.COMPACT, Reason.BUDGET)
    assert decision.setting == "max_tokens = 100"


@walk_cases("compact", [None, "", "x" * 300])
def test_an_optional_pack_is_skipped_if_no_form_fits(compact: str | None) -> None:
    (decision,) = plan([Pack("a", "s", "high", "x" * 400, compact)], max_tokens=60).decisions
    assert (decision.status, decision.variant, decision.reason) == (PackStatus.SKIPPED, None, Reason.BUDGET)
    assert (decision.chars, decision.tokens, decision.wanted_tokens) == (0, 0, 100)


def test_a_skipped_pack_does_not_stop_later_smaller_ones() -> None:
    packs = [Pack("big", "s", "high", "x" * 400), Pack("small", "s", "high", "x" * 40), Pack("s2", "s", "low", "x")]
    assert kept(plan(packs, max_tokens=60)) == {"big": "skipped", "small": "full", "s2": "full"}


@walk_cases("priority", list(Priority))
def test_a_pack_without_content_is_skipped_as_empty(priority: Priority) -> None:
    for compact in (None, "", ()):
        (decision,) = plan([Pack("a", "s", priority, "", compact)]).decisions
        assert (decision.status, decision.reason) == (PackStatus.SKIPPED, Reason.EMPTY)


def test_the_named_setting_would_have_kept_the_pack() -> None:
    packs = [
        Pack("a", "s", "required", "x" * 80),
        Pack("b", "s", "medium", "y" * 400),
        Pack("c", "s", "high", "z" * 40, "z"),
    ]
    skipped = plan(packs, max_tokens=25).decision("b")
    assert skipped is not None
    needed = int(skipped.setting.removeprefix("max_tokens = "))
    assert kept(plan(packs, max_tokens=needed - 1))["b"] == "skipped" or needed == 0
    again = plan([packs[0], packs[1]], max_tokens=needed)
    assert kept(again)["b"] == "full"


@walk_cases("unset", [None, 0, "0", " 0 "])
def test_an_unset_budget_is_the_default(unset: int | str | None) -> None:
    assert plan([], max_tokens=unset).budget.max_tokens == 100_000


def test_a_numeric_string_is_read_as_a_number() -> None:
    assert plan([], max_tokens="5000").budget.max_tokens == 5000


@walk_cases("bad", [-1, "-5", "many", "", "1.5", "1e5", "٣", 1.5, float("inf"), float("nan"), True, [], {}])
@walk_cases("name", ["max_tokens", "max_chars"])
def test_an_invalid_budget_is_a_settings_error(name: str, bad: Any) -> None:
    with pytest.raises(SettingsError, match=name):
        plan([Pack("a", "s", "high", "text")], **{name: bad})


def test_an_unknown_priority_is_a_settings_error_that_names_the_known_ones() -> None:
    with pytest.raises(SettingsError) as raised:
        plan([Pack("a", "s", "urgent", "text")])
    assert "required, high, medium, low" in raised.value.hint


def test_a_counter_replaces_the_estimate() -> None:
    result = plan([Pack("a", "s", "high", "four")], max_tokens=3, count=len)
    assert kept(result) == {"a": "skipped"}


def test_a_calibrated_counter_scales_and_counts_the_frame_of_a_message() -> None:
    assert plan([Pack("a", "s", "high", "x" * 40)], count=Counter(2.0)).decisions[0].tokens == 30


class TestGuard:
    """The limit on characters."""

    def test_nothing_changes_if_the_total_fits(self) -> None:
        result = plan([Pack("a", "s", "low", "x" * 100)], max_chars=100)
        assert (result.truncation.applied, result.truncation.before_chars, result.truncation.after_chars) == (
            False,
            100,
            100,
        )

    def test_optional_packs_become_compact_lowest_and_latest_first_and_no_more_than_needed(self) -> None:
        packs = [
            Pack("high", "s", "high", "h" * 100, "h" * 10),
            Pack("low 1", "s", "low", "l" * 100, "l" * 10),
            Pack("low 2", "s", "low", "m" * 100, "m" * 10),
            Pack("medium", "s", "medium", "n" * 100, "n" * 10),
        ]
        result = plan(packs, max_chars=250)
        assert kept(result) == {"high": "full", "low 1": "compact", "low 2": "compact", "medium": "full"}
        assert {one.id: one.reason for one in result.decisions if one.reason is Reason.MAX_CHARS} == {
            "low 1": Reason.MAX_CHARS,
            "low 2": Reason.MAX_CHARS,
        }
        assert result.truncation.before_chars == 400
        assert result.truncation.after_chars == 220

    def test_a_compact_form_that_is_not_smaller_is_not_taken(self) -> None:
        packs = [Pack("a", "s", "low", "x" * 100, "y" * 100), Pack("b", "s", "high", "z" * 100)]
        assert kept(plan(packs, max_chars=150)) == {"a": "skipped", "b": "full"}

    def test_optional_packs_are_then_dropped_in_the_same_order(self) -> None:
        packs = [
            Pack("high", "s", "high", "h" * 100),
            Pack("low 1", "s", "low", "l" * 100, "l" * 60),
            Pack("low 2", "s", "low", "m" * 100, "m" * 60),
        ]
        result = plan(packs, max_chars=170)
        assert kept(result) == {"high": "full", "low 1": "compact", "low 2": "skipped"}
        skipped = result.decision("low 2")
        assert skipped is not None
        assert skipped.reason is Reason.MAX_CHARS

    def test_required_packs_are_then_cut_larger_and_later_ones_first(self) -> None:
        packs = [
            Pack("kept", "s", "required", "k" * 500, preserve=True),
            Pack("small", "s", "required", "s" * 100),
            Pack("large 1", "s", "required", "a" * 200),
            Pack("large 2", "s", "required", "b" * 200),
        ]
        result = plan(packs, max_chars=900)
        assert [one.id for one in result.decisions if one.truncated] == ["large 2"]
        assert result.messages[3].content == "b" * (100 - len(MARK)) + MARK
        assert len(result.text) == 900
        assert result.truncation == type(result.truncation)(True, 1000, 900)

    def test_a_cut_omits_the_marker_if_it_does_not_fit(self) -> None:
        packs = [Pack("a", "s", "required", "a" * 100), Pack("b", "s", "required", "b" * 200, preserve=True)]
        assert plan(packs, max_chars=210).messages[0].content == "a" * 10

    def test_preserved_packs_are_cut_only_when_nothing_else_is_left(self) -> None:
        packs = [Pack("a", "s", "required", "a" * 100), Pack("b", "s", "required", "b" * 200, preserve=True)]
        result = plan(packs, max_chars=150)
        assert result.text == "b" * (150 - len(MARK)) + MARK
        assert all(one.reason is Reason.MAX_CHARS and one.status is PackStatus.INCLUDED for one in result.decisions)

    def test_a_pack_compacted_for_the_budget_keeps_that_reason(self) -> None:
        packs = [Pack("a", "s", "high", "x" * 400, "x" * 40), Pack("b", "s", "low", "y" * 80, "y")]
        result = plan(packs, max_tokens=35, max_chars=60)
        reasons = {one.id: one.reason for one in result.decisions}
        assert reasons == {"a": Reason.BUDGET, "b": Reason.MAX_CHARS}


PACKS = st.lists(
    st.builds(
        Pack,
        st.text(max_size=3),
        st.just("s"),
        st.sampled_from(list(Priority)),
        st.text(max_size=80),
        st.one_of(st.none(), st.text(max_size=60)),
        st.booleans(),
    ),
    max_size=8,
)


@given(PACKS, st.integers(1, 80), st.integers(1, 300))
def test_the_totals_of_any_plan_are_consistent(packs: list[Pack], max_tokens: int, max_chars: int) -> None:
    result = plan(packs, max_tokens=max_tokens, max_chars=max_chars)
    assert [one.id for one in result.decisions] == [pack.id for pack in packs]
    assert len(result.text) <= max_chars
    assert len(result.text) == result.truncation.after_chars == sum(one.chars for one in result.decisions)
    assert result.budget.final_tokens == sum(math.ceil(one.chars / 4) for one in result.decisions)
    optional = sum(one.tokens for one in result.decisions if one.priority is not Priority.REQUIRED)
    required = result.budget.final_tokens - optional
    assert optional <= max(0, max_tokens - required) or result.truncation.applied
    for pack, one in zip(packs, result.decisions, strict=True):
        if one.priority is Priority.REQUIRED and (pack.full or pack.compact):
            assert one.status is PackStatus.INCLUDED
        assert (one.status is PackStatus.SKIPPED) == (one.variant is None)
        assert bool(one.setting) == (one.reason in (Reason.BUDGET, Reason.MAX_CHARS))
