"""`zoea trust`: show what a project's files set, and record the person's consent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from time import localtime, strftime
from typing import Any

from zoea.cli import output
from zoea.cli.output import Output
from zoea.model.errors import UsageError
from zoea.process.command_line import argument, flag
from zoea.settings.document import read_document
from zoea.settings.inert_keys import keep_inert
from zoea.settings.key_paths import KeyPath, Layer, SettingsInvalid, format_key, get_value
from zoea.settings.layers import find_project_problems
from zoea.settings.paths import Places, is_file, is_folder, places
from zoea.settings.project_files import PROJECT_FILE, explain_distrust, find_project
from zoea.settings.settings_display import escape_unprintable, format_toml
from zoea.settings.small_file import read_small_file
from zoea.settings.template_library import Templates, find_untrusted_keys, template_levels
from zoea.settings.trust import Trust


def trust(
    path: Path | None = argument(
        "PATH", "A project's directory or one file; the nearest zoea.toml if not given.", None, Path
    ),
    revoke: bool = flag("--revoke", "Revoke the trust."),
    listed: bool = flag("--list", "List the trusted files."),
    yes: bool = flag("-y, --yes", "Do not ask."),
) -> Output | Iterator[str]:
    """Allow a project's zoea.toml and templates to take effect, until they change.

    Without trust they change the looks of the cockpit, and the seed and size of a new sandbox world, and nothing else.
    """
    where = places(configured=False)
    record = Trust(where.trusted)
    if output.is_json and not listed:
        raise UsageError("--json works only with --list", hint="Leave out --json: a person must read what is trusted.")
    if listed:
        return _list(record)
    return _revoke(record, _meant(path)) if revoke else _trust_all(where, _meant(path), yes)


def _revoke(record: Trust, files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        was = record.revoke(file)
        yield f"{escape_unprintable(str(file))}: {'trusted no longer' if was else 'was not trusted'}"


def _trust_all(where: Places, files: Iterable[Path], yes: bool) -> Iterator[str]:
    for file in files:
        yield from _trust(where, file, yes)


def _meant(path: Path | None) -> list[Path]:
    """Return the named file, or the project's file and its templates."""
    if path is not None and not is_folder(path):
        return [path.absolute()]
    folder = (path or Path.cwd()).absolute()
    project = find_project(folder)
    files = [project.file] if project.file else []
    if project.templates is not None:
        files += [file for suffix in ("toml", "json") for file in sorted(project.templates.glob(f"[!.]*.{suffix}"))]
    files = [file for file in files if path is None or file.is_relative_to(folder)]
    if not files:
        ignored = [line for line in project.ignored if line.startswith(f"{folder}/")]
        why = "; ".join(ignored) or f"there is no {PROJECT_FILE} and no template in {folder}"
        raise UsageError(why, hint="Name the project's directory or file.")
    return files


def _trust(where: Places, file: Path, yes: bool) -> Iterator[str]:
    """Show what a file sets, ask, and record the trust in exactly the bytes shown."""
    record = Trust(where.trusted)
    if not is_file(file):
        raise UsageError(f"there is no file {file}")
    if why := explain_distrust(file):
        hint = "It counts only if it and its folder belong to you or to root, and no one else can write them."
        raise UsageError(f"{file} cannot be trusted: {why}", hint=hint)
    is_project = file.name == PROJECT_FILE
    document = read_document(file, Layer.PROJECT if is_project else Layer.TEMPLATE)
    if document.problems:
        raise SettingsInvalid(document.problems)
    if record.is_trusted(file, document.raw):
        yield f"{escape_unprintable(str(file))}: trusted already, unchanged"
        return
    if is_project and (wrong := find_project_problems(file, document)):
        hint = "Trusted, it would stop every command in its folder: correct these lines first."
        raise SettingsInvalid(wrong, hint=hint, title=f"{escape_unprintable(str(file))} cannot be trusted")
    tree, shown = document.tree, escape_unprintable(str(file))
    why, held = ("", keep_inert(tree)[1]) if is_project else _find_held(where, record, file, tree)
    if not held:
        yield f"{shown}: holds nothing that needs trust"
        return
    yield f"{shown} {escape_unprintable(why) or 'wants'}:"
    for line in _describe(held, tree):
        yield f"  {line}"
    if not yes and not output.is_typed():
        raise UsageError(
            "not trusted: stdin is not a terminal, so the question cannot be asked",
            hint="Read the lines above, then add --yes.",
        )
    if not yes and not output.confirm("Trust exactly this?"):
        yield "Not trusted."
        return
    record.add(file, document.raw)
    yield f"{escape_unprintable(str(file))}: trusted until it changes"


def _find_held(where: Places, record: Trust, file: Path, tree: Mapping[str, Any]) -> tuple[str, list[KeyPath]]:
    """Return what besides its keys makes a template need trust, and the keys to show."""
    if file.stem in Templates(template_levels(where.templates, None)).names():
        return "takes the place of another template of its name", find_untrusted_keys(tree, is_replacement=True)
    mixture = Templates(template_levels(where.templates, file.parent), record).find_mixture(file)
    held = find_untrusted_keys(tree, is_replacement=bool(mixture))
    return mixture, [("extends",), *held] if mixture and "extends" in tree else held


def _describe(held: Iterable[KeyPath], tree: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line per key that needs trust, with its whole value.

    Nothing is cut, and nothing hidden as a secret, because a folder could hide what it runs behind such a name.
    """
    for path in held:
        value, key = get_value(tree, path), format_key(path)
        inner = value.items() if isinstance(value, Mapping) else ()
        for name, one in [(f"{key}.{_format_name(name)}", item) for name, item in inner] or [(key, value)]:
            yield f"{escape_unprintable(name)} = {format_toml(one)}"


def _format_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _list(record: Trust) -> Output:
    rows = [(trusted, _holds(record, trusted.file)) for trusted in record.files()]
    return Output(
        [
            {"file": str(one.file), "hash": one.digest, "trusted_at": one.at * 1_000_000, "holds": holds}
            for one, holds in rows
        ],
        [
            f"{strftime('%Y-%m-%d %H:%M', localtime(one.at))}  {one.digest[:12]}  {escape_unprintable(str(one.file))}"
            f"{'' if holds else '  (changed)'}"
            for one, holds in rows
        ],
    )


def _holds(record: Trust, file: Path) -> bool:
    """Return whether the file is unchanged since it was trusted. False if it cannot be read."""
    try:
        return record.is_trusted(file, read_small_file(file))
    except OSError:
        return False
