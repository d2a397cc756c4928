"""No path and no link leads out of the folder, also while links change.

A file is written whole or not at all.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.case_tables import walk_cases
from tests.files.repositories import snapshot
from tests.waiting import until_true
from zoea.files.safe_folder import SafeFolder, is_git
from zoea.model.errors import FilesError

SOAK = bool(os.environ.get("ZOEA_SOAK"))
MOST = 1_000_000


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("secret")
    return folder


@pytest.fixture
def root(tmp_path: Path, outside: Path) -> Path:
    """A folder with every kind of entry that may lead out of it or hang."""
    root = tmp_path / "root"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "config").write_text("secret")
    (root / "file").write_text("inside")
    (root / "sub" / "file").write_text("inside")
    links = {
        "out": "../outside", "out-file": "../outside/secret", "out-absolute": str(outside), "out-root": "/",
        "out-proc": "/proc/self/root", "out-cwd": "/proc/self/cwd", "out-fd": "/dev/fd/0", "null": "/dev/null",
        "out-slow": "sub/../../outside", "out-deep": "sub/deep/../../../outside/secret", "out-twice": "out",
        "out-chain": "out-twice/secret", "out-dots": "./.././outside", "out-up": "..", "out-prefix": f"{root}-x",
        "out-abs-up": f"{root}/../outside", "loop": "loop", "ping": "pong", "pong": "ping", "to-git": ".git",
        "to-config": "sub/../.git/config", "dangling": "../missing", "dangling-out": f"{outside}/new",
        "sub/out": "../../outside", "sub/up": "..", "sub/git": "../.git", "sub/deep/out": f"{outside}/secret",
        "in": "sub", "in-file": "sub/file", "in-absolute": f"{root}/sub/file", "in-up": "sub/deep/../file",
        "in-dot": ".", "in-chain": "in/deep/../up/file", "out-slash": "../outside/", "out-slashes": "..//outside",
        "out-dot-slash": ".//..//./outside", "out-double": f"/{outside}", "out-task": "/proc/thread-self/root",
        "out-fds": "/proc/self/fd", "out-mem": "/proc/self/mem", "out-tty": "/dev/tty",
        "out-abs-dot": f"{root}/./../outside", "out-abs-link": f"{root}/out", "in-fifo": "fifo", "in-socket": "socket",
        "to-GIT": ".GIT", "to-hooks": f"{root}/.git/hooks", "to-git-slow": "sub/deep/../../.git",
        "sub/deep/far": "../../../../../../../../etc", "missing-up": "missing/../../outside",
        "file-up": "file/../../outside", "loop-deep": "./loop-deep/x",
    }  # fmt: skip
    for name, target in links.items():
        (root / name).symlink_to(target)
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(root)
        server.bind("socket")
        os.chdir(here)
    return root


@pytest.fixture
def folder(root: Path) -> Iterator[SafeFolder]:
    opened = SafeFolder(root)
    yield opened
    opened.close()


_UPWARD = [
    "..", "../", "../outside", "../outside/secret", "../../etc/passwd", "sub/..", "sub/../..",
    "sub/../../outside/secret",
    "./..", "././../outside", "sub/deep/../../..", "sub//..//..", "../root/file", "../root/../outside/secret",
    "sub/./../..", "a/../../outside/secret", "missing/../../outside/secret", "..//outside", "../.", "../root",
]  # fmt: skip
_ABSOLUTE = [
    "/", "//", "///etc/passwd", "/etc/passwd", "/etc/../etc/passwd", "/proc/self/environ", "/proc/self/root/etc/passwd",
    "/proc/self/cwd", "/proc/1/root", "/dev/stdin", "/dev/zero", "/dev/fd/0", "/tmp", "/root", "/home", "//etc/passwd",
    "{root}-x/file", "{root}x", "{outside}", "{outside}/secret", "{root}/..", "{root}/../outside/secret",
    "{root}/out/secret", "{root}/sub/../../outside/secret", "{root}/./../outside", "{root}/.git/config",
]  # fmt: skip
_LINKS = [
    "out/secret", "out-file", "out-absolute/secret", "out-root/etc/passwd", "out-root/proc/self/environ",
    "out-proc/etc/passwd", "out-cwd/secret", "out-fd", "null", "out-slow/secret", "out-deep", "out-twice/secret",
    "out-chain", "out-dots/secret", "out-up/outside/secret", "out-prefix/x", "out-abs-up/secret", "loop", "loop/x",
    "ping", "pong/x", "dangling", "dangling/x", "dangling-out", "sub/out/secret", "sub/up/out/secret",
    "sub/up/out-file", "sub/deep/out", "in/out/secret", "in/up/out-up/outside/secret", "in-dot/out/secret",
    "in-dot/in-dot/out-file", "in/deep/out", "out/../outside/secret", "./out/secret", "out//secret", "out/./secret",
    "out-slash/secret", "out-slashes/secret", "out-dot-slash/secret", "out-double/secret", "out-task/etc/passwd",
    "out-fds/0", "out-mem", "out-tty", "out-abs-dot/secret", "out-abs-link/secret", "in-fifo", "in-socket",
    "to-GIT/config", "to-hooks/pre-commit", "to-git-slow/config", "sub/deep/far/passwd", "missing-up/secret",
    "file-up/secret", "loop-deep", "in-dot/out-slash/secret", "sub/up/out-abs-link/secret", "in/up/to-hooks/x",
]  # fmt: skip
_GIT = [
    ".git", ".git/", ".git/config", ".git/hooks/pre-commit", "./.git/config", "sub/.git/config", ".GIT/config",
    ".Git/config", ".giT", ".git./config", ".git /config", ".git. ./config", ".git::$INDEX_ALLOCATION/config",
    ".git:x/config", "git~1/config", "GIT~1/config", ".g\u200cit/config", ".gi\u200dt/config", "\ufeff.git/config",
    ".git\u200b\u200c/x"[:4] + "\u200e/config", ".\u202agit/config", ".g\u206ait", "to-git/config", "to-config",
    "sub/git/config", "sub/up/.git/config", "in/git/config", "in-dot/.git/config", "in/up/to-git/hooks/x",
    "{root}/to-git/config", ".git/../.git/config", "sub/.GIT", "sub/deep/.git/x", ".GiT/HEAD", "\u2060.git"[1:],
]  # fmt: skip
_NAMES = [
    "\0", "file\0", "file\0.txt", "\0/etc/passwd", "x" * 4_097, "a/" * 3_000, "ä" * 2_500, "\udcff" * 4_100,
]  # fmt: skip
_KINDS = [
    "fifo",
    "socket",
    "sub",
    "",
    ".",
    "./",
    "in-dot",
    "sub/deep",
    "in",
    "file/x",
    "sub/file/y",
    "file/"[:4] + "/z",
]
_MISSING = [
    "missing", "missing/x", "~", "~root", "$HOME", "%2e%2e/outside/secret", "..%2foutside", "..\\outside\\secret",
    "....//outside", "\u2025/outside/secret", "\uff0e\uff0e/outside/secret", "sub\\..\\..", "C:\\Windows", "C:/x",
    "file:///etc/passwd", "\\\\server\\share", ". ./outside", ".. /outside/secret", " ../outside", "...", ".../x",
    "..\u200b/outside", "`id`", "$(id)", "file;id", "file|id", "-", "--help", "*", "?ile", "{file,x}", "file ",
    "FILE", "\u202efile", "ﬁle", "sub/…", "x" * 256, "\n", "file\n", "\x1b[2J", "con", "nul", "aux.txt",
]  # fmt: skip
HOSTILE = [*_UPWARD, *_ABSOLUTE, *_LINKS, *_GIT, *_NAMES, *_KINDS, *_MISSING]
WRITES = [path for path in HOSTILE if path not in _MISSING]
HARMLESS = {"file", "sub/file", "in/file", "in-file", "in-absolute", "in-up", "in-dot/file", "in-chain", "sub/up/file"}


def fill(path: str, root: Path) -> str:
    return path.replace("{root}", str(root)).replace("{outside}", str(root.parent / "outside"))


def test_the_table_has_two_hundred_lines() -> None:
    assert len(set(HOSTILE)) >= 200


def test_a_hostile_path_reads_nothing(folder: SafeFolder, root: Path) -> None:
    for path in HOSTILE:
        content = None
        with suppress(FilesError):
            content = folder.read(fill(path, root), MOST)
        assert content is None, path


def test_a_hostile_path_writes_nothing(folder: SafeFolder, root: Path, outside: Path) -> None:
    before = snapshot(root), (root / ".git" / "config").read_text(), snapshot(outside)
    for path in WRITES:
        for expected in (None, b"secret", b""):
            with raises_for(path):
                folder.write(fill(path, root), b"hostile", expected)
        assert (snapshot(root), (root / ".git" / "config").read_text(), snapshot(outside)) == before, path


@contextmanager
def raises_for(path: str) -> Iterator[None]:
    """Expect that a path is refused, and name it where it is not."""
    with suppress(FilesError):
        yield
        raise AssertionError(f"{path!r} was not refused")


@pytest.mark.parametrize("path", _MISSING)
def test_an_odd_name_is_written_inside_or_not_at_all(folder: SafeFolder, root: Path, outside: Path, path: str) -> None:
    before = snapshot(root.parent)
    with suppress(FilesError):
        folder.write(path, b"odd", None)
    after = snapshot(root.parent)
    assert {name for name in after.keys() - before.keys() if not name.startswith("root/")} == set()
    assert {name: value for name, value in after.items() if name in before} == before


@pytest.mark.parametrize("path", sorted(HARMLESS))
def test_links_within_the_folder_are_followed(folder: SafeFolder, root: Path, path: str) -> None:
    assert folder.read(path, MOST) == b"inside"
    assert folder.read(f"{root}/{path}", MOST) == b"inside"
    folder.write(path, b"changed", b"inside")
    assert folder.read(path, MOST) == b"changed"


@walk_cases(("name", "expected"), [(".git", True), (".gitignore", False), (".github", False), ("git", False)])
def test_only_gits_own_folder_is_closed(name: str, expected: bool) -> None:
    assert is_git(name) is expected


def test_what_is_no_folder_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(FilesError, match="cannot be opened"):
        SafeFolder(tmp_path / "missing")


class TestWriting:
    def test_missing_folders_are_made(self, folder: SafeFolder, root: Path) -> None:
        folder.write("new/er/file.txt", b"text", None)
        assert (root / "new" / "er" / "file.txt").read_bytes() == b"text"

    def test_the_mode_of_a_file_stays(self, folder: SafeFolder, root: Path) -> None:
        (root / "file").chmod(0o751)
        folder.write("file", b"text", b"inside")
        assert (root / "file").stat().st_mode & 0o777 == 0o751

    @pytest.mark.parametrize(("path", "expected"), [("file", b"other"), ("file", None), ("missing", b"x")])
    def test_a_file_that_is_not_as_expected_is_not_overwritten(
        self, folder: SafeFolder, root: Path, path: str, expected: bytes | None
    ) -> None:
        before = snapshot(root)
        with pytest.raises(FilesError):
            folder.write(path, b"text", expected)
        assert snapshot(root) == before

    def test_a_file_with_another_name_outside_is_replaced_and_not_written_through(
        self, folder: SafeFolder, root: Path, outside: Path
    ) -> None:
        os.link(outside / "secret", root / "twin")
        folder.write("twin", b"text", b"secret")
        assert (outside / "secret").read_text() == "secret"

    def test_a_file_system_without_hard_links_takes_new_files(
        self, folder: SafeFolder, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        folder.write("new", b"text", None)
        assert (root / "new").read_bytes() == b"text"

    def test_a_file_that_appears_at_this_moment_is_not_overwritten(
        self, folder: SafeFolder, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = os.fsync

        def appear(handle: int) -> None:
            real(handle)
            (root / "new").write_text("theirs")

        monkeypatch.setattr(os, "fsync", appear)
        with pytest.raises(FilesError):
            folder.write("new", b"text", None)
        assert (root / "new").read_text() == "theirs"

    def test_what_a_killed_writer_left_is_removed_and_what_another_writes_is_not(
        self, folder: SafeFolder, root: Path
    ) -> None:
        import fcntl

        stale, alive = root / ".zoea-0123456789abcdef.tmp", root / ".zoea-fedcba9876543210.tmp"
        stale.write_text("half")
        with alive.open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            folder.write("new", b"text", None)
            assert (stale.exists(), alive.exists()) == (False, True)

    def test_a_file_that_is_too_large_is_not_read(self, folder: SafeFolder) -> None:
        with pytest.raises(FilesError, match="6 bytes"):
            folder.read("file", 5)


SWAPPER = """
import os, sys
name, first = sys.argv[1], True
while True:
    for one in ("real", "link"):
        os.rename(one, name)
        if first:
            os.write(1, b"x")
            first = False
        os.rename(name, one)
