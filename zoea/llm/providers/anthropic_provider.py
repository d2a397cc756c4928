"""Provider for Anthropic's messages API: cache marks, signed thinking, its own roles.

The API has no schema for answers, which small models need to call tools. A llama.cpp server that serves one speaks
chat completions too, so requests with tools go there.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar

from zoea.llm.messages.wire_bodies import Wire
from zoea.llm.model_table import complete_info
from zoea.llm.model_traits import Trait
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.providers.anthropic_request import body_of, forms_in
from zoea.llm.providers.anthropic_stream import MessageStreamDecoder
from zoea.llm.providers.http_provider import HttpProvider, StreamDecoder
from zoea.llm.providers.llamacpp_props import is_llamacpp, read_props, with_props
from zoea.llm.providers.openai_provider import OpenAIProvider
from zoea.llm.providers.openai_stream import whole_number
from zoea.llm.transport.admission_gate import AdmissionGate
from zoea.llm.transport.cached_json import UNLISTED_FOR_US, CachedFetch, fetch, is_absent
from zoea.llm.transport.http_client import HttpClient
from zoea.model.enums import ToolMode
from zoea.model.errors import ProviderError
from zoea.model.ports import Clock
from zoea.model.request import ModelInfo, ModelRequest, StreamItem
from zoea.settings.endpoints import ProviderType

_log = logging.getLogger(__name__)
VERSION = "2023-06-01"
_UNSUPPORTED = re.compile(r"not supported|does not support|unsupported|not permitted|not available", re.IGNORECASE)


class AnthropicProvider(HttpProvider):
    kind: str = ProviderType.ANTHROPIC
    address_tail = "/v1"
    path = "/v1/messages"
    wires: ClassVar[Mapping[Wire, str]] = {Wire.MESSAGES: "/v1/messages"}
    has_schema_mode = False

    def __init__(self, name: str, config: ProviderConfig, gate: AdmissionGate, http: HttpClient, clock: Clock) -> None:
        super().__init__(name, config, gate, http, clock)
        self._listed = CachedFetch(clock, self._list, absent_us=UNLISTED_FOR_US)
        self._chat: OpenAIProvider | None = None
        self._is_llamacpp = False
        self._is_small = False
        """Whether a llama.cpp server serves a small model or one without tools; known once the list is."""

    @classmethod
    def own_headers(cls, config: ProviderConfig) -> dict[str, str]:
        return {"anthropic-version": VERSION} | ({"x-api-key": config.api_key} if config.api_key else {})

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        """See `Provider.stream`."""
        answer = super().stream(request)
        if await self._needs_chat(request):
            if self._chat is None:  # for the chat completions of the same server
                config = self._config.replace(base_url=f"{self._http.base_url}/v1")
                self._chat = OpenAIProvider.open(self.name, config, self._clock, self._gate)
            answer = self._chat.stream(request)
        async with aclosing(answer) as items:
            async for item in items:
                yield item

    async def _needs_chat(self, request: ModelRequest) -> bool:
        """Return whether calls need a schema and the server is a llama.cpp, which has one."""
        mode = self._config.tool_mode
        if not request.tools or mode is ToolMode.NATIVE or self._http.base_url == ProviderType.ANTHROPIC.address:
            return False
        try:
            await self._listed.get()
        except ProviderError as error:
            _log.debug("%s tells nothing of its models: %s", self.name, error.what)
        return self._is_llamacpp and (self._is_small or mode is ToolMode.JSON_SCHEMA)

    def _has_text_calls(self, request: ModelRequest) -> bool:
        """Return whether the model is told to call tools as text."""
        return bool(request.tools) and self._config.tool_mode is ToolMode.JSON_SCHEMA

    def _body(self, request: ModelRequest, without_thinking: bool) -> dict[str, Any]:
        return body_of(
            request,
            self._config,
            provider=self.name,
            traits=self._traits(self._model(request)),
            without_thinking=without_thinking,
            has_text_calls=self._has_text_calls(request),
        )

    def _forms(self, request: ModelRequest, without_thinking: bool) -> frozenset[str]:
        return forms_in(self._body(request, without_thinking))

    def _decoder(self, request: ModelRequest) -> StreamDecoder:
        return MessageStreamDecoder(
            self.name, self._model(request), has_text_calls=self._has_text_calls(request), secrets=self.secrets
        )

    def _refused_thinking(self, request: ModelRequest, text: str) -> None:
        """Remember a model that cannot think. A lost signature concerns one request only."""
        if _UNSUPPORTED.search(text):
            self.traits.learn(self._model(request), Trait.NO_THINKING, text)

    async def models(self) -> tuple[ModelInfo, ...]:
        """Fetch the vendor's list. Not cached."""
        asked = CachedFetch(self._clock, self._list, absent_us=UNLISTED_FOR_US)
        listed = await asked.get()
        self._listed = asked
        return tuple({info.name: info for info in listed.values()}.values())

    async def _list(self) -> dict[str, ModelInfo]:
        """Fetch the models. From a llama.cpp server, which speaks this API too, also what it runs with."""
        reply = await fetch(
            self._http, "GET", "/v1/models?limit=1000", provider=self.name, clock=self._clock, secrets=self.secrets
        )
        entries = reply.get("data") if isinstance(reply, dict) else None
        models = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        infos = {info.name: info for info in (_read(entry) for entry in models if entry.get("id"))}
        if len(infos) != 1 or not is_llamacpp(models):
            return infos
        (listed,) = infos.values()
        props = await read_props(self._http, provider=self.name, clock=self._clock, secrets=self.secrets)
        only = with_props(listed, models[0], props)
        self._is_llamacpp = True
        self._is_small = only.tools is False or only.is_small
        if self._config.concurrency is None and only.slots:
            self._gate.set_concurrency(only.slots)
        return {only.name: only, "": only}

    async def info(self, model: str) -> ModelInfo:
        """Return what settings, vendor or the table of well-known models say, in that order.

        A compatible server without a list gives no details. Raises ProviderError if it refuses the key or is not there.
        """
        model = model or self._config.model
        try:
            infos = await self._listed.get_loaded()
            listed = infos.get(model) or infos.get("", ModelInfo(model))
        except ProviderError as error:
            if not is_absent(error):
                raise
            listed = ModelInfo(model)
        return complete_info(model, listed, self._config.context_window)

    async def close(self) -> None:
        await super().close()
        if self._chat is not None:
            await self._chat.close()


def _read(entry: dict[str, Any]) -> ModelInfo:
    window, output = whole_number(entry.get("max_input_tokens")), whole_number(entry.get("max_tokens"))
    return ModelInfo(str(entry["id"]), window, output, True)
