"""The newcomer's way over a real terminal; the screen names each key before it is pressed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.e2e.newcomer_way import MODELS, MYSES, NewcomerWay, answer_newcomer
from tests.fakes.openai_server import OpenAIServer

pytestmark = pytest.mark.timeout(240)


async def test_a_newcomer_is_told_each_key_from_an_empty_directory_to_a_reviewed_task(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    async with OpenAIServer(otherwise=answer_newcomer) as server:
        server.models = [{"id": name, "object": "model"} for name in MODELS]
        way = NewcomerWay(server.base_url)
        try:
            await asyncio.to_thread(way.go)
        finally:
            way.close()
    assert len(way.steps) == 9
    assert sum(step.keys for step in way.steps) < 40 + 2 * MYSES
