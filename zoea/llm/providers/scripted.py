"""A provider that answers from a script, without a model or a network.

Used by tests of the agent loop, and by `--provider scripted`, where the model's name picks a built-in script.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from zoea.llm.providers.scripts import SCRIPTS, Reply, Rule, builtin, deltas, script_name
from zoea.model.enums import ErrorClass, Finish
from zoea.model.errors import ProviderError
from zoea.model.ports import Clock
from zoea.model.request import Answer, ModelInfo, ModelRequest, StreamItem
from zoea.model.values import Usage

__all__ = ["Block", "Reply", "Rule", "ScriptedProvider", "count_usage", "deltas"]

SLOW_PACE_S = 0.25


class Block(Struct, eq=False):
    """Stops one call in its stream until released; made by `ScriptedProvider.block`.

    `reached` is set when the call stops at it, with its `request`; `was_closed` is True if the stream was closed or
    cancelled there instead of released.
    """

    after: int
    when: Callable[[ModelRequest], bool]
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    request: ModelRequest | None = None
    was_closed: bool = False
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        self._released.set()

    async def stand(self, request: ModelRequest) -> None:
        self.request = request
        self.reached.set()
        try:
            await self._released.wait()
        except (asyncio.CancelledError, GeneratorExit):
            self.was_closed = True
            raise


class ScriptedProvider:
    """Implements `zoea.model.ports.Provider`.

    Args:
        script: A rule, or rules tried in order; the first reply wins. Without one, the built-in script that the
            request's model names replies.
        metered: Whether its tokens count against budgets.
        clock: Times the pace; None for the event loop's clock.
        pace_s: Seconds between two streamed items.
        delta_chars: Characters of text per delta.
        counts_usage: Fill in usage (characters / 4) if an answer has none.
        keeps: How many of the newest requests `requests` keeps.
    """

    kind = "scripted"

    def __init__(
        self,
        script: Rule | Sequence[Rule] = (),
        *,
        name: str = "scripted",
        metered: bool = False,
        clock: Clock | None = None,
        pace_s: float = 0.0,
        delta_chars: int = 16,
        context_window: int | None = None,
        counts_usage: bool = True,
        keeps: int = 10_000,
    ) -> None:
        self.name = name
        self.label = "scripted (no model)"
        self.metered = metered
        self.requests: deque[ModelRequest] = deque(maxlen=keeps)
        self.calls = 0
        self.in_flight = 0
        self.is_closed = False
        self._rules: tuple[Rule, ...] = (script,) if callable(script) else tuple(script)
        self._clock = clock
        self._pace_s = pace_s
        self._delta_chars = delta_chars
        self._context_window = context_window
        self._counts_usage = counts_usage
        self._blocks: list[Block] = []

    def block(self, *, after: int = 1, when: Callable[[ModelRequest], bool] = lambda _: True) -> Block:
        """Stop the next call that `when` matches after `after` items until released. One call per block."""
        made = Block(after, when)
        self._blocks.append(made)
        return made

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        """See the port. Raises the script's ProviderError at its place in the stream."""
        self.calls += 1
        self.requests.append(request)
        block = self._take_block(request)
        pace = self._pace_of(request)
        self.in_flight += 1
        try:
            for given, item in enumerate(self._items(request, self._reply(request))):
                if block is not None and given == block.after:
                    await block.stand(request)
                    block = None
                if isinstance(item, ProviderError):
                    raise item
                if given and pace:
                    if self._clock is None:
                        await asyncio.sleep(pace)
                    else:
                        await self._clock.sleep(round(pace * 1_000_000))
                yield item
            if block is not None:
                await block.stand(request)
        finally:
            self.in_flight -= 1

    async def models(self) -> tuple[ModelInfo, ...]:
        return tuple(self._info(name) for name in SCRIPTS)

    async def info(self, model: str) -> ModelInfo:
        if not self._rules and script_name(model).partition(":")[0] not in SCRIPTS:
            raise ProviderError(
                f"no script is named {model}", kind=ErrorClass.MODEL_MISSING, hint=f"Use one of {', '.join(SCRIPTS)}."
            )
        return self._info(model)

    async def close(self) -> None:
        self.is_closed = True

    def _info(self, model: str) -> ModelInfo:
        return ModelInfo(model, context_window=self._context_window, tools=True)

    def _reply(self, request: ModelRequest) -> Reply:
        for rule in self._rules:
            reply = rule(request)
            if reply is not None:
                return reply
        return builtin(request)

    def _items(self, request: ModelRequest, reply: Reply) -> Iterator[StreamItem | ProviderError]:
        match reply:
            case ProviderError():
                yield reply
            case Answer():
                yield from deltas(reply, self._delta_chars)
                yield self._finished(request, reply)
            case _:
                for item in reply:
                    yield self._finished(request, item) if isinstance(item, Answer) else item

    def _finished(self, request: ModelRequest, answer: Answer) -> Answer:
        finish = Finish.CALLS if answer.calls and answer.finish is Finish.STOP else answer.finish
        usage = answer.usage
        if self._counts_usage and usage.total is None:
            usage = count_usage(request, answer)
        return replace(answer, finish=finish, usage=usage, model=answer.model or request.model)

    def _take_block(self, request: ModelRequest) -> Block | None:
        for block in self._blocks:
            if block.when(request):
                self._blocks.remove(block)
                return block
        return None

    def _pace_of(self, request: ModelRequest) -> float:
        name, _, seconds = script_name(request.model).partition(":")
        if name != "slow":
            return self._pace_s
        return float(seconds) if seconds.replace(".", "", 1).isdigit() else SLOW_PACE_S


def count_usage(request: ModelRequest, answer: Answer) -> Usage:
    """Estimate usage as four characters a token."""
    sent = sum(len(m.content) + sum(len(c.name) + len(c.arguments) for c in m.calls) for m in request.messages)
    chars = len(answer.text) + len(answer.reasoning) + sum(len(c.name) + len(c.arguments) for c in answer.calls)
    return Usage(
        input_tokens=-(-sent // 4),
        output_tokens=-(-chars // 4),
        reasoning_tokens=-(-len(answer.reasoning) // 4),
        cost_micros=0,
    )
