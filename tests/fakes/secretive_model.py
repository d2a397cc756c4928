"""A provider whose answers write a secret: into an argument, its text, its reasoning and its own blocks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

from zoea.model.enums import Role
from zoea.model.request import Answer, AnswerCall, Delta, ModelInfo, ModelRequest, StreamItem
from zoea.model.values import Native


class SecretiveModel:
    """Calls `unlock` with the secret first, then with the mark it sees, then ends. Keeps its requests.

    With `breaks_off` it streams the secret in pieces, whole and cut, and never ends that answer.
    """

    breaks_off = False

    kind = "scripted"
    label = "secretive"
    metered = False

    def __init__(self, secret: str, name: str = "secretive") -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self.has_streamed = asyncio.Event()
        self._secret = secret

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        self.requests.append(request)
        if self.breaks_off:
            said = f"It is {self._secret}, I say, {self._secret[:-3]}"
            for start in range(0, len(said), 4):
                yield Delta(text=said[start : start + 4], reasoning=said[start : start + 4])
            self.has_streamed.set()
            await asyncio.Event().wait()
        seen = [call.arguments for message in request.messages for call in message.calls]
        if request.messages[-1].role is Role.TOOL and len(seen) > 1:
            yield Answer(text="Unlocked twice.")
            return
        password = json.loads(seen[0])["password"] if seen else self._secret
        call = AnswerCall("unlock", json.dumps({"user": "me", "password": password}), f"call-{len(seen)}")
        yield Delta(text="I unlock it.")
        yield Answer(
            text=f"I unlock it with {password}.",
            reasoning=f"The password is {password}",
            calls=(call,),
            native=Native(self.name, request.model, json.dumps([{"input": {"password": password}}])),
        )

    async def models(self) -> tuple[ModelInfo, ...]:
        return ()

    async def info(self, model: str) -> ModelInfo:
        return ModelInfo(model, context_window=100_000, tools=True)

    async def close(self) -> None:
        return None
