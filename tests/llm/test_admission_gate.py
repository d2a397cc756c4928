"""The gate limits a provider's requests, in order of arrival, also after cancellations."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.llm_clock import HandClock
from zoea.llm.transport.admission_gate import MAX_PAUSE_S, AdmissionGate, AdmissionTicket
from zoea.model.values import Throttle


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def entered(places: list[AdmissionTicket]) -> list[bool]:
    return [place.is_admitted for place in places]


def leave_all(places: list[AdmissionTicket]) -> None:
    for place in places:
        place.leave()


def test_places_are_given_in_order_of_arrival(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=2)
    places = [gate.enter_queue() for _ in range(4)]
    assert entered(places) == [True, True, False, False]
    clock.by(1)
    places[1].leave()
    clock.by(1)
    assert entered(places) == [True, True, True, False]
    assert (gate.under_way, gate.waiting) == (2, 1)


def test_a_place_is_not_given_again_within_100_ms_of_its_answer(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=1)
    first, second = gate.enter_queue(), gate.enter_queue()
    clock.by(3)
    first.note_answer()
    first.leave()
    clock.by(0.099)
    assert not second.is_admitted
    clock.by(0.001)
    assert second.is_admitted


def test_a_place_whose_answer_took_longer_to_stream_is_free_at_once(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=1)
    first, second = gate.enter_queue(), gate.enter_queue()
    first.note_answer()
    clock.by(0.5)
    first.leave()
    assert second.is_admitted


def test_a_rate_spaces_requests_evenly(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=10, rate=4.0)
    places = [gate.enter_queue() for _ in range(4)]
    seen = []
    for _ in range(4):
        seen.append(sum(place.is_admitted for place in places))
        clock.by(0.25)
    assert seen == [1, 2, 3, 4]


def test_a_named_time_closes_the_gate_for_all_and_says_until_when(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=2)
    places = [gate.enter_queue() for _ in range(4)]
    assert places[2].hold().reason == "2 requests are under way"
    places[0].note_refusal(2.0)
    leave_all(places[:2])
    hold = places[2].hold()
    assert (hold.reason, hold.until) == ("rate limit of the provider", clock.now() + 2_000_000)
    clock.by(1.9)
    assert not places[2].is_admitted
    clock.by(0.1)
    assert entered(places) == [True, True, True, False]


def test_after_a_pause_one_request_tries_and_each_success_opens_one_place(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=8)
    first = [gate.enter_queue() for _ in range(8)]
    rest = [gate.enter_queue() for _ in range(20)]
    first[0].note_refusal(1.0)
    leave_all(first)
    clock.by(1)
    assert entered(rest[:3]) == [True, False, False]
    rest[0].note_answer()
    assert entered(rest[:3]) == [True, True, False]
    rest[1].note_answer()
    assert gate.under_way == 3
    for place in rest[2:8]:
        place.note_answer()
    assert gate.under_way == 8


def test_a_success_that_began_before_the_pause_opens_nothing(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=3)
    late, note_refusal, third = (gate.enter_queue() for _ in range(3))
    waiting = [gate.enter_queue() for _ in range(3)]
    note_refusal.note_refusal(1.0)
    late.note_answer()
    clock.by(1)
    leave_all([late, note_refusal, third])
    clock.by(1)
    assert entered(waiting) == [True, False, False]


def test_refusals_without_a_time_halve_the_places_once_for_all_that_were_under_way(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=8)
    places = [gate.enter_queue() for _ in range(8)]
    waiting = [gate.enter_queue() for _ in range(8)]
    clock.by(0.01)
    for place in places:
        place.note_refusal(None)
    leave_all(places)
    clock.by(1)
    assert sum(place.is_admitted for place in waiting) == 4


def test_a_later_refusal_can_only_make_the_pause_longer(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=2)
    one, two = gate.enter_queue(), gate.enter_queue()
    waiting = gate.enter_queue()
    one.note_refusal(5.0)
    two.note_refusal(1.0)
    leave_all([one, two])
    clock.by(4.9)
    assert not waiting.is_admitted
    clock.by(0.2)
    assert waiting.is_admitted


def test_a_pause_is_never_longer_than_five_minutes(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=1)
    place = gate.enter_queue()
    place.note_refusal(86_400)
    assert place.hold().until == clock.now() + round(MAX_PAUSE_S * 1e6)


def test_a_cancelled_ticket_leaves_the_queue_and_holds_no_place(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=1)
    first, gone, third = gate.enter_queue(), gate.enter_queue(), gate.enter_queue()
    gone.leave()
    gone.leave()
    clock.by(1)
    first.leave()
    clock.by(1)
    assert third.is_admitted
    assert gate.waiting == 0


def test_the_rate_is_named_as_the_reason(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=4, rate=1.0)
    gate.enter_queue()
    assert gate.enter_queue().hold().reason == "the rate set for the provider is reached"


def test_a_nearer_wake_up_replaces_a_later_one(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=4, rate=0.1)
    first, second = gate.enter_queue(), gate.enter_queue()
    first.note_refusal(1.0)
    first.leave()
    clock.by(10)
    assert second.is_admitted


async def test_a_waiting_ticket_wakes_when_the_reason_changes_and_on_admission(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=1)
    first, second = gate.enter_queue(), gate.enter_queue()
    told = asyncio.ensure_future(second.wait_for_change())
    await asyncio.sleep(0)
    first.note_refusal(1.0)
    await told
    assert not second.is_admitted
    now_in = asyncio.ensure_future(second.wait_for_change())
    await asyncio.sleep(0)
    first.leave()
    clock.by(1)
    await now_in
    assert entered([second]) == [True]
    await second.wait_for_change()


@pytest.mark.parametrize("jump", [1, -1, 3600, -3600, 86_400, -86_400, 400 * 86_400])
def test_a_wall_clock_that_is_set_moves_no_place_no_rate_and_no_pause(clock: HandClock, jump: int) -> None:
    gate = AdmissionGate(clock, concurrency=1, rate=1.0)
    first, second, third = (gate.enter_queue() for _ in range(3))
    first.note_answer()
    first.leave()
    clock.jump(jump)
    clock.follow()
    clock.by(1)
    assert second.is_admitted
    second.note_refusal(30)
    second.leave()
    clock.jump(jump)
    clock.follow()
    assert third.hold().until == clock.now() + 30_000_000, "people read the wall time"
    clock.by(29.9)
    assert not third.is_admitted
    clock.by(0.1)
    assert third.is_admitted


def test_a_request_that_answers_a_person_goes_before_others_and_behind_earlier_ones_of_a_person(
    clock: HandClock,
) -> None:
    gate = AdmissionGate(clock, concurrency=1)
    first, other = gate.enter_queue(), gate.enter_queue()
    one, two = gate.enter_queue(by_person=True), gate.enter_queue(by_person=True)
    assert (one.hold().place, two.hold().place) == (1, 2)
    for ticket in (first, one, two, other):
        assert ticket.is_admitted
        ticket.leave()
        clock.by(1)


async def test_waiting_requests_hear_their_new_place_within_a_second(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=1)
    first, second, third = (gate.enter_queue() for _ in range(3))
    assert (second.hold().place, third.hold().place) == (1, 2)
    told = asyncio.create_task(third.wait_for_change())
    await asyncio.sleep(0)
    first.leave()
    clock.by(1)
    await told
    assert not third.is_admitted
    assert third.hold().place == 1
    third.leave()
    second.leave()
    clock.by(5)
    assert gate.waiting == 0


def test_after_the_first_fifty_places_are_told_every_ten_seconds(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=1)
    tickets = [gate.enter_queue() for _ in range(62)]
    tickets[0].leave()
    clock.by(1)
    assert (tickets[2].hold().place, tickets[61].hold().place) == (1, 61)
    clock.by(9)
    assert tickets[61].hold().place == 60


def test_a_refusal_for_one_model_keeps_back_no_other(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=3, name="fake")
    bad, good = gate.enter_queue("bad"), gate.enter_queue("good")
    bad.note_refusal(60.0)
    leave_all([bad, good])
    clock.by(1)
    bad, *goods = gate.enter_queue("bad"), gate.enter_queue("good"), gate.enter_queue("good")
    assert entered([bad, *goods]) == [False, True, True]
    assert (bad.hold().reason, bad.hold().until) == ("rate limit of fake/bad", clock.now() + 59_000_000)
    assert gate.list_throttles() == (Throttle("bad", clock.now() + 59_000_000, 1),)


def test_a_waiting_model_takes_no_turn_from_another_and_a_person_enters_first(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=1)
    first = gate.enter_queue("a")
    waiting = [gate.enter_queue("b"), gate.enter_queue("a"), gate.enter_queue("c", by_person=True)]
    order = []
    for _ in waiting:
        first.leave()
        clock.by(1)
        first = next(ticket for ticket in waiting if ticket.is_admitted and ticket not in order)
        order.append(first)
    assert order == [waiting[2], waiting[0], waiting[1]]


def test_a_request_that_is_silent_does_not_hold_the_only_place_of_the_ramp(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=8, name="fake")
    refused = gate.enter_queue("bad")
    refused.note_refusal(1.0)
    refused.leave()
    clock.by(1)
    silent, second, third = (gate.enter_queue("bad") for _ in range(3))
    assert entered([silent, second, third]) == [True, False, False]
    assert second.hold().reason == "after a rate limit, 1 request at a time to fake/bad"
    clock.by(9.9)
    assert not second.is_admitted
    clock.by(0.1)
    assert entered([silent, second, third]) == [True, True, False]
    second.note_answer()
    assert third.is_admitted
    assert gate.under_way == 3


def test_a_silent_request_keeps_its_place_among_those_of_the_provider(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=1)
    silent, second = gate.enter_queue("a"), gate.enter_queue("b")
    clock.by(120)
    assert not second.is_admitted
    silent.leave()
    clock.by(1)
    assert second.is_admitted


def test_a_model_without_requests_or_limit_is_forgotten(clock: HandClock) -> None:
    gate = AdmissionGate(clock, concurrency=2)
    for number in range(100):
        gate.enter_queue(f"model {number}").leave()
        clock.by(1)
    assert gate._lanes == {}
