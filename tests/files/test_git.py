"""The wrapper of git: what it runs, what it never runs, and how it fails."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.processes import is_alive
from tests.files.repositories import commit, git, make_repository
from tests.waiting import until_true
from zoea.files import git as git_module
from zoea.files.git import Git, find_top
from zoea.model.errors import GitError


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


def test_a_failure_names_command_place_and_reason(repository: Path) -> None:
    with pytest.raises(GitError, match=rf"git rev-parse --verify in {repository}: Needed a single revision"):
        Git(repository).text("rev-parse", "--verify", "missing")
    with pytest.raises(GitError, match="exit code 1"):
        Git(repository).text("config", "--get", "not.there")


def test_variables_that_redirect_git_are_not_passed_on(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_CONFIG_COUNT", "GIT_SSH_COMMAND", "GIT_EXEC_PATH"):
        monkeypatch.setenv(name, "/nowhere")
    assert Git(repository).text("status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("core.fsmonitor", "touch {mark}"), ("core.pager", "touch {mark}; cat"), ("core.editor", "touch {mark}"),
        ("diff.external", "touch {mark}"), ("core.alternateRefsCommand", "touch {mark}"),
        ("core.hooksPath", "{hooks}"), ("core.askPass", "{hooks}/ask"), ("pager.log", "touch {mark}"),
    ],
)  # fmt: skip
def test_programs_that_the_configuration_names_do_not_run(
    repository: Path, tmp_path: Path, key: str, value: str
) -> None:
    hooks, mark = tmp_path / "hooks", tmp_path / "mark"
    hooks.mkdir()
    for name in ("post-checkout", "pre-commit", "post-commit", "ask", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {mark}\n")
        (hooks / name).chmod(0o755)
    git(repository, "config", key, value.format(hooks=hooks, mark=mark))
    wrapper = Git(repository)
    (repository / "a.txt").write_text("changed")
    wrapper.text("status", "--porcelain")
    wrapper.text("log", "-p", "--no-ext-diff")
    wrapper.write("commit", "--all", "--quiet", "-m", "x", author="alpha")
    assert not mark.exists()


CONFIGURED = ("lint", "post-checkout", "a.b", "a=b", "two words", "a'b")
"""Names of hooks in a configuration: dots, blanks and quotes may stand in them, and the name of an event."""


@pytest.mark.parametrize(
    ("version", "hooks", "names"),
    [
        ("git version 2.54.0", False, CONFIGURED),
        ("git version 2.55.0.rc1", False, CONFIGURED),
        ("git version 3.0 (Apple Git-200)", False, CONFIGURED),
        ("nothing that is known", False, CONFIGURED),
        ("git version 2.54.0", False, ()),
        ("git version 2.54.0", True, None),
        ("git version 2.53.9", False, None),
    ],
)
def test_hooks_that_a_configuration_names_are_disabled_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, hooks: bool, names: tuple[str, ...] | None
) -> None:
    """A git of 2.54 or later would run them. The test looks at the variables, whatever git is here."""
    listed = "".join(f"hook.{name}.{key}\\0" for name in names or () for key in ("event", "command", "event"))
    body = f"""
case "$*" in
    *--get-regexp*) printf "{listed}"; {"" if names else "exit 1"} ;;
    *) env -0 ;;
esac"""
    wrapper = fake(tmp_path, monkeypatch, body, version)
    wrapper.hooks = hooks
    shown = dict(one.split("=", 1) for one in wrapper.run("status").records)
    if names is None:
        assert "GIT_CONFIG_COUNT" not in shown
        return
    keys = [shown[f"GIT_CONFIG_KEY_{at}"] for at in range(int(shown["GIT_CONFIG_COUNT"]))]
    assert keys == [f"hook.{name}.enabled" for name in names]
    assert all(shown[f"GIT_CONFIG_VALUE_{at}"] == "false" for at in range(len(keys)))


def test_each_hook_that_a_configuration_names_is_found(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the installed git, which reads such names whether it runs them or not."""
    monkeypatch.setattr(git_module, "_read_version", lambda _: (2, 54))
    included = tmp_path / "included"
    included.write_text('[hook "a.b"]\n\tcommand = true\n[hook "two"]\n\tevent\n')
    git(repository, "config", "include.path", str(included))
    for name in CONFIGURED:
        git(repository, "config", f"hook.{name}.event", "pre-commit")
    found = Git(repository).text("config", "--get-regexp", r"^hook\..*\.enabled$").split("\n")
    assert sorted(found) == sorted(f"hook.{name}.enabled false" for name in (*CONFIGURED, "two"))


