"""The configuration of an upstream: its settings with the values of their references.

`runtime` makes it from `[upstream.NAME]`, the import of other clients' files from theirs. No `repr` shows a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, SecretStr, SkipValidation, ValidationError

from zoea.model.errors import SettingsError
from zoea.settings.credentials import Credentials
from zoea.settings.endpoints import Address, LoginSettings, UpstreamSettings
from zoea.settings.schema import Name


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

    @property
    def transport(self) -> str:
        """`stdio`, `http` or `in process`."""
        if self.command:
            return "stdio"
        return "http" if self.url else "in process"

    @property
    def injected_fields(self) -> dict[str, str]:
        """The arguments that Zoea fills in, each with the field of the account or session that it takes."""
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
