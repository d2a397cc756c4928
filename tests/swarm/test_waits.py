"""Waits that a mysis asks for, or that its world requires."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.case_tables import walk_cases
from zoea.model.enums import CallState, Role, Source
from zoea.model.values import Memory, ToolCall
from zoea.settings.schema import WaitSettings
from zoea.swarm.rules import SECOND, WaitRules
from zoea.swarm.turn import waits

T = 1_000 * SECOND
RULES = WaitRules(WaitSettings())


def answer(*calls: ToolCall, text: str = "") -> Memory:
    return Memory(1, 1, 1, 1, 1, Role.ASSISTANT, Source.LLM, text, calls=calls)


def wait_call(state: CallState = CallState.DONE, **arguments: Any) -> ToolCall:
    return ToolCall(1, 0, "zoea_wait", json.dumps(arguments), state=state)


def result(content: Any, *, at: int = T, is_error: bool = False, tool: str = "") -> Memory:
    text = content if isinstance(content, str) else json.dumps(content)
    return Memory(
        2, 1, 1, 1, 2, Role.TOOL, Source.TOOL, text, call_id=1, tool_name=tool, is_error=is_error, created_at=at
    )


def asked(*memories: Memory, at: int = T, tick: int = 0) -> waits.Wait | None:
    return waits.asked(memories, RULES, at, tick)


class TestByTool:
    def test_a_wait_of_seconds_ends_so_long_from_now(self) -> None:
        assert asked(answer(wait_call(seconds=50, reason="the kiln cools"))) == waits.Wait(
            T + 50 * SECOND, "the kiln cools"
        )

    def test_a_wait_lasts_an_hour_at_most(self) -> None:
        found = asked(answer(wait_call(seconds=1e300)))
        assert found == waits.Wait(T + 3600 * SECOND, "it asked to wait")

    def test_until_a_tick_by_the_last_one_seen(self) -> None:
        found = asked(answer(wait_call(until_tick=106)), result({"current_tick": 100}))
        assert found is not None
        assert found.until == T + 60 * SECOND

    def test_until_a_tick_where_none_was_seen_is_one_tick(self) -> None:
        found = asked(answer(wait_call(until_tick=106)), tick=3 * SECOND)
        assert found is not None
        assert found.until == T + 3 * SECOND

    def test_the_earlier_of_both(self) -> None:
        found = asked(answer(wait_call(seconds=5, until_tick=106)), result({"current_tick": 100}))
        assert found is not None
        assert found.until == T + 5 * SECOND

    @walk_cases(
        "call",
        [
            wait_call(CallState.ERROR, seconds=5),
            wait_call(),
            wait_call(seconds="5"),
            wait_call(seconds=float("nan")),
            ToolCall(1, 0, "zoea_wait", "[5]", state=CallState.DONE),
            ToolCall(1, 0, "act", "{}", state=CallState.DONE),
        ],
        ids=["refused", "says nothing", "no number", "not a number", "no object", "another tool"],
    )
    def test_a_refused_or_wrong_call_is_no_wait(self, call: ToolCall) -> None:
        assert asked(answer(call)) is None

    def test_a_tick_that_has_passed_is_no_wait(self) -> None:
        assert asked(answer(wait_call(until_tick=100)), result({"current_tick": 100})) is None


class TestByResults:
    def test_an_absolute_tick_ahead_counts_from_the_result(self) -> None:
        found = asked(result({"arrival_tick": 106, "current_tick": 100}), answer(text="on my way"), at=T + 5 * SECOND)
        assert found == waits.Wait(T + 60 * SECOND, "arrival_tick 106")

    def test_a_number_of_ticks_counts_from_the_result(self) -> None:
        found = asked(result({"cooldown_ticks": 3}), answer(text="I rest"), tick=2 * SECOND)
        assert found == waits.Wait(T + 6 * SECOND, "cooldown_ticks 3")

    def test_the_newest_result_that_speaks_of_time_decides(self) -> None:
        travel = result({"arrival_tick": 106, "current_tick": 100})
        assert asked(travel, result({"current_tick": 107}), answer(text="there")) is None
        assert asked(travel, result("plain"), result({"other": 1}), answer(text="on my way")) is not None

    def test_a_look_at_something_else_takes_no_wait_away(self) -> None:
        travel = result({"arrival_tick": 106, "current_tick": 100}, tool="get_status")
        look = result({"lanes": [], "current_tick": 102}, tool="get_system", at=T + 3 * SECOND)
        found = asked(travel, look, answer(text="on my way"), at=T + 5 * SECOND)
        assert found == waits.Wait(T + 43 * SECOND, "arrival_tick 106")
        rest = result({"cooldown_ticks": 3}, tool="mine")
        assert asked(rest, look, answer(text="I rest"), at=T + 5 * SECOND) is not None

    def test_a_later_look_with_the_same_tool_that_names_no_ticks_ends_the_wait(self) -> None:
        travel = result({"arrival_tick": 106, "current_tick": 100}, tool="get_status")
        assert asked(travel, result({"current_tick": 102}, tool="get_status"), answer(text="free")) is None
        for nothing in (None, 90):
            free = result({"arrival_tick": nothing, "current_tick": 102}, tool="get_ship")
            assert asked(travel, free, answer(text="free")) is None

    def test_a_tick_that_another_result_shows_as_passed_is_no_wait(self) -> None:
        travel = result({"arrival_tick": 106, "current_tick": 100}, tool="jump")
        assert asked(travel, result({"current_tick": 106}, tool="get_system"), answer(text="there")) is None

    def test_an_error_says_nothing_of_time(self) -> None:
        assert asked(result({"cooldown_ticks": 3}, is_error=True), answer(text="hm")) is None

    @pytest.mark.parametrize(
        "content", [{"arrival_tick": 101, "current_tick": 100}, {"cooldown_ticks": 1}], ids=["until", "for"]
    )
    def test_what_has_passed_by_the_end_of_the_turn_is_no_wait(self, content: Any) -> None:
        assert asked(result(content), answer(text="hm"), at=T + 11 * SECOND) is None

    @walk_cases(
        "content",
        [
            '{"cooldown_ticks": 1e308}',
            '{"arrival_tick": 1e308, "current_tick": -1e308}',
            '{"arrival_tick": ' + "9" * 300 + ', "current_tick": 1}',
        ],
    )
    def test_a_number_that_no_clock_holds_is_a_long_wait(self, content: str) -> None:
        found = asked(result(content), answer(text="hm"))
        assert found is not None
        assert T < found.until <= T + 31 * 24 * 3600 * SECOND
        assert len(found.reason) < 60

    @walk_cases(
        "content",
        [
            '{"cooldown_ticks": Infinity}',
            '{"cooldown_ticks": NaN}',
            '{"cooldown_ticks": true}',
            '{"cooldown_ticks": ' + "9" * 400 + "}",
            '{"cooldown_ticks": "3"}',
            '{"cooldown_ticks": -3}',
            "[3]",
            '{"pad": "' + "x" * 70_000 + '", "cooldown_ticks": 3}',
        ],
    )
    def test_a_value_that_is_no_number_of_ticks_is_no_wait(self, content: str) -> None:
        assert asked(result(content), answer(text="hm")) is None

    def test_an_answer_with_calls_does_not_wait_and_neither_does_silence(self) -> None:
        travel = result({"cooldown_ticks": 3})
        act = ToolCall(1, 0, "act", "{}", state=CallState.DONE)
        assert asked(travel, answer(act)) is None
        assert asked(travel) is None


def of_upstream(upstream: str) -> Memory:
    """The answer that made the call of `result`."""
    return answer(ToolCall(1, 0, "travel", "{}", upstream=upstream, state=CallState.DONE))


class TestOtherShapes:
    @walk_cases(
        "wrapped",
        [
            {"result": {"arrival_tick": 106, "current_tick": 100}},
            {"data": {"ship": {"travel": {"arrival_tick": 106}}}, "meta": {"tick": 100}},
            {"content": [{"type": "text", "text": '{"arrival_tick": 106, "tick": 100}'}]},
            {"events": [{"tick": 97}, {"tick": 96}], "tick": 100, "arrival_tick": 106},
        ],
        ids=["one level", "deep, with tick", "JSON in a text", "older ticks in a list"],
    )
    def test_an_arrival_is_understood_in_a_wrapped_result(self, wrapped: Any) -> None:
        found = asked(result(wrapped), answer(text="on my way"))
        assert found == waits.Wait(T + 60 * SECOND, "arrival_tick 106")

    def test_an_arrival_in_a_list_of_several_may_be_of_others(self) -> None:
        ships = {"tick": 100, "ships": [{"arrival_tick": 106}, {"arrival_tick": 120}]}
        assert asked(result(ships), answer(text="I see")) is None

    def test_the_tick_may_come_from_another_result_of_the_turn(self) -> None:
        status, travel = result({"tick": 41700}), result({"queued": True, "ticks": 1, "arrival_tick": 41708}, at=T + 1)
        found = asked(status, travel, answer(text="on my way"))
        assert found == waits.Wait(T + 80 * SECOND, "arrival_tick 41708")

    def test_the_tick_may_come_from_any_result_of_that_upstream_within_ten_ticks(self) -> None:
        told = result({"queued": True, "ticks": 1, "arrival_tick": 41708})
        memories = (of_upstream("game"), told, answer(text="on my way"))

        def known(upstream: str, seconds: int) -> dict[str, waits.Tick]:
            return {upstream: waits.Tick(41700, T - seconds * SECOND)}

        found = waits.asked(memories, RULES, T, 0, known=known("game", 20))
        assert found == waits.Wait(T + 60 * SECOND, "arrival_tick 41708")
        assert waits.asked(memories, RULES, T, 0, known=known("game", 101)) is None
        assert waits.asked(memories, RULES, T, 0, known=known("other", 20)) is None
        assert waits.asked(memories, RULES, T, 0) is None

    def test_a_tool_call_waits_until_a_tick_by_what_another_turn_was_told(self) -> None:
        call = answer(wait_call(until_tick=106))
        found = waits.asked((call,), RULES, T, 0, known={"game": waits.Tick(100, T)})
        assert found is not None
        assert found.until == T + 60 * SECOND

    def test_an_upstream_may_have_names_of_its_own(self) -> None:
        own = WaitSettings(tick_fields=("turn_number",), until_fields=("ready_at_turn",), for_fields=("busy_for",))
        rules = replace(RULES, upstreams=(("board", own),))
        told = result({"state": {"turn_number": 7, "ready_at_turn": 9}})
        found = waits.asked((of_upstream("board"), told, answer(text="I wait")), rules, T, 0)
        assert found == waits.Wait(T + 20 * SECOND, "ready_at_turn 9")
        assert waits.asked((of_upstream("game"), told, answer(text="I wait")), rules, T, 0) is None

    def test_the_newest_tick_of_each_upstream_is_found(self) -> None:
        first, second = result({"tick": 5}), result({"a": {"current_tick": 6}}, at=T + SECOND)
        found = waits.newest_ticks((of_upstream("game"), first, second), RULES)
        assert found == {"game": waits.Tick(6, T + SECOND)}


class TestTickLength:
    def test_it_is_learned_from_the_first_and_last_tick_of_the_turn(self) -> None:
        seen = (result({"current_tick": 100}), result("plain"), result({"current_tick": 104}, at=T + 8 * SECOND))
        assert waits.learn_tick(seen, RULES, 0) == 2 * SECOND

    def test_ticks_are_whole_so_one_that_just_passed_by_measures_nothing(self) -> None:
        first, next_one = result({"current_tick": 100}), result({"current_tick": 101}, at=T + SECOND // 2)
        assert waits.learn_tick((first, next_one), RULES, 2 * SECOND) == 2 * SECOND
        assert waits.learn_tick((first, next_one), RULES, 0) == 0, "the default is as good as what was seen"
        later = result({"current_tick": 101}, at=T + 5 * SECOND)
        assert waits.learn_tick((first, later), RULES, 2 * SECOND) == 5 * SECOND

    @walk_cases(
        "ticks",
        [(100,), (100, 100), (104, 100), (1, 1 + 1e-9), ("x", "y")],
        ids=["one", "none passed", "backwards", "absurdly long", "no numbers"],
    )
    def test_a_known_tick_length_stays_where_nothing_was_learned(self, ticks: tuple[Any, ...]) -> None:
        seen = tuple(result({"current_tick": tick}, at=T + place * SECOND) for place, tick in enumerate(ticks))
        assert waits.learn_tick(seen, RULES, 7 * SECOND) == 7 * SECOND

    def test_a_clock_that_stood_teaches_nothing(self) -> None:
        seen = (result({"current_tick": 100}), result({"current_tick": 104}))
        assert waits.learn_tick(seen, RULES, 7 * SECOND) == 7 * SECOND
