"""The myses' accounts on upstreams, kept in the credentials file and nowhere else.

They are kept by the uid of their mysis: a name is free again once its mysis is deleted,
and whoever gets it must not get the other's account too. Under a name stands only what
a person stored for a mysis, and what Zoea kept there before it went by uids; both are
given to the mysis that it was meant for, once.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping

from zoea.settings import Credentials

_PLAIN = re.compile(r"[A-Za-z0-9_.@ -]{1,40}")
_ROOT = "account/"


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

    async def load(self, upstream: str, uid: str, name: str) -> Mapping[str, str] | None:
        """The fields of a mysis's account; None where it has none. What a person stored under its name is its own now.

        Raises:
            SettingsError: where the file cannot be read, or not be written where that is due.
        """
        found = await asyncio.to_thread(self._found, upstream, uid, name)
        if found is None:
            return None
        fields: dict[str, str] = json.loads(found)
        return fields

    def _found(self, upstream: str, uid: str, name: str) -> str | None:
        if self._credentials.get(named := name_key(upstream, name)) is not None:
            self._credentials.rename({named: account_key(upstream, uid)})
        found = self._credentials.get(account_key(upstream, uid))
        return None if found is None else found.get_secret_value()

    async def save(self, upstream: str, uid: str, fields: Mapping[str, str]) -> None:
        """Keep them; durable when this returns.

        Raises:
            SettingsError: where the file cannot be written.
        """
        self._waiting[account_key(upstream, uid)] = json.dumps(dict(fields))
        if self._next is None:
            self._next = asyncio.create_task(self._write(), name="accounts")
        await asyncio.shield(self._next)

    async def _write(self) -> None:
        async with self._lock:
            batch, self._waiting, self._next = self._waiting, {}, None
            await asyncio.to_thread(self._credentials.set_many, batch)


def settle_accounts(credentials: Credentials, myses: Iterable[tuple[str, str]]) -> None:
    """Give what is kept by name to whom it belongs, before anybody new can be called so.

    `myses` are (name, uid) of all there ever were; of several with one name, the last one has it.

    Raises:
        SettingsError: where the file cannot be read or written.
    """
    kept = [name for name in credentials.names() if name.startswith(_ROOT) and "/@" not in name]
    if not kept:
        return
    uids = {_key_of(name): uid for name, uid in myses}
    moves = {}
    for entry in kept:
        upstream, _, name = entry.removeprefix(_ROOT).rpartition("/")
        if name in uids:
            moves[entry] = account_key(upstream, uids[name])
    credentials.rename(moves)


def account_reader(credentials: Credentials, upstream: str) -> Callable[[str, str], Mapping[str, str] | None]:
    """Every account on an upstream in one reading, by uid, else by the name that a person stored it under.

    Raises:
        SettingsError: where the file cannot be read.
    """
    found = credentials.with_prefix(f"{_ROOT}{upstream}/")

    def fields(uid: str, name: str) -> Mapping[str, str] | None:
        stored = found.get(f"@{uid}") or found.get(_key_of(name))
        made: Mapping[str, str] | None = json.loads(stored.get_secret_value()) if stored else None
        return made

    return fields


def account_key(upstream: str, uid: str) -> str:
    """The credential's name of a mysis's account; the `@`, which no name may have, says that it is a uid."""
    return f"{_ROOT}{upstream}/@{uid}"


def name_key(upstream: str, mysis: str) -> str:
    """The credential's name under which a person stores an account for a mysis."""
    return f"{_ROOT}{upstream}/{_key_of(mysis)}"


def _key_of(mysis: str) -> str:
    """A mysis whose name the file cannot hold as a key goes by its bytes."""
    return mysis if _PLAIN.fullmatch(mysis) else mysis.encode().hex()
