"""Find templates on three levels: project, user, shipped; higher levels first.

A template may extend the one of the same name on a lower level, which changes a shipped template
without copying it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from zoea.model.errors import TemplateError, TrustError
from zoea.settings.document import Document, read_document
from zoea.settings.inert_keys import split_keys
from zoea.settings.key_paths import (
    KeyPath,
    Layer,
    Origin,
    Problem,
    SettingsInvalid,
    find_nearest,
    format_key,
    merge_trees,
)
from zoea.settings.paths import make_private_folder
from zoea.settings.problems import find_problems
from zoea.settings.project_files import explain_distrust
from zoea.settings.template import PARENT, Template
from zoea.settings.topic_source import use_snake_case
from zoea.settings.trust import Trust
from zoea.settings.zeroshot_agent import NEVER_WOKEN, convert_agent, find_agents

SHIPPED = Path(__file__).parent / "templates"
MOST_EXTENDED = 16
MOST_PROMPT_CHARS = 400_000
"""Twice as many as the tokens that a request may hold."""
MOST_TEMPLATES = 500
"""Files that are read of a project's folder, in the order of their names."""
_NOT_INHERITED = frozenset({"name", "title"})
"""Keys that a template does not inherit."""


class TemplateInvalid(SettingsInvalid, TemplateError):
    """All problems of a template."""

    title = TemplateError.title


class Level(Struct, frozen=True):
    """One directory of templates."""

    layer: Layer
    folder: Path
    needs_trust: bool = False


class _Resolved(Struct, frozen=True):
    """A template's merged table, and the origin of each key."""

    tree: dict[str, Any]
    origins: dict[KeyPath, Origin] = field(default_factory=dict)


