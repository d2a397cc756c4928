"""`zoea run`: its options, owning, attaching and ending."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from typing import Any

import pytest
from msgspec.structs import replace

from tests.case_tables import walk_cases
from tests.cli.conftest import Zoea
from tests.fakes.owner import OwnerThread
from tests.fakes.swarm import FakeSwarm
from zoea.cli import run_session
from zoea.cli.commands import run as run_command
from zoea.cli.dispatch import dispatch, load
from zoea.cli.typed_commands import ExitChoice
from zoea.model.errors import UsageError
from zoea.model.values import SwarmView
from zoea.runtime.run_options import RunOptions, leave_running, parse_duration
from zoea.settings.paths import Places, places


@pytest.fixture
def fake_swarm(owned_swarm: FakeSwarm, monkeypatch: pytest.MonkeyPatch) -> FakeSwarm:
    """The swarm that a run owns; all of its events are new to the run."""
    view = owned_swarm.view

    async def view_from_start() -> SwarmView:
        return replace(await view(), event_id=0)

    monkeypatch.setattr(owned_swarm, "view", view_from_start)
    return owned_swarm


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@walk_cases(
    ("text", "seconds"), [("60s", 60.0), ("500ms", 0.5), ("10m", 600.0), ("2h", 7200.0), ("5", 5.0), (" 1.5 S ", 1.5)]
)
def test_a_duration_is_read_with_its_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@walk_cases("text", ["", "0s", "-5s", "soon", "1d", "1e9s", "9999999999999h"])
def test_a_wrong_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize("more", [(), ("--myses", "1")])
def test_an_unknown_template_is_refused_before_the_swarm_opens(zoea: Zoea, more: tuple[str, ...]) -> None:
    refused = zoea("run", "--headless", "--for", "500ms", "--template", "minr", *more)
    assert refused.err.startswith("No such template: there is no template 'minr'; did you mean miner?\n")
    assert not places("").database.exists()


def parse(line: str) -> dict[str, Any] | None:
    """The values of a command line of `zoea run`."""
    command, _ = load(["run"])
    values: dict[str, Any] | None = command.line.parse(line.split())
    return values


class TestOptions:
    @walk_cases(
        ("line", "options"),
        [
            ("", RunOptions()),
            ("--world reef --myses 5", RunOptions(world="reef", myses=5)),
            ("--world=reef --myses=5 --myses 6", RunOptions(world="reef", myses=6)),
            ("--no-animation", RunOptions(calm=True)),
            ("-w other --start-swarm", RunOptions(workspace="other", start_swarm=True)),
            ("-wother --plain --go-on", RunOptions(workspace="other", plain=True, go_on=True)),
            ("--headless --json --for 2m --turns 3", RunOptions(headless=True, as_json=True, seconds=120.0, turns=3)),
            ("--template t --provider p --model m", RunOptions(template="t", provider="p", model="m")),
            ("--model --plain", RunOptions(model="--plain")),
        ],
    )
    def test_a_line_is_read_as_options(self, line: str, options: RunOptions) -> None:
        assert RunOptions(**(parse(line) or {})) == options

    @walk_cases(
        ("line", "error"),
        [
            ("--myses -1", "--myses -1 is out of range"),
            ("--myses 2001", "--myses 2001 is out of range"),
            ("--myses five", "--myses 'five' is not a whole number"),
            ("--myses", "--myses needs a value: --myses N"),
            ("--turns 0", "--turns 0 is out of range"),
            ("--world venus", "there is no world 'venus'"),
            ("--plain=yes", "--plain takes no value"),
            ("--hedless", "there is no option --hedless; did you mean --headless?"),
            ("-x", "there is no option -x"),
            ("x", "there is no argument 'x'"),
        ],
    )
    def test_a_wrong_line_is_refused_with_the_reason(self, line: str, error: str) -> None:
        with pytest.raises(UsageError, match=re.escape(error)):
            parse(line)

    def test_the_help_names_every_option(self, zoea: Zoea) -> None:
        helped = zoea("run", "--headless", "--help")
        assert helped.code == 0
        assert all(name in helped.out for name in ("--myses N", "-w, --workspace NAME", "--no-animation", "--help"))
        assert max(map(len, helped.out.splitlines())) < 80

    def test_the_cockpit_opens_only_in_a_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        opened: list[RunOptions] = []

        def show(options: RunOptions, where: Places) -> int:
            opened.append(options)
            return 7

        async def run_without_screen(_options: RunOptions, _where: Places) -> int:
            return 0

        monkeypatch.setattr(run_session, "run_owned_swarm", run_without_screen)
        for name in ("stdin", "stdout", "stderr"):
            monkeypatch.setattr(f"sys.{name}.isatty", lambda: True)
        monkeypatch.setattr(run_command, "open_screen", None)
        assert dispatch(["run"]) == 0
        monkeypatch.setattr(run_command, "open_screen", show)
        assert dispatch(["run", "--myses", "2"]) == 7
        assert dispatch(["run", "--json"]) == 0
        monkeypatch.setattr("sys.stdout.isatty", lambda: False)
        assert dispatch(["run"]) == 0
        assert opened == [RunOptions(myses=2)]


class TestOwning:
    def test_missing_myses_are_created_and_started(self, zoea: Zoea, fake_swarm: FakeSwarm) -> None:
        asyncio.run(fake_swarm.create("alpha", start=False))
        ran = zoea("run", "--headless", "--json", "--myses", "3", "--provider", "autopilot", "--for", "50ms")
        assert ran.code == 0, ran.err
        last = lines(ran.out)[-1]
        assert last["event"] == "summary"
        assert [row["name"] for row in last["myses"]] == ["alpha", "mysis-2", "mysis-3"]
        assert {row["credits_earned"] for row in last["myses"]} == {None}
        view = asyncio.run(fake_swarm.view())
        assert {mysis.state.value for mysis in view.myses} == {"running"}
        assert [mysis.provider for mysis in view.myses] == ["scripted", "autopilot", "autopilot"]

    def test_no_mysis_is_created_when_there_are_enough(self, zoea: Zoea, fake_swarm: FakeSwarm) -> None:
        asyncio.run(fake_swarm.create("alpha", start=False))
        zoea("run", "--plain", "--myses", "1", "--for", "50ms")
        view = asyncio.run(fake_swarm.view())
        assert [(mysis.name, mysis.state.value) for mysis in view.myses] == [("alpha", "idle")]

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ("--provider ollama", "--provider ollama applies to new myses only, and none was made: the one here keeps"),
            ("--myses 1 --provider ollama --model qwen", "--provider ollama and --model qwen apply to new myses only"),
            ("--template default --provider ollama --model qwen", "--template default, --provider ollama and --model"),
            ("--myses 1", ""),
            ("--myses 2 --provider autopilot", ""),
        ],
    )
    def test_options_for_new_myses_that_change_nothing_are_named(
        self, zoea: Zoea, fake_swarm: FakeSwarm, options: str, said: str
    ) -> None:
        asyncio.run(fake_swarm.create("alpha", start=False))
        ran = zoea("run", "--plain", *options.split(), "--for", "50ms")
        assert ran.code == 0
        assert said in ran.err if said else not ran.err

    def test_go_on_starts_only_the_myses_that_ran(self, zoea: Zoea, fake_swarm: FakeSwarm) -> None:
        for name in ("alpha", "beta"):
            asyncio.run(fake_swarm.create(name, start=False))
        fake_swarm.left_running = {1}
        assert zoea("run", "--headless", "--go-on", "--for", "50ms").code == 0
        view = asyncio.run(fake_swarm.view())
        assert [mysis.state.value for mysis in view.myses] == ["running", "idle"]

    @pytest.mark.parametrize(
        ("name", "value", "state"),
        [("RESTART", "always", "running"), ("RESTART", "ask", "idle"), ("RESTART", "never", "idle")],
    )
    def test_the_settings_say_whether_those_that_ran_run_again(
        self, zoea: Zoea, fake_swarm: FakeSwarm, monkeypatch: pytest.MonkeyPatch, name: str, value: str, state: str
    ) -> None:
        asyncio.run(fake_swarm.create("alpha", start=False))
        asyncio.run(fake_swarm.create("beta", start=False))
        fake_swarm.left_running = {1}
        monkeypatch.setenv(f"ZOEA_SWARM__{name}", value)
        assert zoea("run", "--json", "--for", "50ms").code == 0
        assert [mysis.state.value for mysis in asyncio.run(fake_swarm.view()).myses] == [state, "idle"]

    def test_new_myses_in_the_world_are_miners_by_default(self, zoea: Zoea, fake_swarm: FakeSwarm) -> None:
        zoea("run", "--headless", "--world", "reef", "--myses", "1", "--for", "50ms")
        zoea("run", "--headless", "--world", "reef", "--myses", "2", "--template", "trader", "--for", "50ms")
        assert [mysis.template for mysis in asyncio.run(fake_swarm.view()).myses] == ["miner", "trader"]

    def test_a_world_without_payments_counts_as_zero_credits(self, zoea: Zoea, fake_swarm: FakeSwarm) -> None:
        ran = zoea("run", "--headless", "--json", "--world", "reef", "--myses", "1", "--for", "50ms")
        assert lines(ran.out)[-1]["myses"][0]["credits_earned"] == 0

    def test_a_run_ends_after_the_given_turns(self, zoea: Zoea, fake_swarm: FakeSwarm) -> None:
        asyncio.run(fake_swarm.create("alpha"))
        asyncio.run(fake_swarm.send("alpha", "one"))
        asyncio.run(fake_swarm.send("alpha", "two"))
        ran = zoea("run", "--json", "--turns", "2")
        assert (ran.code, lines(ran.out)[-1]["myses"][0]["turns"]) == (0, 2)

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_ends_the_run(
        self, zoea: Zoea, fake_swarm: FakeSwarm, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
    ) -> None:
        real = fake_swarm.start_all

        async def started(**_: bool) -> int:
            signal.raise_signal(number)
            return await real()

        monkeypatch.setattr(fake_swarm, "start_all", started)
        assert zoea("run", "--headless").code == 0

    def test_a_shutdown_of_the_swarm_ends_the_run(
        self, zoea: Zoea, fake_swarm: FakeSwarm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def started(**_: bool) -> int:
            await fake_swarm.shutdown()
            return 0

        monkeypatch.setattr(fake_swarm, "start_all", started)
        assert zoea("run", "--headless").code == 0

    def test_an_error_of_the_front_ends_the_run(
        self, zoea: Zoea, fake_swarm: FakeSwarm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def broken(_line: str) -> None:
            raise UsageError("the front broke")

        asyncio.run(fake_swarm.create("alpha"))
        monkeypatch.setattr("zoea.cli.plain_fronts.write_line", broken)
        assert zoea("run", "--headless", "--json").code == 2

    def test_leaving_hands_the_swarm_to_a_process_without_a_terminal(
        self, zoea: Zoea, fake_swarm: FakeSwarm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        started: list[list[str]] = []

        async def leave(*_: object, **__: object) -> ExitChoice:
            return ExitChoice.LEAVE

        monkeypatch.setattr(run_session, "read_commands", leave)
        monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        assert "runs on without a screen" in zoea("run", "--world", "reef").out
        assert started[0][1:] == ["-P", "-m", "zoea", "run", "--headless", "--go-on", "--world", "reef"]

    def test_plain_and_json_exclude_each_other(self, zoea: Zoea) -> None:
        assert zoea("run", "--plain", "--json").code == 2
        assert zoea("run", "--world", "atlantis").code == 2
        assert zoea("run", "--myses", "5000").code == 2


class TestAttaching:
    def test_an_attached_run_leaves_the_swarm_running(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        other_owner.do(other_owner.swarm.create("alpha"))
        ran = zoea("run", "--plain", "--for", "50ms")
        assert ran.code == 0
        assert "Attached to the swarm of process" in ran.out
        assert other_owner.swarm.shutdowns == 0

    def test_an_attached_run_can_add_myses(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        ran = zoea("run", "--json", "--myses", "2", "--world", "reef", "--for", "50ms")
        assert len(other_owner.do(other_owner.swarm.view()).myses) == 2
        last = json.loads(ran.out.splitlines()[-1])
        assert (last["event"], len(last["myses"])) == ("summary", 2), "the last line is the summary here as well"
        assert "--world has no effect" in ran.err

    def test_a_headless_run_does_not_attach(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        ran = zoea("run", "--headless")
        assert ran.code == 5
        assert "Another Zoea holds this workspace" in ran.err

    def test_an_attached_run_reports_the_end_of_the_swarm(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        async def end_soon() -> None:
            asyncio.get_running_loop().call_later(0.3, other_owner.swarm.on_shutdown)

        other_owner.do(end_soon())
        ran = zoea("run", "--plain", "--for", "20s")
        assert ran.code == 0
        assert "The running swarm has ended" in ran.out


def test_a_run_that_lost_the_lock_attaches_and_starts_its_myses(zoea: Zoea, other_owner: OwnerThread) -> None:
    for name in ("alpha", "beta"):
        zoea("new", name, "--idle")
    other_owner.swarm.left_running.add(1)
    asyncio.run(leave_running(RunOptions(), places()))
    assert [row["state"] for row in zoea("list", "--json").json] == ["running", "idle"]
