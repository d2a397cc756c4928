"""The output of the plain and the JSON front, and the commands typed beside them."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.case_tables import walk_cases
from tests.fakes.swarm import FakeSwarm
from zoea.cli import output, plain_fronts, typed_commands, typed_lines
from zoea.cli.dispatch import PROMPTED
from zoea.cli.plain_fronts import JsonFront, PlainFront, events_without_gaps
from zoea.cli.swarm_access import read_begun
from zoea.cli.terminal_rows import details, one_line, provider_label, receipt_line, state_word, table
from zoea.cli.typed_commands import ExitChoice, read_commands, run_typed_command
from zoea.cli.typed_lines import TypedLine, TypedLines
from zoea.model.enums import Activity, MysisState
from zoea.model.errors import NoRunningSwarm, StoreError
from zoea.model.status import StatusWord
from zoea.model.values import Event, Failure, Lagged, ReceiptLine, SwarmView
from zoea.process.clock import SystemClock
from zoea.settings.paths import Places
from zoea.store.store import Store
from zoea.swarm.persistence.stat_ops import store_minute

PATIENCE_S = 30.0
NOWHERE = Places(Path("/nowhere"), Path("/nowhere"), Path("/nowhere"))


@pytest.fixture
async def swarm() -> FakeSwarm:
    made = FakeSwarm()
    await made.create("alpha")
    return made


async def shown(
    front: plain_fronts.Front, swarm: FakeSwarm, lines: int, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """The first lines that a front writes for the stored events."""
    written = asyncio.Semaphore(0)
    task = asyncio.create_task(front.show(swarm, 0, lambda _event: written.release()))
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(lines):
            await written.acquire()
    task.cancel()
    return capsys.readouterr().out.splitlines()


class ScriptedSwarm(FakeSwarm):
    """A swarm with given events: each subscription ends after a `Lagged`, as a real one does."""

    def __init__(self, *events: Event | Lagged) -> None:
        super().__init__()
        self.scripted = list(events)

    async def events(self, after: int = 0) -> AsyncGenerator[Event | Lagged, None]:
        while self.scripted:
            yield self.scripted.pop(0)
        await asyncio.Event().wait()


class TestPlain:
    @pytest.fixture(autouse=True)
    def _texts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def text(_database: Path, event: Event) -> str:
            if event.kind == "message.sent":
                return f"message {event.data['message']}"
            return f"answer\nof {event.data['turn']}\x1b[2J" if event.kind == "turn.ended" else ""

        monkeypatch.setattr(plain_fronts, "read_event_text", text)

    @pytest.mark.parametrize(
        ("kind", "mysis_id", "data", "line"),
        [
            ("turn.opened", 1, {"number": 3}, "alpha         turn 3 begins"),
            (
                "request.prepared",
                1,
                {"messages": 50, "tokens": 6_210},
                "alpha         Preparing context (50 msgs, ~6.2k tokens)",
            ),
            ("budget.used", 1, {"used": 14_800, "limit": 50_000}, "alpha         Budget used: 14.8k/50k"),
            ("turn.ended", 1, {"turn": 7, "outcome": "answered"}, "alpha         answer of 7"),
            ("turn.ended", 1, {"turn": 7, "outcome": "loop"}, "alpha         turn ended: loop. answer of 7"),
            ("turn.ended", 1, {"outcome": "cancelled"}, "alpha         turn ended: cancelled"),
            ("mysis.state", 1, {"state": "errored", "error": "No key"}, "alpha         is errored: No key"),
            ("mysis.state", 1, {"state": "idle", "error": "", "reason": ""}, "alpha         is idle"),
            ("message.sent", None, {"message": 4, "said": "direct"}, "you           say: message 4"),
            ("message.sent", 1, {"message": 4, "said": "broadcast"}, "alpha         to all: message 4"),
            ("hold.set", None, {"reason": "lunch"}, "swarm         on hold: lunch"),
            ("hold.set", None, {}, "swarm         on hold"),
            ("approval.asked", 1, {"approval": 4}, "alpha         asks you something (4)"),
            ("new.fact", 9, {"a": 1}, "#9            new.fact a=1"),
        ],
    )
    async def test_each_event_is_one_readable_line(
        self, capsys: pytest.CaptureFixture[str], kind: str, mysis_id: int | None, data: dict[str, Any], line: str
    ) -> None:
        swarm = ScriptedSwarm(Event(1, kind, mysis_id, data, 1_700_000_000_000_000))
        await swarm.create("alpha")
        (wrote,) = await shown(PlainFront(Path("x"), is_verbose=True), swarm, 1, capsys)
        assert wrote[2] == wrote[5] == ":"
        assert wrote[10:].startswith(line)
        assert "\x1b" not in wrote

    async def test_what_each_request_holds_and_used_is_written_only_if_asked_for(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        said = (
            Event(0, "request.prepared", 1, {"messages": 50, "tokens": 6_210}),
            Event(0, "budget.used", 1, {"scope": "request", "used": 14_800, "limit": 50_000}),
            Event(0, "budget.used", 1, {"scope": "turn", "used": 45_200, "limit": 200_000}),
            Event(1, "turn.opened", 1, {"number": 3}),
        )
        swarm = ScriptedSwarm(*said)
        await swarm.create("alpha")
        assert [line[24:] for line in await shown(PlainFront(Path("x")), swarm, 4, capsys)] == ["turn 3 begins"]
        swarm = ScriptedSwarm(*said)
        await swarm.create("alpha")
        lines = await shown(PlainFront(Path("x"), is_verbose=True), swarm, 4, capsys)
        assert [line[24:] for line in lines] == [
            "Preparing context (50 msgs, ~6.2k tokens)",
            "Budget used: 14.8k/50k",
            "Budget used: 45.2k/200k",
            "turn 3 begins",
        ]

    async def test_an_unreadable_text_becomes_a_note(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(_database: Path, _event: Event) -> str:
            raise StoreError("busy")

        monkeypatch.setattr(plain_fronts, "read_event_text", broken)
        swarm = ScriptedSwarm(Event(1, "turn.ended", 1, {"turn": 1, "outcome": "answered"}))
        await swarm.create("alpha")
        (wrote,) = await shown(PlainFront(Path("x")), swarm, 1, capsys)
        assert "cannot be read now" in wrote

    async def test_the_summary_has_one_line_per_mysis(self, capsys: pytest.CaptureFixture[str]) -> None:
        row = {"name": "alpha", "turns": 1, "tool_calls": 2, "errors": 0, "tokens": 12345}
        front = PlainFront(Path("x"))
        await front.summary([row | {"credits_earned": 1200}, row | {"credits_earned": None}])
        first, second = capsys.readouterr().out.splitlines()
        assert first == "alpha         1 turn, 2 tool calls, 0 errors, 12,345 tokens, 1,200 credits earned"
        assert second.endswith("tokens")


class TestJson:
    async def test_each_event_is_one_json_line(self, swarm: FakeSwarm, capsys: pytest.CaptureFixture[str]) -> None:
        front = JsonFront()
        (line,) = await shown(front, swarm, 1, capsys)
        assert json.loads(line) == {
            "event": "mysis.created",
            "id": 1,
            "at": 0,
            "mysis_id": 1,
            "data": {"name": "alpha"},
        }
        await front.say("not for machines")
        assert capsys.readouterr().out == ""

    async def test_a_lagging_reader_misses_no_event(self) -> None:
        swarm = ScriptedSwarm(Event(1, "a", None), Lagged(1), Event(2, "b", None), Event(3, "c", None))
        seen = []
        async for event in events_without_gaps(swarm, 0):
            seen.append(event.id)
            if event.id == 3:
                break
        assert seen == [1, 2, 3]


class TestWriting:
    def test_output_is_redirected_after_the_terminal_was_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        gone: list[bool] = []

        class Closed(io.StringIO):
            def write(self, _text: str) -> int:
                raise OSError(5, "Input/output error")

        monkeypatch.setattr("sys.stdout", Closed())
        monkeypatch.setattr(plain_fronts, "detach_terminal", lambda: gone.append(True))
        plain_fronts.write_text("x")
        assert gone == [True]

    def test_other_write_errors_are_raised(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Full(io.StringIO):
            def write(self, _text: str) -> int:
                raise OSError(28, "No space left on device")

        monkeypatch.setattr("sys.stdout", Full())
        with pytest.raises(OSError, match="No space"):
            plain_fronts.write_text("x")


@pytest.mark.parametrize(("status", "said"), [("started", "a  started (4)"), ("skipped", "a  not delivered: stopped")])
def test_a_receipt_shows_delivery_ids_of_waiting_messages(status: str, said: str) -> None:
    reason = "stopped" if status == "skipped" else ""
    assert receipt_line(ReceiptLine("a", status, reason, delivery_id=4)) == said


@walk_cases(
    ("changes", "words"),
    [
        ({}, "running"),
        ({"in_turn": True, "activity": Activity.LLM}, "running"),
        ({"approvals": 1}, "asking: it waits for your answer, and goes on then"),
        ({"in_turn": True, "swarm_held": True}, "held: lunch"),
        ({"held": True, "held_reason": "too dear"}, "paused: too dear"),
        ({"queue_place": 2, "queue_name": "the budget of the day"}, "queued (2nd for the budget of the day)"),
        ({"state": MysisState.STOPPED, "state_reason": "you stopped it"}, "stopped"),
        ({"state": MysisState.STOPPED, "state_reason": "budget"}, "stopped: its budget is spent"),
    ],
    ids=str,
)
async def test_a_command_says_what_keeps_a_mysis_from_its_state(changes: dict[str, Any], words: str) -> None:
    view = replace(await FakeSwarm().create("alpha"), **changes)
    assert state_word(view, "lunch") == words
    line = receipt_line(ReceiptLine("alpha", "started", delivery_id=4), view, "lunch")
    is_kept = words != "running"
    assert line == (f"alpha  delivered (4): it is {words}" if is_kept else "alpha  started (4)")


class _SwarmInSteps(FakeSwarm):
    """Shows its first mysis with these changes, one after the other; the last one stays."""

    steps: tuple[dict[str, Any], ...] = ()

    async def view(self) -> SwarmView:
        first, *rest = self.steps
        self.steps = tuple(rest) or self.steps
        seen = await super().view()
        return replace(seen, myses=(replace(seen.myses[0], in_turn=True, **first),))


async def test_a_call_that_its_provider_has_wait_is_no_call_that_began() -> None:
    made = _SwarmInSteps()
    one = await made.create("alpha")
    calling, waiting = {"activity": Activity.LLM}, {"activity": Activity.LLM, "queue_place": 1, "queue_until": 7}
    made.steps = ({"activity": Activity.IDLE}, calling, waiting)
    [begun] = (await read_begun(made, {one.id})).myses
    assert begun.status is StatusWord.WAITING
    made.steps = ({"activity": Activity.IDLE}, calling)
    [begun] = (await read_begun(made, {one.id})).myses
    assert begun.status is StatusWord.WORKING


class TestTyping:
    @pytest.fixture(autouse=True)
    def _as_in_a_new_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Forget that an earlier test ran a command with --json in this process."""
        monkeypatch.setattr(output, "is_json", False)

    @pytest.mark.parametrize(
        ("line", "answer"),
        [
            ("send alpha mine the belt", "alpha  delivered (1)"),
            ('send "alpha" mine', "alpha  delivered (1)"),
            ("send nobody mine", "No such mysis: no mysis 'nobody'. `zoea list` shows them"),
            ("zoea send alpha mine", "alpha  delivered (1)"),
            ("send alpha it's -5 degrees  there", "alpha  delivered (1)"),
            ("send", "Cannot do that: NAME is missing. `zoea list` shows the myses; `zoea broadcast` sends to all."),
            ("send alpha -", "Cannot do that: a line that is typed here cannot read stdin."),
            ("send alpha --json mine", "alpha  delivered (1)"),
            ("withdraw 7", "Cannot do that: delivery 7 is not pending"),
            ("withdraw it", "Cannot do that: --withdraw 'it' is not a whole number. Give a number."),
            ("withdraw", "Cannot do that: --withdraw needs a value: --withdraw ID."),
            ("broadcast meet", "alpha  delivered (1)"),
            ("stop alpha", "alpha is stopped"),
            ("Stop 'alpha'", "alpha is stopped"),
            ("stop 'alpha", "Cannot do that: a quotation mark is not closed."),
            ("start alpha", "Not in this state: mysis already running"),
            ("stop all", "alpha is stopped"),
            ("start all", "alpha is running"),
            ("hold --reason 'a lunch'", "The swarm is on hold"),
            ("hold lunch", "No such mysis: no mysis 'lunch'"),
            ("hold alpha", "alpha is paused"),
            ("lift", "The swarm continues"),
            ("delete alpha", "Cannot do that: nothing was done: Delete alpha? Their memories stay"),
            ("delete alpha --yes", "alpha (#1) is deleted"),
            ("stats --last year", "Cannot do that: --last 'year' is unknown. Give one of hour, day, week."),
            ("help", typed_commands.overview()),
            ("help stop", "Usage: stop [OPTIONS] [NAME]..."),
            ("stop --help", "Usage: stop [OPTIONS] [NAME]..."),
            ("dance", "There is no command 'dance' here; help lists them"),
            ("help dance", "There is no command 'dance' here; help lists them"),
            ("purge alpha", "There is no command 'purge' here; type `zoea purge` in another terminal"),
        ],
    )
    async def test_a_typed_line_is_run_or_answered_with_an_error(
        self, swarm: FakeSwarm, line: str, answer: str
    ) -> None:
        assert (await run_typed_command(swarm, line, NOWHERE)).startswith(answer)

    async def test_each_command_of_the_prompt_is_one_of_the_command_line_with_its_help(self, swarm: FakeSwarm) -> None:
        assert len(PROMPTED) > 15
        for name in PROMPTED:
            assert f"{name} " in typed_commands.overview()
            shown = await run_typed_command(swarm, f"help {name}", NOWHERE)
            assert shown.startswith(f"Usage: {name} ")
            assert "  --json" not in shown
            assert "  -w" not in shown

    async def test_a_text_is_sent_as_it_was_typed(self, swarm: FakeSwarm) -> None:
        for text in ("it's  -5 degrees, 'cold'", "-5 degrees", "-- --wait for me", "two -y"):
            await run_typed_command(swarm, f"send alpha {text}", NOWHERE)
            assert swarm.said[-1][2] == text.removeprefix("-- ")

    async def test_a_command_that_waits_ends_with_the_front(
        self, swarm: FakeSwarm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def stop(_ref: str) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        monkeypatch.setattr(swarm, "stop", stop)
        typed = asyncio.create_task(run_typed_command(swarm, "stop alpha", NOWHERE))
        async with asyncio.timeout(PATIENCE_S):
            await begun.wait()
            typed.cancel()
            await cancelled.wait()

    async def test_a_typed_broadcast_that_needs_more_than_a_budget_has_left_needs_a_yes(self, swarm: FakeSwarm) -> None:
        swarm.short_budgets = ("The budget of the swarm today has 3 of 9 tokens left",)
        refused = await run_typed_command(swarm, "broadcast meet", NOWHERE)
        assert "nothing was sent. The budget of the swarm today has 3 of 9 tokens left. Send it with --yes" in refused
        sent = await run_typed_command(swarm, "broadcast --yes meet", NOWHERE)
        assert sent.startswith("alpha  delivered")
        assert [text for _, _, text in swarm.said] == ["meet"]

    async def test_a_stopped_mysis_is_started(self, swarm: FakeSwarm) -> None:
        await run_typed_command(swarm, "stop alpha", NOWHERE)
        assert await run_typed_command(swarm, "start alpha", NOWHERE) == "alpha is running"

    async def test_a_name_with_spaces_is_quoted(self, swarm: FakeSwarm) -> None:
        await swarm.create("beta two")
        sent = await run_typed_command(swarm, "send 'beta two' hello there", NOWHERE)
        assert sent.startswith("beta two  delivered (1)")
        assert swarm.said[-1][2] == "hello there"

    async def test_stats_prints_the_numbers_of_a_time(self, swarm: FakeSwarm, tmp_path: Path) -> None:
        store = await Store.open(tmp_path / "zoea.db", clock_now=SystemClock().now)
        await store.write(lambda conn: store_minute(conn, {"working": 2}))
        await store.close()
        said = await run_typed_command(swarm, "stats --last day", Places(tmp_path, tmp_path, tmp_path))
        assert said.startswith("last day: 0 tokens")
        assert "2 working" in said

    async def test_list_prints_the_table(self, swarm: FakeSwarm) -> None:
        assert (await run_typed_command(swarm, "list", NOWHERE)).splitlines()[1].startswith("alpha")

    @pytest.mark.parametrize(
        ("typed", "is_owner", "parting"),
        [
            (b"quit\nyes\n", True, ExitChoice.QUIT),
            (b"quit\nno\nquit\nstop\n", True, ExitChoice.QUIT),
            (b"quit\nleave\n", True, ExitChoice.LEAVE),
            (b"leave\n", True, ExitChoice.LEAVE),
            (b"\nlist\nquit\n", False, ExitChoice.QUIT),
            (b"", False, ExitChoice.QUIT),
        ],
    )
    async def test_quit_asks_the_owner_for_confirmation(
        self, swarm: FakeSwarm, typed: bytes, is_owner: bool, parting: ExitChoice
    ) -> None:
        heard: list[str] = []

        async def say(text: str) -> None:
            heard.append(text)

        reading, writing = os.pipe()
        os.write(writing, typed)
        os.close(writing)
        with os.fdopen(reading) as stdin, closing(TypedLines(stdin)) as lines:
            async with asyncio.timeout(PATIENCE_S):
                assert await read_commands(swarm, say, NOWHERE, lines, is_owner=is_owner) is parting
        assert (b"no" in typed) == ("The swarm continues" in heard)

    async def test_the_end_of_the_swarm_ends_the_reading_and_no_later_line_is_taken(
        self, swarm: FakeSwarm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def is_gone(*_: object, **__: object) -> None:
            raise NoRunningSwarm("it has ended")

        async def say(text: str) -> None:
            pytest.fail(text)

        monkeypatch.setattr(swarm, "send", is_gone)
        reading, writing = os.pipe()
        os.write(writing, b"send alpha first\nsend alpha second\n")
        os.close(writing)
        with os.fdopen(reading) as stdin, closing(TypedLines(stdin)) as lines:
            with pytest.raises(NoRunningSwarm):
                await read_commands(swarm, say, NOWHERE, lines, is_owner=False)
            assert (lines.current, lines.take_unread()) == ("send alpha first", ["send alpha second"])

    async def test_lines_are_joined_from_pieces(self) -> None:
        reading, writing = os.pipe()
        os.write(writing, b"first\nsec")
        lines = TypedLines(reading).read()
        assert await anext(lines) == TypedLine("first")
        os.write(writing, b"ond")
        os.close(writing)
        assert [line.text async for line in lines] == ["second"]
        os.close(reading)

    async def test_a_line_that_is_too_long_is_refused_in_bounded_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(typed_lines, "LONGEST", 10)
        reading, writing = os.pipe()
        os.write(writing, b"x" * 40_000 + b"\n" + b"y" * 10 + b"\n")
        os.close(writing)
        first, second = [line async for line in TypedLines(reading).read()]
        assert first.problem.startswith("A line of 40,000 bytes is too long, at most 10 fit: save the text in a file")
        assert (first.text, second) == ("", TypedLine("y" * 10))
        os.close(reading)

    async def test_lines_stay_in_the_terminal_while_one_is_carried_out(self) -> None:
        master, terminal = pty.openpty()
        lines = TypedLines(terminal)
        os.write(master, b"first\n")
        reader = lines.read()
        assert (await anext(reader)).text == lines.current == "first"
        os.write(master, b"second\n \nthird\nnot whole")
        assert lines.take_unread() == ["second", "third"]
        assert lines.current == "first"
        os.close(master)
        async with asyncio.timeout(PATIENCE_S):
            assert [line async for line in reader] == []
        lines.close()
        assert lines.take_unread() == []
        os.close(terminal)

    async def test_a_hangup_ends_the_lines_though_the_terminal_was_detached_before(self) -> None:
        master, terminal = pty.openpty()
        os.write(master, b"first\n")
        lines = TypedLines(terminal).read()
        assert await anext(lines) == TypedLine("first")
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, terminal)  # as `detach_terminal` does to 0, 1 and 2 when a write met the hangup first
        os.close(master)
        async with asyncio.timeout(PATIENCE_S):
            assert [line async for line in lines] == []
        os.close(terminal)
        os.close(null)

    async def test_a_terminal_that_was_closed_before_the_first_line_ends_the_lines(self) -> None:
        null = os.open(os.devnull, os.O_RDWR)  # what `detach_terminal` puts in its place
        assert [line async for line in TypedLines(null).read()] == []
        os.close(null)


class TestRows:
    async def test_details_show_the_error_and_its_hint(self, swarm: FakeSwarm) -> None:
        view = replace(
            await swarm.mysis("alpha"),
            state=MysisState.ERRORED,
            state_reason="provider",
            failure=Failure("ProviderError", "No key", "401 from x", "Set one."),
            context_used=10,
            context_limit=100,
            text="hello",
        )
        text = details(view)
        assert "error     No key: 401 from x\n          since " in text
        assert "next      Zoea does not try again by itself\ndo        Set one." in text
        assert "context   10 of 100" in text
        assert table([view]).endswith("No key")

    async def test_no_line_of_the_table_is_wider_than_the_terminal(
        self, swarm: FakeSwarm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        view = replace(await swarm.mysis("alpha"), text="word " * 80)
        assert table([view]).splitlines()[1].endswith("word…"), "a pipe gets what it always got"
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        for columns in (90, 200):
            monkeypatch.setenv("COLUMNS", str(columns))
            assert max(map(len, table([view]).splitlines())) == columns

    async def test_the_autopilot_is_shown_as_having_no_model(self, swarm: FakeSwarm) -> None:
        view = await swarm.mysis("alpha")
        assert provider_label(replace(view, provider="autopilot", model="autopilot")) == "autopilot (no model)"
        assert provider_label(view) == "scripted/script"
        assert provider_label(replace(view, model="")) == "scripted"

    async def test_an_external_agent_is_named_in_place_of_its_provider(self, swarm: FakeSwarm) -> None:
        view = replace(await swarm.mysis("alpha"), agent="open\x1bcode")
        assert provider_label(view) == "open\\u001bcode (agent)"
        assert "scripted" not in table([view])

    def test_a_long_text_is_cut_to_one_line(self) -> None:
        assert one_line("a\n b\t c") == "a b c"
        assert one_line("x" * 100, 10) == "x" * 9 + "…"


class FlakySwarm(FakeSwarm):
    """A swarm with events that cannot be read at first."""

    failures = 2

    async def events(self, after: int = 0) -> AsyncGenerator[Event | Lagged, None]:
        if self.failures:
            self.failures -= 1
            raise StoreError("unable to open database file")
        async for item in super().events(after):
            yield item


async def test_events_that_cannot_be_read_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_fronts, "READ_AGAIN_S", 0.0)
    swarm = FlakySwarm()
    await swarm.create("alpha")
    async with asyncio.timeout(PATIENCE_S):
        first = await anext(events_without_gaps(swarm, 0))
    assert first.id == 1
    assert swarm.failures == 0
