"""Values that a provider is made from, with secrets already resolved.

`llm/registry.py` fills them from the settings, so that providers do not depend on the settings' form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from zoea.model.enums import ToolMode

AUTOMATIC_CONCURRENCY = 8
SLOW_READING = 200
"""Tokens a second below which requests to a server of this machine go one after another: each waits less so."""


class Timeouts(Struct, frozen=True):
    """Deadlines in seconds. `first` counts from sending to the first byte of the body."""

    connect: float = 10.0
    first: float = 120.0
    between: float = 60.0


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """One provider of the settings.

    Args:
        type: What it speaks: `openai`, `anthropic`, `ollama`, or a name whose maker `runtime/` hands in.
        base_url: With the version part where the vendor has one (`https://api.openai.com/v1`);
            empty for the vendor's own.
        api_key: The secret itself; never shown, never logged.
        model: Used where a request names none.
        headers: Sent with every request, after Zoea's own.
        concurrency: Requests under way at once; also the most that start within 100 ms. None is automatic: the slots
            of a llama.cpp server, one where it reads slowly, and `AUTOMATIC_CONCURRENCY` elsewhere.
        rate: Requests a second, or None.
        context_window: Replaces what the provider says; Ollama is asked for it, at most for the model's own.
        thinking: None leaves it to the model; a bool, a word (`low`, `adaptive`, …) or a number of tokens.
        tool_mode: How tools are offered. `AUTO` begins with the provider's own means and changes to a JSON schema
            for the answer when the server refuses tools.
        examples: Whether a model whose answers are held to a schema is shown how its tools are called;
            None is what suits: yes for `embedded` and small models of a llama.cpp server, no for all others.
        options: Merged into the body of every request, as they are.
        label: What fronts show; the name by default.
        metered: False where its tokens count against no budget.
    """

    type: str
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    model: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    concurrency: int | None = 32
    rate: float | None = None
    context_window: int | None = None
    temperature: float | None = None
    thinking: bool | int | str | None = None
    tool_mode: ToolMode = ToolMode.AUTO
    examples: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    timeouts: Timeouts = field(default_factory=Timeouts)
    label: str = ""
    metered: bool = True


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine; one that cannot be read is not."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host in ("localhost", "::1") or host.startswith("127.") or host.endswith(".localhost")
