"""The autopilot: a provider without a model, a pure function of the request, and better when it is told things."""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from tests.world.sample_fleet import NUDGE, Fleet, random_pilot, toolbox
from zoea.model.enums import CALL_TOOL, FIND_TOOL, Finish, Role, Source
from zoea.model.ports import Provider
from zoea.model.request import Answer, Delta, ModelRequest, RequestCall, RequestMessage, StreamItem, ToolSpec
from zoea.process.clock import SystemClock
from zoea.tools.tool_search import build_search_tools, find_tools
from zoea.world.autopilot import AutopilotProvider
from zoea.world.autopilot.belt_notes import BeltNote, BeltOutlet, build_note, parse_notes, rank_routes
from zoea.world.autopilot.decisions import MOST_SLICES, build_answer
from zoea.world.autopilot.request_facts import read_request

SEEDS, FEWER_SEEDS = (range(20), range(3)) if os.environ.get("ZOEA_SOAK") else (range(2), range(2))
NAMES = ["alpha", "bravo", "charlie", "delta", "echo"]
TOOLS = toolbox(share=True)
SYSTEM = RequestMessage(Role.SYSTEM, "You are a captain.")
IRIDIUM = BeltNote("p57", "s12", 0, "iridium", (BeltOutlet("p3", "s4", 5), BeltOutlet("p9", "s8", 9)))


def user(text: str, source: Source = Source.DIRECT) -> RequestMessage:
    return RequestMessage(Role.USER, text, source)


def piece(*past_calls: tuple[str, dict[str, Any], Any]) -> list[RequestMessage]:
    """A loop slice: calls, then their results in order."""
    calls = tuple(RequestCall(f"c{n}", tool, json.dumps(args)) for n, (tool, args, _) in enumerate(past_calls))
    results = [
        RequestMessage(
            Role.TOOL,
            result if isinstance(result, str) else json.dumps(result),
            Source.TOOL,
            call_id=f"c{n}",
            name=tool,
        )
        for n, (tool, _, result) in enumerate(past_calls)
    ]
    return [RequestMessage(Role.ASSISTANT, "", Source.LLM, calls=calls), *results]


def names(messages: list[RequestMessage], tools: tuple[ToolSpec, ...] = TOOLS) -> list[str]:
    return [call.name for call in build_answer(messages, tools).calls]


def earned(seeds: range, ticks: int, **options: Any) -> int:
    return sum(Fleet(seed, NAMES, **options).run(ticks) for seed in seeds)


def test_five_captains_that_share_earn_more_than_five_that_do_not() -> None:
    """Both fly by one policy: only the broadcasts differ.

    How far they scout decides the margin: at 3, 4, 5, 6 scans each it is 1.33, 1.32, 1.32, 1.30 over
    seeds 0-19 and 1.38, 1.35, 1.33, 1.26 over 20-39, as lone captains that scout further find more themselves.
    """
    together = earned(SEEDS, 1_000, share=True)
    alone = earned(SEEDS, 1_000, share=False)
    chance = sum(Fleet(seed, NAMES, share=False, pilot=random_pilot(seed)).run(1_000) for seed in SEEDS)
    assert together >= 1.3 * alone
    assert chance < 0.3 * alone


def test_without_the_history_pack_it_earns_less_with_as_many_requests() -> None:
    def credits(history: bool) -> float:
        fleets = [Fleet(seed, NAMES, share=True, history=history) for seed in FEWER_SEEDS]
        total = sum(fleet.run(600) for fleet in fleets)
        return total / sum(captain.requests for fleet in fleets for captain in fleet.captains)

    assert credits(history=False) < 0.9 * credits(history=True)


def test_the_gain_comes_from_the_notes_of_others() -> None:
    def deaf(messages: Any, tools: Any) -> Any:
        nudge = user(NUDGE, Source.SYSTEM)
        return build_answer([nudge if "[broadcast from mysis" in m.content else m for m in messages], tools)

    assert Fleet(0, NAMES, share=True, pilot=deaf).run(800) < 0.85 * Fleet(0, NAMES, share=True).run(800)


