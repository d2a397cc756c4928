"""Who a mysis is to an upstream: an account that Zoea makes, opens and keeps from the model.

The model never sees the arguments named in `inject`: they are taken out of the
schemas, filled in at the last moment, stored as `‹account›` and masked in every
result. Nothing here puts a secret into an exception, a log line or a `repr`.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from zoea.model.enums import MASK
from zoea.model.errors import ToolError
from zoea.model.request import Blob, ToolResult
from zoea.tools.results import parse_fields, parse_result
from zoea.tools.upstream.upstream_config import LoginTools, UpstreamConfig

_PUBLIC = frozenset({"account", "name", "username", "user", "player", "id", "email"})
_SHORTEST = 4
_REMEMBERED = 8
_NAMES_TRIED = 5


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose an account is: it goes by the uid, for a name is given anew once its mysis is deleted."""

    uid: str
    name: str


class AccountKeeper(Protocol):
    """Where accounts are kept, by the mysis's uid: the credentials store, handed in by `app`."""

    async def load(self, upstream: str, uid: str, name: str) -> Mapping[str, str] | None:
        """The fields of an account; None where there is none. A person may have stored it under the `name`."""
        ...

    async def save(self, upstream: str, uid: str, fields: Mapping[str, str]) -> None:
        """Keep them; returned means durable."""
        ...


class InMemoryAccounts:
    """Keeps accounts while the process lives; for upstreams without any, and for tests."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], dict[str, str]] = {}

    async def load(self, upstream: str, uid: str, name: str) -> Mapping[str, str] | None:
        return self._kept.get((upstream, uid))

    async def save(self, upstream: str, uid: str, fields: Mapping[str, str]) -> None:
        self._kept[upstream, uid] = dict(fields)


Send = Callable[[str, dict[str, Any], str], Awaitable[dict[str, Any]]]
"""`(tool, arguments, mysis) -> wire result`; raises ToolError."""


class _Account:
    """One mysis's account and session on one upstream."""

    __slots__ = ("entering", "fields", "generation", "is_kept", "retired", "session")

    def __init__(self) -> None:
        self.entering: asyncio.Task[None] | None = None
        self.fields: dict[str, str] = {}
        self.is_kept = True
        self.session: dict[str, Any] | None = None
        self.generation = 0
        self.retired: deque[str] = deque(maxlen=_REMEMBERED)

    def __repr__(self) -> str:
        return f"<account, session {self.generation}>"


