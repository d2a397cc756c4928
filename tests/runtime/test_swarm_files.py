"""Myses that work on files: the real workbench in worktrees, commits of turns, and what a deletion leaves."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.agents.agent_harness import write_template
from tests.fakes.toolboxes import FAULTY
from tests.files.repositories import commit, git, make_repository, state
from tests.waiting import until
from zoea.files.changes import find_base, open_diff
from zoea.files.merge import MergeRules, merge_all
from zoea.files.worktrees import Worktrees
from zoea.llm.providers.scripted import Reply, Rule, ScriptedProvider
from zoea.llm.providers.scripts import results_of
from zoea.model.enums import DONE_TOOL, ApprovalAnswer
from zoea.model.errors import FilesError, UsageError
from zoea.model.request import Answer, AnswerCall, ModelRequest
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import MysisView
from zoea.queries import change_origins, stored_swarm
from zoea.queries.change_origins import HunkOrigin, read_origins
from zoea.runtime.compose import SwarmOptions, running_swarm
from zoea.runtime.upstream_set import workbench_upstream, world_upstream
from zoea.settings.paths import Places
from zoea.settings.schema import Settings
from zoea.text.patches import parse_patch

SUM = "def total(numbers):\n    return sum(numbers) + 1\n"
CHECK = "python3 -B -c 'from sums import total; assert total([1, 2]) == 3'"
pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("forked_programs")]


@pytest.fixture
def where(runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    for name in ("data", "config"):
        monkeypatch.setenv(f"ZOEA_{name.upper()}_DIR", str(tmp_path / name))
    made = Places(data=tmp_path / "data", config=tmp_path / "config", runtime=runtime)
    made.make_data()
    templates = made.config / "templates"
    templates.mkdir(parents=True)
    (templates / "free.toml").write_text("[tools]\nask_destructive = false\nask_commands = false\n")
    return made


def call(name: str, **arguments: object) -> Answer:
    return Answer("", calls=(AnswerCall(name, json.dumps(arguments)),))


def mend(request: ModelRequest) -> Reply:
    """Run the check, mend what fails, run it again, and report."""
    steps = [
        call("run", command=CHECK),
        call("read_file", path="sums.py"),
        call("edit_file", path="sums.py", edits=[{"old": "sum(numbers) + 1", "new": "sum(numbers)"}]),
        call("run", command=CHECK),
        call(DONE_TOOL, summary="total adds nothing any more"),
    ]
    done = len(results_of(request))
    return steps[done] if done < len(steps) else Answer("ready")


def report_only(request: ModelRequest) -> Reply:
    return call(DONE_TOOL, summary="# there is nothing to mend") if not results_of(request) else Answer("ready")


@asynccontextmanager
async def open_swarm(where: Places, script: Rule = mend) -> AsyncIterator[tuple[SwarmApi, ScriptedProvider]]:
    provider = ScriptedProvider(script, name="scripted")
    overrides = {"nudge.enabled": False, "swarm.default_provider": "scripted"}
    options = SwarmOptions(providers={"scripted": provider}, overrides=overrides)
    async with running_swarm(where, lambda: None, options=options) as swarm:
        yield swarm, provider


async def work(swarm: SwarmApi, name: str, on: Path, *, worktree: bool = True) -> MysisView:
    await swarm.create(name, template="free", task="Mend the sum.", on=str(on), worktree=worktree)
    return await swarm.wait(name, timeout_s=60)


async def test_a_failing_check_is_mended_in_a_worktree_reviewed_and_merged(where: Places, tmp_path: Path) -> None:
    top = make_repository(tmp_path / "repo", sums__py=SUM, notes__txt="mine\n")
    (top / "notes.txt").write_text("mine, edited\n")
    before = state(top)
    async with open_swarm(where) as (swarm, provider):
        view = await work(swarm, "alpha", top)
        results = [one.content for one in results_of(provider.requests[-1])]
        assert view.failure is None
        assert "AssertionError" in results[0]
        assert [one.is_error for one in results_of(provider.requests[-1])] == [True, False, False, False]
        assert "exit code 0" in results[3] or "exit 0" in results[3], results[3]
        assert view.works_on == f"worktree of {top}"
        assert state(top) == before
    trees = Worktrees(where.data)
    record = trees.owned.read("alpha")
    tree = trees.git(record)
    with open_diff(tree, find_base(tree, record)) as diff:
        assert diff.count().text == "+1 -1, 1 file"
    assert git(top, "log", "-1", "--format=%an: %s", "zoea/alpha") == "alpha: total adds nothing any more"
    assert stored_swarm.read_mysis_view(where.database, "alpha").works_on == view.works_on
    merged = merge_all(trees, ("alpha",), MergeRules())
    assert merged.error is not None, "a tree with edits is left alone"
    assert (top / "notes.txt").read_text() == "mine, edited\n"
    git(top, "checkout", "--quiet", "-b", "aside")
    merged = merge_all(trees, ("alpha",), MergeRules())
    assert merged.error is None
    assert git(top, "show", "main:sums.py") == SUM.replace(" + 1", "").strip()
    assert (top / "notes.txt").read_text() == "mine, edited\n"


async def test_a_context_commit_names_the_tree_of_its_turn(where: Places, tmp_path: Path) -> None:
    top = make_repository(tmp_path / "repo", sums__py=SUM)
    async with open_swarm(where) as (swarm, _):
        await work(swarm, "alpha", top)
    tip = git(top, "rev-parse", "zoea/alpha")
    with closing(sqlite3.connect(where.database)) as conn:
        tags = [json.loads(row[0]) for row in conn.execute("SELECT tags FROM ctx_note ORDER BY id")]
    assert tags[-1] == [f"tree-{tip[:12]}"]
    assert tags[0] != tags[-1]


def run_and_edit(request: ModelRequest) -> Reply:
    """Make a file by a command that fails, edit another, shorten a third."""
    steps = [
        call("run", command="echo made > made.txt; exit 3"),
        call("read_file", path="sums.py"),
        call("edit_file", path="sums.py", edits=[{"old": " + 1", "new": ""}]),
        call("read_file", path="list.txt"),
        call("edit_file", path="list.txt", edits=[{"old": "two\n", "new": ""}]),
        call(DONE_TOOL, summary="made"),
    ]
    done = len(results_of(request))
    return steps[done] if done < len(steps) else Answer("ready")


def origins_of_alpha(where: Places, **changes: str) -> dict[str, HunkOrigin]:
    """Return by path the origin of a file's first hunk, for alpha's worktree with `changes` of its record."""
    trees = Worktrees(where.data)
    record = trees.owned.read("alpha")
    tree = trees.git(record)
    with open_diff(tree, base := find_base(tree, record)) as diff:
        files = parse_patch(diff.patch())
    origins = read_origins(where.database, replace(record, **changes), tree, base, files)
    return {files[at].path: origin for (at, _), origin in reversed(origins.items())}


async def test_a_change_by_a_command_names_the_approval_of_the_command(where: Places, tmp_path: Path) -> None:
    (where.config / "templates" / "free.toml").write_text('[tools]\npaths = ["*"]\n')
    top = make_repository(tmp_path / "repo", sums__py=SUM, list__txt="one\ntwo\nthree\n")
    async with open_swarm(where, run_and_edit) as (swarm, _):
        await swarm.create("alpha", template="free", task="Make it.", on=str(top), worktree=True)
        [asked] = await until(swarm.approvals)
        await swarm.answer(asked.id, ApprovalAnswer.ONCE)
        await swarm.wait("alpha", timeout_s=60)
    found = origins_of_alpha(where)
    made, edited, shortened = (found[path] for path in ("made.txt", "sums.py", "list.txt"))
    assert (made.turns, made.answer, made.allowed_at > 0, made.is_command) == ((1,), "once", True, True)
    assert (edited.turns, edited.answer, edited.allowed_at, edited.is_command) == ((1,), "", 0, False)
    assert (shortened.turns, shortened.is_committed) == ((1,), edited.is_committed)


def run_the_same(request: ModelRequest) -> Reply:
    """Make a file by a command, and once more."""
    return call("run", command="touch made.txt") if len(results_of(request)) < 2 else Answer("ready")


async def test_a_command_that_the_grant_for_another_question_allowed_names_the_grant(
    where: Places, tmp_path: Path
) -> None:
    (where.config / "templates" / "free.toml").write_text("")
    top = make_repository(tmp_path / "repo", sums__py=SUM)
    names = ("alpha", "beta")
    async with open_swarm(where, run_the_same) as (swarm, _):
        for name in names:
            await swarm.create(name, template="free", task="Make it.", on=str(top), worktree=True)

        async def read_both() -> bool:
            return len(await swarm.approvals()) == len(names)

        await until(read_both)
        first = (await swarm.approvals())[0]
        await swarm.answer(first.id, ApprovalAnswer.TEMPLATE)
        for name in names:
            await swarm.wait(name, timeout_s=60)
    allowed: dict[str, list[str]] = {}
    for name in names:
        _, calls = change_origins._read_turns(where.database, Worktrees(where.data).owned.read(name))
        allowed[name] = [answer for _, at, answer in calls[""] if at]
    assert allowed == {name: ["template" if name == first.mysis else "grant", "grant"] for name in names}


async def test_a_turn_without_a_change_is_not_named_for_what_a_person_committed_before_it(
    where: Places, tmp_path: Path
) -> None:
    top = make_repository(tmp_path / "repo", sums__py=SUM)
    async with open_swarm(where) as (swarm, _):
        await work(swarm, "alpha", top)
        trees = Worktrees(where.data)
        commit(trees.owned.path("alpha"), "mine", mine__txt="mine\n")
        await swarm.send("alpha", "Look again.")
        await swarm.wait("alpha", timeout_s=60)
    found = origins_of_alpha(where)
    assert {path: origin.turns for path, origin in found.items()} == {"sums.py": (1,), "mine.txt": ()}


async def test_a_worktree_names_the_turns_of_its_own_mysis_beside_a_later_one_of_that_name(
    where: Places, tmp_path: Path
) -> None:
    top = make_repository(tmp_path / "repo", sums__py=SUM)
    async with open_swarm(where) as (swarm, _):
        await work(swarm, "alpha", top)
        await swarm.delete("alpha")
        await swarm.create("alpha", template="free")
    assert origins_of_alpha(where)["sums.py"].turns == (1,)
    assert origins_of_alpha(where, uid="")["sums.py"].turns == ()


async def test_a_report_without_a_change_says_so(where: Places, tmp_path: Path) -> None:
    top = make_repository(tmp_path / "repo", sums__py=SUM)
    async with open_swarm(where, report_only) as (swarm, _):
        view = await work(swarm, "alpha", top)
    assert view.text == "done, nothing changed: there is nothing to mend"


async def test_a_commit_that_cannot_be_made_is_logged_and_the_turn_goes_on(where: Places, tmp_path: Path) -> None:
    top = make_repository(tmp_path / "repo", sums__py=SUM)
    async with open_swarm(where, report_only) as (swarm, _):
        await swarm.create("alpha", template="free", task="Mend.", on=str(top), worktree=True, start=False)
        with Worktrees(where.data).owned.lock("alpha"):
            await swarm.start("alpha")
            view = await swarm.wait("alpha", timeout_s=60)
    assert (view.failure, view.text) == (None, "# there is nothing to mend")
    assert "the files of alpha were not committed: another command works with" in where.log.read_text()


async def test_the_second_mysis_of_a_repository_gets_a_worktree(where: Places, tmp_path: Path) -> None:
    top = make_repository(tmp_path / "repo", sums__py=SUM)
    async with open_swarm(where, report_only) as (swarm, _):
        first = await work(swarm, "alpha", top, worktree=False)
        second = await work(swarm, "beta", top, worktree=False)
    assert (first.works_on, second.works_on) == (str(top), f"worktree of {top}")
    assert Worktrees(where.data).owned.names() == ["beta"]


async def test_a_deletion_keeps_a_worktree_that_holds_work(where: Places, tmp_path: Path) -> None:
    top = make_repository(tmp_path / "repo", sums__py=SUM)
    trees = Worktrees(where.data)
    async with open_swarm(where) as (swarm, _):
        await work(swarm, "alpha", top)
        await swarm.create("beta", template="free", on=str(top), worktree=True, start=False)
        assert trees.owned.names() == ["alpha", "beta"]
        for name in ("alpha", "beta"):
            await swarm.delete(name)
        assert trees.owned.names() == ["alpha"]
        with pytest.raises(FilesError, match="worktree of another alpha"):
            await swarm.create("alpha", on=str(top), worktree=True)
        assert (await swarm.view()).myses == ()


async def test_a_mysis_never_gets_the_worktree_of_another_one_of_its_name(where: Places, tmp_path: Path) -> None:
    top = make_repository(tmp_path / "repo", sums__py=SUM)
    trees = Worktrees(where.data)
    async with open_swarm(where) as (swarm, provider):
        first = await swarm.create("alpha", template="free", on=str(top), worktree=True, start=False)
        await swarm.delete("alpha")
        await work(swarm, "alpha", top)
        await swarm.delete("alpha")
        left, tip = trees.owned.read("alpha"), git(top, "rev-parse", "zoea/alpha")
        await swarm.undelete(first.id)
        await swarm.start("alpha")
        await swarm.send("alpha", "Mend the sum.")
        await swarm.wait("alpha", timeout_s=60)
        assert "see upstream-workbench.log" in results_of(provider.requests[-1])[0].content
        (log,) = where.data.rglob("upstream-workbench.log")
        assert "there is a worktree of another alpha" in log.read_text()
        await swarm.delete("alpha")
    assert trees.owned.read("alpha") == left
    assert git(top, "rev-parse", "zoea/alpha") == tip


async def test_what_cannot_be_worked_on_is_refused(where: Places, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    async with open_swarm(where) as (swarm, _):
        for typed in (str(tmp_path / "missing"), f"/{'x' * 5_000}", "a\0b"):
            with pytest.raises(UsageError, match="no folder"):
                await swarm.create("alpha", on=typed)
        with pytest.raises(FilesError, match="in no git repository"):
            await swarm.create("alpha", on=str(plain), worktree=True)
        top = make_repository(tmp_path / "repo", sums__py=SUM)
        git(tmp_path, "clone", "--quiet", "--bare", str(top), "bare.git")
        (tmp_path / "link").symlink_to(where.data)
        for folder, why in (
            (where.data, "folder of Zoea itself"),
            (where.data / "blobs", "folder of Zoea itself"),
            (tmp_path / "link", "folder of Zoea itself"),
            (top / ".git", "git's own folder"),
            (top / ".git" / "hooks", "git's own folder"),
            (tmp_path / "bare.git", "a bare repository"),
        ):
            folder.mkdir(exist_ok=True)
            with pytest.raises(UsageError, match=why):
                await swarm.create("alpha", on=str(folder))
        with pytest.raises(UsageError, match="no name of a worktree"):
            await swarm.create("my agent", on=str(top), worktree=True)
        assert (await swarm.view()).myses == ()


async def test_others_are_offered_no_files(where: Places) -> None:
    async with open_swarm(where, lambda _: Answer("ready")) as (swarm, provider):
        await swarm.create("alpha", template="free")
        await swarm.send("alpha", "Hello")
        await swarm.wait("alpha", timeout_s=20)
        assert await swarm.upstreams() == ()
    assert not {"read_file", "run"} & {tool.name for request in provider.requests for tool in request.tools}


def test_no_module_of_the_folder_that_zoea_was_started_in_is_run(
    where: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of both own servers, which are processes of this Python."""
    (tmp_path / "asyncio.py").write_text("raise SystemExit('a module of the folder was run')\n")
    monkeypatch.chdir(tmp_path)
    for config in (workbench_upstream(where), world_upstream(Settings(), where)):
        arguments = (*config.args, "--help")
        ran = subprocess.run([config.command, *arguments], capture_output=True, text=True, check=False, timeout=60)
        assert (ran.returncode, "was run" in ran.stderr) == (0, False), ran.stderr


