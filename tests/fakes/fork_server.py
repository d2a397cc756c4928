"""Starts `zoea` as a fork of a process that has loaded all of its modules, which saves most of the time of a start.

What comes out is a child of the test, with its own session, directory, environment and streams, and the exit code of
the real program. At full strength (`make soak`) every start is a new interpreter.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import json
import os
import resource
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

from tests.fakes.unwaited_processes import unwaited

_ROOT = Path(__file__).parents[2]
_PATIENCE_S = 60.0
_MOST_BYTES = 1 << 20
_SET_CHILD_SUBREAPER = 36
_READ_ONCE = ("PYTHON", "LD_", "TEXTUAL", "TZ", "OPENSSL", "PYDANTIC")
"""What begins so in an environment is read as the interpreter starts or a library is loaded."""
_LOCALES = ("LC_ALL", "LC_CTYPE", "LANG")
_LATER = ("__main__", "llama_child")
_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""Modules that run when they are loaded."""


class ForkServer:
    """The process that is forked. It starts with the first program, and ends with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._read_once: dict[str, str] = {}

    def can_fork(self, environment: Mapping[str, str]) -> bool:
        """Return whether a fork behaves as a new interpreter would with an environment."""
        if not sys.platform.startswith("linux") or os.environ.get("ZOEA_SOAK"):
            return False
        locale = next((environment[name] for name in _LOCALES if environment.get(name)), "C")
        if locale not in ("C", "POSIX") and not locale.lower().endswith(("utf-8", "utf8")):
            return False
        return self._channel is None or self._read_once == _select_read_once(environment)

    def fork(self, program: Mapping[str, Any], streams: list[int]) -> int:
        """Run a program as a child of this process and return its process id.

        Args:
            program: `module`, `arguments`, `environment`, `folder`, `is_session` (whether it leads a session) and,
                where they are not the server's, `most_files` and `ignored` signals.
            streams: Its stdin, stdout and stderr.
        """
        with self._lock:
            channel = self._channel = self._channel or self._start(program["environment"])
            # The parent of the fork ends at once. The kernel gives the fork to this process, which can wait for it.
            _adopt_orphans(True)
            try:
                socket.send_fds(channel, [json.dumps(program).encode()], streams)
                pid = int(channel.recv(64))
                channel.recv(64)
            finally:
                _adopt_orphans(False)
        return pid

    def close(self) -> None:
        """End the process."""
        if self._channel is not None and self._process is not None:
            self._channel.close()
            self._channel = None
            self._process.wait(_PATIENCE_S)

    def _start(self, environment: Mapping[str, str]) -> socket.socket:
        self._read_once = _select_read_once(environment)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(_PATIENCE_S)
        with theirs, unwaited.shared():
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fakes.fork_server", str(theirs.fileno())],
                env=environment,
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        return ours


class ForkedProgram(subprocess.Popen[str]):
    """`Popen` of `[sys.executable, "-m", MODULE, *ARGUMENTS]` with an environment: a fork where that is the same."""

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *rest: Any) -> None:
        _, _, folder, environment, _, _, _, *pipes = rest[:13]
        if preexec_fn is not None or not server.can_fork(environment):
            super()._execute_child(args, executable, preexec_fn, *rest)  # type: ignore[misc]  # private
            return
        program = {
            "module": args[2],
            "arguments": args[3:],
            "environment": environment,
            "folder": str(folder or Path.cwd()),
            "is_session": rest[18],
            "most_files": resource.getrlimit(resource.RLIMIT_NOFILE),
            "ignored": [one for one in _SIGNALS if signal.getsignal(one) == signal.SIG_IGN],
        }
        streams = [pipes[0], pipes[3], pipes[5]]
        try:
            self.pid = server.fork(program, [own if one == -1 else one for own, one in enumerate(streams)])
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]  # private


def _adopt_orphans(value: bool) -> None:
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, int(value), 0, 0, 0)


def _select_read_once(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_ONCE)}


def _serve(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork for each request until the channel is closed. Return the request in the fork, None in the server."""
    while True:
        request, streams, _, _ = socket.recv_fds(channel, _MOST_BYTES, 3)
        if not request:
            return None
        between = os.fork()
        if between == 0:
            parent = os.getpid()
            if pid := os.fork():
                channel.send(str(pid).encode())
                os._exit(0)
            while os.getppid() == parent:
                os.sched_yield()
            channel.close()
            return json.loads(request), streams
        os.waitpid(between, 0)
        channel.send(b"forked")
        for stream in streams:
            os.close(stream)


def _become(program: Mapping[str, Any], streams: list[int]) -> None:
    """Take over what a new process would get from its parent."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, max(streams) + 1)
    os.chdir(program["folder"])
    os.environ.clear()
    os.environ.update(program["environment"])
    if "most_files" in program:
        resource.setrlimit(resource.RLIMIT_NOFILE, program["most_files"])
    for one in _SIGNALS if "ignored" in program else ():
        usual = signal.default_int_handler if one == signal.SIGINT else signal.SIG_DFL
        signal.signal(one, signal.SIG_IGN if one in program["ignored"] else usual)
    if program["is_session"]:
        os.setsid()
    sys.argv = [program["module"], *program["arguments"]]
    sys.path[0] = program["folder"]
    locale = next((os.environ[name] for name in _LOCALES if os.environ.get(name)), "C")
    errors = "surrogateescape" if locale.partition(".")[0] in ("C", "POSIX") else "strict"
    # As with PYTHONUNBUFFERED, which all starts have.
    for name, binary in (
        ("stdin", io.BufferedReader(io.FileIO(0))),
        ("stdout", io.FileIO(1, "w")),
        ("stderr", io.FileIO(2, "w")),
    ):
        opened = io.TextIOWrapper(
            binary,
            encoding="utf-8",
            errors="backslashreplace" if name == "stderr" else errors,
            newline="\n",
            write_through=True,
        )
        setattr(sys, name, opened)
        setattr(sys, f"__{name}__", opened)


def _run(module: str) -> None:
    """Run a module as the program, and end as it does but without taking all loaded modules apart."""
    codes: list[int] = []

    def leave() -> None:
        # A thread that still runs can keep an interpreter from its end; that is left to show. A timer only waits.
        others = [one for one in threading.enumerate() if one is not threading.main_thread()]
        if codes and all(isinstance(one, threading.Timer) for one in others):
            sys.stdout.flush()
            os._exit(codes[0])

    atexit.register(leave)  # the first that is registered is called last
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            codes.append((exit_.code or 0) & 0xFF)
        raise


def main(descriptor: str) -> None:
    """Load all modules of Zoea, then fork for each request; in a fork, run the program."""
    import zoea

    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    for module in walk_packages(zoea.__path__, "zoea."):
        if not module.name.endswith(_LATER):
            import_module(module.name)
    gc.collect()
    gc.freeze()
    channel = socket.socket(fileno=int(descriptor))
    request = _serve(channel)
    if request is not None:
        program, streams = request
        _become(program, streams)
        _run(program["module"])


server = ForkServer()
"""That of this worker."""

if __name__ == "__main__":
    main(sys.argv[1])