def test_without_git_it_is_said(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(GitError, match="not installed"):
        Git(repository).text("status")
    assert find_top(repository) is None


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="did not start"):
        Git(tmp_path / "missing").text("status")


def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, version: str = "git version 2.39.5") -> Git:
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n[ \"$*\" = version ] && echo '{version}' && exit\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return Git(tmp_path)


@pytest.mark.parametrize("trap", ["", "trap '' TERM;"])
@pytest.mark.parametrize("is_lasting", [True, False])
def test_a_command_is_ended_at_its_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: str, is_lasting: bool
) -> None:
    monkeypatch.setattr(git_module, "_TERM_GRACE_S", 0.1)
    wrapper = fake(tmp_path, monkeypatch, f"{trap} while :; do sleep 600; done")
    with pytest.raises(GitError, match=r"longer than 0\.2 s"):
        wrapper.run("status", deadline=0.2, is_lasting=is_lasting)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", [".gitignore", ".gitattributes"])
def test_a_pipe_in_the_place_of_a_file_that_git_reads_is_said_soon(
    repository: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(git_module, "_LOOK_S", 0.2)
    inner = repository / "inner"
    inner.mkdir()
    (inner / "new.txt").write_text("new")
    os.mkfifo(inner / name)
    with pytest.raises(GitError, match=re.escape(f"because it waits for {inner / name}, which is a pipe")):
        Git(repository).write("add", "--all")


def test_a_slow_command_that_reads_no_pipe_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_module, "_LOOK_S", 0.01)
    os.mkfifo(tmp_path / ".gitignore")
    assert fake(tmp_path, monkeypatch, "sleep 0.2; echo done").text("status") == "done"


def test_output_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_module, "MAX_OUTPUT", 1_000_000)
    with pytest.raises(GitError, match="more than 1 MB"):
        fake(tmp_path, monkeypatch, "head -c 5000000 /dev/zero").run("log")


def test_a_process_that_outlives_a_command_that_writes_is_neither_awaited_nor_hindered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_module, "_TERM_GRACE_S", 0.05)
    fifo, end = tmp_path / "fifo", tmp_path / "end"
    os.mkfifo(fifo)
    body = f"(read x < {fifo}; head -c 300000 /dev/zero; echo $? > {end}) & echo said; echo told >&2"
    ran = fake(tmp_path, monkeypatch, body).write("x")
    assert (ran.text, ran.error) == ("said", "told\n")
    fifo.write_text("go on\n")
    until_true(lambda: end.exists() and end.read_text())
    assert end.read_text() == "0\n"


def test_a_lock_file_has_a_hint(repository: Path) -> None:
    (repository / ".git" / "index.lock").touch()
    (repository / "a.txt").write_text("changed")
    with pytest.raises(GitError) as caught:
        Git(repository).write("add", "--all")
    assert "remove the named lock file" in caught.value.hint


LASTING = """
import sys
from pathlib import Path
from zoea.files.git import Git
from zoea.process.group_guard import guard
add = guard.add
guard.add = lambda group: (add(group), sys.stdout.write("guarded"), sys.stdout.flush())
Git(Path(sys.argv[1])).run("x", is_lasting=sys.argv[2] == "lasting")
"""


@pytest.mark.parametrize("kind", ["lasting", "reading"])
def test_a_command_that_writes_goes_on_when_this_process_is_killed_and_another_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    fifo = tmp_path / "fifo"
    wrapper = fake(
        tmp_path, monkeypatch, f"echo $$ > {tmp_path}/pid; mkfifo {fifo}; read x < {fifo}; echo $x > {tmp_path}/end"
    )
    process = subprocess.Popen([sys.executable, "-c", LASTING, str(wrapper.folder), kind], stdout=subprocess.PIPE)
    assert process.stdout is not None
    pid = until_true(lambda: (tmp_path / "pid").exists() and fifo.exists() and (tmp_path / "pid").read_text().strip())
    if kind == "reading":
        assert process.stdout.read(7) == b"guarded"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    if kind == "lasting":
        with fifo.open("w") as stream:
            stream.write("done\n")
        until_true(lambda: (tmp_path / "end").exists() and (tmp_path / "end").read_text() == "done\n")
    else:
        until_true(lambda: not is_alive(int(pid)))
        assert not (tmp_path / "end").exists()


