"""Reads the properties of a llama.cpp server from `/props`.

Source: https://github.com/ggml-org/llama.cpp/tree/master/tools/server
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from zoea.llm.providers.openai_stream import whole_number
from zoea.llm.transport.cached_json import fetch
from zoea.llm.transport.http_client import HttpClient
from zoea.model.errors import ProviderError
from zoea.model.ports import Clock
from zoea.model.request import ModelInfo

_LLAMACPP = "llamacpp"


async def read_props(http: HttpClient, *, provider: str, clock: Clock, secrets: tuple[str, ...]) -> dict[str, Any]:
    """Fetch llama.cpp's `/props`. Empty where a proxy hides it, so that its values are unknown, not wrong."""
    parts = urlsplit(http.base_url)
    url = f"{parts.scheme}://{parts.netloc}{parts.path.removesuffix('/v1')}/props"
    try:
        props = await fetch(http, "GET", url, provider=provider, clock=clock, secrets=secrets)
    except ProviderError:
        return {}
    return props if isinstance(props, dict) else {}


def is_llamacpp(entries: Sequence[dict[str, Any]]) -> bool:
    """Return whether a list of models is that of a llama.cpp server. It serves one model under any name."""
    return len(entries) == 1 and entries[0].get("owned_by") == _LLAMACPP


def with_props(listed: ModelInfo, entry: dict[str, Any], props: dict[str, Any]) -> ModelInfo:
    """Add the server's window, slots and tool support, and the size of its model.

    Its window is often smaller than the model's.
    """
    meta = entry.get("meta")
    running = props.get("default_generation_settings")
    window = whole_number(running.get("n_ctx")) if isinstance(running, dict) else None
    caps = props.get("chat_template_caps")
    tools = caps.get("supports_tools") if isinstance(caps, dict) else None
    return replace(
        listed,
        context_window=window or listed.context_window,
        tools=tools if isinstance(tools, bool) else listed.tools,
        slots=whole_number(props.get("total_slots")),
        parameters=whole_number(meta.get("n_params")) if isinstance(meta, dict) else None,
        takes_schema=True,
    )
