"""One mysis in a process that can die after any acknowledged op. Its model requests are recorded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

from tests.fakes.llm_clock import HandClock
from tests.fakes.tool_descriptions import described
from tests.swarm.harness import HandIds, OneProvider
from tests.waiting import until
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.enums import ApprovalAnswer, DeliveryMode, MysisState, ToolShow
from zoea.model.errors import ProviderError, UsageError
from zoea.model.request import Answer, AnswerCall, ModelRequest
from zoea.settings.schema import Settings
from zoea.settings.template import parse_template
from zoea.settings.template_library import Templates
from zoea.store.database_file import open_reader
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.commander import Commander
from zoea.swarm.swarm import Swarm
from zoea.tools import Toolbox, ToolPolicy, UpstreamConfig
from zoea.tools.builtin.mysis_tools import MysisTools

T = TypeVar("T")
NEVER = 10**9
HOUR = 3600 * 1_000_000
LAST_BREATH_S = 0.015
_OF_A_RUNNER = ("mysis ", "turn of ")
"""How the tasks of a mysis are named."""
WITHIN_S = 30
PATIENCE_US = 200 * 1_000_000

Message = tuple[str, str, str, tuple[tuple[str, str, str], ...]]
"""Role, content, the id of the call it answers, the calls it makes (id, name, arguments). The first has the tools."""

Request = tuple[Message, ...]


def call(name: str, text: str) -> AnswerCall:
    return AnswerCall(name, json.dumps({"text": text}))


@dataclass(frozen=True)
class Story:
    """What a person says, and what the model replies, one after the other.

    `during` is what the person says while the tool call of that text runs. Where Zoea
    counts or measures results (`counts_results`), one that was lost changes what follows.
    While the tool call of `held_at` runs the swarm is put on hold, until nothing is in flight.
    """

    prompts: tuple[str, ...]
    replies: tuple[Answer | ProviderError, ...]
    during: dict[str, tuple[str, DeliveryMode]] = field(default_factory=dict)
    settings: dict[str, dict[str, object]] = field(default_factory=dict)
    counts_results: bool = False
    held_at: str = ""


class MortalStore(Store):
    """Acknowledges `last` ops. What comes after is never answered, as in a process that is dead.

    With `silent` even the last op is stored without its caller hearing of it: nothing
    whatever happens after it. Without, what its caller begins next is begun.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.last = NEVER
        self.silent = False
        self.ops: list[str] = []
        self.died = asyncio.Event()

    @property
    def acknowledged(self) -> int:
        return len(self.ops)

    async def write(self, op: Callable[[WriterConnection], T], *, urgent: bool = False, is_synced: bool = True) -> T:
        if self.acknowledged >= self.last:
            await asyncio.Event().wait()
        self.ops.append(getattr(getattr(op, "func", op), "__qualname__", ""))
        is_last = self.acknowledged >= self.last
        result = await super().write(op, urgent=urgent, is_synced=is_synced)
        if is_last:
            self.died.set()
            if self.silent:
                await asyncio.Event().wait()
        return result


@dataclass
class Cut:
    """What the database held when a process died: requests that had come to an end, and calls that were open."""

    consumed: int
    open_calls: dict[str, str]

    @classmethod
    def of(cls, path: Path) -> Cut:
        with closing(open_reader(path)) as connection:
            consumed = connection.execute(
                "SELECT count(*) FROM request WHERE state NOT IN ('reserved', 'refused')"
            ).fetchone()[0]
            calls = connection.execute("SELECT id, state FROM tool_call WHERE state IN ('pending', 'sent')")
            return cls(consumed, {f"c{row['id']}": row["state"] for row in calls})


@dataclass
class Lived:
    """What the model was asked in one life, and which ops were acknowledged."""

    requests: list[Request]
    ops: list[str]


