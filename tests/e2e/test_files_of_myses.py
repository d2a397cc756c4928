"""A mysis mends a repository in a worktree: the commands that a person types, as processes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.e2e.test_tasks import configure, run
from tests.e2e.zoea_process import find_owner, spawn
from tests.fakes.openai_server import Call, OpenAIServer, Say
from tests.files.repositories import git, make_repository
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
        owner = spawn("run", "--headless", "--myses", "0")
        try:
            await until(find_owner, within=60)
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
            assert f"tree-{tip[:12]}" in (await run("ctx", "show", "@alpha")).stdout
            assert "-    return sum(numbers) + 1\n+    return sum(numbers)\n" in (await run("diff", "alpha")).stdout
            kept = await run("delete", "alpha", "--yes")
            assert kept.stdout.splitlines()[0] == "alpha (#1) is deleted"
            assert "Its worktree holds work and stays: " in kept.stdout
            assert "alpha is merged into main" in (await run("merge", "alpha")).stdout
            assert (top / "sums.py").read_text() == SUM.replace(" + 1", "")
            assert (await run("drop", "alpha")).returncode == 0
            assert git(top, "branch", "--list", "zoea/*") == ""
        finally:
            owner.terminate()
            await asyncio.to_thread(owner.communicate, timeout=60)
