"""`zoea upstream`: import, list, test and call MCP servers that offer tools to the myses."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tomlkit
import typer
from pydantic import ValidationError
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from zoea.cli.options import AsJson, Workspace, write_json
from zoea.model.errors import SettingsError, ToolError, UsageError
from zoea.settings import Credentials, Places, Settings, places
from zoea.settings.private_file import lock_file, write_private
from zoea.text.control_characters import strip
from zoea.tools.mcp_json import ImportedServer, find_secret_arguments, is_reference, read_servers
from zoea.tools.upstream.upstream_config import UpstreamConfig

_SECRET_KEY = re.compile(r"(?i)(key|token|secret|passw|credential|auth|bearer|cookie|\bpat\b|_pat$)")
_TOKEN_LIKE = re.compile(r"[A-Za-z0-9_\-+/=.]{24,}")
_SCHEME = re.compile(r"(?i)^(bearer|basic|token)\s+(.+)$")
_ODD = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(slots=True)
class ServerImport:
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
        found: list[str] = []
        for name, notes in self.imported.items():
            found.append(f"imported {name}")
            found += [f"  {note}" for note in notes]
        found += [f"stored {where} as the credential {name}" for name, where in self.moved.items()]
        found += [f"left out {name}: {why}" for name, why in self.left_out.items()]
        if self.imported:
            found.append(f"Written to {self.file}. Try one: zoea upstream test {next(iter(self.imported))}")
        return found


def import_servers(text: str, where: Places, *, replace: bool) -> ServerImport:
    """Write the servers of a client's JSON to the user's settings, and keep the comments there.

    Credentials are stored before the settings that refer to them, so that a crash
    in between leaves no reference without a value.

    Raises:
        SettingsError: The JSON names no servers, or the settings file is not valid TOML.
    """
    found = read_servers(text)
    outcome = ServerImport(where.config_file, left_out=dict(found.refused))
    where.make_config()
    with lock_file(where.config_file):
        document = _read(where.config_file)
        secrets: dict[str, str] = {}
        upstreams = document.setdefault("upstream", tomlkit.table(is_super_table=True))
        for server in found.servers:
            _add(server, upstreams, outcome, secrets, replace=replace)
        if outcome.imported:
            if secrets:
                where.make_data()
                Credentials(where.credentials).set_many(secrets)
            write_private(where.config_file, tomlkit.dumps(document))
    return outcome


def _add(
    server: ImportedServer, upstreams: Any, outcome: ServerImport, secrets: dict[str, str], *, replace: bool
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
    """Return why the settings would refuse the table, without repeating a value; empty if they accept it."""
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


app = typer.Typer(
    name="upstream",
    help="Import, list, test and call the MCP servers that offer tools to the myses.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

UpstreamName = Annotated[str, typer.Argument(metavar="NAME", help="As `zoea upstream list` shows it.")]
CALLER = "commander"
CALL_S = 60.0

T = TypeVar("T")


@app.command("import")
def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON file of another MCP client, with mcpServers or servers.")
    ],
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite upstreams of the same name.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Import the servers of another MCP client. Secrets go to the credentials file."""
    try:
        text = file.expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"cannot read {file}: {why}") from None
    outcome = import_servers(text, places(workspace), replace=replace)
    if as_json:
        write_json(outcome.as_dict())
    else:
        for line in outcome.lines():
            typer.echo(strip(line))
    if not outcome.imported:
        raise UsageError("nothing was imported", hint="The lines above say why." if outcome.left_out else "")


@app.command("list")
def list_(as_json: AsJson = False, workspace: Workspace = "") -> None:
    """List the configured upstreams without opening them."""
    from zoea.settings import load

    found = load(places(workspace)).settings.upstream
    rows = [
        {
            "name": name,
            "transport": "stdio" if one.command else "http",
            # Arguments and queries of addresses may hold secrets, so neither is shown.
            "where": one.command or one.url.partition("?")[0],
            "session": one.session,
            "required": one.required,
        }
        for name, one in found.items()
    ]
    if as_json:
        write_json(rows)
        return
    if not rows:
        typer.echo("There are no upstreams. Add [upstream.NAME] to the settings, or run: zoea upstream import FILE")
    width = max((len(str(row["name"])) for row in rows), default=0)
    for row in rows:
        marks = "".join(f"  {mark}" for mark in (row["session"], "required" if row["required"] else "") if mark)
        typer.echo(strip(f"{row['name']:<{width}}  {row['transport']:<5}  {row['where']}{marks}"))


