"""Masks the secrets that Zoea sent to a server in what the server writes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any

from msgspec.structs import replace

from zoea.model.enums import MASK
from zoea.model.request import Blob, ToolResult

SHORTEST = 4
"""Shorter texts occur by chance."""
_KEPT = 256


def mask_secrets(text: str, secrets: Iterable[str], mark: str = MASK) -> str:
    """Replace each secret in a text, also as JSON writes it."""
    for secret in secrets:
        if len(secret) < SHORTEST:
            continue
        text = text.replace(secret, mark)
        escaped = json.dumps(secret)[1:-1]
        if escaped != secret:
            text = text.replace(escaped, mark)
    return text


def mask_result(result: ToolResult, secrets: Collection[str], mark: str = MASK) -> ToolResult:
    """Mask secrets in a result and its blobs. The same object if it holds none."""
    content = mask_secrets(result.content, secrets, mark)
    blobs = tuple(_mask_blob(blob, secrets, mark) for blob in result.blobs)
    if content == result.content and blobs == result.blobs:
        return result
    return replace(result, content=content, blobs=blobs)


def _mask_blob(blob: Blob, secrets: Iterable[str], mark: str) -> Blob:
    data, note = blob.data, mask_secrets(blob.note, secrets, mark)
    for secret in secrets:
        if len(secret) >= SHORTEST:
            data = data.replace(secret.encode(), mark.encode())
    return blob if data == blob.data and note == blob.note else replace(blob, data=data, note=note)


class SentSecrets:
    """The newest secrets that one server got."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    def add(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._texts.pop(text, None)
            self._texts[text] = None
        for oldest in tuple(self._texts)[:-_KEPT]:
            del self._texts[oldest]

    def mask(self, text: str) -> str:
        """Return the text without the secrets, the longest first. One that holds another goes whole."""
        return mask_secrets(text, sorted(self._texts, key=len, reverse=True)) if self._texts else text


def find_filled_texts(before: Any, after: Any) -> set[str]:
    """Return the texts that Zoea filled into some arguments."""
    return _texts(after) - _texts(before)


def _texts(value: Any) -> set[str]:
    match value:
        case str():
            return {value}
        case dict():
            return set().union(*map(_texts, value.values()))
        case list():
            return set().union(*map(_texts, value))
        case _:
            return set()
