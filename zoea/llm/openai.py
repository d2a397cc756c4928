"""Any server that speaks OpenAI's chat completions: OpenAI, OpenRouter, vLLM, llama.cpp, LM Studio, …

One provider for all of them: what they differ in is learnt from their refusals
(`Quirk`) and remembered per model, never guessed from their address.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from zoea.llm.attempt import Fold, HttpProvider
from zoea.llm.config import ProviderConfig
from zoea.llm.documents import Remembered, fetch
from zoea.llm.gate import Gate
from zoea.llm.http import Http
from zoea.llm.messages import encode
from zoea.llm.model_table import known
from zoea.llm.openai_stream import ChatFold, whole_number
from zoea.llm.openai_wire import Quirk, Quirks, body_of, quirk_in, uses_schema
from zoea.model.errors import ProviderError
from zoea.model.ports import Clock
from zoea.model.request import ModelInfo, ModelRequest
from zoea.model.words import ErrorClass

BASE_URL = "https://api.openai.com/v1"


class OpenAIProvider(HttpProvider):
    kind = "openai"
    path = "/chat/completions"

    def __init__(self, name: str, config: ProviderConfig, gate: Gate, http: Http, clock: Clock) -> None:
        super().__init__(name, config, gate, http, clock)
        self._quirks: dict[str, Quirks] = {}
        self._listed = Remembered(clock, self._list)

    def _form(self, request: ModelRequest, plain: bool) -> bytes:
        return encode(self._body(request, plain))

    def _body(self, request: ModelRequest, plain: bool) -> dict[str, Any]:
        quirks = self._quirks.get(self._model(request), frozenset())
        return body_of(request, self._config, provider=self.name, quirks=quirks, plain=plain)

    def _fold(self, request: ModelRequest) -> Fold:
        model = self._model(request)
        schema = uses_schema(self._config, self._quirks.get(model, frozenset()), request)
        return ChatFold(self.name, model, is_structured=schema, secrets=self._secrets)

    def _learn(self, request: ModelRequest, plain: bool, status: int, text: str) -> bool:
        model = self._model(request)
        quirks = self._quirks.get(model, frozenset())
        found = quirk_in(status, text, self._body(request, plain), quirks, self._config.tool_mode)
        if found is None:
            return False
        self._quirks[model] = quirks | {found}
        return True

    async def models(self) -> tuple[ModelInfo, ...]:
        """`/models`, with what the server tells beyond the names; asked anew each time."""
        self._listed = Remembered(self._clock, self._list)
        return tuple((await self._listed.get()).values())

    async def _list(self) -> dict[str, ModelInfo]:
        listed = await fetch(self._http, "GET", "/models", provider=self.name, clock=self._clock, secrets=self._secrets)
        entries = listed.get("data") if isinstance(listed, dict) else listed
        infos = [await self._read(entry) for entry in entries or () if isinstance(entry, dict) and entry.get("id")]
        return {info.name: info for info in infos}

    async def info(self, model: str) -> ModelInfo:
        """What the settings, the server or the table of well-known models say, in that order.

        A server that keeps no list says nothing; one that refuses the key, or is not there, raises.
        """
        try:
            listed = (await self._listed.get()).get(model, ModelInfo(model))
        except ProviderError as error:
            if error.kind not in (ErrorClass.MODEL_MISSING, ErrorClass.BAD_REQUEST):
                raise
            listed = ModelInfo(model)
        table = known(model)
        window = self._config.context_window or listed.context_window or (table.context_window if table else None)
        output = listed.max_output or (table.max_output if table else None)
        quirks = self._quirks.get(model, frozenset())
        return ModelInfo(model, window, output, False if Quirk.NO_TOOLS in quirks else listed.tools)

    async def _read(self, entry: dict[str, Any]) -> ModelInfo:
        """One entry of the list: vLLM, OpenRouter, LM Studio and llama.cpp each say more than OpenAI."""
        window = next(
            (size for key in _WINDOWS if (size := whole_number(entry.get(key))) is not None),
            None,
        )
        if entry.get("owned_by") == "llamacpp":
            window = await self._props() or window
        top = entry.get("top_provider") or {}
        abilities = entry.get("supported_parameters") or entry.get("capabilities")
        tools = None
        if isinstance(abilities, list):
            tools = any(word in abilities for word in ("tools", "tool_use"))
        return ModelInfo(str(entry["id"]), window, whole_number(top.get("max_completion_tokens")), tools)

    async def _props(self) -> int | None:
        """The window that a llama.cpp server runs with: less than the model was trained for, often."""
        parts = urlsplit(self._http.base_url)
        root = f"{parts.scheme}://{parts.netloc}{parts.path.removesuffix('/v1')}"
        try:
            props = await fetch(
                self._http, "GET", f"{root}/props", provider=self.name, clock=self._clock, secrets=self._secrets
            )
        except ProviderError:
            return None  # a proxy may hide it; the window is then unknown, not wrong
        settings = props.get("default_generation_settings") if isinstance(props, dict) else None
        return whole_number(settings.get("n_ctx")) if isinstance(settings, dict) else None


_WINDOWS = ("max_model_len", "loaded_context_length", "context_length", "max_context_length", "context_window")


def headers(config: ProviderConfig) -> dict[str, str]:
    """What every request to this provider carries."""
    own = {"authorization": f"Bearer {config.api_key}"} if config.api_key else {}
    return {**own, **config.headers}
