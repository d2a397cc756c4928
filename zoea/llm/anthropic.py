"""Anthropic's messages API: prompt caching marks, signed thinking, its own roles."""

from __future__ import annotations

import re

from zoea.llm.anthropic_stream import MessageFold
from zoea.llm.anthropic_wire import Quirk, Quirks, body_of
from zoea.llm.attempt import Fold, HttpProvider
from zoea.llm.config import ProviderConfig
from zoea.llm.documents import Remembered, fetch
from zoea.llm.gate import Gate
from zoea.llm.http import Http
from zoea.llm.messages import encode
from zoea.llm.model_table import known
from zoea.llm.openai_stream import whole_number
from zoea.model.ports import Clock
from zoea.model.request import ModelInfo, ModelRequest

BASE_URL = "https://api.anthropic.com"
VERSION = "2023-06-01"
_UNSUPPORTED = re.compile(r"not supported|does not support|unsupported|not permitted|not available", re.IGNORECASE)


class AnthropicProvider(HttpProvider):
    kind = "anthropic"
    path = "/v1/messages"

    def __init__(self, name: str, config: ProviderConfig, gate: Gate, http: Http, clock: Clock) -> None:
        super().__init__(name, config, gate, http, clock)
        self._quirks: dict[str, Quirks] = {}
        self._listed = Remembered(clock, self._list)

    def _form(self, request: ModelRequest, plain: bool) -> bytes:
        quirks = self._quirks.get(self._model(request), frozenset())
        return encode(body_of(request, self._config, provider=self.name, quirks=quirks, plain=plain))

    def _fold(self, request: ModelRequest) -> Fold:
        return MessageFold(self.name, self._model(request), secrets=self._secrets)

    def _learn(self, request: ModelRequest, plain: bool, status: int, text: str) -> bool:
        if status != 400:
            return False
        if "temperature" in text.lower():
            return self._remember(request, Quirk.NO_TEMPERATURE)
        return False

    def _refused_thinking(self, request: ModelRequest, text: str) -> None:
        """A model that cannot think at all is not asked again; a lost signature is of one request only."""
        if _UNSUPPORTED.search(text):
            self._remember(request, Quirk.NO_THINKING)

    def _remember(self, request: ModelRequest, quirk: Quirk) -> bool:
        model = self._model(request)
        quirks = self._quirks.get(model, frozenset())
        self._quirks[model] = quirks | {quirk}
        return quirk not in quirks

    async def models(self) -> tuple[ModelInfo, ...]:
        """The vendor's list, asked anew each time."""
        self._listed = Remembered(self._clock, self._list)
        return tuple((await self._listed.get()).values())

    async def _list(self) -> dict[str, ModelInfo]:
        listed = await fetch(
            self._http, "GET", "/v1/models?limit=1000", provider=self.name, clock=self._clock, secrets=self._secrets
        )
        entries = listed.get("data") if isinstance(listed, dict) else None
        infos = tuple(
            ModelInfo(
                str(entry["id"]),
                whole_number(entry.get("max_input_tokens")),
                whole_number(entry.get("max_tokens")),
                True,
            )
            for entry in entries or ()
        )
        return {info.name: info for info in infos}

    async def info(self, model: str) -> ModelInfo:
        """What the settings, the vendor or the table of well-known models say, in that order."""
        listed = (await self._listed.get()).get(model, ModelInfo(model))
        table = known(model)
        window = self._config.context_window or listed.context_window or (table.context_window if table else None)
        output = listed.max_output or (table.max_output if table else None)
        return ModelInfo(model, window, output, listed.tools)


def headers(config: ProviderConfig) -> dict[str, str]:
    """What every request to this provider carries."""
    own = {"anthropic-version": VERSION}
    if config.api_key:
        own["x-api-key"] = config.api_key
    return {**own, **config.headers}