def test_the_answer_is_a_pure_function_of_the_request() -> None:
    requests: list[tuple[tuple[RequestMessage, ...], Any]] = []

    def noting(messages: Any, tools: Any) -> Any:
        said = build_answer(messages, tools)
        requests.append((tuple(messages), said))
        return said

    Fleet(2, NAMES, share=True, pilot=noting).run(150)
    random.Random(1).shuffle(requests)
    assert len(requests) > 100
    assert all(build_answer(messages, TOOLS) == said for messages, said in requests)


async def test_any_instance_gives_the_same_answer_in_any_order() -> None:
    first, second = AutopilotProvider("one", pace=0), AutopilotProvider("two", pace=0)
    asked = [ModelRequest("autopilot", (SYSTEM, user(f"report {n}")), TOOLS) for n in range(10)]
    one = [(await collect(first, request))[-1] for request in asked]
    two = [(await collect(second, request))[-1] for request in reversed(asked)]
    assert one == two[::-1]


async def collect(provider: Provider, request: ModelRequest) -> list[StreamItem]:
    return [item async for item in provider.stream(request)]


async def test_it_says_that_it_is_no_model_and_counts_against_no_budget() -> None:
    provider: Provider = AutopilotProvider()
    assert (provider.kind, provider.label, provider.metered) == ("autopilot", "autopilot (no model)", False)
    assert [info.tools for info in await provider.models()] == [True]
    await provider.close()


async def test_it_streams_reasoning_text_and_calls_then_one_answer() -> None:
    items = await collect(AutopilotProvider(pace=0), ModelRequest("autopilot", (SYSTEM, user("Mine iron")), TOOLS))
    end = items[-1]
    assert isinstance(end, Answer)
    deltas = [item for item in items if isinstance(item, Delta)]
    assert len(deltas) == len(items) - 1
    assert "".join(delta.reasoning for delta in deltas) == end.reasoning != ""
    assert "".join(delta.text for delta in deltas) == end.text
    assert [delta.call for delta in deltas if delta.call] == [call.name for call in end.calls]
    assert end.finish is Finish.CALLS
    bare = await collect(AutopilotProvider(pace=0), ModelRequest("autopilot", (SYSTEM, user("Mine iron")), ()))
    assert isinstance(bare[-1], Answer)
    assert (end.usage.input_tokens or 0) > (bare[-1].usage.input_tokens or 0) + len(TOOLS), "tools are read as well"
    assert (bare[-1].usage.input_tokens or 0) > 0
    assert end.usage.cost_micros == 0, "it is no model and costs nothing"


async def test_the_pace_follows_the_clock_and_the_requests_option_wins() -> None:
    slept: list[int] = []

    class Clock(SystemClock):
        async def sleep(self, delay: int) -> None:
            slept.append(delay)

    provider = AutopilotProvider(clock=Clock(), pace=0.5)
    request = ModelRequest("autopilot", (SYSTEM, user("hello")), ())
    items = await collect(provider, request)
    assert set(slept) == {500_000}
    assert len(items) > 5
    slept.clear()
    await collect(provider, ModelRequest("autopilot", request.messages, (), options={"pace": 0}))
    assert slept == []


def test_without_reef_it_answers_that_it_is_no_model() -> None:
    said = build_answer([SYSTEM, user("What is two and two?")], ())
    assert "no model" in said.text
    assert "two and two" in said.text
    assert not said.calls
    assert "no model" in build_answer([SYSTEM], ()).text


def test_it_reads_the_status_first_if_it_knows_nothing() -> None:
    assert names([SYSTEM, user("Mine iron and report")]) == [
        "get_status",
        "captains_log_list",
        "get_notifications",
        "get_system",
    ]


def test_the_first_load_is_quick_and_a_report_follows() -> None:
    fleet = Fleet(1, ["alpha"], share=False)
    fleet.captains[0].inbox.append(user("Mine iron and report"))
    fleet.run(10)
    assert fleet.earned > 0
    report = next(text for text in fleet.captains[0].texts if text.startswith("Report"))
    assert "credits" in report
    assert "free again at tick" in report


