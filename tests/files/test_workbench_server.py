"""The real `zoea workbench` over stdio: sessions, confinement, and what is left when it ends in any way."""

from __future__ import annotations

import asyncio
import io
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import TextContent

from tests.fakes.processes import find_processes, is_alive
from tests.files.repositories import commit, git, make_repository, snapshot, state
from tests.waiting import until, until_true
from zoea.files import workbench_server
from zoea.files.leftovers import find_leftovers
from zoea.files.merge import MergeRules, merge
from zoea.files.safe_folder import SafeFolder
from zoea.files.workbench import Workbench
from zoea.files.workbench_server import answer, build_server
from zoea.files.workbench_tools import TOOLS
from zoea.files.worktrees import Worktrees
from zoea.model.errors import FilesError, WorkHeld
from zoea.process.sandbox import Sandbox

pytestmark = pytest.mark.usefixtures("forked_programs")

SOAK = bool(os.environ.get("ZOEA_SOAK"))
PYTHON = os.path.realpath(sys.executable)
"""Not the link of a virtual environment, which may stand where a confined command sees nothing."""


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(("ZOEA_", "PATH", "HOME", "TMP"))}


def server(*arguments: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable, args=["-m", "zoea", "workbench", *arguments], env=environment(), cwd=Path.cwd()
    )


