"""A real swarm for tests: real store, real toolbox with an in-process MCP server, a scripted model, a clock by hand."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

from tests.fakes.llm_clock import HandClock
from tests.fakes.no_connections import NoConnections
from tests.fakes.tool_descriptions import described
from tests.waiting import until
from zoea.llm.prices import PriceList
from zoea.llm.providers.scripted import Block, Rule, ScriptedProvider
from zoea.model.enums import ErrorClass, MysisState, Role
from zoea.model.errors import ProviderError
from zoea.model.ports import Provider
from zoea.model.request import Answer, AnswerCall, ModelRequest
from zoea.model.values import Receipt
from zoea.runtime.compose import RunningSwarm
from zoea.settings.schema import Settings
from zoea.settings.template import parse_template
from zoea.settings.template_library import Templates
from zoea.store.store import Store
from zoea.swarm.commander import Commander
from zoea.swarm.mysis_commits import MysisCommits
from zoea.swarm.resolved_template import Providers
from zoea.swarm.swarm import Swarm as CoreSwarm
from zoea.tools import AccountKeeper, Toolbox, ToolPolicy, UpstreamConfig
from zoea.tools.builtin.mysis_tools import MysisTools


class HandIds:
    """Ids that count, and chance that is always the same."""

    def __init__(self, jitter: float = 0.5) -> None:
        self._count = 0
        self._jitter = jitter

    def uid(self) -> str:
        self._count += 1
        return f"uid-{self._count}"

    def jitter(self) -> float:
        return self._jitter


class OneProvider:
    """The providers of a test: one, under every name it is asked for but `missing`."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    def get(self, name: str) -> Provider:
        if name == "missing":
            raise ProviderError("there is no provider 'missing'", kind=ErrorClass.MODEL_MISSING)
        return self.provider

    def metered(self) -> dict[str, bool]:
        return {self.provider.name: self.provider.metered}


@dataclass
class Peer:
    """The MCP server of a test, and what it saw.

    `gates` hold a tool back until released, `opens_once` all of it; results of `say_ticks` end in `pad`.
    """

    seen: list[tuple[str, str]] = field(default_factory=list)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    running: int = 0
    most_running: int = 0
    opens_once: asyncio.Event | None = None
    pad: str = ""

    def server(self) -> MCPServer[Any]:
        @asynccontextmanager
        async def opening(_: MCPServer[Any]) -> AsyncIterator[None]:
            if self.opens_once is not None:
                await self.opens_once.wait()
            yield

        async def run(name: str, text: str) -> str:
            self.seen.append((name, text))
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            try:
                await asyncio.sleep(0)  # let overlapping calls begin
                if name in self.gates:
                    await self.gates[name].wait()
                return f"{name} did {text}"
            finally:
                self.running -= 1

        async def look(text: str) -> str:
            return await run("look", text)

        async def act(text: str) -> str:
            return await run("act", text)

        async def burn(text: str) -> str:
            return await run("burn", text)

        async def say_ticks(text: str) -> str:
            self.seen.append(("say_ticks", text))
            return text + self.pad

        read_only = ToolAnnotations(read_only_hint=True)
        safe = ToolAnnotations(read_only_hint=False, destructive_hint=False)
        tools = [
            described(look, "Looks.", read_only),
            described(act, "Acts.", safe),
            described(burn, "Burns.", ToolAnnotations(destructive_hint=True)),
            described(say_ticks, "Echoes a result.", safe),
        ]
        return MCPServer("peer", log_level="ERROR", lifespan=opening, tools=tools)


@dataclass
class Swarm:
    """What a test holds of a running swarm."""

    commander: Commander
    store: Store
    clock: HandClock
    provider: ScriptedProvider
    peer: Peer
    path: Path

    @cached_property
    def api(self) -> RunningSwarm:
        """The whole `SwarmApi`, without connections."""
        return RunningSwarm.of(self.commander, NoConnections())

    async def until(self, predicate: Callable[[], Any], *, within: float = 30.0) -> None:
        """Wait for a predicate, in real time, while the hand clock stands."""
        await until(predicate, within=within)

    async def create(self, *names: str) -> None:
        """Create myses that act only when they are told to."""
        for name in names:
            await self.commander.create(name, start=False)

    async def tell(self, name: str, text: str) -> Receipt:
        """Send a message to a mysis. One that is missing is created, and acts only when it is told to."""
        if name not in [runner.mysis.name for runner in self.commander.swarm.runners.values()]:
            await self.create(name)
        return await self.commander.send(name, text)

    async def ask(self, name: str, text: str) -> Receipt:
        """As `tell`, and wait until the mysis has settled."""
        receipt = await self.tell(name, text)
        await self.settled(name)
        return receipt

    async def begin_call(self, name: str, text: str) -> Block:
        """Send a message as `tell` does, and return the block at which its call stands."""
        block = self.provider.block()
        await self.tell(name, text)
        await block.reached.wait()
        return block

    async def start(self, name: str) -> None:
        """Start a mysis and wait until it has settled."""
        await self.commander.start(name)
        await self.settled(name)

    async def settled(self, name: str = "alpha") -> None:
        """Wait until the mysis has no open turn and nothing pending."""
        runner = self.commander.swarm.runner(name)
        await self.until(lambda: runner.is_settled)

    async def run_due(self, after_s: float = 0) -> None:
        """Let time pass, and run all due tasks through rounds of loop and store."""
        if after_s:
            self.clock.by(after_s)
        for _ in range(10):
            await self.store.write(lambda conn: conn.now())
            await asyncio.sleep(0)

    async def settled_in_time(self, *names: str, step_s: float = 1.0) -> None:
        """Wait as `settled` does, for all of these, and let time go on by hand.

        Time goes on wherever one of them waits for nothing but time. It does not while one waits for a thread: however
        long the machine keeps that back, no turn runs out of time.
        """
        runners = [self.commander.swarm.runner(name) for name in names or ("alpha",)]

        def is_settled() -> bool:
            waiting = [runner for runner in runners if not runner.is_settled]
            if waiting and all(runner.driver is None or runner.driver.phase == "resting" for runner in waiting):
                self.clock.by(step_s)
            return not waiting

        await self.until(is_settled)

    def state(self, name: str = "alpha") -> MysisState:
        return self.commander.swarm.runner(name).mysis.state

    async def rows(self, sql: str, *parameters: object) -> list[Any]:
        return [dict(row) for row in await self.store.read(sql, parameters)]

    async def value(self, sql: str, *parameters: object) -> Any:
        rows = await self.store.read(sql, parameters)
        return rows[0][0] if rows else None

    def sent(self) -> list[list[tuple[str, str]]]:
        """Return each request as (role, content) pairs.

        Without the system message and the commander's lines above prompts.
        """
        return [
            [(str(m.role), plain(m.content)) for m in request.messages if m.role is not Role.SYSTEM]
            for request in self.provider.requests
        ]


