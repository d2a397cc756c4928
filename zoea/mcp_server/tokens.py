"""Tokens of MCP clients: one per client, stored as a hash.

Tokens are random, so one round of SHA-256 is enough. The credentials file (0600) holds hash, scope
and time under `mcp-token/NAME` and is read again after each change, so a revoked token is refused
at the next request.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from enum import StrEnum

from msgspec import Struct

from zoea.model.enums import SenderKind
from zoea.model.errors import UsageError
from zoea.model.values import Sender, check_client_name
from zoea.settings.credentials import Credentials

PREFIX = "zoea_"
_KEY_PREFIX = "mcp-token/"


class TokenScope(StrEnum):
    """Rights of a client; `COMMAND` includes `READ`."""

    READ = "read"
    COMMAND = "command"


class McpClient(Struct, frozen=True):
    """A client with a valid token. Its name is the sender of its messages."""

    name: str
    scope: TokenScope = TokenScope.READ

    @property
    def may_command(self) -> bool:
        return self.scope is TokenScope.COMMAND

    @property
    def sender(self) -> Sender:
        return Sender(SenderKind.CLIENT, None, self.name)


class TokenRow(Struct, frozen=True):
    """An entry in the list of tokens, without the token. `created_at` is µs UTC."""

    name: str
    scope: TokenScope
    created_at: int


class Tokens:
    """The tokens of one workspace."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def new(self, name: str, scope: TokenScope, now: int) -> str:
        """Create a token for a client and return it; it cannot be read later.

        Raises:
            UsageError: The name is invalid, or has a token already.
            SettingsError: The credentials file cannot be read or written.
        """
        check_client_name(name)
        if self._credentials.get(_KEY_PREFIX + name) is not None:
            raise UsageError(
                f"{name} has a token already",
                hint=f"Revoke it (`zoea mcp token revoke {name}`) or choose another name.",
            )
        token = PREFIX + secrets.token_urlsafe(32)
        kept = {"sha256": _hash(token), "scope": scope.value, "created_at": now}
        self._credentials.set(_KEY_PREFIX + name, json.dumps(kept))
        return token

    def rows(self) -> tuple[TokenRow, ...]:
        """List all tokens by name. Raises SettingsError if the credentials file cannot be read."""
        return tuple(row for row, _ in self._entries())

    def revoke(self, name: str) -> None:
        """Revoke a token. Raises UsageError if there is none of that name, and SettingsError."""
        if not self._credentials.delete(_KEY_PREFIX + name):
            raise UsageError(f"there is no token {name}", hint="`zoea mcp token list` shows the tokens.")

    def client_of(self, token: str) -> McpClient | None:
        """Return the client of a token, or None if it is unknown. Raises SettingsError."""
        presented = _hash(token)
        owner: McpClient | None = None
        # All are compared, so that the time does not depend on the match.
        for row, kept in self._entries():
            if hmac.compare_digest(kept, presented):
                owner = McpClient(row.name, row.scope)
        return owner

    def _entries(self) -> list[tuple[TokenRow, str]]:
        kept = self._credentials.with_prefix(_KEY_PREFIX).items()
        return [row for name, value in kept if (row := _read(name, value.get_secret_value())) is not None]


def _read(name: str, kept: str) -> tuple[TokenRow, str] | None:
    """Parse an entry of the file. None if it is invalid, so that it admits no client."""
    try:
        value = json.loads(kept)
        return TokenRow(name, TokenScope(value["scope"]), int(value["created_at"])), str(value["sha256"])
    except (ValueError, KeyError, TypeError):
        return None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
