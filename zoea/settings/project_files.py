"""Finds the files of a project, unless another user can write them.

Every command looks for them first, so this stays cheap: rarely needed modules are imported where they are used.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROJECT_FILE = "zoea.toml"
TEMPLATES_FOLDER = ".zoea/templates"
"""The folder of a project's templates, beside `zoea.toml`."""


class Project(NamedTuple):
    """The files of the nearest project.

    Attributes:
        file: Its `zoea.toml`, if there is one.
        templates: The folder of its templates, if there is one.
        ignored: What was left out, each with the reason.
    """

    file: Path | None = None
    templates: Path | None = None
    ignored: tuple[str, ...] = ()


def find_project(start: Path) -> Project:
    """Find the nearest `zoea.toml` upward and the templates beside it, else the nearest templates.

    What others can write is left out, and the search goes on above it.
    """
    start, ignored = start.absolute(), list[str]()
    file = _find_usable(start, PROJECT_FILE, ignored)
    templates = _find_usable(file.parent, TEMPLATES_FOLDER, ignored, is_above=False) if file else None
    if file is None:
        templates = _find_usable(start, TEMPLATES_FOLDER, ignored)
    return Project(file, templates, tuple(ignored))


def _find_usable(start: Path, name: str, ignored: list[str], *, is_above: bool = True) -> Path | None:
    """Return the nearest path of that name that counts; note those that do not."""
    is_wanted = Path.is_file if name == PROJECT_FILE else Path.is_dir
    for folder in (start, *start.parents) if is_above else (start,):
        path = folder / name
        try:
            if not is_wanted(path):
                continue
        except OSError:  # a folder that the person may not enter
            continue
        if why := explain_distrust(path, folder):
            ignored.append(f"{path} has no effect: {why}")
        else:
            return path
    return None


def explain_distrust(path: Path, top: Path | None = None) -> str:
    """Return why a file or folder of a project does not count, or "".

    It counts if it, the place that links lead to and the folders up to `top` belong to the person or to root, and if no
    one else can write them.
    """
    top = top or path.parent
    real = Path(os.path.realpath(path))
    for one in (*_up_to(path, top), real, real.parent):
        try:
            status = one.stat()
        except OSError as error:
            return f"{one} cannot be read: {error.strerror}"
        if status.st_uid not in (os.getuid(), 0):
            return f"{one} belongs to {_name_user(status.st_uid)}"
        if _can_others_write(one, status):
            return f"other users can write {one}"
    return ""


def _up_to(path: Path, top: Path) -> Iterator[Path]:
    yield path
    while path not in (top, path.parent):
        path = path.parent
        yield path


def _can_others_write(path: Path, status: os.stat_result) -> bool:
    """Return whether the mode lets others write. The group that only the person belongs to is no other."""
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_private_group(path, status.st_gid)


def _is_private_group(path: Path, group: int) -> bool:
    """Return whether a group holds the person alone. Many systems make one for each user."""
    import grp
    import pwd

    try:
        person, found = pwd.getpwuid(os.getuid()), grp.getgrgid(group)
    except KeyError:
        return False
    is_own = person.pw_gid == group and found.gr_name == person.pw_name and {*found.gr_mem} <= {person.pw_name}
    return is_own and not _has_access_list(path)


def _has_access_list(path: Path) -> bool:
    """Return whether an access list may let others write. The bits of the group hide it."""
    try:
        return "system.posix_acl_access" in os.listxattr(path)
    except (OSError, AttributeError):  # a system or file system without such lists
        return False


def _name_user(user: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
