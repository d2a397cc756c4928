"""Merges: prepared apart, checked, moved by compare-and-swap; the person's uncommitted work survives each verb."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.files.repositories import commit, git, make_repository, read_head, snapshot, state
from tests.waiting import until_true
from zoea.files import merge as merge_module
from zoea.files import work_left
from zoea.files.changes import find_base, open_diff
from zoea.files.git import Git
from zoea.files.merge import MergeConflict, MergeRules, build_rules, merge, merge_all, move, send_back
from zoea.files.worktrees import Worktrees
from zoea.model.errors import FilesError, MergeRefused, WorkHeld
from zoea.process.sandbox import find_sandbox
from zoea.settings.paths import Places
from zoea.settings.schema import FilesSettings

RULES = MergeRules()
SEEDS = range(300) if os.environ.get("ZOEA_SOAK") else (0, 2, 3, 5, 6, 9, 12, 14)
"""In the few, each verb, each of its answers, and each way to leave a working tree occurs."""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository", a__txt="one\ntwo\nthree\n", b__txt="b\n")


@pytest.fixture
def trees(tmp_path: Path) -> Worktrees:
    return Worktrees(tmp_path / "data")


def make(trees: Worktrees, repository: Path, name: str = "alpha", **files: str) -> Path:
    """Make a worktree with one commit of some files."""
    folder = trees.owned.path(trees.make(name, repository).name)
    if files:
        commit(folder, name, **files)
    return folder


class TestMerging:
    def test_a_branch_that_is_ahead_is_merged_and_the_clean_checkout_follows(
        self, trees: Worktrees, repository: Path
    ) -> None:
        make(trees, repository, a__txt="changed\n")
        merged = merge(trees, "alpha", RULES)
        assert merged.new == git(repository, "rev-parse", "main") == git(repository, "rev-parse", "zoea/alpha")
        assert (repository / "a.txt").read_text() == "changed\n"
        assert git(repository, "status", "--porcelain") == ""

    def test_branches_that_parted_are_joined(self, trees: Worktrees, repository: Path) -> None:
        make(trees, repository, a__txt="changed\n")
        commit(repository, b__txt="theirs\n")
        merge(trees, "alpha", RULES)
        assert (repository / "a.txt").read_text() + (repository / "b.txt").read_text() == "changed\ntheirs\n"
        assert git(repository, "log", "-1", "--format=%an %s") == "Zoea Merge zoea/alpha"
        assert trees.owned.names() == ["alpha"]
        assert git(repository, "worktree", "list").count("\n") == 1

    def test_a_branch_that_is_not_checked_out_is_moved_without_a_checkout(
        self, trees: Worktrees, repository: Path
    ) -> None:
        make(trees, repository, a__txt="changed\n")
        git(repository, "checkout", "--quiet", "-b", "mine")
        (repository / "a.txt").write_text("uncommitted\n")
        before = state(repository)
        merge(trees, "alpha", RULES)
        assert state(repository) == before
        assert git(repository, "show", "main:a.txt") == "changed"
        assert "zoea: merge alpha" in git(repository, "reflog", "main")

    def test_what_is_merged_already_changes_nothing(self, trees: Worktrees, repository: Path) -> None:
        make(trees, repository)
        merged = merge(trees, "alpha", RULES)
        assert merged.old == merged.new

    def test_a_merged_worktree_can_be_dropped(self, trees: Worktrees, repository: Path) -> None:
        make(trees, repository, a__txt="changed\n")
        commit(repository, b__txt="theirs\n")
        merge(trees, "alpha", RULES)
        trees.drop("alpha")

    @pytest.mark.parametrize("is_submodule", [True, False])
    def test_a_repository_is_merged_only_as_a_submodule(
        self, trees: Worktrees, repository: Path, is_submodule: bool
    ) -> None:
        folder = make(trees, repository)
        make_repository(folder / "inner")
        if is_submodule:
            git(folder, "submodule", "--quiet", "add", "./inner")
        trees.commit("alpha", "a repository in it")
        before = state(repository)
        if is_submodule:
            assert merge(trees, "alpha", MergeRules()).old != git(repository, "rev-parse", "main")
        else:
            with pytest.raises(MergeRefused, match=r"made repositories.* not in its branch: inner"):
                merge(trees, "alpha", MergeRules())
            assert state(repository) == before

    def test_uncommitted_work_of_the_mysis_is_not_left_behind(self, trees: Worktrees, repository: Path) -> None:
        folder = make(trees, repository, a__txt="changed\n")
        (folder / "new.txt").write_text("new")
        with pytest.raises(WorkHeld, match=r"uncommitted changes: new\.txt"):
            merge(trees, "alpha", RULES)

    def test_a_mysis_of_no_branch_is_refused(self, trees: Worktrees, repository: Path) -> None:
        git(repository, "checkout", "--quiet", "--detach")
        make(trees, repository, a__txt="changed\n")
        with pytest.raises(MergeRefused, match="no branch"):
            merge(trees, "alpha", RULES)

    def test_hooks_of_the_repository_do_not_run(self, trees: Worktrees, repository: Path) -> None:
        for name in ("post-merge", "pre-merge-commit", "commit-msg", "post-checkout", "reference-transaction"):
            hook = repository / ".git" / "hooks" / name
            hook.write_text(f"#!/bin/sh\ntouch {repository}/.git/ran-{name}\n")
            hook.chmod(0o755)
        folder = make(trees, repository)
        (folder / "a.txt").write_text("changed\n")
        trees.commit("alpha", "work")
        merge(trees, "alpha", RULES)
        assert list((repository / ".git").glob("ran-*")) == []


class TestConflicts:
    def test_files_and_hunks_are_reported_and_nothing_changes(self, trees: Worktrees, repository: Path) -> None:
        folder = make(trees, repository, a__txt="one\nmine\nthree\n")
        commit(repository, a__txt="one\ntheirs\nthree\n")
        before, tip = state(repository), git(folder, "rev-parse", "HEAD")
        with pytest.raises(MergeConflict, match=r"alpha and main changed the same in a\.txt") as caught:
            merge(trees, "alpha", RULES)
        (conflict,) = caught.value.conflicts
        assert conflict.path == "a.txt"
        assert conflict.hunks[0].split("\n")[:3] == ["line 2:", "<<<<<<< HEAD", "theirs"]
        assert state(repository) == before
        assert git(folder, "rev-parse", "HEAD") == tip
        assert trees.owned.names() == ["alpha"]

    def test_only_newlines_separate_the_lines_of_a_hunk_and_none_stands_in_a_name(
        self, trees: Worktrees, repository: Path
    ) -> None:
        name = "a\nnot tried: b.txt"
        for folder, text in ((make(trees, repository), "mi\u2028ne\x0c\n"), (repository, "theirs\n")):
            (folder / name).write_text(text)
            git(folder, "add", "-A")
            git(folder, "commit", "-q", "-m", "work")
        done = merge_all(trees, ["alpha"], RULES)
        assert isinstance(done.error, MergeConflict)
        assert "mi\u2028ne\x0c" in done.error.conflicts[0].hunks[0].split("\n")
        assert not [line for text in done.lines for line in text.split("\n") if line.startswith("not tried")]

    def test_a_conflict_that_the_mysis_resolves_is_merged(self, trees: Worktrees, repository: Path) -> None:
        folder = make(trees, repository, a__txt="one\nmine\nthree\n")
        commit(repository, a__txt="one\ntheirs\nthree\n")
        git(folder, "merge", "main", check=False)
        (folder / "a.txt").write_text("one\nboth\nthree\n")
        commit(folder, "resolve")
        merge(trees, "alpha", RULES)
        assert (repository / "a.txt").read_text() == "one\nboth\nthree\n"

    def test_a_conflict_that_was_sent_back_is_committed_without_marks_and_merged(
        self, trees: Worktrees, repository: Path
    ) -> None:
        folder = make(trees, repository, a__txt="one\nmine\nthree\n")
        commit(repository, a__txt="one\ntheirs\nthree\n", d__txt="d\n")
        before = state(repository)
        text = send_back(trees, "alpha")
        assert text == send_back(trees, "alpha")
        assert "Your branch and main changed the same in a.txt." in text
        assert "a.txt\nline 2:\n<<<<<<< HEAD\nmine\n=======\ntheirs\n" in text
        with open_diff(trees.git(record := trees.owned.read("alpha")), find_base(trees.git(record), record)) as diff:
            assert [file.path for file in diff.count().files] == ["a.txt"]
        with pytest.raises(WorkHeld, match=r"marks of a conflict in a\.txt"):
            trees.commit("alpha", "not resolved")
        with pytest.raises(MergeConflict, match=r"alpha and main changed the same in a\.txt"):
            merge(trees, "alpha", RULES)
        assert state(repository) == before
        (folder / "a.txt").write_text("one\nboth\nthree\n")
        assert trees.commit("alpha", "resolve")
        merge(trees, "alpha", RULES)
        assert (repository / "a.txt").read_text() == "one\nboth\nthree\n"

    def test_a_conflict_resolved_as_it_was_is_committed_too(self, trees: Worktrees, repository: Path) -> None:
        folder = make(trees, repository, a__txt="one\nmine\nthree\n")
        commit(repository, a__txt="one\ntheirs\nthree\n")
        send_back(trees, "alpha")
        (folder / "a.txt").write_text("one\nmine\nthree\n")
        assert trees.commit("alpha", "mine stays")
        merge(trees, "alpha", RULES)
        assert (repository / "a.txt").read_text() == "one\nmine\nthree\n"

    def test_nothing_is_sent_back_over_uncommitted_work(self, trees: Worktrees, repository: Path) -> None:
        folder = make(trees, repository, a__txt="one\nmine\nthree\n")
        commit(repository, a__txt="one\ntheirs\nthree\n")
        (folder / "a.txt").write_text("not committed\n")
        with pytest.raises(WorkHeld, match=r"uncommitted changes: a\.txt"):
            send_back(trees, "alpha")
        assert (folder / "a.txt").read_text() == "not committed\n"

    def test_a_long_hunk_and_a_deleted_file_are_told_too(self, trees: Worktrees, repository: Path) -> None:
        folder = make(trees, repository, a__txt="mine\n" * 200)
        git(folder, "rm", "--quiet", "b.txt")
        commit(folder)
        commit(repository, a__txt="theirs\n" * 200, b__txt="theirs\n")
        with pytest.raises(MergeConflict) as caught:
            merge(trees, "alpha", RULES)
        found = {conflict.path: conflict.hunks for conflict in caught.value.conflicts}
        assert "lines left out" in found["a.txt"][-1]
        assert found["b.txt"] == ()


class TestChecks:
    def test_a_check_sees_the_merged_tree(self, trees: Worktrees, repository: Path) -> None:
        make(trees, repository, a__txt="changed\n")
        commit(repository, b__txt="theirs\n")
        merge(trees, "alpha", MergeRules("grep -q changed a.txt && grep -q theirs b.txt"))
        assert (repository / "a.txt").read_text() == "changed\n"

    @pytest.mark.parametrize(
        ("check", "within", "match"), [("echo broken; exit 3", 60, "exit code 3"), ("exec sleep 600", 0.3, "longer")]
    )
    def test_a_check_that_fails_refuses_the_merge(
        self, trees: Worktrees, repository: Path, check: str, within: float, match: str
    ) -> None:
        make(trees, repository, a__txt="changed\n")
        before = state(repository)
        with pytest.raises(MergeRefused, match=match):
            merge(trees, "alpha", MergeRules(check, within))
        assert state(repository) == before
        assert trees.owned.names() == ["alpha"]

    def test_a_check_is_confined_and_the_answer_says_how(
        self, trees: Worktrees, repository: Path, tmp_path: Path
    ) -> None:
        """Where bubblewrap works; elsewhere the answer says that it does not."""
        (tmp_path / "config").mkdir()
        secret, outside = tmp_path / "config" / "credentials", tmp_path / "outside"
        secret.write_text("secret")
        places = Places(trees.owned.root.parent, tmp_path / "config", tmp_path / "run")
        check = f"git log -1 >/dev/null && touch made; test -f {secret} && cat {secret} > {outside}; true"
        make(trees, repository, a__txt="changed\n")
        merged = merge(trees, "alpha", build_rules(FilesSettings(check=check), places))
        how = find_sandbox(repository)
        assert merged.check == f"checked, {how.text}"
        assert merged.text.endswith(f"; checked, {how.text}")
        assert outside.exists() is not bool(how.program)

    def test_a_check_gets_no_secrets(self, trees: Worktrees, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        make(trees, repository, a__txt="changed\n")
        merge(trees, "alpha", MergeRules('test -z "$OPENAI_API_KEY"', 20))


def change_file(folder: Path) -> None:
    (folder / "b.txt").write_text("uncommitted\n")


def change_same_file(folder: Path) -> None:
    (folder / "a.txt").write_text("uncommitted\n")


def stage_file(folder: Path) -> None:
    change_file(folder)
    git(folder, "add", "b.txt")


def delete_file(folder: Path) -> None:
    (folder / "b.txt").unlink()


def begin_merge(folder: Path) -> None:
    git(folder, "checkout", "--quiet", "-b", "side")
    commit(folder, c__txt="side")
    git(folder, "checkout", "--quiet", "main")
    git(folder, "merge", "--no-ff", "--no-commit", "side")


def begin_rebase(folder: Path) -> None:
    git(folder, "checkout", "--quiet", "-b", "side", "HEAD")
    commit(folder, b__txt="side\n")
    git(folder, "checkout", "--quiet", "main")
    commit(folder, b__txt="main\n")
    git(folder, "rebase", "side", check=False)


def put_untracked_in_the_way(folder: Path) -> None:
    (folder / "new.txt").write_text("mine\n")


def put_ignored_in_the_way(folder: Path) -> None:
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "exclude").write_text("new.txt\n")
    (folder / "new.txt").write_text("mine\n")


def put_folder_in_the_way(folder: Path) -> None:
    (folder / "new.txt").mkdir()
    (folder / "new.txt" / "inner").write_text("mine\n")


def hide_change(folder: Path) -> None:
    git(folder, "update-index", "--assume-unchanged", "a.txt")
    change_same_file(folder)


def ask_for_autostash(folder: Path) -> None:
    git(folder, "config", "merge.autoStash", "true")
    change_same_file(folder)


OWNER = """
import sys
from pathlib import Path
from zoea.files.merge import MergeRules, merge
from zoea.files.worktrees import Worktrees
merge(Worktrees(Path(sys.argv[1]), hooks=True), "alpha", MergeRules())
"""


def can_merge(trees: Worktrees, name: str) -> bool:
    try:
        merge(trees, name, RULES)
    except MergeRefused:
        return False
    return True


DIRTY = [
    change_file, change_same_file, stage_file, delete_file, begin_merge, begin_rebase, put_untracked_in_the_way,
    put_ignored_in_the_way, put_folder_in_the_way, hide_change, ask_for_autostash,
]  # fmt: skip


class TestThePersonsTree:
    @pytest.mark.parametrize("dirty", DIRTY)
    def test_a_checkout_with_work_in_the_way_is_left_as_it_is(
        self, trees: Worktrees, repository: Path, dirty: Callable[[Path], None]
    ) -> None:
        make(trees, repository, a__txt="changed\n", new__txt="new\n")
        dirty(repository)
        before = state(repository)
        with pytest.raises(FilesError) as caught:
            merge(trees, "alpha", RULES)
        assert caught.value.hint
        assert state(repository) == before

    def test_untracked_files_elsewhere_are_no_hindrance(self, trees: Worktrees, repository: Path) -> None:
        make(trees, repository, a__txt="changed\n")
        (repository / "notes.txt").write_text("mine")
        merge(trees, "alpha", RULES)
        assert (repository / "notes.txt").read_text() == "mine"

    def test_a_dirty_checkout_is_told_the_two_ways_on(self, trees: Worktrees, repository: Path) -> None:
        make(trees, repository, a__txt="changed\n")
        change_file(repository)
        with pytest.raises(MergeRefused, match=r"uncommitted changes: b\.txt") as caught:
            merge(trees, "alpha", RULES)
        assert "Commit them" in caught.value.hint
        assert "by hand" in caught.value.hint

    @pytest.mark.parametrize("is_checked_out", [True, False])
    def test_a_target_that_was_moved_in_between_is_not_overwritten(
        self, trees: Worktrees, repository: Path, is_checked_out: bool
    ) -> None:
        folder = make(trees, repository, a__txt="changed\n")
        record = trees.owned.read("alpha")
        old, new = record.base, git(folder, "rev-parse", "HEAD")
        later = commit(repository, b__txt="later\n")
        if not is_checked_out:
            git(repository, "checkout", "--quiet", "--detach")
        with pytest.raises(MergeRefused, match="moved in between"):
            move(Git(Path(record.repository)), record, old, new, False)
        assert git(repository, "rev-parse", "main") == later

    def test_two_merges_at_once_into_one_checkout_leave_it_clean(
        self, trees: Worktrees, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        others = Worktrees(tmp_path / "data of another workspace")
        make(trees, repository, a__txt="changed\n")
        make(others, repository, c__txt="new\n")
        check_clean, refused = merge_module.check_clean, list[str]()

        def check_and_merge_the_other(tree: merge_module.Checkout, branch: str) -> None:
            check_clean(tree, branch)
            monkeypatch.setattr(merge_module, "check_clean", check_clean)
            record = others.owned.read("alpha")
            old, new = (git(repository, "rev-parse", name) for name in ("main", record.branch))
            with pytest.raises(MergeRefused) as caught:
                move(Git(repository), record, old, new, hooks=False)
            refused.append(caught.value.what)

        record = trees.owned.read("alpha")
        old, new = (git(repository, "rev-parse", name) for name in ("main", record.branch))
        monkeypatch.setattr(merge_module, "check_clean", check_and_merge_the_other)
        move(Git(repository), record, old, new, hooks=False)
        assert refused == [f"another merge moves a branch of {repository / '.git'}"]
        assert git(repository, "status", "--porcelain") == ""
        merge(others, "alpha", RULES)
        assert (git(repository, "status", "--porcelain"), (repository / "c.txt").read_text()) == ("", "new\n")

    def test_a_merge_that_outlives_its_killed_owner_keeps_the_lock(
        self, trees: Worktrees, repository: Path, tmp_path: Path
    ) -> None:
        make(trees, repository, a__txt="changed\n")
        make(trees, repository, "beta", b__txt="changed\n")
        began, go_on = repository / ".git" / "began", repository / ".git" / "go-on"
        os.mkfifo(began)
        os.mkfifo(go_on)
        hook = repository / ".git" / "hooks" / "post-merge"
        hook.write_text(f"#!/bin/sh\necho >{began}\nread line <{go_on}\n")
        hook.chmod(0o755)
        owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path / "data")])
        began.read_text()
        owner.kill()
        owner.wait()
        with pytest.raises(MergeRefused, match="another merge moves a branch"):
            merge(trees, "beta", RULES)
        go_on.write_text("\n")
        until_true(lambda: can_merge(trees, "beta"))
        assert (repository / "b.txt").read_text() == "changed\n"

    def test_lines_that_end_with_cr_lf_and_names_in_other_scripts_stay(
        self, trees: Worktrees, repository: Path
    ) -> None:
        folder = make(trees, repository)
        for name in ("имя файла.txt", "名前.txt", "a\nb.txt", "-x", ":(top)x", "naïve é.txt", "$(x)", "'q\".txt"):
            (folder / name).write_bytes(b"one\r\ntwo\r\n")
        assert trees.commit("alpha", "names")
        merge(trees, "alpha", RULES)
        assert (repository / "名前.txt").read_bytes() == b"one\r\ntwo\r\n"
        assert snapshot(repository) == snapshot(folder)


class TestQueue:
    def test_each_is_merged_on_top_of_the_former(self, trees: Worktrees, repository: Path) -> None:
        for name in ("alpha", "beta", "gamma"):
            make(trees, repository, name, **{f"{name}__txt": name})
        result = merge_all(trees, ["alpha", "beta", "gamma"], MergeRules("ls *.txt", 20))
        assert [merged.name for merged in result.merged] == ["alpha", "beta", "gamma"]
        assert [merged.old for merged in result.merged[1:]] == [merged.new for merged in result.merged[:2]]
        assert all((repository / f"{name}.txt").exists() for name in ("alpha", "beta", "gamma"))

    def test_it_stops_at_the_first_that_fails_and_says_why(self, trees: Worktrees, repository: Path) -> None:
        make(trees, repository, "alpha", a__txt="alpha\n")
        make(trees, repository, "beta", a__txt="beta\n")
        make(trees, repository, "gamma", b__txt="gamma\n")
        result = merge_all(trees, ["alpha", "beta", "gamma"], RULES)
        assert ([merged.name for merged in result.merged], result.failed, result.waiting) == (
            ["alpha"],
            "beta",
            ("gamma",),
        )
        assert isinstance(result.error, MergeConflict)
        assert git(repository, "show", "main:a.txt") == "alpha"


def random_file(chance: random.Random, folder: Path) -> Path:
    return folder / chance.choice(["a.txt", "b.txt", "c.txt", "new.txt", "deep/x.txt", ".ignored", "é"])


def mess_up(chance: random.Random, folder: Path) -> None:
    """Bring a working tree into a random state. A person or a mysis may leave it so."""
    for _ in range(chance.randrange(5)):
        file = random_file(chance, folder)
        match chance.choice(["write", "append", "delete", "stage", "commit", "mode", "link", "stash", "ignore"]):
            case "write":
                file.parent.mkdir(exist_ok=True)
                file.unlink(missing_ok=True)
                file.write_text(str(chance.random()))
            case "append" if file.is_file():
                file.write_text(file.read_text() + "more\n")
            case "delete":
                file.unlink(missing_ok=True)
            case "stage":
                git(folder, "add", "--all")
            case "commit":
                commit(folder, "random")
            case "mode" if file.is_file() and not file.is_symlink():
                file.chmod(0o755)
            case "link" if not file.exists() and file.parent.is_dir():
                file.unlink(missing_ok=True)
                file.symlink_to("a.txt")
            case "stash":
                git(folder, "stash", "--include-untracked", check=False)
            case "ignore":
                (folder / ".gitignore").write_text(".ignored\nnew.txt\n")


def uncommitted(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Return the files whose content is in no commit of the person, with the content."""
    names = git(folder, "-c", "core.quotePath=off", "status", "--porcelain", "-z", "--ignored", "--no-renames",
                "--untracked-files=all").split("\0")  # fmt: skip
    here = snapshot(folder)
    return {name[3:]: here[name[3:]] for name in (f"{entry}" for entry in names) if name[3:] in here}


