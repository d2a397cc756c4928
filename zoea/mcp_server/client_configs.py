"""Zoea's entry in other clients' settings: where each keeps its MCP servers, and how an entry looks there.

What stands in a client's file stays: other servers, other settings, the order. A
file that plain JSON cannot hold (comments) is not rewritten, and before any change
the file is copied beside itself.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from zoea.mcp_server.tokens import TokenScope
from zoea.model.errors import SettingsError, UsageError
from zoea.settings.paths import DEFAULT_WORKSPACE
from zoea.settings.private_file import write_private

NAME = "zoea"


@dataclass(frozen=True, slots=True)
class KnownClient:
    """A client, and where it keeps its servers.

    Args:
        file: From the home directory; on macOS `mac` where that differs.
        table: The keys that lead to the servers in the file.
        is_toml: TOML instead of JSON.
        extra: What its entries hold beside command, args and env.
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
    "zed": KnownClient("Zed", ".config/zed/settings.json", ("context_servers",)),
}


@dataclass(frozen=True, slots=True)
class WrittenConfig:
    """What was written: the file, and the copy of what stood there before (None where there was nothing)."""

    file: Path
    backup: Path | None


def client_named(name: str) -> KnownClient:
    """A client by its name. Raises UsageError with those there are."""
    found = CLIENTS.get(name)
    if found is None:
        raise UsageError(f"no client {name!r} is known", hint=f"There are: {', '.join(CLIENTS)}.")
    return found


def entry(name: str, scope: TokenScope, workspace: str = "", env: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Zoea's entry for a client: a command that speaks MCP over stdio as the client of that name.

    The program is named in full, since clients started from a desktop search few
    places; directories that the person's environment names go with it.
    """
    program = Path(sys.executable).with_name(NAME)
    command = [str(program)] if program.is_file() else [sys.executable, "-m", NAME]
    args = [*command[1:], "mcp", "--as", name, "--scope", scope.value]
    if workspace and workspace != DEFAULT_WORKSPACE:
        args += ["--workspace", workspace]
    kept = {key: env[key] for key in ("ZOEA_DATA_DIR", "ZOEA_CONFIG_DIR") if env.get(key)}
    made: dict[str, Any] = {**dict(client_named(name).extra), "command": command[0], "args": args}
    return {**made, "env": kept} if kept else made


def text_of(client: KnownClient, made: Mapping[str, Any]) -> str:
    """The entry as a person would paste it into the client's file."""
    tree: Any = {NAME: dict(made)}
    for key in reversed(client.table):
        tree = {key: tree}
    return tomlkit.dumps(tree) if client.is_toml else json.dumps(tree, indent=2) + "\n"


def write(client: KnownClient, made: Mapping[str, Any], home: Path, now: float) -> WrittenConfig:
    """Put the entry into the client's file, over one of the same name.

    Raises:
        SettingsError: the file is not what it should be, or cannot be written; it is as it was.
    """
    file = client.path(home)
    if file.is_symlink() and not file.exists():
        raise _not_ours(file, f"is a link to {file.readlink()}, which is not there")
    file = file.resolve() if file.exists() else file
    before = _read(file)
    after = (_into_toml if client.is_toml else _into_json)(file, before or "", client.table, made)
    backup = _backup(file, now) if before is not None else None
    write_private(file, after)
    return WrittenConfig(file, backup)


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        raise SettingsError(f"{file} cannot be read: {why}") from None


def _into_json(file: Path, text: str, table: tuple[str, ...], made: Mapping[str, Any]) -> str:
    try:
        tree = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        raise _not_ours(file, "is no plain JSON, so writing it anew would lose its comments") from None
    place = tree
    for key in table:
        place = place.setdefault(key, {}) if isinstance(place, dict) else None
    if not isinstance(place, dict):
        raise _not_ours(file, f"holds something else under {'.'.join(table)}")
    place[NAME] = dict(made)
    try:
        return json.dumps(tree, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError:
        raise _not_ours(file, "holds a number that JSON cannot say again") from None


def _into_toml(file: Path, text: str, table: tuple[str, ...], made: Mapping[str, Any]) -> str:
    try:
        document = tomlkit.parse(text)
    except TOMLKitError:
        raise _not_ours(file, "is no TOML") from None
    place: Any = document
    for key in table:
        place = place.setdefault(key, tomlkit.table(is_super_table=True)) if isinstance(place, dict) else None
    if not isinstance(place, dict):
        raise _not_ours(file, f"holds something else under {'.'.join(table)}")
    place[NAME] = dict(made)
    return tomlkit.dumps(document)


def _not_ours(file: Path, why: str) -> SettingsError:
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
