"""`zoea diff`, `merge`, `drop` and what `zoea doctor` says of worktrees. Settings of the work on files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Zoea
from tests.files.repositories import commit, git, make_repository
from zoea.cli.dispatch import COMMANDS
from zoea.files.ownership import Record
from zoea.files.worktrees import Worktrees


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository", a__txt="one\ntwo\n")


@pytest.fixture
def trees(tmp_path: Path) -> Worktrees:
    return Worktrees(tmp_path / "data")


def make(trees: Worktrees, repository: Path, name: str = "alpha", **files: str) -> Path:
    folder = trees.owned.path(trees.make(name, repository).name)
    if files:
        commit(folder, name, **files)
    return folder


def test_the_commands_stand_in_a_group_of_their_own() -> None:
    group = [name for name, command in COMMANDS.items() if command.group == "Work on files"]
    assert group == ["workbench", "diff", "merge", "drop"]


def test_a_diff_is_shown_as_patch_as_counts_and_as_json(zoea: Zoea, trees: Worktrees, repository: Path) -> None:
    folder = make(trees, repository, a__txt="one\n2\n")
    (folder / "new.txt").write_text("new\n")
    (folder / "x.bin").write_bytes(b"\0")
    assert "-two\n+2" in zoea("diff", "alpha").out
    assert zoea("diff", "alpha", "--stat").out == "+1 -1  a.txt\n+1 -0  new.txt\n+? -?  x.bin\n+2 -1, 3 files\n"
    value = zoea("diff", "alpha", "--json").json
    assert value["files"][0] == {"path": "a.txt", "added": 1, "removed": 1, "former": ""}
    assert value["branch"] == "refs/heads/zoea/alpha"
    assert "+new" in value["patch"]
    assert "patch" not in zoea("diff", "alpha", "--stat", "--json").json
    (folder / "x\n+9 -9  y").write_text("")
    assert "\n+9 -9" not in zoea("diff", "alpha", "--stat").out


def test_a_renamed_file_counts_as_one_by_its_new_name(zoea: Zoea, trees: Worktrees, tmp_path: Path) -> None:
    lines = "".join(f"line {number}\n" for number in range(16))
    folder = make(trees, make_repository(tmp_path / "other", a__txt=lines, b__txt=f"more\n{lines}", c__bin="\0\1\2"))
    (folder / "a.txt").rename(folder / "new\nname.txt")
    (folder / "b.txt").rename(folder / "b2.txt").write_text(f"more\n{lines}end\n")
    (folder / "c.bin").rename(folder / "c2.bin")
    out = zoea("diff", "alpha", "--stat").out
    assert out == (
        "+1 -0  b2.txt (was b.txt)\n+? -?  c2.bin (was c.bin)\n+0 -0  new name.txt (was a.txt)\n+1 -0, 3 files\n"
    )
    value = zoea("diff", "alpha", "--json").json
    assert {(one["path"], one["former"]) for one in value["files"]} == {
        ("new\nname.txt", "a.txt"), ("b2.txt", "b.txt"), ("c2.bin", "c.bin"),
    }  # fmt: skip
    assert value["patch"].count("rename to ") == 3
    trees.commit("alpha", "renamed")
    assert zoea("diff", "alpha", "--stat").out == out


def test_without_changes_or_a_worktree_a_diff_says_so(zoea: Zoea, trees: Worktrees, repository: Path) -> None:
    make(trees, repository)
    assert zoea("diff", "alpha").out == "nothing changed\n"
    result = zoea("diff", "beta")
    assert result.code == 13
    assert "Zoea made no worktree for beta" in result.err


def test_worktrees_are_merged_in_turn(zoea: Zoea, trees: Worktrees, repository: Path) -> None:
    make(trees, repository, "alpha", b__txt="b")
    make(trees, repository, "beta", c__txt="c")
    make(trees, repository, "gamma")
    lines = zoea("merge", "alpha", "beta", "gamma").out.splitlines()
    assert lines[0].startswith("alpha is merged into main: ")
    assert lines[2] == "gamma has nothing that main does not have"
    assert (repository / "c.txt").exists()


def test_a_queue_that_stops_says_why_with_the_hunks(zoea: Zoea, trees: Worktrees, repository: Path) -> None:
    make(trees, repository, "alpha", a__txt="alpha\n")
    make(trees, repository, "beta", a__txt="beta\n")
    make(trees, repository, "gamma", c__txt="c")
    result = zoea("merge", "alpha", "beta", "gamma")
    assert result.code == 13
    assert "beta was not merged: beta and main changed the same in a.txt" in result.out
    assert "<<<<<<< HEAD" in result.out
    assert "not tried: gamma" in result.out
    value = zoea("merge", "beta", "--json").json
    assert (value["failed"], value["merged"], value["conflicts"][0]["path"]) == ("beta", [], "a.txt")
    assert zoea("diff", "beta", "--stat").out.endswith("+1 -2, 1 file, has conflicts\n")
    assert [zoea("diff", name, "--json").json["has_conflicts"] for name in ("beta", "gamma")] == [True, False]
    assert value["error"]["class"] == "MergeConflict"


def test_a_check_of_the_settings_is_run(
    zoea: Zoea,
    trees: Worktrees,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,  # the fixture
) -> None:
    monkeypatch.setenv("ZOEA_FILES__CHECK", "echo broken; false")
    make(trees, repository, b__txt="b")
    result = zoea("merge", "alpha")
    assert "the check `echo broken; false` failed with exit code 1 (" in result.out
    assert "confined" in result.out
    assert "):\nbroken" in result.out
    assert not (repository / "b.txt").exists()


def test_what_is_uncommitted_is_committed_on_demand(zoea: Zoea, trees: Worktrees, repository: Path) -> None:
    folder = make(trees, repository)
    (folder / "new.txt").write_text("new")
    assert "c in the review, or `zoea merge alpha --commit MESSAGE`" in zoea("merge", "alpha").out
    assert zoea("merge", "alpha", "--commit", "Add new").code == 0
    assert git(repository, "log", "-1", "--format=%an %s") == "alpha Add new"


def test_work_is_dropped_only_with_force(zoea: Zoea, trees: Worktrees, repository: Path) -> None:
    folder = make(trees, repository, b__txt="b")
    tip = git(folder, "rev-parse", "HEAD")
    refused = zoea("drop", "alpha")
    assert refused.code == 13
    assert "unmerged commits" in refused.err
    assert zoea("drop", "alpha", "--force").out == f"alpha dropped; its last commit was {tip}\n"
    assert zoea("drop", "alpha").code == 13


def test_the_doctor_names_what_was_left_where_no_swarm_ever_ran(
    zoea: Zoea, trees: Worktrees, repository: Path, tmp_path: Path
) -> None:
    make(trees, repository).rename(tmp_path / "away")
    checked = zoea("doctor")
    assert checked.code != 0
    assert "worktree alpha    its folder" in checked.out


def test_the_doctor_names_what_was_left(zoea: Zoea, trees: Worktrees, repository: Path, tmp_path: Path) -> None:
    # A process of its own, because a run ends its process for certain.
    created = ["run", "--headless", "--myses", "1", "--provider", "scripted", "--for", "100ms"]
    subprocess.run([sys.executable, "-m", "zoea", *created], capture_output=True, timeout=50, check=True)
    assert "worktree" not in zoea("doctor").out
    make(trees, repository).rename(tmp_path / "away")
    killed = ".merge-0123456789abcdef"
    trees.owned.write(Record(killed, f"{repository}/.git", str(repository), ""))
    out = zoea("doctor").out
    assert f"worktree {killed} a merge was killed" in out
    assert "worktree alpha" in out
    assert "`zoea drop alpha` removes it" in out
    findings = {one["name"]: one for one in zoea("doctor", "--json").json["findings"]}
    assert "is gone" in findings["worktree alpha"]["problem"]
