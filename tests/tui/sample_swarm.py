"""Swarm after a morning of work: five myses, each in another state.

The model is scripted and the clock manual. Everything is played in one order, so that the database is the same on
every machine; the snapshots of the cockpit show it.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.types import ToolAnnotations
from msgspec.structs import replace

from tests.fakes.llm_clock import HandClock
from tests.swarm.harness import Peer, Swarm, swarm
from zoea.llm.providers.scripted import Block, ScriptedProvider, count_usage
from zoea.llm.transport.provider_errors import error_from_status
from zoea.model.enums import MysisState
from zoea.model.errors import ProviderError
from zoea.model.request import Answer, AnswerCall, ModelRequest
from zoea.settings.schema import Settings
from zoea.tools import UpstreamConfig

MORNING = 1_773_480_000_000_000
"""2026-03-14, 09:20 UTC."""

CREW = (("alpha", "miner"), ("beta", "miner"), ("gamma", "trader"), ("delta", "scout"), ("epsilon", "miner"))
REFUSED = "delta"
"""Runs on another provider, which refuses its key in the end."""
KEY_REFUSED = b'{"error": {"message": "the API key is not valid"}}'
CONFIG = """\
[swarm]
default_provider = "ollama"

[provider.ollama]
type = "ollama"
model = "qwen3:8b"

[provider.openai]
type = "openai"
model = "gpt-5-mini"
"""
"""The person's settings, so that dialogs offer the providers that the myses use."""
ORDER = "Mine iron and report every ten minutes."
SETTINGS = Settings.model_validate(
    {
        "nudge": {"enabled": False},
        # Drawing all snapshots takes longer than the default timeouts of a model.
        "llm": {"timeout": 3600, "between_tokens": 3600},
        "context": {"context_window": 64_000},
        "budget": {"swarm_per_day": 2_000_000},
    }
)

PLAN = """\
Belt 2 is the better one. My plan:

| belt | ore | distance | price |
|---|---|---|---|
| belt-1 | nickel | 3 | 9 |
| **belt-2** | **iron** | **2** | **14** |

1. Fill the cargo at `belt-2`.
2. Sell at *Halcyon*, unless the price falls under 12.
"""
STREAMED = """\
The cargo is at 84 %. One more load, then I sell:

- price at **Halcyon**: 14 a unit
- price at Port Vesper: 11 a unit, 40 s further

`belt-2` runs thin at the northern edge, so I move on to the"""


@dataclass
class SampleWorld:
    """World with tools that each take time on the manual clock."""

    clock: HandClock
    mined: int = 0
    gates: dict[str, asyncio.Event] = field(default_factory=dict)

    def server(self) -> MCPServer[Any]:
        server: MCPServer[Any] = MCPServer("reef", log_level="ERROR")

        async def scan(range: int = 3) -> str:
            self.clock.by(0.4)
            belts = [
                {"name": "belt-1", "ore": "nickel", "distance": 3, "units": 900},
                {"name": "belt-2", "ore": "iron", "distance": 2, "units": 2400},
            ]
            return json.dumps({"tick": 1180, "belts": belts, "stations": ["Halcyon", "Port Vesper"]})

        async def get_status() -> str:
            self.clock.by(0.1)
            ship = {"ship": "Kestrel", "at": "belt-2", "fuel": 78, "hull": 100, "credits": 1240}
            return json.dumps({**ship, "cargo": f"{self.mined} %", "tick": 1186, "crew": ["Ada", "Noor"]})

        async def mine(belt: str) -> str:
            self.clock.by(1.2)
            self.mined += 12
            return json.dumps({"mined": 12, "cargo": f"{min(100, self.mined)} %", "belt": belt})

        async def travel(to: str) -> str:
            self.clock.by(2.1)
            return json.dumps({"arrives": "T1204", "to": to})

        async def sell(item: str, n: int) -> str:
            self.clock.by(0.3)
            return json.dumps({"sold": n, "item": item, "credits": n * 14})

        looks = ToolAnnotations(read_only_hint=True)
        acts = ToolAnnotations(read_only_hint=False, destructive_hint=False)
        ends = ToolAnnotations(destructive_hint=True)
        server.add_tool(scan, description="Look for belts and stations around the ship.", annotations=looks)
        server.add_tool(get_status, description="Your ship: where it is, fuel, hull, cargo.", annotations=looks)
        server.add_tool(mine, description="Take ore from a belt into the cargo.", annotations=acts)
        server.add_tool(travel, description="Set a course; the answer names the tick of arrival.", annotations=acts)
        server.add_tool(sell, description="Sell from the cargo at the station you are docked at.", annotations=ends)
        return server


