"""Compares a working tree, with untracked files, with a commit."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from zoea.files.git import Git, GitResult
from zoea.files.ownership import Record
from zoea.files.work_left import find_commit, find_merged_head, read_fork, stage_all
from zoea.model.errors import FilesError, GitError
from zoea.settings.paths import make_private_folder
from zoea.settings.small_file import read_small_file

MOST_PATCH = 2_000_000
"""Bytes of a patch that are shown."""
_HARMLESS = r"^core\.(filemode|symlinks|ignorecase|precomposeunicode|autocrlf|eol|safecrlf|checkstat|trustctime)$"
"""Keys of a repository that say how files are compared, with one word each."""
_NOT_CONVERTED = re.compile(
    r"(?:failed to encode|BOM is (?:required|prohibited) in) '(?P<path>.*)' (?:from|if encoded as) .*", re.DOTALL
)
"""What git says of a file that is not in the encoding which `.gitattributes` names; it adds nothing at all then."""
_MOST_NOT_CONVERTED = 20
_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/")


class ChangedFile(Struct, frozen=True):
    """One changed file. Its counts are None if it is binary; `former` is its name before a rename."""

    path: str
    added: int | None
    removed: int | None
    former: str = ""


class Changes(Struct, frozen=True):
    """All changes since a commit.

    Attributes:
        has_conflicts: Whether its commits and its target changed the same.
    """

    base: str
    files: tuple[ChangedFile, ...]
    has_conflicts: bool = False

    @property
    def text(self) -> str:
        """The sums of all files, such as `+12 -3, 2 files`, and any conflicts."""
        added = sum(file.added or 0 for file in self.files)
        removed = sum(file.removed or 0 for file in self.files)
        conflicts = ", has conflicts" if self.has_conflicts else ""
        return f"+{added:,} -{removed:,}, {len(self.files):,} {'file' if len(self.files) == 1 else 'files'}{conflicts}"


class TreeDiff:
    """A working tree as git would commit it. Its index and objects are in a temporary folder.

    Args:
        problem: What git could not read; the patch says so.
    """

    def __init__(self, git: Git, base: str, environment: dict[str, str], problem: str = "") -> None:
        self._git, self._base, self._environment = git, base, environment
        self._problem = problem

    def _diff(self, *options: str, most: int | None = None) -> GitResult:
        line = ("diff", "--cached", *_PLAIN, *options, self._base)
        return self._git.run(*line, environment=self._environment, most=most)

    def count(self, target: str = "") -> Changes:
        """Return the changed files with their lines, and conflicts with a target. Raises GitError."""
        files = []
        records = iter(self._diff("--numstat", "-z", "--find-renames").records)
        for record in records:
            added, removed, path = record.split("\t", 2)
            former, path = ("", path) if path else (next(records), next(records))
            is_text = added != "-"
            files.append(ChangedFile(path, int(added) if is_text else None, int(removed) if is_text else None, former))
        return Changes(self._base, tuple(files), bool(target) and self._has_conflicts(target))

    def _has_conflicts(self, target: str) -> bool:
        line = ("merge-tree", "--write-tree", "--no-messages", target, "HEAD")
        ended = self._git.run(*line, environment=self._environment, accept=(0, 1, 128, 129))
        return ended.code == 1  # the higher ones: the target is gone, or git is too old

    def patch(self) -> str:
        """Return the patch; a long one is cut, and says so. Raises GitError."""
        patch = self._diff("--find-renames", most=MOST_PATCH)
        cut = f"\n[{patch.cut:,} bytes left out]\n" if patch.cut else ""
        left_out = f"\n[left out: {self._problem}]\n" if self._problem else ""
        return patch.out.decode("utf-8", "replace") + left_out + cut


@contextmanager
def open_apart(folder: Path) -> Iterator[Git]:
    """Open the repository of a folder without its configuration, which a mysis may have written.

    It names no program then: no filter, hook, remote or other working tree. Raises GitError.
    """
    top = next((one for one in (folder, *folder.parents) if os.path.lexists(one / ".git")), folder)
    paths = ("--git-dir", "--git-path", "objects", "--git-path", "info", "--show-object-format")
    own, objects, info, kind = Git(top).text("rev-parse", "--path-format=absolute", *paths).split("\n")
    head = Git(top).run("rev-parse", "--quiet", "--verify", "HEAD", accept=(0, 1, 128)).text
    harmless = Git(top).run("config", "--local", "-z", "--get-regexp", _HARMLESS, accept=(0, 1)).records
    with TemporaryDirectory(prefix="zoea-git-") as place:
        for name in ("objects/info", "refs", "info"):
            make_private_folder(Path(place, name))
        Path(place, "HEAD").write_text(f"{head or 'ref: refs/heads/none'}\n")
        Path(place, "objects/info/alternates").write_text(f"{objects}\n", "utf-8", "surrogateescape")
        lines = ["[core]", "repositoryFormatVersion = 1", "[extensions]", f"objectFormat = {kind}", "[core]"]
        pairs = (one.partition("\n") for one in harmless)
        lines += [
            f"{key.partition('.')[2]} = {value or 'true'}" for key, _, value in pairs if value.isalnum() or not value
        ]
        Path(place, "config").write_text("\n".join([*lines, ""]))
        kept = [Path(own, "index"), *Path(own).glob("sharedindex.*"), Path(info, "exclude"), Path(info, "attributes")]
        for file in kept:
            if file.is_file():
                shutil.copy2(file, Path(place, "info" if file.parent == Path(info) else "", file.name))
        yield Git(folder, git_dir=Path(place), top=top)


@contextmanager
def open_diff(git: Git, base: str, closed: Sequence[Path] = ()) -> Iterator[TreeDiff]:
    """Read a working tree, without its `closed` folders, to compare it with a commit. Raises GitError."""
    own = git.git_dir or Path(git.text("rev-parse", "--absolute-git-dir"))
    objects = str(_find_objects(own))
    inside = [path.relative_to(git.folder) for path in closed if path.is_relative_to(git.folder)]
    left_out = [f":(exclude,literal){path}" for path in inside]
    with TemporaryDirectory(prefix="zoea-diff-") as folder:
        index = Path(folder, "index")
        try:
            if (stands := own / "index").exists():
                # It holds the times of the files, so that few are read. With its own time, by which git knows which of
                # these it cannot trust: a later one hides a change in the second of the checkout.
                shutil.copy2(stands, index)
            Path(folder, "objects").mkdir()
        except OSError as error:
            raise FilesError(f"{index} cannot be written: {error.strerror}", hint="Make room in it.") from error
        environment = {
            "GIT_INDEX_FILE": str(index),
            "GIT_OBJECT_DIRECTORY": str(Path(folder, "objects")),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quote(objects),
        }
        yield TreeDiff(git, base, environment, _stage_readable(git, left_out, environment))


def _stage_readable(git: Git, left_out: Sequence[str], environment: dict[str, str]) -> str:
    """Stage a working tree without what git cannot read, and return what that is. Raises GitError."""
    problems = list[str]()
    while True:
        try:
            return "\n".join([*problems, stage_all(git, *left_out, environment=environment).error.strip()]).strip()
        except GitError as error:
            wrong = _NOT_CONVERTED.search(error.what)
            if wrong is None or len(problems) >= _MOST_NOT_CONVERTED:
                raise
            problems.append(wrong[0])
            left_out = [*left_out, f":(top,exclude,literal){wrong['path']}"]


def _find_objects(git_dir: Path) -> Path:
    """Return the objects of a git directory, which are those of its repository. Raises FilesError."""
    try:
        common = Path(git_dir, "commondir")
        folder = read_small_file(common).removesuffix(b"\n") if common.is_file() else b"."
        return Path(os.path.realpath(git_dir / os.fsdecode(folder))) / "objects"
    except OSError as error:
        raise FilesError(f"{git_dir} cannot be read: {error.strerror}", hint="Look at its rights.") from error


def _quote(path: str) -> str:
    """Quote a path for a list of git, in which a colon parts them."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


class Base(Struct, frozen=True):
    """What a working tree is compared with.

    Attributes:
        commit: The merge base of its branches, else HEAD.
        target: The target branch, where it has commits of its own, so that there can be conflicts with it.
        tip: The commit of HEAD; empty where git was not asked for it.
    """

    commit: str
    target: str = ""
    tip: str = ""


def find_base(git: Git, record: Record | None) -> str:
    """Return the commit to compare with: the merge base of its branches, else HEAD. Raises GitError."""
    return read_base(git, record).commit


def read_base(git: Git, record: Record | None) -> Base:
    """Return what to compare a tree with. Raises GitError."""
    if record is None:
        return Base(find_commit(git, "HEAD") or git.run("hash-object", "-t", "tree", "--stdin").text)
    if not record.target:
        return Base(record.base)
    head = find_merged_head(git)  # the commits that are being merged are not its change
    fork = read_fork(git, record.target, head or "HEAD")
    if fork is None:  # it is gone
        return Base(record.base)
    target = record.target if head or fork.base != fork.target else ""
    return Base(fork.base or record.base, target, "" if head else fork.tip)
