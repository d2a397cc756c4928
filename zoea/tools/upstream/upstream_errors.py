"""Failures of upstreams: calls without a result, and reasons without secrets.

Apart from the SDK, so that importing it costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from urllib.parse import urlsplit

from zoea.text import redact
from zoea.tools.secret_arguments import is_odd, is_secret_name
from zoea.tools.secret_forms import find_forms, replace_form
from zoea.tools.upstream.unreadable_answer import MISMATCHED, UNREADABLE
from zoea.tools.upstream.upstream_config import UpstreamConfig

HIDDEN = "‹hidden›"
MAX_CHARS = 300
UNTRUSTED = -32093
"""Code of a request that was not sent, because the server's certificate is not trusted."""
WRONG = -32092
"""Code of a request that the server answered with a status of 400 to 499, other than those that ask to wait."""
_PERMANENT = (FileNotFoundError, PermissionError, NotADirectoryError, ValueError)
_SHORTEST_SECRET = 6
_SHORTEST_LINE = 16


class CallOutcome(StrEnum):
    """How far a failed call came."""

    NOT_SENT = "not sent"
    SESSION_GONE = "session gone"
    BROKEN = "broken"
    ANSWERED = "answered"
    UNREADABLE = "unreadable"


class CallFailure(Exception):
    """A call without a result.

    `NOT_SENT` and `SESSION_GONE` mean that the server did nothing; `BROKEN` that this is
    unknown; `ANSWERED` that it refused, for the reason in `text`; `UNREADABLE` that it answered,
    but with something that is no result of this call.
    """

    def __init__(self, outcome: CallOutcome, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome
        self.text = text

    @property
    def did_nothing(self) -> bool:
        """True if the server certainly did not carry the call out."""
        return self.outcome in (CallOutcome.NOT_SENT, CallOutcome.SESSION_GONE)


def is_permanent(error: Exception, *, was_open: bool) -> bool:
    """Return whether a session that failed to open would fail again at once.

    Args:
        was_open: The server spoke MCP before, so that another answer is probably that of its restart.
    """
    code = getattr(_innermost(error), "code", None)
    is_other = code in (WRONG, UNREADABLE, MISMATCHED) and not was_open
    return isinstance(error, _PERMANENT) or code == UNTRUSTED or is_other


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def describe_failure(error: BaseException, config: UpstreamConfig) -> str:
    """Describe the innermost cause, for a person or a model, without secrets."""
    match leaf := _innermost(error):
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
    return redact_secrets(text, config)[:MAX_CHARS]


def redact_secrets(text: str, config: UpstreamConfig) -> str:
    """Hide the values of the upstream's environment, headers, password and query."""
    for secret in _secrets(config):
        text = text.replace(secret, HIDDEN)
    return text


def redact_output(text: str, config: UpstreamConfig) -> str:
    """Mask the secrets that a server got, and keys and passwords by form or name."""
    for secret in _find_handed(config, config.headers):
        text = replace_form(text, secret, HIDDEN)
    return redact.redact_secrets(text)


def find_repeated(config: UpstreamConfig) -> list[str]:
    """Return the secrets that are hidden where a result repeats them. None is a word, as `postgres`."""
    handed = _find_handed(config, filter(is_secret_name, config.headers))
    return [secret for secret in handed if is_odd(secret) or len(secret) >= _SHORTEST_LINE]


def _find_handed(config: UpstreamConfig, headers: Iterable[str]) -> list[str]:
    """Return the secrets in a server's settings, and their lines, as a server writes them. The longest first.

    Args:
        headers: The headers whose values may be a scheme and a secret.
    """
    named = {**config.env, **config.headers}
    values = [*config.secrets, *(value for name, value in named.items() if is_secret_name(name))]
    values += [part for name in headers for part in config.headers[name].split()[1:]]
    values += [line for value in values for line in value.splitlines() if len(line) >= _SHORTEST_LINE]
    return sorted({form for value in values for form in find_forms(value)}, key=len, reverse=True)


def _secrets(config: UpstreamConfig) -> Iterator[str]:
    values = [*config.secrets, *config.env.values(), *config.headers.values()]
    values += [part for value in config.headers.values() for part in value.split()]
    if config.url:
        parts = urlsplit(config.url)
        values += [parts.query, parts.password or ""]
    return (value for value in sorted(set(values), key=len, reverse=True) if len(value) >= _SHORTEST_SECRET)
