"""Builds the command line and environment of an agent's program: without secrets, confined where possible.

The folder is writable and the rest only readable, by bubblewrap where it is installed and works.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ")
_TRY_S = 10.0
_SOCKETS = "/run"
"""Holds the sockets of services, which a read-only mount does not close."""
_NAMES = "/run/systemd/resolve"


class Sandbox(Struct, frozen=True):
    """How commands are run in one folder.

    Attributes:
        program: Bubblewrap; empty where it is not used.
        text: The same for people, in one sentence.
        hidden: Folders that commands cannot see, and files that are empty for them.
        readable: Folders in hidden ones that they can read.
        writable: What they can write besides the folder.
        network: Whether they reach the network.
    """

    folder: Path
    program: str = ""
    text: str = ""
    hidden: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    network: bool = False

    def wrap(self, line: Sequence[str]) -> list[str]:
        """Return the command line that runs another one confined, if possible."""
        if not self.program:
            return list(line)
        return [*self._options(), "--", *line]

    def _options(self) -> list[str]:
        hidden = [Path("/tmp"), Path("/var/tmp"), Path(_SOCKETS), *self.hidden]
        mounts: list[tuple[Path, tuple[str, ...]]] = [(Path("/dev"), ("--dev",)), (Path("/proc"), ("--proc",))]
        mounts += [(path, ("--tmpfs",)) for path in hidden if path.is_dir()]
        mounts += [(path, ("--ro-bind", "/dev/null")) for path in self.hidden if path.is_file()]
        mounts += [(path, ("--ro-bind-try", str(path))) for path in (*self.readable, Path(_NAMES))]
        mounts += [(path, ("--bind-try", str(path))) for path in self.writable]
        mounts.append((self.folder, ("--bind", str(self.folder))))
        # Bubblewrap mounts on no link with an absolute target. Outer ones come first: they would cover the inner ones.
        places = [(Path(os.path.realpath(path)), option) for path, option in mounts]
        places.sort(key=lambda place: len(place[0].parts))
        return [
            *(self.program, "--ro-bind", "/", "/"),
            *(part for path, option in places for part in (*option, str(path))),
            *("--chdir", str(self.folder), "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--new-session"),
            *("--die-with-parent", *(() if self.network else ("--unshare-net",))),
        ]


def build_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of commands: only listed variables, so without secrets."""
    kept = {name: environment[name] for name in _KEPT if name in environment}
    fixed = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
    # The caches of Python would stand in the commit of a repository that does not ignore them.
    return {"LANG": "C.UTF-8", **kept, **fixed, "PYTHONDONTWRITEBYTECODE": "1"}


def find_sandbox(
    folder: Path,
    hidden: Sequence[Path] = (),
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    *,
    network: bool = False,
) -> Sandbox:
    """Return how commands are run in a folder, after a trial of bubblewrap."""
    program = shutil.which("bwrap")
    if program is None:
        return Sandbox(folder, text="not confined, because bubblewrap is not installed")
    reach = "with network" if network else "without network"
    more = f" and {', '.join(map(str, writable))} are" if writable else " is"
    text = f"confined by bubblewrap: only the folder{more} writable, {reach}"
    sandbox = Sandbox(folder, program, text, tuple(hidden), tuple(readable), tuple(writable), network)
    try:
        tried = subprocess.run(
            sandbox.wrap(["true"]),
            env=build_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRY_S,
            check=False,
        )
        problem = "" if tried.returncode == 0 else tried.stderr.decode("utf-8", "replace").strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    return sandbox if not problem else Sandbox(folder, text=f"not confined, because bubblewrap fails here: {problem}")