async def test_an_external_agent_works_in_its_worktree_and_each_turn_is_a_commit(where: Places, tmp_path: Path) -> None:
    top = make_repository(tmp_path / "repo", sums__py=SUM)
    write_template(where.config / "templates", {}, acp='fs = "write"', more='tools = { paths = ["*"] }')
    tree = Worktrees(where.data).owned.path("alpha")
    steps = [["ask", {"toolCallId": "a", "kind": "edit", "locations": [{"path": "sums.py"}]}]]
    steps += [["write", str(tree.resolve() / "sums.py"), "total = sum"], ["told", "a", "completed"], ["say", "mended"]]
    async with open_swarm(where) as (swarm, _):
        await swarm.create("alpha", template="outer", on=str(top), worktree=True, task=json.dumps(steps))
        view = await swarm.wait("alpha", timeout_s=60)
        assert view.failure is None
        assert view.text.endswith("mended")
        await swarm.create("beta", template="outer", task='[["write", "own.txt", "x"]]')
        await swarm.wait("beta", timeout_s=60)
    assert git(top, "show", "zoea/alpha:sums.py") == "total = sum"
    assert git(top, "log", "-1", "--format=%an: %s", "zoea/alpha").endswith("mended")
    assert (top / "sums.py").read_text() == SUM
    [own] = (where.data / "agents").glob("beta-*/own.txt")
    assert own.read_text() == "x"