def test_an_order_for_an_ore_is_followed_while_it_stands() -> None:
    fleet = Fleet(3, ["alpha"], share=False)
    fleet.say("Mine iron and report")
    fleet.run(300)
    assert fleet.reef.world.players["alpha"].xp["trading"] > 50
    assert {key.split(" ")[1] for key in fleet.reef.world.prices} == {"iron"}


def test_a_question_during_a_journey_is_answered_with_the_status() -> None:
    status = {"credits": 70, "cargo_used": 4, "cargo_capacity": 20, "system_id": "s3", "docked": None, "busy": True}
    turn = piece(("get_status", {}, {**status, "arrival_tick": 40, "current_tick": 31}))
    said = build_answer([SYSTEM, user("How are you doing?"), *turn], TOOLS)
    assert not said.calls
    assert "70 credits" in said.text
    assert "tick 40" in said.text


def test_notes_from_others_are_logged() -> None:
    prompt = user(f"[broadcast from mysis bravo]\n{IRIDIUM.line()}", Source.BROADCAST)
    turn = piece(
        ("get_status", {}, {"busy": True, "arrival_tick": 9, "current_tick": 3}),
        ("captains_log_list", {}, {"entries": []}),
    )
    said = build_answer([SYSTEM, prompt, *turn], TOOLS)
    (note,) = [json.loads(call.arguments)["entry"] for call in said.calls]
    assert note == f"Heard: {IRIDIUM.line()}"


def test_logged_notes_are_not_logged_again() -> None:
    prompt = user(f"[broadcast from mysis bravo]\n{IRIDIUM.line()}", Source.BROADCAST)
    turn = piece(
        ("get_status", {}, {"busy": True, "arrival_tick": 9, "current_tick": 3}),
        ("captains_log_list", {}, {"entries": [{"entry": f"Heard: {IRIDIUM.line()}"}]}),
    )
    assert names([SYSTEM, prompt, *turn]) == []


def test_a_rich_belt_is_broadcast_once_and_a_poor_one_never() -> None:
    def after(ore: str) -> list[str]:
        poi = {"poi_id": "p7", "kind": "belt", "ore": ore, "system_id": "s2", "orbit": 1}
        poi["nearest_stations"] = [{"poi_id": "p1", "system_id": "s1", "ticks": 4}]
        turn = piece(
            ("get_status", {}, {"credits": 5, "earned": 5, "fuel": 90, "current_tick": 4}), ("get_poi", {}, poi)
        )
        return names([SYSTEM, user("go"), *turn])

    assert "zoea_broadcast" in after("iridium")
    assert "zoea_broadcast" not in after("copper")


def test_it_continues_when_a_broadcast_is_refused() -> None:
    fleet = Fleet(2, NAMES, share=True)
    for captain in fleet.captains:
        captain.told = 99
    assert fleet.run(400) > 5_000


def test_the_turn_ends_once_its_actions_are_under_way() -> None:
    turn = piece(("undock", {}, {"action": "undock", "cooldown_ticks": 1, "current_tick": 3}))
    turn += piece(("mine", {"times": 5}, {"action": "mine", "queued": True, "arrival_tick": 9, "current_tick": 3}))
    assert names([SYSTEM, user("go"), *turn]) == []


def test_a_successful_haul_is_repeated_without_reading_first() -> None:
    queued = {"queued": True, "arrival_tick": 50, "current_tick": 12}
    haul = ["undock", "jump", "mine", "jump", "dock", "sell", "refuel"]
    before = piece(
        *((tool, {"system_id": "s1"} if tool == "jump" else {}, {"action": tool, **queued}) for tool in haul)
    )
    nudge = user(NUDGE, Source.SYSTEM)
    assert names([SYSTEM, *before, nudge]) == ["get_notifications", *haul]
    failed = piece(("get_notifications", {}, {"notifications": [{"kind": "failed", "action": "mine"}]}))
    assert names([SYSTEM, *piece(), *failed, nudge])[0] == "get_status"
    assert names([SYSTEM, nudge])[0] == "get_status"


