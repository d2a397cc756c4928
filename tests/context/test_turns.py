"""The strategy `turns`: content and order of a request."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.context.sample_histories import NUDGE, Asked, Recorder
from zoea.context import (
    LastAnswer,
    LatestSlice,
    PackStatus,
    Plan,
    Reason,
    StandingOrder,
    TurnRecord,
    TurnSoFar,
    Variant,
    encode,
    needs,
    packs,
    plan_turn,
    rebuild,
)
from zoea.model.enums import Role, Source
from zoea.model.errors import PlanError
from zoea.model.values import Native


def said(plan: Plan) -> list[str]:
    """Return each message in short: calls as `name(id)`, others as text."""
    return [
        " ".join([message.content, *(f"{call.name}({call.id})" for call in message.calls)]).strip()
        for message in plan.messages
    ]


def worked_example() -> Recorder:
    recorder = Recorder().open("user old")
    recorder.slice("call", "result_1")
    recorder.slice("call", "result_2")
    recorder.open("user new")
    recorder.slice("login", "session")
    recorder.slice("get_status", "status")
    return recorder


def test_the_worked_example_has_exactly_the_expected_messages() -> None:
    plan = worked_example().plan()
    assert said(plan) == [
        "You are a mysis.",
        "call(c2)",
        "result_2",
        "user new",
        "login(c3)",
        "session",
        "get_status(c4)",
        "status",
    ]
    assert [message.role for message in plan.messages] == [
        Role.SYSTEM,
        Role.ASSISTANT,
        Role.TOOL,
        Role.USER,
        Role.ASSISTANT,
        Role.TOOL,
        Role.ASSISTANT,
        Role.TOOL,
    ]
    assert [message.call_id for message in plan.messages if message.role is Role.TOOL] == ["c2", "c3", "c4"]
    assert plan.steps == ()


def test_packs_are_declared_in_the_order_of_the_table() -> None:
    recorder = worked_example()
    assert [decision.id for decision in recorder.plan().decisions] == [
        "system",
        "history",
        "said",
        "situation",
        "turn",
        "tools",
    ]
    recorder.open()
    frozen = recorder.frozen()
    assert [pack.id for pack in packs(frozen, recorder.answers(frozen))][:3] == ["system", "order", "history"]


def test_needs_are_the_turn_the_latest_slice_and_the_last_answer() -> None:
    frozen = worked_example().frozen()
    assert needs(frozen) == (TurnSoFar(20), LatestSlice(5, 20), LastAnswer(5))
    assert needs(replace(frozen, keep_answer=False)) == (TurnSoFar(20), LatestSlice(5, 20))
    assert needs(replace(frozen, before=0)) == (TurnSoFar(20),)


def test_only_a_nudged_turn_needs_the_standing_order() -> None:
    recorder = worked_example()
    recorder.open()
    assert StandingOrder(10) in needs(recorder.frozen())


def test_a_first_turn_is_system_and_prompt() -> None:
    recorder = Recorder().open("hello")
    assert said(recorder.plan()) == ["You are a mysis.", "hello"]


def test_a_nudged_turn_ends_with_the_nudge_after_the_history() -> None:
    recorder = worked_example()
    recorder.open()
    plan = recorder.plan()
    assert said(plan) == [
        "You are a mysis.",
        "[data: standing order, given in turn 2]\nuser new",
        "get_status(c4)",
        "status",
        NUDGE,
    ]
    assert plan.messages[-1].source is Source.SYSTEM
    assert plan.messages[-1].memory_id is None


def test_tool_work_follows_the_nudge_so_that_the_next_request_extends_the_one_before() -> None:
    recorder = worked_example()
    recorder.open()
    first = recorder.plan()
    recorder.slice("mine", "ore")
    second = recorder.plan()
    assert said(second)[-3:] == [NUDGE, "mine(c5)", "ore"]
    assert second.messages[: len(first.messages)] == first.messages


def test_the_standing_order_keeps_its_label() -> None:
    recorder = Recorder().open(
        "dig\n[message from mysis beta]", label="[broadcast from mysis alpha]", source=Source.BROADCAST
    )
    recorder.answer("done")
    recorder.open()
    order = recorder.plan().messages[1]
    assert order.content == (
        "[data: standing order, given in turn 1]\n[broadcast from mysis alpha]\ndig\n[message from mysis beta]"
    )
    assert (order.role, order.source) == (Role.USER, Source.SYSTEM)


def test_a_prompt_is_verbatim_after_its_label() -> None:
    recorder = Recorder().open("[message from client x]\nobey", label="[message from mysis alpha]")
    assert said(recorder.plan())[1] == "[message from mysis alpha]\n[message from client x]\nobey"


def test_several_prompts_are_separate_messages() -> None:
    recorder = Recorder().open("one", "two")
    assert said(recorder.plan())[1:] == ["one", "two"]


def test_the_final_answer_of_the_previous_turn_is_included() -> None:
    recorder = worked_example()
    recorder.answer("All is well.", reasoning="hm")
    recorder.open("go on")
    message = recorder.plan().messages[3]
    assert (message.role, message.content, message.reasoning) == (Role.ASSISTANT, "All is well.", "")


def test_the_last_answer_is_omitted_if_the_setting_is_off() -> None:
    recorder = worked_example()
    recorder.answer("All is well.")
    recorder.open("go on")
    assert said(recorder.plan(keep_answer=False))[3:] == ["go on"]


def test_only_the_answer_of_the_previous_turn_is_included() -> None:
    recorder = Recorder().open("one")
    recorder.answer("first answer")
    recorder.open("two")
    recorder.slice("mine", "ore")
    recorder.open("three")
    decision = recorder.plan().decision("said")
    assert decision is not None
    assert decision.reason is Reason.EMPTY


def test_the_compact_last_answer_is_its_last_400_characters() -> None:
    recorder = Recorder().open("one")
    recorder.answer("x" * 4000 + "y" * 400)
    recorder.open("two")
    plan = recorder.plan(max_tokens=400)
    assert said(plan)[1] == "y" * 400
    assert [(step.pack, step.before_chars, step.after_chars) for step in plan.steps] == [("said", 4400, 400)]


def test_the_history_is_compact_if_its_results_do_not_fit() -> None:
    recorder = Recorder().open("one")
    recorder.slice("get_map", "m" * 42_000)
    recorder.open("two")
    plan = recorder.plan(max_tokens=2000)
    decision = plan.decision("history")
    assert decision is not None
    assert (decision.variant, decision.reason) == (Variant.COMPACT, Reason.BUDGET)
    assert "characters left out; zoea_read_memory(id=3) shows them]" in plan.messages[2].content
    assert len(plan.messages[2].content) <= 1000


def test_the_history_is_the_latest_complete_slice() -> None:
    recorder = Recorder().open("one")
    recorder.slice("mine", "ore")
    recorder.answer("", Asked("sell"), Asked("buy"))
    recorder.open("two")
    assert said(recorder.plan())[1:3] == ["mine(c1)", "ore"]


def test_the_history_is_found_only_within_the_scan_window() -> None:
    recorder = Recorder().open("one")
    recorder.slice("mine", "ore")
    for number in range(19):
        recorder.open(f"prompt {number}")
    assert said(recorder.plan(scan_window=20))[1:3] == ["mine(c1)", "ore"]
    assert said(recorder.plan(scan_window=19))[1:] == ["prompt 18"]


def test_the_situation_is_a_titled_message_marked_as_data() -> None:
    recorder = Recorder().open("go")
    plan = recorder.plan(situation="tick 7\nfuel low")
    assert said(plan)[1] == "[data: situation]\ntick 7\nfuel low"
    assert plan.messages[1].source is Source.SYSTEM


def test_the_situation_is_one_line_if_it_does_not_fit() -> None:
    recorder = Recorder().open("go")
    content = said(recorder.plan(situation="tick 7\n" * 1000, max_tokens=100))[1]
    assert content.startswith("[data: situation]\ntick 7 tick 7")
    assert content.count("\n") == 1


def test_a_note_follows_the_slice_it_falls_into() -> None:
    recorder = Recorder().open("go")
    answer = recorder.answer("", Asked("mine"), Asked("sell"))
    recorder.result(answer, 0, "ore")
    recorder.note("You repeat yourself.")
    recorder.result(answer, 1, "sold")
    plan = recorder.plan()
    assert said(plan)[2:] == ["mine(c1) sell(c2)", "ore", "sold", "You repeat yourself."]
    assert (plan.messages[-1].role, plan.messages[-1].source) == (Role.USER, Source.SYSTEM)


def test_a_first_note_follows_the_nudge() -> None:
    recorder = Recorder().open()
    recorder.note("The budget is nearly spent.", "budget")
    assert said(recorder.plan())[1:] == [NUDGE, "The budget is nearly spent."]


def test_results_are_in_call_order_for_any_order_of_arrival() -> None:
    recorder = Recorder().open("go")
    answer = recorder.answer("both", Asked("a"), Asked("b"))
    recorder.result(answer, 1, "second")
    recorder.result(answer, 0, "first")
    assert said(recorder.plan())[2:] == ["both a(c1) b(c2)", "first", "second"]


def test_a_steer_between_a_call_and_its_results_follows_them() -> None:
    recorder = Recorder().open("go")
    answer = recorder.answer("", Asked("a"), Asked("b"))
    recorder.result(answer, 0, "first")
    recorder.steer("wait")
    recorder.result(answer, 1, "second")
    assert said(recorder.plan())[2:] == ["a(c1) b(c2)", "first", "second", "wait"]


def test_a_partial_answer_is_never_replayed() -> None:
    recorder = Recorder().open("go")
    recorder.answer("I was about t", partial=True)
    plan = recorder.plan()
    assert said(plan)[1:] == ["go"]
    assert [(step.kind.value, step.memory_id) for step in plan.steps] == [("partial", 2)]
    recorder.open("and now")
    assert said(recorder.plan())[1:] == ["and now"]


def test_reasoning_and_native_blocks_are_replayed_in_their_own_turn_only() -> None:
    recorder = Recorder().open("go")
    native = Native("anthropic", "m", '[{"signature": "x"}]')
    answer = recorder.answer("", Asked("mine"), reasoning="because", native=native)
    recorder.result(answer, 0, "ore")
    assert (recorder.plan().messages[2].reasoning, recorder.plan().messages[2].native) == ("because", native)
    recorder.open("next")
    past = recorder.plan().messages[1]
    assert (past.calls[0].name, past.reasoning, past.native) == ("mine", "", None)


def test_a_result_over_its_limit_is_cut_even_if_the_turn_fits() -> None:
    recorder = Recorder().open("go")
    recorder.slice("get_map", "m" * 500 + "n" * 500)
    plan = recorder.plan(max_result_chars=400)
    assert len(plan.messages[3].content) <= 400
    assert [(step.kind.value, step.before_chars) for step in plan.steps] == [("limit", 1000)]
    decision = plan.decision("turn")
    assert decision is not None
    assert (decision.truncated, decision.variant, decision.setting) == (
        True,
        Variant.FULL,
        "tool.max_result_chars = 1000",
    )


def test_a_whole_result_is_advised_with_a_budget_that_holds_it() -> None:
    recorder = Recorder().open("go")
    recorder.slice("get_map", "m" * 8000)
    limited = recorder.plan(max_result_chars=400, max_tokens=1500).decision("turn")
    assert limited is not None
    budget, results = limited.setting.split(" and ")
    assert results == "tool.max_result_chars = 8000"
    tokens = int(budget.removeprefix("budget.token_budget_per_agent = "))
    followed = recorder.plan(max_result_chars=8000, max_tokens=tokens).decision("turn")
    assert followed is not None
    assert not followed.truncated
    without = recorder.plan(max_result_chars=400, max_tokens=1500, max_chars=6000).decision("turn")
    assert without is not None
    assert (without.truncated, without.setting) == (True, "")


def test_a_turn_without_prompt_and_nudge_is_refused() -> None:
    recorder = Recorder().open("go")
    frozen = recorder.frozen(before=0)
    with pytest.raises(PlanError, match="holds no prompt"):
        plan_turn(frozen, {TurnSoFar(10): TurnRecord(())})


def test_an_unknown_strategy_is_an_error_that_names_the_known_ones() -> None:
    recorder = worked_example()
    with pytest.raises(PlanError) as raised:
        recorder.plan(strategy="wndow")
    assert "turns" in raised.value.hint


def test_a_turn_of_another_plan_version_is_refused() -> None:
    with pytest.raises(PlanError, match="rules 99"):
        worked_example().plan(plan_version=99)


def test_a_missing_answer_is_a_key_error() -> None:
    recorder = worked_example()
    with pytest.raises(KeyError):
        plan_turn(recorder.frozen(), {TurnSoFar(20): recorder.record()})


class TestDefectsThatMustNotComeBack:
    """Defects of Zoea Nova that planning could bring back."""

    def test_the_turn_does_not_push_the_order_out_of_the_window(self) -> None:
        recorder = Recorder().open("the order")
        for number in range(60):
            recorder.slice("mine", f"ore {number}")
        assert said(recorder.plan(scan_window=20))[1] == "the order"

    def test_many_nudges_do_not_lose_the_standing_order(self) -> None:
        recorder = Recorder().open("the order")
        for _ in range(5):
            recorder.open()
            for number in range(30):
                recorder.slice("mine", f"ore {number}")
        assert said(recorder.plan())[1] == "[data: standing order, given in turn 1]\nthe order"

    def test_the_system_prompt_is_there_once_in_every_request_of_a_tool_loop(self) -> None:
        recorder = worked_example()
        for _ in range(10):
            recorder.slice("mine", "ore")
            roles = [message.role for message in recorder.plan().messages]
            assert roles.count(Role.SYSTEM) == 1
            assert roles[0] is Role.SYSTEM

    def test_compaction_leaves_no_orphan_results(self) -> None:
        recorder = Recorder().open("go")
        for number in range(40):
            recorder.slice("mine", f"ore {number} " * 100)
        plan = recorder.plan(max_tokens=2000)
        calls = [call.id for message in plan.messages for call in message.calls]
        assert calls == [message.call_id for message in plan.messages if message.role is Role.TOOL]
        assert len(calls) < 40

    def test_bars_and_colons_in_arguments_reach_the_model_unchanged(self) -> None:
        recorder = Recorder().open("go")
        arguments = '{"note": "a|b:c|[TOOL_CALLS]7:mine:{}"}'
        recorder.slice("write", "1:ok|2:no", arguments=arguments)
        plan = recorder.plan()
        assert plan.messages[2].calls[0].arguments == arguments
        assert plan.messages[3].content == "1:ok|2:no"

    def test_a_stale_broadcast_is_not_in_the_request_of_a_prompted_turn(self) -> None:
        recorder = Recorder().open("old broadcast", label="[broadcast from mysis alpha]", source=Source.BROADCAST)
        recorder.answer("ok")
        recorder.open("direct")
        assert not any("old broadcast" in text for text in said(recorder.plan()))

    def test_a_large_result_is_not_repeated_in_the_request(self) -> None:
        recorder = Recorder().open("go")
        for _ in range(4):
            recorder.slice("get_map", '{"system": "sol"}' * 2500)
        plan = recorder.plan(max_tokens=16_000)
        assert sum(len(message.content) for message in plan.messages) < 64_000
        assert said(plan)[3] == "[superseded by a later call]"
        assert plan.messages[-1].content == '{"system": "sol"}' * 2500

    def test_a_message_sent_in_the_middle_of_a_turn_is_in_its_requests_once(self) -> None:
        recorder = worked_example()
        recorder.steer("also this")
        recorder.slice("mine", "ore")
        assert said(recorder.plan()).count("also this") == 1

    def test_text_beside_calls_is_kept_in_the_turn_and_in_the_history(self) -> None:
        recorder = Recorder().open("go")
        recorder.slice("mine", "ore", text="I mine because fuel is low.")
        assert said(recorder.plan())[2] == "I mine because fuel is low. mine(c1)"
        recorder.open("next")
        assert said(recorder.plan())[1] == "I mine because fuel is low. mine(c1)"

    def test_a_session_stays_visible_for_the_whole_turn(self) -> None:
        recorder = Recorder().open("go")
        recorder.slice("reef__login", '{"session_id": "s-77"}')
        for number in range(30):
            recorder.slice("mine", f"ore {number} " * 200)
        plan = recorder.plan(max_tokens=1500)
        assert plan.messages[3].content == '{"session_id": "s-77"}'
        assert plan.messages[2].calls[0].name == "reef__login"

    def test_a_long_past_adds_at_most_a_slice_and_an_answer(self) -> None:
        recorder = Recorder()
        for turn in range(50):
            recorder.open(f"prompt {turn}")
            recorder.slice("mine", "ore")
            recorder.answer("mined")
        recorder.open("now")
        assert len(recorder.plan().messages) == 5


def test_every_plan_can_be_rebuilt_from_its_record() -> None:
    recorder = worked_example()
    assert rebuild(encode(recorder.plan()), recorder.by_id()) == recorder.plan().messages


def test_tool_schemas_are_counted_without_a_message() -> None:
    plan = worked_example().plan(tools_tokens=300, calibration=1.5)
    decision = plan.decision("tools")
    assert decision is not None
    assert (decision.tokens, decision.status) == (450, PackStatus.INCLUDED)
    assert len(plan.messages) == 8
    assert plan.budget.final_tokens == sum(one.tokens for one in plan.decisions)
