"""The directories and files of a workspace: data, configuration, socket.

Every command imports this first, so it must stay cheap: `Places` is a NamedTuple (`dataclasses`
takes 10 ms to import), and rarely needed modules are imported where they are used.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from zoea.settings.project_files import find_project

DEFAULT_WORKSPACE = "default"
USER_FILE = "config.toml"
TRUST_RECORD = "trusted.json"

SOCKET_PATH_LIMIT = 107
"""The longest path of a Unix socket in bytes, without the closing NUL."""

_SOCKET_NAME_BYTES = len("/") + 16 + len(".sock")
_WORKSPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")


class Places(NamedTuple):
    """The directories of one workspace and their files; nothing is created on access."""

    data: Path
    config: Path
    runtime: Path
    workspace: str = ""

    @property
    def own_folders(self) -> tuple[Path, ...]:
        """The folders that myses must not reach, with the data of all workspaces."""
        return (list_data_folders(self.data)[-1], self.config, self.runtime)

    @property
    def database(self) -> Path:
        return self.data / "zoea.db"

    @property
    def lock(self) -> Path:
        return self.data / "zoea.lock"

    @property
    def log(self) -> Path:
        return self.data / "zoea.log"

    @property
    def mcp_log(self) -> Path:
        """The log of processes that serve MCP clients."""
        return self.data / "mcp.log"

    @property
    def credentials(self) -> Path:
        return self.data / "credentials.toml"

    @property
    def drafts(self) -> Path:
        """The texts that were typed in a cockpit and not sent."""
        return self.data / "drafts.json"

    @property
    def world(self) -> Path:
        return self.data / "reef.db"

    @property
    def config_file(self) -> Path:
        return self.config / USER_FILE

    @property
    def templates(self) -> Path:
        return self.config / "templates"

    @property
    def prices(self) -> Path:
        """The user's prices of models, over the published ones."""
        return self.config / "prices.toml"

    @property
    def trusted(self) -> Path:
        """The record of trusted project files, by content hash."""
        return self.config / TRUST_RECORD

    @property
    def socket(self) -> Path:
        """The owner's socket. A hash of the data directory names it, because the path must be short."""
        import hashlib  # costs some milliseconds, and most commands never ask

        name = hashlib.blake2s(os.fsencode(self.data), digest_size=8).hexdigest()
        return self.runtime / f"{name}.sock"

    def make_data(self) -> Path:
        """Create the data directory (mode 0700) and return it."""
        return _make_own_folder(self.data)

    def make_config(self) -> Path:
        return _make_own_folder(self.config)

    def make_runtime(self) -> Path:
        """Create the socket's directory and return it.

        Raises:
            OwnerError: It belongs to another user or is open to others.
        """
        made = _make_own_folder(self.runtime)
        found = made.lstat()
        if stat.S_ISLNK(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            from zoea.model.errors import OwnerError

            raise OwnerError(
                f"{made} is not a directory that only you can enter",
                hint="Remove it, or set XDG_RUNTIME_DIR to a directory that only you can enter.",
            )
        return made


def places(workspace: str = "", env: Mapping[str, str] = os.environ, *, configured: bool = True) -> Places:
    """Return the places of a workspace.

    Without a name it is the one in `ZOEA_WORKSPACE`, the project's file or the user's file (unless
    `configured` is False), else the default. `ZOEA_DATA_DIR` and `ZOEA_CONFIG_DIR` override the
    platform's directories.

    Raises:
        UsageError: The name could leave its directory.
        SettingsError: A file that may name the workspace cannot be read.
    """
    config = _config_folder(env)
    workspace = workspace or env.get("ZOEA_WORKSPACE", "")
    if not workspace and configured:
        workspace = _read_workspace(config)
    if workspace and not _WORKSPACE.fullmatch(workspace):
        from zoea.model.errors import UsageError

        raise UsageError(
            f"{workspace!r} is not a workspace name",
            hint="Use 1 to 40 letters, digits, '-', '_' or '.', starting with a letter or digit.",
        )
    return Places(data=_data_folder(workspace, env), config=config, runtime=_runtime_folder(env), workspace=workspace)


def _read_workspace(config: Path) -> str:
    """Return the workspace in the project's file, if trusted, else in the user's file."""
    for candidate in (find_project(Path.cwd()).file, config / USER_FILE):
        if candidate is None or not candidate.is_file():
            continue
        name, raw = _parse_workspace(candidate, config)
        if name and (candidate.parent == config or is_trusted(config, candidate, raw)):
            return name
    return ""


def is_trusted(config: Path, file: Path, raw: bytes) -> bool:
    """Return whether the person trusts exactly this content of a project's file. Raises TrustError."""
    from zoea.settings.trust import Trust

    return Trust(config / TRUST_RECORD).is_trusted(file, raw)


def find_untrusted_workspace(env: Mapping[str, str] = os.environ) -> str:
    """Return a warning where an untrusted project file names a workspace, else ""."""
    file = find_project(Path.cwd()).file
    if file is None or env.get("ZOEA_WORKSPACE"):
        return ""
    name, raw = _parse_workspace(file, _config_folder(env))
    if not name or is_trusted(_config_folder(env), file, raw):
        return ""
    return f"{file} names the workspace {name!r}, which has no effect until `zoea trust`"


def _parse_workspace(file: Path, config: Path) -> tuple[str, bytes]:
    """Return the workspace that a file names, and its content.

    A project's file that cannot be read and was never trusted names none: who loads it tells what is wrong with it.

    Raises:
        SettingsError: The user's own file cannot be read, or one that was trusted before it changed.
    """

    from zoea.model.errors import SettingsError
    from zoea.settings.small_file import read_small_file
    from zoea.text.document_bounds import parse_toml

    hint = "Run `zoea config check` to see what is wrong."
    try:
        raw = read_small_file(file)
        if b"workspace" not in raw:
            return "", raw
        name = parse_toml(raw.decode("utf-8-sig")).get("workspace", "")
    except (OSError, ValueError, RecursionError) as error:
        from zoea.settings.trust import Trust  # late, because few files are broken

        trusted = [str(one.file) for one in Trust(config / TRUST_RECORD).files()]
        if file.parent != config and os.path.realpath(file) not in trusted:
            return "", b""
        why = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else "is not valid TOML"
        raise SettingsError(f"{file} {why}", hint=hint) from None
    return (name if isinstance(name, str) else ""), raw


def list_data_folders(data: Path, env: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Return a data directory and those of Zoea's above it. Their entries name the workspaces."""
    root = _data_root(env)
    return (data, *(folder for folder in data.parents if folder.is_relative_to(root)))


def _data_folder(workspace: str, env: Mapping[str, str]) -> Path:
    root = _data_root(env)
    if env.get("ZOEA_DATA_DIR") and workspace in ("", DEFAULT_WORKSPACE):
        return root
    return root / "workspaces" / (workspace or DEFAULT_WORKSPACE)


def _data_root(env: Mapping[str, str]) -> Path:
    if folder := env.get("ZOEA_DATA_DIR"):
        return absolute_path(folder)
    from platformdirs import user_data_path

    return user_data_path("zoea", appauthor=False)


def _config_folder(env: Mapping[str, str]) -> Path:
    if folder := env.get("ZOEA_CONFIG_DIR"):
        return absolute_path(folder)
    from platformdirs import user_config_path

    return user_config_path("zoea", appauthor=False)


def _runtime_folder(env: Mapping[str, str]) -> Path:
    """Return the first directory with a path short enough for a socket."""
    leaves = (("XDG_RUNTIME_DIR", "zoea"), ("TMPDIR", f"zoea-{os.getuid()}"))
    candidates = [Path(env[name]) / leaf for name, leaf in leaves if Path(env.get(name, "")).is_absolute()]
    for folder in candidates:
        if folder.parent.is_dir() and len(os.fsencode(folder)) + _SOCKET_NAME_BYTES <= SOCKET_PATH_LIMIT:
            return folder
    return Path("/tmp") / f"zoea-{os.getuid()}"


def expand_home(path: str | Path) -> Path:
    """Return a path with the home folder in the place of `~`. That of an unknown user stays as it is."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  the method of Path raises for an unknown user


def absolute_path(given: str) -> Path:
    """Return the whole path of a file or folder that a person named."""
    return expand_home(given).absolute()


def is_folder(path: str | Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112  the method of Path raises for a path that is too long


def is_file(path: str | Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113  as above


def make_private_folder(folder: Path) -> None:
    """Create a directory and those above it that are missing, each with mode 0700.

    `Path.mkdir` gives its mode to the last one alone. Raises OSError.
    """
    if not folder.is_dir():
        make_private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _make_own_folder(folder: Path) -> Path:
    try:
        make_private_folder(folder)
    except OSError as error:
        from zoea.model.errors import OwnerError

        raise OwnerError(
            f"the directory {folder} cannot be created: {error.strerror}",
            hint="Set ZOEA_DATA_DIR and ZOEA_CONFIG_DIR to directories that you may write.",
        ) from error
    return folder
