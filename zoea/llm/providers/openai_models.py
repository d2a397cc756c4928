"""What a compatible server tells of its models: their names always, windows and abilities sometimes.

vLLM, OpenRouter, LM Studio and llama.cpp each say more than OpenAI's `/models` has
room for, under keys of their own. llama.cpp says most in `/props`:
https://github.com/ggml-org/llama.cpp/tree/master/tools/server
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from zoea.llm.providers.openai_stream import whole_number
from zoea.llm.transport.cached_json import fetch
from zoea.llm.transport.http_client import HttpClient
from zoea.model.errors import ProviderError
from zoea.model.ports import Clock
from zoea.model.request import ModelInfo

_WINDOWS = ("max_model_len", "loaded_context_length", "context_length", "max_context_length", "context_window")
_LLAMACPP = "llamacpp"


@dataclass(frozen=True, slots=True)
class Listed:
    """A server's models by name. `only` is the one that llama.cpp serves, whatever name it is asked for by."""

    by_name: dict[str, ModelInfo] = field(default_factory=dict)
    only: ModelInfo | None = None

    def of(self, model: str) -> ModelInfo:
        """What is told of a model; of one that is not listed, nothing."""
        return self.by_name.get(model) or self.only or ModelInfo(model)

    @property
    def drops_tools(self) -> bool:
        """True of a llama.cpp whose chat template has no place for tools: it leaves them out and says nothing."""
        return self.only is not None and self.only.tools is False


async def list_models(http: HttpClient, *, provider: str, clock: Clock, secrets: tuple[str, ...]) -> Listed:
    """`/models`, and `/props` where it is llama.cpp that answers. Raises ProviderError where there is no list."""
    told = await fetch(http, "GET", "/models", provider=provider, clock=clock, secrets=secrets)
    entries = told.get("data") if isinstance(told, dict) else told
    if not isinstance(entries, list):
        return Listed()
    found = [entry for entry in entries if isinstance(entry, dict) and entry.get("id")]
    infos = {info.name: info for info in map(_read, found)}
    if len(found) != 1 or found[0].get("owned_by") != _LLAMACPP:
        return Listed(infos)
    try:
        props = await fetch(http, "GET", _root(http) + "/props", provider=provider, clock=clock, secrets=secrets)
    except ProviderError:
        props = None  # a proxy may hide it; window and tools are then unknown, not wrong
    (listed,) = infos.values()
    only = _with_props(listed, props if isinstance(props, dict) else {})
    return Listed({only.name: only}, only)


def _read(entry: dict[str, Any]) -> ModelInfo:
    window = next((size for key in _WINDOWS if (size := whole_number(entry.get(key))) is not None), None)
    top = entry.get("top_provider")
    output = whole_number(top.get("max_completion_tokens")) if isinstance(top, dict) else None
    abilities = entry.get("supported_parameters") or entry.get("capabilities")
    tools = any(word in abilities for word in ("tools", "tool_use")) if isinstance(abilities, list) else None
    return ModelInfo(str(entry["id"]), window, output, tools)


def _with_props(listed: ModelInfo, props: dict[str, Any]) -> ModelInfo:
    """The window that the server runs with (less than the model was trained for, often), and its template's tools."""
    running = props.get("default_generation_settings")
    window = whole_number(running.get("n_ctx")) if isinstance(running, dict) else None
    caps = props.get("chat_template_caps")
    tools = caps.get("supports_tools") if isinstance(caps, dict) else None
    return ModelInfo(
        listed.name,
        window or listed.context_window,
        listed.max_output,
        tools if isinstance(tools, bool) else listed.tools,
    )


def _root(http: HttpClient) -> str:
    parts = urlsplit(http.base_url)
    return f"{parts.scheme}://{parts.netloc}{parts.path.removesuffix('/v1')}"
