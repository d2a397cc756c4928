"""Provider for Ollama's native API, with its own window, thinking and tools."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from zoea.llm.messages.message_rules import encode
from zoea.llm.model_table import parameters_in
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.providers.http_provider import HttpProvider, StreamDecoder
from zoea.llm.providers.ollama_format import WINDOW, OllamaStreamDecoder, body_of, uses_schema
from zoea.llm.providers.openai_stream import whole_number
from zoea.llm.transport.admission_gate import AdmissionGate
from zoea.llm.transport.cached_json import CachedFetch, fetch
from zoea.llm.transport.http_client import HttpClient
from zoea.model.enums import ToolMode
from zoea.model.ports import Clock
from zoea.model.request import ModelInfo, ModelRequest

BASE_URL = "http://127.0.0.1:11434"


class OllamaProvider(HttpProvider):
    kind = "ollama"
    path = "/api/chat"
    stream_type = "application/x-ndjson"

    def __init__(self, name: str, config: ProviderConfig, gate: AdmissionGate, http: HttpClient, clock: Clock) -> None:
        super().__init__(name, config, gate, http, clock)
        self._without_tools: set[str] = set()
        self._without_thinking: set[str] = set()
        self._shown: dict[str, CachedFetch[dict[str, Any]]] = {}

    def _form(self, request: ModelRequest, without_thinking: bool) -> bytes:
        model = self._model(request)
        without_thinking = without_thinking or model in self._without_thinking
        return encode(
            body_of(
                request, self._config, without_thinking=without_thinking, without_tools=model in self._without_tools
            )
        )

    def _decoder(self, request: ModelRequest) -> StreamDecoder:
        model = self._model(request)
        schema = uses_schema(request, self._config, model in self._without_tools)
        return OllamaStreamDecoder(self.name, model, is_structured=schema, secrets=self._secrets)

    def _learn(self, request: ModelRequest, without_thinking: bool, status: int, text: str) -> bool:
        model = self._model(request)
        if status != 400 or self._config.tool_mode is not ToolMode.AUTO or "does not support tools" not in text:
            return False
        known_before = model in self._without_tools
        self._without_tools.add(model)
        return not known_before

    def _refused_thinking(self, request: ModelRequest, text: str) -> None:
        if "does not support thinking" in text:
            self._without_thinking.add(self._model(request))

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
        found = await fetch(
            self._http, method, path, content, provider=self.name, clock=self._clock, secrets=self._secrets
        )
        return found if isinstance(found, dict) else {}


def headers(config: ProviderConfig) -> dict[str, str]:
    """Return the headers of every request; only hosted Ollama needs a key."""
    own = {"authorization": f"Bearer {config.api_key}"} if config.api_key else {}
    return {**own, **config.headers}
