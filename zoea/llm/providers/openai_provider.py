"""Any server that speaks OpenAI's chat completions: OpenAI, OpenRouter, vLLM, llama.cpp, LM Studio, …

One provider for all of them: what they differ in is learnt from their refusals
(`Quirk`) and remembered per model, never guessed from their address.
"""

from __future__ import annotations

import logging
from typing import Any

from zoea.llm.messages.message_rules import encode
from zoea.llm.model_table import known
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.providers.http_provider import Fold, HttpProvider
from zoea.llm.providers.openai_models import Listed, list_models
from zoea.llm.providers.openai_request import Quirk, Quirks, body_of, quirk_in, uses_schema
from zoea.llm.providers.openai_stream import ChatFold
from zoea.llm.transport.admission_gate import Gate
from zoea.llm.transport.cached_json import UNLISTED_FOR_US, Remembered, is_absent
from zoea.llm.transport.http_client import HttpClient
from zoea.model.enums import ToolMode
from zoea.model.errors import ProviderError
from zoea.model.ports import Clock
from zoea.model.request import ModelInfo, ModelRequest

_log = logging.getLogger(__name__)
BASE_URL = "https://api.openai.com/v1"


class OpenAIProvider(HttpProvider):
    kind = "openai"
    path = "/chat/completions"

    def __init__(self, name: str, config: ProviderConfig, gate: Gate, http: HttpClient, clock: Clock) -> None:
        super().__init__(name, config, gate, http, clock)
        self._quirks: dict[str, Quirks] = {}
        self._listed = Remembered(clock, self._list, absent_us=UNLISTED_FOR_US)

    async def _prepare(self, request: ModelRequest) -> None:
        """Before tools go out natively: whether this is a llama.cpp that would drop them without a word."""
        if not request.tools or self._config.tool_mode is not ToolMode.AUTO:
            return
        try:
            await self._listed.get()
        except ProviderError as error:
            _log.debug("%s tells nothing of its models: %s", self.name, error.what)

    def _quirks_of(self, model: str) -> Quirks:
        quirks = self._quirks.get(model, frozenset())
        listed = self._listed.value
        return quirks | {Quirk.NO_TOOLS} if listed is not None and listed.drops_tools else quirks

    def _form(self, request: ModelRequest, plain: bool) -> bytes:
        return encode(self._body(request, plain))

    def _body(self, request: ModelRequest, plain: bool) -> dict[str, Any]:
        quirks = self._quirks_of(self._model(request))
        return body_of(request, self._config, provider=self.name, quirks=quirks, plain=plain)

    def _fold(self, request: ModelRequest) -> Fold:
        model = self._model(request)
        schema = uses_schema(self._config, self._quirks_of(model), request)
        return ChatFold(self.name, model, is_structured=schema, secrets=self._secrets)

    def _learn(self, request: ModelRequest, plain: bool, status: int, text: str) -> bool:
        model = self._model(request)
        quirks = self._quirks_of(model)
        found = quirk_in(status, text, self._body(request, plain), quirks, self._config.tool_mode)
        if found is None:
            return False
        self._quirks[model] = quirks | {found}
        return True

    async def models(self) -> tuple[ModelInfo, ...]:
        """`/models`, with what the server tells beyond the names; asked anew each time."""
        asked = Remembered(self._clock, self._list, absent_us=UNLISTED_FOR_US)
        listed = await asked.get()
        self._listed = asked
        return tuple(listed.by_name.values())

    async def _list(self) -> Listed:
        return await list_models(self._http, provider=self.name, clock=self._clock, secrets=self._secrets)

    async def info(self, model: str) -> ModelInfo:
        """What the settings, the server or the table of well-known models say, in that order.

        A server that keeps no list says nothing; one that refuses the key, or is not there, raises.
        """
        try:
            listed = (await self._listed.get()).of(model)
        except ProviderError as error:
            if not is_absent(error):
                raise
            listed = ModelInfo(model)
        table = known(model)
        window = self._config.context_window or listed.context_window or (table.context_window if table else None)
        output = listed.max_output or (table.max_output if table else None)
        tools = False if Quirk.NO_TOOLS in self._quirks_of(model) else listed.tools
        return ModelInfo(model, window, output, tools)


def headers(config: ProviderConfig) -> dict[str, str]:
    """What every request to this provider carries."""
    own = {"authorization": f"Bearer {config.api_key}"} if config.api_key else {}
    return {**own, **config.headers}
