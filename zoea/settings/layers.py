"""Load the settings: defaults < user < project < environment < command line.

Each layer is validated alone first, so that an error is reported even if another layer overrides
it. All problems of all layers are raised together, except those of an untrusted file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from zoea.settings.document import Document, read_document
from zoea.settings.fields import lowest_bound
from zoea.settings.inert_keys import keep_inert
from zoea.settings.key_paths import (
    DEFAULT,
    KeyPath,
    Layer,
    LayerValues,
    Origin,
    Problem,
    SettingsInvalid,
    format_key,
    get_value,
    iterate_leaves,
    merge_trees,
    put_value,
)
from zoea.settings.paths import Places
from zoea.settings.paths import places as places_of
from zoea.settings.problems import TABLES, find_origin, find_problems
from zoea.settings.project_files import find_project
from zoea.settings.schema import Settings
from zoea.settings.settings_conflicts import find_conflicts
from zoea.settings.shannon_file import move_budgets
from zoea.settings.template import CAPS
from zoea.settings.template_library import Templates, template_levels
from zoea.settings.trust import Trust
from zoea.text.control_characters import reveal

PREFIX = "ZOEA_"
MOST_NAMED = 5
"""Keys without effect that a notice names."""
BARE: Mapping[str, KeyPath] = {
    "TOKEN_BUDGET_PER_AGENT": ("budget", "token_budget_per_agent"),
    "TOKEN_BUDGET_PER_TASK": ("budget", "token_budget_per_task"),
    "HISTORY_WINDOW_MESSAGES": ("session", "context_window_default"),
    "HISTORY_WINDOW_DEBUG_MESSAGES": ("session", "context_window_debugging"),
    "COMPRESSION_TRIGGER_RATIO": ("session", "compression_trigger_ratio"),
    "COMPRESSION_TARGET_RATIO": ("session", "compression_target_ratio"),
}
"""Environment names used by Shannon, accepted with and without the prefix."""


class LoadedSettings(Struct, frozen=True):
    """The settings and their origins.

    Attributes:
        origins: The origin of every key, defaults included: `{"swarm.max_myses": Origin(...)}`.
        untrusted: Keys of the project's file without effect, and its templates that need trust.
        untrusted_problems: What is wrong with an untrusted file. It has no effect and stops nothing.
        notes: Variables of the environment that are not used, each with the reason.
        ignored: Files of projects that do not count, each with the reason.
        places: The given places, or those of the workspace that the settings name.
    """

    settings: Settings
    origins: Mapping[str, Origin]
    untrusted: tuple[str, ...]
    templates: Templates
    places: Places
    project: Path | None = None
    notes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    untrusted_problems: tuple[Problem, ...] = ()

    @property
    def trust_notice(self) -> str:
        """A notice at the start about files of the project without effect; "" for none."""
        lines = list(self.ignored)
        if self.untrusted:
            names = ", ".join(self.untrusted[:MOST_NAMED])
            more = f" and {len(self.untrusted) - MOST_NAMED:,} more" if len(self.untrusted) > MOST_NAMED else ""
            lines.append(
                f"The project's files are not trusted, so this has no effect: {names}{more}. "
                "`zoea trust` shows it and asks."
            )
        if wrong := self.untrusted_problems:
            more = f" and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
            lines.append(f"The project's file has errors, which `zoea config check` lists: {wrong[0]}{more}.")
        return reveal("\n".join(lines))


def load(
    places: Places,
    *,
    project_dir: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
) -> LoadedSettings:
    """Read and merge all layers.

    Args:
        places: The places of the user's `config.toml`, templates and trust record.
        project_dir: Where the search for `zoea.toml` starts, upward; default: the working directory.
        overrides: Values of the command line by dotted key: `{"swarm.max_myses": 5}`.
        env: The environment; default: the process's own.

    Raises:
        SettingsInvalid: A layer has problems.
        TrustError: The record of trusted files is unsafe or damaged.
    """
    env = os.environ if env is None else env
    reading = _read(places, project_dir or Path.cwd(), overrides or {}, env)
    if reading.problems:
        raise SettingsInvalid([*reading.problems, *reading.untrusted_problems])
    tree, origins = _merge_sources(reading.sources)
    if problems := find_problems(Settings, tree, origins):
        raise SettingsInvalid([*problems, *reading.untrusted_problems])
    settings = Settings.model_validate(tree)
    if wrong := find_conflicts(settings):
        raise SettingsInvalid(
            [Problem(format_key(path), message, _find_blame(path, origins)) for path, message in wrong]
        )
    if settings.workspace and not places.workspace:
        places = places_of(settings.workspace, env)
    plain = settings.model_dump()
    return LoadedSettings(
        settings,
        {format_key(path): origins.get(path) or _nested_origin(path, origins) for path, _ in iterate_leaves(plain)},
        reading.untrusted,
        reading.templates,
        places,
        reading.project,
        tuple(reading.notes),
        reading.ignored,
        tuple(reading.untrusted_problems),
    )


def check_settings(places: Places, *, env: Mapping[str, str] | None = None) -> list[Problem]:
    """Return all problems of settings and templates, for `zoea config check`."""
    env = os.environ if env is None else env
    problems: list[Problem] = []
    try:
        problems += load(places, env=env).untrusted_problems
    except SettingsInvalid as error:
        problems += error.problems
    project = find_project(Path.cwd())
    return problems + Templates(template_levels(places.templates, project.templates), Trust(places.trusted)).problems()


class _Reading(Struct):
    """The layers read so far, lowest first."""

    templates: Templates
    project: Path | None
    sources: list[LayerValues] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    untrusted: tuple[str, ...] = ()
    untrusted_problems: list[Problem] = field(default_factory=list)
    ignored: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)

    def add(self, source: LayerValues, document: Document | None = None) -> None:
        source = move_budgets(source)
        if document is not None:
            self.problems += document.problems
        self.problems += find_problems(Settings, source.tree, source.origins, partial=True)
        self.sources.append(source)


def _read(places: Places, start: Path, overrides: Mapping[str, Any], env: Mapping[str, str]) -> _Reading:
    trust = Trust(places.trusted)
    project = find_project(start)
    templates = Templates(template_levels(places.templates, project.templates), trust)
    reading = _Reading(templates, project.file)
    user = read_document(places.config_file, Layer.USER)
    reading.add(_file_values(Layer.USER, places.config_file, user), user)
    if project.file:
        _add_project(reading, project.file, trust)
    reading.untrusted += templates.untrusted()
    reading.ignored = (*project.ignored, *templates.ignored())
    entries = {section: _entry_names(reading.sources, section) for section in TABLES}
    usable = {name: value for name, value in env.items() if not _is_unusable(name, value)}
    reading.notes += [
        f"{name} is {env[name]!r}, which is no number: it is not used" for name in sorted({*env} - {*usable})
    ]
    for source in read_environment(usable, entries):
        reading.add(source)
    if overrides:
        reading.add(_override_values(overrides))
    return reading


def _is_unusable(name: str, value: str) -> bool:
    """Return whether one of Shannon's variables holds no number; the next level counts then."""
    if BARE.get(name.removeprefix(PREFIX), ("",))[0] != "session" or not value.strip():
        return False
    try:
        return not float(value) >= 0
    except ValueError:
        return True