@dataclass
class ScriptedReplies:
    """Replies of each mysis, in order, each 1.5 s after the request."""

    clock: HandClock
    replies: dict[str, deque[Answer | ProviderError]]

    def __call__(self, request: ModelRequest) -> Answer | ProviderError:
        self.clock.by(1.5)
        left = self.replies.get(request.mysis)
        reply = left.popleft() if left else Answer(text="Understood.")
        if isinstance(reply, ProviderError):
            return reply
        usage = count_usage(request, reply)
        tools = sum(
            len(tool.name) + len(tool.description) + len(json.dumps(tool.input_schema)) for tool in request.tools
        )
        return replace(reply, usage=replace(usage, input_tokens=(usage.input_tokens or 0) + tools // 4))


@dataclass
class SampleProviders:
    """The providers of the swarm, by name."""

    by_name: dict[str, ScriptedProvider]

    def get(self, name: str) -> ScriptedProvider:
        return self.by_name[name]

    def metered(self) -> dict[str, bool]:
        return {name: provider.metered for name, provider in self.by_name.items()}


def calls(*named: tuple[str, dict[str, Any]], text: str = "", reasoning: str = "") -> Answer:
    made = tuple(AnswerCall(name, json.dumps(arguments)) for name, arguments in named)
    return Answer(text=text, reasoning=reasoning, calls=made)


def replies() -> dict[str, deque[Answer | ProviderError]]:
    mine = ("mine", {"belt": "belt-2"})
    alpha: list[Answer | ProviderError] = [
        calls(
            ("scan", {"range": 3}),
            reasoning="The commander wants iron. I do not know the belts yet, so I look around before I set a course.",
        ),
        Answer(text=PLAN),
        calls(mine, mine, text="First load."),
        calls(mine),
        Answer(text="Cargo at 36 %, all iron. No other ship at belt-2."),
        calls(("get_status", {}), mine, reasoning="It is where I am."),
        Answer(text="I am there already: 48 % now."),
        calls(
            ("zoea_send_message", {"to": "commander", "text": "Belt-2 holds until noon. Sell below 14?"}),
            reasoning="The price matters to the commander.",
        ),
        Answer(text="Asked you about the price; mining on meanwhile."),
        calls(mine, mine, text="Mining before I answer."),
        calls(mine),
        Answer(text=STREAMED + " southern one."),
    ]
    beta: list[Answer | ProviderError] = [
        calls(("travel", {"to": "belt-2"})),
        Answer(text="On my way to belt-2, there at T1190."),
        Answer(text="Mining iron from T1190 on; I report then."),
        calls(("travel", {"to": "Halcyon"})),
        calls(("zoea_wait", {"seconds": 40, "reason": "arrives at Halcyon, T1204"})),
    ]
    gamma: list[Answer | ProviderError] = [
        calls(("scan", {"range": 5})),
        Answer(text="I hold 40 units from yesterday and look for the best price."),
        Answer(text="I trade and do not mine. Bring iron to Halcyon: 14 a unit there, 11 at Port Vesper."),
        calls(("sell", {"item": "iron ore", "n": 40}), text="Halcyon pays 14. I would sell now."),
    ]
    delta: list[Answer | ProviderError] = [
        Answer(text="Scouting the north."),
        Answer(text="No iron in the north so far; I go on looking."),
        error_from_status(401, {}, KEY_REFUSED, now_us=MORNING, provider="openai"),
    ]
    epsilon: list[Answer | ProviderError] = [
        Answer(text="Docked at Port Vesper for repairs, 20 minutes."),
        Answer(text="I cannot mine before the repairs are done."),
    ]
    named = {"alpha": alpha, "beta": beta, "gamma": gamma, "delta": delta, "epsilon": epsilon}
    return {name: deque(said) for name, said in named.items()}


@dataclass
class SampleSwarm:
    """Swarm at the end of the morning; `writing` blocks alpha's streamed answer."""

    inner: Swarm
    writing: Block


@asynccontextmanager
async def play_sample_swarm(folder: Path) -> AsyncIterator[SampleSwarm]:
    """Play the morning in `folder`, and keep the swarm open until the context ends."""
    clock = HandClock(MORNING)
    reef = SampleWorld(clock)
    script = ScriptedReplies(clock, replies())
    providers = SampleProviders(
        {
            name: ScriptedProvider(script, name=name, clock=clock, metered=True, context_window=64_000)
            for name in ("ollama", "openai")
        }
    )
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config" / "config.toml").write_text(CONFIG, encoding="utf-8")
    async with swarm(
        folder,
        provider=providers.by_name["ollama"],
        providers=providers,
        clock=clock,
        settings=SETTINGS,
        upstreams=[UpstreamConfig("reef", server=reef.server())],
        peer=Peer(),
    ) as inner:
        yield SampleSwarm(inner, await _play(inner, script))


async def _play(inner: Swarm, script: ScriptedReplies) -> Block:
    commander, clock = inner.commander, inner.clock
    ids = {}
    for name, template in CREW:
        tags = ("fleet",) if template == "miner" else ()
        provider, model = ("openai", "gpt-5-mini") if name == REFUSED else ("ollama", "qwen3:8b")
        made = await commander.create(name, template=template, provider=provider, model=model, start=True, tags=tags)
        ids[name] = made.id
        await inner.settled(name)
        clock.by(2)
    await _broadcast(inner)
    for text in ("Begin with belt-2.", "Tell me when the belt runs thin."):
        clock.by(300)
        await _ask(inner, "alpha", text)
    clock.by(240)
    await commander.stop("epsilon")
    clock.by(200)
    await commander.send("delta", "Go on to the northern reef.")
    await inner.until(lambda: inner.state("delta") is MysisState.ERRORED)
    clock.by(45)
    await commander.send("gamma", "What would you sell, and where?")
    await inner.until(lambda: commander.swarm.live_view.row(ids["gamma"]).approvals)
    clock.by(22)
    await _ask(inner, "beta", "Bring the ore to Halcyon.")
    clock.by(10)
    writing = inner.provider.block(
        after=len(STREAMED) // 16, when=lambda request: request.mysis == "alpha" and len(script.replies["alpha"]) == 1
    )
    await commander.send("alpha", "How full is your cargo, and where do you sell?")
    await asyncio.wait_for(writing.reached.wait(), 10)
    clock.by(2)
    await commander.view()  # reads the costs of the day
    return writing


async def _ask(inner: Swarm, name: str, text: str) -> None:
    await inner.commander.send(name, text)
    await inner.settled(name)


async def _broadcast(inner: Swarm) -> None:
    """Send one order to all, received one after the other. So the stored order is fixed."""
    for name, _ in CREW:
        await inner.commander.hold(True, ref=name)
    await inner.commander.broadcast(ORDER)
    for name, _ in CREW:
        await inner.commander.hold(False, ref=name)
        await inner.settled(name)
        inner.clock.by(4)
