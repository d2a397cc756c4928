"""`zoea config`: write, read and check the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from zoea.cli import output
from zoea.cli.output import Output
from zoea.cli.swarm_access import command
from zoea.model.errors import UsageError
from zoea.process.command_line import WORKSPACE, argument, flag
from zoea.queries.phrases import describe_reload
from zoea.runtime.settings_check import check_all
from zoea.settings.config_writer import set_keys
from zoea.settings.key_paths import Layer, Origin, Problem, SettingsInvalid
from zoea.settings.layers import LoadedSettings, load
from zoea.settings.paths import Places, expand_home, places
from zoea.settings.private_file import write_private
from zoea.settings.project_files import find_project
from zoea.settings.reference import render_sample
from zoea.settings.schema import Settings
from zoea.settings.settings_display import SettingRow, escape_unprintable, list_settings
from zoea.settings.shannon_file import budget_key, read_shannon_file
from zoea.settings.template import Template
from zoea.settings.template_library import import_template
from zoea.text.large_json import dump_shown

check_cockpit: Callable[[Places], list[Problem]] | None = None
"""Checks themes and keys of the cockpit. `zoea.__main__` sets it, because `cli` may not import `tui`."""

_UNTRUSTED = "Without effect until `zoea trust`:"


def init(force: bool = flag("--force", "Replace an existing file.")) -> str:
    """Write a config.toml that explains every key."""
    where = places(configured=False)
    if where.config_file.exists() and not force:
        raise UsageError(f"{where.config_file} exists already", hint="Edit it, or replace it with --force.")
    write_private(where.config_file, render_sample())
    return f"Wrote {where.config_file}"


def import_(
    file: Path = argument("FILE", "A shannon.yaml, or a JSON file with a contextStrategy.", read=Path),
) -> str | Iterable[str]:
    """Import a shannon.yaml, or the JSON file of a Zeroshot agent.

    The table `session` of a shannon.yaml goes into config.toml. A JSON file with a contextStrategy becomes a
    template of the same name, each Zeroshot agent one with the name of its id.

    Examples: zoea config import shannon.yaml; zoea config import worker.json
    """
    where = places(configured=False)
    if file.suffix == ".json":
        wrote = []
        for made in import_template(expand_home(file), where.templates):
            wrote.append(f'Wrote {made.file}. A template takes it over with `extends = "{made.file.stem}"`.')
            wrote += [f"  {made.file.stem}: {note}" for note in made.notes]
        return wrote
    read, lines = read_shannon_file(expand_home(file))
    values = {budget_key(key): value for key, value in read.items()}
    places_of = {budget_key(key): Origin(Layer.USER, str(file), line) for key, line in lines.items()}
    try:
        set_keys(where.config_file, values)
    except SettingsInvalid as error:
        raise SettingsInvalid(
            [replace(one, origin=places_of.get(one.key, one.origin)) for one in error.problems]
        ) from None
    set_lines = [f"{key} = {value}" for key, value in values.items()]
    return [*set_lines, f'Wrote {where.config_file}. They count for templates with strategy = "window".']


def show(
    where: Places,
    key: str = argument("KEY", "Show only this key or section, as in swarm.max_myses.", ""),
    origin: bool = flag("--origin", "Show the file or variable that set each value."),
) -> Output:
    """Show the settings in effect, without keys and other secrets.

    Example: zoea config show swarm --origin
    """
    loaded = load(where)
    shown = [row for row in list_settings(loaded) if not key or row.key == key or row.key.startswith(f"{key}.")]
    if not shown:
        raise UsageError(f"there is no setting {key}", hint="Run `zoea config show` for all of them.")
    if not output.is_json:
        _say_untrusted(loaded.untrusted)
        _say_notes((*loaded.notes, *loaded.ignored))
    width = max(len(row.key) for row in shown)
    lines = [f"{escape_unprintable(row.key):<{width}} = {row.text}" for row in shown]
    if origin:
        lines = [f"{line}  # {escape_unprintable(str(row.origin))}" for line, row in zip(lines, shown, strict=True)]
    return Output(_as_json(loaded, shown, origin), lines)


def check(
    online: bool = flag("--online", "Ask the configured servers for their models."),
    keep_models: bool = flag("--keep-models", "Accept the models that their servers do not list, from now on."),
    workspace: str = WORKSPACE,
) -> Output:
    """Check settings, project file, templates, themes, keys and names of models.

    Every error is listed; the exit code is then 3. Models are checked against the list that their server gave last.
    """
    where = places(workspace, configured=False)
    report = check_all(where, online=online, keep_models=keep_models)
    if check_cockpit is not None:
        report.problems += check_cockpit(where)
    if output.is_json:
        output.write_json(report.as_dict())
    else:
        _say_notes((*report.notes, *report.ignored))
        _say_untrusted(report.untrusted)
    if report.problems:
        raise SettingsInvalid(report.problems)
    loaded = load(where)
    if not output.is_json:
        _say_notes(loaded.notes)
    return Output(UNSET, f"No problems: {len(loaded.templates.files())} templates, {_files(loaded)}.")


def apply(where: Places) -> Output:
    """Let the running swarm read settings and keys again.

    Nudges, waits and upstreams change at once; providers, limits and all else about turns with the next turn of each
    mysis. The command lists the settings that count only when the swarm is opened again.
    """
    report = command(where, lambda swarm: swarm.reload())
    return Output(report, describe_reload(report))


def path(where: Places) -> Output:
    """Show the paths of settings, templates, database, log and socket."""
    where = where
    files = {
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
    return Output(
        {name: str(file) if file else None for name, file in files.items()},
        [f"{name:<11} {file or 'none'}" for name, file in files.items()],
    )


def schema(template: bool = flag("--template", "Write the schema of templates instead.")) -> str:
    """Write the JSON Schema of the settings to stdout, for editors."""
    model = Template if template else Settings
    made = model.model_json_schema()
    if template:
        made["properties"]["extends"] = {
            "type": "string",
            "title": "Extends",
            "description": "A template to start from.",
        }
    return dump_shown(made, indent=2)


def _as_json(loaded: LoadedSettings, shown: list[SettingRow], origin: bool) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for row in shown:
        values[row.key] = (
            {"value": row.value, "layer": str(row.origin.layer), "file": row.origin.file, "line": row.origin.line}
            if origin
            else row.value
        )
    return {"settings": values, "untrusted": list(loaded.untrusted)}


def _files(loaded: LoadedSettings) -> str:
    layers = {origin.layer for origin in loaded.origins.values()}
    names = [str(layer) for layer in Layer if layer in layers and layer is not Layer.DEFAULT]
    return f"settings from {', '.join(names)}" if names else "all settings at their defaults"


def _say_notes(notes: Iterable[str]) -> None:
    for note in notes:
        output.warn(escape_unprintable(note))


def _say_untrusted(untrusted: Iterable[str]) -> None:
    _say_notes([_UNTRUSTED, *(f"  {key}" for key in untrusted)] if untrusted else ())
