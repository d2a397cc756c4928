"""Find templates on three levels: project, user, shipped; higher levels first.

A template may extend the one of the same name on a lower level, which changes a shipped template
without copying it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import ValidationError

from zoea.model.errors import SettingsError, TemplateError, TrustError
from zoea.settings.document import MOST_KEPT, Document, parse_template_file, read_document
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


class _File(NamedTuple):
    """A template's file, what it holds, and its twin in the other format."""

    path: Path
    raw: bytes
    twin: Path | None


class _Link(Struct, frozen=True):
    """A template's file in a chain of templates that extend each other.

    Attributes:
        held: What it says without effect until it is trusted.
        rights: The keys by which it says more than texts; a shipped one has none.
    """

    place: int
    file: Path
    document: Document
    is_untrusted: bool
    held: tuple[str, ...]
    rights: tuple[str, ...]

    @property
    def parent(self) -> object:
        return self.document.tree.get("extends")


class Templates:
    """Templates by name, read at each use, so that changed files apply at once.

    A project's template that is not trusted hides no other of its name. It can be used by its own name, where it says
    nothing but texts, and neither extends nor is extended by one that says more and is not shipped.
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
        return self._reader().find(name, 0)[1]

    def is_for_world(self, name: str) -> bool:
        """Return whether a template is shipped for the sandbox world only."""
        try:
            files = [link.file for link in self._reader().read_chain(name)]
        except SettingsError:
            return False  # its error is shown where it is listed
        return files[0].parent == SHIPPED and SHIPPED / "reef.toml" in files

    def get(self, name: str) -> Template:
        """Return the template merged with those it extends.

        Raises:
            TemplateError: It is missing or invalid.
            TrustError: It belongs to a project and needs trust.
        """
        chain = self._reader().read_chain(name)
        level = self._levels[chain[0].place]
        folder = level.folder.resolve() if level.layer is Layer.PROJECT else None
        files = tuple([_File(link.file, link.document.raw, _find_twin(link.file)) for link in chain])
        is_kept = sum(len(file.raw) for file in files) <= MOST_KEPT
        return (_build_template if is_kept else _build_template.__wrapped__)(files, folder)

    def problems(self) -> list[Problem]:
        """Return the problems of all templates, for `zoea config check`."""
        own_problems: list[Problem] = []
        for name in self.names():
            try:
                self.get(name)
            except SettingsInvalid as error:
                own_problems += [one for one in error.problems if one not in own_problems]
            except TrustError:
                continue  # valid but untrusted; `load` reports it
            except TemplateError as error:
                own_problems.append(
                    Problem(f"template {name}", error.what, Origin(Layer.TEMPLATE, str(self.file(name))))
                )
        return own_problems

    def untrusted(self) -> tuple[str, ...]:
        """Return the project's templates that need trust, as `template NAME: reasons`."""
        needs: dict[Path, tuple[str, ...]] = {}
        for link, mixture in self._find_untrusted():
            if reasons := tuple(filter(None, (mixture, *link.held))):
                needs[link.file] = max(needs.get(link.file, ()), reasons, key=len)
        return tuple(f"template {file.stem}: {', '.join(needs[file])}" for file in sorted(needs))

    def find_mixture(self, file: Path) -> str:
        """Return how an untrusted template reaches one that needs trust, or ""."""
        return next((mixture for link, mixture in self._find_untrusted() if mixture and link.file == file), "")

    def ignored(self) -> tuple[str, ...]:
        """Return the files of a project that are left out, each with the reason."""
        keys: list[str] = []
        for level in self._levels:
            files = _files(level.folder) if level.needs_trust else []
            if len(files) > MOST_TEMPLATES:
                keys.append(f"{level.folder} has {len(files):,} templates: those after {MOST_TEMPLATES} have no effect")
            keys += [f"{file} has no effect: {why}" for file in files if (why := explain_distrust(file))]
        return tuple(keys)

    def _find_untrusted(self) -> Iterator[tuple[_Link, str]]:
        """Yield the untrusted templates of each chain, each with its mixture."""
        reader = self._reader(is_whole=False)
        for place, level in enumerate(self._levels):
            for file in reader.list_files(place) if level.layer is not Layer.DEFAULT else ():
                chain = reader.follow(place, file)
                yield from ((link, _find_mixture(link, chain)) for link in chain if link.is_untrusted)

    def _reader(self, *, is_whole: bool = True) -> _Reader:
        return _Reader(self._levels, self._trust, is_whole=is_whole)


