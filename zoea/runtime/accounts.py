"""The myses' accounts on upstreams, stored in the credentials file.

The key is the uid of the mysis, because its name can be used again after a deletion.
Accounts stored under a name (by a person, or by an older version) are moved to the uid
of that mysis once.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping

from zoea.settings.credentials import Credentials
from zoea.settings.key_stamp import ACCOUNTS, SECRETS
from zoea.text.json_text import parse_json
from zoea.tools.secret_vault import KeptSecret

_PLAIN = re.compile(r"[A-Za-z0-9_.@ -]{1,40}")


class CredentialAccounts:
    """An `AccountKeeper` over the credentials file.

    Joins saves that arrive during a write into the next one, so that a thousand new
    accounts cost a few writes of the file.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._waiting: dict[str, str] = {}
        self._next: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def load(self, upstream: str, uid: str, name: str) -> Mapping[str, str] | None:
        """Return the fields of a mysis's account; None if it has none.

        Moves an account stored under the name to the uid.

        Raises:
            SettingsError: if the file cannot be read or written.
        """
        account = await asyncio.to_thread(self._found, upstream, uid, name)
        if account is None:
            return None
        fields: dict[str, str] = json.loads(account)
        return fields

    def _found(self, upstream: str, uid: str, name: str) -> str | None:
        if self._credentials.get(named := name_key(upstream, name)) is not None:
            self._credentials.rename({named: account_key(upstream, uid)})
        text = self._credentials.get(account_key(upstream, uid))
        return None if text is None else text.get_secret_value()

    async def save(self, upstream: str, uid: str, fields: Mapping[str, str]) -> None:
        """Store the fields of an account; durable when this returns.

        Raises:
            SettingsError: if the file cannot be written.
        """
        self._waiting[account_key(upstream, uid)] = json.dumps(dict(fields))
        if self._next is None:
            self._next = asyncio.create_task(self._write(), name="accounts")
        await asyncio.shield(self._next)

    async def _write(self) -> None:
        async with self._lock:
            batch, self._waiting, self._next = self._waiting, {}, None
            await asyncio.to_thread(self._credentials.set_many, batch)


class CredentialSecrets:
    """A `SecretKeeper` over the credentials file: `secret/UPSTREAM/N`, the value as JSON."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    async def load_secrets(self) -> Mapping[int, KeptSecret]:
        """Return all secrets by number. Raises SettingsError if the file cannot be read."""
        stored = await asyncio.to_thread(self._credentials.with_prefix, SECRETS)
        kept = {}
        for name, value in stored.items():
            upstream, _, number = name.rpartition("/")
            if number.isdecimal():
                # A text that a person typed without quotes stands for itself.
                text = value.get_secret_value()
                kept[int(number)] = KeptSecret(upstream.removeprefix("@"), parse_json(text, text))
        return kept

    async def save_secrets(self, kept: Mapping[int, KeptSecret]) -> None:
        """Store secrets; durable when this returns. Raises SettingsError if the file cannot be written."""
        entries = {f"{SECRETS}@{one.upstream}/{number}": json.dumps(one.value) for number, one in kept.items()}
        stale = {f"{SECRETS}@/{number}" for number, one in kept.items() if one.upstream}
        await asyncio.to_thread(self._credentials.set_many, entries)
        for name in stale & set(await asyncio.to_thread(self._credentials.names)):
            await asyncio.to_thread(self._credentials.delete, name)


def settle_accounts(credentials: Credentials, myses: Iterable[tuple[str, str]]) -> None:
    """Move accounts stored by name to the uids of their myses.

    Args:
        myses: (name, uid) of all myses; of several with one name the last gets the account.

    Raises:
        SettingsError: if the file cannot be read or written.
    """
    kept = [name for name in credentials.names() if name.startswith(ACCOUNTS) and "/@" not in name]
    if not kept:
        return
    uids = {_key_of(name): uid for name, uid in myses}
    moves = {}
    for entry in kept:
        upstream, _, name = entry.removeprefix(ACCOUNTS).rpartition("/")
        if name in uids:
            moves[entry] = account_key(upstream, uids[name])
    credentials.rename(moves)


def account_reader(credentials: Credentials, upstream: str) -> Callable[[str, str], Mapping[str, str] | None]:
    """Read all accounts on an upstream. Return a function from (uid, name) to an account's fields.

    Raises:
        SettingsError: if the file cannot be read.
    """
    found = credentials.with_prefix(f"{ACCOUNTS}{upstream}/")

    def fields(uid: str, name: str) -> Mapping[str, str] | None:
        stored = (found.get(key) for key in (f"@{uid}", _key_of(name)))
        # Without fields is what a refused registration leaves.
        return next((made for one in stored if one and (made := json.loads(one.get_secret_value()))), None)

    return fields


def account_key(upstream: str, uid: str) -> str:
    """Return the credential's name of an account. The `@`, which names cannot contain, marks a uid."""
    return f"{ACCOUNTS}{upstream}/@{uid}"


def name_key(upstream: str, mysis: str) -> str:
    """Return the credential's name under which a person stores an account for a mysis."""
    return f"{ACCOUNTS}{upstream}/{_key_of(mysis)}"


def _key_of(mysis: str) -> str:
    """Return the name as a key of the file: in hexadecimal if it has other characters."""
    return mysis if _PLAIN.fullmatch(mysis) else mysis.encode().hex()