"""
SWAPS = {
    "a folder and a link to the outside": ("swap", "../outside"),
    "a folder and an absolute link": ("swap", "{outside}"),
    "a folder and a link through another": ("swap", "out"),
    "a folder and a link upward": ("swap", "sub/../../outside"),
}


@pytest.mark.parametrize("kind", SWAPS)
def test_a_link_that_changes_all_the_time_never_leads_out(
    folder: SafeFolder, root: Path, outside: Path, kind: str
) -> None:
    name, target = SWAPS[kind]
    (root / "real").mkdir()
    (root / "real" / "secret").write_text("inside")
    (root / "link").symlink_to(fill(target, root))
    process = subprocess.Popen([sys.executable, "-c", SWAPPER, name], cwd=root, stdout=subprocess.PIPE)
    results: set[bytes | None] = set()
    try:
        assert process.stdout is not None
        process.stdout.read(1)
        for number in range(20_000 if SOAK else 400):
            with suppress(FilesError):
                results.add(content := folder.read(f"{name}/secret", MOST))
                folder.write(f"{name}/secret", b"inside%d" % number, content)
            with suppress(FilesError):
                folder.write(f"{name}/new{number % 7}", b"new", None)
    finally:
        process.kill()
        process.communicate()
    assert all(content is None or content.startswith(b"inside") for content in results)
    assert snapshot(outside) == {"secret": ("0o100644", b"secret")}


WRITER = """
import sys
from pathlib import Path
from zoea.files.safe_folder import SafeFolder
folder = SafeFolder(Path(sys.argv[1]))
before, number = None, 0
while True:
    number += 1
    after = (b"%d\\n" % number) * 20_000
    folder.write("file", after, before)
    before = after
    sys.stdout.write(".")
    sys.stdout.flush()
"""


@pytest.mark.parametrize("seed", range(100 if SOAK else 4))
def test_a_kill_leaves_no_file_half_written(tmp_path: Path, seed: int) -> None:
    root = tmp_path / "root"
    root.mkdir()
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(root)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(1 + random.Random(seed).randrange(60))
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    lines = (root / "file").read_bytes().splitlines()
    assert (len(lines), len(set(lines))) == (20_000, 1)
    opened = SafeFolder(root)
    opened.write("other", b"text", None)
    opened.close()
    until_true(lambda: sorted(entry.name for entry in root.iterdir()) == ["file", "other"], within=1)
