"""A fork of the fork server is started and ends as a new interpreter does."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from execnet.gateway_io import popen_bootstrapline

from tests.e2e.zoea_process import environment
from tests.fakes import fork_server
from tests.fakes.encodable_characters import ENCODABLE
from tests.fakes.fork_server import ForkedProgram, ForkServer, control_terminal, server
from tests.fakes.processes import find_children, wait_for_end
from tests.waiting import until_true


@pytest.fixture(autouse=True)
def _forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs fork at full strength too."""
    monkeypatch.delenv("ZOEA_SOAK", raising=False)


def run(
    kind: type[subprocess.Popen[str]], ending: str, *, apart: Sequence[str] = (), without: str = "", **options: Any
) -> tuple[int, dict[str, Any], str]:
    """Start the program. Return its exit code, how it was started, and its last line."""
    with kind(
        [sys.executable, *apart, "-m", "tests.fakes.told_start", ending, "é"],
        env={name: value for name, value in (environment() | {"MINE": "1", "TZ": "ZON-3"}).items() if name != without},
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        text=True,
        **options,
    ) as process:
        out, err = process.communicate("a line\r\nand é", timeout=60)
    return process.returncode, json.loads(out), err.strip().rpartition("\n")[2]


@pytest.mark.parametrize("ending", ["end", "code", "text", "error", "signal", "interrupt", "thread"])
def test_a_fork_is_started_and_ends_as_a_new_interpreter_does(ending: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"start_new_session": ending == "code", "cwd": tmp_path if ending == "text" else None}
    if ending == "error":
        options["apart"] = ["-P"]
    elif ending == "end":
        options["without"] = "PYTHONUNBUFFERED"
    elif ending == "signal":
        options["umask"] = 0o27
    elif ending == "thread":
        options["without"] = "TZ"
    assert run(ForkedProgram, ending, **options) == run(subprocess.Popen, ending, **options)


@pytest.mark.usefixtures("forked_programs")
async def test_a_fork_that_asyncio_starts_keeps_the_descriptors_that_it_passes(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file, (tmp_path / "other").open("w") as other:
        kept = (other.fileno(), file.fileno())
        started = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.fakes.told_start", "code"),
            *(f"/proc/self/fd/{one}" for one in kept),
            stdin=subprocess.DEVNULL,
            stdout=PIPE,
            env=environment(),
            pass_fds=kept,
        )
        out, _ = await started.communicate()
    assert started.returncode == 70
    assert json.loads(out)["links"] == [str(tmp_path / "other"), str(tmp_path / "file")]


@pytest.mark.parametrize("kind", [ForkedProgram, subprocess.Popen])
def test_a_program_whose_terminal_controls_its_session_ends_with_it(kind: type[subprocess.Popen[str]]) -> None:
    master, terminal = pty.openpty()
    command = [sys.executable, "-m", "tests.fakes.told_start", "end"]
    options: dict[str, Any] = {"start_new_session": True, "preexec_fn": control_terminal}
    with kind(command, env=environment(), stdin=terminal, stdout=subprocess.DEVNULL, **options) as process:
        os.close(terminal)
        leader = os.tcgetpgrp(master)
        os.close(master)
        assert process.wait(60) == -signal.SIGHUP
    assert leader == process.pid


def test_a_fork_has_limits_and_ignored_signals_of_its_parent_now() -> None:
    run(ForkedProgram, "end")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    handler = signal.getsignal(signal.SIGHUP)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        for ignored in (signal.SIG_IGN, signal.SIG_DFL):
            signal.signal(signal.SIGHUP, ignored)
            assert run(ForkedProgram, "end") == run(subprocess.Popen, "end")
    finally:
        signal.signal(signal.SIGHUP, handler)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


ROOT = Path(__file__).parents[2]
WORK = """
import os, subprocess, sys
from tests.fakes.encodable_characters import ENCODABLE
from tests.fakes.fork_server import ForkedProgram, server
from tests.fakes.processes import find_children

with ForkedProgram([sys.executable, "-m", "tests.fakes.told_start", "code"], stdout=subprocess.DEVNULL) as program:
    code = program.wait()
beside = len(find_children(os.getpid()))
server.close()
has_test = any(name.endswith(".test_shorten") and module.__doc__ for name, module in sys.modules.items())
print(code, beside, len(find_children(os.getpid())), "LOADED" in sys.modules, has_test)
"""
COLLECT = """
import os, pytest
from tests.fakes.collected_tests import collection

class Worker:
    def pytest_configure(self, config):
        config.workerinput = {}

    def pytest_collection_finish(self, session):
        taken.append({*map(id, session.items)} == {*map(id, collection.items)})

os.chdir(ROOT)
taken, codes = [], []
for tests in TESTS:
    codes.append(int(pytest.main(["-qq", "-n0", "-p", "no:cacheprovider", *tests], plugins=[Worker()])))
print()
print(*codes, *taken)
"""
ONE_TEST = "tests/text/test_shorten.py"
A_TEST_OF_THE_PROGRAM = "tests/cli/test_stats.py"
"""Its fixtures load `zoea.__main__`."""
SMALL_PACKAGE = "zoea.text"
"""Loading all of Zoea takes seconds."""
SMALL_MODULE = f"{SMALL_PACKAGE}.task_parts"
"""A module of it that neither those tests nor the cockpit loads."""


