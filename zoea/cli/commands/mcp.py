"""`zoea mcp`: Zoea as an MCP server, its tokens, and its entry in other clients' settings."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from zoea.cli.options import AsJson, Workspace, write_json
from zoea.cli.terminal_rows import moment
from zoea.mcp_server.tokens import McpClient, Tokens, TokenScope
from zoea.model.values import check_client_name
from zoea.process.clock import SystemClock
from zoea.settings import Credentials, Places, places

app = typer.Typer(
    name="mcp",
    help="Zoea as an MCP server: search the swarm's memory and talk to it from other clients.",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
)
token = typer.Typer(help="Tokens of clients that come over HTTP.", no_args_is_help=True)
app.add_typer(token, name="token")

DEFAULT_NAME = "mcp"
May = Annotated[
    TokenScope,
    typer.Option(help="read: search, list, read. command: also send and broadcast."),
]
TokenName = Annotated[str, typer.Argument(metavar="NAME", help="The client's name: the sender of what it says.")]


@app.callback()
def serve(
    context: typer.Context,
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP instead of stdin and stdout.")] = False,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="With --http: where to listen; mcp.host if not given.")
    ] = "",
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, metavar="N", help="With --http: mcp.port if not given; 0 is any.")
    ] = None,
    name: Annotated[
        str, typer.Option("--as", metavar="NAME", help="Over stdio: the client's name, the sender of what it says.")
    ] = DEFAULT_NAME,
    scope: Annotated[
        TokenScope, typer.Option(help="Over stdio: what the client may do. command includes read.")
    ] = TokenScope.READ,
    workspace: Workspace = "",
) -> None:
    """Serve one MCP client over stdin and stdout, or any that have a token over HTTP.

    Beside a running swarm clients reach it; without one they search what is stored, and commands
    are answered with: no running swarm.
    """
    if context.invoked_subcommand is not None:
        return
    where = places(workspace)
    where.make_data()
    if not http:
        from zoea.mcp_server.stdio_transport import serve_stdio

        asyncio.run(serve_stdio(where, McpClient(check_client_name(name), scope)))
        return
    from zoea.mcp_server.server_process import serve_http

    asyncio.run(serve_http(where, host=host, port=port, say=_say))


@token.command("new")
def new(name: TokenName, scope: May = TokenScope.READ, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Let a client in. Its token is shown now and never again."""
    made = _tokens(workspace).new(name, scope, SystemClock().now())
    if as_json:
        write_json({"name": name, "scope": scope, "token": made})
        return
    typer.echo(made)
    typer.echo(f"{name} may {_may(scope)}. Keep the token now: it is not shown again.", err=True)


@token.command("list")
def list_(as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Who may come in, and what each may do."""
    rows = _tokens(workspace).rows()
    if as_json:
        write_json(rows)
        return
    if not rows:
        typer.echo("There are no tokens. Make one: zoea mcp token new NAME")
    width = max((len(row.name) for row in rows), default=0)
    for row in rows:
        typer.echo(f"{row.name:<{width}}  {row.scope:<7}  {moment(row.created_at)}")


@token.command("revoke")
def revoke(name: TokenName, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Let a client in no longer, from its next request on."""
    _tokens(workspace).revoke(name)
    if as_json:
        write_json({"revoked": name})
    else:
        typer.echo(f"{name} is let in no longer")


@app.command("install")
def install(
    client: Annotated[str, typer.Option(metavar="CLIENT", help="claude, claude-desktop, codex, cursor, vscode, …")],
    write: Annotated[bool, typer.Option("--write", help="Write it into the client's file; a copy is kept.")] = False,
    scope: May = TokenScope.READ,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Show Zoea's entry for another MCP client, or write it into that client's settings."""
    from zoea.mcp_server import client_configs as entries

    known = entries.client_named(client)
    made = entries.entry(client, scope, places(workspace).workspace)
    home = Path.home()
    if not write:
        if as_json:
            write_json({"client": client, "file": str(known.path(home)), "entry": made})
            return
        typer.echo(entries.text_of(known, made), nl=False)
        typer.echo(f"This belongs into {known.path(home)}; --write puts it there.", err=True)
        return
    done = entries.write(known, made, home, time.time())
    if as_json:
        write_json({"client": client, "file": str(done.file), "backup": str(done.backup or ""), "entry": made})
        return
    typer.echo(f"Written to {done.file}. Restart {known.title} to see Zoea's tools there.")
    if done.backup is not None:
        typer.echo(f"What stood there before is in {done.backup}.")


def _tokens(workspace: str) -> Tokens:
    where: Places = places(workspace)
    where.make_data()
    return Tokens(Credentials(where.credentials))


def _may(scope: TokenScope) -> str:
    return "search, list and read" if scope is TokenScope.READ else "search, list, read, send and broadcast"


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