def test_a_repository_with_submodules_and_lfs_pointers_is_read_as_it_is(tmp_path: Path, repository: Path) -> None:
    from zoea.files.worktrees import Worktrees

    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 9\n"
    commit(repository, big__bin=pointer, __gitattributes="*.bin filter=lfs diff=lfs merge=lfs -text\n")
    other = make_repository(tmp_path / "other")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "--quiet", str(other), "module")
    commit(repository, "submodule")
    trees = Worktrees(tmp_path / "data")
    trees.make("alpha", repository)
    folder = trees.owned.path("alpha")
    assert (folder / "big.bin").read_text() == pointer
    (folder / "a.txt").write_text("changed")
    assert trees.commit("alpha", "work")
    assert git(folder, "show", "--format=", "--name-only") == "a.txt"


@pytest.mark.parametrize("ignores", ["", '[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n\tignore = none\n'])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("filter.x.clean", "touch {mark}; cat"), ("filter.x.process", "touch {mark}; false"),
        ("core.fsmonitor", "touch {mark}"), ("diff.external", "touch {mark}"), ("diff.x.textconv", "touch {mark}; cat"),
    ],
)  # fmt: skip
def test_no_program_of_a_repository_that_a_mysis_makes_runs(
    tmp_path: Path, repository: Path, key: str, value: str, ignores: str
) -> None:
    """It would run outside of the fence that the mysis made it in."""
    from zoea.files.changes import find_base, open_diff
    from zoea.files.merge import MergeRules, merge_all, send_back
    from zoea.files.work_left import find_changes, find_work
    from zoea.files.worktrees import Worktrees

    mark = tmp_path / "mark"
    git(repository, "config", "diff.submodule", "diff")
    trees = Worktrees(tmp_path / "data")
    record = trees.make("alpha", repository)
    folder = trees.owned.path("alpha")
    inner = make_repository(folder / "inner")
    git(inner, "config", key, value.format(mark=mark))
    (inner / ".gitattributes").write_text("* filter=x diff=x\n")
    if ignores:
        (folder / ".gitmodules").write_text(ignores)
    assert trees.commit("alpha", "work")
    for content in ("one", "two"):
        (inner / "a.txt").write_text(content)
        with open_diff(trees.git(record), find_base(trees.git(record), record)) as diff:
            diff.count()
            diff.patch()
        (folder / "b.txt").write_text(content)
        assert trees.commit("alpha", "work")
    find_changes(trees.git(record))
    assert find_work(record, folder)
    merge_all(trees, ["alpha"], MergeRules())
    commit(repository, b__txt="other")
    send_back(trees, "alpha")
    merge_all(trees, ["alpha"], MergeRules())
    trees.drop("alpha", force=True)
    assert not mark.exists()


def test_no_program_for_signatures_runs_where_the_configuration_wants_them_verified(
    repository: Path, tmp_path: Path
) -> None:
    signer, mark = tmp_path / "signer", tmp_path / "mark"
    signer.write_text(
        f"#!/bin/sh\ntouch {mark}\ncat > /dev/null\necho '\n[GNUPG:] SIG_CREATED ' >&2\n"
        "echo '-----BEGIN PGP SIGNATURE-----'\n"
    )
    signer.chmod(0o755)
    git(repository, "config", "gpg.program", str(signer))
    git(repository, "config", "merge.verifySignatures", "true")
    git(repository, "checkout", "--quiet", "-b", "signed")
    git(repository, "commit", "--quiet", "--allow-empty", "-S", "-m", "signed")
    git(repository, "checkout", "--quiet", "main")
    mark.unlink()
    Git(repository).write("merge", "--ff-only", "--quiet", "signed", accept=(0, 1, 128))
    assert not mark.exists()


def test_a_commit_in_an_inner_repository_and_its_removal_are_changes(tmp_path: Path, repository: Path) -> None:
    from zoea.files.worktrees import Worktrees

    trees = Worktrees(tmp_path / "data")
    trees.make("alpha", repository)
    folder = trees.owned.path("alpha")
    make_repository(folder / "inner")
    assert trees.commit("alpha", "made")
    tip = commit(folder / "inner", c__txt="more")
    assert trees.commit("alpha", "moved")
    assert git(folder, "rev-parse", "HEAD:inner") == tip
    shutil.rmtree(folder / "inner")
    assert trees.commit("alpha", "removed")
    assert git(folder, "ls-files", "inner") == ""
