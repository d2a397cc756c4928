"""A real swarm to be killed: `child.py PATH SEED MODE`, where MODE is `storm` or `settle`.

Real store, commander and toolbox with an MCP server in process; the model is scripted.
A driver commands it at random and says each acknowledgement on a line of JSON, written
after the await that acknowledged it returned: what was said must be in the database,
however the process ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

from tests.faults import database_checker
from tests.swarm.harness import OneProvider
from zoea.llm.prices import PriceList
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.enums import ApprovalAnswer, DeliveryMode, ErrorClass, MysisState
from zoea.model.errors import ProviderError, ZoeaError
from zoea.model.request import ModelRequest
from zoea.model.values import Lagged, MysisView, Receipt, Recipients
from zoea.process.clock import SystemClock, SystemIds
from zoea.settings.key_paths import Layer
from zoea.settings.schema import Settings
from zoea.settings.template import parse_template
from zoea.settings.template_library import Level, Templates
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.swarm import life
from zoea.swarm.commander import Commander
from zoea.swarm.commit_commands import CommitCommands
from zoea.swarm.life import StoredLife
from zoea.swarm.persistence.spend_ops import Reserved
from zoea.swarm.persistence.turn_ops import OpenedTurn
from zoea.swarm.swarm import Swarm
from zoea.swarm.turn.turn_types import OpStored
from zoea.tools import Toolbox, ToolPolicy, UpstreamConfig
from zoea.tools.builtin.mysis_tools import MysisTools

T = TypeVar("T")

MYSES = 20
COMMANDERS = 6
MORE_THAN_A_WINDOW = 6
SUBSCRIBER, WINDOW, NEWS = "subscriber", "windowed", "NEWS"
MODELS = (
    *("tools", "tools:2", "tools:3", "parallel", "parallel:5", "echo", "think", "broken"),
    *("tools:2", "parallel", "tools", "echo", "parallel:2", "tools:4", "broken", "think"),
    *("loop", "cut", "fail:bad_request", "empty"),
)
MODES = (DeliveryMode.QUEUE, DeliveryMode.QUEUE, DeliveryMode.STEER, DeliveryMode.STEER, DeliveryMode.INTERRUPT)


def say(**fact: object) -> None:
    os.write(1, f"{json.dumps(fact)}\n".encode())


class ToldStore(Store):
    """Says the row ids that each acknowledged op of a turn gave back."""

    async def write(self, op: Callable[[WriterConnection], T], *, urgent: bool = False, is_synced: bool = True) -> T:
        result = await super().write(op, urgent=urgent, is_synced=is_synced)
        stored = result[0] if isinstance(result, tuple) and result else result
        match stored:
            case OpStored() | OpenedTurn() if stored.memories:
                say(ack="memory", ids=[memory.id for memory in stored.memories])
            case Reserved():
                say(ack="request", id=stored.request_id)
        return result


def server(chance: random.Random) -> MCPServer[Any]:
    made: MCPServer[Any] = MCPServer("peer", log_level="ERROR")

    async def run(name: str, text: str) -> str:
        await asyncio.sleep(chance.random() * 0.01)
        return f"{name} did {text}"

    async def look(text: str) -> str:
        return await run("look", text)

    async def act(text: str) -> str:
        return await run("act", text)

    async def burn(text: str) -> str:
        return await run("burn", text)

    made.add_tool(look, description="Looks.", annotations=ToolAnnotations(read_only_hint=True))
    made.add_tool(act, description="Acts.", annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False))
    made.add_tool(burn, description="Burns.", annotations=ToolAnnotations(destructive_hint=True))
    return made


def settings(mode: str) -> Settings:
    return Settings.model_validate(
        {
            "swarm": {"max_myses": 60},
            "nudge": {"enabled": mode == "storm", "without_goal": True, "idle_interval": 0.4, "max_per_hour": 0},
            "recovery": {"delays": [0.2, 0.2] if mode == "storm" else []},
            "budget": {"swarm_per_day": "none", "background": "none"},
        }
    )


def prices(folder: Path) -> PriceList:
    """One price for every model, so that each request reserves money too."""
    file = folder / "prices.toml"
    if not file.exists():
        file.write_text('[model."*"]\ninput = 3\noutput = 15\n')
    return PriceList(file)


def templates(folder: Path) -> Templates:
    """Return the shipped templates and two more.

    Myses of one subscribe to topics; the other has summaries by a model.
    """
    where = folder / "templates"
    where.mkdir(exist_ok=True)
    text = f'extends = "default"\nsubscribes = ["{NEWS}", "WORKER_PROGRESS", "STATE_SNAPSHOT"]\n'
    (where / f"{SUBSCRIBER}.toml").write_text(text, encoding="utf-8")
    small = "context_window_default = 5\nprimers_count = 2\nrecents_count = 4\n"
    text = f'extends = "default"\nstrategy = "window"\n[context]\nsummary = "model"\n[session]\n{small}'
    (where / f"{WINDOW}.toml").write_text(f"{text}[inherited]\nmax_tokens = 300\n", encoding="utf-8")
    return Templates([Level(Layer.USER, where)])


def flaky(chance: random.Random) -> Callable[[ModelRequest], ProviderError | None]:
    def rule(_: ModelRequest) -> ProviderError | None:
        return ProviderError("a hiccup", kind=ErrorClass.TRANSIENT) if chance.random() < 0.04 else None

    return rule


class Driver:
    """Commands the swarm at random, and prints the acknowledged ids."""

    def __init__(self, commander: Commander, chance: random.Random) -> None:
        self._commander = commander
        self._contexts = CommitCommands(commander)
        self._chance = chance
        self._count = 0
        self._deleted: list[int] = []
        self._deliveries: list[int] = []

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._chance.random() * 0.03)
            action = self._chance.choices(
                (
                    *(self.send, self.broadcast, self.stop, self.start, self.hold_one, self.hold_all),
                    *(self.answer, self.delete, self.undelete, self.withdraw, self.create, self.publish),
                    *(self.resume, self.ask, self.commit_by_hand),
                ),
                (60, 6, 8, 16, 2, 1, 8, 2, 1, 5, 2, 6, 6, 3, 4),
            )[0]
            try:
                await action()
            except ZoeaError as error:
                say(refused=type(error).__name__, what=error.what)
            except Exception:  # noqa: BLE001  any other exception is a defect, and the parent must hear of it
                say(broken=traceback.format_exc())

    async def _someone(self) -> MysisView:
        return self._chance.choice((await self._commander.view()).myses)

    def _text(self) -> str:
        self._count += 1
        text = f"prompt {self._chance.randrange(10**9)}-{self._count}"
        if self._chance.random() < 0.1:
            text += '\ncall zoea_wait {"seconds": 1, "reason": "the ore is far"}'
        elif self._chance.random() < 0.15:
            text += '\ncall look {"text": "first"}\ncall burn {"text": "it"}\ncall act {"text": "then"}'
        return text

    def _said(self, receipt: Receipt) -> None:
        ids = [line.delivery_id for line in receipt.lines if line.delivery_id]
        self._deliveries = [*self._deliveries, *ids][-50:]
        say(ack="message", id=receipt.message_id, deliveries=ids)

    async def send(self) -> None:
        mode = self._chance.choice(MODES)
        self._said(await self._commander.send((await self._someone()).name, self._text(), mode=mode))

    async def broadcast(self) -> None:
        audience = Recipients() if self._chance.random() < 0.3 else Recipients(state=MysisState.RUNNING)
        context = json.dumps({"token_budget_total": 100_000}) if self._chance.random() < 0.5 else ""
        text, mode = self._text(), self._chance.choice(MODES)
        self._said(await self._commander.broadcast(text, to=audience, mode=mode, limits=context))

    async def stop(self) -> None:
        state_of(await self._commander.stop((await self._someone()).name))

    async def start(self) -> None:
        rest = [m for m in (await self._commander.view()).myses if m.state is not MysisState.RUNNING]
        if rest:
            state_of(await self._commander.start(self._chance.choice(rest).name))

    async def hold_one(self) -> None:
        name = (await self._someone()).name
        await self._commander.hold(True, ref=name)
        say(ack="hold", kind="hold.set")
        await asyncio.sleep(self._chance.random() * 0.3)
        await self._commander.hold(False, ref=name)
        say(ack="hold", kind="hold.lifted")

    async def hold_all(self) -> None:
        await self._commander.hold(True)
        say(ack="hold", kind="hold.set")
        await asyncio.sleep(self._chance.random() * 0.1)
        await self._commander.hold(False)
        say(ack="hold", kind="hold.lifted")

    async def answer(self) -> None:
        waiting = await self._commander.approvals()
        if waiting:
            one = self._chance.choice(waiting)
            word = self._chance.choice((ApprovalAnswer.ONCE, ApprovalAnswer.DENIED))
            await self._commander.answer(one.id, word)
            say(ack="approval", id=one.id, answer=str(word))

    async def delete(self) -> None:
        gone = await self._commander.delete((await self._someone()).name)
        say(ack="deleted", mysis=gone.id)
        self._deleted.append(gone.id)
        await self.create()

    async def undelete(self) -> None:
        if self._deleted:
            back = await self._commander.undelete(self._deleted.pop())
            say(ack="undeleted", mysis=back.id)

    async def withdraw(self) -> None:
        if self._deliveries:
            one = self._chance.choice(self._deliveries)
            await self._commander.withdraw(one)
            say(ack="withdrawn", delivery=one)

    async def create(self) -> None:
        made = await self._commander.create(
            "", model=self._chance.choice(MODELS), template=self._chance.choice(("default", SUBSCRIBER, WINDOW))
        )
        say(ack="mysis", id=made.id)

    async def resume(self) -> None:
        back = await self._contexts.resume((await self._someone()).name)
        say(ack="resumed", mysis=back.id)

    async def ask(self) -> None:
        text, thread = self._text(), self._chance.choice(("one", "two", ""))
        asked = await self._contexts.ask(f"@{(await self._someone()).name}", text, thread=thread)
        say(ack="asked", mysis=asked.mysis.id, thread=asked.thread, text=text)

    async def commit_by_hand(self) -> None:
        name = f"@{(await self._someone()).name}"
        match self._chance.randrange(3):
            case 0:
                made = await self._contexts.checkpoint(name, summary="by hand", timeout_s=1.0)
            case 1:
                made = await self._contexts.snapshot(name)
            case _:
                made = await self._contexts.compact(name, extract=True)
        if made:
            say(ack="commit", digest=made.removeprefix("ctx-"))

    async def publish(self) -> None:
        topic, data = self._chance.choice(((NEWS, None), ("WORKER_PROGRESS", {"percent_complete": self._count})))
        done = await self._commander.publish(topic, self._text(), data=data)
        say(ack="published", id=done.id)
        for line in done.lines:
            say(ack="delivered", id=line.delivery_id, topic_message=done.id)


def state_of(mysis: MysisView) -> None:
    say(ack="state", mysis=mysis.id, state=str(mysis.state), at=mysis.state_at)


async def listen(commander: Commander, store: Store) -> None:
    """Say the events as a subscriber gets them."""
    after = (await store.read("SELECT coalesce(max(id), 0) AS id FROM event"))[0]["id"]
    async for event in commander.events(after):
        if isinstance(event, Lagged):
            say(ack="lagged")
        elif event.id:  # others are shown live and not stored
            say(ack="event", id=event.id)


async def storm(commander: Commander, store: Store, chance: random.Random) -> None:
    here = {mysis.id for mysis in (await commander.view()).myses}
    for place, model in enumerate(MODELS[len(here) :]):
        made = await commander.create("", model=model, template=(SUBSCRIBER, WINDOW, "default", "default")[place % 4])
        say(ack="mysis", id=made.id)
    drivers = [Driver(commander, random.Random(chance.random())) for _ in range(COMMANDERS)]
    await asyncio.gather(listen(commander, store), *(driver.run() for driver in drivers))


async def settle(commander: Commander) -> None:
    """Lift every hold, start idle myses, allow every call, and wait until all is done.

    The windowed myses get more to do than their window holds, however soon the storms before were killed.
    """
    await commander.hold(False)
    for mysis in (await commander.view()).myses:
        if mysis.held:
            await commander.hold(False, ref=mysis.name)
    await commander.start_all()
    for mysis in (await commander.view()).myses:
        if mysis.template == WINDOW:
            await fill_window(commander, mysis.name)
    for mysis in (await commander.view()).myses:
        while True:
            for waiting in await commander.approvals():
                await commander.answer(waiting.id, ApprovalAnswer.ONCE)
            try:
                await commander.wait(mysis.name, timeout_s=0.2)
            except ZoeaError:
                continue
            break


async def fill_window(commander: Commander, name: str) -> None:
    """Send a mysis more than its window holds; it may stop by an error meanwhile."""
    try:
        for number in range(MORE_THAN_A_WINDOW):
            await commander.send(name, f"and then, {number}?")
    except ZoeaError as error:
        say(refused=type(error).__name__, what=error.what)


async def main(path: Path, seed: int, mode: str) -> None:
    chance = random.Random(seed)
    clock = SystemClock()
    store = await ToldStore.open(path, clock_now=clock.now)
    toolbox = Toolbox(
        [UpstreamConfig("peer", server=server(chance))],
        policies=lambda body: ToolPolicy(ask_destructive=parse_template(body).tools.ask_destructive),
        logs=path.parent,
    )
    toolbox.open()
    commander = await Commander.open(
        Swarm(
            store=store,
            clock=clock,
            ids=SystemIds(),
            settings=settings(mode),
            templates=templates(path.parent),
            providers=OneProvider(ScriptedProvider(flaky(chance), metered=True, pace_s=0.001, keeps=1)),
            tools=toolbox,
            on_shutdown=lambda: None,
            prices=prices(path.parent),
        ),
        serve_tools=lambda commander: toolbox.serve(MysisTools(commander.builtin_backend)),
    )
    await asyncio.to_thread(database_checker.after_start, path)
    await as_it_was(commander, store)
    say(ack="open")
    if mode == "storm":
        await commander.start_all()
        await storm(commander, store, chance)
    await settle(commander)
    await commander.close()
    await toolbox.close()
    await store.close()
    say(ack="closed")


async def as_it_was(commander: Commander, store: Store) -> None:
    """Nothing that a row says of a mysis's life is left behind by a start."""
    for row in await store.read("SELECT * FROM mysis WHERE deleted_at IS NULL"):
        wait = json.loads(row["wait"]) if row["wait"] else {}
        done = row["goal_reached_at"] is not None
        lasting = StoredLife(row["encouragement"], wait.get("until"), wait.get("reason", ""), row["nothing_new"], done)
        stored = life.stored_life(commander.swarm.runners[row["id"]].life)
        assert stored.in_wall_time(commander.swarm.services.clock.ahead) == lasting, f"mysis {row['id']}"


async def guarded(path: Path, seed: int, mode: str) -> None:
    """Print the failure of a child and exit at once."""
    try:
        await main(path, seed, mode)
    except Exception:  # noqa: BLE001  the parent reads it from stderr
        traceback.print_exc()
        os._exit(1)


if __name__ == "__main__":
    asyncio.run(guarded(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