def _add_project(reading: _Reading, file: Path, trust: Trust) -> None:
    """Add the project's file; if it is untrusted, its valid inert part alone takes effect."""
    document = read_document(file, Layer.PROJECT)
    values = _file_values(Layer.PROJECT, file, document)
    if trust.is_trusted(file, document.raw):
        reading.add(values, document)
        return
    inert, held = keep_inert(move_budgets(values).tree)
    reading.add(LayerValues(Layer.PROJECT, inert, values.origins))
    reading.untrusted = tuple(map(format_key, held))
    reading.untrusted_problems = [*document.problems, *find_project_problems(file, document)]


def find_project_problems(file: Path, document: Document) -> list[Problem]:
    """Return the errors of a project's file, whether or not its values take effect."""
    values = move_budgets(_file_values(Layer.PROJECT, file, document))
    return find_problems(Settings, values.tree, values.origins, partial=True)


def _file_values(layer: Layer, file: Path, document: Document) -> LayerValues:
    return LayerValues(
        layer, document.tree, {path: Origin(layer, str(file), line) for path, line in document.lines.items()}
    )


def _override_values(overrides: Mapping[str, Any]) -> LayerValues:
    tree: dict[str, Any] = {}
    origins: dict[KeyPath, Origin] = {}
    for key, value in overrides.items():
        path = tuple(key.split("."))
        put_value(tree, path, value)
        for length in range(1, len(path) + 1):
            origins.setdefault(path[:length], Origin(Layer.COMMAND_LINE, f"--set {key}"))
    return LayerValues(Layer.COMMAND_LINE, tree, origins)