class UpstreamAccounts:
    """The accounts of all myses on one upstream."""

    def __init__(self, config: UpstreamConfig, keeper: AccountKeeper, send: Send, schema_of: SchemaOf) -> None:
        self._config = config
        self._keeper = keeper
        self._send = send
        self._schema_of = schema_of
        self._accounts: dict[str, _Account] = {}

    def injected(self, tool: str) -> tuple[str, ...]:
        """The arguments of this tool that Zoea fills in."""
        properties = self._schema_of(tool).get("properties")
        if not self._config.inject or not isinstance(properties, Mapping):
            return ()
        return tuple(name for name in self._config.inject if name in properties)

    def concealed(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as they may be stored."""
        return {**arguments, **dict.fromkeys(self.injected(tool), MASK)}

    async def filled(self, caller: Caller, tool: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], int]:
        """The arguments as they go out, and the generation of the session they carry (0 for none).

        Makes and opens the account at the first use.

        Raises:
            ToolError: There is no account and none could be made, or the login failed.
        """
        names = self.injected(tool)
        if not names:
            return arguments, 0
        account = self._accounts.setdefault(caller.uid, _Account())
        if account.session is None:
            await self._entered(caller, account)
        known: Mapping[str, Any] = {**account.fields, **(account.session or {})}
        missing = [name for name in names if name not in known]
        if missing:
            raise ToolError(
                f"{self._config.name} gave no {missing[0]} for the account of {caller.name}",
                hint=f"Check upstream.{self._config.name}.inject and login.",
            )
        return {**arguments, **{name: known[name] for name in names}}, account.generation

    async def renew(self, caller: Caller, generation: int) -> None:
        """Log in again, unless another call has done so since `generation`.

        Raises:
            ToolError: The login failed.
        """
        account = self._accounts.setdefault(caller.uid, _Account())
        if account.generation == generation and account.session is not None:
            account.retired.extend(self._session_secrets(account))
            account.session = None
        if account.session is None:
            await self._entered(caller, account)

    def forget(self, uid: str) -> None:
        """The mysis is deleted: nothing of its account stays in memory. What is kept stays, as it may come back."""
        account = self._accounts.get(uid)
        # A registration under way is kept first: the account would be lost for ever.
        if account is not None and (account.entering is None or account.entering.done()):
            del self._accounts[uid]

    async def close(self) -> None:
        """Give up logins that are still under way."""
        tasks = [account.entering for account in self._accounts.values() if account.entering is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def is_lost(self, result: ToolResult) -> bool:
        """Whether an error result says that the session is gone."""
        login = self._config.login
        return login is not None and result.is_error and _holds(result.content, login.lost)

    def masked(self, caller: Caller, text: str) -> str:
        """The text without any secret of this mysis."""
        account = self._accounts.get(caller.uid)
        return _mask(text, self._secrets(account)) if account is not None else text

    def masked_result(self, caller: Caller, result: ToolResult) -> ToolResult:
        """The result without any secret of this mysis; the same object where there is none."""
        account = self._accounts.get(caller.uid)
        secrets = self._secrets(account) if account is not None else []
        content = _mask(result.content, secrets)
        blobs = tuple(_mask_blob(blob, secrets) for blob in result.blobs)
        if content == result.content and blobs == result.blobs:
            return result
        return replace(result, content=content, blobs=blobs)

    async def _entered(self, caller: Caller, account: _Account) -> None:
        """One login at a time, for all calls that wait for it.

        A task of its own: a caller that is cancelled between a registration and its
        keeping would lose the account for ever.
        """
        if account.entering is None or account.entering.done():
            account.entering = asyncio.create_task(self._enter(caller, account), name=f"{self._config.name} login")
            account.entering.add_done_callback(_seen)
        await asyncio.shield(account.entering)

    async def _enter(self, caller: Caller, account: _Account) -> None:
        if not account.fields:
            account.fields = dict(await self._keeper.load(self._config.name, caller.uid, caller.name) or {})
        login = self._config.login
        if login is None or not self._schema_of(login.login):
            # No login tool: the account's own fields are what is filled in.
            if not account.fields:
                raise ToolError(
                    f"{caller.name} has no account on {self._config.name}", hint="Store one in the credentials."
                )
            account.session = {}
        else:
            if not account.fields:
                await self._register(caller, account, login)
            await self._keep(caller, account)
            account.session = await self._login(caller, account, login)
        account.generation += 1

    async def _register(self, caller: Caller, account: _Account, login: LoginTools) -> None:
        if not login.register:
            raise ToolError(
                f"{caller.name} has no account on {self._config.name}", hint="Store one in the credentials."
            )
        for number in range(1, _NAMES_TRIED + 1):
            name = caller.name if number == 1 else f"{caller.name}-{number}"
            wire = await self._send(login.register, {"name": name}, caller.name)
            result, fields = parse_result(wire), _texts(parse_fields(wire))
            if not result.is_error:
                break
            if not _holds(result.content, login.taken):
                raise ToolError(
                    f"{self._config.name} made no account for {caller.name}: {_mask(result.content, fields.values())}"
                )
        else:
            raise ToolError(f"{self._config.name} made no account for {caller.name}: the names are taken")
        if not fields:
            raise ToolError(f"{self._config.name} made an account for {caller.name} but did not say which")
        account.fields, account.is_kept = fields, False
        # Before the first login: an account whose password is lost could never be entered again.
        await self._keep(caller, account)

    async def _keep(self, caller: Caller, account: _Account) -> None:
        if account.is_kept:
            return
        try:
            await self._keeper.save(self._config.name, caller.uid, account.fields)
        except OSError as error:
            raise ToolError(
                f"the account of {caller.name} on {self._config.name} cannot be kept: {error.strerror}",
                hint="It is tried again at the next call.",
            ) from None
        account.is_kept = True

    async def _login(self, caller: Caller, account: _Account, login: LoginTools) -> dict[str, Any]:
        result, found = await self._try_login(caller, account, login)
        if result.is_error and login.register and _holds(result.content, login.unknown):
            account.retired.extend(self._field_secrets(account))
            await self._register(caller, account, login)
            result, found = await self._try_login(caller, account, login)
        if result.is_error:
            why = _mask(result.content, self._secrets(account))
            raise ToolError(f"{self._config.name} refused the login of {caller.name}: {why}")
        return found

    async def _try_login(
        self, caller: Caller, account: _Account, login: LoginTools
    ) -> tuple[ToolResult, dict[str, Any]]:
        properties = self._schema_of(login.login).get("properties")
        named = set(properties) if isinstance(properties, Mapping) and properties else set(account.fields)
        arguments: dict[str, Any] = {key: value for key, value in account.fields.items() if key in named}
        wire = await self._send(login.login, arguments, caller.name)
        return parse_result(wire), parse_fields(wire)

    def _secrets(self, account: _Account) -> list[str]:
        """Longest first, so that a secret that holds another is replaced whole."""
        values = {*self._field_secrets(account), *self._session_secrets(account), *account.retired}
        return sorted(values, key=len, reverse=True)

    def _field_secrets(self, account: _Account) -> Iterable[str]:
        inject = self._config.inject
        return (value for key, value in account.fields.items() if key in inject or key.lower() not in _PUBLIC)

    def _session_secrets(self, account: _Account) -> Iterable[str]:
        session = account.session or {}
        return (str(session[name]) for name in self._config.inject if session.get(name) not in (None, ""))


class SchemaOf(Protocol):
    def __call__(self, tool: str) -> Mapping[str, Any]:
        """A tool's input schema as its server listed it; empty where it listed none."""
        ...


def _mask(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        if len(secret) < _SHORTEST:
            continue
        text = text.replace(secret, MASK)
        escaped = json.dumps(secret)[1:-1]
        if escaped != secret:
            text = text.replace(escaped, MASK)
    return text


def _mask_blob(blob: Blob, secrets: Iterable[str]) -> Blob:
    data, note = blob.data, _mask(blob.note, secrets)
    for secret in secrets:
        if len(secret) >= _SHORTEST:
            data = data.replace(secret.encode(), MASK.encode())
    return blob if data == blob.data and note == blob.note else replace(blob, data=data, note=note)


def _seen(entering: asyncio.Task[None]) -> None:
    """A failure belongs to those who waited; where all of them were cancelled, the next call meets it again."""
    if not entering.cancelled():
        entering.exception()


def _texts(fields: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in fields.items() if isinstance(value, str | int | float)}


def _holds(text: str, marks: Iterable[str]) -> bool:
    return any(mark in text for mark in marks)
