"""The loop guard and the fingerprints that it compares."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.case_tables import walk_cases
from tests.swarm.harness import call, script, swarm
from zoea.context import Note
from zoea.model.enums import CallState, Role, Source
from zoea.model.request import Answer
from zoea.model.values import Memory, ToolCall
from zoea.settings.schema import LoopSettings
from zoea.swarm.turn import fingerprint, loop_guard
from zoea.swarm.turn.turn_types import PastCall

RULES = LoopSettings()
VOLATILE = RULES.volatile


def past(name: str, arguments: str = "{}", result: str = "ok") -> PastCall:
    return PastCall(name, fingerprint.of_call(name, arguments), fingerprint.of_result(result, VOLATILE))


def memory(*calls: PastCall, text: str = "") -> Memory:
    made = tuple(
        ToolCall(
            place,
            place,
            one.name,
            "{}",
            fingerprint=one.fingerprint,
            result_fingerprint=one.result_fingerprint,
            state=CallState.DONE,
        )
        for place, one in enumerate(calls)
    )
    return Memory(1, 1, 1, 1, 1, Role.ASSISTANT, Source.LLM, text, calls=made)


def found(*calls: PastCall, earlier: tuple[PastCall, ...] = ()) -> str:
    return words(loop_guard.find_repetition((memory(*calls),), earlier, (), RULES))


def words(repeated: loop_guard.Repetition | None) -> str:
    return repeated.words if repeated is not None else ""


class TestRepetition:
    def test_the_same_call_with_the_same_result_three_times_is_a_loop(self) -> None:
        assert found(*[past("act")] * 2) == ""
        assert found(*[past("act")] * 3) == "the same call 3 times, with the same result: act"

    def test_the_turn_before_counts_but_not_alone(self) -> None:
        assert found(past("act"), earlier=(past("act"), past("act")))
        assert loop_guard.find_repetition((), (past("act"),) * 9, (), RULES) is None
        assert found(past("look"), earlier=(past("act"),) * 5) == ""

    def test_the_same_call_with_other_results_is_a_loop_at_the_fifth(self) -> None:
        calls = [past("act", result=f"{number}") for number in range(5)]
        assert found(*calls[:4]) == ""
        assert found(*calls) == "the same call 5 times: act"

    def test_two_calls_in_turns_three_times_are_a_loop(self) -> None:
        calls = [past("look" if number % 2 else "act", result=f"{number}") for number in range(6)]
        assert found(*calls[:5]) == ""
        assert found(*calls) == "act and look in turns, three times"

    def test_six_different_calls_are_none(self) -> None:
        assert found(*[past("act", f'{{"n": {number}}}') for number in range(6)]) == ""

    def test_only_the_last_ten_calls_count(self) -> None:
        others = [past("look", f'{{"n": {number}}}') for number in range(9)]
        assert found(past("act"), past("act"), *others, past("act")) == ""

    @walk_cases("name", RULES.exempt)
    def test_exempt_tools_may_repeat_without_end(self, name: str) -> None:
        assert found(*[past(name)] * 10) == ""

    def test_the_same_text_three_times_is_a_loop(self) -> None:
        said = (memory(past("act"), text=" I mine on. "),)
        assert loop_guard.find_repetition(said, (), ("I mine on.",), RULES) is None
        assert (
            words(loop_guard.find_repetition(said, (), ("I mine on.", "I mine on."), RULES)) == "the same text 3 times"
        )

    def test_a_cut_off_text_is_not_counted_and_an_open_call_is_none(self) -> None:
        cut = replace(memory(text="I mine on."), partial=True)
        assert loop_guard.texts_of((cut,)) == ()
        open_call = replace(memory(past("act")).calls[0], state=CallState.SENT)
        assert loop_guard.calls_of((replace(memory(), calls=(open_call,)),)) == ()


class TestFingerprints:
    def test_order_and_spacing_of_arguments_do_not_matter(self) -> None:
        assert fingerprint.of_call("act", '{"a": 1, "b": 2}') == fingerprint.of_call("act", '{"b":2,"a":1}')
        assert fingerprint.of_call("act", '{"a": 1}') != fingerprint.of_call("act", '{"a": 2}')
        assert fingerprint.of_call("act", "{}") != fingerprint.of_call("look", "{}")

    def test_broken_arguments_are_compared_as_text(self) -> None:
        assert fingerprint.of_call("act", "{broken") == fingerprint.of_call("act", "{broken")
        assert fingerprint.of_call("act", "{broken") != fingerprint.of_call("act", "{other")

    def test_long_arguments_are_compared_as_text_because_parsing_holds_up_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(_text: str) -> None:
            raise AssertionError("it was parsed")

        monkeypatch.setattr(json, "loads", refuse)
        long = json.dumps({"text": "x" * fingerprint.LARGEST_PARSED})
        assert fingerprint.of_call("act", long) == fingerprint.of_call("act", long)

    def test_volatile_fields_are_left_out_wherever_they_stand(self) -> None:
        one = '{"current_tick": 5, "ships": [{"seen_at": 1, "id": 3}], "server_timestamp_ms": 9}'
        two = '{"current_tick": 6, "ships": [{"seen_at": 2, "id": 3}], "server_timestamp_ms": 8}'
        assert fingerprint.of_result(one, VOLATILE) == fingerprint.of_result(two, VOLATILE)
        other = two.replace('"id": 3', '"id": 4')
        assert fingerprint.of_result(one, VOLATILE) != fingerprint.of_result(other, VOLATILE)

    @walk_cases(
        "content",
        ["plain words", "[1, 2", "[" * 100_000, "[" * 490 + "]" * 490, '{"a": "' + "x" * 70_000 + '"}', "\ud800"],
        ids=["text", "cut short", "open for ever", "nested deep", "very long", "a lone surrogate"],
    )
    def test_any_result_has_one(self, content: str) -> None:
        assert len(fingerprint.of_result(content, VOLATILE)) == 16
        assert fingerprint.of_result(content, VOLATILE) != fingerprint.of_result(content + "x", VOLATILE)


class TestWarning:
    """A model that repeats the warning as its answer has not answered."""

    NOTE = Note(7, loop_guard.NOTE_KIND, loop_guard.warning_text("the same call 3 times: act"))

    @walk_cases(
        ("text", "kept"),
        [
            (NOTE.content, ""),
            (NOTE.content.removeprefix("[note from Zoea] "), ""),
            ("Do something else, or answer without tool calls.", ""),
            ("do something else, or answer WITHOUT tool calls. The port is calm.", "The port is calm."),
            ("The port is calm. If it happens again this turn ends.", "The port is calm."),
            ("The port is calm.", "The port is calm."),
            ("I repeat myself: the port is calm.", "I repeat myself: the port is calm."),
        ],
    )
    def test_its_sentences_are_taken_from_an_answer(self, text: str, kept: str) -> None:
        assert loop_guard.drop_warning(text, (self.NOTE,)) == kept

    def test_without_a_warning_nothing_is_taken(self) -> None:
        other = Note(7, "budget", self.NOTE.content)
        assert loop_guard.drop_warning(self.NOTE.content, (other,)) == self.NOTE.content


async def test_a_warning_that_the_model_repeats_is_not_kept_as_its_answer(tmp_path: Path) -> None:
    look = Answer(calls=(call("look", "north"),))
    echo = Answer(text="Do something else, or answer without tool calls. North is ore.")
    async with swarm(tmp_path, script(look, look, look, echo)) as s:
        await s.ask("alpha", "look north")
        assert (await s.api.mysis("alpha")).text == "North is ore."