@pytest.fixture(scope="module")
def loaded() -> Iterator[ForkServer]:
    """A server that has loaded one package and some tests."""
    server = ForkServer()
    server.package = SMALL_PACKAGE
    server.tests = (ONE_TEST, A_TEST_OF_THE_PROGRAM)
    yield server
    server.close()


@pytest.fixture
def own() -> Iterator[ForkServer]:
    """A server that loads one package."""
    server = ForkServer()
    server.package = SMALL_PACKAGE
    yield server
    server.close()


def test_a_worker_has_loaded_zoea_and_tests(loaded: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ForkServer().package == "zoea"
    assert run_worker(loaded, SMALL_MODULE, monkeypatch) == ("70 1 0 True True\n", "")


def test_a_worker_runs_the_tests_that_were_collected_before_it_was_forked(
    loaded: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is to run others collects them."""
    runs = repr((loaded.tests, (ONE_TEST,)))
    out, err = run_worker(
        loaded, SMALL_MODULE, monkeypatch, COLLECT.replace("TESTS", runs).replace("ROOT", repr(str(ROOT)))
    )
    assert (out.splitlines()[-1], err) == ("0 0 True False", ""), out


@pytest.mark.parametrize("tests", [(), (ONE_TEST, "no file")])
def test_a_worker_has_loaded_no_test_where_one_cannot_be_loaded(
    tests: tuple[str, ...], own: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.tests = tests
    assert run_worker(own, SMALL_MODULE, monkeypatch) == ("70 1 0 True False\n", "")


def run_worker(own: ForkServer, module: str, monkeypatch: pytest.MonkeyPatch, script: str = WORK) -> tuple[str, str]:
    """Run a worker that forks from a server beside it, and ends that. Return what it prints."""
    monkeypatch.setattr(fork_server, "server", own)
    worker = [sys.executable, "-u", "-c", popen_bootstrapline]
    with ForkedProgram(worker, env=environment(), stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as process:
        work = script.replace("LOADED", module)
        return process.communicate(f"{work!r}\n", timeout=60)


def test_a_program_that_tests_have_loaded_says_nothing_of_it(
    loaded: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_server, "server", loaded)
    for words in (("zoea", "--version"), ("zoea.text.shorten",)):
        with ForkedProgram(
            [sys.executable, "-m", *words], env=environment(), stdout=PIPE, stderr=PIPE, text=True
        ) as one:
            _, err = one.communicate(timeout=60)
        assert (one.returncode, err) == (0, ""), words


def test_what_is_read_once_at_a_start_has_a_new_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    run(ForkedProgram, "end")
    assert server.can_fork(environment())
    for name, value in (("PYTHONUTF8", "0"), ("LC_ALL", "de_DE.ISO-8859-1"), ("TEXTUAL_FPS", "1")):
        assert not server.can_fork(environment() | {name: value})
    monkeypatch.setenv("ZOEA_SOAK", "1")
    assert not server.can_fork(environment())


def test_a_closed_server_ends_and_a_fork_goes_on(own: ForkServer) -> None:
    program = {
        "command": [],
        "module": "tests.fakes.told_start",
        "arguments": ["code"],
        "environment": environment(),
        "folder": str(Path.cwd()),
        "is_session": False,
        "is_apart": False,
        "kept": [],
    }
    reading, writing = os.pipe()
    with open(os.devnull, "w") as nothing:
        pid = own.fork(program, [reading, nothing.fileno(), nothing.fileno()])
    own.close()
    os.close(reading)
    os.close(writing)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 70


def test_what_a_forked_swarm_starts_is_forked_beside_it_and_all_ends_with_the_swarm(runtime: Path) -> None:
    own = environment() | {"XDG_RUNTIME_DIR": str(runtime)}
    command = [sys.executable, "-m", "zoea", "run", "--headless", "--json", "--world", "reef", "--myses", "1"]
    with ForkedProgram(command, env=own, stdin=subprocess.DEVNULL, stdout=PIPE, text=True) as swarm:
        children = until_true(lambda: _find_world(swarm.pid))
        [world] = [pid for pid, said in children.items() if "zoea.world" in said]
        # A fork has more room for its environment than it needs.
        assert Path(f"/proc/{world}/environ").read_bytes().endswith(b"\0\0")
        swarm.kill()
        for pid in children:
            wait_for_end(pid)


def _find_world(swarm: int) -> dict[int, str]:
    found = find_children(swarm)
    return found if any("zoea.world" in said for said in found.values()) else {}


def test_hypothesis_is_told_all_characters_that_utf_8_encodes() -> None:
    (first, before), (after, last) = ENCODABLE
    assert (first, last) == (0, sys.maxunicode)
    text = "".join(map(chr, (*range(first, before + 1), *range(after, last + 1))))
    is_same = text.encode().decode() == text  # pytest would take a long time to show a difference
    assert is_same
    assert "".join(map(chr, range(before + 1, after))).encode(errors="ignore") == b""