class Templates:
    """Templates by name, read at each use, so that changed files apply at once.

    A project's template that is not trusted hides no other of its name. It can be used by its own name, where it says
    nothing but texts.
    """

    def __init__(self, levels: Sequence[Level] = (), trust: Trust | None = None) -> None:
        self._levels = (*levels, Level(Layer.DEFAULT, SHIPPED))
        self._trust = trust

    def names(self) -> tuple[str, ...]:
        """Return all names, sorted."""
        return tuple(sorted({file.stem for file in self.files()}))

    def files(self) -> tuple[Path, ...]:
        """Return every file of every level, the project's first."""
        return tuple(file for level in self._levels for file in _usable_files(level))

    def file(self, name: str) -> Path:
        """Return the file of a template.

        Raises:
            TemplateError: There is none.
        """
        return self._find(name, 0)[1]

    def get(self, name: str) -> Template:
        """Return the template merged with those it extends.

        Raises:
            TemplateError: It is missing or invalid.
            TrustError: It belongs to a project and needs trust.
        """
        resolved = self._resolve(name, 0, ())
        problems = find_problems(Template, resolved.tree, resolved.origins)
        if problems:
            raise TemplateInvalid(problems)
        return Template.model_validate(resolved.tree)

    def problems(self) -> list[Problem]:
        """Return the problems of all templates, for `zoea config check`."""
        found: list[Problem] = []
        for name in self.names():
            try:
                self.get(name)
            except SettingsInvalid as error:
                found += [one for one in error.problems if one not in found]
            except TrustError:
                continue  # valid but untrusted; `load` reports it
            except TemplateError as error:
                found.append(Problem(f"template {name}", error.what, Origin(Layer.TEMPLATE, str(self.file(name)))))
        return found

    def untrusted(self) -> tuple[str, ...]:
        """Return the project's templates that need trust, as `template NAME: reasons`."""
        return tuple(
            f"template {file.stem}: {', '.join(held)}"
            for place, level in enumerate(self._levels)
            if level.needs_trust
            for file in _usable_files(level)
            if (held := self._held(place, file, read_document(file, Layer.TEMPLATE)))
        )

    def ignored(self) -> tuple[str, ...]:
        """Return the files of a project that are left out, each with the reason."""
        found: list[str] = []
        for level in self._levels:
            files = _files(level.folder) if level.needs_trust else []
            if len(files) > MOST_TEMPLATES:
                found.append(
                    f"{level.folder} has {len(files):,} templates: those after {MOST_TEMPLATES} have no effect"
                )
            found += [f"{file} has no effect: {why}" for file in files if (why := explain_distrust(file))]
        return tuple(found)

    def _has(self, name: str, start: int) -> bool:
        return any(_usable_files(level, name) for level in self._levels[start:])

    def _find(self, name: str, start: int) -> tuple[int, Path]:
        for place, level in enumerate(self._levels[start:], start):
            for file in _usable_files(level, name):
                is_other_hidden = level.needs_trust and self._has(name, place + 1)
                if not (is_other_hidden and self._held(place, file, read_document(file, Layer.TEMPLATE))):
                    return place, file
        known = self.names()
        close = find_nearest(name, known)
        raise TemplateError(
            f"there is no template {name!r}" + (f"; did you mean {close}?" if close else ""),
            hint=f"There are: {', '.join(known)}.",
            title="No such template",
        )

    def _resolve(self, name: str, start: int, above: tuple[Path, ...]) -> _Resolved:
        place, file = self._find(name, start)
        if file in above:
            chain = " -> ".join(one.stem for one in (*above[above.index(file) :], file))
            raise TemplateError(
                f"{file}: templates extend each other in a loop: {chain}", hint="Remove one `extends` of the loop."
            )
        if len(above) >= MOST_EXTENDED:
            raise TemplateError(
                f"{above[0]}: more than {MOST_EXTENDED} templates extend each other", hint="Join some of them."
            )
        document = read_document(file, Layer.TEMPLATE)
        if document.problems:
            raise TemplateInvalid(document.problems)
        if held := self._held(place, file, document):
            raise TrustError(
                f"{file} needs trust: {', '.join(held)}",
                hint=f"Read the file, then run `zoea trust {file}`.",
            )
        own = _read_own(file, document)
        parent = document.tree.get("extends")
        if parent is None:
            return own
        if not isinstance(parent, str):
            line = document.lines.get(("extends",), 0)
            raise TemplateInvalid([Problem("extends", "expected a name", Origin(Layer.TEMPLATE, str(file), line))])
        extends_own_name = parent == file.stem
        below = place + 1 if extends_own_name else 0
        if extends_own_name and not self._has(parent, below):
            raise TemplateError(
                f"{file} extends {parent!r}, its own name, but there is no template {parent!r} below it",
                hint="Name another template, or remove `extends`.",
            )
        base = self._resolve(parent, below, (*above, file))
        return _extend(base, own, file)

    def _held(self, place: int, file: Path, document: Document) -> tuple[str, ...]:
        """Return what a template of the level `place` says without effect until it is trusted."""
        if not self._levels[place].needs_trust or (self._trust and self._trust.is_trusted(file, document.raw)):
            return ()
        is_replacement = self._has(file.stem, place + 1)
        held = tuple(map(format_key, find_untrusted_keys(document.tree, is_replacement=is_replacement)))
        return (f"takes the place of another {file.stem}", *held) if is_replacement else held


def find_untrusted_keys(tree: Mapping[str, Any], *, is_replacement: bool) -> list[KeyPath]:
    """Return the keys of a project's template that need trust: all of one that takes the place of another."""
    tree, _ = use_snake_case(tree, {})
    inert, held = split_keys(Template, {key: value for key, value in tree.items() if key != "extends"})
    return [*inert, *held] if is_replacement else held


def _usable_files(level: Level, name: str | None = None) -> list[Path]:
    """Return the templates of a level, or the one of a name, without those that `Templates.ignored` lists."""
    files = _files(level.folder)[: MOST_TEMPLATES if level.needs_trust else None]
    named = [file for file in files if name is None or file.stem == name]
    return [file for file in named if not (level.needs_trust and explain_distrust(file))]


def _files(folder: Path) -> list[Path]:
    """Return the templates of a folder. Where two formats have the same name, the TOML file comes first.

    Files with a dot before their name are locks and copies of editors. What is no file is reported when it is read.
    """
    found = (file for suffix in (".toml", ".json") for file in folder.glob(f"[!.]*{suffix}"))
    return sorted(found, key=lambda file: (file.stem, file.suffix != ".toml"))


