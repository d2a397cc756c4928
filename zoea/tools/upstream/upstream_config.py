"""The configuration of an upstream: its settings with the values of their references.

`runtime` makes it from `[upstream.NAME]`, the import of other clients' files from theirs. No `repr` shows a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, SecretStr, SkipValidation, ValidationError

from zoea.model.errors import SettingsError
from zoea.settings.credentials import Credentials
from zoea.settings.endpoints import Address, LoginSettings, Sharing, UpstreamSettings
from zoea.settings.schema import Name

WORKTREE = "{worktree}"
"""Stands for the folder that a mysis works in: in `args`, `cwd` and `env` of a command."""
_PER_MYSIS = 'Set `session = "per-mysis"`.'
_PLAIN = re.compile(r"[\w./=:,@%+-]*")
"""What may stand beside it in an argument: no shell reads the path of a folder as commands."""


class UpstreamConfig(UpstreamSettings):
    """One MCP server.

    Attributes:
        name: Chosen by the person; a prefix of tool names that clash.
        env: Added to the few variables a child gets (`PATH`, `HOME`, …).
        secrets: The values of the references in its settings.
        server: An MCP server object of this process, for tests and embedding.
        listed: Its tools where they are known without a session; each mysis then has a process with own arguments.
        is_own: It is Zoea's own: its tools ask only where a policy names them.
        idle_close: Seconds without a call after which the session of one mysis is closed.
        max_messages: Messages a second that answer no call; a session that floods is closed.
        max_description: Characters of a tool's description; longer ones are cut, because most of it is never read.
        backoff: Seconds before the first attempt to reopen; doubles up to `backoff_max`.

    Raises:
        SettingsError: Names the upstream, the key and what it may be.
    """

    name: Name
    args: tuple[str, ...] = Field((), repr=False)
    env: Mapping[str, str] = Field({}, repr=False)  # type: ignore[assignment]  # the values are resolved here
    url: Address = Field("", repr=False)
    headers: Mapping[str, str] = Field({}, repr=False)  # type: ignore[assignment]  # the values are resolved here
    secrets: tuple[str, ...] = Field((), repr=False)
    server: SkipValidation[Any] = Field(None, repr=False)
    listed: SkipValidation[tuple[Any, ...]] = Field((), repr=False)
    is_own: bool = False
    idle_close: float = 600.0
    max_messages: int = 64
    max_description: int = 2_000
    backoff: float = 0.5
    backoff_max: float = 30.0

    def __init__(self, name: str, **values: Any) -> None:
        try:
            super().__init__(**{"name": name, **values})
        except ValidationError as error:
            wrong = error.errors()[0]
            key = ".".join(map(str, (f"upstream.{name}", *(part for part in wrong["loc"] if part != "name"))))
            raise SettingsError(f"{key}: {wrong['msg'].removeprefix('Value error, ')}") from None
        places = [key for key in ("command", "url", "server") if getattr(self, key)]
        if len(places) != 1:
            what = " and ".join(places) if places else "neither command nor url"
            raise SettingsError(f"upstream.{name}: has {what}", hint="Give either command (with args) or url.")
        if WORKTREE in self.command:
            raise SettingsError(
                f"upstream.{name}: command begins with {WORKTREE}, where a mysis may have written it",
                hint=f"Name a program of yours; {WORKTREE} may stand in args, cwd and env.",
            )
        if not self.in_worktree:
            return
        if self.session is not Sharing.PER_MYSIS:
            raise SettingsError(f"upstream.{name}: {WORKTREE} needs a process for each mysis", hint=_PER_MYSIS)
        for argument in self.args:
            if WORKTREE in argument and not _PLAIN.fullmatch(argument.replace(WORKTREE, "")):
                raise SettingsError(
                    f"upstream.{name}: {WORKTREE} stands in an argument with more than the path of a folder",
                    hint='Make it an argument of its own; a line for a shell reads it as "$0" or "$1".',
                )

    @property
    def in_worktree(self) -> bool:
        """Whether its command names the folder that the mysis works in."""
        return any(WORKTREE in text for text in (*self.args, *self.env.values(), self.cwd))

    def at(self, folder: Path) -> Self:
        """Return the configuration of the process of a mysis that works in a folder."""

        def fill(text: str) -> str:
            return text.replace(WORKTREE, str(folder))

        env = {name: fill(value) for name, value in self.env.items()}
        return self.model_copy(update={"args": tuple(map(fill, self.args)), "cwd": fill(self.cwd), "env": env})

    @property
    def transport(self) -> str:
        """`stdio`, `http` or `in process`."""
        if self.command:
            return "stdio"
        return "http" if self.url else "in process"

    @property
    def injected_fields(self) -> dict[str, str]:
        """The arguments that Zoea fills in, each with its field of account or session."""
        return {argument: source.partition(".")[2] or argument for argument, source in self.inject.items()}

    @property
    def hidden_tools(self) -> frozenset[str]:
        """The upstream's tools that only Zoea calls, for accounts."""
        login = self.login
        return frozenset() if login is None else frozenset(name for name in (login.register_, login.login) if name)


def resolve_upstream(name: str, settings: UpstreamSettings, credentials: Credentials) -> UpstreamConfig:
    """Return an upstream's configuration, with the values of its references.

    Raises:
        SettingsError: A reference has no value.
    """
    values = {key: getattr(settings, key) for key in settings.model_fields_set}
    for key in ("env", "headers"):
        values[key] = {one: credentials.fill(text).get_secret_value() for one, text in getattr(settings, key).items()}
    values["args"] = tuple(credentials.fill(argument).get_secret_value() for argument in settings.args)
    texts: list[str | SecretStr] = [*settings.args, *settings.env.values(), *settings.headers.values()]
    values["secrets"] = tuple(secret for text in texts for secret in credentials.values_in(text))
    if (login := settings.login or (LoginSettings() if settings.inject else None)) is not None:
        fixed = {
            key: credentials.fill(value).get_secret_value() if isinstance(value, str) else value
            for key, value in login.fixed.items()
        }
        values["login"] = login.model_copy(update={"fixed": fixed})
    return UpstreamConfig(name, **values)
