"""Compaction of a turn: steps, order, exceptions, stability."""

from __future__ import annotations

import itertools
import json
import re

import pytest

from tests.case_tables import walk_cases
from tests.context.sample_histories import Asked, Recorder
from zoea.context import PackStatus, Plan, Reason, StepKind, Variant, request_limit
from zoea.model.enums import Role
from zoea.model.errors import PlanError
from zoea.model.values import Native


def kinds(plan: Plan) -> dict[int, str]:
    return {step.memory_id: step.kind.value for step in plan.steps}


def working(*results: str, tool: str = "mine") -> Recorder:
    recorder = Recorder().open("go")
    for number, result in enumerate(results):
        recorder.slice(tool, result, arguments=f'{{"n": {number}}}')
    return recorder


class TestSupersededSnapshots:
    def test_superseded_snapshots_are_replaced_first(self) -> None:
        recorder = Recorder().open("go")
        recorder.slice("get_status", "old " * 700)
        recorder.slice("mine", "ore " * 700)
        recorder.slice("get_status", "new " * 400)
        plan = recorder.plan(max_tokens=1800)
        assert kinds(plan) == {3: "superseded"}
        assert plan.messages[3].content == "[superseded by a later call]"
        assert plan.messages[2].calls[0].id == plan.messages[3].call_id

    def test_a_superseded_snapshot_stays_while_the_turn_fits(self) -> None:
        recorder = Recorder().open("go")
        recorder.slice("get_status", "old " * 500)
        recorder.slice("get_status", "new " * 500)
        assert recorder.plan().steps == ()

    @walk_cases("second", [Asked("get_status", '{"of": 2}'), Asked("get_map"), Asked("list_all")])
    def test_only_a_call_of_the_same_tool_and_arguments_supersedes(self, second: Asked) -> None:
        recorder = Recorder().open("go")
        recorder.slice("get_status", "old " * 1000)
        recorder.result(recorder.answer("", second), 0, "new " * 1000)
        assert "superseded" not in kinds(recorder.plan(max_tokens=1500)).values()

    def test_other_tools_than_snapshot_tools_are_not_superseded(self) -> None:
        recorder = Recorder().open("go")
        recorder.slice("mine", "old " * 500)
        recorder.slice("mine", "new " * 500)
        assert "superseded" not in kinds(recorder.plan(max_tokens=900)).values()

    def test_a_failed_call_supersedes_nothing(self) -> None:
        recorder = Recorder().open("go")
        recorder.slice("get_status", "old " * 500)
        recorder.slice("get_status", "timed out " * 200, is_error=True)
        assert "superseded" not in kinds(recorder.plan(max_tokens=900)).values()

    def test_the_earlier_of_two_equal_calls_in_one_message_is_superseded(self) -> None:
        recorder = Recorder().open("go")
        answer = recorder.answer("", Asked("get_status"), Asked("get_status"))
        recorder.result(answer, 1, "b" * 2000)
        recorder.result(answer, 0, "a" * 2000)
        plan = recorder.plan(max_tokens=900)
        assert plan.messages[3].content == "[superseded by a later call]"
        assert plan.messages[4].content == "b" * 2000

    def test_a_snapshot_tool_is_recognized_behind_its_upstream_prefix(self) -> None:
        recorder = Recorder().open("go")
        recorder.slice("reef__get_status", "old " * 500)
        recorder.slice("reef__get_status", "new " * 500)
        assert "superseded" in kinds(recorder.plan(max_tokens=900)).values()


