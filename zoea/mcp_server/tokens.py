"""Who may come in through the MCP server, and as whom: one token per client, kept as a hash.

Tokens are random, so one round of SHA-256 is enough; the credentials file (0600)
holds hash, scope and time under `mcp-token/NAME`, and is read again whenever it
changed: what is revoked is refused with the next request.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from enum import StrEnum

from zoea.model.enums import SenderKind
from zoea.model.errors import UsageError
from zoea.model.values import Sender, check_client_name
from zoea.settings.credentials import Credentials

PREFIX = "zoea_"
_KEPT_AS = "mcp-token/"


class TokenScope(StrEnum):
    """What a client may do; `COMMAND` includes `READ`."""

    READ = "read"
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class McpClient:
    """Somebody outside the swarm who was let in. Its name is the sender of what it says."""

    name: str
    scope: TokenScope = TokenScope.READ

    @property
    def may_command(self) -> bool:
        return self.scope is TokenScope.COMMAND

    @property
    def sender(self) -> Sender:
        return Sender(SenderKind.CLIENT, None, self.name)


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as it is listed: never itself. `created_at` is µs UTC."""

    name: str
    scope: TokenScope
    created_at: int


class Tokens:
    """The tokens of one workspace."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def new(self, name: str, scope: TokenScope, now: int) -> str:
        """A token for a client, told this once and never again.

        Raises:
            UsageError: the name cannot be one, or has a token already.
            SettingsError: the credentials file cannot be read or written.
        """
        check_client_name(name)
        if self._credentials.get(_KEPT_AS + name) is not None:
            raise UsageError(
                f"{name} has a token already", hint=f"`zoea mcp token revoke {name}` first, or choose another name."
            )
        token = PREFIX + secrets.token_urlsafe(32)
        kept = {"sha256": _hash(token), "scope": scope.value, "created_at": now}
        self._credentials.set(_KEPT_AS + name, json.dumps(kept))
        return token

    def rows(self) -> tuple[TokenRow, ...]:
        """All tokens by name. Raises SettingsError where the credentials file cannot be read."""
        return tuple(row for row, _ in self._kept())

    def revoke(self, name: str) -> None:
        """Refuse a token from now on. Raises UsageError where there is none of that name, and SettingsError."""
        if not self._credentials.delete(_KEPT_AS + name):
            raise UsageError(f"there is no token {name}", hint="`zoea mcp token list` shows them.")

    def client_of(self, token: str) -> McpClient | None:
        """Whose token this is; None where it is nobody's. Raises SettingsError."""
        presented = _hash(token)
        found: McpClient | None = None
        # All are compared, so that the time it takes says nothing of which.
        for row, kept in self._kept():
            if hmac.compare_digest(kept, presented):
                found = McpClient(row.name, row.scope)
        return found

    def _kept(self) -> list[tuple[TokenRow, str]]:
        kept = self._credentials.with_prefix(_KEPT_AS).items()
        return [row for name, value in kept if (row := _read(name, value.get_secret_value())) is not None]


def _read(name: str, kept: str) -> tuple[TokenRow, str] | None:
    """A row of the file; None where somebody wrote something else there, which lets nobody in."""
    try:
        value = json.loads(kept)
        return TokenRow(name, TokenScope(value["scope"]), int(value["created_at"])), str(value["sha256"])
    except (ValueError, KeyError, TypeError):
        return None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
