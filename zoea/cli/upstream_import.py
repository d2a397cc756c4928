"""Taking over another client's servers: tables into the user's settings, secrets into the credentials file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import ValidationError
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from zoea.model.errors import SettingsError
from zoea.settings import Credentials, Places, Settings
from zoea.settings.closed_file import one_at_a_time, write_closed
from zoea.tools.config import UpstreamConfig
from zoea.tools.importing import Imported, is_reference, read_servers, secret_arguments

_SECRET_KEY = re.compile(r"(?i)(key|token|secret|passw|credential|auth|bearer|cookie|\bpat\b|_pat$)")
_TOKEN_LIKE = re.compile(r"[A-Za-z0-9_\-+/=.]{24,}")
_SCHEME = re.compile(r"(?i)^(bearer|basic|token)\s+(.+)$")
_ODD = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(slots=True)
class Outcome:
    """What became of each server. `moved` maps a credential's name to where it was."""

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
        """What a person reads."""
        found: list[str] = []
        for name, notes in self.imported.items():
            found.append(f"imported {name}")
            found += [f"  {note}" for note in notes]
        found += [f"stored {where} as the credential {name}" for name, where in self.moved.items()]
        found += [f"left out {name}: {why}" for name, why in self.left_out.items()]
        if self.imported:
            found.append(f"Written to {self.file}. Try one: zoea upstream test {next(iter(self.imported))}")
        return found


def take_over(text: str, where: Places, *, replace: bool) -> Outcome:
    """Write the servers of a client's JSON into the user's settings; comments there are kept.

    Credentials are stored before the settings that refer to them, so that a crash
    between leaves nothing that refers to what is not there.

    Raises:
        SettingsError: The JSON names no servers, or the settings file is no TOML.
    """
    found = read_servers(text)
    outcome = Outcome(where.config_file, left_out=dict(found.refused))
    where.make_config()
    with one_at_a_time(where.config_file):
        document = _read(where.config_file)
        secrets: dict[str, str] = {}
        upstreams = document.setdefault("upstream", tomlkit.table(is_super_table=True))
        for server in found.servers:
            _add(server, upstreams, outcome, secrets, replace=replace)
        if outcome.imported:
            if secrets:
                where.make_data()
                Credentials(where.credentials).set_many(secrets)
            write_closed(where.config_file, tomlkit.dumps(document))
    return outcome


def _add(server: Imported, upstreams: Any, outcome: Outcome, secrets: dict[str, str], *, replace: bool) -> None:
    name = server.config.name
    if name in upstreams and not replace:
        outcome.left_out[name] = "there is an upstream of this name already; --replace overwrites it"
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
    """The upstream's TOML table; values that look secret become references, their values go to `secrets`."""
    table = tomlkit.table()
    if config.command:
        table["command"] = config.command
        args = list(config.args)
        for place in secret_arguments(config.args):
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
    """Why the settings would refuse it; empty where they take it. Repeats no value."""
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
        return tomlkit.parse(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, TOMLKitError) as error:
        raise SettingsError(f"{file} cannot be changed: {error}", hint="Run `zoea config check`.") from None
