"""Opens files below one folder. No path and no link, even one that changes, leads out of it.

Each part of a path is opened by `openat` without following links. A link is read and its target followed in the same
way, from the open folders, so nothing is checked first and used later.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from zoea.files.git import Git
from zoea.files.work_left import DRAFT
from zoea.model.errors import FilesError, GitError, UsageError
from zoea.text.control_characters import reveal_exactly

MOST_PATH = 4_096
_MOST_LINKS = 40
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LINKS = {errno.ELOOP, errno.ENOTDIR, errno.EMLINK}
_IGNORED_BY_HFS = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))


class SafeFolder:
    """One folder. Its paths are relative, or absolute and below it.

    Args:
        closed: Folders that are not entered, and files that are not read, in it or by another name.

    Raises:
        FilesError: It cannot be opened.
    """

    def __init__(self, path: Path, closed: Sequence[Path] = ()) -> None:
        self.path = Path(os.path.realpath(path))
        self.closed = tuple(Path(os.path.realpath(folder)) for folder in closed)
        try:
            self._root = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise FilesError(f"{path} cannot be opened: {error.strerror}", hint="Name a folder.") from error

    def close(self) -> None:
        os.close(self._root)

    def split(self, path: str) -> list[str]:
        """Return the parts of a path. Raises FilesError if it leads out of the folder or is invalid."""
        shown = reveal_exactly(path[:200])
        if not _is_path(path):
            raise FilesError(f"{shown!r} is no path", hint="Give a path in the folder.")
        if path.startswith("/"):
            prefix = f"{self.path}/"
            if not f"{path}/".startswith(prefix):
                raise FilesError(f"{shown} is outside the folder", hint="Give a path relative to the folder.")
            path = path.removeprefix(str(self.path))
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise FilesError(f"{shown} leads upward", hint="Give a path relative to the folder, without `..`.")
        return parts

    @contextmanager
    def open_parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the parent folder of a path, with links followed. Yield its descriptor and the file's name.

        Args:
            make: Make the folders that are missing.

        Raises:
            FilesError: It leads out of the folder, into `.git`, or nowhere.
        """
        waiting = self.split(path)[::-1]
        shown = reveal_exactly(path[:200])
        opened = [os.dup(self._root)]
        name, links = "", 0
        try:
            while waiting:
                name = waiting.pop()
                if name == "..":
                    if len(opened) == 1:
                        raise FilesError(f"{shown} is a link out of the folder", hint="It was not followed.")
                    os.close(opened.pop())
                    name = ""
                    continue
                if is_git(name):
                    raise FilesError(f"{shown} is git's own", hint="The files of git are not shown or changed.")
                if (target := _read_link(name, opened[-1])) is not None:
                    links += 1
                    if links > _MOST_LINKS:
                        raise FilesError(f"{shown} has too many links")
                    waiting += self._follow(target, opened, shown)[::-1]
                    name = ""
                elif waiting:
                    opened.append(_enter(name, opened[-1], make))
                    self._check_open(opened[-1], shown)
                    name = ""
            yield opened[-1], name
        except OSError as error:
            raise _refusal(shown, error) from error
        finally:
            for handle in opened:
                os.close(handle)

    def _check_open(self, handle: int, shown: str) -> None:
        status = os.fstat(handle)
        for folder in self.closed:
            with suppress(OSError):  # it is not made yet
                if os.path.samestat(status, folder.stat()):
                    raise FilesError(f"{shown} is Zoea's own, or hidden by a fence", hint="It is not shown or changed.")

    def _follow(self, target: str, opened: list[int], shown: str) -> list[str]:
        """Return the parts of a link's target. An absolute target must be below the folder."""
        if not target.startswith("/"):
            return [part for part in target.split("/") if part not in ("", ".")]
        if not f"{target}/".startswith(f"{self.path}/"):
            raise FilesError(f"{shown} is a link out of the folder", hint="It was not followed.")
        while len(opened) > 1:
            os.close(opened.pop())
        return [part for part in target.removeprefix(str(self.path)).split("/") if part not in ("", ".")]

    def read(self, path: str, most: int) -> bytes | None:
        """Return the content of a file, None where there is none. Raises FilesError above `most` bytes."""
        shown = reveal_exactly(path[:200])
        try:
            with self.open_parent(path) as (folder, name), _open_regular(name or ".", folder, shown) as stream:
                self._check_open(stream.fileno(), shown)
                size = os.fstat(stream.fileno()).st_size
                if size > most:
                    raise FilesError(f"{shown} has {size:,} bytes", hint=f"At most {most:,}.")
                return stream.read(most)
        except FilesError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    def write(self, path: str, content: bytes, expected: bytes | None) -> None:
        """Replace a file atomically. Missing folders are made.

        Args:
            expected: What it holds now; None where there is none. Something else is not overwritten.

        Raises:
            FilesError: It was changed in between, is no plain file, or cannot be written.
        """
        shown = reveal_exactly(path[:200])
        parts = self.split(path)
        if (
            not parts
            or DRAFT.fullmatch(parts[-1])
            or any(ord(char) < 32 or ord(char) == 127 for char in "".join(parts))
        ):
            raise FilesError(f"{shown} is no name for a file")
        with self.open_parent(path, make=True) as (folder, name):
            if not name:
                raise FilesError(f"{shown} is a folder")
            _remove_stale(folder)
            draft = f".zoea-{token_hex(8)}.tmp"
            handle = os.open(
                draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder
            )
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                view = memoryview(content)
                while view:
                    view = view[os.write(handle, view) :]
                if expected is not None:
                    os.fchmod(handle, stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode))
                os.fsync(handle)
                if _read_now(name, folder, len(expected or b"") + 1) != expected:
                    raise FilesError(f"{shown} was changed at this moment", hint="Read it again.")
                if expected is not None or not _link(draft, name, folder):
                    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=folder)
                raise
            finally:
                os.close(handle)
            os.fsync(folder)