def _read_own(file: Path, document: Document) -> _Resolved:
    """Return the part of one file, validated alone so that errors name its lines."""
    tree, lines = use_snake_case(document.tree, document.lines)
    origins = {path: Origin(Layer.TEMPLATE, str(file), line) for path, line in lines.items()}
    tree.pop("extends", None)
    named = tree.setdefault("name", file.stem)
    problems = find_problems(Template, tree, {(): Origin(Layer.TEMPLATE, str(file)), **origins}, partial=True)
    if not problems and named != file.stem:
        problems = [Problem("name", f"{named!r} is not the name of its file", origins[("name",)])]
    other = file.with_suffix(".json" if file.suffix == ".toml" else ".toml")
    if not problems and other.is_file():
        place = Origin(Layer.TEMPLATE, str(file))
        problems = [Problem("", f"has the same name as {other.name}; rename one", place)]
    if problems:
        raise TemplateInvalid(problems)
    return _Resolved(tree, origins)


def _extend(base: _Resolved, own: _Resolved, file: Path) -> _Resolved:
    """Merge a template over the one it extends. Raises TemplateInvalid where the prompt becomes too long."""
    kept = {key: value for key, value in base.tree.items() if key not in _NOT_INHERITED}
    tree = merge_trees(kept, own.tree)
    if isinstance(prompt := own.tree.get("prompt"), str):
        inherited = str(base.tree.get("prompt", "")).strip()
        # Counted before it is made, because a chain of templates multiplies the length.
        if len(prompt) + prompt.count(PARENT) * len(inherited) > MOST_PROMPT_CHARS:
            origin = own.origins.get(("prompt",), Origin(Layer.TEMPLATE, str(file)))
            problem = f"has more than {MOST_PROMPT_CHARS:,} characters with the prompt of the extended template"
            raise TemplateInvalid([Problem("prompt", problem, origin)])
        tree["prompt"] = prompt.replace(PARENT, inherited)
    if "output_schema" in own.tree:
        tree["output_schema"] = own.tree["output_schema"]  # a schema is one value
    return _Resolved(tree, {**base.origins, **own.origins})


class ImportedTemplate(Struct, frozen=True):
    """The file of an imported template, and a sentence for each part that was not taken."""

    file: Path
    notes: tuple[str, ...] = ()


def import_template(file: Path, folder: Path) -> tuple[ImportedTemplate, ...]:
    """Copy a template into a folder as it stands; agents of Zeroshot become a template each.

    Raises:
        TemplateError: One is invalid, or the folder has a template of its name; then none is written.
    """
    document = read_document(file, Layer.USER)
    if not document.raw:
        raise TemplateError(f"{file} cannot be read", hint="Name a JSON file with a contextStrategy.")
    agents = [] if document.problems else [convert_agent(one, file.stem) for one in find_agents(document.tree)]
    texts = {f"{one.name}.json": json.dumps(one.tree, ensure_ascii=False, indent=2).encode() for one in agents}
    if len(texts) < len(agents):
        raise TemplateError(f"{file}: two agents have the same id", hint="Rename one of them.")
    for name in texts or (file.name,):
        if taken := [one for one in _files(folder) if one.stem == Path(name).stem]:
            raise TemplateError(f"{taken[0]} exists already", hint="Rename one of them.")
    if not agents:
        made = Templates((Level(Layer.USER, file.parent), Level(Layer.USER, folder))).get(file.stem)
        texts = {file.name: document.raw}
    for one in agents:
        if problems := find_problems(Template, {"name": one.name, **use_snake_case(one.tree, {})[0]}, {}):
            origin = Origin(Layer.USER, str(file))
            raise TemplateInvalid([replace(each, key=f"{one.name}: {each.key}", origin=origin) for each in problems])
    make_private_folder(folder)
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    notes = [one.notes for one in agents] or [() if made.subscribes else (NEVER_WOKEN,)]
    return tuple([ImportedTemplate(folder / name, said) for name, said in zip(texts, notes, strict=True)])


def template_levels(user: Path, project: Path | None) -> tuple[Level, ...]:
    """Return the level of the user's folder, preceded by that of the project's folder if there is one."""
    mine = Level(Layer.USER, user)
    return (mine,) if project is None else (Level(Layer.PROJECT, project, needs_trust=True), mine)