class _Reader:
    """Reads each folder and file once, for one answer. Without `is_whole` no values of files are kept."""

    def __init__(self, levels: Sequence[Level], trust: Trust | None, *, is_whole: bool) -> None:
        self._levels = levels
        self._trust = trust
        self._is_whole = is_whole
        self._folders: dict[int, dict[str, list[Path]]] = {}
        self._links: dict[Path, _Link] = {}

    def list_files(self, place: int) -> list[Path]:
        """Return the templates of a level, without those that `Templates.ignored` lists."""
        return [file for files in self._list_by_name(place).values() for file in files]

    def find(self, name: str, start: int) -> tuple[int, Path]:
        """Return the level and file of a template, from the level `start` on. Raises TemplateError."""
        if (spot := self._locate(name, start)) is not None:
            return spot
        raise self._build_missing(name)

    def read_chain(self, name: str) -> list[_Link]:
        """Return a template and those that it extends, each before the one that it extends.

        Raises:
            TemplateError: One is missing or cannot be read.
            TrustError: One needs trust.
        """
        chain = self.follow(*self.find(name, 0))
        for place, link in enumerate(chain):
            above, file = [one.file for one in chain[:place]], link.file
            if file in above:
                loop = " -> ".join(one.stem for one in (*above[above.index(file) :], file))
                raise TemplateError(
                    f"{file}: templates extend each other in a loop: {loop}", hint="Remove one `extends` of the loop."
                )
            if len(above) >= MOST_EXTENDED:
                raise TemplateError(
                    f"{above[0]}: more than {MOST_EXTENDED} templates extend each other", hint="Join some of them."
                )
            if link.document.problems:
                raise TemplateInvalid(link.document.problems)
            if link.is_untrusted and (reasons := tuple(filter(None, (_find_mixture(link, chain), *link.held)))):
                raise TrustError(
                    f"{file} needs trust: {', '.join(reasons)}", hint=f"Read the file, then run `zoea trust {file}`."
                )
            if link.parent is not None and not isinstance(link.parent, str):
                line = link.document.lines.get(("extends",), 0)
                raise TemplateInvalid([Problem("extends", "expected a name", Origin(Layer.TEMPLATE, str(file), line))])
        if (parent := chain[-1].parent) is None:
            return chain
        if parent == file.stem:
            raise TemplateError(
                f"{file} extends {parent!r}, its own name, but there is no template {parent!r} below it",
                hint="Name another template, or remove `extends`.",
            )
        raise self._build_missing(str(parent))

    def follow(self, place: int, file: Path) -> list[_Link]:
        """Return a template and the existing ones that it extends, at most `MOST_EXTENDED`."""
        chain = [self._read(place, file)]
        while isinstance(parent := chain[-1].parent, str) and len(chain) <= MOST_EXTENDED:
            spot = self._locate(parent, chain[-1].place + 1 if parent == chain[-1].file.stem else 0)
            if spot is None:
                break
            chain.append(self._read(*spot))
        return chain

    def _locate(self, name: str, start: int) -> tuple[int, Path] | None:
        for place in range(start, len(self._levels)):
            for file in self._list_by_name(place).get(name, ()):
                is_other_hidden = self._levels[place].needs_trust and self._has(name, place + 1)
                if not (is_other_hidden and self._read(place, file).held):
                    return place, file
        return None

    def _build_missing(self, name: str) -> TemplateError:
        names = sorted({stem for place in range(len(self._levels)) for stem in self._list_by_name(place)})
        close = find_nearest(name, names)
        return TemplateError(
            f"there is no template {name!r}" + (f"; did you mean {close}?" if close else ""),
            hint=f"There are: {', '.join(names)}.",
            title="No such template",
        )

    def _has(self, name: str, start: int) -> bool:
        return any(name in self._list_by_name(place) for place in range(start, len(self._levels)))

    def _list_by_name(self, place: int) -> dict[str, list[Path]]:
        if place not in self._folders:
            folder = self._folders[place] = {}
            for file in _usable_files(self._levels[place]):
                folder.setdefault(file.stem, []).append(file)
        return self._folders[place]

    def _read(self, place: int, file: Path) -> _Link:
        if file not in self._links:
            level, document = self._levels[place], read_document(file, Layer.TEMPLATE)
            is_trusted = not level.needs_trust or bool(self._trust and self._trust.is_trusted(file, document.raw))
            is_replacement = not is_trusted and self._has(file.stem, place + 1)
            rights: tuple[str, ...] = ()
            if level.layer is not Layer.DEFAULT:
                rights = tuple(map(format_key, find_untrusted_keys(document.tree, is_replacement=is_replacement)))
            held = () if is_trusted else rights
            if is_replacement:
                held = (f"takes the place of another {file.stem}", *held)
            if not self._is_whole:
                document = Document({"extends": document.tree.get("extends")}, problems=document.problems)
            self._links[file] = _Link(place, file, document, not is_trusted, held, rights)
        return self._links[file]


