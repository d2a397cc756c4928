"""A search in a turn: it finds what was said before, never the call that asks nor the answer that holds it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.toolboxes import asked
from tests.swarm.harness import script, swarm
from zoea.model.request import Answer


@pytest.mark.parametrize("match", ["exact", "ranked"])
@pytest.mark.parametrize("tool", ["zoea_search_messages", "zoea_search_reasoning"])
async def test_a_search_does_not_find_itself(tmp_path: Path, tool: str, match: str) -> None:
    searches = Answer(
        text="I look for beryllium.",
        reasoning="beryllium it is",
        calls=(asked(tool, query="beryllium", match=match), asked(tool, query="cobalt", match=match)),
    )
    answers = script(
        Answer(text="Beryllium: none. beryllium", reasoning="beryllium, then"), searches, Answer(text="so")
    )
    async with swarm(tmp_path, answers) as s:
        await s.ask("alpha", "hello")
        await s.ask("alpha", "go on")
        rows = await s.store.read("SELECT content FROM memory WHERE role = 'tool' ORDER BY seq")
        first, second = (json.loads(row["content"]) for row in rows)
    assert [texts(row) for row in first["results"]] == ["Beryllium: none. beryllium"]
    assert second["results"] == []


def texts(row: dict[str, Any]) -> str:
    return str(row["content"])
