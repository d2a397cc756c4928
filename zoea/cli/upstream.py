"""`zoea upstream`: bring in, list, test and try the MCP servers whose tools the myses use."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from zoea.cli.options import AsJson, Workspace, write_json
from zoea.model.errors import ToolError, UsageError
from zoea.settings import places
from zoea.text.control import strip

app = typer.Typer(
    name="upstream",
    help="MCP servers whose tools the myses use.",
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
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Another client's JSON with mcpServers or servers.")],
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite upstreams of the same name.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Take over the servers of another MCP client. Secrets go to the credentials file."""
    from zoea.cli.upstream_import import take_over

    try:
        text = file.expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"cannot read {file}: {why}") from None
    outcome = take_over(text, places(workspace), replace=replace)
    if as_json:
        write_json(outcome.as_dict())
    else:
        for line in outcome.lines():
            typer.echo(strip(line))
    if not outcome.imported:
        raise UsageError("nothing was imported", hint="The lines above say why." if outcome.left_out else "")


@app.command("list")
def list_(as_json: AsJson = False, workspace: Workspace = "") -> None:
    """The configured upstreams. Nothing is opened."""
    from zoea.settings import load

    found = load(places(workspace)).settings.upstream
    rows = [
        {
            "name": name,
            "transport": "stdio" if one.command else "http",
            # Arguments may hold secrets, so the command stands alone; an address is shown without its query.
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
    """Open an upstream, list its tools, measure how long it takes."""

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


@app.command("call")
def call(
    name: UpstreamName,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool's name, as `zoea upstream test` shows it.")],
    arguments: Annotated[str, typer.Argument(metavar="JSON", help="Its arguments, a JSON object.")] = "{}",
    mysis: Annotated[str, typer.Option("--as", metavar="MYSIS", help="Whose account to use.")] = "",
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Call one tool and print what it answers."""
    from zoea.app.stored import uid_of
    from zoea.model.request import AnswerCall, CallMeta

    uid = uid_of(places(workspace).database, mysis) if mysis else ""

    async def work(box: Any) -> Any:
        upstream = await _opened(box, name)
        if upstream.config.inject and not mysis:
            raise UsageError(f"{name} wants an account", hint="Say whose: --as MYSIS")
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
    """The upstream, open. Raises ToolError saying why it is not."""
    upstream = box.upstream(name)
    if not await upstream.settled():
        status = upstream.status()
        hint = f"Its own words are in {status.log}." if status.log else ""
        raise ToolError(f"{name} did not open: {status.last_error or 'no answer in time'}", hint=hint)
    return upstream


def _with_box(workspace: str, name: str, work: Callable[[Any], Awaitable[T]], *, quiet: bool) -> T:
    """Run `work` with a toolbox that holds this one upstream."""
    from zoea.app.accounts import CredentialAccounts
    from zoea.app.upstreams import upstreams_of
    from zoea.settings import Credentials, load
    from zoea.tools import Toolbox

    loaded = load(places(workspace))
    given = loaded.settings.upstream.get(name)
    if given is None:
        known = ", ".join(loaded.settings.upstream) or "none"
        raise UsageError(f"no upstream {name}", hint=f"Configured: {known}.")
    credentials = Credentials(loaded.places.credentials)
    # Another upstream's missing credential is none of this one's business.
    alone = loaded.settings.model_copy(update={"upstream": {name: given}})
    configs = upstreams_of(alone, credentials)

    async def run() -> T:
        box = Toolbox(configs, logs=loaded.places.data, accounts=CredentialAccounts(credentials))
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
