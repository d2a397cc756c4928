"""Zoea's entry in other clients' files: the other content stays, and a copy is kept."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from zoea.mcp_server import client_configs
from zoea.mcp_server.tokens import TokenScope
from zoea.model.errors import SettingsError, UsageError
from zoea.tools.mcp_json import read_servers

NOW = 1_800_000_000.0
ENTRY = {"command": "/bin/zoea", "args": ["mcp", "--as", "cursor"]}


def test_an_entry_names_program_client_scope_and_workspace() -> None:
    made = client_configs.make_entry(
        "claude", TokenScope.COMMAND, "mine", {"ZOEA_DATA_DIR": "/data", "HOME": "/home/me"}
    )
    assert made["type"] == "stdio"
    assert Path(made["command"]).is_absolute()
    assert made["args"][-7:] == ["mcp", "--as", "claude", "--scope", "command", "--workspace", "mine"]
    assert made["env"] == {"ZOEA_DATA_DIR": "/data"}
    plain = client_configs.make_entry("cursor", TokenScope.READ, "default", {})
    assert "--workspace" not in plain["args"]
    assert "env" not in plain
    assert "type" not in plain
    assert client_configs.make_entry("zed", TokenScope.READ, env={})["source"] == "custom"


def test_an_unknown_client_is_answered_with_those_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        client_configs.client_named("emacs")
    assert "claude-desktop" in caught.value.hint


@pytest.mark.parametrize("name", [name for name, client in client_configs.CLIENTS.items() if not client.is_toml])
def test_every_json_entry_is_in_a_shape_that_clients_share(name: str, tmp_path: Path) -> None:
    client = client_configs.client_named(name)
    found = read_servers(client_configs.format_entry(client, client_configs.make_entry(name, TokenScope.READ, env={})))
    assert [server.config.name for server in found.servers] == ["zoea"]
    written = client_configs.write_entry(client, ENTRY, tmp_path, NOW)
    assert written.backup is None
    assert [server.config.name for server in read_servers(written.file.read_text()).servers] == ["zoea"]


def test_macos_keeps_some_files_elsewhere(tmp_path: Path) -> None:
    client = client_configs.client_named("claude-desktop")
    assert "Library" in client.path(tmp_path, "darwin").parts
    assert ".config" in client.path(tmp_path, "linux").parts
    assert client_configs.client_named("cursor").path(tmp_path, "darwin") == tmp_path / ".cursor" / "mcp.json"


def test_the_content_of_a_json_file_stays_and_is_copied(tmp_path: Path) -> None:
    client = client_configs.client_named("cursor")
    file = client.path(tmp_path)
    file.parent.mkdir(parents=True)
    before = {"mcpServers": {"git": {"command": "uvx"}, "zoea": {"command": "old"}}, "theme": "größer"}
    file.write_text(json.dumps(before), encoding="utf-8")
    written = client_configs.write_entry(client, ENTRY, tmp_path, NOW)
    after = json.loads(file.read_text(encoding="utf-8"))
    assert after == {"mcpServers": {"git": {"command": "uvx"}, "zoea": ENTRY}, "theme": "größer"}
    assert written.backup is not None
    assert json.loads(written.backup.read_text(encoding="utf-8")) == before
    again = client_configs.write_entry(client, ENTRY, tmp_path, NOW)  # within the same second
    assert again.backup is not None
    assert json.loads(again.backup.read_text(encoding="utf-8")) == after
    assert json.loads(written.backup.read_text(encoding="utf-8")) == before


def test_a_toml_file_keeps_its_comments(tmp_path: Path) -> None:
    client = client_configs.client_named("codex")
    file = client.path(tmp_path)
    file.parent.mkdir(parents=True)
    file.write_text('# mine\nmodel = "o"  # the good one\n\n[mcp_servers.git]\ncommand = "uvx"\n', encoding="utf-8")
    client_configs.write_entry(client, ENTRY, tmp_path, NOW)
    text = file.read_text(encoding="utf-8")
    assert "# mine" in text
    assert "# the good one" in text
    assert tomllib.loads(text)["mcp_servers"] == {"git": {"command": "uvx"}, "zoea": ENTRY}
    assert tomllib.loads(client_configs.format_entry(client, ENTRY)) == {"mcp_servers": {"zoea": ENTRY}}


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("vscode", '{\n// mine\n"servers": {}}', "would lose its comments"),
        ("cursor", '{"mcpServers": []}', "has another kind of value"),
        ("cursor", "[]", "has another kind of value"),
        ("cursor", '{"z": 1e400}', "cannot represent"),
        ("codex", "mcp_servers = 3", "has another kind of value"),
        ("codex", "= broken", "is not TOML"),
        ("codex", "a" + ".a" * 20_000 + " = 1", "is nested too deep"),
    ],
)
def test_a_file_that_cannot_be_kept_whole_is_left_alone(name: str, text: str, why: str, tmp_path: Path) -> None:
    client = client_configs.client_named(name)
    file = client.path(tmp_path)
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=why):
        client_configs.write_entry(client, ENTRY, tmp_path, NOW)
    assert file.read_text(encoding="utf-8") == text
    assert list(file.parent.iterdir()) == [file]


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    client = client_configs.client_named("cursor")
    file = client.path(tmp_path)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(SettingsError, match="it is not UTF-8"):
        client_configs.write_entry(client, ENTRY, tmp_path, NOW)


def test_a_link_stays_one(tmp_path: Path) -> None:
    client = client_configs.client_named("cursor")
    file = client.path(tmp_path)
    file.parent.mkdir(parents=True)
    real = tmp_path / "dotfiles.json"
    real.write_text("", encoding="utf-8")
    file.symlink_to(real)
    client_configs.write_entry(client, ENTRY, tmp_path, NOW)
    assert file.is_symlink()
    assert json.loads(real.read_text(encoding="utf-8")) == {"mcpServers": {"zoea": ENTRY}}


def test_a_dangling_link_stays_a_link(tmp_path: Path) -> None:
    client = client_configs.client_named("cursor")
    file = client.path(tmp_path)
    file.parent.mkdir(parents=True)
    file.symlink_to(tmp_path / "not mounted.json")
    with pytest.raises(SettingsError, match="which does not exist"):
        client_configs.write_entry(client, ENTRY, tmp_path, NOW)
    assert file.is_symlink()
