"""A pipeline over topics killed after any op goes on with the same requests.

It hands each result on once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import OpenAIServer
from tests.fakes.pipeline_model import approve_at_once, text_of
from tests.faults import database_checker
from zoea.store.database_file import open_reader

pytestmark = pytest.mark.usefixtures("forked_programs")

ROOT = Path(__file__).parents[2]
EVERY = 1 if os.environ.get("ZOEA_SOAK") else 13
"""The quick run kills after every thirteenth op."""
PUBLISHED = ["ISSUE_OPENED", "PLAN_READY", "IMPLEMENTATION_READY", "VALIDATION_RESULT"]
SPOKEN = "SELECT topic FROM topic_message WHERE sender_kind <> 'zoea' ORDER BY id"
TURNS = """
SELECT y.name, t.outcome, c.last_agent_start, c.last_task_end FROM turn t JOIN mysis y ON y.id = t.mysis_id
JOIN topic_cursor c ON c.mysis_id = y.id ORDER BY t.id
"""


async def play(path: Path, server: OpenAIServer, ops: int) -> int:
    """Run the pipeline to its end, or to its death after `ops` ops. Return the exit code."""
    command = [sys.executable, "-m", "tests.faults.killed_pipeline", str(path), server.base_url, str(ops)]
    child = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stderr=asyncio.subprocess.PIPE)
    _, trouble = await child.communicate()
    assert child.returncode in (0, -signal.SIGKILL), trouble.decode()
    return int(child.returncode)


def check_requests(server: OpenAIServer) -> None:
    """Check that each request of a turn is the same each time it is sent.

    Each extends the one before.
    """
    seen: dict[tuple[str, int], str] = {}
    of_turn: dict[str, list[list[dict[str, Any]]]] = {}
    for chat in server.chats:
        messages = chat.json["messages"]
        system = text_of(messages[0])
        told = json.dumps(messages)
        assert seen.setdefault((system, len(messages)), told) == told
        of_turn.setdefault(system, []).append(messages)
    for requests in of_turn.values():
        longest = max(requests, key=len)
        assert all(longest[: len(one)] == one for one in requests)


def check_rows(path: Path) -> None:
    """Check that each role answered once, published once, and has its place in the ledger."""
    database_checker.at_rest(path)
    with closing(open_reader(path)) as connection:
        assert [row[0] for row in connection.execute(SPOKEN)] == PUBLISHED
        turns = [tuple(row) for row in connection.execute(TURNS)]
        ids = {row[0]: row[1] for row in connection.execute("SELECT topic, max(id) FROM topic_message GROUP BY topic")}
    assert [turn[:2] for turn in turns] == [(role, "answered") for role in ("planner", "worker", "validator")]
    for (_, _, start, end), woke, told in zip(turns, PUBLISHED, PUBLISHED[1:], strict=False):
        assert ids[woke] <= start < ids[told] < end


@pytest.mark.timeout(1800 if EVERY == 1 else 240)
async def test_a_pipeline_that_is_killed_after_any_op_hands_each_result_on_once(tmp_path: Path) -> None:
    ops = 1
    while True:
        folder = tmp_path / str(ops)
        folder.mkdir()
        async with OpenAIServer(otherwise=approve_at_once) as server:
            was_killed = await play(folder / "zoea.db", server, ops) != 0
            if was_killed:
                assert await play(folder / "zoea.db", server, 0) == 0
            check_requests(server)
        check_rows(folder / "zoea.db")
        if not was_killed:
            break
        ops += EVERY
    assert ops > 20  # every op of three turns was among them
