"""The newcomer's way over a real terminal. The screen names each key before it is pressed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.e2e.newcomer_jobs import JOBS, NewcomerJobs, answer_jobs, write_settings
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


MOST = {"tasks": 17, "sixty": 12, "budget": 17, "faults": 7, "fork": 11, "look": 13}
"""The keys of each job at most, besides the texts that are typed."""
NARROW, WIDE = (80, 24), (120, 40)
SIZES: dict[str, tuple[tuple[int, int], ...]] = dict.fromkeys(JOBS, (NARROW, WIDE))
if not os.environ.get("ZOEA_SOAK"):  # each job once; most where the screen has least room to name its keys
    SIZES = {job: (WIDE,) if job in ("tasks", "look") else (NARROW,) for job in JOBS}


@pytest.mark.parametrize(
    ("job", "size"),
    [(job, size) for job in JOBS for size in SIZES[job]],
    ids=lambda value: value if isinstance(value, str) else f"{value[0]}x{value[1]}",
)
async def test_a_job_takes_few_keys_and_the_screen_names_each(
    job: str, size: tuple[int, int], runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.chdir(tmp_path)
    async with OpenAIServer(otherwise=answer_jobs) as server:
        write_settings(Path(os.environ["ZOEA_CONFIG_DIR"]), server, job)
        jobs = NewcomerJobs(server, size)
        await asyncio.to_thread(jobs.play, job)
    assert sum(step.keys for step in jobs.steps) <= MOST[job]