def test_a_turn_never_reaches_the_limit_of_iterations() -> None:
    status = piece(("get_cargo", {}, {"cargo": {}}))
    assert names([SYSTEM, user("go"), *(status * MOST_SLICES)]) == []


def test_it_reports_and_ends_the_turn_if_every_call_fails() -> None:
    turn = piece(("get_status", {}, "upstream reef is down"), ("get_system", {}, "upstream reef is down"))
    turn = [m if m.role is not Role.TOOL else _failed(m) for m in turn]
    said = build_answer([SYSTEM, user("go"), *turn], TOOLS)
    assert not said.calls
    assert "upstream reef is down" in said.text


def _failed(message: RequestMessage) -> RequestMessage:
    return RequestMessage(
        Role.TOOL, message.content, Source.TOOL, call_id=message.call_id, name=message.name, is_error=True
    )


def test_tools_that_were_renamed_on_a_clash_are_called_by_their_new_names() -> None:
    renamed = tuple(
        ToolSpec(name=f"reef__{t.name}", description="", input_schema={}, upstream="reef", origin=t.name) for t in TOOLS
    )
    assert names([SYSTEM, user("go")], renamed)[0] == "reef__get_status"


def test_tools_that_a_policy_took_away_are_not_called() -> None:
    few = tuple(t for t in TOOLS if t.name in ("get_status", "undock", "mine", "dock", "sell"))
    assert names([SYSTEM, user("go")], few) == ["get_status"]
    turn = piece(("get_status", {}, {"docked": "p1", "earned": 0, "current_tick": 0}))
    assert names([SYSTEM, user("go"), *turn], few) == ["undock", "mine", "mine", "mine", "dock", "sell"]


def test_a_long_word_in_a_message_is_read_in_no_time() -> None:
    text = "W" * 20_000
    began = time.process_time()
    assert read_request([SYSTEM, user(text)], TOOLS).told == ()
    assert time.process_time() - began < 0.1
    assert parse_notes(f"{text[:10_000]} {IRIDIUM.line()}") == [IRIDIUM]


def test_a_belt_note_survives_writing_and_parsing() -> None:
    assert parse_notes(f"Heard: {IRIDIUM.line()} And so on.") == [IRIDIUM]
    assert parse_notes("Gold worth 99 credits at p1 in s1, orbit 0; sell at p2 in s1 (0 ticks).") == []
    assert build_note({"kind": "station"}) is None
    assert build_note({"kind": "belt", "ore": "iron"}) is None


def test_the_best_route_takes_the_distance_into_account() -> None:
    near = BeltNote("p1", "s1", 0, "nickel", (BeltOutlet("p2", "s1", 0),))
    far = BeltNote("p3", "s2", 0, "titanium", (BeltOutlet("p2", "s1", 40),))
    assert [h.finding.belt for h in rank_routes([far, near])] == ["p1", "p3"]
    assert rank_routes([far, near], ("p1",))[0].finding.belt == "p3"


def test_earlier_calls_are_separated_from_the_turn() -> None:
    old, new = piece(("get_cargo", {}, {})), piece(("get_status", {}, {"credits": 1}))
    assert len(read_request([SYSTEM, *old, user("go"), *new], TOOLS).turn) == 1
    steered = read_request([SYSTEM, *old, user("go"), *new, user("and hurry"), *new], TOOLS)
    assert (len(steered.turn), len(steered.prompts), len(steered.before)) == (2, 2, 1)
    said = RequestMessage(Role.ASSISTANT, "Done.", Source.LLM)
    order = user("# Standing order\nMine iron", Source.SYSTEM)
    nudged = read_request([SYSTEM, order, *old, said, user(NUDGE, Source.SYSTEM), *new], TOOLS)
    assert (len(nudged.turn), nudged.prompts, len(nudged.before)) == (1, (), 1)
    assert "Mine iron" in nudged.order


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 99)
    | st.floats(allow_nan=False)
    | st.just(10**400)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
