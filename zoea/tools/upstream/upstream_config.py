"""The configuration of an upstream, as checked values.

`runtime` makes it from the settings `[upstream.NAME]`, the import of other clients' files from
theirs. No `repr` shows a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from zoea.model.errors import SettingsError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")

ACCOUNT = "account"
"""The only source for `inject`: the account of the calling mysis."""


_ABOVE_ZERO = (
    "start_timeout",
    "max_parallel",
    "max_sessions",
    "max_tools",
    "max_description",
    "max_schemas",
    "max_messages",
    "idle_close",
    "backoff",
    "backoff_max",
)


class Sharing(StrEnum):
    """Whether all myses share a session of an upstream."""

    SHARED = "shared"
    PER_MYSIS = "per-mysis"


@dataclass(frozen=True, slots=True)
class LoginTools:
    """The upstream's tools for accounts and sessions, which Zoea calls for a mysis.

    Args:
        login: Takes those fields of the account that its schema names; returns the session's
            fields (`session_id`).
        register: Returns the account's fields (`account`, `password`); empty if accounts are
            created elsewhere.
        name, secret: The arguments for the account's name and secret; guessed from the tools'
            schemas if empty.
        fixed: Arguments that are the same for all accounts.
        lost: Texts in an error result that mean: log in again and repeat the call.
        unknown: Texts in an answer to a login that mean: the account is gone, create a new one.
        taken: Texts in an answer to a registration that mean: try another name.
    """

    login: str = "login"
    register: str = "register"
    lost: tuple[str, ...] = ("session_lost",)
    unknown: tuple[str, ...] = ("unknown_account",)
    taken: tuple[str, ...] = ("name_taken", "already taken", "already exists", "already in use")
    name: str = ""
    secret: str = ""
    fixed: Mapping[str, str | int | float | bool] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class UpstreamConfig:
    """One MCP server.

    Args:
        name: Chosen by the person; a prefix of tool names that clash.
        command, args, env, cwd: A child process that speaks stdio. `env` is added to the few
            variables a child gets (`PATH`, `HOME`, …).
        url, headers: A streamable HTTP address.
        server: An MCP server object of this process, for tests and embedding.
        session: Whether all myses share one session or each has its own.
        required: Once its retries are spent, a mysis cannot go on without it.
        idempotent: Globs over the upstream's own tool names: calls that may be repeated.
        inject: Argument name -> `account`: filled in by Zoea, hidden from the model.
        login: The tools for accounts; None if there are none.
        start_timeout: Seconds for opening and reading the tools.
        max_parallel: Calls in flight at once, over all sessions.
        max_sessions: With `per-mysis`: sessions open at once.
        idle_close: With `per-mysis`: seconds without a call after which a session is closed.
        retries: Failed attempts to reopen before it counts as down; Zoea still tries, slowly.
        max_tools: Tools that are offered; those above it are left out.
        max_description: Characters of a tool's description; longer ones are cut.
        max_schemas: Bytes of the input schemas together; tools that do not fit are left out.
        max_messages: Messages a second that answer no call; a session that floods is closed.
        is_own: It is Zoea's own: its tools ask only where a policy names them.
        backoff: Seconds before the first attempt to reopen; doubles up to `backoff_max`.

    Raises:
        SettingsError: Names the upstream, the key and what it may be.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | Path = ""
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    server: object | None = field(default=None, repr=False)
    session: Sharing = Sharing.SHARED
    required: bool = False
    idempotent: tuple[str, ...] = ()
    inject: Mapping[str, str] = field(default_factory=dict)
    login: LoginTools | None = None
    start_timeout: float = 20.0
    max_parallel: int = 32
    max_sessions: int = 16
    idle_close: float = 600.0
    retries: int = 3
    is_own: bool = False
    max_tools: int = 128
    max_description: int = 2_000
    max_schemas: int = 32_000
    max_messages: int = 64
    backoff: float = 0.5
    backoff_max: float = 30.0

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise SettingsError(
                f"upstream {self.name!r}: a name is 1 to 32 letters, digits, - or _, starting with a letter or digit"
            )
        given = [key for key, value in (("command", self.command), ("url", self.url)) if value]
        if self.server is not None:
            given.append("server")
        if len(given) != 1:
            what = " and ".join(given) if given else "neither command nor url"
            raise SettingsError(f"upstream.{self.name}: has {what}", hint="Give either command (with args) or url.")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise SettingsError(f"upstream.{self.name}.url: must start with http:// or https://")
        for argument, source in self.inject.items():
            if source != ACCOUNT:
                raise SettingsError(f'upstream.{self.name}.inject.{argument}: must be "{ACCOUNT}", not {source!r}')
        for key in _ABOVE_ZERO:
            if getattr(self, key) <= 0:
                raise SettingsError(f"upstream.{self.name}.{key}: must be above 0")
        if self.retries < 0:
            raise SettingsError(f"upstream.{self.name}.retries: must be 0 or more")

    @property
    def transport(self) -> str:
        """`stdio`, `http` or `in process`."""
        if self.command:
            return "stdio"
        return "http" if self.url else "in process"

    @property
    def hidden_tools(self) -> frozenset[str]:
        """The upstream's tools that only Zoea calls, for accounts."""
        if self.login is None:
            return frozenset()
        return frozenset(name for name in (self.login.register, self.login.login) if name)