@pytest.mark.parametrize("seed", SEEDS)
def test_uncommitted_work_survives_every_verb(seed: int, trees: Worktrees, repository: Path) -> None:
    chance = random.Random(seed)
    folder = make(trees, repository)
    for _ in range(3):
        mess_up(chance, repository)
        mess_up(chance, folder)
        mine, stashes = uncommitted(repository), git(repository, "stash", "list")
        tracked = read_head(repository)
        its, its_tip = snapshot(folder), git(folder, "rev-parse", "HEAD")
        try:
            match chance.choice(["commit", "merge", "check", "send back", "diff", "drop", "make"]):
                case "commit":
                    trees.commit("alpha", "turn")
                    assert snapshot(folder) == its
                case "merge":
                    merge(trees, "alpha", RULES)
                case "check":
                    merge(trees, "alpha", MergeRules("true", 60))
                case "send back":
                    send_back(trees, "alpha")
                    assert git(folder, "merge-base", "--is-ancestor", its_tip, "HEAD") == ""
                case "diff":
                    before = state(repository), state(folder)
                    record = trees.owned.read("alpha")
                    with open_diff(tree := trees.git(record), find_base(tree, record)) as diff:
                        assert diff.count(record.target) is not None
                        assert diff.patch() is not None
                    assert (state(repository), state(folder)) == before
                case "drop":
                    trees.drop("alpha")
                    assert git(repository, "merge-tree", "--write-tree", "main", its_tip).split()[0]
                case "make":
                    trees.make("alpha", repository)
        except FilesError:
            assert snapshot(folder) == its
        assert git(repository, "stash", "list") == stashes
        here = snapshot(repository)
        assert {name: here.get(name) for name in mine} == mine
        assert git(repository, "merge-base", "--is-ancestor", tracked, "HEAD") == ""
        if trees.owned.find("alpha") is None:
            return


def test_the_check_and_the_hunks_are_bounded() -> None:
    assert work_left._split_hunks("<<<<<<< a\n" + "x\n" * 100)[-1] == "[42 lines left out]"
