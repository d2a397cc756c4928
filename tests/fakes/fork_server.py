"""Starts `zoea` as a fork of a process that has loaded all its modules. This saves most of the time of a start.

What comes out is a child of the test, with its own session, directory, environment and streams, and the exit code of
the real program. At full strength (`make soak`) every start is a new interpreter.

The workers of a run are such forks too, each with a server of its own beside it, so that Zoea is loaded once for all.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
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
import termios
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

from tests.fakes.unwaited_processes import unwaited
from zoea.process.group_guard import MARK

_ROOT = Path(__file__).parents[2]
_FAKES = Path(__file__).parent
_EXECUTABLE = sys.executable  # a test may put another in its place
_PATIENCE_S = 180.0
"""All tests are loaded before the first worker."""
_MOST_BYTES = 1 << 20
_MOST_STREAMS = 32
_MOST_DESCRIPTORS = 256
_ROOM = " " * 8192
"""An argument and a variable of the server, which leave that much for the command line and environment of a fork."""
_SET_CHILD_SUBREAPER = 36
_CAPBSET_DROP = 24
_CAPABILITY_VERSION = 0x20080522
_OVERRIDES = (1, 2)
"""The capabilities by which root ignores modes of files (capabilities(7))."""
_COLLAPSE = 25
_LARGE_PAGE = 1 << 21
_READ_ONCE = ("PYTHON", "LD_", "TEXTUAL", "TZ", "OPENSSL", "PYDANTIC")
"""What begins so in an environment is read as the interpreter starts or a library is loaded."""
_TAKEN_OVER = ("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHON_KEYRING_BACKEND", "TZ")
"""What a fork does of it itself, and what is read later."""
_LEFT_OUT = ("PYTHONPATH", MARK)
"""What the server itself does not get: it would be ended with the group of the first program that has a mark."""
_FRAMES = "TEXTUAL_FPS"
"""Means nothing to the servers of MCP, whose environment lacks it."""
_PROGRAMS = ("zoea", "tests", "mcp_server_git", "mcp_server_time")
"""The packages whose modules are forked."""
_SWARMS = ("zoea", "tests.e2e.hindered_cockpit")
"""Modules whose command `run` starts further programs."""
_NEW_PROGRAMS = ("tests.fakes.fork_server", "tests.e2e.other_version")
"""The server itself, and what changes modules before others that copy from them are loaded."""
_WORKER = ("-u", "-c", "import sys;exec(eval(sys.stdin.readline()))")
"""How pytest-xdist starts a worker."""
_LOCALES = ("LC_ALL", "LC_CTYPE", "LANG")
_LATER = ("__main__", "llama_child")
"""Modules that run when they are loaded."""
_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


class ForkServer:
    """The process that is forked. It starts with the first program, and ends with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | int | None = None
        self._read_once: dict[str, str] = {}
        self.package = "zoea"
        """All its modules are loaded before the first fork."""
        self.tests: Sequence[str] = ()
        """Arguments of pytest: what they name is loaded too."""

    def can_fork(self, environment: Mapping[str, str]) -> bool:
        """Return whether a fork behaves as a new interpreter would with an environment."""
        if not sys.platform.startswith("linux") or os.environ.get("ZOEA_SOAK"):
            return False
        locale = next((environment[name] for name in _LOCALES if environment.get(name)), "C")
        if locale not in ("C", "POSIX") and not locale.lower().endswith(("utf-8", "utf8")):
            return False
        if self._channel is None:
            return True
        frames = {name: value for name, value in self._read_once.items() if name == _FRAMES}
        return self._read_once == frames | _select_read_once(environment)

    def fork(self, program: Mapping[str, Any], streams: list[int]) -> int:
        """Run a program as a child of this process and return its process id.

        Args:
            program: `command`, `module` (or a script; empty for a worker), `arguments`, `environment`, `folder`,
                `is_session` (whether it leads one), `is_apart` (whether modules of its folder are not found), `kept`
                (the numbers of further descriptors) and, where they are not the server's, `umask` (or -1),
                `most_files`, `ignored` signals and `repeated` (which of `_REPEATED` it runs).
            streams: Its stdin, stdout and stderr, then the further descriptors.
        """
        with self._lock:
            channel = self._channel = self._channel or self._start(program["environment"])
            # The parent of the fork ends at once. The kernel gives the fork to this process, which can wait for it.
            _adopt_orphans(True)
            try:
                socket.send_fds(channel, [json.dumps(program).encode()], streams)
                # The fork tells its id once it is as a new process would be, the server that the parent has ended.
                pid = max(int(channel.recv(64)), int(channel.recv(64)))
            finally:
                _adopt_orphans(False)
        return pid

    def use(self, channel: socket.socket, pid: int, environment: Mapping[str, str]) -> None:
        """Use a child process that runs already, and what it has read of an environment."""
        channel.settimeout(_PATIENCE_S)
        self._channel, self._process, self._read_once = channel, pid, _select_read_once(environment)

    def close(self) -> None:
        """End the process."""
        if self._channel is not None and self._process is not None:
            self._channel.close()
            self._channel = None
            if isinstance(self._process, int):
                os.waitpid(self._process, 0)
            else:
                self._process.wait(_PATIENCE_S)

    def _start(self, environment: Mapping[str, str]) -> socket.socket:
        self._read_once = _select_read_once(environment) | _read_frames()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(_PATIENCE_S)
        with theirs, unwaited.shared():
            self._process = subprocess.Popen(
                [
                    *(_EXECUTABLE, "-m", "tests.fakes.fork_server", str(theirs.fileno()), self.package),
                    *(*self.tests, _ROOM),
                ],
                env={name: value for name, value in environment.items() if name not in _LEFT_OUT}
                | _read_frames()
                | {"ROOM": _ROOM},
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        return ours


class ForkedProgram(subprocess.Popen[str]):
    """`Popen` of `[sys.executable, "-m", MODULE, *ARGUMENTS]`: a fork where that is the same."""

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *rest: Any) -> None:
        execute_child(self, args, executable, preexec_fn, *rest)


