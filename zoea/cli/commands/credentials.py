"""`zoea credentials`: store, list and delete keys.

A value is never an argument, because arguments are visible in process lists.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from zoea.cli.options import AsJson, Workspace, is_typed
from zoea.model.errors import UsageError
from zoea.process.lock import read_holder
from zoea.settings.credentials import Credentials
from zoea.settings.paths import places
from zoea.text.control_characters import strip
from zoea.text.large_json import dump_shown

app = typer.Typer(help="Store API keys and other secrets that settings refer to.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name that settings refer to, as in file:NAME.")]
InKeyring = Annotated[bool, typer.Option("--keyring", help="Use the system's keyring instead of the credentials file.")]


@app.command("set")
def set_(name: Name, keyring: InKeyring = False, workspace: Workspace = "") -> None:
    """Store a value, typed without echo or read from stdin.

    Example: zoea credentials set anthropic
    """
    value = _value(name)
    credentials = _credentials(workspace)
    if keyring:
        credentials.set_in_keyring(name, value)
    else:
        credentials.set(name, value)
    typer.echo(f'Stored. Settings refer to it as "{"keyring" if keyring else "file"}:{name}".')
    _apply_to_running(workspace)


@app.command("list")
def list_(as_json: AsJson = False, workspace: Workspace = "") -> None:
    """List the names in the credentials file, without values. A keyring cannot be listed."""
    names = _credentials(workspace).names()
    if as_json:
        typer.echo(dump_shown(list(names)))
        return
    for name in names:
        typer.echo(name)


@app.command()
def delete(name: Name, keyring: InKeyring = False, workspace: Workspace = "") -> None:
    """Delete a stored value."""
    credentials = _credentials(workspace)
    gone = credentials.delete_from_keyring(name) if keyring else credentials.delete(name)
    if not gone:
        raise UsageError(f"there is no credential {name}", hint="Run `zoea credentials list` for the names.")
    typer.echo(f"Deleted {name}.")


def _apply_to_running(workspace: str) -> None:
    """Let the running swarm read the keys again, if there is one."""
    if read_holder(places(workspace).data) is None:
        return
    from zoea.cli.swarm_access import command  # imports asyncio
    from zoea.queries.phrases import describe_reload

    typer.echo(strip(f"In the running swarm: {describe_reload(command(workspace, lambda swarm: swarm.reload()))}."))


def _credentials(workspace: str) -> Credentials:
    where = places(workspace)
    where.make_data()
    return Credentials(where.credentials)


def _value(name: str) -> str:
    """Read a line from the terminal without echo, or stdin without its last line break."""
    if is_typed():
        return str(typer.prompt(f"Value for {name}", hide_input=True))
    return sys.stdin.read().rstrip("\r\n")
