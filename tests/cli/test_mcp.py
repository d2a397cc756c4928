"""`zoea mcp`: tokens, and entries for other clients."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Zoea
from zoea.mcp_server.tokens import Tokens, TokenScope
from zoea.settings.credentials import Credentials
from zoea.settings.paths import places


def tokens() -> Tokens:
    return Tokens(Credentials(places().credentials))


def test_a_token_is_shown_once_and_never_listed(zoea: Zoea) -> None:
    made = zoea("mcp", "token", "new", "claude")
    token = made.out.strip()
    client = tokens().client_of(token)
    assert client is not None
    assert (client.name, client.scope) == ("claude", TokenScope.READ)
    assert "not shown again" in made.err
    listed = zoea("mcp", "token", "list")
    assert listed.out.startswith("claude  read")
    assert token not in listed.out
    assert zoea("mcp", "token", "list", "--json").json[0]["name"] == "claude"


def test_a_token_gets_the_command_scope_on_request(zoea: Zoea) -> None:
    made = zoea("mcp", "token", "new", "codex", "--scope", "command", "--json").json
    client = tokens().client_of(made["token"])
    assert client is not None
    assert client.may_command


def test_a_revoked_token_is_removed(zoea: Zoea) -> None:
    token = zoea("mcp", "token", "new", "claude").out.strip()
    assert "The token of claude is revoked" in zoea("mcp", "token", "revoke", "claude").out
    assert tokens().client_of(token) is None
    again = zoea("mcp", "token", "revoke", "claude")
    assert (again.code, "no token claude" in again.err) == (2, True)
    zoea("mcp", "token", "new", "claude")
    assert zoea("mcp", "token", "revoke", "claude", "--json").json == {"revoked": "claude"}
    assert "Make one" in zoea("mcp", "token", "list").out


def test_an_entry_is_shown_and_nothing_is_written(zoea: Zoea) -> None:
    shown = zoea("mcp", "install", "--client", "cursor")
    assert json.loads(shown.out)["mcpServers"]["zoea"]["args"][-5:] == ["mcp", "--as", "cursor", "--scope", "read"]
    assert ".cursor/mcp.json" in shown.err
    assert not (Path.home() / ".cursor").exists()
    assert zoea("mcp", "install", "--client", "cursor", "--json").json["client"] == "cursor"


def test_an_entry_is_written_to_the_clients_file(zoea: Zoea) -> None:
    file = Path.home() / ".cursor" / "mcp.json"
    first = zoea("mcp", "install", "--client", "cursor", "--write")
    assert "Restart Cursor" in first.out
    second = zoea("mcp", "install", "--client", "cursor", "--write", "--scope", "command")
    assert "The former contents are in" in second.out
    assert json.loads(file.read_text())["mcpServers"]["zoea"]["args"][-1] == "command"
    assert zoea("mcp", "install", "--client", "cursor", "--write", "--json").json["backup"]


def test_an_unknown_client_is_an_error(zoea: Zoea) -> None:
    ran = zoea("mcp", "install", "--client", "emacs")
    assert ran.code == 2
    assert "claude-desktop" in ran.err


def test_a_name_that_cannot_be_a_sender_is_refused(zoea: Zoea) -> None:
    ran = zoea("mcp", "--as", "two words")
    assert ran.code == 2
    assert "is not a valid client name" in ran.err