def control_terminal() -> None:
    """Let stdin control the session that this process leads: closing it is a hangup. A `preexec_fn` that forks too."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def control_without_hangup() -> None:
    """Do the same, and block the hangup. A `preexec_fn` that forks too."""
    control_terminal()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])


def respect_modes() -> None:
    """Make modes of files hold for root too; other users ignore none. A `preexec_fn` that forks too."""
    libc = ctypes.CDLL(None)
    for one in _OVERRIDES:
        libc.prctl(_CAPBSET_DROP, one, 0, 0, 0)  # what a new program gets
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable; then those of higher numbers
    if libc.capget(header, sets) == 0:
        for place in range(2):  # access(2) looks at the permitted
            sets[place] &= ~sum(1 << one for one in _OVERRIDES)
        libc.capset(header, sets)


@dataclass(frozen=True)
class FileLimit:
    """Lets a program have only so many files open. A `preexec_fn` that forks too."""

    most: int

    def __call__(self) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.most, self.most))


_REPEATED = (None, control_terminal, control_without_hangup, respect_modes)
"""What `Popen` may run before a program, and a fork runs too."""
_execute_new = subprocess.Popen._execute_child  # type: ignore[attr-defined]  # private


def execute_child(process: subprocess.Popen[Any], args: Any, executable: Any, preexec_fn: Any, *rest: Any) -> None:
    """Start a process as `Popen` does, or fork where that is the same. Takes the place of its private method."""
    closes, kept, given_folder, given, _, _, is_shell, *pipes = rest[:13]
    environment = os.environ if given is None else given
    folder = os.fspath(given_folder or Path.cwd())
    program = _read_program(args)
    # Then: whether signals are restored, three ids, the umask, the session and the group.
    can_repeat = preexec_fn in _REPEATED or isinstance(preexec_fn, FileLimit)
    is_plain = closes and not is_shell and executable is None and can_repeat
    is_plain &= [*rest[13:17], *rest[19:]] == [True, None, None, None, -1]
    if program is None or not is_plain or not Path(folder).is_dir() or not server.can_fork(environment):
        _execute_new(process, args, executable, preexec_fn, *rest)
        return
    most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    program |= {
        "environment": dict(environment),
        "folder": folder,
        "umask": rest[17],
        "is_session": rest[18],
        "repeated": _REPEATED.index(preexec_fn) if preexec_fn in _REPEATED else 0,
        "kept": list(kept),
        "most_files": [preexec_fn.most] * 2 if isinstance(preexec_fn, FileLimit) else most_files,
        "ignored": [one for one in _SIGNALS if signal.getsignal(one) == signal.SIG_IGN],
    }
    streams = [own if one == -1 else one for own, one in enumerate((pipes[0], pipes[3], pipes[5]))]
    try:
        process.pid = server.fork(program, [*streams, *kept])
        process._child_created = True  # type: ignore[attr-defined]  # private
    finally:
        process._close_pipe_fds(*pipes)  # type: ignore[attr-defined]  # private


def fork_programs(tests: Sequence[str] = ()) -> None:
    """Let this process fork whatever it starts from now on, where that is the same.

    `tests` are arguments of pytest: the forks have loaded what they name.
    """
    server.tests = tests
    subprocess.Popen._execute_child = execute_child  # type: ignore[attr-defined]  # private


def _read_program(args: Any) -> dict[str, Any] | None:
    """Read the command line of a module, or of a script of the fakes. None where it cannot be forked."""
    if isinstance(args, str | bytes | os.PathLike) or not args or args[0] != _EXECUTABLE:
        return None
    words = [os.fsdecode(one) for one in args[1:]]
    if tuple(words) == _WORKER:
        return {"module": "", "arguments": [], "is_apart": False, "command": [_EXECUTABLE, *words]}
    if words[:1] and Path(words[0]).parent == _FAKES:
        return {"module": words[0], "arguments": words[1:], "is_apart": False, "command": [_EXECUTABLE, *words]}
    is_apart = words[:1] == ["-P"]
    dash, module, *arguments = [*words[is_apart:], "", ""][: max(2, len(words) - is_apart)]
    if dash != "-m" or module.partition(".")[0] not in _PROGRAMS or module in _NEW_PROGRAMS:
        return None
    return {"module": module, "arguments": arguments, "is_apart": is_apart, "command": [_EXECUTABLE, *words]}


def _join_pages() -> None:
    """Let the system join memory into large pages where it can: a fork copies an entry for each."""
    advise = ctypes.CDLL(None).madvise
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, rights, _, _, file, *name = line.split()
        first, last = (int(end, 16) for end in place.split("-"))
        first, last = -(-first // _LARGE_PAGE) * _LARGE_PAGE, last // _LARGE_PAGE * _LARGE_PAGE
        if first < last and rights == "rw-p" and file == "0" and name in ([], ["[heap]"]):
            advise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _COLLAPSE)


def _adopt_orphans(value: bool) -> None:
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, int(value), 0, 0, 0)


def _select_read_once(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value for name, value in environment.items() if name.startswith(_READ_ONCE) and name not in _TAKEN_OVER
    }


def _read_frames() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name == _FRAMES}


def _serve(channel: socket.socket) -> dict[str, Any] | None:
    """Fork for each request until the channel is closed. Return the program in the fork, None in the server."""
    while True:
        request, streams, _, _ = socket.recv_fds(channel, _MOST_BYTES, _MOST_STREAMS)
        if not request:
            return None
        between = os.fork()
        if between == 0:
            parent = os.getpid()
            if os.fork():
                os._exit(0)
            while os.getppid() == parent:
                os.sched_yield()
            program: dict[str, Any] = json.loads(request)
            _become(program, streams, channel)
            return program
        os.waitpid(between, 0)
        channel.send(b"0")
        for stream in streams:
            os.close(stream)


def _become(program: Mapping[str, Any], streams: list[int], channel: socket.socket) -> None:
    """Take over what a new process gets from its parent. Then tell the own id and close the channel."""
    numbers = [0, 1, 2, *program["kept"]]
    # First above all of them, so that none is overwritten before it is in its place.
    first = max(*numbers, *streams, channel.fileno()) + 1
    telling, *high = [fcntl.fcntl(one, fcntl.F_DUPFD, first) for one in (channel.fileno(), *streams)]
    channel.detach()
    os.closerange(3, first)
    for number, stream in zip(numbers, high, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(program["folder"])
    os.environ.clear()
    os.environ.update(program["environment"])
    time.tzset()
    if program.get("umask", -1) != -1:
        os.umask(program["umask"])
    if "most_files" in program:
        resource.setrlimit(resource.RLIMIT_NOFILE, program["most_files"])
    for one in _SIGNALS if "ignored" in program else ():
        usual = signal.default_int_handler if one == signal.SIGINT else signal.SIG_DFL
        signal.signal(one, signal.SIG_IGN if one in program["ignored"] else usual)
    if program["is_session"]:
        os.setsid()
    if (repeated := _REPEATED[program.get("repeated", 0)]) is not None:
        repeated()
    _show(program["command"])
    sys.argv = [program["module"], *program["arguments"]]
    added = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    own_folder = str(_FAKES) if program["module"].endswith(".py") else program["folder"]
    folders = [] if program["is_apart"] else [own_folder]
    sys.path[:] = [*folders, *added, *(one for one in sys.path[1:] if one not in added)]
    locale = next((os.environ[name] for name in _LOCALES if os.environ.get(name)), "C")
    errors = "surrogateescape" if locale.partition(".")[0] in ("C", "POSIX") else "strict"
    is_unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        raw = io.FileIO(number, "w" if number else "r", closefd=False)
        binary = raw if number and is_unbuffered else io.BufferedWriter(raw) if number else io.BufferedReader(raw)
        opened = io.TextIOWrapper(
            binary,
            encoding="utf-8",
            errors="backslashreplace" if name == "stderr" else errors,
            newline="\n",
            line_buffering=not is_unbuffered and (number == 2 or raw.isatty()),
            write_through=is_unbuffered,
        )
        setattr(sys, name, opened)
        setattr(sys, f"__{name}__", opened)
    os.write(telling, str(os.getpid()).encode())
    os.close(telling)


def _serve_program() -> dict[str, Any] | None:
    """Fork a process that forks for each start of this program. Return the program in such a fork, None in this one.

    A swarm starts worlds, workbenches and servers, and a worker what its tests start; both have threads by then, and
    cannot be forked themselves.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if pid := os.fork():
        theirs.close()
        server.use(ours, pid, os.environ)
        return None
    # Signals to the program's group, its terminal and its folder are none of this process's business.
    os.setsid()
    os.chdir("/")
    _show([_EXECUTABLE, "-m", "tests.fakes.fork_server"])
    ours.close()
    quiet = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(quiet, number)
    os.closerange(3, theirs.fileno())
    os.closerange(theirs.fileno() + 1, _MOST_DESCRIPTORS)
    program = _serve(theirs)
    if program is None:
        os._exit(0)
    return program


