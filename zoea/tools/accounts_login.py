"""Creates accounts of myses on an upstream, logs in, and hides them from the model.

The model never sees the arguments named in `inject`: they are removed from the schemas, filled in
before the call, stored as `‹account›` and masked in every result. No exception, log line or `repr`
holds a secret.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from zoea.model.enums import MASK
from zoea.model.errors import ToolError, UpstreamLost
from zoea.model.request import ToolResult
from zoea.process.clock import read_uptime
from zoea.settings.endpoints import LoginSettings
from zoea.text.sentences import count_of
from zoea.tools.account_arguments import (
    account_fields,
    flatten,
    holds_login,
    is_secret_field,
    login_arguments,
    register_arguments,
)
from zoea.tools.results import parse_fields, parse_result
from zoea.tools.upstream.sent_secrets import mask_result, mask_secrets
from zoea.tools.upstream.upstream_config import UpstreamConfig

logger = logging.getLogger(__name__)

REGISTRATION_S = 300.0
"""The deadline of a registration. It is long, because a password that the server makes is in its answer alone."""
_CLOSE_S = 1.0
"""Seconds that answers to logins and registrations in progress have at the end."""
_UNANSWERED = "zoea/unanswered"
"""Marks stored fields as those of a registration that was sent and not answered."""
_BEFORE = "zoea/before/"
"""Begins the names of the fields that an account had before such a registration."""
_REMEMBERED_SECRETS = 8
_NAMES_TRIED = 5
_LOGIN_DELAYS_S = (0, 0, 15, 120, 600)
"""Seconds after a login until the next may be made, by the number of logins without a session that lasted."""


class Caller(Struct, frozen=True):
    """The mysis that has an account: found by uid, because names are reused."""

    uid: str
    name: str


class AccountKeeper(Protocol):
    """Stores accounts by the mysis's uid; `runtime` passes in the credentials store."""

    async def load(self, upstream: str, uid: str, name: str) -> Mapping[str, str] | None:
        """Load the fields of an account, by uid or a name stored by a person. Else None."""
        ...

    async def save(self, upstream: str, uid: str, fields: Mapping[str, str]) -> None:
        """Store the fields durably."""
        ...


class InMemoryAccounts:
    """Keeps accounts until the process ends."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], dict[str, str]] = {}

    async def load(self, upstream: str, uid: str, name: str) -> Mapping[str, str] | None:
        return self._kept.get((upstream, uid))

    async def save(self, upstream: str, uid: str, fields: Mapping[str, str]) -> None:
        self._kept[upstream, uid] = dict(fields)


SendCall = Callable[[str, dict[str, Any], str], Awaitable[dict[str, Any]]]
"""`(tool, arguments, mysis name) -> wire result`; raises ToolError."""


class _Account:
    """One mysis's account and session on one upstream."""

    __slots__ = (
        "fields",
        "generation",
        "is_stored",
        "login_task",
        "problem",
        "retired",
        "sent",
        "session",
        "tried_at",
        "tries",
    )

    def __init__(self) -> None:
        self.login_task: asyncio.Task[None] | None = None
        self.fields: dict[str, str] = {}
        self.sent: dict[str, str] = {}
        """Name and secret of a registration that was sent and not answered."""
        self.is_stored = True
        self.session: dict[str, Any] | None = None
        self.generation = 0
        self.retired: deque[str] = deque(maxlen=_REMEMBERED_SECRETS)
        self.tries = 0
        """Logins since a call found its session alive."""
        self.tried_at = 0
        self.problem = ""

    def wait_left(self) -> int:
        """Return the µs until the next login may be made."""
        delay = _LOGIN_DELAYS_S[min(self.tries, len(_LOGIN_DELAYS_S) - 1)] * 1_000_000
        return max(0, self.tried_at + delay - read_uptime())

    def __repr__(self) -> str:
        return f"<account, session {self.generation}>"


