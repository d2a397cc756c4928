"""Small JSON documents that providers serve beside their streams: lists, properties.

They pass no gate, so that a swarm asks for each only once: see `Remembered`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from zoea.llm.errors import failure, from_status, said
from zoea.llm.http import Http
from zoea.model.errors import ProviderError
from zoea.model.ports import Clock
from zoea.model.words import ErrorClass

FAILED_FOR_US = 5_000_000
T = TypeVar("T")


class Remembered(Generic[T]):
    """Fetched once for all who ask; a failure is told to all who ask within 5 s of it."""

    def __init__(self, clock: Clock, fetch: Callable[[], Awaitable[T]]) -> None:
        self._clock = clock
        self._fetch = fetch
        self._lock = asyncio.Lock()
        self._value: T | None = None
        self._error: ProviderError | None = None
        self._failed_until = 0

    async def get(self) -> T:
        if self._value is None:
            async with self._lock:
                await self._ensure()
        assert self._value is not None
        return self._value

    async def _ensure(self) -> None:
        if self._value is not None:  # another caller fetched it while this one waited
            return
        if self._error is not None and self._clock.now() < self._failed_until:
            raise self._error.with_traceback(None)
        try:
            self._value = await self._fetch()
        except ProviderError as error:
            self._error = error
            self._failed_until = self._clock.now() + FAILED_FOR_US
            raise


async def fetch(
    http: Http,
    method: str,
    path: str,
    content: bytes | None = None,
    *,
    provider: str,
    clock: Clock,
    secrets: tuple[str, ...] = (),
) -> Any:
    """The document at `path`. Raises ProviderError where it is not there, or no JSON."""
    status, headers, body = await http.document(method, path, content)
    if status >= 300:
        raise from_status(status, headers, body, now_us=clock.now(), provider=provider, secrets=secrets)
    try:
        return json.loads(body)
    except ValueError:
        raise failure(
            ErrorClass.BAD_REQUEST,
            f"{provider} sent {said(body)[0] or 'nothing'}",
            secrets=secrets,
            title="The provider sent no answer",
            hint="Check the provider's base_url: it should end where the vendor's documentation says (often /v1).",
        ) from None
