"""Small JSON documents that providers serve beside their streams: lists of models, properties.

They do not pass the admission gate, so that a swarm must ask for each only once: see `CachedFetch`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from zoea.llm.transport.json_safety import parse
from zoea.llm.transport.provider_errors import error_from_status, no_answer_error, provider_error
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError
from zoea.model.ports import Clock

if TYPE_CHECKING:
    from zoea.llm.transport.http_client import HttpClient

FAILED_FOR_US = 5_000_000
UNLISTED_FOR_US = 300_000_000
DOCUMENT_S = 30.0
LOADING_US, LOADING_AGAIN_US = 600_000_000, 1_000_000
"""The longest time that a model is waited for while it is loaded, and the time between two looks."""
T = TypeVar("T")


class CachedFetch(Generic[T]):
    """Fetches a value once for all callers. A failure is raised to all who ask within 5 s of it.

    `absent_us` replaces these 5 s if the server has no such document.
    """

    def __init__(self, clock: Clock, fetch: Callable[[], Awaitable[T]], *, absent_us: int = FAILED_FOR_US) -> None:
        self._clock = clock
        self._fetch = fetch
        self._absent_us = absent_us
        self._lock = asyncio.Lock()
        self._value: T | None = None
        self._error: ProviderError | None = None
        self._failed_until = 0

    @property
    def value(self) -> T | None:
        """The fetched value, or None before."""
        return self._value

    async def get(self) -> T:
        if self._value is None:
            async with self._lock:
                await self._ensure()
        assert self._value is not None
        return self._value

    async def get_loaded(self) -> T:
        """Return the value as `get` does, after waiting up to `LOADING_US` for the model."""
        until = self._clock.uptime() + LOADING_US
        while True:
            try:
                return await self.get()
            except ProviderError as error:
                if not is_loading(error) or self._clock.uptime() >= until:
                    raise
            self._failed_until = 0
            await self._clock.sleep(LOADING_AGAIN_US)

    async def _ensure(self) -> None:
        if self._value is not None:  # another caller fetched it while this one waited
            return
        if self._error is not None and self._clock.uptime() < self._failed_until:
            raise self._error.with_traceback(None)
        try:
            self._value = await self._fetch()
        except ProviderError as error:
            # Where it came from holds the document, which may be of many megabytes.
            error.__context__ = error.__cause__ = None
            self._error = error.with_traceback(None)
            self._failed_until = self._clock.uptime() + (self._absent_us if is_absent(error) else FAILED_FOR_US)
            raise error


def is_absent(error: ProviderError) -> bool:
    """Return True if a server answers, but without this document for this key.

    Its models may answer all the same: OpenAI's restricted keys are refused the list with a 403, and some servers
    have only a web page there.
    """
    return error.status == 403 or error.kind in (ErrorClass.MODEL_MISSING, ErrorClass.BAD_REQUEST)


def is_loading(error: ProviderError) -> bool:
    """Return whether a server refuses while it loads its model, as llama.cpp does."""
    return error.status == HTTPStatus.SERVICE_UNAVAILABLE and "loading" in error.said.lower()


async def fetch(
    http: HttpClient,
    method: str,
    path: str,
    content: bytes | None = None,
    *,
    provider: str,
    clock: Clock,
    secrets: tuple[str, ...] = (),
) -> Any:
    """Fetch the document at `path`. Raises ProviderError if it is absent, not JSON, or takes over 30 s."""
    try:
        async with asyncio.timeout(DOCUMENT_S):
            status, headers, body = await http.read_document(method, path, content)
    except TimeoutError:
        what = f"{provider} did not send {path} within {DOCUMENT_S:g} s"
        raise provider_error(ErrorClass.TRANSIENT, what, title="The provider fell silent") from None
    if status >= 300:
        raise error_from_status(status, headers, body, now_us=clock.now(), provider=provider, secrets=secrets)
    try:
        return parse(body)
    except ValueError:
        hint = "Check the provider's base_url: it should end where the vendor's documentation says (often /v1)."
        raise no_answer_error(provider, body, hint, secrets) from None