def _find_mixture(link: _Link, chain: Sequence[_Link]) -> str:
    """Return how a template reaches one that needs trust through its chain, or ""."""
    place = chain.index(link)
    below, above = chain[place + 1 :], chain[:place]
    for other, how in [*((one, "extends") for one in below), *((one, "is extended by") for one in above)]:
        if other.rights:
            more = f" and {len(other.rights) - 1:,} more" if len(other.rights) > 1 else ""
            return f"{how} {other.file.stem}, which sets {other.rights[0]}{more}"
    return ""


def find_untrusted_keys(tree: Mapping[str, Any], *, is_replacement: bool) -> list[KeyPath]:
    """Return the keys of a project's template that need trust. One that replaces another needs it for all."""
    tree, _ = use_snake_case(tree, {})
    inert, held = split_keys(Template, {key: value for key, value in tree.items() if key != "extends"})
    return [*inert, *held] if is_replacement else held


def _usable_files(level: Level) -> list[Path]:
    """Return the templates of a level, without those that `Templates.ignored` lists."""
    files = _files(level.folder)[: MOST_TEMPLATES if level.needs_trust else None]
    return [file for file in files if not (level.needs_trust and explain_distrust(file))]


def _files(folder: Path) -> list[Path]:
    """Return the templates of a folder. Where two formats have the same name, the TOML file comes first.

    Files with a dot before their name are locks and copies of editors. What is no file is reported when it is read.
    """
    files = (file for suffix in (".toml", ".json") for file in folder.glob(f"[!.]*{suffix}"))
    return sorted(files, key=lambda file: (file.stem, file.suffix != ".toml"))


def _find_twin(file: Path) -> Path | None:
    """Return the file of the same name in the other format, if there is one."""
    other = file.with_suffix(".json" if file.suffix == ".toml" else ".toml")
    return other if other.is_file() else None


@lru_cache(32)
def _build_template(files: Sequence[_File], folder: Path | None) -> Template:
    """Merge each file's template over the one that it extends. Raises TemplateInvalid.

    Kept by what the files hold, because each new mysis asks for its template.
    """
    own = [_read_own(file) for file in files]
    merged = own[-1]
    for file, values in zip(files[-2::-1], own[-2::-1], strict=True):
        merged = _extend(merged, values, file.path)
    try:
        template = Template.model_validate(merged.tree)
    except ValidationError:
        raise TemplateInvalid(find_problems(Template, merged.tree, merged.origins)) from None
    return template if folder is None else template.of_folder(folder)


def _read_own(own: _File) -> _Resolved:
    """Return the part of one file, validated alone so that errors name its lines."""
    file, document = own.path, parse_template_file(own.path, own.raw)
    tree, lines = use_snake_case(document.tree, document.lines)
    origins = {path: Origin(Layer.TEMPLATE, str(file), line) for path, line in lines.items()}
    tree.pop("extends", None)
    named = tree.setdefault("name", file.stem)
    problems = find_problems(Template, tree, {(): Origin(Layer.TEMPLATE, str(file)), **origins}, partial=True)
    if not problems and named != file.stem:
        problems = [Problem("name", f"{named!r} is not the name of its file", origins[("name",)])]
    if not problems and own.twin is not None:
        place = Origin(Layer.TEMPLATE, str(file))
        problems = [Problem("", f"has the same name as {own.twin.name}; rename one", place)]
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
    """The file of an imported template, and a sentence for each part left out."""

    file: Path
    notes: tuple[str, ...] = ()


def import_template(file: Path, folder: Path) -> tuple[ImportedTemplate, ...]:
    """Copy a template into a folder unchanged; agents of Zeroshot become a template each.

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
    return tuple([ImportedTemplate(folder / name, note) for name, note in zip(texts, notes, strict=True)])


def template_levels(user: Path, project: Path | None) -> tuple[Level, ...]:
    """Return the levels of the project's folder, if any, and of the user's."""
    mine = Level(Layer.USER, user)
    return (mine,) if project is None else (Level(Layer.PROJECT, project, needs_trust=True), mine)
