"""Why an upstream could not be opened, in a sentence that holds none of its secrets."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from zoea.tools.upstream.upstream_config import UpstreamConfig

HIDDEN = "‹hidden›"
MAX_CHARS = 300
_SHORTEST_SECRET = 6


def reason_of(error: BaseException, config: UpstreamConfig) -> str:
    """The innermost cause, as a person or a model may read it."""
    leaf = _leaf(error)
    match leaf:
        case FileNotFoundError() | NotADirectoryError() if config.command:
            text = f"cannot run {config.command}: not found"
        case PermissionError() if config.command:
            text = f"cannot run {config.command}: not allowed"
        case TimeoutError():
            text = f"it did not open within {config.start_timeout:g} s"
        case _ if str(leaf) == "Connection closed" and config.command:
            text = f"its process ended while it was opening; see upstream-{config.name}.log"
        case _:
            text = str(leaf) or type(leaf).__name__
    return redacted(text, config)[:MAX_CHARS]


def redacted(text: str, config: UpstreamConfig) -> str:
    """The text without the values of the upstream's environment, headers, password and query."""
    for secret in _secrets(config):
        text = text.replace(secret, HIDDEN)
    return text


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _secrets(config: UpstreamConfig) -> Iterator[str]:
    values = [*config.env.values(), *config.headers.values()]
    values += [part for value in config.headers.values() for part in value.split()]
    if config.url:
        parts = urlsplit(config.url)
        values += [parts.query, parts.password or ""]
    return (value for value in sorted(set(values), key=len, reverse=True) if len(value) >= _SHORTEST_SECRET)