async def call(client: Client, name: str, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    return "".join(getattr(part, "text", "") for part in result.content)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(
        tmp_path / "repository",
        add__py="def add(a, b):\n    return a - b\n",
        test_add__py="from add import add\nassert add(1, 2) == 3\n",
    )


@pytest.fixture
def trees(tmp_path: Path) -> Worktrees:
    return Worktrees(tmp_path / "data")


async def test_a_failing_test_is_made_to_pass_and_merged(repository: Path, trees: Worktrees) -> None:
    (repository / "notes.txt").write_text("mine")
    async with Client(server(str(repository), "--worktree", "alpha")) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert {"read_file", "edit_file", "run", "diff"} <= listed
        failed = await call(client, "run", command=f"{PYTHON} -B test_add.py")
        assert "AssertionError" in failed
        assert "confined" in failed
        await call(client, "read_file", path="add.py")
        await call(client, "edit_file", path="add.py", edits=[{"old": "a - b", "new": "a + b"}])
        assert "exit code 0" in await call(client, "run", command=f"{PYTHON} -B test_add.py")
        assert "+    return a + b" in await call(client, "diff")
        with pytest.raises(WorkHeld, match="a workbench serves"):
            trees.drop("alpha", force=True)
        (trees.owned.path("alpha") / ".gitignore").write_text("__pycache__\n")
        assert trees.commit("alpha", "Add the numbers")
    await asyncio.to_thread(merge, trees, "alpha", MergeRules(f"{PYTHON} -B test_add.py", 60))
    assert (repository / "add.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert (repository / "notes.txt").read_text() == "mine"
    trees.drop("alpha")


async def test_a_worktree_is_served_by_one_workbench_at_a_time(repository: Path, trees: Worktrees) -> None:
    async with Client(server(str(repository), "--worktree", "alpha")) as client:
        await client.list_tools()
        second = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "zoea", "workbench", str(trees.owned.path("alpha")), env=environment(),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        _, errors = await second.communicate()
        assert second.returncode == 13
        assert b"a workbench serves the worktree of alpha" in errors


async def test_a_session_lists_the_tools_says_how_it_is_confined_and_reports_refusals(tmp_path: Path) -> None:
    workbench = Workbench(SafeFolder(tmp_path), Sandbox(tmp_path, text="not confined"))
    async with Client(build_server(workbench)) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == set(TOOLS)
        assert f"Files and commands in {tmp_path}. Commands are not confined." in str(client.instructions)
        assert await call(client, "write_file", path="a.txt", content="one") == "made a.txt: 3 bytes"
        refused = await client.call_tool("read_file", {"path": "../a.txt"})
        assert refused.is_error
    await workbench.close()


async def test_the_server_ends_its_commands_when_its_client_closes_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here in one process; the real one is ended in all ways below."""
    workbench = Workbench(SafeFolder(tmp_path), Sandbox(tmp_path, text="not confined"))
    run = workbench.runs.find(await workbench.runs.start_background("exec sleep 600", 600))
    read, write = os.pipe()
    os.write(write, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    os.close(write)
    out = io.BytesIO()
    monkeypatch.setattr(workbench_server, "adopt_orphans", lambda: None)  # for the whole process
    with os.fdopen(read) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
        await workbench_server.run_stdio(workbench)
    assert b'"id":1' in out.getvalue()
    assert run.is_done


async def test_names_that_are_no_text_and_surrogates_are_answered_as_escapes(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff\xfename")).write_text("found\n")
    workbench = Workbench(SafeFolder(tmp_path), Sandbox(tmp_path, text="not confined"))
    for name, arguments, text in (
        ("list_files", {}, "\\xff\\xfename"),
        ("search_files", {"expression": "found"}, "\\xff\\xfename:1:found"),
        ("read_file", {"path": "\udcff"}, "\\udcff"),
    ):
        [content] = (await answer(workbench, name, arguments)).content
        assert isinstance(content, TextContent)
        assert text in content.text.encode().decode()
    await workbench.close()


async def test_a_plain_folder_works_without_git(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    async with Client(server(str(tmp_path / "plain"))) as client:
        assert "made x" in await call(client, "write_file", path="x", content="text")
        assert "leads upward" in await call(client, "read_file", path="../secret")
        result = await client.call_tool("diff", {})
        assert result.is_error


@pytest.mark.parametrize("ending", ["stdin", signal.SIGTERM, signal.SIGKILL])
async def test_nothing_is_left_running(tmp_path: Path, ending: str | signal.Signals) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "zoea", "workbench", str(folder), env=environment(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    hello = '"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}'
    line = "trap '' TERM HUP; echo $$ > pid; sleep 600 & wait; sleep 600"
    requests = [
        f'{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{{hello}}}}}',
        '{"jsonrpc":"2.0","method":"notifications/initialized"}',
        f'{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"run","arguments":{{"command":"{line}","background":true}}}}}}',
    ]
    process.stdin.write("".join(f"{request}\n" for request in requests).encode())
    await process.stdout.readline()
    assert b"runs in the background" in await process.stdout.readline()
    commands = await until(lambda: find_commands(process.pid))
    if isinstance(ending, str):
        process.stdin.close()
    else:
        process.send_signal(ending)
    await process.wait()
    await until(lambda: not any(is_alive(pid) for pid in commands))


def find_commands(server_pid: int) -> set[int]:
    """Return the processes of the command below a workbench. There are none until the sleep of it runs."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(rest.split()[1])
        names[int(stat.parent.name)] = name
    below = {server_pid}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return below - {server_pid} if any(names.get(pid) == "sleep" for pid in below) else set()


async def test_a_process_that_leaves_its_group_is_ended_with_its_command(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    async with Client(server(str(folder))) as client:
        text = await call(client, "run", command="setsid sleep 600 & sleep 0.2; echo $! > pid; cat /proc/$!/stat")
        if "not confined" in text:  # else it is a number in a namespace that is gone
            await until(lambda: not is_alive(int((folder / "pid").read_text())))
        assert "exit code 0" in text


VERBS = """
import sys
from pathlib import Path
from zoea.files.merge import MergeRules, merge
from zoea.files.safe_folder import SafeFolder
from zoea.files.worktrees import Worktrees
from zoea.model.errors import FilesError
data, repository = map(Path, sys.argv[1:])
trees = Worktrees(data)
number = 0
while True:
    number += 1
    sys.stdout.write(".")
    sys.stdout.flush()
    for verb in (
        lambda: trees.make("alpha", repository),
        lambda: SafeFolder(trees.owned.path("alpha")).write(f"{number}.txt", b"x" * 50_000, None),
        lambda: trees.commit("alpha", f"turn {number}"),
        lambda: merge(trees, "alpha", MergeRules("test -f a.txt", 60)),
        lambda: trees.drop("alpha"),
    ):
        try:
            verb()
        except FilesError:
            pass
"""


@pytest.mark.parametrize("seed", range(100 if SOAK else 4))
def test_a_kill_at_any_moment_loses_nothing_and_leaves_only_what_is_named(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    repository, data = make_repository(tmp_path / "repository"), tmp_path / "data"
    (repository / "mine.txt").write_text("mine")
    trees = Worktrees(data)
    process = subprocess.Popen([sys.executable, "-c", VERBS, str(data), str(repository)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(1 + chance.randrange(3))
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(chance.random() * 0.5)
    process.kill()
    process.wait()
    process.stdout.close()
    # Those that write go on to their end. One that was just forked has the command line of its parent until it is git.
    until_true(lambda: not find_processes((f"{tmp_path}/",)) and not find_git(tmp_path))

    assert (repository / "mine.txt").read_text() == "mine"
    sizes = {path.stat().st_size for path in repository.glob("[0-9]*.txt")}
    assert sizes <= {50_000}
    assert git(repository, "fsck", "--connectivity-only", "--no-dangling") == ""
    named = {leftover.name for leftover in find_leftovers(data)}
    records = {trees.owned.read(name).branch for name in trees.owned.names()}
    branches = {
        f"refs/heads/{line.strip(' *+')}" for line in git(repository, "branch", "--list", "zoea/*").splitlines()
    }
    assert {branch.removeprefix("refs/heads/") for branch in branches - records} <= named
    assert {name for name in trees.owned.names() if name.startswith(".")} <= named
    for name in trees.owned.names():
        try:
            trees.drop(name)
        except FilesError:
            tip = git(repository, "rev-parse", "--verify", "--quiet", f"zoea/{name}", check=False)
            trees.drop(name, force=True)
            assert not tip or git(repository, "cat-file", "-t", tip) == "commit"
    assert git(repository, "worktree", "list").count("\n") == 0
    before = state(repository)
    trees.make("alpha", repository)
    assert state(repository) == before


def find_git(folder: Path) -> list[int]:
    """Return the git processes that work below a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            here = (path / "cwd").readlink()
        except OSError:
            continue
        if words[0].endswith(b"git") and str(here).startswith(str(folder)):
            found.append(int(path.name))
    return found


def test_a_merged_tree_is_the_one_of_the_commit(repository: Path, trees: Worktrees) -> None:
    trees.make("alpha", repository)
    folder = trees.owned.path("alpha")
    commit(folder, add__py="x = 1\n")
    merge(trees, "alpha", MergeRules())
    assert snapshot(repository) == snapshot(folder)
