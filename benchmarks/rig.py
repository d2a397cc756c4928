"""A whole swarm for benchmarks: real store on disk, real toolbox, real clock; and its events, listened to like a front.

`Plain` parts stand in where a benchmark leaves something out on purpose: a model that
answers at once, and tools that cost nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoea.model.enums import Finish, Role
from zoea.model.ports import Clock, Provider, ToolSession
from zoea.model.request import (
    Answer,
    AnswerCall,
    CallMeta,
    Catalogue,
    Delta,
    ModelInfo,
    ModelRequest,
    StreamItem,
    ToolResult,
    ToolSpec,
)
from zoea.model.values import Event, Lagged, Usage
from zoea.process.clock import SystemClock, SystemIds
from zoea.process.gc_tuning import tuned_gc
from zoea.settings.schema import Settings
from zoea.settings.template import Template
from zoea.settings.template_library import Templates
from zoea.store.store import Store
from zoea.swarm.commander import Commander
from zoea.swarm.swarm import Swarm
from zoea.tools import Toolbox
from zoea.tools.builtin.mysis_tools import MysisTools

PLENTY: Mapping[str, Any] = {
    "swarm": {"max_myses": 2000},
    "budget": {"swarm_per_day": "none"},
    "nudge": {"enabled": False},
}
"""Settings under which nothing but the prompts of the benchmark opens a turn, and no budget ends one."""


class OneProvider:
    """The providers of a benchmark: one, whatever it is called."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    def get(self, name: str) -> Provider:
        return self._provider

    def metered(self) -> dict[str, bool]:
        return {self._provider.name: self._provider.metered}


class GivenTemplates(Templates):
    """The templates of a benchmark; a name that it does not know means the first."""

    def __init__(self, *templates: Template) -> None:
        super().__init__()
        self._first = templates[0]
        self._given = {template.name: template for template in templates}

    def get(self, name: str) -> Template:
        return self._given.get(name, self._first)


class PlainModel:
    """Answers at once: a call of `look` after a prompt, a sentence after its result."""

    name = "plain"
    kind = "scripted"
    label = "plain"
    metered = True

    def __init__(self) -> None:
        self._answers = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        self._answers += 1
        usage = Usage(100, 0, 10, 0)
        if request.messages[-1].role is Role.TOOL:
            text = f"Sector {self._answers} holds iron, and the way there is worth the fuel."
            yield Delta(text=text)
            yield Answer(text=text, usage=usage)
        else:
            call = AnswerCall("look", json.dumps({"sector": str(self._answers)}))
            yield Answer(calls=(call,), usage=usage, finish=Finish.CALLS)

    async def models(self) -> tuple[ModelInfo, ...]:
        return ()

    async def info(self, model: str) -> ModelInfo:
        return ModelInfo(model, 100_000)

    async def close(self) -> None:
        return None


class PlainTools:
    """A toolbox with one tool that takes no time and no transport."""

    def __init__(self) -> None:
        schema = {"type": "object", "properties": {"sector": {"type": "string"}}, "required": ["sector"]}
        self.shelf = Catalogue((ToolSpec("look", "Look at one sector.", schema, read_only=True),), "plain")

    def session(self, mysis_id: int, mysis: str, template: str, *, uid: str = "") -> ToolSession:
        return _PlainSession(self.shelf)

    def forget(self, uid: str) -> None:
        """It knows nobody."""


class _PlainSession:
    def __init__(self, shelf: Catalogue) -> None:
        self._shelf = shelf

    async def catalogue(self) -> Catalogue:
        return self._shelf

    async def call(self, call: AnswerCall, *, meta: CallMeta) -> ToolResult:
        return ToolResult(f"Looked: {call.arguments}")

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


class Listener:
    """Hears the swarm's events as any front does. It lets agents wait for the end of their turns."""

    def __init__(self, commander: Commander) -> None:
        self._commander = commander
        self._waiting: dict[int, asyncio.Future[str]] = {}
        self._task = asyncio.create_task(self._listen())
        self.ended = 0
        self.lagged = 0

    def next_end(self, mysis_id: int) -> asyncio.Future[str]:
        """Done with the outcome of the next turn of that mysis to end. Ask before sending the prompt."""
        self._waiting[mysis_id] = asyncio.get_running_loop().create_future()
        return self._waiting[mysis_id]

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _listen(self) -> None:
        last = 0
        while True:
            async for item in self._commander.events(last):
                if isinstance(item, Lagged):
                    self.lagged += 1
                    break
                last = item.id
                self._hear(item)

    def _hear(self, event: Event) -> None:
        if event.kind not in ("turn.ended", "turn.broke_off") or event.mysis_id is None:
            return
        self.ended += 1
        waiting = self._waiting.pop(event.mysis_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(str(event.data.get("outcome", "broke off")))


@dataclass(frozen=True, slots=True)
class Rig:
    """A running swarm, its store and its listener."""

    commander: Commander
    store: Store
    listener: Listener
    folder: Path

    async def create(self, count: int, *, template: str = "", prefix: str = "m") -> list[int]:
        """That many idle myses, named m0, m1, …; their ids."""
        names = [f"{prefix}{number}" for number in range(count)]
        return [(await self.commander.create(name, template=template, start=False)).id for name in names]

    async def run_for(self, seconds: float) -> None:
        """Let the swarm work for so many seconds, or until a mysis is errored."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for view in self.commander.changes():
                    if any(mysis.status == "errored" for mysis in view.myses):
                        return

    async def turn(self, mysis_id: int, text: str) -> str:
        """Send a prompt and wait for the end of its turn; the outcome."""
        ended = self.listener.next_end(mysis_id)
        await self.commander.send(f"#{mysis_id}", text)
        return await ended


@asynccontextmanager
async def rig(
    provider: Provider,
    tools: Toolbox | PlainTools | None = None,
    *,
    settings: Mapping[str, Any] = PLENTY,
    templates: Sequence[Template] = (Template(name="default", prompt="You are a scout."),),
    folder: Path | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Rig]:
    """Open a swarm over its own database, or over the one in `folder`. Close it cleanly at the end.

    `tools` is a `Toolbox`, opened and closed here, or other tools without an end; None for `PlainTools`.
    """
    clock = clock or SystemClock()
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as place:
        where = folder or Path(place)
        store = await Store.open(where / "zoea.db", clock_now=clock.now)
        try:
            commander = await Commander.open(
                Swarm(
                    store=store,
                    clock=clock,
                    ids=SystemIds(),
                    settings=Settings.model_validate(settings),
                    templates=GivenTemplates(*templates),
                    providers=OneProvider(provider),
                    tools=tools or PlainTools(),
                    on_shutdown=lambda: None,
                ),
                serve_tools=lambda commander: (
                    tools.serve(MysisTools(commander.builtin_backend)) if isinstance(tools, Toolbox) else None
                ),
            )
        except BaseException:
            await store.close()  # its threads would keep the process
            raise
        if isinstance(tools, Toolbox):
            tools.open()
        listener = Listener(commander)
        try:
            with tuned_gc():
                yield Rig(commander, store, listener, where)
        finally:
            await listener.close()
            await commander.close()
            if isinstance(tools, Toolbox):
                await tools.close()
            await provider.close()
            await store.close()
