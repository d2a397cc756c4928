"""Other clients' files are read as they are written. What cannot be an upstream says why."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.case_tables import walk_cases
from zoea.model.errors import SettingsError
from zoea.tools.mcp_json import convert_references, find_secret_arguments, is_reference, read_servers

GIT = {"command": "uvx", "args": ["mcp-server-git", "--repository", "/r"], "env": {"LOG": "debug"}}
WEB = {"type": "http", "url": "https://mcp.example/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}}


@walk_cases(
    "shape",
    [
        lambda servers: {"mcpServers": servers},
        lambda servers: {"servers": servers, "inputs": []},
        lambda servers: {"mcp": {"servers": servers}, "editor.fontSize": 12},
        lambda servers: {"context_servers": servers},
        lambda servers: servers,
    ],
)
def test_the_known_shapes_are_read(shape: Any) -> None:
    found = read_servers(json.dumps(shape({"git": GIT, "web": WEB})))
    git, web = (one.config for one in found.servers)
    assert (git.command, git.args, dict(git.env)) == ("uvx", ("mcp-server-git", "--repository", "/r"), {"LOG": "debug"})
    assert (web.url, dict(web.headers)) == ("https://mcp.example/mcp", {"Authorization": "Bearer {env:TOKEN}"})
    assert not found.refused


def test_comments_and_trailing_commas_are_allowed_and_strings_are_left_alone() -> None:
    text = """{ // my servers
      "servers": { /* two
        lines */ "web": {"url": "http://h/mcp//x, ]", "headers": {"a": "/* no comment */",},}, // last
      },
    }"""
    config = read_servers(text).servers[0].config
    assert config.url == "http://h/mcp//x, ]"
    assert dict(config.headers) == {"a": "/* no comment */"}


@walk_cases("key", ["url", "serverUrl", "httpUrl"])
def test_an_address_goes_by_several_names(key: str) -> None:
    assert (
        read_servers(json.dumps({"mcpServers": {"a": {key: "http://h/mcp"}}})).servers[0].config.url == "http://h/mcp"
    )


def test_a_command_may_be_a_table() -> None:
    entry = {"command": {"path": "node", "args": ["x.js"], "env": {"A": "1"}}}
    config = read_servers(json.dumps({"context_servers": {"a": entry}})).servers[0].config
    assert (config.command, config.args, dict(config.env)) == ("node", ("x.js",), {"A": "1"})


@walk_cases(
    ("entry", "why"),
    [
        (5, "is not a table of settings"),
        ({"type": "sse", "url": "http://h/sse"}, "speaks sse, which MCP no longer has"),
        ({}, "has neither command nor url"),
        ({"command": "x", "url": "http://h"}, "has command and url"),
        ({"command": "x", "args": "y"}, "args is not a list"),
        ({"command": "x", "args": [{}]}, "args holds a value that is not text"),
        ({"command": "x", "args": ["y"] * 501}, "args has 501 values; at most 500 are read"),
        ({"command": "x", "env": dict.fromkeys(map(str, range(501)), "y")}, "env has 501 values; at most 500 are read"),
        ({"url": "http://h", "headers": dict.fromkeys(map(str, range(501)), "y")}, "headers has 501 values"),
        ({"command": "x", "env": ["A=1"]}, "env is not a table"),
        ({"command": "x", "env": {"A": True}}, "env.A holds a value that is not text"),
    ],
)
def test_an_invalid_server_is_refused_with_the_reason(entry: Any, why: str) -> None:
    found = read_servers(json.dumps({"mcpServers": {"bad": entry, "good": GIT}}))
    assert found.refused["bad"].startswith(why)
    assert [one.config.name for one in found.servers] == ["good"]


def test_names_are_made_fit_and_kept_apart() -> None:
    found = read_servers(json.dumps({"mcpServers": {"My Server!": GIT, "My-Server": GIT, "日本": GIT}}))
    assert [one.config.name for one in found.servers] == ["My-Server", "My-Server-2", "server"]
    assert found.servers[0].notes == ("My Server! is named My-Server here",)


def test_notes_name_renamed_disabled_and_incomplete_servers() -> None:
    entry = {"command": "x", "args": ["${input:key}", "${workspaceFolder}"], "disabled": True, "env": {"A": None}}
    notes = read_servers(json.dumps({"servers": {"a": entry}})).servers[0].notes
    assert "it was disabled there; it is enabled here" in notes
    assert any("asked for key" in note for note in notes)
    assert any("placeholder" in note for note in notes)


@walk_cases("text", ["", "{", "[]", "{}", '{"mcpServers": 5}', '{"a": 1}', '{"a": {"b": 1}}', "[" * 100_000])
def test_a_file_without_servers_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"the file (is not JSON|names no MCP servers)"):
        read_servers(text)


def test_references_of_other_clients_become_zoeas() -> None:
    assert convert_references("${env:TOKEN}") == convert_references("${TOKEN}") == "env:TOKEN"
    assert convert_references("Bearer ${TOKEN}") == "Bearer {env:TOKEN}"
    assert convert_references("$HOME") == "$HOME"
    assert is_reference("env:TOKEN")
    assert is_reference("Bearer {file:x}")
    assert not is_reference("environment")


def test_arguments_that_look_secret_are_found() -> None:
    args = ("--api-key", "abc", "--token=def", "--verbose", "--key", "--next", "x", "--keyboard=us")
    assert list(find_secret_arguments(args)) == [1, 2, 7]
