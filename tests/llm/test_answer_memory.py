"""No answer of a model or MCP server takes much more memory than its bound.

That holds whatever is in it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.fakes.endless_bodies import BODIES, MIB, SCALE, EndlessBodies
from zoea.llm.providers.http_provider import MAX_ANSWER_BYTES

ROOT = Path(__file__).parents[2]
COPIES = 4
"""Times the bound of an answer that reading it may take: an emoji makes four bytes of each character."""
MOST = COPIES * MAX_ANSWER_BYTES // SCALE + (24 * MIB if SCALE > 1 else 0)
"""What freed memory the process has not given back counts more beside the lower bound."""


@pytest.mark.timeout(170)
@pytest.mark.usefixtures("forked_programs")
@pytest.mark.parametrize("wire", BODIES)
async def test_no_answer_takes_much_more_memory_than_its_bound(wire: str) -> None:
    bodies = BODIES[wire]
    async with EndlessBodies(bodies) as server:
        reader = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.fakes.answer_memory", wire, server.url, str(len(bodies))),
            cwd=ROOT,
            env=dict(os.environ),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        wrote, errors = await asyncio.wait_for(reader.communicate(), 160)
    assert reader.returncode == 0, errors.decode()[-1000:]
    results = dict(zip(bodies, map(json.loads, wrote.splitlines()), strict=True))
    assert all(ended for _, ended in results.values())
    too_much = {name: taken for name, taken in results.items() if taken[0] > MOST}
    assert not too_much
