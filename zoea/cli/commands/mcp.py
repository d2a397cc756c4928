"""`zoea mcp`: serve MCP, manage its tokens, and install it in other clients."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from zoea.cli.options import AsJson, Workspace, write_json
from zoea.cli.output import moment
from zoea.mcp_server.tokens import McpClient, Tokens, TokenScope
from zoea.model.values import check_client_name
from zoea.process.clock import read_wall_time
from zoea.process.event_loop import run_on_boot_time
from zoea.settings import Credentials, Places, places

app = typer.Typer(
    name="mcp",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
)
token = typer.Typer(help="Manage the tokens of HTTP clients.", no_args_is_help=True)
app.add_typer(token, name="token")

DEFAULT_NAME = "mcp"
May = Annotated[
    TokenScope,
    typer.Option(help="read: search, list, read. command: also send and broadcast."),
]
TokenName = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the client, shown as the sender of its messages.")
]


@app.callback()
def serve(
    context: typer.Context,
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP instead of stdin and stdout.")] = False,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="With --http: address to listen at; mcp.host if not given.")
    ] = "",
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65_535, metavar="N", help="With --http: port; mcp.port if not given, 0 chooses a free one."
        ),
    ] = None,
    name: Annotated[
        str,
        typer.Option(
            "--as", metavar="NAME", help="Without --http: name of the client, shown as the sender of its messages."
        ),
    ] = DEFAULT_NAME,
    scope: Annotated[
        TokenScope, typer.Option(help="Without --http: rights of the client; command includes read.")
    ] = TokenScope.READ,
    workspace: Workspace = "",
) -> None:
    """Let MCP clients search the swarm's messages and send it new ones.

    This serves one client over stdin and stdout, or with --http several, each with a token. Without a running swarm
    clients can search the database; their commands fail with "no running swarm".

    Example: zoea mcp install --client claude --write
    """
    if context.invoked_subcommand is not None:
        return
    where = places(workspace)
    where.make_data()
    if not http:
        from zoea.mcp_server.stdio_transport import serve_stdio

        run_on_boot_time(serve_stdio(where, McpClient(check_client_name(name), scope)))
        return
    from zoea.mcp_server.server_process import serve_http

    run_on_boot_time(serve_http(where, host=host, port=port, say=_say))


@token.command("new")
def new(name: TokenName, scope: May = TokenScope.READ, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Create a token for a client. It is shown only once.

    Example: zoea mcp token new editor --scope command
    """
    made = _tokens(workspace).new(name, scope, read_wall_time())
    if as_json:
        write_json({"name": name, "scope": scope, "token": made})
        return
    typer.echo(made)
    typer.echo(f"{name} may {_may(scope)}. Keep the token now: it is not shown again.", err=True)


@token.command("list")
def list_(as_json: AsJson = False, workspace: Workspace = "") -> None:
    """List the clients that have a token, and their rights."""
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
    """Revoke a token; the client's next request is refused."""
    _tokens(workspace).revoke(name)
    if as_json:
        write_json({"revoked": name})
    else:
        typer.echo(f"The token of {name} is revoked")


@app.command("install")
def install(
    client: Annotated[
        str,
        typer.Option(
            metavar="CLIENT", help="claude, claude-desktop, codex, cursor, gemini, lmstudio, vscode, windsurf or zed."
        ),
    ],
    write: Annotated[
        bool, typer.Option("--write", help="Write the entry into the client's file; a backup is kept.")
    ] = False,
    scope: May = TokenScope.READ,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Show the entry for Zoea in the settings of an MCP client, or write it there."""
    from zoea.mcp_server import client_configs as entries

    known = entries.client_named(client)
    made = entries.make_entry(client, scope, places(workspace).workspace)
    home = Path.home()
    if not write:
        if as_json:
            write_json({"client": client, "file": str(known.path(home)), "entry": made})
            return
        typer.echo(entries.format_entry(known, made), nl=False)
        typer.echo(f"This belongs in {known.path(home)}; --write puts it there.", err=True)
        return
    done = entries.write_entry(known, made, home, time.time())
    if as_json:
        write_json({"client": client, "file": str(done.file), "backup": str(done.backup or ""), "entry": made})
        return
    typer.echo(f"Written to {done.file}. Restart {known.title} to see Zoea's tools there.")
    if done.backup is not None:
        typer.echo(f"The former contents are in {done.backup}.")


def _tokens(workspace: str) -> Tokens:
    where: Places = places(workspace)
    where.make_data()
    return Tokens(Credentials(where.credentials))


def _may(scope: TokenScope) -> str:
    return "search, list and read" if scope is TokenScope.READ else "search, list, read, send and broadcast"


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
