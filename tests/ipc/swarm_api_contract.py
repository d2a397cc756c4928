"""The contract of `SwarmApi`. `test_swarm_api.py` runs it against each implementation.

Only what the protocol promises is asked, so that the fake, the Commander and the socket answer alike.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from zoea.model.enums import ApprovalAnswer, MysisState
from zoea.model.errors import MysisMissing, NameRefused, NoRecipients, StateRefused, TemplateError, UsageError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import Event, Recipients, SwarmView

PATIENCE_S = 30.0


class SwarmApiContract:
    async def test_a_created_mysis_is_in_the_view(self, swarm: SwarmApi) -> None:
        made = await swarm.create("alpha", start=False)
        assert (made.name, made.state) == ("alpha", MysisState.IDLE)
        assert [view.name for view in (await swarm.view()).myses] == ["alpha"]

    async def test_an_empty_name_is_generated(self, swarm: SwarmApi) -> None:
        assert (await swarm.create("", start=False)).name

    async def test_a_repeated_key_makes_one_mysis(self, swarm: SwarmApi) -> None:
        keyed = [swarm.create("", start=False, idempotency_key="k1") for _ in range(2)]
        first, second = await asyncio.gather(*keyed)
        again = await swarm.create("other", start=False, idempotency_key="k1")
        other = await swarm.create("", start=False, idempotency_key="k2")
        assert first.id == second.id == again.id != other.id
        assert len((await swarm.view()).myses) == 2

    async def test_a_mysis_that_was_deleted_is_not_made_again_by_its_key(self, swarm: SwarmApi) -> None:
        made = await swarm.create("", start=False, idempotency_key="k1")
        await swarm.delete(made.name)
        with pytest.raises(StateRefused, match="deleted meanwhile"):
            await swarm.create("", start=False, idempotency_key="k1")

    async def test_tags_are_kept(self, swarm: SwarmApi) -> None:
        await swarm.create("alpha", tags=("miner", "north"), start=False)
        assert set((await swarm.mysis("alpha")).tags) == {"miner", "north"}

    async def test_a_stopped_mysis_can_be_configured(self, swarm: SwarmApi) -> None:
        made = await swarm.create("alpha", tags=("north",), start=False)
        same = await swarm.configure("alpha", settings={"budget.mysis": 90_000})
        assert (same.model, same.provider, same.tags) == (made.model, made.provider, ("north",))
        changed = await swarm.configure("alpha", model="other", tags=("south", "deep"))
        assert (changed.id, changed.model, set(changed.tags)) == (made.id, "other", {"south", "deep"})
        assert (await swarm.configure("alpha", tags=())).tags == ()
        with pytest.raises(TemplateError):
            await swarm.configure("alpha", settings={"swarm.max_myses": 3})

    async def test_a_running_mysis_can_be_configured_and_goes_on(self, swarm: SwarmApi) -> None:
        await swarm.create("alpha", start=False)
        await swarm.start("alpha")
        changed = await swarm.configure("alpha", model="third", tags=("south",))
        assert (changed.state, changed.model, changed.tags) == (MysisState.RUNNING, "third", ("south",))

    async def test_a_mysis_is_found_by_name_in_any_case_and_by_id(self, swarm: SwarmApi) -> None:
        made = await swarm.create("Alpha", start=False)
        assert (await swarm.mysis("aLPHA")).id == made.id
        assert (await swarm.mysis(f"#{made.id}")).name == "Alpha"

    async def test_an_unknown_mysis_raises_mysis_missing(self, swarm: SwarmApi) -> None:
        with pytest.raises(MysisMissing):
            await swarm.mysis("nobody")

    async def test_a_name_that_is_taken_is_refused(self, swarm: SwarmApi) -> None:
        await swarm.create("alpha", start=False)
        with pytest.raises(NameRefused):
            await swarm.create("ALPHA", start=False)

    async def test_starting_and_stopping_change_the_state(self, swarm: SwarmApi) -> None:
        await swarm.create("alpha", start=False)
        assert (await swarm.start("alpha")).state is MysisState.RUNNING
        with pytest.raises(StateRefused):
            await swarm.start("alpha")
        assert (await swarm.stop("alpha")).state is MysisState.STOPPED
        assert (await swarm.stop("alpha")).state is MysisState.STOPPED

    async def test_all_are_started_and_stopped_together(self, swarm: SwarmApi) -> None:
        await swarm.create("alpha", start=False)
        await swarm.create("beta", start=False)
        assert await swarm.start_all() == 2
        assert await swarm.stop_all() == 2

    async def test_left_running_does_not_start_a_mysis_that_did_not_run(self, swarm: SwarmApi) -> None:
        await swarm.create("alpha", start=False)
        assert await swarm.start_all(left_running=True) == 0

    async def test_a_sent_message_gives_a_receipt_that_can_be_read_again(self, swarm: SwarmApi) -> None:
        await swarm.create("alpha", start=False)
        receipt = await swarm.send("alpha", "Mine the belt")
        assert receipt.delivered == 1
        assert (await swarm.receipt(receipt.message_id)).lines[0].mysis == "alpha"

    async def test_a_repeated_key_sends_once(self, swarm: SwarmApi) -> None:
        await swarm.create("alpha", start=False)
        first = await swarm.send("alpha", "Mine the belt", idempotency_key="k1")
        assert (await swarm.send("alpha", "Mine the belt", idempotency_key="k1")).message_id == first.message_id

    async def test_an_empty_text_is_refused(self, swarm: SwarmApi) -> None:
        await swarm.create("alpha", start=False)
        with pytest.raises(UsageError):
            await swarm.send("alpha", "  ")

    async def test_a_stopped_mysis_refuses_a_message(self, swarm: SwarmApi) -> None:
        await swarm.create("alpha", start=False)
        await swarm.stop("alpha")
        with pytest.raises(StateRefused, match="press 'r' to relaunch"):
            await swarm.send("alpha", "Mine")

    async def test_a_broadcast_says_who_was_skipped(self, swarm: SwarmApi) -> None:
        for name in ("alpha", "beta"):
            await swarm.create(name, start=False)
        await swarm.stop("beta")
        receipt = await swarm.broadcast("Meet at the station")
        assert receipt.delivered == 1
        assert {line.mysis for line in receipt.lines if line.status == "skipped"} == {"beta"}

    async def test_a_broadcast_goes_to_the_named_ones(self, swarm: SwarmApi) -> None:
        for name in ("alpha", "beta"):
            await swarm.create(name, start=False)
        receipt = await swarm.broadcast("Meet", to=Recipients(names=("beta",)))
        assert [line.mysis for line in receipt.lines if line.status != "skipped"] == ["beta"]

    async def test_a_broadcast_without_recipients_is_refused(self, swarm: SwarmApi) -> None:
        with pytest.raises(NoRecipients, match="all stopped or errored"):
            await swarm.broadcast("Anybody there")

    async def test_a_deleted_mysis_can_be_undeleted(self, swarm: SwarmApi) -> None:
        made = await swarm.create("alpha", start=False)
        await swarm.delete("alpha")
        assert (await swarm.view()).myses == ()
        assert (await swarm.undelete(made.id)).name == "alpha"

    async def test_hold_shows_in_the_view(self, swarm: SwarmApi) -> None:
        await swarm.hold(True, reason="thinking")
        view = await swarm.view()
        assert (view.held, view.hold_reason) == (True, "thinking")
        await swarm.hold(False)
        assert not (await swarm.view()).held

    async def test_one_mysis_is_held(self, swarm: SwarmApi) -> None:
        await swarm.create("alpha", start=False)
        await swarm.hold(True, ref="alpha")
        assert (await swarm.mysis("alpha")).held

    async def test_an_approval_that_is_not_open_cannot_be_answered(self, swarm: SwarmApi) -> None:
        assert await swarm.approvals() == ()
        with pytest.raises(UsageError):
            await swarm.answer(99, ApprovalAnswer.ONCE)

    async def test_an_unknown_grant_cannot_be_revoked(self, swarm: SwarmApi) -> None:
        assert await swarm.grants() == ()
        with pytest.raises(UsageError, match="no grant 99 holds"):
            await swarm.revoke(99)

    async def test_a_delivery_that_is_not_pending_cannot_be_withdrawn(self, swarm: SwarmApi) -> None:
        with pytest.raises(UsageError):
            await swarm.withdraw(99)

    async def test_a_message_that_does_not_exist_cannot_be_kept(self, swarm: SwarmApi) -> None:
        with pytest.raises(UsageError, match="there is no message 99"):
            await swarm.preserve(99)

    async def test_a_pending_delivery_is_withdrawn_once(self, swarm: SwarmApi) -> None:
        await swarm.create("alpha", start=False)
        await swarm.hold(True)
        receipt = await swarm.send("alpha", "Mine the belt")
        delivery = receipt.lines[0].delivery_id
        assert delivery is not None
        await swarm.withdraw(delivery)
        assert [line.status for line in (await swarm.receipt(receipt.message_id)).lines] == ["withdrawn"]
        with pytest.raises(UsageError):
            await swarm.withdraw(delivery)

    async def test_events_come_in_order_after_the_given_id(self, swarm: SwarmApi) -> None:
        await swarm.create("alpha", start=False)
        await swarm.stop("alpha")
        events = swarm.events()
        first = await _next(events)
        assert isinstance(first, Event)
        async with contextlib.aclosing(swarm.events(after=first.id)) as later:
            second = await _next(later)
        assert isinstance(second, Event)
        assert second.id > first.id
        await events.aclose()

    async def test_the_first_change_holds_all_and_the_next_only_what_changed(self, swarm: SwarmApi) -> None:
        for name in ("alpha", "beta"):
            await swarm.create(name, start=False)
        changes = swarm.changes()
        first = await _next(changes)
        assert isinstance(first, SwarmView)
        assert {view.name for view in first.myses} == {"alpha", "beta"}
        await swarm.stop("beta")
        second = await _next(changes)
        assert isinstance(second, SwarmView)
        assert {view.name for view in second.myses} == {"beta"}
        await changes.aclose()

    async def test_every_provider_in_use_is_tried(self, swarm: SwarmApi) -> None:
        found = await swarm.providers()
        assert [view.name for view in found] == ["scripted"]
        assert found[0].models is not None

    async def test_a_swarm_without_upstreams_lists_none_and_refuses_to_reconnect_or_try(self, swarm: SwarmApi) -> None:
        assert await swarm.upstreams() == ()
        with pytest.raises(UsageError, match="no upstream nothing"):
            await swarm.reconnect("nothing")
        with pytest.raises(UsageError, match="no upstream nothing"):
            await swarm.try_tool("nothing", "look", "{}")

    async def test_wait_returns_the_mysis_once_it_is_idle(self, swarm: SwarmApi) -> None:
        await swarm.create("alpha", start=False)
        assert (await swarm.wait("alpha", timeout_s=5.0)).name == "alpha"


async def _next(stream: AsyncIterator[object]) -> object:
    async with asyncio.timeout(PATIENCE_S):
        return await anext(stream)
