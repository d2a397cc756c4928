"""The lock of a workspace: one owner, which other processes can read."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
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


def test_the_lock_file_names_its_holder(tmp_path: Path) -> None:
    with OwnerLock(tmp_path, Path("/run/s.sock"), since=7):
        assert read_holder(tmp_path) == Holder(os.getpid(), "/run/s.sock", 7)
    assert read_holder(tmp_path) is None


def test_a_new_workspace_has_no_holder(tmp_path: Path) -> None:
    assert read_holder(tmp_path) is None


def test_an_impossible_path_has_no_holder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert read_holder(tmp_path / "file" / "data") is None


def test_a_second_owner_is_refused_with_the_holder_s_process(tmp_path: Path) -> None:
    with OwnerLock(tmp_path, Path("/run/s.sock")):
        with pytest.raises(WorkspaceHeld, match=f"process {os.getpid()}") as caught:
            OwnerLock(tmp_path, Path("/run/other.sock")).acquire()
        assert "zoea run" in caught.value.hint
    with OwnerLock(tmp_path, Path("/run/other.sock")):
        assert read_holder(tmp_path) == Holder(os.getpid(), "/run/other.sock")


def test_reading_the_holder_does_not_block_an_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / LOCK_NAME).touch()
    asking = os.open(tmp_path / LOCK_NAME, os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH)
    monkeypatch.setattr(lock, "sleep", lambda _seconds: os.close(asking))
    with OwnerLock(tmp_path, Path("/run/s.sock")):
        assert read_holder(tmp_path) == Holder(os.getpid(), "/run/s.sock")


def test_acquire_gives_up_if_the_lock_stays_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / LOCK_NAME).touch()
    asking = os.open(tmp_path / LOCK_NAME, os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH)
    monkeypatch.setattr(lock, "sleep", lambda _seconds: None)
    with pytest.raises(WorkspaceHeld, match="another process"):
        OwnerLock(tmp_path, Path("/run/s.sock")).acquire()
    os.close(asking)


def test_a_lock_that_is_passed_on_is_never_free_in_between(tmp_path: Path) -> None:
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


def test_a_killed_owner_releases_the_lock(tmp_path: Path) -> None:
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


def test_only_the_lock_decides_not_the_text_of_the_file(tmp_path: Path) -> None:
    with OwnerLock(tmp_path, Path("/run/s.sock")) as lock:
        lock.path.write_text("nonsense")
        assert read_holder(tmp_path) == Holder(None, "")
        with pytest.raises(WorkspaceHeld, match="another process"):
            OwnerLock(tmp_path, Path("/run/s.sock")).acquire()


def test_releasing_twice_is_allowed(tmp_path: Path) -> None:
    lock = OwnerLock(tmp_path, Path("/run/s.sock"))
    lock.acquire()
    lock.release()
    lock.release()
    assert (tmp_path / "zoea.lock").stat().st_mode & 0o777 == 0o600


def test_an_unwritable_directory_raises_store_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("zoea.process.lock.os.open", refuse)
    with pytest.raises(StoreError, match=r"zoea\.lock cannot be written: Read-only file system"):
        OwnerLock(tmp_path, tmp_path / "socket").acquire()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_or_quota_leaves_the_lock_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def full(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr("zoea.process.lock.os.pwrite", full)
        with pytest.raises(StoreError, match=os.strerror(code)):
            OwnerLock(tmp_path, tmp_path / "socket").acquire()
    with OwnerLock(tmp_path, tmp_path / "socket"):
        assert read_note(tmp_path / LOCK_NAME) is not None


@pytest.mark.parametrize("kind", ["flock", "lockf"])
def test_a_file_system_with_locks_that_exclude_no_process_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(fcntl, kind, lambda *_arguments: None)
    with pytest.raises(StoreError, match="locks do not hold") as caught:
        OwnerLock(tmp_path, Path("/run/s.sock")).acquire()
    assert "local disk" in caught.value.hint


def test_a_file_system_without_locks_is_refused_and_has_no_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_descriptor: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError, match=r"zoea\.lock cannot be locked: No locks available"):
        OwnerLock(tmp_path, Path("/run/s.sock")).acquire()
    assert read_holder(tmp_path) is None


def test_a_lock_that_is_a_link_is_refused_and_its_target_unchanged(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / LOCK_NAME).symlink_to(target)
    with pytest.raises(StoreError, match="symbolic link"):
        OwnerLock(tmp_path, Path("/run/s.sock")).acquire()
    assert read_holder(tmp_path) is None
    assert target.read_text() == "mine"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o604])
def test_a_lock_file_that_others_may_read_is_closed_to_them(tmp_path: Path, mode: int) -> None:
    (tmp_path / LOCK_NAME).touch()
    (tmp_path / LOCK_NAME).chmod(mode)
    with OwnerLock(tmp_path, Path("/run/s.sock")):
        assert (tmp_path / LOCK_NAME).stat().st_mode & 0o777 == 0o600


def test_a_removed_lock_file_lets_no_second_owner_in(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"held\n"
        (tmp_path / LOCK_NAME).unlink()
        with pytest.raises(WorkspaceHeld, match="another process"):
            OwnerLock(tmp_path, Path("/run/other.sock")).acquire()
        owner.kill()
    with OwnerLock(tmp_path, Path("/run/other.sock")):
        assert read_holder(tmp_path) == Holder(os.getpid(), "/run/other.sock")


@pytest.mark.parametrize("is_there", [False, True])
def test_a_removed_lock_file_is_written_again(tmp_path: Path, is_there: bool) -> None:
    with OwnerLock(tmp_path, Path("/run/s.sock")) as owner:
        assert not owner.restore_file()
        (tmp_path / LOCK_NAME).unlink()
        if is_there:  # of the process that was refused
            (tmp_path / LOCK_NAME).touch()
        assert read_holder(tmp_path) == Holder(None, "")
        assert owner.restore_file()
        assert read_holder(tmp_path) == Holder(os.getpid(), "/run/s.sock")
        assert not owner.restore_file()
    assert read_holder(tmp_path) is None


def test_a_file_system_that_locks_no_directories_has_the_lock_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = fcntl.flock

    def refuse(descriptor: int, how: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        usual(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", refuse)
    with OwnerLock(tmp_path, Path("/run/s.sock")):
        assert read_holder(tmp_path) == Holder(os.getpid(), "/run/s.sock")
