"""A backlog of prompts: as many as a request has room for open a turn, the others the next ones, none lost."""

from __future__ import annotations

from pathlib import Path

from tests.case_tables import walk_cases
from tests.swarm.harness import Swarm, call, script, swarm
from zoea.context import FrozenTurn
from zoea.model.enums import DeliveryMode, MessageKind, Role, SenderKind
from zoea.model.request import Answer
from zoea.model.values import Delivery, Sender
from zoea.settings.schema import Settings
from zoea.swarm.turn import prompt_budget

SETTINGS = Settings.model_validate(
    {"context": {"context_window": 100_000}, "budget": {"token_budget_per_agent": 6000, "swarm_per_day": "none"}}
)
LONG = "y" * 2000


def delivery(text: str, sender: Sender = Sender()) -> Delivery:
    return Delivery(1, 1, 1, MessageKind.DIRECT, sender, text, DeliveryMode.QUEUE, 0, 0)


def test_the_room_is_half_of_what_the_prompt_and_the_tools_leave() -> None:
    frozen = FrozenTurn(1, 1, 1, system="x" * 400, tools_tokens=900, max_tokens=3000)
    assert prompt_budget.room_for_prompts(frozen) == 1000
    assert (
        prompt_budget.room_for_prompts(FrozenTurn(1, 1, 1, tools_tokens=900, max_tokens=3000, calibration=1.5)) == 550
    )
    assert prompt_budget.room_for_prompts(FrozenTurn(1, 1, 1, tools_tokens=9000, max_tokens=3000)) == 0


@walk_cases(
    ("sizes", "limit", "at_least", "fit"),
    [
        ((), 100, 1, 0),
        ((380,), 100, 1, 1),
        ((384,), 100, 0, 0),
        ((384,), 100, 1, 1),
        ((180, 180), 100, 1, 2),
        ((180, 180, 4), 100, 1, 2),
        ((9999, 4), 100, 1, 1),
        ((4, 9999, 4), 100, 1, 1),
    ],
)
def test_the_first_that_fit_in_arrival_order(sizes: tuple[int, ...], limit: int, at_least: int, fit: int) -> None:
    waiting = tuple(delivery("x" * size) for size in sizes)
    assert prompt_budget.select_fitting(waiting, limit, at_least=at_least) == waiting[:fit]


def test_what_the_turn_has_taken_and_who_speaks_take_room_too() -> None:
    waiting = (delivery("x" * 180, Sender(SenderKind.MYSIS, 2, "beta")),)
    assert prompt_budget.select_fitting(waiting, 100, ["y" * 80]) == waiting
    assert prompt_budget.select_fitting(waiting, 100, ["y" * 180]) == ()


async def prompts_by_turn(s: Swarm) -> list[list[str]]:
    found = await s.rows("SELECT turn_id, content FROM memory WHERE role = 'user' ORDER BY turn_id, seq")
    turns = sorted({row["turn_id"] for row in found})
    return [[row["content"][:2] for row in found if row["turn_id"] == turn] for turn in turns]


async def test_a_backlog_larger_than_a_request_is_answered_in_several_turns(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="heard")), settings=SETTINGS) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.hold(True)
        for number in range(20):
            await s.commander.send("alpha", f"{number:02}{LONG}")
        await s.commander.hold(False)
        await s.settled()
        turns = await prompts_by_turn(s)
        assert len(turns) > 2
        assert [text for turn in turns for text in turn] == [f"{number:02}" for number in range(20)]
        assert await s.rows("SELECT id FROM turn WHERE outcome IS NOT 'answered'") == []
        assert (await s.commander.mysis("alpha")).pending == 0
        assert {row["hop"] for row in await s.rows("SELECT hop FROM turn")} == {0}


async def test_while_a_turn_runs_what_it_had_no_room_for_is_shown_as_pending_and_can_be_withdrawn(
    tmp_path: Path,
) -> None:
    async with swarm(tmp_path, script(Answer(text="heard")), settings=SETTINGS) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.hold(True)
        receipts = [await s.commander.send("alpha", f"{number:02}{LONG}") for number in range(6)]
        block = s.provider.block()
        await s.commander.hold(False)
        await block.reached.wait()
        taken = await s.value("SELECT count(*) FROM delivery WHERE state = 'taken'")
        assert 0 < taken < 6
        await s.until(lambda: s.commander.swarm.live_view.row(1).pending == 6 - taken)
        last = receipts[-1].lines[0].delivery_id
        assert last is not None
        await s.commander.withdraw(last)
        block.release()
        await s.settled()
        assert [text for turn in await prompts_by_turn(s) for text in turn] == ["00", "01", "02", "03", "04"]


async def test_a_steer_that_has_no_room_in_the_turn_opens_the_next_one(tmp_path: Path) -> None:
    replies = script(Answer(calls=(call("act"),)), Answer(text="heard"))
    async with swarm(tmp_path, replies, settings=SETTINGS) as s:
        await s.commander.create("alpha", start=False)
        block = s.provider.block()
        await s.commander.send("alpha", "00 go")
        await block.reached.wait()
        for number in range(1, 8):
            await s.commander.send("alpha", f"{number:02}{LONG}", mode=DeliveryMode.STEER)
        block.release()
        await s.settled()
        turns = await prompts_by_turn(s)
        assert len(turns) > 1
        assert len(turns[0]) > 1
        assert [text for turn in turns for text in turn] == [f"{number:02}" for number in range(8)]
        assert await s.rows("SELECT id FROM turn WHERE outcome IS NOT 'answered'") == []
        assert all(request.messages[-1].role in (Role.USER, Role.TOOL) for request in s.provider.requests)
