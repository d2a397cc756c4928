"""A chaos run: a real swarm under every fault at once, then peace, in which nothing may be lost or stuck.

`python -m tests.faults.chaos --seconds 1800 --seed 7` starts `zoea` over model servers of all three wires and five
upstreams. In each round a war draws faults at random: of models, upstreams and what they send, clock, disk,
descriptors, keys, and kills of the owner, the world and children. People answer approvals and publish on a topic
meanwhile. Then comes peace, at the end of which the invariants are checked. The same seed draws the same faults, at
times that the machine decides.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.chaos_models import ChaosAnthropic, ChaosOllama, ChaosOpenAI, ChaosPlan
from tests.fakes.processes import count_descriptors
from tests.faults import database_checker
from zoea.ipc.remote_swarm import RemoteSwarm
from zoea.model.enums import ApprovalAnswer, DeliveryMode, MysisState
from zoea.model.errors import StateRefused, ZoeaError
from zoea.model.values import MysisView
from zoea.runtime.run_options import attach
from zoea.settings.paths import Places, places

ROOT = Path(__file__).parents[2]
PEACE_S = 60.0
"""How long a swarm may take until nothing is left to do; a machine with other work is slow."""
JUMPS = (1, -1, 3600, -3600, 86_400, -86_400, 400 * 86_400)
SUSPENDED_S = 60.0
"""A long suspension: in short runs both clocks jump by it, in long ones the owner is also stopped for it."""
LONG_RUN_S = 600.0
MODES = (DeliveryMode.QUEUE, DeliveryMode.QUEUE, DeliveryMode.STEER, DeliveryMode.INTERRUPT)
ANSWERS = (ApprovalAnswer.ONCE, ApprovalAnswer.ONCE, ApprovalAnswer.DENIED)
TOPIC = "NEWS"
"""The topic to which every fourth mysis subscribes."""
KEYS = {"OPENAI_CHAOS_KEY": "sk-chaos-one", "ANTHROPIC_CHAOS_KEY": "sk-chaos-two"}
# Times of one row may be of different clocks here, so promises that compare them say nothing.
UNTIMED = {promise: sql for promise, sql in database_checker.ALWAYS.items() if not re.search(r"_at [<>]=? ", sql)}
AT_REST = {promise: sql for promise, sql in database_checker.AT_REST.items() if not re.search(r"_at [<>]=? ", sql)}

CONFIG = """
[swarm]
max_myses = 200
default_provider = "one"
[llm]
timeout = 5
between_tokens = 3
[tool]
timeout = 3
[turn]
timeout = 20
max_iterations = 6
[nudge]
enabled = false
[recovery]
delays = [1, 2, 4]
[budget]
swarm_per_day = "none"
token_budget_per_task = 200000
[world]
tick = 1
[provider.one]
type = "openai"
base_url = "{openai}/v1"
api_key = "env:OPENAI_CHAOS_KEY"
model = "reef-1"
context_window = 65536
[provider.two]
type = "anthropic"
base_url = "{anthropic}"
api_key = "env:ANTHROPIC_CHAOS_KEY"
model = "claude-reef-1"
context_window = 65536
[provider.three]
type = "ollama"
base_url = "{ollama}"
model = "reef:1b"
context_window = 65536
[upstream.first]
command = "{python}"
args = ["{faulty}"]
[upstream.second]
command = "{python}"
args = ["{faulty}"]
env = {{ FAULTY_MODE = "pages" }}
[upstream.third]
command = "{python}"
args = ["{faulty}"]
env = {{ FAULTY_MODE = "slow" }}
[upstream.fourth]
url = "http://127.0.0.1:{port}/mcp"
"""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What the owner holds: memory in MB, open descriptors, threads, and files of its data directory."""

    memory: int
    descriptors: int
    threads: int
    files: int

    def check_within(self, base: Footprint) -> None:
        assert self.memory <= base.memory * 1.3 + 64, f"memory grew from {base.memory} to {self.memory} MB"
        assert self.descriptors <= base.descriptors + 48, f"{base.descriptors} descriptors became {self.descriptors}"
        assert self.threads <= base.threads + 16, f"{base.threads} threads became {self.threads}"
        assert self.files <= base.files + 16, f"{base.files} files became {self.files}"


@dataclass(slots=True)
class ChaosRound:
    """One line of the table."""

    number: int
    messages: int
    kills: int
    footprint: Footprint
    settled_s: float

    def line(self) -> str:
        seen = self.footprint
        return (
            f"{self.number:5d} {self.messages:9d} {self.kills:6d} {self.settled_s:9.1f} {seen.memory:10d}"
            f" {seen.descriptors:12d} {seen.threads:8d} {seen.files:6d}"
        )