async def test_an_upstream_whose_command_names_the_worktree_runs_in_it(where: Places, tmp_path: Path) -> None:
    top, journal = make_repository(tmp_path / "repo", sums__py=SUM), tmp_path / "journal.jsonl"
    (where.config / "config.toml").write_text(
        f"""
        [upstream.faulty]
        command = {json.dumps(sys.executable)}
        args = ["-I", {json.dumps(str(FAULTY))}, "{{worktree}}"]
        cwd = "{{worktree}}"
        env = {{ FAULTY_JOURNAL = {json.dumps(str(journal))} }}
        session = "per-mysis"
        """
    )

    def call_once(request: ModelRequest) -> Reply:
        steps = [call("pid"), call(DONE_TOOL, summary="done"), Answer("ready")]
        return steps[len(results_of(request))]

    trees = Worktrees(where.data)
    async with open_swarm(where, call_once) as (swarm, provider):
        for name in ("alpha", "beta"):
            await work(swarm, name, top)
        await swarm.create("gamma", template="free", task="Rest.")
        await swarm.wait("gamma", timeout_s=60)
        assert "there is no tool 'pid'" in results_of(provider.requests[-1])[0].content
        await swarm.delete("alpha")
        assert not trees.owned.path("alpha").exists()
    started = [one for one in map(json.loads, journal.read_text().splitlines()) if one["what"] == "start"]
    assert [(one["cwd"], *one["arguments"]) for one in started] == [
        (str(trees.owned.path(name)),) * 2 for name in ("alpha", "beta")
    ]