class TestCuts:
    def test_long_results_are_cut_oldest_first_and_only_as_far_as_needed(self) -> None:
        plan = working("a" * 60_000, "b" * 60_000, "c" * 60_000).plan(max_tokens=40_000)
        assert kinds(plan) == {3: "cut", 5: "cut"}
        assert plan.messages[-1].content == "c" * 60_000

    def test_the_marker_says_how_much_is_missing_and_where_to_read_it(self) -> None:
        content = working("abc" * 20_000).plan(max_tokens=5000).messages[3].content
        match = re.search(r"\n\[… ([\d,]+) characters left out; zoea_read_memory\(id=3\) shows them\]\n", content)
        assert match is not None
        left_out = int(match[1].replace(",", ""))
        assert len(content) - len(match[0]) + left_out == 60_000
        assert content.startswith("abc")
        assert content.endswith("abc")

    def test_arguments_of_earlier_calls_are_cut_and_stay_a_json_object(self) -> None:
        recorder = Recorder().open("go")
        recorder.slice("write_file", "ok", arguments=json.dumps({"path": "a.txt", "text": "x" * 50_000}))
        recorder.slice("mine", "ore")
        plan = recorder.plan(max_tokens=8000)
        arguments = json.loads(plan.messages[2].calls[0].arguments)
        assert arguments["path"] == "a.txt"
        assert "zoea_read_memory(id=2) shows them]" in arguments["text"]
        assert len(arguments["text"]) < 16_100

    def test_arguments_of_the_last_slice_are_never_cut(self) -> None:
        recorder = Recorder().open("go")
        recorder.slice("write_file", "ok", arguments=json.dumps({"text": "x" * 50_000}))
        with pytest.raises(PlanError, match="latest calls"):
            recorder.plan(max_tokens=8000)

    def test_earlier_reasoning_is_dropped_and_the_latest_is_kept(self) -> None:
        recorder = Recorder().open("go")
        for _ in range(3):
            native = Native("anthropic", "m", '["signed"]')
            recorder.result(recorder.answer("", Asked("mine"), reasoning="r" * 4000, native=native), 0, "ore")
        plan = recorder.plan(max_tokens=2500)
        answers = [message for message in plan.messages if message.calls]
        assert [bool(message.reasoning) for message in answers] == [False, False, True]
        assert [message.native is None for message in answers] == [True, True, False]
        assert kinds(plan) == {2: "reasoning", 4: "reasoning"}

    def test_a_result_the_model_has_not_read_yet_is_not_cut_for_headroom(self) -> None:
        plan = working("a" * 8000, "b" * 8000).plan(max_tokens=3500)
        assert kinds(plan) == {3: "cut"}
        assert plan.messages[-1].content == "b" * 8000

    def test_results_of_the_last_slice_are_cut_only_as_a_last_resort(self) -> None:
        plan = working("z" * 90_000).plan(max_tokens=600)
        assert len(plan.messages[-1].content) <= 1000
        assert plan.messages[-1].role is Role.TOOL


