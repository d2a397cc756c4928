"""The templates there are: the project's, the person's, the shipped ones, each over the next.

A template of one level may extend the one of its own name a level below; that is how
a shipped template is changed without copying it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoea.model.errors import TemplateError, TrustError
from zoea.settings.document import Document, read_document
from zoea.settings.key_paths import KeyPath, Layer, Origin, Problem, SettingsInvalid, find_nearest, merge_trees
from zoea.settings.problems import find_problems
from zoea.settings.template import PARENT, Template
from zoea.settings.trust import Trust, find_untrusted_keys

TEMPLATES_FOLDER = ".zoea/templates"
"""Where a project keeps its own, beside `zoea.toml` if it has one."""

SHIPPED = Path(__file__).parent / "templates"
_OWN = frozenset({"name", "title"})
"""What a template never has from the one it extends."""


class TemplateInvalid(SettingsInvalid, TemplateError):
    """A template's problems, all of them."""

    title = TemplateError.title


@dataclass(frozen=True, slots=True)
class Level:
    """One directory of templates."""

    layer: Layer
    folder: Path
    needs_trust: bool = False


@dataclass(frozen=True, slots=True)
class _Resolved:
    """A template's merged table, and where each key came from."""

    tree: dict[str, Any]
    origins: dict[KeyPath, Origin] = field(default_factory=dict)


class Templates:
    """Templates by name. Files are read when asked for, so a changed file counts for the next mysis."""

    def __init__(self, levels: Sequence[Level] = (), trust: Trust | None = None) -> None:
        self._levels = (*levels, Level(Layer.DEFAULT, SHIPPED))
        self._trust = trust

    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted({file.stem for level in self._levels for file in _files(level.folder)}))

    def files(self) -> tuple[Path, ...]:
        """Every file of every level, the project's first."""
        return tuple(file for level in self._levels for file in _files(level.folder))

    def file(self, name: str) -> Path:
        """The file that a name means. Raises TemplateError where there is none."""
        return self._find(name, 0)[1]

    def get(self, name: str) -> Template:
        """The template, with all it extends. Raises TemplateError, or TrustError for a project's."""
        resolved = self._resolve(name, 0, ())
        problems = find_problems(Template, resolved.tree, resolved.origins)
        if problems:
            raise TemplateInvalid(problems)
        return Template.model_validate(resolved.tree)

    def problems(self) -> list[Problem]:
        """What is wrong with any of them, for `zoea config check`."""
        found: list[Problem] = []
        for name in self.names():
            try:
                self.get(name)
            except SettingsInvalid as error:
                found += [one for one in error.problems if one not in found]
            except TrustError:
                continue  # not wrong, only not trusted yet; `load` reports those
            except TemplateError as error:
                found.append(Problem(f"template {name}", error.what, Origin(Layer.TEMPLATE, str(self.file(name)))))
        return found

    def untrusted(self) -> tuple[str, ...]:
        """The project's templates that wait for trust, as `template NAME: keys`."""
        return tuple(
            f"template {file.stem}: {', '.join(held)}"
            for level in self._levels
            if level.needs_trust
            for file in _files(level.folder)
            if (held := self._held(level, file, read_document(file, Layer.TEMPLATE)))
        )

    def _find(self, name: str, start: int) -> tuple[int, Path]:
        for place, level in enumerate(self._levels[start:], start):
            file = level.folder / f"{name}.toml"
            if file in _files(level.folder):
                return place, file
        known = self.names()
        close = find_nearest(name, known)
        raise TemplateError(
            f"there is no template {name!r}" + (f"; did you mean {close}?" if close else ""),
            hint=f"There are: {', '.join(known)}.",
        )

    def _resolve(self, name: str, start: int, above: tuple[Path, ...]) -> _Resolved:
        place, file = self._find(name, start)
        if file in above:
            chain = " -> ".join(one.stem for one in (*above[above.index(file) :], file))
            raise TemplateError(f"{file}: templates extend each other in a circle: {chain}", hint="Break the circle.")
        document = read_document(file, Layer.TEMPLATE)
        if document.problems:
            raise TemplateInvalid(document.problems)
        self._check_trust(self._levels[place], file, document)
        own = _own_part(file, document)
        parent = document.tree.get("extends")
        if parent is None:
            return own
        if not isinstance(parent, str):
            line = document.lines.get(("extends",), 0)
            raise TemplateInvalid(
                [Problem("extends", "a name is wanted here", Origin(Layer.TEMPLATE, str(file), line))]
            )
        base = self._resolve(parent, place + 1 if parent == file.stem else 0, (*above, file))
        return _over(base, own)

    def _check_trust(self, level: Level, file: Path, document: Document) -> None:
        if held := self._held(level, file, document):
            raise TrustError(
                f"{file} sets {', '.join(held)}, which needs your trust",
                hint=f"Read the file, then run `zoea trust {file}`.",
            )

    def _held(self, level: Level, file: Path, document: Document) -> tuple[str, ...]:
        if not level.needs_trust or (self._trust is not None and self._trust.holds(file, document.raw)):
            return ()
        return find_untrusted_keys(document.tree)


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob("*.toml") if file.is_file())


def _own_part(file: Path, document: Document) -> _Resolved:
    """What one file says, checked by itself so that its errors name its lines."""
    origins = {path: Origin(Layer.TEMPLATE, str(file), line) for path, line in document.lines.items()}
    tree = {key: value for key, value in document.tree.items() if key != "extends"}
    named = tree.setdefault("name", file.stem)
    problems = find_problems(Template, tree, {(): Origin(Layer.TEMPLATE, str(file)), **origins}, partial=True)
    if not problems and named != file.stem:
        problems = [Problem("name", f"{named!r} is not the name of its file", origins[("name",)])]
    if problems:
        raise TemplateInvalid(problems)
    return _Resolved(tree, origins)


def _over(base: _Resolved, own: _Resolved) -> _Resolved:
    """A template over the one it extends."""
    kept = {key: value for key, value in base.tree.items() if key not in _OWN}
    tree = merge_trees(kept, own.tree)
    if isinstance(prompt := own.tree.get("prompt"), str):
        tree["prompt"] = prompt.replace(PARENT, str(base.tree.get("prompt", "")).strip())
    return _Resolved(tree, {**base.origins, **own.origins})


def walk_up(start: Path, name: str) -> Iterator[Path]:
    """The file of that name in a directory and all above it, nearest first."""
    for folder in (start, *start.parents):
        if (file := folder / name).is_file():
            yield file


def template_levels(user: Path, project: Path | None) -> tuple[Level, ...]:
    """The person's level, and over it the project's where there is one."""
    mine = Level(Layer.USER, user)
    if project is None:
        return (mine,)
    return (Level(Layer.PROJECT, project / TEMPLATES_FOLDER, needs_trust=True), mine)
