"""What an upstream is, as the toolbox wants it: plain values, checked once.

The settings' own model of `[upstream.NAME]` is mapped onto this by `app`; the
importer makes it too. Nothing secret is in a `repr`.
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
"""The only source that `inject` knows: the account of the mysis that calls."""


class Sharing(StrEnum):
    """Who shares a session of an upstream."""

    SHARED = "shared"
    PER_MYSIS = "per-mysis"


@dataclass(frozen=True, slots=True)
class LoginTools:
    """The tools by which Zoea makes an account for a mysis and opens its session.

    `register` takes `name` and returns the account's fields (`account`,
    `password`); empty where accounts are made elsewhere. `login` takes what of
    those fields its schema names and returns the session's fields (`session_id`).
    An error result holding one of `lost` means: log in again and repeat the call;
    of `unknown`, in answer to a login: the account is gone, make a new one; of
    `taken`, in answer to a registration: try another name.
    """

    login: str = "login"
    register: str = "register"
    lost: tuple[str, ...] = ("session_lost",)
    unknown: tuple[str, ...] = ("unknown_account",)
    taken: tuple[str, ...] = ("name_taken",)


@dataclass(frozen=True, slots=True)
class UpstreamConfig:
    """One MCP server.

    Args:
        name: What the person calls it; a prefix of tool names on a clash.
        command, args, env, cwd: A child process that speaks stdio. `env` is added to the few
            variables a child gets (`PATH`, `HOME`, …).
        url, headers: A streamable HTTP address.
        server: An MCP server object of this process, for tests and embedding.
        session: Whether all myses share one session or each has its own.
        required: A mysis cannot go on without it once its retries are spent.
        idempotent: Globs over the upstream's own tool names: calls that may be repeated.
        inject: Argument name -> `account`: filled in by Zoea, unseen by the model.
        login: How Zoea makes and opens the accounts; None where it does not.
        start_timeout: Seconds for opening and reading the tools.
        max_parallel: Calls in flight at once, over all sessions.
        max_sessions: With `per-mysis`: sessions open at once.
        idle_close: With `per-mysis`: seconds without a call after which a session is closed.
        retries: Failed attempts to re-open before it counts as down; it is still tried, slowly.
        backoff: Seconds before the first attempt to re-open; doubles up to `backoff_max`.

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
        for key in ("start_timeout", "max_parallel", "max_sessions", "idle_close", "backoff", "backoff_max"):
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
        """The upstream's tools that only Zoea calls."""
        if self.login is None:
            return frozenset()
        return frozenset(name for name in (self.login.register, self.login.login) if name)
