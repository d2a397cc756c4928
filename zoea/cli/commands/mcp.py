"""`zoea mcp`: serve MCP, manage its tokens, and install it in other clients."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from zoea.cli import output
from zoea.cli.output import Output, moment
from zoea.mcp_server.tokens import McpClient, Tokens, TokenScope
from zoea.model.values import check_client_name
from zoea.process.clock import read_wall_time, run_on_boot_time
from zoea.process.command_line import REQUIRED, argument, choice, flag, option, whole_number
from zoea.settings.credentials import Credentials
from zoea.settings.paths import Places

DEFAULT_NAME = "mcp"
MAY = option(
    "--scope", "read: search, list, read. command: also send and broadcast.", TokenScope.READ, choice(TokenScope)
)
TOKEN_NAME = argument("NAME", "Name of the client, shown as the sender of its messages.")


def serve(
    where: Places,
    http: bool = flag("--http", "Serve over HTTP instead of stdin and stdout."),
    host: str = option("--host ADDRESS", "With --http: address to listen at; mcp.host if not given."),
    port: int | None = option(
        "--port N", "With --http: port; mcp.port if not given, 0 chooses a free one.", None, whole_number(0, 65535)
    ),
    name: str = option(
        "--as NAME", "Without --http: name of the client, shown as the sender of its messages.", DEFAULT_NAME
    ),
    scope: TokenScope = option(
        "--scope", "Without --http: rights of the client; command includes read.", TokenScope.READ, choice(TokenScope)
    ),
) -> None:
    """Let MCP clients search the swarm's messages and send it new ones.

    This serves one client over stdin and stdout, or with --http several, each with a token. Without a running swarm
    clients can search the database; their commands fail with "no running swarm".

    Example: zoea mcp install --client claude --write
    """
    where.make_data()
    if not http:
        from zoea.mcp_server.stdio_transport import serve_stdio

        run_on_boot_time(serve_stdio(where, McpClient(check_client_name(name), scope), level="info"))
        return
    from zoea.mcp_server.server_process import serve_http

    run_on_boot_time(serve_http(where, host=host, port=port, say=_say))


def new(where: Places, name: str = TOKEN_NAME, scope: TokenScope = MAY) -> Output:
    """Create a token for a client. It is shown only once.

    Example: zoea mcp token new editor --scope command
    """
    made = _tokens(where).new(name, scope, read_wall_time())
    if not output.is_json:
        output.warn(f"{name} may {_may(scope)}. Keep the token now: it is not shown again.")
    return Output({"name": name, "scope": scope, "token": made}, made)


def list_(where: Places) -> Output:
    """List the clients that have a token, and their rights."""
    rows = _tokens(where).rows()
    width = max((len(row.name) for row in rows), default=0)
    lines = [f"{row.name:<{width}}  {row.scope:<7}  {moment(row.created_at)}" for row in rows]
    return Output(rows, lines or "There are no tokens. Make one: zoea mcp token new NAME")


def revoke(where: Places, name: str = TOKEN_NAME) -> Output:
    """Revoke a token; the client's next request is refused."""
    _tokens(where).revoke(name)
    return Output({"revoked": name}, f"The token of {name} is revoked")


def install(
    where: Places,
    client: str = option(
        "--client CLIENT", "claude, claude-desktop, codex, cursor, gemini, lmstudio, vscode, windsurf or zed.", REQUIRED
    ),
    write: bool = flag("--write", "Write the entry into the client's file; a backup is kept."),
    scope: TokenScope = MAY,
) -> Output:
    """Show the entry for Zoea in the settings of an MCP client, or write it there."""
    from zoea.mcp_server import client_configs as entries

    target = entries.client_named(client)
    made = entries.make_entry(client, scope, where.workspace)
    home = Path.home()
    if not write:
        if not output.is_json:
            output.warn(f"This belongs in {target.path(home)}; --write puts it there.")
        value = {"client": client, "file": str(target.path(home)), "entry": made}
        return Output(value, entries.format_entry(target, made).removesuffix("\n"))
    done = entries.write_entry(target, made, home, time.time())
    lines = [f"Written to {done.file}. Restart {target.title} to see Zoea's tools there."]
    if done.backup is not None:
        lines.append(f"The former contents are in {done.backup}.")
    return Output({"client": client, "file": str(done.file), "backup": str(done.backup or ""), "entry": made}, lines)


def _tokens(where: Places) -> Tokens:
    where.make_data()
    return Tokens(Credentials(where.credentials))


def _may(scope: TokenScope) -> str:
    return "search, list and read" if scope is TokenScope.READ else "search, list, read, send and broadcast"


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
