"""A command waits for the answers to a message: `zoea send --wait` and `zoea broadcast --wait`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.swarm.harness import Swarm, call, script, swarm
from zoea.cli.answer_wait import ReceivedAnswer, wait_for_answers, wait_for_receipt
from zoea.context.window.prompt_context import PromptContext
from zoea.model.enums import DeliveryMode, ErrorClass
from zoea.model.errors import AnswerHeld, AnswerLate, NoRunningSwarm, NotAnswered, ProviderError
from zoea.model.request import Answer, AnswerCall
from zoea.model.values import Receipt
from zoea.settings.schema import Settings

OWN = PromptContext(own_turn=1).to_json()


async def wait(s: Swarm, receipt: Receipt, timeout_s: float | None = 30.0) -> tuple[ReceivedAnswer, ...]:
    return await wait_for_answers(s.api, receipt, s.path, timeout_s)


async def test_the_answer_of_the_turn_that_took_the_message_is_returned(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="I look.", calls=(call("look"),)), Answer(text="Iron."))) as s:
        await s.commander.create("alpha", start=False)
        [answer] = await wait(s, await s.commander.send("alpha", "what is there?"))
    assert (answer.mysis, answer.status, answer.text, answer.reason) == ("alpha", "answered", "Iron.", "")
    assert not answer.is_missing


async def test_a_broadcast_brings_one_answer_of_each(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="one"), Answer(text="two"))) as s:
        await s.create("alpha", "beta", "gamma")
        await s.commander.start("gamma")
        await s.commander.stop("gamma")
        answers = await wait(s, await s.commander.broadcast("report"))
    assert [(one.mysis, one.status) for one in answers] == [
        ("alpha", "answered"),
        ("beta", "answered"),
        ("gamma", "skipped"),
    ]
    assert {one.text for one in answers} == {"one", "two", ""}
    assert not any(one.is_missing for one in answers)


async def hold(s: Swarm) -> None:
    await s.commander.hold(True, reason="lunch")


async def pause(s: Swarm) -> None:
    await s.commander.hold(True, ref="alpha")


async def stop(s: Swarm) -> None:
    await s.commander.stop("alpha")


async def lift(s: Swarm) -> None:
    await s.commander.hold(False)


HINDRANCES = [
    (hold, Answer(text="done"), AnswerHeld, "the swarm is on hold: lunch"),
    (pause, Answer(text="done"), AnswerHeld, "alpha is paused"),
    (stop, Answer(text="done"), AnswerHeld, "alpha was stopped"),
    (lift, Answer(calls=(call("burn"),)), AnswerHeld, "alpha asks you something"),
    (lift, ProviderError("no key", kind=ErrorClass.AUTH), AnswerHeld, "alpha failed"),
]


@pytest.mark.parametrize(("act", "reply", "kind", "reason"), HINDRANCES)
async def test_a_mysis_that_cannot_go_on_by_itself_ends_the_wait_with_what_to_do(
    tmp_path: Path,
    act: Callable[[Swarm], Awaitable[None]],
    reply: Answer | ProviderError,
    kind: type[NotAnswered],
    reason: str,
) -> None:
    async with swarm(tmp_path, script(reply)) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.hold(True)
        receipt = await s.commander.send("alpha", "begin")
        await act(s)
        [answer] = await wait(s, receipt)
        error = answer.error()
    assert answer.is_missing
    assert reason in error.what
    assert error.hint
    assert type(error) is kind


async def test_a_turn_that_is_stopped_or_out_of_budget_is_no_answer(tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {
            "budget": {
                "enforcement": "hard",
                "token_budget_per_task": 50_000,
                "mysis": 10,
                "token_budget_per_agent": 50_000,
            }
        }
    )
    async with swarm(tmp_path, script(Answer(text="done")), settings=settings) as s:
        await s.commander.create("alpha", start=False)
        [answer] = await wait(s, await s.commander.send("alpha", "begin"))
    assert answer.is_missing
    assert "udget" in answer.reason


REFUSED = ProviderError("odd words", kind=ErrorClass.BAD_REQUEST)
ENDS = [
    ((REFUSED,), "odd words", "`zoea start alpha` relaunches it"),
    ((Answer(), Answer()), "its model returned an empty answer twice", "in other words"),
]


@pytest.mark.parametrize(("replies", "reason", "hint"), ENDS, ids=["refused", "empty"])
async def test_a_turn_without_an_answer_says_why_and_what_to_do(
    tmp_path: Path, replies: tuple[Answer | ProviderError, ...], reason: str, hint: str
) -> None:
    async with swarm(tmp_path, script(*replies)) as s:
        await s.commander.create("alpha", start=False)
        [answer] = await wait(s, await s.commander.send("alpha", "begin"))
    assert (answer.status, answer.text, answer.error().exit_code) == ("not answered", "", 10)
    assert answer.reason.startswith("alpha did not answer: ")
    assert answer.reason.endswith(reason)
    assert hint in answer.hint
    assert "once it is there" not in answer.hint


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (Answer(calls=(AnswerCall("zoea_done", '{"summary": "All is mined."}'),)), ("answered", "All is mined.", "")),
        (
            Answer(text="I stop.", calls=(AnswerCall("zoea_done", '{"summary": "All is mined."}'),)),
            ("answered", "All is mined.", ""),
        ),
        (
            Answer(text="Later.", calls=(AnswerCall("zoea_wait", '{"seconds": 60, "reason": "ore"}'),)),
            ("answered", "Later.", ""),
        ),
        (
            Answer(calls=(AnswerCall("zoea_wait", '{"seconds": 60, "reason": "ore"}'),)),
            ("not answered", "", "alpha did not answer: it ended its turn without a text"),
        ),
    ],
    ids=["done", "done with a text", "wait with a text", "wait"],
)
async def test_a_turn_that_a_tool_ends_answers_with_its_summary_or_text(
    tmp_path: Path, reply: Answer, answer: tuple[str, str, str]
) -> None:
    async with swarm(tmp_path, script(reply)) as s:
        await s.commander.create("alpha", start=False)
        [received] = await wait(s, await s.commander.send("alpha", "begin"))
    assert (received.status, received.text, received.reason) == answer


async def test_a_turn_that_a_person_stops_says_so(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("look"),)), Answer(text="late"))) as s:
        s.peer.gates["look"] = asyncio.Event()
        receipt = await s.tell("alpha", "begin")
        waiting = asyncio.create_task(wait(s, receipt))
        await s.until(lambda: s.peer.running)
        await s.commander.stop("alpha")
        [answer] = await waiting
    assert answer.reason == "alpha did not answer: its turn was stopped"
    assert "`zoea start alpha` relaunches it" in answer.hint


async def test_a_turn_that_another_message_ends_is_not_said_to_need_a_start(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("look"),)), Answer(text="late"))) as s:
        s.peer.gates["look"] = asyncio.Event()
        await s.commander.create("alpha", start=False)
        waiting = asyncio.create_task(wait(s, await s.commander.send("alpha", "begin")))
        await s.until(lambda: s.peer.running)
        await s.commander.send("alpha", "no, this", mode=DeliveryMode.INTERRUPT)
        [answer] = await waiting
    assert answer.reason == "alpha did not answer: another message ended its turn"
    assert answer.hint == "`zoea log alpha` shows the turn; then send the message again."


async def test_what_to_do_of_each_recipient_names_that_one_alone(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="done"))) as s:
        await s.create("alpha", "beta")
        await s.commander.hold(True)
        answers = await wait(s, await s.commander.broadcast("report"))
    assert [f"`zoea log {one.mysis}` the answer" in one.hint for one in answers] == [True, True]


async def test_a_wait_that_is_over_says_that_the_mysis_goes_on(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("look"),)), Answer(text="late"))) as s:
        gate = s.peer.gates["look"] = asyncio.Event()
        receipt = await s.tell("alpha", "begin")
        await s.until(lambda: s.peer.running)
        [answer] = await wait(s, receipt, 0.2)
        error = answer.error()
        gate.set()
        await s.settled()
    assert isinstance(error, AnswerLate)
    assert error.what == "alpha did not answer within 0.2 s and goes on"
    assert f"zoea send --receipt {receipt.message_id}" in error.hint


async def test_a_wait_that_is_over_says_what_keeps_the_mysis(tmp_path: Path) -> None:
    limited = ProviderError("slow down", kind=ErrorClass.TRANSIENT, retry_after=40.0, status=429)
    async with swarm(tmp_path, script(limited)) as s:
        await s.commander.create("alpha", start=False)
        [answer] = await wait(s, await s.commander.send("alpha", "begin"), 0.5)
    assert answer.status == "late"
    assert answer.reason.startswith("alpha did not answer within 0.5 s and goes on: it is retrying (")


async def test_a_withdrawn_message_has_no_answer(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="done"))) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.hold(True)
        receipt = await s.commander.send("alpha", "begin")
        await s.commander.withdraw(receipt.lines[0].delivery_id or 0)
        [answer] = await wait(s, receipt)
    assert (answer.status, answer.reason) == ("withdrawn", "alpha did not answer: withdrawn")


async def test_the_end_of_the_wait_by_a_person_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("look"),)), Answer(text="late"))) as s:
        gate = s.peer.gates["look"] = asyncio.Event()
        receipt = await s.tell("alpha", "begin")
        waiting = asyncio.create_task(wait(s, receipt))
        await s.until(lambda: s.peer.running)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.set()
        await s.settled()
    assert "No longer waiting; alpha goes on with the message." in capsys.readouterr().err


async def test_who_ends_the_wait_before_the_receipt_came_is_told_that_the_message_may_be_stored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    waiting = asyncio.create_task(wait_for_receipt(asyncio.get_running_loop().create_future()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert "the message may be stored; `zoea log NAME` shows it." in capsys.readouterr().err


async def test_an_end_of_the_swarm_before_the_receipt_says_that_the_message_may_be_stored() -> None:
    receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
    receipt.set_exception(NoRunningSwarm("gone"))
    with pytest.raises(NoRunningSwarm, match="the swarm ended before it gave a receipt") as caught:
        await wait_for_receipt(receipt)
    assert caught.value.hint == "The message may be stored; `zoea log NAME` shows it."


async def send_many(s: Swarm, context: str, modes: tuple[DeliveryMode, ...]) -> list[list[str]]:
    """Send a message in each mode to a busy mysis. Return the prompts of each turn."""
    gate = s.peer.gates["look"] = asyncio.Event()
    await s.tell("alpha", "begin")
    await s.until(lambda: s.peer.running)
    for number, mode in enumerate(modes):
        await s.commander.send("alpha", f"message {number}", mode=mode, limits=context)
    gate.set()
    await s.settled()
    rows = await s.rows("SELECT turn_id, content FROM memory WHERE role = 'user' ORDER BY turn_id, seq")
    return [[row["content"] for row in rows if row["turn_id"] == turn] for turn in sorted({r["turn_id"] for r in rows})]


@pytest.mark.parametrize(("context", "turns"), [("", 2), (OWN, 13)])
async def test_twelve_messages_in_a_loop_make_twelve_turns_where_each_wants_its_own(
    tmp_path: Path, context: str, turns: int
) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("look"),)), Answer(text="done"))) as s:
        prompts = await send_many(s, context, (DeliveryMode.QUEUE,) * 12)
    assert len(prompts) == turns
    assert [text for one in prompts for text in one] == ["begin", *(f"message {number}" for number in range(12))]


async def test_a_message_with_a_turn_of_its_own_parts_those_around_it(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("look"),)), Answer(text="done"))) as s:
        gate = s.peer.gates["look"] = asyncio.Event()
        await s.tell("alpha", "begin")
        await s.until(lambda: s.peer.running)
        for text, context in (("a", ""), ("b", ""), ("own", OWN), ("c", ""), ("d", "")):
            await s.commander.send("alpha", text, limits=context)
        gate.set()
        await s.settled()
        rows = await s.rows(
            "SELECT t.number, m.content FROM memory m JOIN turn t ON t.id = m.turn_id WHERE role = 'user'"
        )
    assert [(row["number"], row["content"]) for row in rows] == [
        (1, "begin"), (2, "a"), (2, "b"), (3, "own"), (4, "c"), (4, "d"),
    ]  # fmt: skip
