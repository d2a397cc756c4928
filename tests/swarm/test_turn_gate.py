"""The gate that bounds how many turns advance at once, and the hold switch."""

from __future__ import annotations

import asyncio

import pytest

from zoea.swarm.services import HoldSwitch
from zoea.swarm.turn.turn_gate import Rank, TurnGate


async def queued(gate: TurnGate, rank: Rank, name: str, order: list[str]) -> asyncio.Task[None]:
    """Somebody who waits for a place, and says when it came."""
    before = gate.waiting

    async def enter() -> None:
        async with gate.place(rank):
            order.append(name)

    task = asyncio.create_task(enter())
    await asyncio.sleep(0)
    assert gate.waiting == before + 1
    return task


async def test_persons_go_first_then_the_steered_then_the_oldest() -> None:
    gate, order = TurnGate(1), list[str]()
    async with gate.place(Rank.OTHER):
        waiting = [
            await queued(gate, rank, name, order)
            for rank, name in (
                (Rank.OTHER, "oldest"),
                (Rank.OTHER, "older"),
                (Rank.STEERED, "steered"),
                (Rank.PERSON, "person"),
            )
        ]
        assert gate.waiting == 4
    await asyncio.gather(*waiting)
    assert order == ["person", "steered", "oldest", "older"]


async def test_as_many_as_there_are_places_do_not_wait() -> None:
    gate = TurnGate(2)
    async with gate.place(Rank.OTHER), gate.place(Rank.OTHER):
        assert gate.waiting == 0


async def test_new_prompts_have_places_of_their_own_when_all_others_are_taken() -> None:
    gate, order = TurnGate(1, for_new_prompts=1), list[str]()
    async with gate.place(Rank.OTHER):
        other = await queued(gate, Rank.PERSON, "other", order)
        async with gate.place(Rank.NEW_PROMPT):
            second = await queued(gate, Rank.NEW_PROMPT, "second prompt", order)
        await second
        assert order == ["second prompt"]
    await other
    assert order == ["second prompt", "other"]


async def test_a_new_prompts_place_given_back_is_no_place_for_others() -> None:
    gate, order = TurnGate(1, for_new_prompts=1), list[str]()
    async with gate.place(Rank.OTHER):
        async with gate.place(Rank.NEW_PROMPT):
            other = await queued(gate, Rank.OTHER, "other", order)
        assert gate.waiting == 1
    await other


async def test_who_is_cancelled_while_queued_takes_no_place() -> None:
    gate, order = TurnGate(1), list[str]()
    await gate.enter(Rank.OTHER)
    gone = await queued(gate, Rank.PERSON, "gone", order)
    stays = await queued(gate, Rank.OTHER, "stays", order)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    gate.leave()
    await stays
    assert order == ["stays"]
    async with asyncio.timeout(1), gate.place(Rank.OTHER):
        pass


async def test_a_place_that_was_given_to_one_who_was_just_cancelled_is_passed_on() -> None:
    gate, order = TurnGate(1), list[str]()
    await gate.enter(Rank.OTHER)
    gone = await queued(gate, Rank.PERSON, "gone", order)
    stays = await queued(gate, Rank.OTHER, "stays", order)
    gate.leave()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    await stays
    assert order == ["stays"]


async def test_a_place_is_given_back_when_the_block_raises() -> None:
    gate = TurnGate(1)
    with pytest.raises(ValueError, match="boom"):
        async with gate.place(Rank.OTHER):
            raise ValueError("boom")
    async with asyncio.timeout(1), gate.place(Rank.OTHER):
        pass


async def test_who_waits_for_the_hold_goes_on_when_both_swarm_and_mysis_are_free() -> None:
    hold = HoldSwitch()
    hold.set_swarm(True, "lunch")
    hold.set_mysis(1, True)
    assert (hold.swarm, hold.reason, hold.holds(1), hold.holds(2)) == (True, "lunch", True, True)
    one, two = (asyncio.create_task(hold.lifted(number)) for number in (1, 2))
    await asyncio.sleep(0)
    hold.set_swarm(False, "ignored")
    await two
    assert (hold.reason, one.done()) == ("", False)
    hold.set_mysis(1, False)
    await one
    assert not hold.holds(1)
