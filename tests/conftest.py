"""Every test runs apart from the person's home, environment, keyring and the network beyond loopback."""

from __future__ import annotations

import gc
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.tmpdir import tmppath_result_key
from hypothesis import HealthCheck, Phase, is_hypothesis_test, settings

from tests.fakes.collected_tests import collection
from tests.fakes.database_template import create_by_copy, migrate_without_waiting
from tests.fakes.fork_server import execute_child, fork_programs
from tests.fakes.fork_server import server as fork_server
from tests.fakes.loopback import keep_to_loopback
from tests.fakes.processes import find_children, find_processes, wait_until_none
from tests.fakes.unwaited_processes import unwaited
from tests.memory_folders import MEMORY, put_folders_into_memory
from tests.running_order import find_part, put_long_first
from tests.worker_messages import shorten_messages
from zoea.process.group_guard import guard
from zoea.store import store as store_module

# An explanation of a failure traces each line of all further tries, which takes longer than any test may.
_PHASES = [phase for phase in Phase if phase is not Phase.explain]
_NO_DEADLINE = settings(deadline=None, phases=_PHASES, suppress_health_check=list(HealthCheck))
settings.register_profile("quick", _NO_DEADLINE, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", _NO_DEADLINE, max_examples=500)
settings.register_profile("soak", _NO_DEADLINE, max_examples=5000)
settings.load_profile("soak" if os.environ.get("ZOEA_SOAK") else "quick")

# Where the environment forbids to write bytecode, each worker rewrites all assertions and each `zoea` compiles itself.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Zoea draws up to 240 frames a second, which is a tenth of the time of a cockpit that nobody looks at.
os.environ.setdefault("TEXTUAL_FPS", "25")

# Reading the certificates of the system takes 50 ms of each process that speaks HTTP, and 25 of each MCP connection.
_ONE_CERTIFICATE = Path(__file__).parent / "fakes" / "one_certificate.pem"

_LEAKY = ("ZOEA_", "XDG_", "OPENAI_", "ANTHROPIC_", "OLLAMA_", "OPENROUTER_", "GROQ_", "MISTRAL_", "GEMINI_")

_FOLDERS = itertools.count()

SOAK_LIMIT = 3600
"""Seconds of each test at full strength; a test that needs more says so itself."""

SHRINKING_LIMIT = 420
"""Seconds of a test whose examples are drawn: Hypothesis simplifies one that fails for up to five minutes.

Where it is stopped before, its report does not show the example.
"""

_TERMINAL = ("COLUMNS", "LINES")  # readline, once imported, sets them for every process started later


def pytest_configure(config: pytest.Config) -> None:
    """Change this process for the tests that it will run. What only collects them may become something else."""
    if config.option.collectonly:
        return
    # Collecting a test process's large heap every 700 objects is a quarter of the time of a screen's test.
    gc.set_threshold(100_000, 50, 100)
    unwaited.watch()
    keep_to_loopback()
    put_folders_into_memory()
    # `tests/store` and started processes run the migrations.
    store_module._create_file = create_by_copy
    store_module.migrate = migrate_without_waiting  # type: ignore[assignment,attr-defined]  # one argument has a default


def pytest_xdist_auto_num_workers() -> int:
    """Five workers for two cores: half of the time of the tests are waits for other processes."""
    return 5 * len(os.sched_getaffinity(0)) // 2


def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Fork the workers from one process that has loaded Zoea, unless coverage counts its loading."""
    if not config.getoption("cov_source", None):
        fork_programs(config.args)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run long tests first, and give each test the time that it may need: at full strength at least an hour."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    items[:] = put_long_first(items, workers, lambda item: find_part(item.nodeid))
    for item in items:
        is_drawn = isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)
        least = SOAK_LIMIT if os.environ.get("ZOEA_SOAK") else SHRINKING_LIMIT if is_drawn else 0
        own = item.get_closest_marker("timeout")
        if least and (own is None or own.args[0] < least):
            item.add_marker(pytest.mark.timeout(least), append=False)


def pytest_sessionstart(session: pytest.Session) -> None:
    """End a run at SIGTERM as at ctrl+c, so that its tests end their processes.

    A shell starts what runs in the background with ctrl+c ignored, which the processes of the tests would inherit.
    """
    shorten_messages(session.config)
    collection.offer(session)
    if not session.config.option.collectonly and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[Any]:
    """Let what is shared by several tests have processes that outlast each of them."""
    if fixturedef.scope == "function":
        return (yield)
    with unwaited.shared():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Fail the test that started a process and did not wait for its end. Otherwise a later one would fail."""
    yield
    left = unwaited.take()
    assert not left, f"started, and nobody waited for: {left}"


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """End what workers were forked from, and leave memory to the system: Python would look through all of it again."""
    fork_server.close()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_process_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fail the session if a process that a test started still runs at its end."""
    yield
    guard.close()
    fork_server.close()
    marks = (f"{tmp_path_factory.getbasetemp()}/",)
    left = wait_until_none(lambda: find_processes(marks) | find_children(os.getpid()))
    assert not left, f"processes that tests started still run: {left}"


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A new directory, removed from memory after a test that passes.

    That of pytest also makes a link to the newest, which took as long again.
    """
    name = re.sub(r"\W", "_", request.node.name)[:26]
    folder = Path(tmp_path_factory.getbasetemp(), f"{name}_{next(_FOLDERS)}")
    folder.mkdir(mode=0o700)
    yield folder
    if folder.is_relative_to(MEMORY) and all(request.node.stash.get(tmppath_result_key, {}).values()):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home, working directory, configuration and data directory of the test's own."""
    for name in list(os.environ):
        if (name.startswith(_LEAKY) and name != "ZOEA_SOAK") or name in _TERMINAL:
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    work = tmp_path / "cwd"
    for folder in (home, work):
        folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.setenv("ZOEA_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("ZOEA_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("ZOEA_SWARM__DISCOVER", "false")  # a person's own model server is none of a test's business
    monkeypatch.setenv("SSL_CERT_FILE", str(_ONE_CERTIFICATE))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    monkeypatch.chdir(work)


@pytest.fixture
def forked_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork for each program of this repository that the test starts. Libraries and the package itself fork too."""
    monkeypatch.setattr(subprocess.Popen, "_execute_child", execute_child)


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A directory with a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="zoea-") as folder:
        yield Path(folder)


@pytest.fixture
def own_runtime(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the sockets of a test into its own directory with a short path."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
