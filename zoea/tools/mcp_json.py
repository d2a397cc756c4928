"""Read the MCP servers from other clients' JSON files, which have nearly the same shape. Pure.

Known shapes: `mcpServers` (Claude Desktop, Claude Code, Cursor, Windsurf, Gemini CLI,
LM Studio), `servers` (VS Code's mcp.json), `mcp.servers` (VS Code's settings.json),
`context_servers` (Zed). Comments and trailing commas are allowed, as VS Code allows them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sized
from typing import Any, TypeVar

from msgspec import Struct, field

from zoea.model.errors import SettingsError
from zoea.settings.early_defaults import NAME_PATTERN
from zoea.text.large_json import parse_bounded
from zoea.tools.upstream.upstream_config import UpstreamConfig

_STRING = r'"(?:[^"\\]++|\\.)*+"?'
_COMMENT = re.compile(rf"(?P<text>{_STRING})|//[^\n]*+|/\*(?:.*?\*/|.*)", re.DOTALL)
_LAST_COMMA = re.compile(rf"(?P<text>{_STRING})|,(?=\s*+[}}\]])", re.DOTALL)
MOST_SERVERS = 200
"""Servers of a file that are looked at."""
MOST_VALUES = 500
"""Arguments, variables or headers of one server: a TOML document of a million takes half a minute."""
_PLACES: tuple[tuple[str, ...], ...] = (("mcpServers",), ("servers",), ("mcp", "servers"), ("context_servers",))
_URL_KEYS = ("url", "serverUrl", "httpUrl")
_REFERENCE = re.compile(r"\$\{(?:env:([A-Za-z_]\w*)|([A-Z_][A-Z0-9_]*))\}", re.ASCII)
_INPUT = re.compile(r"\$\{input:([^}]{1,200})\}")
_PLACEHOLDER = re.compile(r"\$\{[^}]{0,200}\}")
_SECRET_ARGUMENT = re.compile(r"(?i)^--?[a-z0-9_-]*(?:key|token|secret|password)[a-z0-9_-]*$")


T = TypeVar("T", bound=Sized)


class ImportedServer(Struct, frozen=True):
    """One server of the file.

    `config` has the values of the file; `notes` are for the person (renamed, disabled,
    placeholders).
    """

    config: UpstreamConfig
    notes: tuple[str, ...] = ()


class ServerImport(Struct, frozen=True):
    """The servers of a file. `refused` maps a name to the reason why it cannot be an upstream."""

    servers: tuple[ImportedServer, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


def drop_comments(text: str) -> str:
    """Return JSON without comments and trailing commas; texts in quotes stay as they are."""
    return _LAST_COMMA.sub(_keep_text, _COMMENT.sub(_keep_text, text))


def read_servers(text: str) -> ServerImport:
    """Read the servers from a client's JSON.

    Raises:
        SettingsError: The text is not JSON, or names no servers.
    """
    try:
        tree = _parse(text)
    except ValueError as error:
        raise SettingsError(
            f"the file is not JSON: {error}", hint="Give the file in which the client keeps its servers."
        ) from None
    table = _table(tree)
    if len(table) > MOST_SERVERS:
        raise SettingsError(
            f"the file names {len(table):,} servers; at most {MOST_SERVERS} are read",
            hint="Give a file with those that you want to use.",
        )
    servers: list[ImportedServer] = []
    refused: dict[str, str] = {}
    taken: set[str] = set()
    for title, entry in table.items():
        name = _name(title, taken)
        try:
            servers.append(_server(name, title, entry))
        except SettingsError as error:
            refused[title] = error.what.removeprefix(f"upstream.{name}: ")
        else:
            taken.add(name)
    return ServerImport(tuple(servers), refused)


def _parse(text: str) -> Any:
    """Parse JSON, and else JSON with comments. Raises ValueError."""
    try:
        return parse_bounded(text.encode("utf-8", "surrogatepass"))
    except json.JSONDecodeError:
        return parse_bounded(drop_comments(text).encode("utf-8", "surrogatepass"))


def convert_references(value: str) -> str:
    """Turn other clients' `${env:NAME}` and `${NAME}` into Zoea's references.

    A whole value becomes `env:NAME`; inside a text, `{env:NAME}`.
    """
    whole = _REFERENCE.fullmatch(value)
    if whole is not None:
        return f"env:{whole[1] or whole[2]}"
    return _REFERENCE.sub(lambda match: f"{{env:{match[1] or match[2]}}}", value)


def is_reference(value: str) -> bool:
    """Return whether the value names the place of a secret instead of holding one."""
    return bool(re.fullmatch(r"(?:env|keyring|file):.+", value)) or "{env:" in value or "{file:" in value


def find_secret_arguments(args: tuple[str, ...]) -> Iterator[int]:
    """Find the places of arguments that look like secrets: after `--api-key`, or after its `=`."""
    for place, argument in enumerate(args):
        flag, _, value = argument.partition("=")
        follows = place > 0 and _SECRET_ARGUMENT.match(args[place - 1]) and not argument.startswith("-")
        if follows or (value and _SECRET_ARGUMENT.match(flag)):
            yield place


def _server(name: str, title: str, entry: Any) -> ImportedServer:
    if not isinstance(entry, dict):
        raise SettingsError("is not a table of settings")
    kind = str(entry.get("type") or entry.get("transport") or "").lower()
    if kind in ("sse", "ws", "websocket"):
        raise SettingsError(f"speaks {kind}, which MCP no longer has; use its streamable HTTP address")
    command = entry.get("command")
    inner = command if isinstance(command, dict) else entry
    url = next((str(entry[key]) for key in _URL_KEYS if entry.get(key)), "")
    run = inner.get("path") if isinstance(command, dict) else command
    config = UpstreamConfig(
        name,
        command=_text(run or "", "command"),
        args=tuple(convert_references(_text(one, "args")) for one in _list(inner.get("args"), "args")),
        env={key: convert_references(value) for key, value in _strings(inner.get("env"), "env").items()},
        cwd=_text(entry.get("cwd") or "", "cwd"),
        url=url,
        headers={key: convert_references(value) for key, value in _strings(_headers(entry), "headers").items()},
    )
    return ImportedServer(config, tuple(_notes(name, title, entry, config)))


def _notes(name: str, title: str, entry: Mapping[str, Any], config: UpstreamConfig) -> Iterator[str]:
    if name != title:
        yield f"{title} is named {name} here"
    if entry.get("disabled") or entry.get("enabled") is False:
        yield "it was disabled there; it is enabled here"
    values = [
        *(config.command, str(config.cwd), config.url),
        *(*config.args, *config.env.values(), *config.headers.values()),
    ]
    for asked in sorted({match for value in values for match in _INPUT.findall(value)}):
        yield f"the other client asked for {asked} when it started: replace ${{input:{asked}}}"
    if any(_PLACEHOLDER.search(_INPUT.sub("", value)) for value in values):
        yield "it contains a placeholder ${…} that only the other client knows: replace it"


def _headers(entry: Mapping[str, Any]) -> Any:
    return entry.get("headers") or (entry.get("requestInit") or {}).get("headers")


def _table(tree: Any) -> Mapping[str, Any]:
    for place in _PLACES:
        table = tree
        for key in place:
            table = table.get(key) if isinstance(table, dict) else None
        if isinstance(table, dict):
            return table
    if isinstance(tree, dict) and tree and all(isinstance(one, dict) and _is_server(one) for one in tree.values()):
        return tree
    places = ", ".join(".".join(place) for place in _PLACES)
    raise SettingsError("the file names no MCP servers", hint=f"Zoea looks for {places}.")


def _is_server(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("command")) or any(entry.get(key) for key in _URL_KEYS)


def _name(title: str, taken: set[str]) -> str:
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", title).strip("-_")[:28] or "server"
    name, number = plain, 2
    while name in taken or not re.match(NAME_PATTERN, name):
        name, number = f"{plain}-{number}", number + 1
    return name


def _keep_text(token: re.Match[str]) -> str:
    return token["text"] or " "


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise SettingsError(f"{key} holds a value that is not text")
    return str(value)


def _bounded(value: T, key: str) -> T:
    if len(value) > MOST_VALUES:
        raise SettingsError(f"{key} has {len(value):,} values; at most {MOST_VALUES} are read")
    return value


def _list(value: Any, key: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise SettingsError(f"{key} is not a list")
    return _bounded(value, key)


def _strings(value: Any, key: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SettingsError(f"{key} is not a table")
    _bounded(value, key)
    return {str(name): _text(one, f"{key}.{name}") for name, one in value.items() if one is not None}
