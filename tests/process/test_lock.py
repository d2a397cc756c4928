"""One owner per workspace, and everybody can find out who."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from zoea.model.errors import StoreError, WorkspaceHeld
from zoea.process import lock
from zoea.process.lock import LOCK_NAME, Holder, OwnerLock, read_holder, read_note

HOLD = """
import sys
from pathlib import Path
from zoea.process.lock import OwnerLock
OwnerLock(Path(sys.argv[1]), Path("/run/s.sock"), since=7).acquire()
print("held", flush=True)
sys.stdin.read()
"""

PASSED_ON = """
import subprocess, sys, time
from pathlib import Path
from zoea.process.lock import OwnerLock
OwnerLock(Path(sys.argv[1]), Path("/run/s.sock"), since=7).acquire()
its = subprocess.Popen(["sleep", "600"], close_fds=False, stdout=subprocess.DEVNULL)
print("held", its.pid, sep="\\n", flush=True)
time.sleep(600)
"""


def test_who_holds_it_is_written_for_the_others(tmp_path: Path) -> None:
    with OwnerLock(tmp_path, Path("/run/s.sock"), since=7):
        assert read_holder(tmp_path) == Holder(os.getpid(), "/run/s.sock", 7)
    assert read_holder(tmp_path) is None


def test_nobody_holds_a_workspace_that_was_never_opened(tmp_path: Path) -> None:
    assert read_holder(tmp_path) is None


def test_nobody_holds_a_workspace_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert read_holder(tmp_path / "file" / "data") is None


def test_a_second_owner_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    with OwnerLock(tmp_path, Path("/run/s.sock")):
        with pytest.raises(WorkspaceHeld, match=f"process {os.getpid()}") as caught:
            OwnerLock(tmp_path, Path("/run/other.sock")).acquire()
        assert "zoea run" in caught.value.hint
    with OwnerLock(tmp_path, Path("/run/other.sock")):
        assert read_holder(tmp_path) == Holder(os.getpid(), "/run/other.sock")


def test_who_only_asks_keeps_no_owner_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / LOCK_NAME).touch()
    asking = os.open(tmp_path / LOCK_NAME, os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH)
    monkeypatch.setattr(lock, "sleep", lambda _seconds: os.close(asking))
    with OwnerLock(tmp_path, Path("/run/s.sock")):
        assert read_holder(tmp_path) == Holder(os.getpid(), "/run/s.sock")


def test_who_asks_for_ever_is_not_waited_for_as_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / LOCK_NAME).touch()
    asking = os.open(tmp_path / LOCK_NAME, os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH)
    monkeypatch.setattr(lock, "sleep", lambda _seconds: None)
    with pytest.raises(WorkspaceHeld, match="another process"):
        OwnerLock(tmp_path, Path("/run/s.sock")).acquire()
    os.close(asking)


def test_one_that_is_passed_on_is_never_free_in_between_and_no_child_keeps_it(tmp_path: Path) -> None:
    lock = OwnerLock(tmp_path, Path("/run/s.sock"), since=3)
    lock.acquire()
    children: list[subprocess.Popen[bytes]] = []
    command = [sys.executable, "-c", PASSED_ON, str(tmp_path)]
    lock.pass_on(lambda descriptor: children.append(_child(command, stdin=descriptor)))
    (child,) = children
    assert child.stdout is not None
    with pytest.raises(WorkspaceHeld):
        OwnerLock(tmp_path, Path("/run/other.sock")).acquire()
    assert child.stdout.readline() == b"held\n"
    grandchild = int(child.stdout.readline())
    assert read_holder(tmp_path) == Holder(child.pid, "/run/s.sock", 7)
    child.kill()
    child.wait(timeout=30)
    try:
        assert read_holder(tmp_path) is None
    finally:
        os.kill(grandchild, signal.SIGKILL)
        child.stdout.close()


def _child(command: list[str], *, stdin: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])


def test_a_killed_owner_holds_nothing(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
    )
    assert child.stdout is not None
    assert child.stdin is not None
    assert child.stdout.readline() == b"held\n"
    assert read_holder(tmp_path) == Holder(child.pid, "/run/s.sock", 7)
    child.kill()
    child.wait()
    child.stdin.close()
    child.stdout.close()
    assert read_holder(tmp_path) is None
    assert read_note(tmp_path / "zoea.lock") == Holder(child.pid, "/run/s.sock", 7)
    with OwnerLock(tmp_path, Path("/run/s.sock")):
        pass


def test_a_note_that_says_nothing_is_no_owner_but_the_lock_is(tmp_path: Path) -> None:
    with OwnerLock(tmp_path, Path("/run/s.sock")) as lock:
        lock.path.write_text("nonsense")
        assert read_holder(tmp_path) == Holder(0, "")
        with pytest.raises(WorkspaceHeld, match="another process"):
            OwnerLock(tmp_path, Path("/run/s.sock")).acquire()


def test_giving_up_twice_is_fine(tmp_path: Path) -> None:
    lock = OwnerLock(tmp_path, Path("/run/s.sock"))
    lock.acquire()
    lock.release()
    lock.release()
    assert (tmp_path / "zoea.lock").stat().st_mode & 0o777 == 0o600


def test_where_nothing_can_be_written_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("zoea.process.lock.os.open", refuse)
    with pytest.raises(StoreError, match=r"zoea\.lock cannot be written: Read-only file system"):
        OwnerLock(tmp_path, tmp_path / "socket").acquire()


def test_a_full_disk_takes_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("zoea.process.lock.os.pwrite", full)
        with pytest.raises(StoreError, match="No space left on device"):
            OwnerLock(tmp_path, tmp_path / "socket").acquire()
    with OwnerLock(tmp_path, tmp_path / "socket"):
        assert read_note(tmp_path / LOCK_NAME) is not None
