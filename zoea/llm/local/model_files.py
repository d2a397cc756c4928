"""The folder of local models: GGUF files that the embedded provider can serve.

It is `models/` in the data directory, with one `NAME.gguf` for each model. A file that the user added is only
linked: models are gigabytes, and removing one here must never delete the user's file. One that was put into the
folder itself is deleted. Files with another ending are ignored.
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

from msgspec import Struct

from zoea.model.errors import UsageError
from zoea.settings.paths import expand_home, make_private_folder
from zoea.settings.small_file import open_regular

MAGIC = b"GGUF"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_SMALLEST = 24  # magic, version and the two counts that every GGUF header begins with


class LocalModel(Struct, frozen=True):
    """One model of the folder.

    `path` is the file itself, behind the link if `is_link`; `size` in bytes, None if the linked file is missing.
    """

    name: str
    path: Path
    size: int | None
    is_link: bool

    @property
    def is_missing(self) -> bool:
        return self.size is None


class LocalModels:
    """The models in one folder. Every method reads the folder, because other processes write it too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def list(self) -> tuple[LocalModel, ...]:
        """Return all models by name; a model with a missing linked file is included."""
        return tuple(self._model(path) for path in sorted(self.folder.glob("*.gguf")))

    def find(self, name: str) -> LocalModel | None:
        path = self._place(name)
        return self._model(path) if _is_name(name) and (path.is_symlink() or path.exists()) else None

    def get(self, name: str) -> LocalModel:
        """Return the model of that name. Raises UsageError if there is none, or its file is missing."""
        model = self.find(name)
        if model is None:
            raise UsageError(f"no local model is named {name}", hint=self._nearest(name))
        if model.is_missing:
            raise UsageError(
                f"the file of local model {name} is gone: {model.path}",
                hint=f"Put it back, or forget it with: zoea local remove {name}",
            )
        return model

    def add(self, file: Path, name: str = "") -> LocalModel:
        """Link a GGUF file under `name`; empty for the file's own name, cleaned.

        Raises UsageError if it is no GGUF file, or the name is refused or used by another file.
        """
        target = Path(os.path.realpath(expand_home(file)))
        check_gguf(target)
        name = name or name_for(target)
        check_name(name)
        taken = self.find(name)
        if taken is not None and taken.path != target:
            raise UsageError(
                f"a local model is already named {name}",
                hint=f"Choose another with --name, or: zoea local remove {name}",
            )
        self._make_folder()
        scratch = self.folder / f".{name}.{os.getpid()}.link"
        scratch.unlink(missing_ok=True)
        scratch.symlink_to(target)
        scratch.replace(self._place(name))
        return self._model(self._place(name))

    def remove(self, name: str) -> LocalModel:
        """Remove a model: a link goes and its file stays; a file in the folder is deleted."""
        model = self.find(name)
        if model is None:
            raise UsageError(f"no local model is named {name}", hint=self._nearest(name))
        self._place(name).unlink()
        return model

    def _place(self, name: str) -> Path:
        return self.folder / f"{name}.gguf"

    def _make_folder(self) -> None:
        make_private_folder(self.folder)

    def _model(self, path: Path) -> LocalModel:
        is_link = path.is_symlink()
        file = Path(os.path.realpath(path)) if is_link else path
        return LocalModel(path.stem, file, file.stat().st_size if file.is_file() else None, is_link)

    def _nearest(self, name: str) -> str:
        names = [model.name for model in self.list()]
        if not names:
            return "There is none yet: zoea local add FILE.gguf"
        near = difflib.get_close_matches(name, names, n=1)
        return f"Did you mean {near[0]}?" if near else f"There are: {', '.join(names)}"


def check_gguf(file: Path) -> None:
    """Raise UsageError if `file` cannot be read or has no GGUF header."""
    try:
        with open_regular(file) as opened:
            head = opened.read(_SMALLEST)
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read: {error.strerror or error}", hint="Give the path of a .gguf file."
        ) from error
    version = int.from_bytes(head[4:8], "little")
    if len(head) < _SMALLEST or not head.startswith(MAGIC) or not 0 < version < 1 << 16:
        raise UsageError(
            f"{file} is not a GGUF file", hint="llama.cpp's models end in .gguf; other formats must be converted first."
        )


def check_name(name: str) -> None:
    if not _is_name(name):
        raise UsageError(
            f"{name!r} cannot name a local model", hint="Use 1 to 80 letters, digits, dots, dashes and underscores."
        )


def name_for(file: Path) -> str:
    """Return a model name made of a file's: lower case, no ending, dashes for odd characters."""
    return _NOT_IN_NAMES.sub("-", file.name.removesuffix(".gguf")).strip(".-_").lower()[:80] or "model"


def readable_size(size: int | None) -> str:
    """Return bytes in decimal units: `98.4 MB`."""
    if size is None:
        return "missing"
    if size < 1_000_000:
        return f"{size / 1_000:.1f} kB"
    return f"{size / 1_000_000:.1f} MB" if size < 1_000_000_000 else f"{size / 1_000_000_000:.1f} GB"


def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None
