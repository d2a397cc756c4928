"""One token per client, kept as a hash, refused as soon as it is revoked."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from zoea.mcp_server.tokens import McpClient, Tokens, TokenScope
from zoea.model.errors import UsageError
from zoea.settings.credentials import Credentials

NOW = 1_800_000_000_000_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "credentials.toml"


@pytest.fixture
def tokens(file: Path) -> Tokens:
    return Tokens(Credentials(file))


def test_a_token_lets_its_client_in_with_its_scope(tokens: Tokens) -> None:
    reader, commander = tokens.new("claude", TokenScope.READ, NOW), tokens.new("codex", TokenScope.COMMAND, NOW)
    assert reader != commander
    assert tokens.client_of(reader) == McpClient("claude", TokenScope.READ)
    assert tokens.client_of(commander) == McpClient("codex", TokenScope.COMMAND)
    assert tokens.client_of(reader[:-1]) is None
    assert tokens.client_of("") is None
    assert tokens.client_of("\udcff") is None


def test_nothing_that_is_kept_or_listed_lets_anybody_in(tokens: Tokens, file: Path) -> None:
    token = tokens.new("claude", TokenScope.READ, NOW)
    kept = file.read_text(encoding="utf-8")
    assert token not in kept
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (row,) = tokens.rows()
    assert (row.name, row.scope, row.created_at) == ("claude", TokenScope.READ, NOW)
    assert token not in repr(row)
    assert tokens.client_of(token) is not None
    assert [word for word in (*re.findall(r"[^\s\"\\',{}:]+", kept), repr(row), "") if tokens.client_of(word)] == []


def test_a_name_has_one_token(tokens: Tokens) -> None:
    tokens.new("claude", TokenScope.READ, NOW)
    with pytest.raises(UsageError, match="has a token already"):
        tokens.new("claude", TokenScope.COMMAND, NOW)


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "a\n", "x" * 41, "ü", "Commander"])
def test_a_name_that_could_mislead_is_refused(tokens: Tokens, name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid client name"):
        tokens.new(name, TokenScope.READ, NOW)


def test_a_token_revoked_elsewhere_is_refused_at_once(tokens: Tokens, file: Path) -> None:
    token = tokens.new("claude", TokenScope.READ, NOW)
    assert tokens.client_of(token) is not None
    Tokens(Credentials(file)).revoke("claude")
    assert tokens.client_of(token) is None
    with pytest.raises(UsageError, match="no token claude"):
        tokens.revoke("claude")


@pytest.mark.parametrize("kept", ["", "{}", "[]", '{"sha256": "", "scope": "god", "created_at": 1}', "hello"])
def test_invalid_entries_admit_no_client(tokens: Tokens, file: Path, kept: str) -> None:
    if kept:
        Credentials(file).set("mcp-token/odd", kept)
    Credentials(file).set("openai", "sk-something")
    assert tokens.rows() == ()
    assert tokens.client_of("") is None
    assert tokens.client_of("sk-something") is None