def _link(draft: str, name: str, folder: int) -> bool:
    """Link a new file to its name, unless the name is taken. Return False without hard links."""
    try:
        os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        return False
    os.unlink(draft, dir_fd=folder)
    return True


def check_folder(folder: Path, own: Sequence[Path], trees: Path) -> None:
    """Raise UsageError for a folder of Zoea or of git.

    Args:
        own: The folders of Zoea.
        trees: The one of them that holds the worktrees, which are allowed.
    """
    real = Path(os.path.realpath(folder))
    is_tree = Path(os.path.realpath(trees)) in real.parents
    if not is_tree and any(real.is_relative_to(os.path.realpath(one)) for one in own):
        raise UsageError(f"{folder} is a folder of Zoea itself", hint="Name a folder of your own.")
    is_inside = any(is_git(part) for part in real.parts)
    with suppress(GitError):  # without git there is no such folder
        is_inside = is_inside or Git(real).run("rev-parse", "--is-inside-git-dir", accept=(0, 128)).text == "true"
    if is_inside:
        raise UsageError(
            f"{folder} is a bare repository, or git's own folder", hint="Name a checkout: the folder with your files."
        )


def is_git(name: str) -> bool:
    """Return whether some file systems read a name as `.git`."""
    plain = name.translate(_IGNORED_BY_HFS).casefold().split(":")[0].rstrip(". ")
    return plain in (".git", "git~1")


def _read_link(name: str, folder: int) -> str | None:
    """Return the target of a link. None for anything else."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _enter(name: str, folder: int, make: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
    return os.open(name, _FOLDER, dir_fd=folder)


@contextmanager
def _open_regular(name: str, folder: int, shown: str) -> Iterator[BinaryIO]:
    """Open a file to read. Raises OSError, and FilesError if it is not a regular file."""
    handle = os.open(name, _READ, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise FilesError(f"{shown} is no file", hint="list_files shows what is there.")
        with os.fdopen(handle, "rb", closefd=False) as stream:
            yield stream
    finally:
        os.close(handle)


def _read_now(name: str, folder: int, most: int) -> bytes | None:
    try:
        with _open_regular(name, folder, name) as stream:
            return stream.read(most)
    except FileNotFoundError:
        return None


def _remove_stale(folder: int) -> None:
    """Remove the temporary files of a killed writer. Its lock ended with it."""
    for entry in os.listdir(folder):
        if not DRAFT.fullmatch(entry):
            continue
        with suppress(OSError):
            handle = os.open(entry, _READ, dir_fd=folder)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(entry, dir_fd=folder)
            finally:
                os.close(handle)


def _refusal(shown: str, error: OSError) -> FilesError:
    if error.errno in _LINKS:
        return FilesError(f"{shown} was a link at this moment, or a part of it is no folder", hint="Try again.")
    return FilesError(f"{shown}: {error.strerror or error}", hint="list_files shows what is there.")


def _is_path(path: str) -> bool:
    """Return whether the system can take a text as a path."""
    try:
        return "\0" not in path and len(os.fsencode(path)) <= MOST_PATH
    except UnicodeEncodeError:
        return False
