"""Provider for Ollama's native API, with its own window, thinking and tools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from zoea.llm.messages.message_rules import encode
from zoea.llm.messages.wire_bodies import Wire
from zoea.llm.model_table import parameters_in
from zoea.llm.model_traits import Trait
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.providers.http_provider import HttpProvider, StreamDecoder
from zoea.llm.providers.ollama_format import WINDOW, OllamaStreamDecoder, body_of
from zoea.llm.providers.openai_request import forms_in, uses_schema
from zoea.llm.providers.openai_stream import whole_number
from zoea.llm.transport.admission_gate import AdmissionGate
from zoea.llm.transport.cached_json import CachedFetch, fetch
from zoea.llm.transport.http_client import HttpClient
from zoea.model.ports import Clock
from zoea.model.request import ModelInfo, ModelRequest
from zoea.settings.endpoints import ProviderType


class OllamaProvider(HttpProvider):
    kind: str = ProviderType.OLLAMA
    address_tail = "/api"
    path = "/api/chat"
    wires: ClassVar[Mapping[Wire, str]] = {
        Wire.CHAT: "/v1/chat/completions",
        Wire.RESPONSES: "/v1/responses",
        Wire.MESSAGES: "/v1/messages",
    }
    stream_type = "application/x-ndjson"

    def __init__(self, name: str, config: ProviderConfig, gate: AdmissionGate, http: HttpClient, clock: Clock) -> None:
        super().__init__(name, config, gate, http, clock)
        self._shown: dict[str, CachedFetch[dict[str, Any]]] = {}

    def _body(self, request: ModelRequest, without_thinking: bool) -> dict[str, Any]:
        traits = self._traits(self._model(request))
        return body_of(request, self._config, traits=traits, without_thinking=without_thinking)

    def _forms(self, request: ModelRequest, without_thinking: bool) -> frozenset[str]:
        return forms_in(self._body(request, without_thinking), self._config.tool_mode)

    def _decoder(self, request: ModelRequest) -> StreamDecoder:
        model = self._model(request)
        schema = uses_schema(self._config, self._traits(model), request)
        return OllamaStreamDecoder(self.name, model, is_structured=schema, secrets=self.secrets)

    def _refused_thinking(self, request: ModelRequest, text: str) -> None:
        if "does not support thinking" in text:
            self.traits.learn(self._model(request), Trait.NO_THINKING, text)

    async def models(self) -> tuple[ModelInfo, ...]:
        """Fetch the pulled models, each with the details of `/api/show`."""
        tags = await self._fetch("GET", "/api/tags")
        names = [str(entry["name"]) for entry in tags.get("models") or ()]
        return tuple(await asyncio.gather(*(self.info(name) for name in names)))

    async def info(self, model: str) -> ModelInfo:
        """Return a model's details. The window is the one that requests ask for (`num_ctx`), at most the model's own.

        Ollama reserves memory for all of it, so that a model's whole window is used only if the settings ask for it.
        """
        model = model or self._config.model
        if model not in self._shown:
            self._shown[model] = CachedFetch(self._clock, partial(self._fetch, "POST", "/api/show", {"model": model}))
        shown = await self._shown[model].get()
        facts = shown.get("model_info") or {}
        length = whole_number(facts.get(f"{facts.get('general.architecture')}.context_length"))
        wanted = self._config.context_window or WINDOW
        abilities = shown.get("capabilities")
        tools = "tools" in abilities if isinstance(abilities, list) else None
        return ModelInfo(
            model,
            min(wanted, length) if length else wanted,
            tools=tools,
            parameters=whole_number(facts.get("general.parameter_count")) or parameters_in(model),
            takes_schema=True,
        )

    async def _fetch(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        content = None if body is None else encode(body)
        reply = await fetch(
            self._http, method, path, content, provider=self.name, clock=self._clock, secrets=self.secrets
        )
        return reply if isinstance(reply, dict) else {}
