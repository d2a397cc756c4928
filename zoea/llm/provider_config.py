"""What a provider is made from: its settings with the values of their references."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from pydantic import ConfigDict, Field

from zoea.model.errors import SettingsError
from zoea.settings.credentials import Credentials
from zoea.settings.endpoints import ProviderSettings
from zoea.settings.schema import LlmSettings

AUTOMATIC_CONCURRENCY: int = ProviderSettings.model_fields["concurrency"].default
SLOW_READING = 200
"""Tokens a second below which requests to a server of this machine go one after another: each waits less so."""
_SECRET_NAME = re.compile(r"(?i)auth|key|token|secret|cookie|pass")
_SHORTEST_SECRET = 6
"""Shorter values of headers occur in texts by chance."""


class Timeouts(Struct, frozen=True):
    """Deadlines in seconds. `first` counts from sending to the first byte of the body."""

    connect: float = 10.0
    first: float = LlmSettings().timeout
    between: float = LlmSettings().between_tokens


class ProviderConfig(ProviderSettings):
    """One provider. Its header and key are the secrets themselves; never shown, never logged.

    Attributes:
        concurrency: Requests under way at once; also the most that start within 100 ms. None is automatic: the slots
            of a llama.cpp server, one where it reads slowly, and `AUTOMATIC_CONCURRENCY` elsewhere.
        examples: Whether a model whose answers are held to a schema is shown how its tools are called;
            None is what suits: yes for `embedded` and small models of a llama.cpp server, no for all others.
        hidden: Secrets of the headers, the longest first, which no error shows.
        label: What fronts show; the name by default.
        metered: False where its tokens count against no budget.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    api_key: str = Field("", repr=False)
    headers: Mapping[str, str] = Field({}, repr=False)  # type: ignore[assignment]  # the values are resolved here
    hidden: tuple[str, ...] = Field((), repr=False)
    concurrency: int | None = 32  # type: ignore[assignment]  # without the words of the settings
    examples: bool | None = None
    timeouts: Timeouts = Timeouts()
    label: str = ""
    metered: bool = True

    def __init__(self, type: str, **values: Any) -> None:
        super().__init__(**{"type": type, **values})

    def replace(self, **changes: Any) -> ProviderConfig:
        """Return a copy of the configuration with changed values, which are not validated."""
        return self.model_copy(update=changes)


def resolve_provider(settings: ProviderSettings, credentials: Credentials, llm: LlmSettings) -> ProviderConfig:
    """Return a provider's configuration, with the values of its references.

    The option `examples` is Zoea's own and is not sent; see `ProviderConfig`.

    Raises:
        SettingsError: A reference has no value, or `examples` is neither true nor false.
    """
    values = {key: getattr(settings, key) for key in type(settings).model_fields}
    options = dict(settings.options)
    examples = options.pop("examples", None)
    if not isinstance(examples, bool | None):
        raise SettingsError(
            f"the option examples is {json.dumps(examples)}", hint="Set it to true or false, or leave it out."
        )
    headers = {key: credentials.fill(text).get_secret_value() for key, text in settings.headers.items()}
    hidden = [value for text in settings.headers.values() for value in credentials.values_in(text)]
    hidden += [text.rpartition(" ")[2] for key, text in headers.items() if _SECRET_NAME.search(key)]
    values |= {
        "api_key": credentials.resolve(settings.api_key).get_secret_value() if settings.api_key else "",
        "headers": headers,
        "concurrency": None if settings.is_concurrency_automatic else settings.concurrency,
        "options": options,
        "hidden": tuple(sorted((one for one in hidden if len(one) >= _SHORTEST_SECRET), key=len, reverse=True)),
    }
    timeouts = Timeouts(first=llm.timeout, between=llm.between_tokens)
    return ProviderConfig(**values, examples=examples, timeouts=timeouts)


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine; one that cannot be read is not."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host in ("localhost", "::1") or host.startswith("127.") or host.endswith(".localhost")
