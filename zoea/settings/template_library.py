"""Find templates on three levels: project, user, shipped; higher levels first.

A template may extend the one of the same name on a lower level, which changes a shipped template
without copying it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from zoea.model.errors import TemplateError, TrustError
from zoea.settings.document import Document, read_document
from zoea.settings.key_paths import KeyPath, Layer, Origin, Problem, SettingsInvalid, find_nearest, merge_trees
from zoea.settings.problems import find_problems
from zoea.settings.template import PARENT, Template
from zoea.settings.topic_source import use_snake_case
from zoea.settings.trust import Trust, find_untrusted_keys

TEMPLATES_FOLDER = ".zoea/templates"
"""The folder of a project's templates, beside `zoea.toml`."""

SHIPPED = Path(__file__).parent / "templates"
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
    """Templates by name, read at each use, so that changed files apply at once."""

    def __init__(self, levels: Sequence[Level] = (), trust: Trust | None = None) -> None:
        self._levels = (*levels, Level(Layer.DEFAULT, SHIPPED))
        self._trust = trust

    def names(self) -> tuple[str, ...]:
        """Return all names, sorted."""
        return tuple(sorted({file.stem for level in self._levels for file in _files(level.folder)}))

    def files(self) -> tuple[Path, ...]:
        """Return every file of every level, the project's first."""
        return tuple(file for level in self._levels for file in _files(level.folder))

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
        """Return the project's templates that need trust, as `template NAME: keys`."""
        return tuple(
            f"template {file.stem}: {', '.join(held)}"
            for level in self._levels
            if level.needs_trust
            for file in _files(level.folder)
            if (held := self._held(level, file, read_document(file, Layer.TEMPLATE)))
        )

    def _has(self, name: str, start: int) -> bool:
        return any(file.stem == name for level in self._levels[start:] for file in _files(level.folder))

    def _find(self, name: str, start: int) -> tuple[int, Path]:
        for place, level in enumerate(self._levels[start:], start):
            for file in _files(level.folder):
                if file.stem == name:
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
        document = read_document(file, Layer.TEMPLATE)
        if document.problems:
            raise TemplateInvalid(document.problems)
        if held := self._held(self._levels[place], file, document):
            raise TrustError(
                f"{file} sets {', '.join(held)}, which need trust",
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
        return _extend(base, own)

    def _held(self, level: Level, file: Path, document: Document) -> tuple[str, ...]:
        if not level.needs_trust or (self._trust is not None and self._trust.is_trusted(file, document.raw)):
            return ()
        return find_untrusted_keys(document.tree)


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


def _extend(base: _Resolved, own: _Resolved) -> _Resolved:
    """Merge a template over the one it extends."""
    kept = {key: value for key, value in base.tree.items() if key not in _NOT_INHERITED}
    tree = merge_trees(kept, own.tree)
    if isinstance(prompt := own.tree.get("prompt"), str):
        tree["prompt"] = prompt.replace(PARENT, str(base.tree.get("prompt", "")).strip())
    if "output_schema" in own.tree:
        tree["output_schema"] = own.tree["output_schema"]  # a schema is one value
    return _Resolved(tree, {**base.origins, **own.origins})


def import_template(file: Path, folder: Path) -> Path:
    """Copy a template into a folder as it stands, and return its new path.

    Raises:
        TemplateError: It is invalid, or the folder has a template of its name.
    """
    library = Templates((Level(Layer.USER, file.parent), Level(Layer.USER, folder)))
    document = read_document(file, Layer.USER)
    if not document.raw:
        raise TemplateError(f"{file} cannot be read", hint="Name a JSON file with a contextStrategy.")
    if taken := [one for one in _files(folder) if one.stem == file.stem]:
        raise TemplateError(f"{taken[0]} exists already", hint="Rename one of them.")
    library.get(file.stem)
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / file.name
    made.write_bytes(document.raw)
    return made


def find_upward(start: Path, name: str) -> Iterator[Path]:
    """Yield the files of that name in a directory and its parents, nearest first."""
    for folder in (start, *start.parents):
        if (file := folder / name).is_file():
            yield file


def template_levels(user: Path, project: Path | None) -> tuple[Level, ...]:
    """Return the user's level, preceded by the project's if there is one."""
    mine = Level(Layer.USER, user)
    if project is None:
        return (mine,)
    return (Level(Layer.PROJECT, project / TEMPLATES_FOLDER, needs_trust=True), mine)
