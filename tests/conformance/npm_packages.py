"""Unpacks packages of the npm registry in half of the time of `npm install`.

`npm_packages.txt` says what npm installs on x86-64 Linux: a line holds the folder of a package, its name and version,
and the sha512 of its file. `python -m tests.conformance.npm_packages` writes it after npm has installed other versions.
npm takes 29 s of a core. No script of a package is run here: those of OpenCode and Claude Code would only link their
programs. Its `tar` unpacks them in one process of Node, which reads gzip in half of the time of gzip.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.request import HTTPSHandler, OpenerDirector, build_opener

LOCK = Path(__file__).with_name("npm_packages.txt")
REGISTRY = "https://registry.npmjs.org"
_CONNECTIONS = 4
_PATIENCE_S = 30.0
_PROGRAMS = {
    "claude": "@anthropic-ai/claude-code-linux-x64/claude",  # as its script would link it
    "conformance": "@modelcontextprotocol/conformance/dist/index.js",
    "codex-acp": "@agentclientprotocol/codex-acp/dist/index.js",
    "opencode": "opencode-linux-x64/bin/opencode",  # the script of `opencode-ai` would link it into its own folder
}
"""What is started, by the name under which npm links it."""
_OF_PROGRAMS = {
    "@agentclientprotocol/codex-acp": ("@agentclientprotocol/", "@openai/", "diff", "vscode-jsonrpc"),
    "@anthropic-ai/claude-code": ("@anthropic-ai/",),
    "opencode-ai": ("opencode",),
}
"""How folders begin that one program alone needs. Together they are nine tenths of all bytes."""
_NEVER_LOADED = (
    *("@rolldown/", "es-toolkit", "ink", "lightningcss", "react", "rolldown", "type-fest", "vite", "yoga-layout"),
    *("@octokit/openapi-types", "@octokit/plugin-paginate-rest/node_modules/", "@octokit/types"),
    *("@octokit/plugin-rest-endpoint-methods/node_modules/", "@modelcontextprotocol/server"),
    "@modelcontextprotocol/inspector/node_modules/@modelcontextprotocol/server",
)
"""Packages of the Inspector's web page and screen, and types: most files. Command lines load none of them."""
UNPACKER = Path(__file__).with_name("unpack.mjs")


class Package(NamedTuple):
    """A line of the list.

    Attributes:
        folder: Where it belongs below `node_modules`.
        sha512: Of its file, in base64.
    """

    folder: str
    name: str
    version: str
    sha512: str

    @property
    def address(self) -> str:
        return f"{REGISTRY}/{self.name}/-/{self.name.rpartition('/')[2]}-{self.version}.tgz"


def read_lock() -> list[Package]:
    """Return the packages of the list."""
    packages = []
    for line in LOCK.read_text().splitlines():
        folder, package, sha512 = line.split()
        name, _, version = package.rpartition("@")
        packages.append(Package(folder, name, version, sha512))
    return packages


def unpack_all(unpacker: Sequence[str | Path], modules: Path, wanted: Iterable[str]) -> bool:
    """Unpack packages below `node_modules`, which is empty or missing after a failure.

    What only an unwanted program needs is left out, and so is what nothing loads.

    Args:
        unpacker: The program that unpacks files: `UNPACKER` with its Node.

    Returns:
        False where npm has to do it: on another system or network, or for a wanted version that is not listed.
    """
    names, packages = set(wanted), [one for one in read_lock() if not one.folder.startswith(_NEVER_LOADED)]
    if not names.issubset(f"{one.name}@{one.version}" for one in packages):
        sys.stdout.write(f"npm is used, because {LOCK.name} lists other versions\n")
        return False
    if (sys.platform, platform.machine(), platform.libc_ver()[0]) != ("linux", "x86_64", "glibc"):
        return False
    programs = {name.rpartition("@")[0] for name in names}
    unwanted = [begin for program, begins in _OF_PROGRAMS.items() if program not in programs for begin in begins]
    packages = [one for one in packages if not one.folder.startswith(tuple(unwanted))]
    # One context for all of them, because reading the system's certificates takes as long as ten packages.
    opener = build_opener(HTTPSHandler(context=ssl.create_default_context()))
    try:
        modules.mkdir(exist_ok=True)
        with _start(unpacker, modules) as started, ThreadPoolExecutor(_CONNECTIONS) as threads:
            list(threads.map(lambda package: started.unpack(package, opener), packages))
        (modules / ".bin").mkdir(exist_ok=True)
        for name, program in _PROGRAMS.items():
            if not program.startswith(tuple(f"{one.folder}/" for one in packages)):
                continue
            (modules / program).chmod(0o755)
            (modules / ".bin" / name).unlink(missing_ok=True)
            (modules / ".bin" / name).symlink_to(Path("..", program))
    except (OSError, HTTPException, subprocess.CalledProcessError, ValueError) as error:
        sys.stdout.write(f"npm is used, because: {error}\n")
        shutil.rmtree(modules, ignore_errors=True)  # npm would take half a package for a whole one
        return False
    return True


def write_lock(modules: Path) -> None:
    """List what npm has installed."""
    lines = []
    for place, one in json.loads((modules / ".package-lock.json").read_text())["packages"].items():
        folder = place.removeprefix("node_modules/")
        name = one.get("name") or folder.rpartition("node_modules/")[2]
        lines.append(f"{folder} {name}@{one['version']} {one['integrity'].removeprefix('sha512-')}\n")
    LOCK.write_text("".join(lines))


class _Unpacker:
    """Downloads packages, and hands them to a process that unpacks them.

    Args:
        downloads: Where their files are kept until they are unpacked.
    """

    def __init__(self, process: subprocess.Popen[str], downloads: Path) -> None:
        self._process = process
        self._downloads = downloads
        self._lock = threading.Lock()

    def unpack(self, package: Package, opener: OpenerDirector) -> None:
        """Download a package and have it unpacked later. Raises OSError or ValueError where it cannot be used."""
        with opener.open(package.address, timeout=_PATIENCE_S) as answer:
            content = answer.read()
        if base64.b64encode(hashlib.sha512(content).digest()).decode() != package.sha512:
            raise ValueError(f"{package.address} is not the file that npm would install")
        file = self._downloads / f"{package.folder.replace('/', '+')}.tgz"
        file.write_bytes(content)
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(f"{json.dumps([str(file), package.folder])}\n")
            self._process.stdin.flush()


@contextmanager
def _start(unpacker: Sequence[str | Path], modules: Path) -> Iterator[_Unpacker]:
    """Yield an unpacker. Everything is unpacked when the block ends. Raises CalledProcessError where that failed."""
    command = [*unpacker, modules]
    with tempfile.TemporaryDirectory(dir=modules) as downloads:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            yield _Unpacker(process, Path(downloads))
        except BaseException:
            process.kill()
            raise
        finally:
            _, told = process.communicate()
        if process.returncode != 0:
            sys.stdout.write(told[-2000:])
            raise subprocess.CalledProcessError(process.returncode, command)


if __name__ == "__main__":
    write_lock(Path(sys.prefix) / "conformance" / "node_modules")
