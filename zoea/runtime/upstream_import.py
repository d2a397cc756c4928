"""Adds, removes and switches upstreams in the user's settings; secrets go to the credentials file."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from msgspec import Struct, field
from pydantic import ValidationError
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from zoea.model.errors import SettingsError, UsageError
from zoea.settings.credentials import Credentials
from zoea.settings.paths import Places
from zoea.settings.private_file import lock_file, write_private
from zoea.settings.schema import Settings
from zoea.settings.small_file import read_small_text
from zoea.tools.mcp_json import ImportedServer, drop_comments, find_secret_arguments, is_reference, read_servers
from zoea.tools.upstream.upstream_config import UpstreamConfig

_SECRET_KEY = re.compile(r"(?i)(key|token|secret|passw|credential|auth|bearer|cookie|\bpat\b|_pat$)")
_TOKEN_LIKE = re.compile(r"[A-Za-z0-9_\-+/=.]{24,}")
_SCHEME = re.compile(r"(?i)^(bearer|basic|token)\s+(.+)$")
_ODD = re.compile(r"[^A-Za-z0-9_.-]")


class UpstreamImport(Struct):
    """Result of an import, per server. `moved` maps a credential's name to its former place."""

    file: Path
    imported: dict[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {
            "file": str(self.file),
            "imported": {name: list(notes) for name, notes in self.imported.items()},
            "left_out": self.left_out,
            "credentials": sorted(self.moved),
        }

    def lines(self) -> list[str]:
        """Return the result as lines of text."""
        rows: list[str] = []
        for name, notes in self.imported.items():
            rows.append(f"{name} is added")
            rows += [f"  {note}" for note in notes]
        rows += [f"stored {where} as the credential {name}" for name, where in self.moved.items()]
        rows += [f"left out {name}: {why}" for name, why in self.left_out.items()]
        if self.imported:
            rows.append(f"Written to {self.file}. Try one: zoea upstream test {next(iter(self.imported))}")
        return rows


def import_servers(text: str, where: Places, *, replace: bool) -> UpstreamImport:
    """Write the servers of a client's JSON to the user's settings, and keep comments.

    Credentials are stored before the settings that refer to them, so that a crash
    in between leaves no reference without a value.

    Raises:
        SettingsError: The JSON names no servers, or the settings file is not valid TOML.
    """
    listing = read_servers(text)
    outcome = UpstreamImport(where.config_file, left_out=dict(listing.refused))
    where.make_config()
    with lock_file(where.config_file):
        document = _read(where.config_file)
        secrets: dict[str, str] = {}
        upstreams = document.setdefault("upstream", tomlkit.table(is_super_table=True))
        for server in listing.servers:
            _add(server, upstreams, outcome, secrets, replace=replace)
        if outcome.imported:
            if secrets:
                where.make_data()
                Credentials(where.credentials).set_many(secrets)
            write_private(where.config_file, tomlkit.dumps(document))
    return outcome


def _add(
    server: ImportedServer, upstreams: Any, outcome: UpstreamImport, secrets: dict[str, str], *, replace: bool
) -> None:
    name = server.config.name
    if name in upstreams and not replace:
        outcome.left_out[name] = "an upstream of this name exists already; --replace overwrites it"
        return
    mine: dict[str, tuple[str, str]] = {}
    table = _table(server.config, mine)
    wrong = _wrong(name, table)
    if wrong:
        outcome.left_out[name] = wrong
        return
    upstreams[name] = table
    outcome.imported[name] = server.notes
    for credential, (value, place) in mine.items():
        secrets[credential] = value
        outcome.moved[credential] = f"{name}.{place}"


def _table(config: UpstreamConfig, secrets: dict[str, tuple[str, str]]) -> Table:
    """Build the upstream's TOML table; values that look secret go to `secrets` and become references."""
    table = tomlkit.table()
    if config.command:
        table["command"] = config.command
        args = list(config.args)
        for place in find_secret_arguments(config.args):
            args[place] = _hidden_argument(config.name, args, place, secrets)
        if args:
            table["args"] = args
        if config.cwd:
            table["cwd"] = str(config.cwd)
    else:
        table["url"] = config.url
    for key, values in (("env", config.env), ("headers", config.headers)):
        if values:
            inner = tomlkit.inline_table()
            inner.update({name: _hidden(config.name, key, name, value, secrets) for name, value in values.items()})
            table[key] = inner
    return table


def _hidden(upstream: str, part: str, key: str, value: str, secrets: dict[str, tuple[str, str]]) -> str:
    if is_reference(value) or not (_SECRET_KEY.search(key) or _TOKEN_LIKE.fullmatch(value)):
        return value
    credential = _credential(upstream, key)
    scheme = _SCHEME.match(value)
    secrets[credential] = (scheme[2] if scheme else value, f"{part}.{key}")
    return f"{scheme[1]} {{file:{credential}}}" if scheme else f"file:{credential}"


def _hidden_argument(upstream: str, args: list[str], place: int, secrets: dict[str, tuple[str, str]]) -> str:
    flag, equals, value = args[place].partition("=")
    if not (equals and flag.startswith("-")):
        flag, equals, value = args[place - 1], "", args[place]
    if is_reference(value):
        return args[place]
    credential = _credential(upstream, flag.lstrip("-"))
    secrets[credential] = (value, f"args ({flag})")
    return f"{flag}={{file:{credential}}}" if equals else f"file:{credential}"


def _credential(upstream: str, key: str) -> str:
    return f"upstream/{upstream}/{_ODD.sub('-', key)}"[:128]


def _wrong(name: str, table: Mapping[str, Any]) -> str:
    """Return why the settings would refuse the table, without repeating a value. Empty if they accept it."""
    try:
        Settings.model_validate({"upstream": {name: tomlkit.item(table).unwrap()}})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("upstream", name))
        return f"{where}: {first['msg'].removeprefix('Value error, ')}".removeprefix(": ")
    return ""