def _show(words: list[str]) -> None:
    """Put a command line and the environment where the system shows those of this process.

    That is where the first environment stood, of which nothing is left by now.
    """
    places = list(map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:49]))
    variables = [f"{name}={value}" for name, value in os.environ.items()]
    for start, end, texts in zip(places[::2], places[1::2], (words, variables), strict=True):
        shown = b"".join(os.fsencode(text) + b"\0" for text in texts)
        if len(shown) <= end - start:
            ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)


def _work() -> None:
    """Be a worker of pytest-xdist, whose tests find the server of this process here."""
    sys.modules["tests.fakes.fork_server"] = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    exec(_WORKER[-1], sys.modules["__main__"].__dict__)


def _run(module: str) -> None:
    """Run a module or a script as the program. End as it does, but without taking all loaded modules apart."""
    codes: list[int] = []

    def leave() -> None:
        # A thread that still runs can keep an interpreter from its end; that is left to show. A timer only waits.
        others = [one for one in threading.enumerate() if one is not threading.main_thread()]
        if codes and all(isinstance(one, threading.Timer) for one in others):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(codes[0])

    for name in (module, f"{module}.__main__"):  # tests have loaded it, and `runpy` would warn of a second copy
        if not hasattr(sys.modules.get(name), "__path__"):
            sys.modules.pop(name, None)
    atexit.register(leave)  # the first that is registered is called last
    try:
        if module.endswith(".py"):
            runpy.run_path(module, run_name="__main__")
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            codes.append((exit_.code or 0) & 0xFF)
        raise
    codes.append(0)


