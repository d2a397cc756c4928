"""Git repositories for tests, made with the installed git."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
from functools import lru_cache
from hashlib import sha1
from pathlib import Path
from struct import pack_into
from tempfile import mkdtemp

_WORD = 0xFFFF_FFFF
DATE = "2026-01-01T00:00:00Z"


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    """Run git as a person would and return what it wrote."""
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME")},
        **{f"GIT_{who}_{key}": value for who in ("AUTHOR", "COMMITTER") for key, value in
           (("NAME", "Person"), ("EMAIL", "person@example.org"), ("DATE", DATE))},
        "GIT_CONFIG_NOSYSTEM": "1",
    }  # fmt: skip
    ran = subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert not check or ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def commit(folder: Path, message: str = "work", **files: str) -> str:
    """Write files (`a__py` stands for `a.py`), commit them, and return the id of the commit."""
    for name, text in files.items():
        file = folder / name.replace("__", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", message)
    return read_head(folder)


def read_head(folder: Path) -> str:
    """Return the commit of HEAD. A branch of a checkout or of a worktree is read as the file that it is."""
    own = folder / ".git"
    if own.is_file():
        own = Path(own.read_text(encoding="utf-8").strip().removeprefix("gitdir: "))
    head = own / "HEAD"
    if head.exists():
        shared = own.parents[1] if own.parent.name == "worktrees" else own
        branch = shared / head.read_text(encoding="utf-8").strip().removeprefix("ref: ")
        if branch.is_file():
            return branch.read_text(encoding="utf-8").strip()
    return git(folder, "rev-parse", "HEAD")


def make_repository(folder: Path, **files: str) -> Path:
    """Make a repository with one commit on `main`. It is a copy of one that was made before."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(_make_template(tuple((files or {"a__txt": "one\ntwo\nthree\n"}).items())), folder)
    _refresh_index(folder)
    return folder


def _refresh_index(folder: Path) -> None:
    """Write times and inodes of files into the index of a copy.

    `git update-index --refresh` writes the same.
    """
    file = folder / ".git" / "index"
    index = bytearray(file.read_bytes()[:-20])  # gitformat-index(5): version 2, a checksum at the end
    assert index.startswith(b"DIRC\0\0\0\2")
    place = 12
    for _ in range(int.from_bytes(index[8:12], "big")):
        end = index.index(0, place + 62)
        status = (folder / os.fsdecode(bytes(index[place + 62 : end]))).lstat()
        times = (*divmod(status.st_ctime_ns, 10**9), *divmod(status.st_mtime_ns, 10**9))
        pack_into(">6I", index, place, *times, status.st_dev & _WORD, status.st_ino & _WORD)
        place = end + 8 - (end - place) % 8
    file.write_bytes(index + sha1(index, usedforsecurity=False).digest())


@lru_cache
def _make_template(files: tuple[tuple[str, str], ...]) -> Path:
    place = Path(mkdtemp(prefix="zoea-repository-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    folder = place / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet", "-b", "main")
    commit(folder, "first", **dict(files))
    for sample in (folder / ".git" / "hooks").glob("*.sample"):
        sample.unlink()
    return folder


def snapshot(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Return every file of a working tree with its kind and content, without git's own."""
    found: dict[str, tuple[str, bytes]] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.split("/")[0] == ".git":
            continue
        if path.is_symlink():
            found[name] = ("link", os.fsencode(path.readlink()))
        elif path.is_file():
            found[name] = (oct(path.stat().st_mode), path.read_bytes())
    return found


def state(folder: Path) -> tuple[object, ...]:
    """Return all that a person has in a checkout: files, index, branch, commits and stash."""
    own = folder / ".git" if (folder / ".git").is_dir() else Path(git(folder, "rev-parse", "--absolute-git-dir"))
    shared = own.parents[1] if own.parent.name == "worktrees" else own
    return (
        snapshot(folder),
        # The commit, the branch, and each entry of the index that is not that of the commit.
        git(folder, "status", "--porcelain=v2", "--branch", "--ignored"),
        *(
            one.read_bytes() if one.is_file() else b""
            for one in (own / "ORIG_HEAD", shared / "logs" / "refs" / "stash")
        ),
    )
