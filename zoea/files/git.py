"""Runs the installed git: without hooks, questions and pagers, with a deadline and bounded output."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from selectors import EVENT_READ, PollSelector
from typing import IO

from msgspec import Struct

from zoea.files.ownership import list_locks
from zoea.model.errors import GitError
from zoea.process.group_guard import guard

DEADLINE_S = 60.0
WRITE_DEADLINE_S = 600.0
"""For a command that writes a working tree: it is never ended halfway without need."""
MAX_OUTPUT = 64_000_000
_MOST_ERROR = 4_000
_VERSION_S = 10.0
_LOOK_S = 2.0
"""After so long it is looked whether git waits for the writer of a pipe."""
_READ_IN_TREES = (".gitignore", ".gitattributes", ".gitmodules", ".mailmap")
_TERM_GRACE_S = 3.0
"""Time for git to remove its lock files after SIGTERM."""
_CHUNK = 65_536
_POLL_S = 0.05
"""So often it is looked whether a command has ended whose pipes another process holds."""
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME")
_FIXED = {
    "LC_ALL": "C.UTF-8",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_MERGE_AUTOEDIT": "no",
}
_OPTIONS = {
    "core.fsmonitor": "false",
    "core.quotePath": "false",
    "core.alternateRefsCommand": "true",
    "commit.gpgSign": "false",
    "merge.verifySignatures": "false",  # none of a mysis is signed, and no program is run to check one
    "gc.auto": "0",
    "maintenance.auto": "false",
    "merge.autoStash": "false",
    "merge.conflictStyle": "merge",  # a mysis is told of its three marks, and no others are looked for
    "rebase.autoStash": "false",
    "submodule.recurse": "false",
    "diff.submodule": "short",
    "checkout.workers": "16",  # more than there are cores, because they wait for the disk
    "log.showSignature": "false",
    **dict.fromkeys(("gpg.program", "gpg.openpgp.program", "gpg.x509.program", "gpg.ssh.program"), "false"),
    "diff.noprefix": "false",
    "diff.mnemonicPrefix": "false",
    "diff.orderFile": os.devnull,
    "i18n.commitEncoding": "UTF-8",
    "rerere.enabled": "false",
    "protocol.ext.allow": "never",
}
_NO_HOOKS = {"core.hooksPath": os.devnull}
_CONFIGURED_HOOKS = (2, 54)
"""The version of git from which on a configuration can name hooks, as `hook.<name>.command`."""
_LIST_HOOKS = ("config", "-z", "--name-only", "--get-regexp", r"^hook\..*\.")


class GitResult(Struct, frozen=True):
    """How a command ended.

    Attributes:
        cut: Bytes of its output that were left out.
    """

    code: int
    out: bytes
    error: str
    cut: int = 0

    @property
    def text(self) -> str:
        """What it wrote, without the last line end."""
        return self.out.decode("utf-8", "surrogateescape").rstrip("\n")

    @property
    def records(self) -> list[str]:
        """What it wrote, in parts that end with NUL."""
        return [part.decode("utf-8", "surrogateescape") for part in self.out.split(b"\0") if part]


class Git:
    """Git in one folder.

    Args:
        folder: A working tree or a git directory.
        hooks: Run the hooks of the repository.
        git_dir: The git directory of the folder, so that a `.git` which a mysis wrote there is not read.
        top: The top of that working tree, where the folder is below it.
        is_safe: It is the repository of a checkout that git took for safe. For git it is a folder of its own, which the
            `safe.directory` of a person does not name.
    """

    def __init__(
        self,
        folder: Path,
        *,
        hooks: bool = False,
        git_dir: Path | None = None,
        top: Path | None = None,
        is_safe: bool = False,
    ) -> None:
        self.folder = folder
        self.hooks = hooks
        self.git_dir = git_dir
        self._top = top or folder
        self._options = {**_OPTIONS, **({} if hooks else _NO_HOOKS), **({"safe.directory": folder} if is_safe else {})}

    def text(self, *arguments: str) -> str:
        """Run a command that only reads and return what it wrote. Raises GitError."""
        return self.run(*arguments).text

    def write(self, *arguments: str, accept: tuple[int, ...] = (0,), author: str = "", stdin: bytes = b"") -> GitResult:
        """Run a command that writes. It goes on if this process is killed, so that it leaves no lock. Raises GitError.

        Args:
            author: Name for author and committer, instead of the configured one.
        """
        environment = {} if not author else _identity(author)
        return self.run(
            *arguments, accept=accept, stdin=stdin, deadline=WRITE_DEADLINE_S, is_lasting=True, environment=environment
        )

    def run(
        self,
        *arguments: str,
        accept: tuple[int, ...] = (0,),
        stdin: bytes = b"",
        deadline: float = DEADLINE_S,
        is_lasting: bool = False,
        environment: Mapping[str, str] = {},
        most: int | None = None,
    ) -> GitResult:
        """Run a command.

        Args:
            accept: Exit codes that are no error.
            is_lasting: It does not end with this process.
            most: Bytes of output that are kept of more; if not given, more than `MAX_OUTPUT` is an error.

        Raises:
            GitError: Git is missing, refused, ran too long, or wrote too much.
        """
        if (program := shutil.which("git")) is None:
            raise GitError("git is not installed", hint="Install git; without it a plain folder works.")
        pairs = [part for key, value in self._options.items() for part in ("-c", f"{key}={value}")]
        where = () if self.git_dir is None else (f"--git-dir={self.git_dir}", f"--work-tree={self._top}")
        line = [program, "--no-pager", *where, *pairs, *arguments]
        if not self.hooks and arguments != _LIST_HOOKS and _read_version(program) >= _CONFIGURED_HOOKS:
            environment = {**environment, **self._disable_hooks()}
        what = f"git {' '.join(arguments[:2])} in {self.folder}"
        try:
            with _open_stdin(stdin) as source:
                process = subprocess.Popen(
                    line,
                    cwd=self.folder,
                    env={**{name: os.environ[name] for name in _KEPT if name in os.environ}, **_FIXED, **environment},
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    pass_fds=list_locks() if is_lasting else (),
                )
        except OSError as error:
            raise GitError(f"{what} did not start: {error.strerror}") from error
        result = _collect(process, what, deadline, is_lasting, most, self._top)
        if result.code not in accept:
            reason = result.error.strip().removeprefix("fatal: ").removeprefix("error: ")
            raise GitError(f"{what}: {reason or f'exit code {result.code}'}", hint=explain(reason))
        return result

    def _disable_hooks(self) -> dict[str, str]:
        """Return variables that disable each hook that a configuration names. Raises GitError.

        `hook.<event>.enabled` is none for all: git leaves it out where a hook is named like the event. As variables,
        because an option `-c` ends a name at its first `=`.
        """
        keys = self.run(*_LIST_HOOKS, accept=(0, 1)).records
        names = dict.fromkeys(key.partition(".")[2].rpartition(".")[0] for key in keys)
        variables = {"GIT_CONFIG_COUNT": str(len(names))}
        for at, name in enumerate(names):
            variables[f"GIT_CONFIG_KEY_{at}"] = f"hook.{name}.enabled"
            variables[f"GIT_CONFIG_VALUE_{at}"] = "false"
        return variables


@lru_cache
def _read_version(program: str) -> tuple[int, ...]:
    """Return the version of git; that of a new one where it is not told."""
    try:
        told = subprocess.run([program, "version"], capture_output=True, check=False, timeout=_VERSION_S).stdout
    except (OSError, subprocess.TimeoutExpired):
        told = b""
    found = re.search(rb"(\d+)\.(\d+)", told)
    return tuple(int(part) for part in found.groups()) if found else _CONFIGURED_HOOKS


def _identity(author: str) -> dict[str, str]:
    mail = f"{author}@zoea.invalid"
    return {
        f"GIT_{who}_{key}": value
        for who in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", author), ("EMAIL", mail))
    }


def explain(reason: str) -> str:
    """Return what to do about an error of git; "" where its reason says all."""
    if ".lock" in reason and "exists" in reason:
        return "A git command still runs there, or was killed: if none runs, remove the named lock file."
    return ""


@contextmanager
def _open_stdin(content: bytes) -> Iterator[IO[bytes]]:
    """Open a file that holds a content; no pipe, which a large one would fill. Raises OSError."""
    with tempfile.TemporaryFile() if content else open(os.devnull, "rb") as source:
        if content:
            source.write(content)
            source.seek(0)
        yield source


class _Output:
    """What a command writes to its two pipes. Reads both in one loop."""

    def __init__(self, process: subprocess.Popen[bytes], most: int) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self._process, self._selector = process, PollSelector()
        self.out, self.error = _Kept(process.stdout, most), _Kept(process.stderr, _MOST_ERROR)
        for kept in (self.out, self.error):
            self._selector.register(kept.pipe, EVENT_READ, kept)

    def wait(self, seconds: float) -> int:
        """Read until the command has ended, and return its code. Raises TimeoutExpired."""
        until = time.monotonic() + seconds
        while self._selector.get_map() and self._process.poll() is None:
            if (left := until - time.monotonic()) <= 0:
                raise subprocess.TimeoutExpired(self._process.args, seconds)
            self._read(min(left, _POLL_S))
        return self._process.wait(max(0.0, until - time.monotonic()))

    def finish(self, seconds: float) -> None:
        """Read to the end. What a process that outlives the command writes after a time is not kept."""
        until = time.monotonic() + seconds
        while self._selector.get_map() and (left := until - time.monotonic()) > 0:
            self._read(left)
        if self._selector.get_map():  # a closed pipe would end that process, and a full one would stop it
            threading.Thread(target=self._drain, daemon=True, name="git output").start()
        else:
            self._close()

    def _read(self, seconds: float | None) -> None:
        for key, _ in self._selector.select(seconds):
            if not key.data.read():
                self._selector.unregister(key.fileobj)

    def _drain(self) -> None:
        while self._selector.get_map():
            self._read(None)
        self._close()

    def _close(self) -> None:
        self._selector.close()
        self.out.pipe.close()
        self.error.pipe.close()


class _Kept:
    """The first bytes of a pipe, and how many came."""

    def __init__(self, pipe: IO[bytes], most: int) -> None:
        self.pipe, self._most = pipe, most
        self.parts: list[bytes] = []
        self.size = 0

    def read(self) -> bool:
        """Read what the pipe holds now, and return whether more can come."""
        data = os.read(self.pipe.fileno(), _CHUNK)
        if self.size < self._most:
            self.parts.append(data[: self._most - self.size])
        self.size += len(data)
        return bool(data)


def _find_pipe(top: Path) -> str:
    """Return the path of a pipe that git would read in a working tree. "" for none."""
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name != ".git"]
        for name in {*_READ_IN_TREES}.intersection(names):
            file = Path(folder, name)
            with suppress(OSError):  # no process reads the pipe, or it is a file
                if stat.S_ISFIFO(file.lstat().st_mode):
                    os.close(os.open(file, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
                    return str(file)
    return ""


def _collect(
    process: subprocess.Popen[bytes], what: str, deadline: float, is_lasting: bool, most: int | None, top: Path
) -> GitResult:
    """Wait for a command with its output, and end it at its deadline."""
    if not is_lasting:
        guard.add(process.pid)
    output = _Output(process, most or MAX_OUTPUT)
    pipe = ""
    try:
        try:
            code = output.wait(min(deadline, _LOOK_S))
        except subprocess.TimeoutExpired:
            if pipe := _find_pipe(top):
                raise
            code = output.wait(deadline - _LOOK_S)
    except subprocess.TimeoutExpired:
        guard.add(process.pid)
        guard.signal(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            output.wait(_TERM_GRACE_S)
        guard.end(process.pid)
        process.wait()
        if pipe:
            raise GitError(
                f"{what} was ended, because it waits for {pipe}, which is a pipe", hint="Remove it."
            ) from None
        raise GitError(f"{what} took longer than {deadline:g} s and was ended") from None
    finally:
        guard.end(process.pid)  # nothing happens to one that lasts
        output.finish(_TERM_GRACE_S)
    if most is None and output.out.size > MAX_OUTPUT:
        raise GitError(f"{what} wrote more than {MAX_OUTPUT // 1_000_000} MB")
    kept, error = (b"".join(pipe.parts) for pipe in (output.out, output.error))
    return GitResult(code, kept, error.decode("utf-8", "replace"), output.out.size - len(kept))


def find_top(folder: Path) -> Path | None:
    """Return the top of the working tree that holds a folder. None without git or a repository."""
    try:
        return Path(Git(folder).text("rev-parse", "--show-toplevel"))
    except GitError:
        return None
