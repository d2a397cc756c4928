"""Where everything of Zoea's own lies: data, configuration, the socket.

Light on purpose: every command needs it first, and reading commands need hardly
more. So `Places` is a NamedTuple (`dataclasses` costs 10 ms to import), and what
only an error or the platform's own directories need is imported there.
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
"""Bytes that a Unix socket's path may have, without the closing NUL."""

_LARGEST = 1_000_000
_SOCKET_NAME_BYTES = len("/") + 16 + len(".sock")
_WORKSPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")


class Places(NamedTuple):
    """The three directories of one workspace, and the files in them. Nothing here exists until made."""

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
        """Of the processes that serve MCP clients."""
        return self.data / "mcp.log"

    @property
    def credentials(self) -> Path:
        return self.data / "credentials.toml"

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
    def trusted(self) -> Path:
        """Which project files the person trusts, by content hash."""
        return self.config / "trusted.json"

    @property
    def socket(self) -> Path:
        """The owner's socket. Its name is a hash of the data directory, so the path stays short."""
        import hashlib  # costs some milliseconds, and most commands never ask

        name = hashlib.blake2s(os.fsencode(self.data), digest_size=8).hexdigest()
        return self.runtime / f"{name}.sock"

    def make_data(self) -> Path:
        """Create the data directory, closed to others (0700), and return it."""
        return _closed_folder(self.data)

    def make_config(self) -> Path:
        return _closed_folder(self.config)

    def make_runtime(self) -> Path:
        """Create the socket's directory. Raises OwnerError where it belongs to someone else."""
        made = _closed_folder(self.runtime)
        found = made.lstat()
        if stat.S_ISLNK(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            from zoea.model.errors import OwnerError

            raise OwnerError(
                f"{made} is not a directory of yours alone",
                hint="Remove it, or set XDG_RUNTIME_DIR to a directory that only you can enter.",
            )
        return made


def places(workspace: str = "", env: Mapping[str, str] = os.environ, *, configured: bool = True) -> Places:
    """The places of a workspace.

    Without a name it is the one that `ZOEA_WORKSPACE`, the project's file or the
    user's names (`configured = False` leaves the files alone), else the default one.
    `ZOEA_DATA_DIR` and `ZOEA_CONFIG_DIR` win over the platform's own directories.

    Raises:
        UsageError: for a name that could leave its directory.
        SettingsError: where a file that may name the workspace cannot be read.
    """
    config = _config(env)
    workspace = workspace or env.get("ZOEA_WORKSPACE", "")
    if not workspace and configured:
        workspace = _configured(config)
    if workspace and not _WORKSPACE.fullmatch(workspace):
        from zoea.model.errors import UsageError

        raise UsageError(
            f"{workspace!r} is no workspace name",
            hint="Use 1 to 40 letters, digits, '-', '_' or '.', starting with a letter or digit.",
        )
    return Places(data=_data(workspace, env), config=config, runtime=_runtime(env), workspace=workspace)


def _configured(config: Path) -> str:
    """The workspace that the project's file names, else the user's; read only if one might."""
    here = Path.cwd()
    project = next((file for folder in (here, *here.parents) if (file := folder / PROJECT_FILE).is_file()), None)
    for candidate in (project, config / USER_FILE):
        if candidate is None or not candidate.is_file():
            continue
        with candidate.open("rb") as stream:
            raw = stream.read(_LARGEST)
        if b"workspace" in raw and (name := _workspace_in(candidate, raw)):
            return name
    return ""


def _workspace_in(file: Path, raw: bytes) -> str:
    import tomllib

    try:
        name = tomllib.loads(raw.decode("utf-8-sig")).get("workspace", "")
    except (ValueError, RecursionError):
        from zoea.model.errors import SettingsError

        raise SettingsError(f"{file} is no TOML", hint="Run `zoea config check` to see what is wrong.") from None
    return name if isinstance(name, str) else ""


def _data(workspace: str, env: Mapping[str, str]) -> Path:
    if given := env.get("ZOEA_DATA_DIR"):
        root = _absolute(given)
        return root if workspace in ("", DEFAULT_WORKSPACE) else root / "workspaces" / workspace
    from platformdirs import user_data_path

    return user_data_path("zoea", appauthor=False) / "workspaces" / (workspace or DEFAULT_WORKSPACE)


def _config(env: Mapping[str, str]) -> Path:
    if given := env.get("ZOEA_CONFIG_DIR"):
        return _absolute(given)
    from platformdirs import user_config_path

    return user_config_path("zoea", appauthor=False)


def _runtime(env: Mapping[str, str]) -> Path:
    """The first place short enough for a socket's path."""
    candidates = [
        Path(env[name]) / leaf for name, leaf in _runtime_candidates() if Path(env.get(name, "")).is_absolute()
    ]
    for folder in candidates:
        if folder.parent.is_dir() and len(os.fsencode(folder)) + _SOCKET_NAME_BYTES <= SOCKET_PATH_LIMIT:
            return folder
    return Path("/tmp") / f"zoea-{os.getuid()}"


def _runtime_candidates() -> tuple[tuple[str, str], ...]:
    return (("XDG_RUNTIME_DIR", "zoea"), ("TMPDIR", f"zoea-{os.getuid()}"))


def _absolute(given: str) -> Path:
    return Path(given).expanduser().absolute()


def _closed_folder(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        from zoea.model.errors import OwnerError

        raise OwnerError(
            f"the directory {folder} cannot be made: {error.strerror}",
            hint="Set ZOEA_DATA_DIR and ZOEA_CONFIG_DIR to directories that you may write.",
        ) from error
    return folder
