"""`zoea credentials`: store, list and delete keys.

A value is never an argument, because arguments are visible in process lists.
"""

from __future__ import annotations

from collections.abc import Iterator

from zoea.cli import output
from zoea.cli.output import Output
from zoea.model.errors import UsageError
from zoea.process.command_line import argument, flag
from zoea.process.lock import read_holder
from zoea.settings.credentials import Credentials
from zoea.settings.paths import Places

NAME = argument("NAME", "The name that settings refer to, as in file:NAME.")
IN_KEYRING = flag("--keyring", "Use the system's keyring instead of the credentials file.")


def set_(where: Places, name: str = NAME, keyring: bool = IN_KEYRING) -> Iterator[str]:
    """Store a value, typed without echo or read from stdin.

    Example: zoea credentials set anthropic
    """
    value = _value(name)
    credentials = _credentials(where)
    if keyring:
        credentials.set_in_keyring(name, value)
    else:
        credentials.set(name, value)
    yield f'Stored. Settings refer to it as "{"keyring" if keyring else "file"}:{name}".'
    if read_holder(where.data) is None:
        return
    from zoea.cli.swarm_access import command  # imports asyncio
    from zoea.queries.phrases import describe_reload

    report = command(where, lambda swarm: swarm.reload())
    yield f"In the running swarm: {describe_reload(report)}."


def list_(where: Places) -> Output:
    """List the names in the credentials file, without values. A keyring cannot be listed."""
    names = _credentials(where).names()
    return Output(list(names), names)


def delete(where: Places, name: str = NAME, keyring: bool = IN_KEYRING) -> str:
    """Delete a stored value."""
    credentials = _credentials(where)
    gone = credentials.delete_from_keyring(name) if keyring else credentials.delete(name)
    if not gone:
        raise UsageError(f"there is no credential {name}", hint="Run `zoea credentials list` for the names.")
    return f"Deleted {name}."


def _credentials(where: Places) -> Credentials:
    where.make_data()
    return Credentials(where.credentials)


def _value(name: str) -> str:
    """Read a line from the terminal without echo, or stdin without its last line break."""
    if output.is_typed():
        from getpass import getpass

        return getpass(f"Value for {name}: ")
    return output.read_stdin().rstrip("\r\n")