async def live(
    folder: Path, story: Story, *, consumed: int = 0, life: int = 0, last: int = NEVER, silent: bool = False
) -> Lived:
    """Live until the story is over, or until `last` ops are acknowledged."""
    requests: list[Request] = []
    replies = list(story.replies[consumed:])

    def reply(request: ModelRequest) -> Answer | ProviderError:
        requests.append(tuple(_shown(request)))
        assert replies, "the story has no further reply"
        return replies.pop(0)

    clock = HandClock(1_700_000_000_000_000 + life * HOUR)
    async with _house(folder, story, reply, clock) as (commander, store):
        store.last, store.silent = last, silent
        telling = asyncio.create_task(_tell(commander, store, story))
        others = [
            asyncio.create_task(_allow(commander)),
            asyncio.create_task(_turn(clock, commander)),
            asyncio.create_task(_lift(commander)),
        ]
        dying = asyncio.create_task(store.died.wait())
        try:
            done, _ = await asyncio.wait({telling, dying}, timeout=WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
            assert done, f"neither over nor dead; asked {len(requests)} times"
            if telling in done:
                telling.result()
            else:
                await asyncio.sleep(0 if silent else LAST_BREATH_S)  # what needs no store goes on until it does
        finally:
            await _end(telling, dying, *others)
            await _end(*(task for task in asyncio.all_tasks() if task.get_name().startswith(_OF_A_RUNNER)))
    return Lived(requests, store.ops)


@asynccontextmanager
async def _house(
    folder: Path, story: Story, reply: Callable[[ModelRequest], Answer | ProviderError], clock: HandClock
) -> AsyncIterator[tuple[Commander, MortalStore]]:
    store = await MortalStore.open(folder / "zoea.db", clock_now=clock.now)
    swarm: list[Commander] = []

    async def ran(text: str) -> None:
        if text == story.held_at:
            await swarm[0].hold(True)
        if text in story.during:
            said, mode = story.during[text]
            await swarm[0].send("alpha", said, mode=mode, idempotency_key=said)

    toolbox = Toolbox(
        [UpstreamConfig("peer", server=_server(ran))],
        policies=lambda body: _build_policy(body, str(story.settings.get("tool", {}).get("show", "all"))),
        logs=folder,
    )
    toolbox.open()
    commander = await Commander.open(
        Swarm(
            store=store,
            clock=clock,
            ids=HandIds(),
            settings=Settings.model_validate({"nudge": {"enabled": False}, **story.settings}),
            templates=Templates(),
            providers=OneProvider(ScriptedProvider(reply, clock=clock, metered=True)),
            tools=toolbox,
            on_shutdown=lambda: None,
        ),
        serve_tools=lambda commander: toolbox.serve(MysisTools(commander.builtin_backend)),
    )
    swarm.append(commander)
    try:
        yield commander, store
    finally:
        await toolbox.close()
        await store.close()


@cache
def _build_policy(body: str, show: str) -> ToolPolicy:
    """Build the policy of a template's text once, as Zoea does."""
    return ToolPolicy(ask_destructive=parse_template(body).tools.ask_destructive, show=ToolShow(show))


def _server(ran: Callable[[str], Awaitable[None]]) -> MCPServer[Any]:
    async def look(text: str) -> str:
        await ran(text)
        return f"saw {text}"

    async def act(text: str) -> str:
        await ran(text)
        return f"did {text}"

    async def burn(text: str) -> str:
        return f"burned {text}"

    safe = ToolAnnotations(read_only_hint=False, destructive_hint=False)
    tools = [
        described(look, "Looks.", ToolAnnotations(read_only_hint=True)),
        described(act, "Acts.", safe),
        described(burn, "Burns.", ToolAnnotations(destructive_hint=True)),
    ]
    return MCPServer("peer", log_level="ERROR", tools=tools)


async def _tell(commander: Commander, store: Store, story: Story) -> None:
    """Send every message in order; the idempotency key keeps earlier ones from being stored again."""
    if not (await commander.view()).myses:
        await commander.create("alpha", start=False)
    for prompt in story.prompts:
        await commander.send("alpha", prompt, idempotency_key=prompt)
        for text, (said, mode) in story.during.items():
            if await store.read("SELECT 1 FROM tool_call WHERE arguments = ?", (json.dumps({"text": text}),)):
                await commander.send("alpha", said, mode=mode, idempotency_key=said)
        await commander.start_all()
        await _settled(commander)


async def _settled(commander: Commander) -> None:
    runner = commander.swarm.runner("alpha")
    await until(lambda: runner.is_settled and runner.life.retry_at is None and not commander.swarm.hold_switch.swarm)
    if runner.mysis.state is MysisState.ERRORED:
        await commander.dismiss("alpha")


async def _allow(commander: Commander) -> None:
    while True:
        for waiting in await commander.approvals():
            try:
                await commander.answer(waiting.id, ApprovalAnswer.ONCE)
            except UsageError:
                continue
        await asyncio.sleep(0.003)


async def _lift(commander: Commander) -> None:
    """Take a hold back once it keeps the turn back, or no turn is open."""
    while True:
        for runner in commander.swarm.runners.values():
            if commander.swarm.hold_switch.swarm and (runner.driver is None or runner.driver._awaits_lift):
                await commander.hold(False)
        await asyncio.sleep(0.003)


async def _turn(clock: HandClock, commander: Commander) -> None:
    """Let time go on. A turn that the machine keeps back does not count as stuck."""
    while True:
        await asyncio.sleep(0.003)
        drivers = [runner.driver for runner in commander.swarm.runners.values() if runner.driver is not None]
        if all(clock.uptime() - driver.progress_at < PATIENCE_US for driver in drivers):
            clock.by(0.5)


async def _end(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _shown(request: ModelRequest) -> list[Message]:
    tools = "\n".join(f"{tool.name}: {tool.description}" for tool in request.tools)
    messages = (
        (str(m.role), m.content, m.call_id, tuple((c.id, c.name, c.arguments) for c in m.calls))
        for m in request.messages
    )
    return [("tools", tools, "", ()), *messages]