_COMMANDER_LINE = re.compile(r"\[(broadcast )?to [\w-]+, from the commander\]\n")


def plain(content: str) -> str:
    """Return a prompt without the line that says that it is the commander's."""
    return content[match.end() :] if (match := _COMMANDER_LINE.match(content)) else content


def call(name: str, text: str = "x", **more: Any) -> AnswerCall:
    import json

    return AnswerCall(name, json.dumps({"text": text, **more}))


def script(*replies: Answer | ProviderError) -> Rule:
    """Replies in order; the last one is repeated."""
    waiting = list(replies)

    def rule(request: ModelRequest) -> Answer | ProviderError:
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return rule


def nudged_without_goal(settings: Settings) -> Settings:
    """Let every mysis be nudged, unless the settings say whether one without a goal is."""
    if "without_goal" in settings.nudge.model_fields_set:
        return settings
    nudge = settings.nudge.model_copy(update={"without_goal": True})
    return settings.model_copy(update={"nudge": nudge})


def keeps_the_seeds_form(settings: Settings) -> Settings:
    """Let requests show what those of Zoea Nova showed, unless the settings say otherwise."""
    form = {"keep_turns": 0, "recall_items": 0}
    changed = {name: value for name, value in form.items() if name not in settings.context.model_fields_set}
    return settings.model_copy(update={"context": settings.context.model_copy(update=changed)})


@cache
def _build_policy(body: str) -> ToolPolicy:
    """Build the policy of a template's text once, as Zoea does."""
    return ToolPolicy(ask_destructive=parse_template(body).tools.ask_destructive)


@asynccontextmanager
async def swarm(
    folder: Path,
    rules: Rule | Sequence[Rule] = (),
    *,
    settings: Settings | None = None,
    provider: ScriptedProvider | None = None,
    clock: HandClock | None = None,
    policy: ToolPolicy | None = None,
    policies: Callable[[str], ToolPolicy] | None = None,
    jitter: float = 0.5,
    peer: Peer | None = None,
    templates: Templates | None = None,
    upstreams: Sequence[UpstreamConfig] = (),
    accounts: AccountKeeper | None = None,
    on_shutdown: Callable[[], None] = lambda: None,
    providers: Providers | None = None,
    prices: PriceList = PriceList(),
) -> AsyncIterator[Swarm]:
    """A swarm over a database in `folder`; closed cleanly at the end. `policies` makes a policy of a template."""
    clock = clock or HandClock(1_700_000_000_000_000)
    path = folder / "zoea.db"
    store = await Store.open(path, clock_now=clock.now)
    model = provider or ScriptedProvider(rules, clock=clock, metered=True)
    peer = peer or Peer()
    toolbox = Toolbox(
        [UpstreamConfig("peer", server=peer.server()), *upstreams],
        policies=policies or (lambda body: policy or _build_policy(body)),
        logs=folder,
        accounts=accounts,
    )
    toolbox.open()
    commander = await Commander.open(
        CoreSwarm(
            store=store,
            clock=clock,
            ids=HandIds(jitter),
            settings=keeps_the_seeds_form(nudged_without_goal(settings or Settings())),
            templates=templates or Templates(),
            providers=providers or OneProvider(model),
            tools=toolbox,
            on_shutdown=on_shutdown,
            prices=prices,
        ),
        serve_tools=lambda commander: toolbox.serve(MysisTools(commander.builtin_backend, MysisCommits(commander))),
    )
    try:
        yield Swarm(commander, store, clock, model, peer, path)
    finally:
        await commander.close()
        await toolbox.close()
        await store.close()
