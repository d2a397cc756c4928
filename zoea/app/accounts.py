"""The myses' accounts on upstreams, kept in the credentials file and nowhere else."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping

from zoea.settings import Credentials

_PLAIN = re.compile(r"[A-Za-z0-9_.@ -]{1,40}")


class CredentialAccounts:
    """An `AccountKeeper` over the credentials file.

    Saves that come while one is being written go together in the next write, so
    that a thousand new accounts cost a few writes of the file.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._waiting: dict[str, str] = {}
        self._next: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def load(self, upstream: str, mysis: str) -> Mapping[str, str] | None:
        """The fields of a mysis's account; None where it has none.

        Raises:
            SettingsError: where the file cannot be read.
        """
        found = await asyncio.to_thread(self._credentials.get, account_name(upstream, mysis))
        if found is None:
            return None
        fields: dict[str, str] = json.loads(found.get_secret_value())
        return fields

    async def save(self, upstream: str, mysis: str, fields: Mapping[str, str]) -> None:
        """Keep them; durable when this returns.

        Raises:
            SettingsError: where the file cannot be written.
        """
        self._waiting[account_name(upstream, mysis)] = json.dumps(dict(fields))
        if self._next is None:
            self._next = asyncio.create_task(self._write(), name="accounts")
        await asyncio.shield(self._next)

    async def _write(self) -> None:
        async with self._lock:
            batch, self._waiting, self._next = self._waiting, {}, None
            await asyncio.to_thread(self._credentials.set_many, batch)


def account_name(upstream: str, mysis: str) -> str:
    """The credential's name; a mysis whose name the file cannot hold as a key goes by its bytes."""
    return f"account/{upstream}/{mysis if _PLAIN.fullmatch(mysis) else mysis.encode().hex()}"