class TestFolding:
    def folded(self) -> Plan:
        recorder = Recorder().open("go")
        for number in range(30):
            result = f'{{"ore_id": "ore-{number}", "note": "{"n" * 60}"}}'
            recorder.slice("mine", result, arguments='{"at": "belt_7"}', text="Digging.", is_error=number == 1)
        return recorder.plan(max_tokens=900)

    def test_the_oldest_slices_become_one_message_of_lines(self) -> None:
        plan = self.folded()
        assert [message.role for message in plan.messages[:3]] == [Role.SYSTEM, Role.USER, Role.ASSISTANT]
        text = plan.messages[2].content
        assert text.startswith('(earlier in this turn: said: Digging.\nmine({"at": "belt_7"}) ok: ore-0\n')
        assert '\nmine({"at": "belt_7"}) error: ore-1\n' in text
        assert text.endswith(")")
        assert plan.messages[3].calls

    def test_each_folded_memory_is_reported(self) -> None:
        plan = self.folded()
        folded = [step.memory_id for step in plan.steps if step.kind is StepKind.FOLDED]
        assert folded == list(range(2, 2 + len(folded)))
        shown = {message.memory_id for message in plan.messages}
        assert not shown & set(folded)

    def test_arguments_of_a_line_are_at_most_200_characters(self) -> None:
        recorder = Recorder().open("go")
        for _ in range(12):
            recorder.slice("write", "ok", arguments=json.dumps({"text": "w" * 900}))
        line = recorder.plan(max_tokens=1500).messages[2].content.split("\n")[0]
        assert len(line.removeprefix("(earlier in this turn: ")) <= len("write() ok") + 200

    def test_prompts_between_slices_stay_where_they_are(self) -> None:
        recorder = Recorder().open("go")
        for number in range(20):
            recorder.slice("mine", f"ore {number} " * 30)
            if number == 3:
                recorder.steer("carefully")
        plan = recorder.plan(max_tokens=700)
        assert [message.role for message in plan.messages[1:5]] == [
            Role.USER,
            Role.ASSISTANT,
            Role.USER,
            Role.ASSISTANT,
        ]
        assert plan.messages[3].content == "carefully"

    def test_an_answer_that_a_prompt_followed_folds_too(self) -> None:
        recorder = Recorder().open("go")
        recorder.answer("a long tale " * 400)
        recorder.steer("shorter")
        plan = recorder.plan(max_tokens=300)
        assert plan.messages[2].content.startswith("(earlier in this turn: said: a long tale")
        assert plan.messages[-1].content == "shorter"

    @pytest.mark.parametrize(("text", "reasoning"), [("\n" * 8000, ""), ("", "t" * 9000)])
    def test_an_answer_without_words_folds_too(self, text: str, reasoning: str) -> None:
        recorder = Recorder().open("go")
        recorder.answer(text, reasoning=reasoning)
        recorder.steer("again")
        plan = recorder.plan(max_tokens=300)
        assert [message.content for message in plan.messages[2:]] == ["(earlier in this turn: said: nothing)", "again"]

    def test_a_slice_shorter_than_its_fold_is_not_folded(self) -> None:
        recorder = working(*["k"] * 3, "z" * 4000)
        plan = recorder.plan(max_tokens=200)  # so little that folding is tried
        assert [step.kind for step in plan.steps] == [StepKind.CUT]
        assert [message.content for message in plan.messages].count("k") == 3


def test_slices_of_kept_tools_are_never_touched() -> None:
    recorder = Recorder().open("go")
    secret = json.dumps({"session_id": "s-1", "welcome": "w" * 1500})
    recorder.slice("login", secret)
    recorder.slice("login", secret)
    for number in range(20):
        recorder.slice("mine", f"ore {number} " * 40)
    plan = recorder.plan(max_tokens=1600)
    assert [message.content for message in plan.messages if message.name == "login"] == [secret, secret]


def test_required_parts_that_cannot_fit_are_refused_with_sizes_and_advice() -> None:
    recorder = Recorder().open("p" * 40_000)
    with pytest.raises(PlanError) as raised:
        recorder.plan(max_tokens=5000, tools_tokens=100)
    assert "the prompts and latest calls of the turn 10,005 (40,000 characters)" in raised.value.what
    assert "the tool schemas 100" in raised.value.what
    assert raised.value.hint.startswith("Raise budget.token_budget_per_agent to at least 10,")
    assert "send the text in smaller parts" in raised.value.hint


def test_the_refusal_names_the_window_if_it_is_the_limit() -> None:
    recorder = Recorder().open("p" * 40_000)
    with pytest.raises(PlanError) as raised:
        recorder.plan(context_window=8192, max_output_tokens=4096)
    assert raised.value.hint.startswith("Start the model server with a window of at least 14,")
    with pytest.raises(PlanError) as assumed:
        recorder.plan(context_window=8192, max_output_tokens=4096, is_window_assumed=True)
    assert assumed.value.hint.startswith("Raise context.context_window to at least 14,")


def test_a_system_prompt_over_the_budget_is_never_cut_and_the_error_names_its_size_and_the_setting() -> None:
    recorder = Recorder().open("go")
    with pytest.raises(PlanError) as refused:
        recorder.plan(system="s" * 9000, max_tokens=1000)
    assert "the system prompt 2,255 (9,000 characters)" in refused.value.what
    assert "budget.token_budget_per_agent" in refused.value.hint


def test_after_large_tools_a_compaction_leaves_room_and_the_prefix_lasts() -> None:
    recorder = Recorder().open("go")
    kept = 0
    earlier: Plan | None = None
    for number in range(30):
        recorder.slice("look", f"{number} " + "x" * 600)
        plan = recorder.plan(tools_tokens=2000, max_tokens=3000)
        if earlier is not None:
            kept += plan.messages[: len(earlier.messages)] == earlier.messages
        earlier = plan
    assert kept >= 20