class UpstreamAccounts:
    """The accounts of all myses on one upstream."""

    def __init__(self, config: UpstreamConfig, keeper: AccountKeeper, send: SendCall, schema_of: SchemaOf) -> None:
        self._config = config
        self._keeper = keeper
        self._send = send
        self._schema_of = schema_of
        self._accounts: dict[str, _Account] = {}
        # Registrations without an answer leave places of the upstream to calls.
        self._registrations = asyncio.Semaphore(max(1, config.max_parallel // 2))

    def injected_arguments(self, tool: str) -> tuple[str, ...]:
        """Return the names of this tool's arguments that Zoea fills in."""
        properties = self._schema_of(tool).get("properties")
        if not self._config.inject or not isinstance(properties, Mapping):
            return ()
        return tuple(name for name in self._config.inject if name in properties)

    def conceal(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as they may be stored."""
        return {**arguments, **dict.fromkeys(self.injected_arguments(tool), MASK)}

    async def fill_arguments(self, caller: Caller, tool: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], int]:
        """Fill in the account's arguments; return them and the session's generation (0 for none).

        Creates the account and logs in at the first use.

        Raises:
            ToolError: There is no account and none could be created, or the login failed.
        """
        names = self.injected_arguments(tool)
        if not names:
            return arguments, 0
        account = self._accounts.setdefault(caller.uid, _Account())
        if account.session is None:
            await self._ensure_login(caller, account)
        fields = self._config.injected_fields
        stored = {name: account.fields[fields[name]] for name in names if fields[name] in account.fields}
        values: Mapping[str, Any] = {**stored, **(account.session or {})}
        if missing := [name for name in names if name not in values]:
            raise ToolError(
                f"{self._config.name} gave no {missing[0]} for the account of {caller.name}",
                hint=f"Check upstream.{self._config.name}.inject and login.",
            )
        return {**arguments, **{name: values[name] for name in names}}, account.generation

    async def renew(self, caller: Caller, generation: int) -> None:
        """Log in again, unless another call did so since `generation`.

        Raises:
            ToolError: The login failed.
        """
        account = self._accounts.setdefault(caller.uid, _Account())
        if account.generation == generation and account.session is not None:
            account.retired.extend(self._session_secrets(account))
            account.session = None
        if account.session is None:
            await self._ensure_login(caller, account)

    def forget(self, uid: str) -> None:
        """Drop a deleted mysis's account from memory. The stored one stays, because the mysis may come back."""
        account = self._accounts.get(uid)
        # A registration in progress must be stored first, or the account would be lost.
        if account is not None and (account.login_task is None or account.login_task.done()):
            del self._accounts[uid]

    async def close(self) -> None:
        """Cancel logins in progress that are not answered soon."""
        tasks = [account.login_task for account in self._accounts.values() if account.login_task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def confirm_session(self, caller: Caller, result: ToolResult) -> bool:
        """Return whether a call found its session alive. If so, the next login may be made at once."""
        login = self._config.login
        if login is not None and result.is_error and _contains_any(result.content, login.lost):
            return False
        if (account := self._accounts.get(caller.uid)) is not None:
            account.tries = 0
        return True

    def mask_text(self, caller: Caller, text: str) -> str:
        """Mask the secrets of this mysis in a text."""
        account = self._accounts.get(caller.uid)
        return mask_secrets(text, self._secrets(account)) if account is not None else text

    def mask_result(self, caller: Caller, result: ToolResult) -> ToolResult:
        """Mask the secrets of this mysis in a result. The same object if it holds none."""
        account = self._accounts.get(caller.uid)
        return mask_result(result, self._secrets(account) if account is not None else ())

    async def _ensure_login(self, caller: Caller, account: _Account) -> None:
        """Log in once for all calls that wait for it.

        In a separate task, because a caller cancelled between registration and storing would
        lose the account.
        """
        if account.login_task is None or account.login_task.done():
            if left := account.wait_left():
                seconds = math.ceil(left / 1_000_000)
                raise ToolError(
                    account.problem or f"{self._config.name} ended each session of {caller.name} at once",
                    hint=f"Zoea logs in again in {count_of(seconds, 'second')} at the earliest, because a "
                    "server may lock an account that tries too often.",
                )
            account.login_task = asyncio.create_task(
                self._log_in_or_register(caller, account), name=f"{self._config.name} login"
            )
            account.login_task.add_done_callback(_retrieve_error)
        await asyncio.shield(account.login_task)

    async def _log_in_or_register(self, caller: Caller, account: _Account) -> None:
        if account.is_stored:
            # At each login, because a person may have stored another account or password by then.
            stored = dict(await self._keeper.load(self._config.name, caller.uid, caller.name) or account.fields)
            account.sent, stored = _split_unanswered(stored)
            if stored != account.fields:
                account.retired.extend(self._field_secrets(account))
                account.fields = stored
        login = self._config.login
        if login is None or not self._schema_of(login.login):
            # Without a login tool, the account's own fields are filled in.
            if not account.fields:
                raise ToolError(
                    f"{caller.name} has no account on {self._config.name}", hint="Store one in the credentials."
                )
            account.session = {}
        else:
            account.tries, account.tried_at, account.problem = account.tries + 1, read_uptime(), ""
            try:
                session = await self._resume_registration(caller, account, login) if account.sent else None
                if not account.fields:
                    session = await self._register(caller, account, login)
                await self._store(caller, account)
                session = session or await self._login(caller, account, login)
                if account.sent:  # the account from before it is known after all
                    account.sent, account.is_stored = {}, False
                    await self._store(caller, account)
                account.session = session
            except UpstreamLost:
                account.tries -= 1  # it did not reach the server
                raise
            except ToolError as error:
                account.problem = error.what
                raise
        account.generation += 1

    async def _resume_registration(
        self, caller: Caller, account: _Account, login: LoginSettings
    ) -> dict[str, Any] | None:
        """Log in with a registration that was not answered. Return the session if the server knows the account."""
        if not holds_login(self._config, self._schema(), account.sent):
            return None  # its secret was in the lost answer
        result, found = await self._try_login(caller, account.sent, login)
        if result.is_error:
            return None
        logger.info("%s: the registration of %s was carried out without an answer", self._config.name, caller.name)
        account.retired.extend(self._field_secrets(account))
        account.fields, account.sent, account.is_stored = account.sent, {}, False
        return found

    async def _register(self, caller: Caller, account: _Account, login: LoginSettings) -> dict[str, Any] | None:
        """Make an account and store it. Return its session where a login has told that it was made before."""
        if not login.register_:
            raise ToolError(
                f"{caller.name} has no account on {self._config.name}", hint="Store one in the credentials."
            )
        unanswered = account.sent
        last = unanswered.get(login.name, "")
        numbered = (f"{caller.name}-{number}" for number in range(2, _NAMES_TRIED + 1))
        for name in dict.fromkeys(filter(None, (last, caller.name, *numbered))):
            sent = register_arguments(self._config, self._schema_of(login.register_), name)
            is_again = name == last
            if is_again:
                # With the same secret, so that it is right whichever of the two was carried out.
                sent |= {key: value for key, value in unanswered.items() if isinstance(sent.get(key), str)}
            result, fields = await self._send_registration(caller, account, login, sent, is_again=is_again)
            if not result.is_error:
                break
            is_taken = _contains_any(result.content, login.taken)
            if is_taken and is_again:
                # The login before may have failed for another reason.
                session = await self._resume_registration(caller, account, login)
                if session is not None:
                    await self._store(caller, account)
                    return session
            if not is_taken:
                hidden = [value for key, value in fields.items() if is_secret_field(self._config, key, self._schema())]
                raise ToolError(
                    f"{self._config.name} made no account for {caller.name}: {mask_secrets(result.content, hidden)}"
                )
            if is_again:
                logger.warning(
                    "the name %s on %s is taken, maybe by a registration of Zoea that got no answer; "
                    "%s gets an account of another name",
                    *(name, self._config.name, caller.name),
                )
        else:
            raise ToolError(f"{self._config.name} made no account for {caller.name}: the names are taken")
        account.fields, account.is_stored = fields, False
        # Before the first login: without its password the account is lost.
        await self._store(caller, account)
        return None

    async def _send_registration(
        self, caller: Caller, account: _Account, login: LoginSettings, sent: dict[str, Any], *, is_again: bool
    ) -> tuple[ToolResult, dict[str, str]]:
        """Send a registration; return its result and the fields of the account.

        What is sent is stored before, because the answer may be lost, and removed if it made no account. What is
        stored of an account that the server no longer knows stays until there is another one.

        Raises:
            ToolError: There is no answer, or it makes no account that can be kept.
        """
        account.sent = account_fields(sent, self._config, {})
        before = {f"{_BEFORE}{key}": value for key, value in account.fields.items()}
        await self._save(caller, account, {**account.sent, **before, _UNANSWERED: "sent"})
        async with self._registrations:
            wire = await self._send(login.register_, sent, caller.name)
        result, values = parse_result(wire), parse_fields(wire)
        if result.is_error and is_again:
            return result, account.sent  # which the one without an answer may have made
        account.sent = {}
        try:
            fields = account_fields(sent, self._config, values)
            if not result.is_error and len(fields) == 1 and not values:
                raise ToolError(f"{self._config.name} made an account for {caller.name} but gave no fields")
        except ToolError:
            await self._save(caller, account, account.fields)
            raise
        if result.is_error:
            await self._save(caller, account, account.fields)
        return result, fields

    async def _store(self, caller: Caller, account: _Account) -> None:
        if not account.is_stored:
            await self._save(caller, account, account.fields)
            account.is_stored = True

    async def _save(self, caller: Caller, account: _Account, fields: Mapping[str, str]) -> None:
        try:
            await self._keeper.save(self._config.name, caller.uid, fields)
        except OSError as error:
            account.tries -= 1  # no login was made
            raise ToolError(
                f"the account of {caller.name} on {self._config.name} cannot be stored: {error.strerror}",
                hint="Zoea tries again at the next call.",
            ) from None

    async def _login(self, caller: Caller, account: _Account, login: LoginSettings) -> dict[str, Any]:
        result, found = await self._try_login(caller, account.fields, login)
        if result.is_error and login.register_ and _contains_any(result.content, login.unknown):
            account.retired.extend(self._field_secrets(account))
            session = await self._register(caller, account, login)
            if session is not None:
                return session
            result, found = await self._try_login(caller, account.fields, login)
        if result.is_error:
            why = mask_secrets(result.content, self._secrets(account))
            raise ToolError(f"{self._config.name} refused the login of {caller.name}: {why}")
        return found

    async def _try_login(
        self, caller: Caller, fields: Mapping[str, str], login: LoginSettings
    ) -> tuple[ToolResult, dict[str, Any]]:
        arguments = login_arguments(self._config, self._schema(), fields, caller.name)
        wire = await self._send(login.login, arguments, caller.name)
        return parse_result(wire), self._session_fields(parse_fields(wire))

    def _session_fields(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return a session's fields, and each injected argument with its field, even an inner one."""
        inner = dict(flatten(values))
        fields = {name: values.get(key, inner.get(key)) for name, key in self._config.injected_fields.items()}
        return {**values, **{name: value for name, value in fields.items() if value is not None}}

    def _schema(self) -> Mapping[str, Any]:
        """Return the schema of the login; empty if there is none."""
        return self._schema_of(self._config.login.login) if self._config.login is not None else {}

    def _secrets(self, account: _Account) -> list[str]:
        """Return the secrets, longest first, so that one that contains another is replaced whole."""
        values = {*self._field_secrets(account), *self._session_secrets(account), *account.retired}
        return sorted(values, key=len, reverse=True)

    def _field_secrets(self, account: _Account) -> Iterable[str]:
        schema = self._schema()
        fields = (*account.fields.items(), *account.sent.items())
        return (value for key, value in fields if is_secret_field(self._config, key, schema))

    def _session_secrets(self, account: _Account) -> Iterable[str]:
        session = account.session or {}
        injected = {name: session[name] for name in self._config.inject if session.get(name) not in (None, "")}
        objects = [value for value in injected.values() if isinstance(value, Mapping)]
        texts = [str(value) for value in injected.values() if not isinstance(value, Mapping)]
        return (*texts, *(text for value in objects for _, text in flatten(value)))


class SchemaOf(Protocol):
    def __call__(self, tool: str) -> Mapping[str, Any]:
        """Return a tool's input schema as its server listed it; empty if there is none."""
        ...


def _split_unanswered(stored: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the fields of a registration that was not answered, and those of the account."""
    if not stored.pop(_UNANSWERED, ""):
        return {}, stored
    before = {key.removeprefix(_BEFORE): value for key, value in stored.items() if key.startswith(_BEFORE)}
    return {key: value for key, value in stored.items() if not key.startswith(_BEFORE)}, before


def _retrieve_error(task: asyncio.Task[None]) -> None:
    """Mark the error as retrieved: the waiting calls, or else the next one, get it."""
    if not task.cancelled():
        task.exception()


def _contains_any(text: str, marks: Iterable[str]) -> bool:
    plain = text.casefold()
    return any(mark.casefold() in plain for mark in marks)
