"""Small JSON documents that providers serve beside their streams: lists, properties."""

from __future__ import annotations

import json
from typing import Any

from zoea.llm.errors import failure, from_status, said
from zoea.llm.http import Http
from zoea.model.ports import Clock
from zoea.model.words import ErrorClass


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
