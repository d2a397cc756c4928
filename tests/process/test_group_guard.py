"""Process groups end with the process that guards them, however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.case_tables import walk_cases
from tests.fakes.processes import is_alive, wait_for_end
from tests.waiting import until_true
from zoea.process.group_guard import MARK, GroupGuard, end_marked, find_marked, make_mark

ROOT = Path(__file__).parents[2]
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
OWNER = f"""
import subprocess, sys, time
from zoea.process.group_guard import guard
children = [
    subprocess.Popen([sys.executable, "-c", {DEAF!r}], start_new_session=True, stdout=subprocess.PIPE) for _ in range(3)
]
for child in children:
    child.stdout.readline()
    guard.add(child.pid)
guard.end(children[0].pid)
children[0].wait()
print(*(child.pid for child in children), guard.pid, flush=True)
time.sleep(600)
"""


def test_guarded_groups_end_with_a_killed_owner() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, cwd=ROOT) as owner:
        assert owner.stdout is not None
        first, *others, shell = (int(word) for word in owner.stdout.readline().split())
        assert not is_alive(first), "a group that was ended is killed at once"
        assert all(is_alive(pid) for pid in others)
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    for pid in (*others, shell):
        wait_for_end(pid)


STRAY = """
import os, subprocess, sys, time
from zoea.process.group_guard import MARK, guard, make_mark
mark = make_mark()
line = "setsid sleep 600 >/dev/null 2>&1 & echo $!"
child = subprocess.Popen(
    ["sh", "-c", line + "; sleep 600"], start_new_session=True, env={**os.environ, MARK: mark}, stdout=subprocess.PIPE
)
guard.add(child.pid, mark)
print(child.pid, child.stdout.readline().decode().strip(), flush=True)
time.sleep(600)
"""


def test_a_marked_process_that_left_its_group_ends_with_a_killed_owner() -> None:
    with subprocess.Popen([sys.executable, "-c", STRAY], stdout=subprocess.PIPE, cwd=ROOT) as owner:
        assert owner.stdout is not None
        pids = [int(word) for word in owner.stdout.readline().split()]
        assert all(map(is_alive, pids))
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    for pid in pids:
        wait_for_end(pid)


def test_marked_processes_end_alone() -> None:
    mark, other = make_mark(), make_mark()
    strays = [
        subprocess.Popen(["sleep", "600"], start_new_session=True, env={**os.environ, MARK: value})
        for value in (mark, other, mark)
    ]
    try:
        until_true(lambda: len(find_marked(mark)) == 2, within=10.0)
        end_marked(mark)
        assert find_marked(mark) == []
        assert [is_alive(one.pid) for one in strays] == [False, True, False]
    finally:
        for one in strays:
            one.kill()
            one.wait()


def test_a_guard_whose_shell_was_killed_starts_another_one() -> None:
    guard = GroupGuard()
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    other = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        guard.add(child.pid)
        shell = guard.pid
        assert shell is not None
        os.kill(shell, signal.SIGKILL)
        wait_for_end(shell)
        guard.add(other.pid)
        assert guard.pid != shell
        guard.close()
        assert child.wait(10) == -signal.SIGKILL
        assert other.wait(10) == -signal.SIGKILL
    finally:
        child.kill()
        other.kill()


def test_the_signals_of_a_logout_leave_the_guard_at_work() -> None:
    guard = GroupGuard()
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        guard.add(child.pid)
        shell = guard.pid
        assert shell is not None
        until_true(lambda: ignores(shell, signal.SIGTERM), within=10.0)  # it has begun to run
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
            os.kill(shell, number)
        assert is_alive(shell)
        guard.close()
        assert child.wait(10) == -signal.SIGKILL
    finally:
        child.kill()


def test_a_group_that_was_ended_is_not_killed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may be that of another group by then."""
    guard = GroupGuard()
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    other = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        guard.add(child.pid)
        guard.add(other.pid)
        with monkeypatch.context() as patched:
            patched.setattr(os, "killpg", lambda *_: None)  # as if the group had another process now
            guard.end(child.pid)
        guard.close()
        assert other.wait(10) == -signal.SIGKILL
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def ignores(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line for line in status.splitlines() if line.startswith("SigIgn:")).split()[1]
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_a_group_of_a_process_that_is_no_child_gets_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may give the id of a child that ended to another process."""
    guard = GroupGuard()
    script = "setsid sleep 600 >/dev/null 2>&1 & echo $!"
    started = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    other = int(started.stdout)
    sent: list[tuple[int, int]] = []
    try:
        until_true(lambda: os.getpgid(other) == other)  # the group of that id is its own
        guard.add(other)
        with monkeypatch.context() as patched:
            patched.setattr(os, "killpg", lambda *call: sent.append(call))
            guard.signal(other, signal.SIGTERM)
            guard.end(other)
        assert sent == []
        guard.close()
        assert is_alive(other)
    finally:
        os.kill(other, signal.SIGKILL)
        guard.close()


def test_what_is_left_of_a_group_ends_after_its_first_process_was_reaped() -> None:
    guard = GroupGuard()
    with subprocess.Popen(
        ["sh", "-c", "sleep 600 >/dev/null & echo $!"], start_new_session=True, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        rest = int(child.stdout.readline())
        guard.add(child.pid)
        child.wait(10)
    assert is_alive(rest)
    guard.end(child.pid)
    wait_for_end(rest)
    guard.close()


@walk_cases("group", [-1, 0, 1, os.getpgrp()])
def test_an_id_that_names_more_than_a_child_is_refused(group: int) -> None:
    with pytest.raises(ValueError, match="is no group of a child"):
        GroupGuard().add(group)


def test_the_guard_alone_sends_signals() -> None:
    signals = re.compile(r"\b(?:os\.kill|killpg|pidfd_send_signal|send_signal|terminate|kill)\(")
    senders = {file.name for file in (ROOT / "zoea").rglob("*.py") if signals.search(file.read_text(encoding="utf-8"))}
    assert senders == {"group_guard.py"}
