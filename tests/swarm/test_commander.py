"""Commands of the swarm: creating, naming, starting, archiving, waiting, receipts."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from tests.case_tables import walk_cases
from tests.swarm.harness import Swarm, call, script, swarm
from tests.swarm.test_builtin_backend import templates
from tests.waiting import until
from zoea.model.enums import Activity, DeliveryMode, ErrorClass, MysisState, SenderKind
from zoea.model.errors import (
    MysisMissing,
    NameRefused,
    NoRecipients,
    ProviderError,
    StateRefused,
    SwarmFull,
    TemplateError,
    UsageError,
)
from zoea.model.request import Answer
from zoea.model.values import Event, MysisView, Recipients, Sender
from zoea.queries.stored_swarm import read_mysis_view
from zoea.settings.schema import Settings
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.live_view import INTERVAL_S
from zoea.swarm.persistence import mysis_ops

HELLO = script(Answer(text="hello"))


class TestNames:
    @walk_cases("name", ["a", "x" * 40, "Älter 2", "a-b_c.d", "ctx", "漢字"])
    def test_a_name_may_hold_letters_of_any_script(self, name: str) -> None:
        assert mysis_ops.check_name(f" {name} ") == name

    @walk_cases("name", ["", "x" * 41, "-a", "Commander", "ctx-1", "TKT-2", "a/b", "a:b", "a\nb", "a@b", "👾"])
    def test_a_name_that_commands_cannot_use_is_refused(self, name: str) -> None:
        with pytest.raises(NameRefused, match=r"cannot be a name|is you"):
            mysis_ops.check_name(name)

    async def test_a_name_is_taken_without_case_in_any_script(self, tmp_path: Path) -> None:
        async with swarm(tmp_path) as s:
            await s.commander.create("Ärger", start=False)
            with pytest.raises(NameRefused, match="there is a mysis named 'ärger' already"):
                await s.commander.create("ärger", start=False)
            assert (await s.commander.mysis("ÄRGER")).name == "Ärger"

    async def test_zoea_chooses_greek_letters_then_numbers(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, settings=Settings.model_validate({"swarm": {"max_myses": 100}})) as s:
            await s.create("Beta", "mysis-26")
            made = [(await s.commander.create(" ", start=False)).name for _ in range(25)]
            assert made[:3] == ["alpha", "gamma", "delta"]
            assert made[-3:] == ["omega", "mysis-27", "mysis-28"]

    async def test_a_mysis_is_found_by_number_name_or_at_sign(self, tmp_path: Path) -> None:
        async with swarm(tmp_path) as s:
            await s.commander.create("alpha", start=False)
            for ref in ("#1", " alpha ", "@ALPHA"):
                assert (await s.commander.mysis(ref)).id == 1
            for ref in ("#9", "#x", "nobody"):
                with pytest.raises(MysisMissing) as missing:
                    await s.commander.mysis(ref)
                assert missing.value.hint == "there are: alpha"


class TestStarting:
    async def test_created_idle_and_then_started_unless_told_not_to(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, HELLO) as s:
            assert (await s.commander.create("alpha")).state is MysisState.RUNNING
            assert (await s.commander.create("beta", start=False)).state is MysisState.IDLE

    async def test_a_start_while_running_is_an_error(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, HELLO) as s:
            await s.commander.create("alpha")
            with pytest.raises(StateRefused, match="mysis already running"):
                await s.commander.start("alpha")

    async def test_no_more_than_max_myses(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, settings=Settings.model_validate({"swarm": {"max_myses": 2}})) as s:
            await s.create("alpha", "beta")
            with pytest.raises(SwarmFull, match=r"max myses \(2\) reached"):
                await s.commander.create("gamma", start=False)
            await s.commander.delete("beta")
            await s.commander.create("gamma", start=False)
            with pytest.raises(SwarmFull):
                await s.commander.undelete(2)

    async def test_a_provider_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        async with swarm(tmp_path) as s:
            with pytest.raises(ProviderError, match="missing"):
                await s.commander.create("alpha", provider="missing")

    async def test_the_opening_of_a_template_is_the_first_prompt(self, tmp_path: Path) -> None:
        found = templates(tmp_path, miner='opening = "Mine iron."\nmodel = "m1"')
        async with swarm(tmp_path, HELLO, templates=found) as s:
            view = await s.commander.create("alpha", template="miner")
            assert view.model == "m1"
            await s.settled()
            assert s.sent()[0] == [("user", "Mine iron.")]

    async def test_start_all_starts_the_idle_and_stop_all_stops_the_rest(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, HELLO) as s:
            await s.create("alpha", "beta", "gamma")
            await s.commander.stop("gamma")
            assert await s.commander.start_all() == 2
            assert await s.commander.stop_all() == 2
            assert {s.state(name) for name in ("alpha", "beta", "gamma")} == {MysisState.STOPPED}

    async def test_stop_all_stops_every_mysis_and_counts_the_running_ones(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, script(ProviderError("no", kind=ErrorClass.AUTH))) as s:
            await s.create("alpha", "beta", "gamma")
            await s.commander.start("beta")
            await s.commander.send("gamma", "go")
            await s.until(lambda: s.state("gamma") is MysisState.ERRORED)
            assert await s.commander.stop_all() == 1
            assert {s.state(name) for name in ("alpha", "beta", "gamma")} == {MysisState.STOPPED}

    async def test_a_template_that_cannot_be_read_is_the_error_of_its_myses_alone(self, tmp_path: Path) -> None:
        found = templates(tmp_path, miner="")
        async with swarm(tmp_path, HELLO, templates=found) as s:
            for name in ("alpha", "gamma"):
                await s.commander.create(name, template="miner", start=False)
            await s.commander.create("beta", start=False)
            await s.commander.stop("gamma")
            await s.store.write(lambda c: c.execute("UPDATE template SET body = '{}' WHERE name = 'miner'").rowcount)
        async with swarm(tmp_path, HELLO, templates=found) as s:
            view = await s.commander.mysis("alpha")
            assert view.state is MysisState.ERRORED
            assert view.failure is not None
            assert (view.failure.title, view.failure.what) == ("Template is wrong", "the stored text is not a template")
            assert "create it again" in view.failure.hint
            assert s.state("gamma") is MysisState.STOPPED
            await s.ask("beta", "go")
            assert await s.value("SELECT outcome FROM turn") == "answered"
            await s.commander.start("gamma")
            await s.commander.send("gamma", "go")
            await s.until(lambda: s.state("gamma") is MysisState.ERRORED)
            assert await s.value("SELECT count(*) FROM delivery WHERE state = 'pending'") == 1

    async def test_a_template_that_disagrees_with_the_settings_makes_no_mysis(self, tmp_path: Path) -> None:
        found = templates(tmp_path, miner="[budget]\ntoken_budget_per_task = 2000")
        settings = Settings.model_validate({"budget": {"token_budget_per_agent": 5000}})
        async with swarm(tmp_path, HELLO, templates=found, settings=settings) as s:
            with pytest.raises(TemplateError, match="conflicts with the settings"):
                await s.commander.create("alpha", template="miner")
            assert await s.value("SELECT count(*) FROM mysis") == 0

    async def test_running_myses_are_idle_after_a_restart_and_the_others_stay(self, tmp_path: Path) -> None:
        wrong = ProviderError("refused", kind=ErrorClass.AUTH)
        async with swarm(tmp_path, script(wrong)) as s:
            for name in ("runs", "stopped", "errored", "idle"):
                await s.commander.create(name, start=name == "runs")
            await s.commander.stop("stopped")
            await s.commander.send("errored", "hello")
            await s.until(lambda: s.state("errored") is MysisState.ERRORED)
        async with swarm(tmp_path) as s:
            states = [s.state(name) for name in ("runs", "stopped", "errored", "idle")]
            assert states == [MysisState.IDLE, MysisState.STOPPED, MysisState.ERRORED, MysisState.IDLE]
            assert (await s.commander.mysis("errored")).failure is not None

    async def test_a_countdown_to_recovery_goes_on_after_a_restart(self, tmp_path: Path) -> None:
        settings = Settings.model_validate({"llm": {"retries": 0}})
        busy = ProviderError("503", kind=ErrorClass.TRANSIENT)
        async with swarm(tmp_path, script(busy), settings=settings) as s:
            await s.tell("alpha", "hello")
            await s.until(lambda: s.state() is MysisState.ERRORED)
            retry_at = (await s.commander.mysis("alpha")).retry_at
        async with swarm(tmp_path, HELLO) as s:
            assert (await s.commander.mysis("alpha")).retry_at == retry_at
            s.clock.by(16)
            await s.until(lambda: s.state() is MysisState.RUNNING)
            await s.settled()
            assert await s.value("SELECT outcome FROM turn") == "answered"


class TestArchiving:
    async def test_deleting_stops_it_frees_the_name_and_keeps_the_memories(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, HELLO) as s:
            await s.ask("alpha", "hello")
            assert (await s.commander.delete("alpha")).state is MysisState.STOPPED
            with pytest.raises(MysisMissing):
                await s.commander.mysis("alpha")
            assert (await s.commander.create("alpha", start=False)).id == 2
            assert await s.value("SELECT count(*) FROM memory WHERE mysis_id = 1") == 2
            with pytest.raises(NameRefused, match="given to another mysis"):
                await s.commander.undelete(1)
            await s.commander.delete("alpha")
            assert (await s.commander.undelete(1)).name == "alpha"
            await s.commander.start("alpha")

    async def test_a_mysis_that_is_not_deleted_cannot_be_undeleted(self, tmp_path: Path) -> None:
        async with swarm(tmp_path) as s:
            await s.commander.create("alpha", start=False)
            for number in (1, 9):
                with pytest.raises(MysisMissing, match=f"no deleted mysis #{number}"):
                    await s.commander.undelete(number)

    async def test_one_deleted_before_a_restart_comes_back_with_its_template(self, tmp_path: Path) -> None:
        async with swarm(tmp_path) as s:
            await s.commander.create("alpha", start=False)
            await s.commander.delete("alpha")
        async with swarm(tmp_path, HELLO) as s:
            assert (await s.commander.undelete(1)).template == "default"
            await s.commander.start("alpha")
            await s.ask("alpha", "hello")
            assert s.provider.calls == 1

    async def test_a_dismissed_error_is_off_the_row_and_the_state_stays(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, script(ProviderError("refused", kind=ErrorClass.AUTH))) as s:
            await s.tell("alpha", "hello")
            await s.until(lambda: s.state() is MysisState.ERRORED)
            view = await s.commander.dismiss("alpha")
            assert (view.failure, view.state) == (None, MysisState.ERRORED)


class TestReceipts:
    async def test_from_delivered_over_taken_to_answered(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, HELLO) as s:
            block = s.provider.block()
            first = await s.tell("alpha", "one")
            await block.reached.wait()
            second = await s.commander.send("alpha", "two")
            now = [(await s.commander.receipt(one.message_id)).lines[0] for one in (first, second)]
            assert [(line.status, line.turn_id) for line in now] == [("taken", 1), ("delivered", None)]
            assert (await s.commander.mysis("alpha")).pending == 1
            block.release()
            await s.settled()
            later = (await s.commander.receipt(second.message_id)).lines[0]
            assert (later.status, later.turn_id) == ("answered", 2)

    async def test_a_cancelled_turn_did_not_answer_and_what_waits_behind_it_says_why(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, HELLO) as s:
            block = s.provider.block()
            receipt = await s.tell("alpha", "one")
            await block.reached.wait()
            waiting = await s.commander.send("alpha", "two")
            await s.commander.stop("alpha")
            lines = [(await s.commander.receipt(one.message_id)).lines[0] for one in (receipt, waiting)]
            assert [(line.status, line.reason) for line in lines] == [
                ("not answered", "not answered: cancelled"),
                ("delivered", "stopped, reads it when it runs again"),
            ]

    async def test_a_message_that_is_not_there_has_none(self, tmp_path: Path) -> None:
        async with swarm(tmp_path) as s:
            with pytest.raises(UsageError, match="there is no message 7"):
                await s.commander.receipt(7)
            with pytest.raises(UsageError, match="there is no delivery 7"):
                await s.commander.withdraw(7)

    async def test_a_message_over_the_hop_limit_waits(self, tmp_path: Path) -> None:
        async with swarm(tmp_path) as s:
            await s.create("alpha", "beta")
            receipt = await s.commander.builtin_backend.send(1, 2, "beta", "far away")
            assert receipt.lines[0].status == "waiting"
            assert s.state("beta") is MysisState.IDLE

    @pytest.mark.parametrize(
        ("to", "heard"),
        [
            (Recipients(), ["alpha", "beta", "gamma"]),
            (Recipients(names=("BETA", "#1")), ["alpha", "beta"]),
            (Recipients(tag="north"), ["beta", "gamma"]),
            (Recipients(tag="north", names=("gamma",)), ["gamma"]),
            (Recipients(state=MysisState.IDLE), ["alpha", "beta", "gamma"]),
        ],
    )
    async def test_a_broadcast_goes_to_all_or_to_a_filter(
        self, tmp_path: Path, to: Recipients, heard: list[str]
    ) -> None:
        async with swarm(tmp_path, HELLO) as s:
            for name in ("alpha", "beta", "gamma"):
                await s.commander.create(name, tags=() if name == "alpha" else ("north", "scout"), start=False)
            receipt = await s.commander.broadcast("hear", to=to)
            assert [line.mysis for line in receipt.lines] == heard
            for name in heard:
                await s.settled(name)

    async def test_a_broadcast_to_a_name_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        async with swarm(tmp_path) as s:
            await s.commander.create("alpha", start=False)
            with pytest.raises(MysisMissing):
                await s.commander.broadcast("hear", to=Recipients(names=("alpha", "nobody")))
            with pytest.raises(NoRecipients):
                await s.commander.broadcast("hear", to=Recipients(tag="nobody has it"))
            assert await s.value("SELECT count(*) FROM message") == 0

    async def test_a_repeated_broadcast_with_the_same_key_is_said_once(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, HELLO) as s:
            await s.commander.create("alpha", start=False)
            first = await s.commander.broadcast("hear", idempotency_key="k")
            await s.settled()
            again = await s.commander.broadcast("hear", idempotency_key="k")
            assert (again.message_id, again.lines[0].status) == (first.message_id, "answered")

    async def test_a_client_is_named_in_the_line_that_only_zoea_writes(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, HELLO) as s:
            await s.commander.create("alpha", start=False)
            await s.commander.send("alpha", "hello", sender=Sender(SenderKind.CLIENT, None, "ci"))
            await s.settled()
            assert s.sent()[0] == [("user", "[to alpha, from client ci]\nhello")]


async def waited_for(s: Swarm) -> asyncio.Task[MysisView]:
    """A wait for alpha while its model says nothing."""
    await s.begin_call("alpha", "hello")
    return asyncio.create_task(s.commander.wait("alpha"))


class TestWaiting:
    async def test_it_returns_once_nothing_is_open_or_pending(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, HELLO) as s:
            block = s.provider.block()
            await s.tell("alpha", "hello")
            waiting = asyncio.create_task(s.commander.wait("alpha"))
            await block.reached.wait()
            assert not waiting.done()
            block.release()
            assert (await waiting).turns == 1

    async def test_it_gives_up_at_its_timeout(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, HELLO) as s:
            await s.begin_call("alpha", "hello")
            with pytest.raises(UsageError, match=r"alpha did not finish within 0\.05 s"):
                await s.commander.wait("alpha", timeout_s=0.05)

    async def test_an_errored_mysis_is_not_waited_for(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, script(ProviderError("refused", kind=ErrorClass.AUTH))) as s:
            await s.tell("alpha", "hello")
            assert (await s.commander.wait("alpha")).state is MysisState.ERRORED

    async def test_a_mysis_deleted_during_the_wait_is_missing(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, HELLO) as s:
            waiting = await waited_for(s)
            await asyncio.sleep(0)
            await s.commander.delete("alpha")
            with pytest.raises(MysisMissing, match="alpha was deleted"):
                await waiting

    async def test_one_that_is_stopped_to_be_deleted_has_not_finished(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reached, go_on, real = threading.Event(), threading.Event(), mysis_ops.archive

        def archive(conn: WriterConnection, mysis_id: int) -> None:
            reached.set()
            go_on.wait(30)
            real(conn, mysis_id)

        monkeypatch.setattr(mysis_ops, "archive", archive)
        async with swarm(tmp_path, HELLO) as s:
            waiting = await waited_for(s)
            deleting = asyncio.create_task(s.commander.delete("alpha"))
            await s.until(reached.is_set)
            assert not (await asyncio.wait({waiting}, timeout=4 * INTERVAL_S))[0]
            go_on.set()
            await deleting
            with pytest.raises(MysisMissing, match="alpha was deleted"):
                await waiting

    async def test_changes_tell_of_the_new_and_the_gone(self, tmp_path: Path) -> None:
        async with swarm(tmp_path) as s:
            await s.commander.create("alpha", start=False)
            async with aclosing(s.commander.changes()) as views:
                assert [one.name for one in (await anext(views)).myses] == ["alpha"]
                await s.commander.create("beta", start=False)
                await s.commander.delete("alpha")
                changed = await anext(views)
            assert [one.name for one in changed.myses] == ["beta"]
            assert changed.removed == (1,)

    async def test_events_are_durable_facts_in_order(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, HELLO) as s:
            async with aclosing(s.commander.events()) as events:
                await s.ask("alpha", "never in an event")
                found: list[Event] = []
                while not found or found[-1].kind != "turn.ended":
                    item = await anext(events)
                    assert isinstance(item, Event)
                    found.append(item)
            assert [one.kind for one in found] == [
                "mysis.created",
                "message.sent",
                "mysis.state",
                "delivery.taken",
                "turn.opened",
                "turn.ended",
            ]
            assert [one.id for one in found] == sorted(one.id for one in found)
            assert "never in an event" not in str(found)


class TestHold:
    async def test_one_mysis_is_held_and_the_others_go_on(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, HELLO) as s:
            await s.create("alpha", "beta")
            await s.commander.hold(True, ref="alpha", reason="rest")
            await s.commander.broadcast("go")
            await s.settled("beta")
            assert (await s.commander.mysis("alpha")).held
            live, stored = await s.commander.mysis("alpha"), read_mysis_view(s.path, "alpha")
            assert [view.held_reason for view in (live, stored)] == ["rest", "rest"]
            assert await s.value("SELECT data FROM event WHERE kind = 'hold.set'") == "{}"
            assert s.provider.calls == 1
            await s.commander.hold(False, ref="alpha")
            await s.settled("alpha")
            assert s.provider.calls == 2

    async def test_both_holds_survive_a_restart(self, tmp_path: Path) -> None:
        async with swarm(tmp_path) as s:
            await s.commander.create("alpha", start=False)
            await s.commander.hold(True, ref="alpha")
            await s.commander.hold(True, reason="overnight")
        async with swarm(tmp_path, HELLO) as s:
            view = await s.commander.view()
            assert (view.held, view.hold_reason, view.myses[0].held) == (True, "overnight", True)
            await s.commander.send("alpha", "hello")
            await s.commander.hold(False)
            await s.run_due()
            assert s.provider.calls == 0
            await s.commander.hold(False, ref="alpha")
            await s.settled()
            assert s.provider.calls == 1

    async def test_the_view_counts_the_tokens_of_the_day(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, HELLO) as s:
            await s.ask("alpha", "hello")
            s.clock.by(2)
            view = await s.commander.view()
            assert view.tokens_today == view.myses[0].tokens > 0
            assert view.budget_today == 2_000_000

    async def test_the_tokens_of_the_day_follow_the_last_change(self, tmp_path: Path) -> None:
        seen: list[int] = []

        async def watch() -> None:
            async for view in s.commander.changes():
                seen.append(view.tokens_today)

        async with swarm(tmp_path, HELLO) as s:
            task = asyncio.create_task(watch())
            await s.ask("alpha", "hello")
            s.clock.by(2)
            spent = (await s.commander.mysis("alpha")).tokens
            await until(lambda: seen[-1] == spent > 0)
            task.cancel()
            await asyncio.wait({task})

    async def test_shutdown_tells_the_owner(self, tmp_path: Path) -> None:
        told: list[bool] = []
        async with swarm(tmp_path, on_shutdown=lambda: told.append(True)) as s:
            await s.commander.shutdown()
            assert told == [True]


class TestSteering:
    async def test_a_steer_for_an_idle_mysis_opens_a_turn(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, HELLO) as s:
            await s.commander.create("alpha", start=False)
            await s.commander.send("alpha", "hurry", mode=DeliveryMode.STEER)
            await s.settled()
            assert s.sent() == [[("user", "hurry")]]

    async def test_a_steer_that_was_withdrawn_before_it_was_taken_is_in_no_request(self, tmp_path: Path) -> None:
        replies = script(Answer(calls=(call("act"),)), Answer(text="done"))
        async with swarm(tmp_path, replies) as s:
            s.peer.gates["act"] = gate = asyncio.Event()
            await s.tell("alpha", "go")
            await s.until(lambda: s.peer.running)
            receipt = await s.commander.send("alpha", "wrong", mode=DeliveryMode.STEER)
            assert receipt.lines[0].delivery_id is not None
            await s.commander.withdraw(receipt.lines[0].delivery_id)
            gate.set()
            await s.settled()
            assert "wrong" not in str(s.sent())
            assert await s.value("SELECT count(*) FROM turn") == 1

    async def test_activity_is_for_display(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, script(Answer(calls=(call("act"),)), Answer(text="done"))) as s:
            block = s.provider.block()
            s.peer.gates["act"] = gate = asyncio.Event()
            await s.commander.create("alpha", start=False)
            assert (await s.commander.mysis("alpha")).activity is Activity.IDLE
            await s.commander.send("alpha", "go")
            await block.reached.wait()
            assert (await s.commander.mysis("alpha")).activity is Activity.LLM
            block.release()
            await s.until(lambda: s.peer.running)
            assert (await s.commander.mysis("alpha")).activity is Activity.TOOL
            gate.set()
            await s.settled()


class TestCallersThatLeave:
    async def test_a_message_with_a_sender_that_disconnects_meanwhile_is_answered(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, HELLO) as s:
            await s.commander.create("alpha", start=False)
            sending = asyncio.create_task(s.api.send("alpha", "go"))
            await asyncio.sleep(0)
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
            await s.until(lambda: s.provider.calls == 1)
            await s.settled()

    async def test_a_message_of_a_mysis_that_is_stopped_meanwhile_is_answered(self, tmp_path: Path) -> None:
        async with swarm(tmp_path, HELLO) as s:
            await s.create("alpha", "beta")
            sending = asyncio.create_task(s.commander.builtin_backend.send(1, 0, "beta", "go"))
            await asyncio.sleep(0)
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
            await s.until(lambda: s.provider.calls == 1)
            await s.settled("beta")
