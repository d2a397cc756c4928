"""Write Zoea's entry into the configuration files of MCP clients.

Other servers, other settings and their order stay. A file with comments is not rewritten, because
plain JSON would lose them. Before a change the file is copied.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any

import tomlkit
from msgspec import Struct
from tomlkit.exceptions import TOMLKitError

from zoea.mcp_server.tokens import TokenScope
from zoea.model.errors import SettingsError, UsageError
from zoea.settings.paths import DEFAULT_WORKSPACE
from zoea.settings.private_file import write_private
from zoea.settings.small_file import MOST_FOREIGN_BYTES, read_small_text
from zoea.text.document_bounds import check_settings_text
from zoea.text.large_json import parse_bounded

NAME = "zoea"


class KnownClient(Struct, frozen=True):
    """A client, and the place of its MCP servers.

    Args:
        file: Relative to the home directory; on macOS `mac`, if set.
        table: The keys that lead to the servers in the file.
        is_toml: TOML instead of JSON.
        extra: Fields of its entries besides command, args and env.
    """

    title: str
    file: str
    table: tuple[str, ...] = ("mcpServers",)
    mac: str = ""
    is_toml: bool = False
    extra: tuple[tuple[str, str], ...] = ()

    def path(self, home: Path, platform: str = sys.platform) -> Path:
        return home / (self.mac if self.mac and platform == "darwin" else self.file)


_STDIO = (("type", "stdio"),)
_CUSTOM = (("source", "custom"),)
"""Zed takes an entry without it for the settings of an extension."""
CLIENTS: Mapping[str, KnownClient] = {
    "claude": KnownClient("Claude Code", ".claude.json", extra=_STDIO),
    "claude-desktop": KnownClient(
        "Claude Desktop",
        ".config/Claude/claude_desktop_config.json",
        mac="Library/Application Support/Claude/claude_desktop_config.json",
    ),
    "codex": KnownClient("Codex", ".codex/config.toml", ("mcp_servers",), is_toml=True),
    "cursor": KnownClient("Cursor", ".cursor/mcp.json"),
    "gemini": KnownClient("Gemini CLI", ".gemini/settings.json"),
    "lmstudio": KnownClient("LM Studio", ".lmstudio/mcp.json"),
    "vscode": KnownClient(
        "VS Code",
        ".config/Code/User/mcp.json",
        ("servers",),
        mac="Library/Application Support/Code/User/mcp.json",
        extra=_STDIO,
    ),
    "windsurf": KnownClient("Windsurf", ".codeium/windsurf/mcp_config.json"),
    "zed": KnownClient("Zed", ".config/zed/settings.json", ("context_servers",), extra=_CUSTOM),
}


class WrittenConfig(Struct, frozen=True):
    """The written file, and the copy of the old one (None if there was none)."""

    file: Path
    backup: Path | None


def client_named(name: str) -> KnownClient:
    """Find a client by name. Raises UsageError with the known names."""
    client = CLIENTS.get(name)
    if client is None:
        raise UsageError(f"no client {name!r} is known", hint=f"There are: {', '.join(CLIENTS)}.")
    return client


def make_entry(
    name: str, scope: TokenScope, workspace: str = "", env: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Make Zoea's entry for a client: a command that serves MCP over stdio.

    It has the program's full path, because clients started from a desktop have a short PATH, and
    the directories from the person's environment.
    """
    program = Path(sys.executable).with_name(NAME)
    command = [str(program)] if program.is_file() else [sys.executable, "-m", NAME]
    args = [*command[1:], "mcp", "--as", name, "--scope", scope.value]
    if workspace and workspace != DEFAULT_WORKSPACE:
        args += ["--workspace", workspace]
    kept = {key: env[key] for key in ("ZOEA_DATA_DIR", "ZOEA_CONFIG_DIR") if env.get(key)}
    entry: dict[str, Any] = {**dict(client_named(name).extra), "command": command[0], "args": args}
    return {**entry, "env": kept} if kept else entry


def format_entry(client: KnownClient, entry: Mapping[str, Any]) -> str:
    """Format the entry for pasting into the client's file."""
    tree: Any = {NAME: dict(entry)}
    for key in reversed(client.table):
        tree = {key: tree}
    return tomlkit.dumps(tree) if client.is_toml else json.dumps(tree, indent=2) + "\n"


def write_entry(client: KnownClient, entry: Mapping[str, Any], home: Path, now: float) -> WrittenConfig:
    """Write the entry into the client's file, replacing one of the same name.

    Raises:
        SettingsError: The file has an unexpected shape, or cannot be written; it is unchanged.
    """
    file = client.path(home)
    if file.is_symlink() and not file.exists():
        raise _cannot_edit(file, f"is a link to {file.readlink()}, which does not exist")
    file = file.resolve() if file.exists() else file
    before = _read(file)
    after = (_into_toml if client.is_toml else _into_json)(file, before or "", client.table, entry)
    backup = _backup(file, now) if before is not None else None
    write_private(file, after)
    return WrittenConfig(file, backup)


def _read(file: Path) -> str | None:
    try:
        return read_small_text(file, MOST_FOREIGN_BYTES)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        raise SettingsError(f"{file} cannot be read: {why}") from None


def _into_json(file: Path, text: str, table: tuple[str, ...], entry: Mapping[str, Any]) -> str:
    try:
        tree = parse_bounded(text.encode("utf-8", "surrogatepass")) if text.strip() else {}
    except ValueError:
        raise _cannot_edit(file, "is not plain JSON, so rewriting it would lose its comments") from None
    place = tree
    for key in table:
        place = place.setdefault(key, {}) if isinstance(place, dict) else None
    if not isinstance(place, dict):
        raise _cannot_edit(file, f"has another kind of value under {'.'.join(table)}")
    place[NAME] = dict(entry)
    try:
        return json.dumps(tree, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError:
        raise _cannot_edit(file, "has a number that JSON cannot represent") from None


def _into_toml(file: Path, text: str, table: tuple[str, ...], entry: Mapping[str, Any]) -> str:
    try:
        document = tomlkit.parse(check_settings_text(text))
    except TOMLKitError:
        raise _cannot_edit(file, "is not TOML") from None
    except ValueError as error:
        raise _cannot_edit(file, str(error)) from None
    place: Any = document
    for key in table:
        place = place.setdefault(key, tomlkit.table(is_super_table=True)) if isinstance(place, dict) else None
    if not isinstance(place, dict):
        raise _cannot_edit(file, f"has another kind of value under {'.'.join(table)}")
    place[NAME] = dict(entry)
    return tomlkit.dumps(document)


def _cannot_edit(file: Path, why: str) -> SettingsError:
    return SettingsError(f"{file} {why}", hint="Run this without --write, and paste the entry yourself.")


def _backup(file: Path, now: float) -> Path:
    name = f"{file.name}.before-zoea-{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}"
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    copy = next(path for path in map(file.with_name, names) if not path.exists())
    try:
        shutil.copy2(file, copy)
    except OSError as problem:
        raise SettingsError(f"{copy} cannot be written: {problem.strerror}") from None
    return copy
