"""`zoea config`: write, read and check the settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from zoea.cli.options import AsJson, Workspace, write_json
from zoea.cli.swarm_access import command
from zoea.model.errors import UsageError
from zoea.queries.phrases import describe_reload
from zoea.runtime.settings_check import check_all
from zoea.settings.config_writer import set_keys
from zoea.settings.key_paths import Layer, Origin, Problem, SettingsInvalid
from zoea.settings.layers import LoadedSettings, load
from zoea.settings.paths import Places, places
from zoea.settings.private_file import write_private
from zoea.settings.project_files import find_project
from zoea.settings.reference import render_sample
from zoea.settings.schema import Settings
from zoea.settings.settings_display import SettingRow, escape_unprintable, list_settings
from zoea.settings.shannon_file import budget_key, read_shannon_file
from zoea.settings.template import Template
from zoea.settings.template_library import import_template
from zoea.text.control_characters import reveal_exactly, strip
from zoea.text.large_json import dump_shown

app = typer.Typer(help="Write, read and check the settings.", no_args_is_help=True)

check_cockpit: Callable[[Places], list[Problem]] | None = None
"""Checks themes and keys of the cockpit. `zoea.__main__` sets it, because `cli` may not import `tui`."""

_UNTRUSTED = "Without effect until `zoea trust`:"


@app.command()
def init(
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a config.toml that explains every key."""
    where = places(configured=False)
    if where.config_file.exists() and not force:
        raise UsageError(f"{where.config_file} exists already", hint="Edit it, or replace it with --force.")
    write_private(where.config_file, render_sample())
    typer.echo(f"Wrote {where.config_file}")


@app.command("import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A shannon.yaml, or a JSON file with a contextStrategy."),
    ],
) -> None:
    """Import a shannon.yaml, or the JSON file of a Zeroshot agent.

    The table `session` of a shannon.yaml goes into config.toml. A JSON file with a contextStrategy becomes a
    template of the same name, each Zeroshot agent one with the name of its id.

    Examples: zoea config import shannon.yaml; zoea config import worker.json
    """
    where = places(configured=False)
    if file.suffix == ".json":
        for made in import_template(file.expanduser(), where.templates):
            typer.echo(f'Wrote {made.file}. A template takes it over with `extends = "{made.file.stem}"`.')
            for note in made.notes:
                typer.echo(f"  {made.file.stem}: {strip(note)}")
        return
    read, lines = read_shannon_file(file.expanduser())
    values = {budget_key(key): value for key, value in read.items()}
    places_of = {budget_key(key): Origin(Layer.USER, str(file), line) for key, line in lines.items()}
    try:
        set_keys(where.config_file, values)
    except SettingsInvalid as error:
        raise SettingsInvalid(
            [replace(one, origin=places_of.get(one.key, one.origin)) for one in error.problems]
        ) from None
    for key, value in values.items():
        typer.echo(f"{key} = {value}")
    typer.echo(f'Wrote {where.config_file}. They count for templates with strategy = "window".')


@app.command()
def show(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="Show only this key or section, as in swarm.max_myses.")
    ] = "",
    origin: Annotated[bool, typer.Option("--origin", help="Show the file or variable that set each value.")] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Show the settings in effect, without keys and other secrets.

    Example: zoea config show swarm --origin
    """
    loaded = load(places(workspace))
    shown = [row for row in list_settings(loaded) if not key or row.key == key or row.key.startswith(f"{key}.")]
    if not shown:
        raise UsageError(f"there is no setting {key}", hint="Run `zoea config show` for all of them.")
    if as_json:
        typer.echo(reveal_exactly(json.dumps(_as_json(loaded, shown, origin), ensure_ascii=False, default=str)))
        return
    width = max(len(row.key) for row in shown)
    for row in shown:
        line = f"{escape_unprintable(row.key):<{width}} = {row.text}"
        typer.echo(f"{line}  # {escape_unprintable(str(row.origin))}" if origin else line)
    _say_untrusted(loaded.untrusted)
    _say_notes((*loaded.notes, *loaded.ignored))


@app.command()
def check(
    online: Annotated[bool, typer.Option("--online", help="Ask the configured servers for their models.")] = False,
    keep_models: Annotated[
        bool, typer.Option("--keep-models", help="Accept the models that their servers do not list, from now on.")
    ] = False,
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Check settings, project file, templates, themes, keys and names of models.

    Every error is listed; the exit code is then 3. Models are checked against the list that their server gave last.
    """
    where = places(workspace, configured=False)
    report = check_all(where, online=online, keep_models=keep_models)
    if check_cockpit is not None:
        report.problems += check_cockpit(where)
    if as_json:
        typer.echo(dump_shown(report.as_dict()))
    else:
        for note in (*report.notes, *report.ignored):
            typer.echo(escape_unprintable(note), err=True)
        _say_untrusted(report.untrusted)
    if report.problems:
        raise SettingsInvalid(report.problems)
    if not as_json:
        loaded = load(where)
        typer.echo(f"No problems: {len(loaded.templates.files())} templates, {_files(loaded)}.")
        _say_notes(loaded.notes)


@app.command("apply")
def apply_changes(as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Let the running swarm read settings and keys again.

    Nudges, waits and upstreams change at once; providers, limits and all else about turns with the next turn of each
    mysis. The command lists the settings that count only when the swarm is opened again.
    """
    report = command(workspace, lambda swarm: swarm.reload())
    if as_json:
        write_json(report)
    else:
        typer.echo(strip(describe_reload(report)))


@app.command()
def path(as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Show the paths of settings, templates, database, log and socket."""
    where = places(workspace)
    found = {
        "config": where.config_file,
        "templates": where.templates,
        "project": find_project(Path.cwd()).file,
        "data": where.data,
        "database": where.database,
        "log": where.log,
        "credentials": where.credentials,
        "trusted": where.trusted,
        "socket": where.socket,
    }
    if as_json:
        typer.echo(dump_shown({name: str(file) if file else None for name, file in found.items()}))
        return
    for name, file in found.items():
        typer.echo(f"{name:<11} {file or 'none'}")


@app.command()
def schema(
    template: Annotated[bool, typer.Option("--template", help="Write the schema of templates instead.")] = False,
) -> None:
    """Write the JSON Schema of the settings to stdout, for editors."""
    model = Template if template else Settings
    made = model.model_json_schema()
    if template:
        made["properties"]["extends"] = {
            "type": "string",
            "title": "Extends",
            "description": "A template to start from.",
        }
    typer.echo(dump_shown(made, indent=2))


def _as_json(loaded: LoadedSettings, shown: list[SettingRow], origin: bool) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for row in shown:
        values[row.key] = (
            {
                "value": row.value,
                "layer": str(row.origin.layer),
                "file": row.origin.file,
                "line": row.origin.line,
            }
            if origin
            else row.value
        )
    return {"settings": values, "untrusted": list(loaded.untrusted)}


def _files(loaded: LoadedSettings) -> str:
    layers = {origin.layer for origin in loaded.origins.values()}
    said = [str(layer) for layer in Layer if layer in layers and layer is not Layer.DEFAULT]
    return f"settings from {', '.join(said)}" if said else "all settings at their defaults"


def _say_notes(notes: Iterable[str]) -> None:
    for note in notes:
        typer.echo(escape_unprintable(note), err=True)


def _say_untrusted(untrusted: Iterable[str]) -> None:
    _say_notes([_UNTRUSTED, *(f"  {key}" for key in untrusted)] if untrusted else ())
