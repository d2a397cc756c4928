"""`zoea trust`: show what a project's files can run and reach, and record the person's consent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from time import localtime, strftime
from typing import Annotated, Any

import typer

from zoea.cli.options import is_typed, write_json
from zoea.model.errors import UsageError
from zoea.settings.document import Document, read_document
from zoea.settings.key_paths import Layer, SettingsInvalid, format_key, get_value
from zoea.settings.layers import project_file
from zoea.settings.paths import PROJECT_FILE, places
from zoea.settings.settings_display import escape_unprintable, format_toml, hide_secrets
from zoea.settings.trust import Trust, active_keys, find_untrusted_keys


def trust(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="PATH", help="A project's directory or one file; the nearest zoea.toml if not given."),
    ] = None,
    revoke: Annotated[bool, typer.Option("--revoke", help="Revoke the trust.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the trusted files.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --list: write JSON.")] = False,
) -> None:
    """Allow a project's zoea.toml to run commands, reach addresses and use credentials, until it changes."""
    record = Trust(places(configured=False).trusted)
    if as_json and not listed:
        raise UsageError("--json works only with --list", hint="Leave out --json: a person must read what is trusted.")
    if listed:
        _list(record, as_json)
        return
    for file in _meant(path):
        if revoke:
            was = record.revoke(file)
            typer.echo(f"{file}: {'trusted no longer' if was else 'was not trusted'}")
        else:
            _trust(record, file, yes)


def _meant(path: Path | None) -> list[Path]:
    """Return the named file, or the project's file with its templates."""
    if path is not None and not path.is_dir():
        return [path.absolute()]
    folder = (path or Path.cwd()).absolute()
    found = folder / PROJECT_FILE if path is not None else project_file(folder)
    if found is None or not found.is_file():
        raise UsageError(f"there is no {PROJECT_FILE} in {folder}", hint="Name the project's directory or file.")
    return [found, *sorted((found.parent / ".zoea" / "templates").glob("*.toml"))]


def _trust(record: Trust, file: Path, yes: bool) -> None:
    """Show the file's active settings, ask, and record the trust in exactly the bytes shown."""
    if not file.is_file():
        raise UsageError(f"there is no file {file}")
    is_project = file.name == PROJECT_FILE
    document = read_document(file, Layer.PROJECT if is_project else Layer.TEMPLATE)
    if document.problems:
        raise SettingsInvalid(document.problems)
    if record.is_trusted(file, document.raw):
        typer.echo(f"{file}: trusted already, unchanged")
        return
    wanted = list(_wanted(document.tree)) if is_project else list(find_untrusted_keys(document.tree))
    if not wanted:
        typer.echo(f"{file}: holds nothing that needs trust")
        return
    typer.echo(f"{file} wants:")
    for line in wanted:
        typer.echo(f"  {line}")
    if not yes and not is_typed():
        raise UsageError(
            "not trusted: stdin is not a terminal, so the question cannot be asked",
            hint="Read the lines above, then add --yes.",
        )
    if not yes and not typer.confirm("Trust exactly this?"):
        typer.echo("Not trusted.")
        return
    _record(record, file, document)


def _record(record: Trust, file: Path, document: Document) -> None:
    record.add(file, document.raw)
    typer.echo(f"{file}: trusted until it changes")


def _wanted(tree: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line per setting that runs, reaches or uses something. Values like secrets are hidden."""
    for path in active_keys(tree):
        value = get_value(tree, path)
        if isinstance(value, Mapping):
            for key, one in value.items():
                yield f"{escape_unprintable(format_key((*path, key)))} = {format_toml(hide_secrets((*path, key), one))}"
        else:
            yield f"{escape_unprintable(format_key(path))} = {format_toml(hide_secrets(path, value))}"


def _list(record: Trust, as_json: bool) -> None:
    found = [(trusted, _holds(record, trusted.file)) for trusted in record.files()]
    if as_json:
        write_json(
            [
                {"file": str(one.file), "hash": one.digest, "trusted_at": one.at * 1_000_000, "holds": holds}
                for one, holds in found
            ]
        )
        return
    for one, holds in found:
        when = strftime("%Y-%m-%d %H:%M", localtime(one.at))
        typer.echo(f"{when}  {one.digest[:12]}  {escape_unprintable(str(one.file))}{'' if holds else '  (changed)'}")


def _holds(record: Trust, file: Path) -> bool:
    """Return whether the file is unchanged since it was trusted. False if it cannot be read."""
    try:
        return file.is_file() and record.is_trusted(file, file.read_bytes())
    except OSError:
        return False