def _read(file: Path) -> tomlkit.TOMLDocument:
    if not file.exists():
        return tomlkit.document()
    try:
        return tomlkit.parse(read_small_text(file))
    except (OSError, ValueError, TOMLKitError, RecursionError) as error:
        raise SettingsError(f"{file} cannot be changed: {error}", hint="Run `zoea config check`.") from None


def describe_server(name: str, text: str) -> str:
    """Return the JSON of a server, given as a command line, an address, or JSON.

    JSON is the object of one server, or a client's whole file, with comments and trailing commas where it has any.

    Raises:
        UsageError: The text is empty, or a command line with an open quote.
    """
    text = text.strip()
    if not text:
        raise UsageError("the server is empty", hint="Give a command line, an address (https://…) or a JSON object.")
    if drop_comments(text).lstrip().startswith("{"):
        return _name_server(name, text)
    if re.match(r"https?://", text):
        return json.dumps({"mcpServers": {name: {"url": text}}})
    try:
        command, *arguments = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"the command line cannot be read: {error}", hint="Close every quote.") from None
    return json.dumps({"mcpServers": {name: {"command": command, "args": arguments}}})


def _name_server(name: str, text: str) -> str:
    """Return a client's JSON unchanged, and the object of one server under its name."""
    try:
        value = json.loads(drop_comments(text))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the JSON cannot be read: {error}") from None
    is_one = isinstance(value, dict) and ("command" in value or "url" in value)
    return json.dumps({"mcpServers": {name: value}}) if is_one else text


def remove_upstream(name: str, where: Places) -> None:
    """Remove an upstream from the user's settings; its credentials stay. Raises UsageError, SettingsError."""
    with lock_file(where.config_file):
        document = _read(where.config_file)
        _find_table(document, name, where)
        del document["upstream"][name]
        write_private(where.config_file, tomlkit.dumps(document))


def enable_upstream(name: str, on: bool, where: Places) -> None:
    """Switch an upstream of the user's settings on or off. Raises UsageError, SettingsError."""
    with lock_file(where.config_file):
        document = _read(where.config_file)
        table = _find_table(document, name, where)
        if on:
            table.pop("enabled", None)
        else:
            table["enabled"] = False
        write_private(where.config_file, tomlkit.dumps(document))


def _find_table(document: tomlkit.TOMLDocument, name: str, where: Places) -> Any:
    upstreams = document.get("upstream")
    if not isinstance(upstreams, Mapping) or name not in upstreams:
        names = ", ".join(upstreams) if isinstance(upstreams, Mapping) and upstreams else "none"
        raise UsageError(f"{where.config_file} has no upstream {name}", hint=f"It has: {names}.")
    return upstreams[name]