def _load_tests(arguments: list[str]) -> None:
    """Load what pytest collects, and what each worker would make for its first property.

    Starts anew without tests where that fails.
    """
    import pytest

    from tests.fakes.collected_tests import collection

    sys.modules["tests.fakes.fork_server"] = sys.modules["__main__"]
    with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
        files = [one.partition("::")[0] for one in arguments]
        ended = pytest.main(["--collect-only", "-n0", "-p", "no:cacheprovider", *files], plugins=[collection])
    if ended != pytest.ExitCode.NO_TESTS_COLLECTED:  # half a module may have stayed; the workers say why
        os.execv(_EXECUTABLE, [_EXECUTABLE, "-m", "tests.fakes.fork_server", *sys.argv[1:3], _ROOM])

    from hypothesis import given, settings, strategies

    from tests.fakes.encodable_characters import write_encodable

    write_encodable()

    @settings(database=None, max_examples=200)
    @given(strategies.text())
    def take(_text: str) -> None:
        """Nothing."""

    take()


def main(descriptor: str, package: str, tests: list[str]) -> None:
    """Load all modules of a package, and tests, then fork for each request. A fork runs the program."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.disable()  # what is loaded stays: looking through it again and again is a fifth of the time
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as in the tests
        for module in walk_packages(import_module(package).__path__, f"{package}."):
            if not module.name.endswith(_LATER):
                import_module(module.name)
    if tests:
        _load_tests(tests)
        import_module("tests.fakes.first_uses").do_first_uses()  # in time for the workers and their forks
    gc.collect()
    gc.freeze()
    gc.enable()
    _join_pages()
    channel = socket.socket(fileno=int(descriptor))
    program = _serve(channel)
    while program is not None:
        is_worker = not program["module"]
        is_swarm = program["module"] in _SWARMS and "run" in program["arguments"]
        started = _serve_program() if is_swarm or is_worker else None
        if started is None and is_worker:
            _work()
        elif started is None:
            if is_swarm:
                fork_programs()
            _run(program["module"])
        program = started


server = ForkServer()
"""That of this worker."""

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:-1])
