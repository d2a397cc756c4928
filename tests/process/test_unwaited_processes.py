"""A test that does not wait for the end of its process fails itself.

No later test of its worker fails for it.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable

import pytest

from tests.fakes.processes import is_alive
from tests.fakes.unwaited_processes import UnwaitedProcesses

LASTING = ["sleep", "600"]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> UnwaitedProcesses:
    monkeypatch.setattr(subprocess.Popen, "__init__", subprocess.Popen.__init__)
    watch = UnwaitedProcesses()
    watch.watch()
    return watch


def wait(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    ("use", "is_left"),
    [(lambda _: None, True), (lambda one: one.kill(), True), (wait, False)],
    ids=["runs", "was killed", "was waited for"],
)
def test_a_process_is_left_until_somebody_waits(
    watch: UnwaitedProcesses, use: Callable[[subprocess.Popen[bytes]], None], is_left: bool
) -> None:
    process = subprocess.Popen(LASTING)
    use(process)
    assert watch.take() == [str(LASTING)] * is_left
    assert not is_alive(process.pid)
    assert watch.take() == []


async def test_a_process_of_asyncio_is_found(watch: UnwaitedProcesses) -> None:
    process = await asyncio.create_subprocess_exec(*LASTING)
    assert watch.take() == [str(tuple(LASTING))]
    await process.wait()


def test_what_several_tests_share_is_left_alone(watch: UnwaitedProcesses) -> None:
    with watch.shared(), subprocess.Popen(LASTING) as process:
        assert watch.take() == []
        assert process.poll() is None
        process.kill()