FIELDS = ("entries", "notifications", "result", "points", "nearest_systems", "sold", "found", "arrival_tick", "kind")
RESULT = st.dictionaries(st.sampled_from((*FIELDS, "current_tick", "place", "system_id", "action", "code")), JSON)


@example([("get_status", {"current_tick": math.inf}, "")])
@example([("get_status", {"current_tick": 10**400}, "")])
@example([("get_poi", {"kind": "belt", "ore": "iron", "nearest_stations": [], "orbit": math.inf}, "")])
@given(st.lists(st.tuples(st.sampled_from([t.name for t in TOOLS]), RESULT, st.text(max_size=20)), max_size=6))
def test_results_of_any_shape_do_not_break_it(found: list[tuple[str, dict[str, Any], str]]) -> None:
    turn = piece(("get_status", {}, {"credits": 3, "fuel": "x", "current_tick": 4}))
    for tool, result, text in found:
        turn += piece((tool, {}, result), (tool, {}, text))
    for messages in ([SYSTEM, user("go"), *turn], [SYSTEM, *turn, user(NUDGE, Source.SYSTEM)]):
        said = build_answer(messages, TOOLS)
        assert said.text or said.calls


@walk_cases(
    "note",
    [
        f"Mined out: p1 at tick {'9' * 5_000}",
        f"Pressed: iron at p1 brings 0.5 of its price, tick {'9' * 5_000}",
        "Pressed: iron at p1 brings 1.2.3 of its price, tick 5",
        f"iron worth 5.0 credits at p1 in s1, orbit {'9' * 5_000}; sell at p2 in s1 (5 ticks)",
        f"iron worth 5.0 credits at p1 in s1, orbit 1; sell at p2 in s1 ({'9' * 5_000} ticks)",
    ],
)
def test_a_note_with_an_odd_number_is_passed_over(note: str) -> None:
    turn = piece(
        ("get_status", {}, {"credits": 3, "current_tick": 4}),
        ("captains_log_list", {}, {"entries": [{"entry": note}]}),
        ("get_notifications", {}, {}),
    )
    said = build_answer([SYSTEM, user(note), *turn], TOOLS)
    assert said.text or said.calls


def test_a_scan_with_an_odd_system_name_is_logged_unchanged() -> None:
    turn = piece(("scan", {}, {"system_id": ["s1"], "found": []}))
    said = build_answer([SYSTEM, user("go"), *turn], TOOLS)
    assert said.text or said.calls


def test_an_answer_is_computed_quickly(benchmark_answer: Callable[[], float]) -> None:
    assert benchmark_answer() < 0.005


@pytest.fixture
def benchmark_answer() -> Callable[[], float]:
    import time

    def measure() -> float:
        fleet = Fleet(1, ["alpha"], share=True)
        fleet.run(100)
        start, asked = time.process_time(), fleet.captains[0].requests
        fleet.run(600)
        return (time.process_time() - start) / max(1, fleet.captains[0].requests - asked)

    return measure


def test_it_looks_up_and_calls_tools_that_stand_as_a_line() -> None:
    reef = [tool for tool in TOOLS if tool.upstream]
    by_need = build_search_tools(reef)
    messages = [SYSTEM, user("Go.")]
    looked_up = build_answer(messages, by_need).calls
    assert {call.name for call in looked_up} == {FIND_TOOL}
    wanted = [json.loads(call.arguments)["query"] for call in looked_up]
    assert wanted[0] == "get_status"
    found = [(FIND_TOOL, {"query": name}, find_tools(name, reef)) for name in wanted]
    messages += piece(*found)
    calls = build_answer(messages, by_need).calls
    assert {call.name for call in calls} == {CALL_TOOL}
    assert [json.loads(call.arguments)["name"] for call in calls] == names([SYSTEM, user("Go.")])
