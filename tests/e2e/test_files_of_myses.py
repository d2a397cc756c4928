"""A mysis mends a repository in a worktree: the commands that a person types, as processes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.e2e.counted_terminal import CountedTerminal
from tests.e2e.test_tasks import configure, run
from tests.e2e.zoea_process import PATIENCE_S, run_headless
from tests.fakes.openai_server import Call, OpenAIServer, Say, Step
from tests.fakes.wire_server import Received
from tests.files.repositories import commit, git, make_repository
from tests.waiting import until

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("own_runtime")]
SUM = "def total(numbers):\n    return sum(numbers) + 1\n"
EDIT = {"path": "sums.py", "edits": [{"old": "sum(numbers) + 1", "new": "sum(numbers)"}]}


def say(name: str, number: int, **arguments: object) -> Say:
    return Say(calls=(Call(name, json.dumps(arguments), id=f"call_{number}"),))


async def test_a_repository_is_mended_reviewed_and_merged(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "repo", sums__py=SUM)
    steps = (say("read_file", 1, path="sums.py"), say("edit_file", 2, **EDIT), say("zoea_done", 3, summary="Mended."))
    async with OpenAIServer(*steps, otherwise=lambda _: Say("Ready.")) as server:
        configure(tmp_path, server)
        async with run_headless("--myses", "0"):
            refused = await run("new", "alpha", "--worktree")
            assert (refused.returncode, "of a folder" in refused.stderr) == (2, True)
            made = await run("new", "alpha", "--on", str(top), "--worktree", "--task", "Mend the sum.")
            assert made.stdout == f"alpha is running\nIt works on: worktree of {top}\n"

            async def asks() -> bool:
                return "edit_file" in (await run("approvals")).stdout

            for _ in range(60):
                if await asks():
                    break
            assert (await run("approve", "alpha")).returncode == 0
            for _ in range(60):
                if "done" in (await run("list")).stdout:
                    break
            shown = (await run("show", "alpha")).stdout
            assert f"works on  worktree of {top}\n" in shown
            tip = git(top, "rev-parse", "zoea/alpha")

            async def names_its_tree() -> bool:
                return f"tree-{tip[:12]}" in (await run("ctx", "show", "@alpha")).stdout

            await until(names_its_tree, within=PATIENCE_S)  # the files are committed first
            assert "-    return sum(numbers) + 1\n+    return sum(numbers)\n" in (await run("diff", "alpha")).stdout
            [origin] = json.loads((await run("diff", "alpha", "--json")).stdout)["origins"]
            assert (origin["path"], origin["hunk"][:3], origin["turns"]) == ("sums.py", "@@ ", [1])
            assert (origin["answer"], origin["allowed_at"] > 0, origin["is_committed"]) == ("once", True, True)
            kept = await run("delete", "alpha", "--yes")
            assert kept.stdout.splitlines()[0] == "alpha (#1) is deleted"
            assert "Its worktree holds work and stays: " in kept.stdout
            assert "alpha is merged into main" in (await run("merge", "alpha")).stdout
            assert (top / "sums.py").read_text() == SUM.replace(" + 1", "")
            assert (await run("drop", "alpha")).returncode == 0
            assert git(top, "branch", "--list", "zoea/*") == ""


def resolve(request: Received) -> Step:
    """Mend the file, and the conflict in it that a later message tells."""
    messages = request.json["messages"]
    last = max(at for at, one in enumerate(messages) if one["role"] == "user")
    is_conflict = "changed the same in sums.py" in json.dumps(messages[last])
    done = sum(one["role"] == "tool" for one in messages[last:])
    text = "mine and theirs\n" if is_conflict else "mine\n"
    steps = (say("read_file", 1, path="sums.py"), say("write_file", 2, path="sums.py", content=text))
    return steps[done] if done < len(steps) else say("zoea_done", 3, summary="Done.") if done < 3 else Say("Ready.")


async def test_a_conflict_goes_back_to_its_mysis_which_resolves_it(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "repo", sums__py="first\n")
    async with OpenAIServer(otherwise=resolve) as server:
        configure(tmp_path, server)
        async with run_headless("--myses", "0"):
            await run("new", "alpha", "--on", str(top), "--worktree", "--task", "Mend sums.py.")
            await approve_a_write()
            commit(top, "theirs", sums__py="theirs\n")
            refused = await run("merge", "alpha")
            assert (refused.returncode, "`zoea merge alpha --send-back`" in refused.stdout) == (13, True)
            sent = json.loads((await run("merge", "alpha", "--send-back", "--json")).stdout)
            assert (sent["sent_back"], sent["conflicts"][0]["path"]) == ("alpha", "sums.py")
            await approve_a_write()
            assert "alpha is merged into main" in (await run("merge", "alpha")).stdout
            assert (top / "sums.py").read_text() == "mine and theirs\n"


async def approve_a_write() -> None:
    """Wait for the question of alpha and allow it. Then wait until alpha has done its task."""
    for _ in range(60):
        if "write_file" in (await run("approvals")).stdout:
            break
    assert (await run("approve", "alpha")).returncode == 0
    for _ in range(60):
        if json.loads((await run("list", "--json")).stdout)[0]["status"] == "done":
            break


def fix_bugs(request: Received) -> Step:
    """Read the file that the task names and mend its line. Resolve a conflict in it, and report that."""
    messages = request.json["messages"]
    told = [json.dumps(one["content"]) for one in messages if one["role"] == "user"]
    path = next((name for name in ("sums.py", "names.py", "dates.py") if any(name in text for text in told)), "")
    done = sum(one["role"] == "tool" for one in messages)
    steps = (
        say("read_file", 1, path=path),
        say("edit_file", 2, path=path, edits=[{"old": "wrong", "new": "right"}]),
        say("zoea_done", 3, summary=f"{path} is mended."),
    )
    return steps[done] if path and done < len(steps) else Say("Ready.")


async def test_three_agents_fix_a_bug_in_the_repository_in_eight_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = make_repository(
        tmp_path / "repo", sums__py="wrong\n", names__py="wrong\n", dates__py="wrong\n", mine__txt="a\n"
    )
    (top / "draft.txt").write_text("mine, not committed\n")
    monkeypatch.chdir(top)
    async with OpenAIServer(otherwise=fix_bugs) as server:
        configure(tmp_path, server)
        way = CountedTerminal()
        try:
            await asyncio.to_thread(go_eight_keys, way)
        finally:
            way.close()
    assert way.steps[0].keys == 8
    for name in ("sums.py", "names.py", "dates.py"):
        assert (top / name).read_text() == "right\n"
    assert git(top, "status", "--porcelain") == "?? draft.txt"


def go_eight_keys(way: CountedTerminal) -> None:
    way.open()
    with way.step("let three agents fix a bug in your repository"):
        way.press("\r", "Agents change repo")
        way.type("1. Mend sums.py", "NEW MYSIS", "task")
        for line in ("2. Mend names.py", "3. Mend dates.py x3"):
            way.glass.press("\n")
            way.type(line, "NEW MYSIS")
        way.see("3 myses, a numbered part each", "a worktree each")
        way.press("\r", "enter create")
        way.press("o", "o approvals 3")
        way.press("t", "t allow for template")
        way.press("\x1b", "nothing else waits: esc closes", "dates.py is mended.")
        way.see(lambda text: "esc closes" not in text)
        way.press("d", *(f"{name}.py is mended." for name in ("sums", "names", "dates")))
        way.press("m", "CHANGES OF", "m merge")
        way.press("a", "a  merge all")
        way.see(lambda text: text.count("is merged into main") == 3)
