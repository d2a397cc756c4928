"""Run a swarm of parts that do not let themselves be ended: `hanging_parts.py DATA CONFIG RUNTIME`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

from zoea.model.enums import MysisState, Role
from zoea.model.request import Answer, AnswerCall, Delta, ModelInfo, ModelRequest, StreamItem
from zoea.runtime.compose import SwarmOptions, running_swarm
from zoea.runtime.owner import own_workspace
from zoea.settings.paths import Places


class Stubbornness:
    """Something that ignores its cancellation until `relent`. `met` is set when somebody waits for it."""

    def __init__(self) -> None:
        self.met = asyncio.Event()
        self._relented = asyncio.Event()

    def relent(self) -> None:
        self._relented.set()

    async def stand(self) -> None:
        self.met.set()
        while not self._relented.is_set():
            try:
                await self._relented.wait()
            except asyncio.CancelledError:
                continue


class HangingProvider:
    """What it does is the model's name: `mute`, `stubborn` (after some text), or `tool:NAME`, one call."""

    kind = "scripted"
    label = "hanging"
    metered = True

    def __init__(self, name: str = "hanging") -> None:
        self.name = name
        self.stubborn = Stubbornness()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        what, _, tool = request.model.partition(":")
        if what == "tool" and request.messages[-1].role is Role.USER:
            yield Answer(calls=(AnswerCall(tool, "{}"),))
        elif what == "tool":
            yield Answer(text="done")
        elif what == "stubborn":
            yield Delta(text="half a thou")
            await self.stubborn.stand()
            yield Answer(text="half a thought, late")
        else:
            await asyncio.Event().wait()

    async def models(self) -> tuple[ModelInfo, ...]:
        return ()

    async def info(self, model: str) -> ModelInfo:
        return ModelInfo(model, context_window=100_000, tools=True)

    async def close(self) -> None:
        await asyncio.Event().wait()


async def main(places: Places) -> None:
    provider = HangingProvider()
    swarm_options = SwarmOptions(providers={"hanging": provider})
    swarm_of = partial(running_swarm, options=swarm_options)
    async with own_workspace(places, swarm_of, on_hangup=lambda: None) as owner:
        for model in ("mute", "stubborn", "tool:hang"):
            await owner.api.create(model.replace(":", "-"), provider="hanging", model=model, start=False)
            await owner.api.send(model.replace(":", "-"), "go")
        await provider.stubborn.met.wait()
        async for view in owner.api.changes():
            if any(mysis.tool_calls for mysis in view.myses):
                break
        assert all(mysis.state is MysisState.RUNNING for mysis in (await owner.api.view()).myses)
        os.write(1, b"busy\n")
        await owner.ending.wait()


if __name__ == "__main__":
    data, config, runtime = (Path(argument) for argument in sys.argv[1:4])
    asyncio.run(main(Places(data=data, config=config, runtime=runtime)))