@app.command("test")
def try_out(
    name: UpstreamName,
    schemas: Annotated[bool, typer.Option("--schemas", help="Show each tool's input schema too.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Open an upstream, list its tools, and measure opening time and latency."""

    async def work(box: Any) -> dict[str, Any]:
        upstream = await _opened(box, name)
        latency_ms = await upstream.ping()
        catalogue = await box.session(0, CALLER, "").catalogue()
        return {
            "name": name,
            "server": upstream.status().server,
            "open_ms": upstream.status().open_ms,
            "latency_ms": latency_ms,
            "tools": [_tool(tool) for tool in catalogue.tools],
            "notes": list(upstream.status().notes),
        }

    found = _with_box(workspace, name, work, quiet=as_json)
    if as_json:
        write_json(found)
        return
    typer.echo(strip(f"{name}: {found['server'] or 'an unnamed server'}"))
    typer.echo(f"opened in {found['open_ms']:.0f} ms, answers in {found['latency_ms']:.1f} ms")
    for tool in found["tools"]:
        marks = "".join(f" [{mark}]" for mark in ("read_only", "destructive", "idempotent", "asks") if tool[mark])
        typer.echo(strip(f"  {tool['name']}{marks.replace('_', '-')}  {tool['description'].partition(chr(10))[0]}"))
        if schemas:
            typer.echo(strip("    " + json.dumps(tool["input_schema"], ensure_ascii=False)))
    for note in found["notes"]:
        typer.echo(strip(f"note: {note}"))


@app.command("call")
def call(
    name: UpstreamName,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool's name, as `zoea upstream test` shows it.")],
    arguments: Annotated[str, typer.Argument(metavar="JSON", help="Its arguments, a JSON object.")] = "{}",
    mysis: Annotated[
        str, typer.Option("--as", metavar="MYSIS", help="Mysis that the call is made for, with its account.")
    ] = "",
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Call one tool and print its result.

    Example: zoea upstream call files read_file '{"path": "a.txt"}'
    """
    from zoea.model.request import AnswerCall, CallMeta
    from zoea.queries.stored_swarm import read_uid

    uid = read_uid(places(workspace).database, mysis) if mysis else ""

    async def work(box: Any) -> Any:
        upstream = await _opened(box, name)
        if upstream.config.inject and not mysis:
            raise UsageError(f"{name} needs the account of a mysis", hint="Name one: --as MYSIS")
        session = box.session(0, mysis or CALLER, "", uid=uid)
        await session.catalogue()
        meta = CallMeta(mysis_id=0, mysis=mysis or CALLER, turn_id=0, call_id=0, deadline_s=CALL_S)
        return await session.call(AnswerCall(name=tool, arguments=arguments), meta=meta)

    result = _with_box(workspace, name, work, quiet=as_json)
    if as_json:
        blobs = [{"media_type": blob.media_type, "bytes": len(blob.data)} for blob in result.blobs]
        write_json({"content": result.content, "is_error": result.is_error, "blobs": blobs})
    else:
        typer.echo(strip(result.content), err=result.is_error)
    if result.is_error:
        raise typer.Exit(ToolError.exit_code)


async def _opened(box: Any, name: str) -> Any:
    """Return the upstream once it is open. Raises ToolError with the cause if it does not open."""
    upstream = box.upstream(name)
    if not await upstream.settled():
        status = upstream.status()
        hint = f"Its log is {status.log}." if status.log else ""
        raise ToolError(f"{name} did not open: {status.last_error or 'no answer in time'}", hint=hint)
    return upstream


def _with_box(workspace: str, name: str, work: Callable[[Any], Awaitable[T]], *, quiet: bool) -> T:
    """Run `work` with a toolbox that holds this one upstream."""
    from zoea.runtime.accounts import CredentialAccounts, CredentialSecrets
    from zoea.runtime.upstream_set import build_upstreams
    from zoea.settings import Credentials, load
    from zoea.tools import Toolbox

    loaded = load(places(workspace))
    given = loaded.settings.upstream.get(name)
    if given is None:
        known = ", ".join(loaded.settings.upstream) or "none"
        raise UsageError(f"no upstream {name}", hint=f"Configured: {known}.")
    credentials = Credentials(loaded.places.credentials)
    # Only this upstream: a missing credential of another one must not fail here.
    alone = loaded.settings.model_copy(update={"upstream": {name: given}})
    configs = build_upstreams(alone, credentials)

    async def run() -> T:
        box = Toolbox(
            configs,
            logs=loaded.places.data,
            accounts=CredentialAccounts(credentials),
            secrets=CredentialSecrets(credentials),
        )
        box.open()
        try:
            return await work(box)
        finally:
            await box.close()

    loaded.places.make_data()
    if not quiet:
        typer.echo(f"opening {name} …", err=True)
    return asyncio.run(run())


def _tool(tool: Any) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "read_only": tool.read_only,
        "destructive": tool.destructive,
        "idempotent": tool.idempotent,
        "asks": tool.asks,
        "input_schema": tool.input_schema,
    }
