"""The pipeline that the guide ships as an example: planner, worker and validator work over topics in a real process."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.zoea_process import ROOT, ask, find_owner, spawn, zoea
from tests.fakes.openai_server import OpenAIServer
from tests.fakes.pipeline_model import REWORK, play_role, text_of
from tests.waiting import until_true

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("own_runtime")]
EXAMPLE = ROOT / "documentation" / "examples" / "pipeline"
ROLES = ("planner", "worker", "validator")


def configure(folder: Path, server: OpenAIServer) -> None:
    (folder / "config.toml").write_text(
        f'[provider.local]\ntype = "openai"\nbase_url = "{server.base_url}"\nmodel = "reef-1"\ncontext_window = 32768\n'
    )
    for role in ROLES:
        shutil.copy(EXAMPLE / f"{role}.toml", folder / "templates" / f"{role}.toml")


async def run(*arguments: str) -> str:
    ran = await asyncio.to_thread(zoea, *arguments)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def of_role(server: OpenAIServer, role: str) -> list[list[dict[str, Any]]]:
    """The messages of each request of a role."""
    sent: list[list[dict[str, Any]]] = [chat.json["messages"] for chat in server.chats]
    return [messages for messages in sent if f"Your role is {role}" in text_of(messages[0])]


async def test_an_issue_is_planned_carried_out_rejected_mended_and_approved(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    (folder / "templates").mkdir(parents=True)
    async with OpenAIServer(otherwise=play_role) as server:
        configure(folder, server)
        checked = await asyncio.to_thread(zoea, "config", "check")
        assert checked.returncode == 0, checked.stderr
        process = spawn("run", "--headless", "--json", "--myses", "1")
        try:
            await asyncio.to_thread(until_true, lambda: find_owner() and ask("SELECT 1 FROM mysis"))
            assert '"alpha"' in await run("list", "--json")
            for role in ROLES:
                await run("new", f"{role}-1", "--template", role, "--idle")
            await run("topic", "publish", "ISSUE_OPENED", "The login fails.", "--data", '{"title": "Login"}')
            approved = "SELECT 1 FROM topic_message WHERE topic = 'VALIDATION_RESULT' AND data ->> 'approved' = 1"
            ended = "SELECT count(*) FROM turn WHERE outcome = 'answered'"
            await asyncio.to_thread(until_true, lambda: bool(ask(approved)) and ask(ended) == [(5,)])
        finally:
            process.terminate()
            await asyncio.to_thread(process.communicate, timeout=30)

        topics = [row[0] for row in ask("SELECT topic FROM topic_message WHERE sender_kind <> 'zoea' ORDER BY id")]
        assert topics[:4] == ["ISSUE_OPENED", "PLAN_READY", "IMPLEMENTATION_READY", "REWORK_NEEDED"]
        # The worker begins at the call that asks for rework, and may be ready before the turn of the validator ends.
        assert sorted(topics[4:6]) == ["IMPLEMENTATION_READY", "VALIDATION_RESULT"]
        assert topics[6:] == ["VALIDATION_RESULT"]
        state = ask("SELECT content FROM topic_message WHERE topic = 'STATE_SNAPSHOT' ORDER BY id DESC LIMIT 1")
        assert state == [("Task: Login\nPlan: Keep the cookie\nProgress: canValidate=true\nValidation: approved",)]

        planner, worker, validator = (of_role(server, role) for role in ROLES)
        assert [len(planner), len(worker), len(validator)] == [2, 2, 3]
        assert planner[1][: len(planner[0])] == planner[0]
        shown = [text_of(message) for message in worker[1]]
        assert shown[-1] == f"[topic REWORK_NEEDED to worker-1, from mysis validator-1]\n{REWORK}"
        blocks = [text.partition("\n")[0].removeprefix("## Messages from topic: ") for text in shown[1:-1]]
        # The message that opens the turn stands last alone, and the validator may end its turn before or after it.
        assert blocks in (
            ["ISSUE_OPENED", "STATE_SNAPSHOT", "PLAN_READY", "VALIDATION_RESULT"],
            ["ISSUE_OPENED", "STATE_SNAPSHOT", "PLAN_READY"],
        )
        explained = await run("explain", "worker-1")
        packs = ("header", "system", "schema", "ISSUE_OPENED", "STATE_SNAPSHOT", "PLAN_READY", "REWORK_NEEDED", "turn")
        places = [explained.index(f"  {pack} ") for pack in packs]
        assert places == sorted(places)