HEAD = "round  messages  kills  settled s  memory MB  descriptors  threads  files"


@dataclass(slots=True)
class ChaosRun:
    """The processes of a run and what was acknowledged."""

    chance: random.Random
    plan: ChaosPlan
    servers: tuple[ChaosOpenAI, ChaosAnthropic, ChaosOllama]
    control: Path
    log: Path
    myses: int
    http_port: int
    where: Places = field(default_factory=places)
    owner: subprocess.Popen[bytes] | None = None
    http: subprocess.Popen[bytes] | None = None
    swarm: RemoteSwarm | None = None
    has_time: bool = False
    """Whether the run is long enough for a suspension of `SUSPENDED_S`."""
    clock_s: float = 0.0
    slept_s: float = 0.0
    sent: dict[str, int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    drawn: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    base: Footprint | None = None

    # Processes.

    def start_http(self) -> None:
        command = [sys.executable, "-m", "tests.fakes.mcp_http", str(self.http_port)]
        self.http = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    async def start_owner(self) -> None:
        self.spawn_owner()
        await self.reach()

    def spawn_owner(self) -> None:
        arguments = ("run", "--headless", "--world", "reef", "--myses", "0")
        with self.log.open("ab") as log:
            self.owner = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.chaos_owner", str(self.control), *arguments],
                cwd=ROOT,
                env={**os.environ, **KEYS, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def check_owner(self) -> None:
        assert self.owner is not None
        code = self.owner.poll()
        assert code is None, f"the owner ended by itself with {code}: {self.tail()}"

    async def reach(self) -> None:
        """Connect to the owner that was started."""
        async with asyncio.timeout(PEACE_S):
            while True:
                self.check_owner()
                with suppress(ZoeaError, OSError):
                    if self.swarm is not None:
                        await self.swarm.close()
                    self.swarm = await attach(self.where)
                    return
                await asyncio.sleep(0.1)

    def tail(self, characters: int = 2_000) -> str:
        return self.log.read_text(errors="replace")[-characters:]

    async def kill_owner(self) -> None:
        assert self.owner is not None
        self.kills += 1
        self.owner.kill()
        await asyncio.to_thread(self.owner.wait)
        await self.start_owner()

    async def stop_owner(self) -> None:
        """End the owner in order, as a person does."""
        assert self.owner is not None
        self.owner.terminate()
        code = await asyncio.to_thread(self.owner.wait, 30)
        assert code == 0, f"it ended with {code}: {self.tail()}"
        if self.swarm is not None:
            await self.swarm.close()
            self.swarm = None

    def children(self, mark: str) -> list[int]:
        """Processes that the owner started, with this text in their command lines."""
        assert self.owner is not None
        return [pid for pid in descendants(self.owner.pid) if mark in command_line(pid)]

    # Faults. Each ends with what it changed as it was.

    async def kill_world(self) -> None:
        self.kill(self.children("zoea.world"))

    async def kill_child(self) -> None:
        self.kill(self.children("mcp_faulty"))

    def kill(self, pids: list[int]) -> None:
        if pids:
            self.kills += 1
            with suppress(ProcessLookupError):
                os.kill(self.chance.choice(pids), signal.SIGKILL)

    async def flood(self) -> None:
        """Let an upstream send far more than its session may."""
        if pids := self.children("mcp_faulty"):
            with suppress(ProcessLookupError):
                os.kill(self.chance.choice(pids), signal.SIGUSR1)

    async def kill_http(self) -> None:
        assert self.http is not None
        self.kills += 1
        self.http.kill()
        await asyncio.to_thread(self.http.wait)
        await asyncio.sleep(self.chance.uniform(0, 2))
        self.start_http()

    async def set_clock(self) -> None:
        self.clock_s += self.chance.choice(JUMPS)
        self.write_control()

    async def suspend(self) -> None:
        assert self.owner is not None
        is_long = self.has_time and self.chance.random() < 0.25
        self.owner.send_signal(signal.SIGSTOP)
        await asyncio.sleep(SUSPENDED_S if is_long else self.chance.uniform(0.5, 3))
        self.owner.send_signal(signal.SIGCONT)

    async def sleep_machine(self) -> None:
        """Let both clocks of the owner go on at once, as a suspended machine's do."""
        self.slept_s += self.chance.choice((SUSPENDED_S, 3_600.0))
        self.write_control()

    async def fill_disk(self) -> None:
        """Limit each file of the owner to about the size that its database has."""
        size = self.where.database.stat().st_size
        await self.limited(resource.RLIMIT_FSIZE, max(4096, size // 2))

    async def close_descriptors(self) -> None:
        assert self.owner is not None
        await self.limited(resource.RLIMIT_NOFILE, count_descriptors(self.owner.pid))

    async def limited(self, kind: int, limit: int) -> None:
        assert self.owner is not None
        pid = self.owner.pid
        before = resource.prlimit(pid, kind)
        resource.prlimit(pid, kind, (limit, before[1]))
        await asyncio.sleep(self.chance.uniform(0.5, 3))
        resource.prlimit(pid, kind, before)

    async def cut_connections(self) -> None:
        """Let the owner lose its connections to model servers and upstreams in use."""
        assert self.owner is not None
        self.owner.send_signal(signal.SIGUSR2)

    async def slow_disk(self) -> None:
        self.write_control(disk=self.chance.uniform(0.02, 0.3))
        await asyncio.sleep(self.chance.uniform(1, 3))
        self.write_control()

    async def revoke_keys(self) -> None:
        openai, anthropic, _ = self.servers
        openai.key, anthropic.key = "sk-another", "sk-another"
        await asyncio.sleep(self.chance.uniform(0.5, 2))
        openai.key, anthropic.key = KEYS["OPENAI_CHAOS_KEY"], KEYS["ANTHROPIC_CHAOS_KEY"]

    def write_control(self, *, disk: float = 0.0) -> None:
        new = self.control.with_suffix(".new")
        new.write_text(json.dumps({"clock": self.clock_s, "slept": self.slept_s, "disk": disk}))
        new.replace(self.control)

    # What people do.

    async def act(self) -> None:
        """Command the swarm at random; what is acknowledged is remembered."""
        assert self.swarm is not None
        name, key = self.chance.choice(self.names), f"chaos-{self.chance.randrange(10**12)}"
        try:
            actions = {"send": 80, "answer": 20, "broadcast": 2, "publish": 4, "stop": 6, "start": 10, "hold": 2}
            match self.chance.choices(list(actions), list(actions.values()))[0]:
                case "send":
                    mode = self.chance.choice(MODES)
                    receipt = await self.swarm.send(name, f"Go on {key}", mode=mode, idempotency_key=key)
                    self.sent[key] = receipt.message_id
                case "broadcast":
                    receipt = await self.swarm.broadcast(f"All go on {key}", idempotency_key=key)
                    self.sent[key] = receipt.message_id
                case "answer":
                    for asked in (await self.swarm.approvals())[:10]:
                        await self.swarm.answer(asked.id, self.chance.choice(ANSWERS))
                case "publish":
                    await self.swarm.publish(TOPIC, f"News {key}", idempotency_key=key)
                case "stop":
                    await self.swarm.stop(name)
                case "start":
                    await self.swarm.start(name)
                case "hold":
                    await self.swarm.hold(True)
                    await asyncio.sleep(self.chance.uniform(0, 1))
                    await self.swarm.hold(False)
        except (ZoeaError, OSError):
            """Refused, or the owner was killed: nothing was acknowledged."""

    async def people(self, ended: asyncio.Event) -> None:
        """Command the swarm until the end. A command under way is finished, because the owner finishes it too."""
        while not ended.is_set():
            await self.act()
            await asyncio.sleep(self.chance.uniform(0.02, 0.3))

    # The two parts of a round.

    async def war(self, seconds: float) -> None:
        self.plan.faults = 0.3
        faults: dict[Callable[[], Awaitable[None]], int] = {
            self.kill_child: 4,
            self.kill_world: 2,
            self.kill_http: 2,
            self.flood: 2,
            self.set_clock: 4,
            self.suspend: 2,
            self.sleep_machine: 2,
            self.fill_disk: 2,
            self.slow_disk: 2,
            self.close_descriptors: 2,
            self.cut_connections: 2,
            self.revoke_keys: 2,
            self.kill_owner: 2,
        }
        until = time.monotonic() + seconds
        ended = asyncio.Event()
        acting = [asyncio.create_task(self.people(ended)) for _ in range(2)]
        try:
            while time.monotonic() < until:
                await asyncio.sleep(self.chance.uniform(0.2, 1.5))
                fault = self.chance.choices(list(faults), list(faults.values()))[0]
                self.drawn[fault.__name__] += 1
                try:
                    await fault()
                except ProcessLookupError:
                    self.check_owner()
                    raise
        finally:
            ended.set()
            await asyncio.wait(acting, timeout=PEACE_S)
            for task in acting:
                task.cancel()

    async def peace(self, number: int) -> ChaosRound:
        """End all faults, wait until nothing is left to do, and check every invariant."""
        self.plan.faults = 0.0
        self.write_control()
        began = time.monotonic()
        await self.reach()
        assert self.swarm is not None
        await self.relaunch()
        await self.settled()
        await self.probe(number)
        took = time.monotonic() - began
        await asyncio.to_thread(self.check_database)
        assert self.owner is not None
        seen = footprint(self.owner.pid, self.where.data)
        if self.base is None:
            self.base = seen
        seen.check_within(self.base)
        return ChaosRound(number, len(self.sent), self.kills, seen, took)

    async def relaunch(self) -> None:
        """Do what a person does after an outage: lift holds, start again what says why it stands."""
        assert self.swarm is not None
        async with asyncio.timeout(PEACE_S):
            while (await self.swarm.view()).held:
                with suppress(ZoeaError):
                    await self.swarm.hold(False)
                await asyncio.sleep(0.2)
        for view in (await self.swarm.view()).myses:
            if view.state in (MysisState.STOPPED, MysisState.ERRORED):
                assert view.state_reason or view.failure is not None, f"{view.name} does not say why it stands"
            if view.state is not MysisState.RUNNING:
                with suppress(StateRefused):  # it began to recover in this moment
                    await self.swarm.start(view.name)

    async def probe(self, number: int) -> None:
        """Ask every mysis something, which each one answers, or says why it does not."""
        assert self.swarm is not None
        key = f"probe-{number}"
        self.sent[key] = (await self.swarm.broadcast(f"Report {key}", idempotency_key=key)).message_id
        await self.settled()
        lines = (await self.swarm.receipt(self.sent[key])).lines
        assert len(lines) == self.myses, f"{key} tells of {len(lines)} of {self.myses} myses"
        silent = [line for line in lines if line.status != "answered" and not line.reason]
        if silent:
            names = {line.mysis for line in silent}
            stand = [describe(view) for view in (await self.swarm.view()).myses if view.name in names]
            raise AssertionError(
                f"{key} was neither answered nor refused by {len(silent)}: {silent[:5]}\n"
                f"{'; '.join(stand[:10])}\n{self.tail(20_000)}"
            )

    async def settled(self) -> None:
        """Wait until every mysis rests, or says why not, and nothing happens for a while."""
        assert self.swarm is not None
        busy, newest, view = ["it was not looked at"], -1, await self.swarm.view()
        try:
            async with asyncio.timeout(PEACE_S):
                while True:
                    for question in await self.swarm.approvals():
                        with suppress(ZoeaError):
                            await self.swarm.answer(question.id, ApprovalAnswer.DENIED)
                    view = await self.swarm.view()
                    busy = [describe(one) for one in view.myses if is_busy(one)]
                    if not busy and view.event_id == newest:
                        return
                    newest = view.event_id
                    await asyncio.sleep(0.7)
        except TimeoutError:
            assert self.owner is not None
            self.owner.send_signal(signal.SIGUSR1)
            await asyncio.sleep(1)
            held = f"held: {view.hold_reason}; " if view.held else ""
            what = f"after {PEACE_S:g} s of peace: {held}{'; '.join(busy[:10])}"
            raise AssertionError(f"{what}\n{self.tail(20_000)}") from None

    def check_database(self) -> None:
        path = self.where.database
        database_checker.check(
            path, {"the file is whole": "SELECT * FROM pragma_integrity_check WHERE integrity_check <> 'ok'"}
        )
        database_checker.check(path, {"rows name rows that are there": "SELECT * FROM pragma_foreign_key_check"})
        database_checker.check(path, UNTIMED)
        database_checker.check(path, AT_REST)
        known = ", ".join(f"({message}, '{key}')" for key, message in self.sent.items())
        if known:
            lost = f"""WITH told(id, key) AS (VALUES {known}) SELECT told.id FROM told
                LEFT JOIN message m ON m.id = told.id AND m.idempotency_key = told.key WHERE m.id IS NULL"""
            database_checker.check(path, {"an acknowledged message is stored": lost})


def is_busy(view: MysisView) -> bool:
    match view.state:
        case MysisState.STOPPED | MysisState.ERRORED:
            assert view.state_reason or view.failure is not None, f"{view.name} does not say why it stands"
            return view.retry_at is not None
        case _:
            return bool(view.in_turn or view.pending or view.queue_place or view.attempt_at)


def describe(view: MysisView) -> str:
    return f"{view.name} is {view.status} ({view.state}, {view.activity}, {view.pending} pending): {view.text[:80]!r}"


def descendants(pid: int) -> list[int]:
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found.extend(child for child, parent in parents.items() if parent == one)
    return found[1:]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def footprint(pid: int, data: Path) -> Footprint:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return Footprint(
        memory=int(status["VmRSS"].split()[0]) // 1024,
        descriptors=count_descriptors(pid),
        threads=int(status["Threads"]),
        files=sum(1 for file in data.rglob("*") if file.is_file()),
    )


@asynccontextmanager
async def open_chaos(
    folder: Path, seed: int, myses: int, http_port: int, *, has_time: bool = False
) -> AsyncIterator[ChaosRun]:
    """Start the servers and the owner; end all of them. The environment names the workspace's directories."""
    plan = ChaosPlan(seed)
    async with ChaosOpenAI(plan) as openai, ChaosAnthropic(plan) as anthropic, ChaosOllama(plan) as ollama:
        openai.key, anthropic.key = KEYS["OPENAI_CHAOS_KEY"], KEYS["ANTHROPIC_CHAOS_KEY"]
        run = ChaosRun(
            random.Random(seed),
            plan,
            (openai, anthropic, ollama),
            folder / "control.json",
            folder / "owner.log",
            myses,
            http_port,
            has_time=has_time,
        )
        run.where.config.mkdir(parents=True, exist_ok=True)
        (run.where.config / "config.toml").write_text(
            CONFIG.format(
                openai=openai.url,
                anthropic=anthropic.url,
                ollama=ollama.url,
                python=sys.executable,
                faulty=ROOT / "tests/fakes/mcp_faulty.py",
                port=http_port,
            )
        )
        templates = run.where.config / "templates"
        templates.mkdir(exist_ok=True)
        (templates / "listener.toml").write_text(f'extends = "default"\nsubscribes = ["{TOPIC}"]\n')
        run.write_control()
        try:
            run.start_http()
            await run.start_owner()
            assert run.swarm is not None
            for number in range(myses):
                template = "listener" if number % 4 == 0 else ""
                made = await run.swarm.create("", template=template, provider=("one", "two", "three")[number % 3])
                run.names.append(made.name)
            yield run
        finally:
            if run.swarm is not None:
                await run.swarm.close()
            for process in (run.owner, run.http):
                if process is not None and process.poll() is None:
                    process.kill()
                    await asyncio.to_thread(process.wait)


async def chaos(
    folder: Path, seed: int, seconds: float, *, myses: int, war_s: float, say: Callable[[str], None]
) -> None:
    """Run rounds of war and peace until the time is over. Raise AssertionError at the first broken invariant."""
    say(f"chaos: seed {seed}, {myses} myses, {seconds:g} s")
    say(HEAD)
    until, number = time.monotonic() + seconds, 0
    async with open_chaos(folder, seed, myses, free_port(), has_time=seconds >= LONG_RUN_S) as run:
        say((await run.peace(0)).line())
        while time.monotonic() < until:
            number += 1
            await run.war(min(war_s, max(5.0, until - time.monotonic())))
            say((await run.peace(number)).line())
        await run.stop_owner()
        await asyncio.to_thread(run.check_database)
        faults: dict[str, Any] = {**run.drawn, **run.plan.drawn}
        say("faults: " + ", ".join(f"{name} {count}" for name, count in sorted(faults.items())))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--myses", type=int, default=100)
    parser.add_argument("--war", type=float, default=60)
    parser.add_argument("--folder", type=Path, help="an empty directory to work in, which is kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zoea-chaos-") as folder:
        home = options.folder or Path(folder)
        for name in ("data", "config", "runtime"):
            (home / name).mkdir(mode=0o700)
        os.environ.update(
            ZOEA_DATA_DIR=str(home / "data"),
            ZOEA_CONFIG_DIR=str(home / "config"),
            XDG_RUNTIME_DIR=str(home / "runtime"),
            ZOEA_SWARM__DISCOVER="false",
            HOME=str(home),
        )
        os.chdir(home)

        def say(line: str) -> None:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

        asyncio.run(chaos(home, options.seed, options.seconds, myses=options.myses, war_s=options.war, say=say))


if __name__ == "__main__":
    main()
