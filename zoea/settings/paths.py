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

DEFAULT_WORKSPACE = "default"
PROJECT_FILE = "zoea.toml"
USER_FILE = "config.toml"

SOCKET_PATH_LIMIT = 107
"""The longest path of a Unix socket in bytes, without the closing NUL."""

_LARGEST = 1_000_000
_SOCKET_NAME_BYTES = len("/") + 16 + len(".sock")
_WORKSPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")


class Places(NamedTuple):
    """The directories of one workspace and their files; nothing is created on access."""

    data: Path
    config: Path
    runtime: Path
    workspace: str = ""

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
        return self.config / "trusted.json"

    @property
    def socket(self) -> Path:
        """The owner's socket. A hash of the data directory names it, because the path must be short."""
        import hashlib  # costs some milliseconds, and most commands never ask

        name = hashlib.blake2s(os.fsencode(self.data), digest_size=8).hexdigest()
        return self.runtime / f"{name}.sock"

    def make_data(self) -> Path:
        """Create the data directory (mode 0700) and return it."""
        return _make_private_folder(self.data)

    def make_config(self) -> Path:
        return _make_private_folder(self.config)

    def make_runtime(self) -> Path:
        """Create the socket's directory and return it.

        Raises:
            OwnerError: It belongs to another user or is open to others.
        """
        made = _make_private_folder(self.runtime)
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
    """Return the workspace named by the project's file, else by the user's."""
    here = Path.cwd()
    project = next((file for folder in (here, *here.parents) if (file := folder / PROJECT_FILE).is_file()), None)
    for candidate in (project, config / USER_FILE):
        if candidate is None or not candidate.is_file():
            continue
        with candidate.open("rb") as stream:
            raw = stream.read(_LARGEST)
        if b"workspace" in raw and (name := _parse_workspace(candidate, raw)):
            return name
    return ""


def _parse_workspace(file: Path, raw: bytes) -> str:
    import tomllib

    try:
        name = tomllib.loads(raw.decode("utf-8-sig")).get("workspace", "")
    except (ValueError, RecursionError):
        from zoea.model.errors import SettingsError

        raise SettingsError(f"{file} is not valid TOML", hint="Run `zoea config check` to see what is wrong.") from None
    return name if isinstance(name, str) else ""


def _data_folder(workspace: str, env: Mapping[str, str]) -> Path:
    if given := env.get("ZOEA_DATA_DIR"):
        root = _absolute(given)
        return root if workspace in ("", DEFAULT_WORKSPACE) else root / "workspaces" / workspace
    from platformdirs import user_data_path

    return user_data_path("zoea", appauthor=False) / "workspaces" / (workspace or DEFAULT_WORKSPACE)


def _config_folder(env: Mapping[str, str]) -> Path:
    if given := env.get("ZOEA_CONFIG_DIR"):
        return _absolute(given)
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


def _absolute(given: str) -> Path:
    return Path(given).expanduser().absolute()


def _make_private_folder(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        from zoea.model.errors import OwnerError

        raise OwnerError(
            f"the directory {folder} cannot be created: {error.strerror}",
            hint="Set ZOEA_DATA_DIR and ZOEA_CONFIG_DIR to directories that you may write.",
        ) from error
    return folder
