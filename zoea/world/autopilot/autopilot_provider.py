"""Autopilot as a `Provider`: one instance serves all myses and keeps no state.

`decisions.build_answer` computes the answer from messages and tools; this module streams it.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from typing import Any

from zoea.model.enums import Finish
from zoea.model.ports import Clock
from zoea.model.request import Answer, Delta, ModelInfo, ModelRequest, StreamItem
from zoea.model.values import Usage
from zoea.world.autopilot.decisions import build_answer

MODEL = "autopilot"
_PIECE = re.compile(r"\S+\s*")


class AutopilotProvider:
    """Play Reef by rules; its label says that it is no model.

    Args:
        name: The provider's name in settings.
        clock: Clock for the pauses; without one there are none.
        pace: Seconds between streamed pieces; the request's option `pace` wins.
    """

    kind = "autopilot"
    label = "autopilot (no model)"
    metered = False

    def __init__(self, name: str = "autopilot", *, clock: Clock | None = None, pace: float = 0.02) -> None:
        self.name = name
        self._clock = clock
        self._pace = pace

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        """Yield reasoning, text and calls as deltas, then the `Answer`."""
        answer = build_answer(request.messages, request.tools)
        pace = _pace(request.options, self._pace)
        if pace > 0 and self._clock is not None:
            for kind, text in (("reasoning", answer.reasoning), ("text", answer.text)):
                for piece in _PIECE.findall(text):
                    await self._clock.sleep(round(pace * 1_000_000))
                    yield Delta(**{kind: piece})
        else:
            if answer.reasoning:
                yield Delta(reasoning=answer.reasoning)
            if answer.text:
                yield Delta(text=answer.text)
        for call in answer.calls:
            yield Delta(call=call.name)
        yield Answer(
            text=answer.text,
            reasoning=answer.reasoning,
            calls=answer.calls,
            usage=_usage(request, answer.text, answer.reasoning, "".join(c.name + c.arguments for c in answer.calls)),
            finish=Finish.CALLS if answer.calls else Finish.STOP,
            model=MODEL,
        )

    async def models(self) -> tuple[ModelInfo, ...]:
        return (await self.info(MODEL),)

    async def info(self, model: str) -> ModelInfo:
        return ModelInfo(name=model or MODEL, context_window=128_000, max_output=4_096, tools=True)

    async def close(self) -> None:
        """Do nothing, because nothing is open."""


def _pace(options: dict[str, Any], default: float) -> float:
    pace = options.get("pace", default)
    return float(pace) if isinstance(pace, int | float) else default


def _usage(request: ModelRequest, *written: str) -> Usage:
    """Estimate usage at four characters per token, because there is no tokenizer. It costs nothing."""
    read = sum(
        len(message.content)
        + len(message.reasoning)
        + sum(len(call.name) + len(call.arguments) for call in message.calls)
        for message in request.messages
    )
    read += sum(len(tool.name) + len(tool.description) + len(json.dumps(tool.input_schema)) for tool in request.tools)
    return Usage(input_tokens=-(-read // 4), output_tokens=-(-sum(map(len, written)) // 4), cost_micros=0)
