"""`zoea upstream`: add, import, remove, list, test and call servers of tools (MCP)."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from zoea.cli.options import AsJson, Workspace, write_json
from zoea.model.errors import ToolError, UsageError
from zoea.runtime.upstream_import import (
    UpstreamImport,
    describe_server,
    enable_upstream,
    import_servers,
    remove_upstream,
)
from zoea.settings import places
from zoea.settings.small_file import MOST_FOREIGN_BYTES, read_small_text
from zoea.text.control_characters import one_line, strip
from zoea.text.large_json import dump_shown
from zoea.text.shorten import head_with_length

app = typer.Typer(
    name="upstream",
    help="Add, import, remove, list, test and call the MCP servers that offer tools to the myses.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

_PURPOSE = 200
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
        text = read_small_text(file.expanduser(), MOST_FOREIGN_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"cannot read {file}: {why}") from None
    outcome = import_servers(text, places(workspace), replace=replace)
    _report(outcome, as_json=as_json)
    if not outcome.imported:
        raise UsageError("nothing was imported", hint="The lines above say why." if outcome.left_out else "")


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name of your choice.")],
    words: Annotated[
        list[str], typer.Argument(metavar="SERVER...", help="An address, or -- and the command with its arguments.")
    ],
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite an upstream of the same name.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Add one MCP server. Secrets in it go to the credentials file.

    Examples: zoea upstream add files -- npx -y @modelcontextprotocol/server-filesystem /data;
    zoea upstream add wiki https://mcp.example.org/mcp
    """
    text = words[0] if len(words) == 1 else shlex.join(words)
    outcome = import_servers(describe_server(name, text), places(workspace), replace=replace)
    _report(outcome, as_json=as_json)
    if not outcome.imported:
        raise UsageError("nothing was added", hint="The lines above say why." if outcome.left_out else "")


@app.command("remove")
def remove(name: UpstreamName, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Remove an upstream from your settings. Its stored credentials stay."""
    remove_upstream(name, places(workspace))
    _tell(name, "removed", as_json=as_json)


@app.command("enable")
def enable(name: UpstreamName, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Switch an upstream on."""
    enable_upstream(name, True, places(workspace))
    _tell(name, "enabled", as_json=as_json)


@app.command("disable")
def disable(name: UpstreamName, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Switch an upstream off; its settings stay."""
    enable_upstream(name, False, places(workspace))
    _tell(name, "disabled", as_json=as_json)


def _report(outcome: UpstreamImport, *, as_json: bool) -> None:
    if as_json:
        write_json(outcome.as_dict())
        return
    for line in outcome.lines():
        typer.echo(strip(line))


def _tell(name: str, done: str, *, as_json: bool) -> None:
    if as_json:
        write_json({"name": name, "done": done})
    else:
        typer.echo(
            strip(f"{name} is {done}. `zoea config apply`, or f5 in the cockpit, lets a running swarm use that.")
        )


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
            "enabled": one.enabled,
        }
        for name, one in found.items()
    ]
    if as_json:
        write_json(rows)
        return
    if not rows:
        typer.echo(
            "There are no upstreams. Add one: zoea upstream add NAME -- COMMAND, or run: zoea upstream import FILE"
        )
    width = max((len(str(row["name"])) for row in rows), default=0)
    for row in rows:
        marks = "".join(
            f"  {mark}"
            for mark in (row["session"], row["required"] and "required", not row["enabled"] and "off")
            if mark
        )
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
        purpose = head_with_length(one_line(tool["description"]), _PURPOSE)
        typer.echo(f"  {one_line(tool['name'])}{marks.replace('_', '-')}  {purpose}")
        if schemas:
            typer.echo("    " + dump_shown(tool["input_schema"]))
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
        known = ", ".join(loaded.settings.upstream)
        hint = f"Configured: {known}." if known else "None is configured yet: `zoea upstream add` adds one."
        raise UsageError(f"no upstream {name}", hint=hint)
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