def test_the_effective_budget_is_the_least_of_all_bounds() -> None:
    recorder = Recorder().open("go")
    assert request_limit(recorder.frozen(max_tokens=9000)).setting == "budget.token_budget_per_agent"
    windowed = request_limit(recorder.frozen(context_window=8192, max_output_tokens=1192))
    assert (windowed.tokens, windowed.setting) == (7000, "provider.NAME.context_window")
    assert request_limit(recorder.frozen(max_chars=4000)).tokens == 1000
    assert request_limit(recorder.frozen(max_tokens=1000).tightened(750)).tokens == 750
    assert request_limit(recorder.frozen(max_tokens=500).tightened(750)).tokens == 500


def test_a_turn_limited_by_characters_names_no_setting_for_none_exists() -> None:
    recorder = working("a" * 3000, "b" * 3000)
    plan = recorder.plan(max_chars=4000)
    decision = plan.decision("turn")
    assert decision is not None
    assert (decision.reason, decision.variant) == (Reason.MAX_CHARS, Variant.COMPACT)
    assert plan.truncation.applied
    assert sum(len(message.content) for message in plan.messages) <= 4000
    assert decision.setting == ""
    assert recorder.plan(max_chars=40_000).steps == ()


def test_the_setting_named_for_a_compacted_turn_would_have_kept_it_whole() -> None:
    recorder = working("a" * 3000, "b" * 3000, "c" * 3000)
    decision = recorder.plan(max_tokens=1500).decision("turn")
    assert decision is not None
    needed = int(decision.setting.removeprefix("budget.token_budget_per_agent = "))
    assert recorder.plan(max_tokens=needed).steps == ()
    assert recorder.plan(max_tokens=needed - 1).steps != ()


class TestStability:
    """Requests of a long turn extend one another, and compactions are rare."""

    def breaks(self, plans: list[Plan]) -> int:
        pairs = itertools.pairwise(plans)
        return sum(later.messages[: len(earlier.messages)] != earlier.messages for earlier, later in pairs)

    def long_turn(self, *, steps: int, max_tokens: int, size: int) -> list[Plan]:
        recorder = Recorder().open("old")
        recorder.slice("mine", "past " * 20)
        recorder.answer("well")
        recorder.open("go")
        plans = []
        for number in range(steps):
            plans.append(recorder.plan(max_tokens=max_tokens))
            recorder.slice("mine", f"ore-{number} " + "x" * size)
        return plans

    def test_compactions_are_rare_because_each_frees_headroom(self) -> None:
        plans = self.long_turn(steps=80, max_tokens=8000, size=2000)
        assert max(plan.tokens for plan in plans) <= 8000
        grown = 80 * 510
        assert self.breaks(plans) <= grown / (0.3 * 8000)

    def test_a_dropped_pack_does_not_return_within_the_turn(self) -> None:
        plans = self.long_turn(steps=60, max_tokens=4000, size=2000)
        seen = [plan.decision("history") for plan in plans]
        states = [decision.status for decision in seen if decision is not None]
        first_skip = states.index(PackStatus.SKIPPED)
        assert set(states[:first_skip]) == {PackStatus.INCLUDED}
        assert set(states[first_skip:]) == {PackStatus.SKIPPED}

    def test_messages_are_identical_between_compactions(self) -> None:
        plans = self.long_turn(steps=40, max_tokens=6000, size=2000)
        for earlier, later in itertools.pairwise(plans):
            if later.steps == earlier.steps and len(later.decisions) == len(earlier.decisions):
                same = [one.status for one in later.decisions] == [one.status for one in earlier.decisions]
                assert not same or later.messages[: len(earlier.messages)] == earlier.messages

    def test_a_request_planned_after_a_restart_is_identical(self) -> None:
        recorder = working(*[f"ore-{number} " * 300 for number in range(12)])
        assert recorder.plan(max_tokens=3000) == recorder.plan(max_tokens=3000)
