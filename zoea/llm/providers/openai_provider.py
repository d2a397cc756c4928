"""Provider for OpenAI's chat completions, which many servers speak.

One provider for all: their differences are learnt from their refusals (`Trait`) and remembered per model,
never guessed from the address.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

from zoea.llm.messages.wire_bodies import Wire
from zoea.llm.model_table import complete_info, parameters_in
from zoea.llm.model_traits import Trait, Traits
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.providers.http_provider import HttpProvider, StreamDecoder
from zoea.llm.providers.llamacpp_props import is_llamacpp, read_props, with_props
from zoea.llm.providers.openai_request import body_of, forms_in, uses_schema
from zoea.llm.providers.openai_stream import ChatStreamDecoder, whole_number
from zoea.llm.transport.admission_gate import AdmissionGate
from zoea.llm.transport.cached_json import UNLISTED_FOR_US, CachedFetch, fetch, is_absent
from zoea.llm.transport.http_client import HttpClient
from zoea.model.enums import ToolMode
from zoea.model.errors import ProviderError
from zoea.model.ports import Clock
from zoea.model.request import ModelInfo, ModelRequest
from zoea.settings.endpoints import ProviderType

_log = logging.getLogger(__name__)


class OpenAIProvider(HttpProvider):
    kind: str = ProviderType.OPENAI
    path = "/chat/completions"
    wires: ClassVar[Mapping[Wire, str]] = {Wire.CHAT: "/chat/completions", Wire.RESPONSES: "/responses"}

    def __init__(self, name: str, config: ProviderConfig, gate: AdmissionGate, http: HttpClient, clock: Clock) -> None:
        super().__init__(name, config, gate, http, clock)
        self._listed = CachedFetch(clock, self._list, absent_us=UNLISTED_FOR_US)

    async def _prepare(self, request: ModelRequest) -> None:
        """Find out whether the server is a llama.cpp. It may drop tools silently, and reports its reading if asked."""
        drops_tools = bool(request.tools) and self._config.tool_mode is ToolMode.AUTO
        if not drops_tools and self._first_token_s(request.estimated_tokens) is None:
            return
        try:
            await self._listed.get()
        except ProviderError as error:
            _log.debug("%s tells nothing of its models: %s", self.name, error.what)

    def _traits(self, model: str) -> Traits:
        traits = super()._traits(model)
        listed = self._listed.value
        return traits | {Trait.NO_TOOLS} if listed is not None and listed.needs_schema else traits

    def _body(self, request: ModelRequest, without_thinking: bool) -> dict[str, Any]:
        traits, listed, config = self._traits(self._model(request)), self._listed.value, self._config
        if config.examples is None and listed is not None and listed.only is not None and listed.only.is_small:
            config = config.replace(examples=True)
        return body_of(
            request,
            config,
            provider=self.name,
            traits=traits,
            without_thinking=without_thinking,
            reports_reading=listed is not None and listed.only is not None,
        )

    def _decoder(self, request: ModelRequest) -> StreamDecoder:
        model = self._model(request)
        schema = uses_schema(self._config, self._traits(model), request)
        names = frozenset([tool.name for tool in request.tools]).union(request.other_tools)
        return ChatStreamDecoder(self.name, model, is_structured=schema, secrets=self.secrets, tools=names)

    def _forms(self, request: ModelRequest, without_thinking: bool) -> frozenset[str]:
        return forms_in(self._body(request, without_thinking), self._config.tool_mode)

    async def models(self) -> tuple[ModelInfo, ...]:
        """Fetch `/models`, with the details that the server adds. Not cached."""
        asked = CachedFetch(self._clock, self._list, absent_us=UNLISTED_FOR_US)
        listed = await asked.get()
        self._listed = asked
        return tuple(listed.by_name.values())

    async def _list(self) -> ModelListing:
        listing = await list_models(self._http, provider=self.name, clock=self._clock, secrets=self.secrets)
        if self._config.concurrency is None and listing.only is not None and listing.only.slots:
            self._gate.set_concurrency(listing.only.slots)
        return listing

    async def info(self, model: str) -> ModelInfo:
        """Return what settings, server or the table of well-known models say, in that order.

        A server without a list gives no details; the only model of one answers where none is named. Raises
        ProviderError if it refuses the key or cannot be reached.
        """
        model = model or self._config.model
        try:
            listed = (await self._listed.get_loaded()).of(model)
        except ProviderError as error:
            if not is_absent(error):
                raise
            listed = ModelInfo(model)
        tools = False if Trait.NO_TOOLS in super()._traits(model) else listed.tools
        info = complete_info(model, listed, self._config.context_window)
        return replace(info, tools=tools, parameters=listed.parameters or parameters_in(info.name))


# vLLM, OpenRouter, LM Studio and llama.cpp each say more than OpenAI's `/models` has
# room for, under keys of their own. llama.cpp says most in `/props`:
# https://github.com/ggml-org/llama.cpp/tree/master/tools/server

_WINDOWS = ("max_model_len", "loaded_context_length", "context_length", "max_context_length", "context_window")


class ModelListing(Struct, frozen=True):
    """A server's models by name.

    Attributes:
        only: The model of a llama.cpp server, which serves it under any name.
    """

    by_name: dict[str, ModelInfo] = field(default_factory=dict)
    only: ModelInfo | None = None

    def of(self, model: str) -> ModelInfo:
        """Return the details of a model; an unlisted model has none. Without a name it is the only one there is."""
        if not model and len(self.by_name) == 1:
            return next(iter(self.by_name.values()))
        return self.by_name.get(model) or self.only or ModelInfo(model)

    @property
    def needs_schema(self) -> bool:
        """Whether a llama.cpp drops tools, its template having none, or serves a small model.

        A small model tells of calls instead of making them, and makes them under a schema.
        """
        return self.only is not None and (self.only.tools is False or self.only.is_small)


async def list_models(http: HttpClient, *, provider: str, clock: Clock, secrets: tuple[str, ...]) -> ModelListing:
    """Fetch `/models`, and `/props` from llama.cpp. Raises ProviderError if there is no list."""
    reply = await fetch(http, "GET", "/models", provider=provider, clock=clock, secrets=secrets)
    entries = reply.get("data") if isinstance(reply, dict) else reply
    if not isinstance(entries, list):
        return ModelListing()
    models = [entry for entry in entries if isinstance(entry, dict) and entry.get("id")]
    infos = {info.name: info for info in map(_read, models)}
    if not is_llamacpp(models):
        return ModelListing(infos)
    (listed,) = infos.values()
    only = with_props(listed, models[0], await read_props(http, provider=provider, clock=clock, secrets=secrets))
    return ModelListing({only.name: only}, only)


def _read(entry: dict[str, Any]) -> ModelInfo:
    window = next((size for key in _WINDOWS if (size := whole_number(entry.get(key))) is not None), None)
    top = entry.get("top_provider")
    output = whole_number(top.get("max_completion_tokens")) if isinstance(top, dict) else None
    abilities = entry.get("supported_parameters") or entry.get("capabilities")
    tools = any(word in abilities for word in ("tools", "tool_use")) if isinstance(abilities, list) else None
    return ModelInfo(str(entry["id"]), window, output, tools)