def _entry_names(sources: Sequence[LayerValues], section: str) -> list[str]:
    named = [source.tree.get(section) for source in sources]
    return [name for table in named if isinstance(table, Mapping) for name in table]


def _merge_sources(sources: Sequence[LayerValues]) -> tuple[dict[str, Any], dict[KeyPath, Origin]]:
    """Merge all layers; of each budget the lowest bound applies."""
    tree: dict[str, Any] = {}
    origins: dict[KeyPath, Origin] = {}
    for source in sources:
        tree = merge_trees(tree, source.tree)
        origins.update(
            {path: origin for path, origin in source.origins.items() if get_value(source.tree, path) is not None}
        )
    for key in CAPS:
        path = ("budget", key)
        values = {
            place: getattr(Settings.model_validate({"budget": {key: value}}).budget, key)
            for place, source in enumerate(sources)
            if (value := get_value(source.tree, path)) is not None
        }
        if values:
            place, _ = lowest_bound({str(place): value for place, value in values.items()})
            put_value(tree, path, get_value(sources[int(place)].tree, path))
            origins[path] = find_origin(path, sources[int(place)].origins)
    return tree, origins


def _find_blame(path: KeyPath, origins: Mapping[KeyPath, Origin]) -> Origin:
    """Return the origin of a conflict: the key's, else the highest layer's beside it."""
    if path in origins:
        return origins[path]
    beside = [origin for other, origin in origins.items() if other[:-1] == path[:-1]]
    return beside[-1] if beside else find_origin(path, origins)


def _nested_origin(path: KeyPath, origins: Mapping[KeyPath, Origin]) -> Origin:
    """Return the origin of a key with a dot in its last part. A file may nest it as tables."""
    return origins.get((*path[:-1], *path[-1].split(".")), DEFAULT)


def read_environment(env: Mapping[str, str], names: Mapping[str, Iterable[str]]) -> list[LayerValues]:
    """Return the values set by environment variables; empty variables count as unset.

    Names of providers and upstreams match case-insensitively, with `_` for `-`, because a variable's
    name cannot hold either. `names` are those known so far. Each way of naming is a source of its own,
    so that of two names for one budget both count.
    """
    ways: tuple[dict[str, KeyPath], ...] = (
        {name: path for name, path in BARE.items() if name in env},
        {PREFIX + name: path for name, path in BARE.items() if PREFIX + name in env},
        {
            name: _variable_path(name, names)
            for name in sorted(env)
            if name.startswith(PREFIX) and "__" in name[len(PREFIX) :]
        },
        {f"{PREFIX}WORKSPACE": ("workspace",)} if f"{PREFIX}WORKSPACE" in env else {},
    )
    return [source for way in ways if (source := _variable_values(way, env)).tree]


def variable_name(path: KeyPath) -> str:
    """Return the environment variable that sets a key."""
    return PREFIX + "__".join(part.replace("-", "_").upper() for part in path)


def _variable_path(name: str, names: Mapping[str, Iterable[str]]) -> KeyPath:
    parts = [part.lower() for part in name[len(PREFIX) :].split("__")]
    if len(parts) > 1:
        for known in names.get(parts[0], ()):
            if known.lower().replace("-", "_") == parts[1]:
                parts[1] = known
    return tuple(parts)


def _variable_values(way: Mapping[str, KeyPath], env: Mapping[str, str]) -> LayerValues:
    tree: dict[str, Any] = {}
    origins: dict[KeyPath, Origin] = {}
    for name, path in way.items():
        if env[name].strip():
            put_value(tree, path, env[name])
            origin = Origin(Layer.ENVIRONMENT, name)
            for length in range(1, len(path) + 1):
                origins.setdefault(path[:length], origin)
    return LayerValues(Layer.ENVIRONMENT, tree, origins)
