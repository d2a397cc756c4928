"""Children of a swarm end with it: in the orderly end, at the deadline and when the owner is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.zoea_process import spawn
from tests.fakes import mcp_faulty
from tests.fakes.processes import is_alive, wait_for_end
from tests.waiting import until_true


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Configure an upstream that ignores SIGTERM and the end of its input. It leaves such a process behind."""
    path = tmp_path / "journal"
    config = tmp_path / "config"
    config.mkdir()
    (config / "config.toml").write_text(
        f'[upstream.deaf]\ncommand = "{sys.executable}"\nargs = ["{mcp_faulty.__file__}"]\n'
        f'[upstream.deaf.env]\nFAULTY_MODE = "deaf,parent"\nFAULTY_JOURNAL = "{path}"\n'
    )
    return path


@pytest.fixture
def owner(journal: Path) -> Iterator[subprocess.Popen[str]]:
    process = spawn("run", "--headless", "--json", "--myses", "0")
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate(timeout=30)


def _children(journal: Path) -> list[int]:
    """Wait until the upstream has started. Return its process and the one that it leaves behind."""

    def read() -> list[int]:
        if not journal.exists():
            return []
        lines = [json.loads(line) for line in journal.read_text().splitlines() if line.endswith("}")]
        children = [line["child"] for line in lines if line["what"] == "child"]
        return [*children, lines[0]["pid"]] if children else []

    found: list[int] = until_true(read)
    assert all(is_alive(pid) for pid in found)
    return found


def test_deaf_children_are_killed_before_the_owner_leaves(journal: Path, owner: subprocess.Popen[str]) -> None:
    children = _children(journal)
    owner.send_signal(signal.SIGTERM)
    _, trouble = owner.communicate(timeout=30)
    assert owner.returncode == 0, trouble  # a process that does not end in time is ended with another code
    assert not [pid for pid in children if is_alive(pid)]


def test_deaf_children_end_with_an_owner_that_is_killed(journal: Path, owner: subprocess.Popen[str]) -> None:
    children = _children(journal)
    owner.kill()
    owner.wait()
    for pid in children:
        wait_for_end(pid)
