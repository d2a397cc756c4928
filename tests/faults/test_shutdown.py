"""Shutdown takes ten seconds at most with any part hanging. Open turns can be resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.fakes import mcp_faulty
from tests.faults import database_checker
from tests.faults.hanging_parts import HangingProvider, Stubbornness
from tests.swarm.harness import HandIds, OneProvider
from zoea.model.request import Answer, AnswerCall, CallMeta, Catalogue, ToolResult, ToolSpec
from zoea.process.clock import SystemClock
from zoea.runtime.compose import SWARM_CLOSE_S
from zoea.settings.schema import Settings
from zoea.settings.template_library import Templates
from zoea.store.database_file import open_reader
from zoea.store.store import Store
from zoea.swarm.commander import Commander
from zoea.swarm.swarm import Swarm
from zoea.swarm.turn.driver import CANCEL_WITHIN_S

ROOT = Path(__file__).parents[2]
WITHIN_S = 10.0
ONE_WAIT_S = 2 * CANCEL_WITHIN_S
"""Hanging parts are waited for in parallel; the rest is for a busy machine."""
assert CANCEL_WITHIN_S < SWARM_CLOSE_S, "a swarm with something stubborn in it has its share of the ten seconds"


class StubbornTools:
    """A `ToolFactory` and `ToolSession` with one tool that does not let itself be cancelled."""

    def __init__(self) -> None:
        self.stubborn = Stubbornness()

    def session(self, mysis_id: int, mysis: str, template: str, *, uid: str = "") -> StubbornTools:
        return self

    def forget(self, uid: str) -> None:
        """Do nothing."""

    async def catalogue(self) -> Catalogue:
        return Catalogue((ToolSpec("hang", "Hangs.", {"type": "object"}),), "hash")

    async def call(self, call: AnswerCall, *, meta: CallMeta) -> ToolResult:
        await self.stubborn.stand()
        return ToolResult("late")

    async def conceal_answer(self, answer: Answer) -> Answer:
        return answer

    async def conceal_partial(self, answer: Answer) -> Answer:
        return answer

    async def stream_mask(self) -> Callable[[str], str]:
        return str

    def own_tools(self) -> tuple[ToolSpec, ...]:
        return ()

    def stored_arguments(self, call: AnswerCall) -> str:
        return call.arguments

    async def close(self) -> None:
        return None


async def test_a_swarm_closes_in_time_though_models_and_tools_ignore_it(tmp_path: Path) -> None:
    path = tmp_path / "zoea.db"
    clock = SystemClock()
    store = await Store.open(path, clock_now=clock.now)
    provider, tools = HangingProvider(), StubbornTools()
    commander = await Commander.open(
        Swarm(
            store=store,
            clock=clock,
            ids=HandIds(),
            settings=Settings(),
            templates=Templates(),
            providers=OneProvider(provider),
            tools=tools,
            on_shutdown=lambda: None,
        )
    )
    for name, model in (("mute", "mute"), ("stubborn", "stubborn"), ("tool", "tool:hang")):
        await commander.create(name, model=model, start=False)
        await commander.send(name, "go")
    await provider.stubborn.met.wait()
    await tools.stubborn.met.wait()
    begun = time.monotonic()
    await commander.close()
    assert time.monotonic() - begun < ONE_WAIT_S
    await store.close()
    provider.stubborn.relent()
    tools.stubborn.relent()
    database_checker.always(path)
    database_checker.after_start(path)
    with closing(open_reader(path)) as connection:
        broken_off = connection.execute("SELECT count(*) FROM turn WHERE broke_off = 'crashed'").fetchone()[0]
        partial = [row["content"] for row in connection.execute("SELECT content FROM memory WHERE partial = 1")]
        call = connection.execute("SELECT state FROM tool_call").fetchone()["state"]
    assert broken_off == 3
    assert partial == ["half a thou"]
    assert call == "sent"


async def test_a_stop_is_carried_out_though_the_tool_ignores_it(tmp_path: Path) -> None:
    clock = SystemClock()
    store = await Store.open(tmp_path / "zoea.db", clock_now=clock.now)
    tools = StubbornTools()
    commander = await Commander.open(
        Swarm(
            store=store,
            clock=clock,
            ids=HandIds(),
            settings=Settings(),
            templates=Templates(),
            providers=OneProvider(HangingProvider()),
            tools=tools,
            on_shutdown=lambda: None,
        )
    )
    await commander.create("alpha", model="tool:hang", start=False)
    await commander.send("alpha", "go")
    await tools.stubborn.met.wait()
    begun = time.monotonic()
    await commander.stop("alpha")
    took = time.monotonic() - begun
    results = await store.read("SELECT content FROM memory WHERE role = 'tool'")
    tools.stubborn.relent()  # before anything can fail: the loop waits for it at its end
    assert took < ONE_WAIT_S
    (row,) = results
    assert row["content"].startswith("cancelled")
    await commander.close()
    await store.close()
    database_checker.at_rest(tmp_path / "zoea.db")


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A directory with a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="zoea-") as folder:
        yield Path(folder)


@pytest.mark.usefixtures("forked_programs")
def test_the_process_of_a_swarm_ends_in_time_though_everything_in_it_hangs(tmp_path: Path, runtime: Path) -> None:
    data, config = tmp_path / "data", tmp_path / "config"
    config.mkdir()
    (config / "config.toml").write_text(
        f'[upstream.deaf]\ncommand = "{sys.executable}"\nargs = ["{mcp_faulty.__file__}"]\n'
        '[upstream.deaf.env]\nFAULTY_MODE = "deaf"\n'
    )
    command = [sys.executable, "-m", "tests.faults.hanging_parts", str(data), str(config), str(runtime)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = process.stdout.readline()
        assert said == b"busy\n", process.stderr.read().decode()
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, trouble = process.communicate(timeout=30)
        assert time.monotonic() - begun < WITHIN_S, trouble.decode()
    database_checker.always(data / "zoea.db")
    with closing(open_reader(data / "zoea.db")) as connection:
        assert connection.execute("SELECT count(*) FROM turn WHERE outcome IS NULL").fetchone()[0] == 3
        assert connection.execute("SELECT count(*) FROM turn WHERE broke_off = 'crashed'").fetchone()[0] == 3
