"""How messages join a mysis: queue, steer, interrupt, stop, hold, hops, receipts."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from tests.swarm.harness import call, script, swarm
from zoea.model.enums import Activity, DeliveryMode, MysisState
from zoea.model.errors import NoRecipients, StateRefused, UsageError
from zoea.model.request import Answer, AnswerCall, ModelRequest
from zoea.model.values import Recipients


async def test_a_message_sent_mid_turn_is_answered_once_and_in_the_next_turn(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="one"), Answer(text="two"))) as s:
        block = await s.begin_call("alpha", "first")
        receipt = await s.commander.send("alpha", "second")
        assert receipt.lines[0].status == "delivered"
        block.release()
        await s.settled()
        rows = await s.rows(
            "SELECT t.number, m.content FROM memory m JOIN turn t ON t.id = m.turn_id ORDER BY t.number, m.seq"
        )
        assert [(r["number"], r["content"]) for r in rows] == [(1, "first"), (1, "one"), (2, "second"), (2, "two")]
        assert await s.value("SELECT count(*) FROM delivery WHERE state = 'taken'") == 2


async def test_several_queued_prompts_open_one_turn_in_arrival_order(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="ok"))) as s:
        block = await s.begin_call("alpha", "first")
        await s.commander.send("alpha", "second")
        await s.commander.send("alpha", "third")
        block.release()
        await s.settled()
        assert s.sent()[-1][-2:] == [("user", "second"), ("user", "third")]
        assert await s.value("SELECT count(*) FROM turn") == 2


async def test_a_steer_joins_before_the_next_request_of_the_same_turn(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("act"),)), Answer(text="done"))) as s:
        s.peer.gates["act"] = gate = asyncio.Event()
        await s.tell("alpha", "go")
        await s.until(lambda: s.peer.running)
        await s.commander.send("alpha", "and be quick", mode=DeliveryMode.STEER)
        gate.set()
        await s.settled()
        assert await s.value("SELECT count(*) FROM turn") == 1
        assert s.sent()[-1] == [("user", "go"), ("assistant", ""), ("tool", "act did x"), ("user", "and be quick")]


async def test_a_steer_that_finds_no_further_request_opens_the_next_turn(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="one"), Answer(text="two"))) as s:
        block = await s.begin_call("alpha", "go")
        await s.commander.send("alpha", "wait", mode=DeliveryMode.STEER)
        block.release()
        await s.settled()
        assert await s.value("SELECT count(*) FROM turn") == 2
        assert s.sent()[-1][-1] == ("user", "wait")


async def test_an_interrupt_cancels_the_stream_keeps_the_partial_text_and_opens_a_new_turn(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="a very long answer that never ends"), Answer(text="yes"))) as s:
        block = await s.begin_call("alpha", "go")
        await s.commander.send("alpha", "no, this", mode=DeliveryMode.INTERRUPT)
        await s.until(lambda: s.provider.calls == 2)
        await s.settled()
        assert block.was_closed
        outcomes = await s.rows("SELECT outcome FROM turn ORDER BY number")
        assert [row["outcome"] for row in outcomes] == ["interrupted", "answered"]
        assert await s.value("SELECT content FROM memory WHERE partial = 1") == "a very long answ"
        assert s.sent()[-1] == [("user", "no, this")]


async def test_a_stop_cancels_the_turn_at_once_and_says_which_call_may_have_run(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("act"), call("act", "y"))))) as s:
        s.peer.gates["act"] = asyncio.Event()
        await s.tell("alpha", "go")
        await s.until(lambda: s.peer.running)
        view = await s.commander.stop("alpha")
        assert view.state is MysisState.STOPPED
        assert await s.value("SELECT outcome FROM turn") == "cancelled"
        results = await s.rows("SELECT content FROM memory WHERE role = 'tool' ORDER BY seq")
        assert [row["content"] for row in results] == [
            "unknown: stopped while this ran; it may have been carried out, check before repeating it",
            "cancelled: stopped before this ran",
        ]
        assert (await s.commander.stop("alpha")).state is MysisState.STOPPED


async def test_a_stopped_mysis_rejects_messages_and_stores_nothing(tmp_path: Path) -> None:
    async with swarm(tmp_path) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.stop("alpha")
        with pytest.raises(StateRefused, match="mysis stopped - press 'r' to relaunch"):
            await s.commander.send("alpha", "hello")
        assert await s.value("SELECT count(*) FROM message") == 0


async def test_an_empty_message_is_refused(tmp_path: Path) -> None:
    async with swarm(tmp_path) as s:
        await s.commander.create("alpha", start=False)
        with pytest.raises(UsageError, match="cannot be empty"):
            await s.commander.send("alpha", "  \n ")


async def test_a_message_that_fits_in_no_request_is_refused_and_stores_nothing(tmp_path: Path) -> None:
    async with swarm(tmp_path) as s:
        await s.commander.create("alpha", start=False)
        for say in (partial(s.commander.send, "alpha"), s.commander.broadcast):
            with pytest.raises(UsageError, match="tokens fits in no request: that has 50,000"):
                await say("ore " * 250_000)
        assert await s.value("SELECT count(*) FROM message") == 0


async def test_a_broadcast_is_stored_once_and_tells_who_got_it(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="ok"))) as s:
        await s.create("alpha", "beta", "gamma")
        await s.commander.stop("gamma")
        receipt = await s.commander.broadcast("all hands")
        assert [(line.mysis, line.status, line.reason) for line in receipt.lines] == [
            ("alpha", "started", ""),
            ("beta", "started", ""),
            ("gamma", "skipped", "stopped"),
        ]
        await s.settled("alpha")
        await s.settled("beta")
        assert await s.value("SELECT count(*) FROM message") == 1
        later = await s.commander.receipt(receipt.message_id)
        assert [line.status for line in later.lines] == ["answered", "answered", "skipped"]


async def test_a_broadcast_without_recipients_is_refused(tmp_path: Path) -> None:
    async with swarm(tmp_path) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.stop("alpha")
        with pytest.raises(NoRecipients, match="no myses available to receive broadcast"):
            await s.commander.broadcast("anyone")


async def test_a_broadcast_to_a_tag_that_no_mysis_has_names_the_tag(tmp_path: Path) -> None:
    async with swarm(tmp_path) as s:
        await s.commander.create("alpha", start=False)
        with pytest.raises(NoRecipients, match="no mysis matches tag 'fleet'"):
            await s.commander.broadcast("hello", to=Recipients(tag="fleet"))
        await s.commander.stop("alpha")
        with pytest.raises(NoRecipients, match="all myses that match are stopped or errored"):
            await s.commander.broadcast("hello", to=Recipients(names=("alpha",)))


async def test_a_new_mysis_gets_a_broadcast_only_where_it_is_chosen_and_then_before_its_task(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="ok"))) as s:
        await s.commander.create("alpha", start=False)
        sent = await s.commander.broadcast("mine iron")
        await s.settled("alpha")
        await s.commander.create("beta")
        await s.commander.create("gamma", task="sell it", broadcast=sent.message_id)
        await s.until(lambda: s.commander.swarm.runner("gamma").is_settled and s.provider.calls >= 2)
        assert s.sent()[-1] == [("user", "mine iron"), ("user", "sell it")]
        assert await s.value("SELECT count(*) FROM turn WHERE mysis_id = 2") == 0
        with pytest.raises(UsageError, match="there is no broadcast 99 of the commander"):
            await s.commander.create("delta", broadcast=99)
        assert [view.name for view in (await s.commander.view()).myses] == ["alpha", "beta", "gamma"]


async def test_two_myses_that_answer_each_other_stop_waking_each_other(tmp_path: Path) -> None:
    def gossip(request: ModelRequest) -> Answer:
        messages = request.messages
        if messages[-1].role == "user":
            other = "beta" if request.mysis == "alpha" else "alpha"
            return Answer(calls=(AnswerCall("zoea_send_message", f'{{"to": "{other}", "text": "hi"}}'),))
        return Answer(text="told")

    async with swarm(tmp_path, gossip) as s:
        await s.create("alpha", "beta")
        await s.commander.send("alpha", "say hi")
        await s.until(lambda: s.commander.swarm.runner("beta").life.pending)
        await s.settled("alpha")
        await s.settled("beta")
        hops = await s.rows("SELECT hop FROM message ORDER BY id")
        assert [row["hop"] for row in hops] == [0, 1, 2, 3]
        assert s.sent()[2] == [("user", "[to beta, from mysis alpha]\nhi")]


async def test_hold_starts_nothing_new_and_goes_on_where_it_was(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("act"),)), Answer(text="done"))) as s:
        block = await s.begin_call("alpha", "go")
        await s.commander.hold(True, reason="lunch")
        block.release()
        await s.until(lambda: s.provider.in_flight == 0)
        await s.until(lambda: s.commander.swarm.live_view.row(1).activity is Activity.WAITING)
        assert s.peer.seen == []
        assert (await s.commander.view()).hold_reason == "lunch"
        await s.commander.hold(False)
        await s.settled()
        assert s.peer.seen == [("act", "x")]
        assert await s.value("SELECT outcome FROM turn") == "answered"


async def test_a_withdrawn_message_is_never_answered(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="ok"))) as s:
        block = await s.begin_call("alpha", "first")
        receipt = await s.commander.send("alpha", "second")
        delivery = receipt.lines[0].delivery_id
        assert delivery is not None
        await s.commander.withdraw(delivery)
        block.release()
        await s.settled()
        assert s.provider.calls == 1
        assert (await s.commander.receipt(receipt.message_id)).lines[0].status == "withdrawn"
        with pytest.raises(UsageError, match="cannot be taken back: it was taken back before"):
            await s.commander.withdraw(delivery)


async def test_the_same_idempotency_key_says_it_once(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="ok"))) as s:
        await s.commander.create("alpha", start=False)
        first = await s.commander.send("alpha", "hello", idempotency_key="k1")
        await s.settled()
        again = await s.commander.send("alpha", "hello", idempotency_key="k1")
        assert again.message_id == first.message_id
        assert await s.value("SELECT count(*) FROM message") == 1


async def test_a_mysis_may_write_to_the_commander(tmp_path: Path) -> None:
    tell = AnswerCall("zoea_send_message", '{"to": "commander", "text": "the hold is full"}')
    async with swarm(tmp_path, script(Answer(calls=(tell,)), Answer(text="told"))) as s:
        await s.ask("alpha", "go")
        rows = await s.rows("SELECT sender_kind, content, recipients_filter FROM message ORDER BY id DESC LIMIT 1")
        assert rows == [
            {"sender_kind": "mysis", "content": "the hold is full", "recipients_filter": '{"to": "commander"}'}
        ]
