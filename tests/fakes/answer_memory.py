"""Reads answers of one wire in its own process, and writes the memory of each.

python -m tests.fakes.answer_memory WIRE URL COUNT
"""

from __future__ import annotations

import asyncio
import importlib
import json
import pkgutil
import sys
import tempfile
from pathlib import Path

from tests.fakes.endless_bodies import SCALE
from tests.fakes.import_bombs import forget_peak, read_peak
from tests.llm.sample_requests import SCAN, items, provider, request
from tests.waiting import until
from zoea import llm, tools
from zoea.llm.provider_config import Timeouts
from zoea.model.errors import ProviderError
from zoea.tools import Toolbox, UpstreamConfig

PATIENCE_S = 100.0
BOUNDS = (
    "MAX_ANSWER_BYTES",
    "MAX_DOCUMENT_BYTES",
    "MAX_EVENT_BYTES",
    "MAX_KEPT_BYTES",
    "MAX_LINE_BYTES",
    "MAX_MEMORY",
    "MAX_REPAIRED_BYTES",
)


def lower_bounds() -> None:
    """Divide the bounds of answers by `SCALE`, in each module that knows one."""
    for package in (llm, tools):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(found.name)
            for bound in BOUNDS:
                if hasattr(module, bound):
                    setattr(module, bound, getattr(module, bound) // SCALE)


async def read_answer(wire: str, url: str) -> str:
    """Return how an answer of a model ended."""
    source = provider(wire, url, timeouts=Timeouts(first=PATIENCE_S, between=PATIENCE_S))
    try:
        await items(source, request(tools=(SCAN,)))
    except ProviderError as error:
        return error.what
    finally:
        await source.close()
    return "an answer"


async def open_session(url: str) -> str:
    """Return why no session with an MCP server was opened."""
    with tempfile.TemporaryDirectory() as logs:
        config = UpstreamConfig("endless", url=f"{url}/mcp", start_timeout=PATIENCE_S, retries=0)
        box = Toolbox((config,), logs=Path(logs))
        box.open()
        try:
            await until(lambda: box.status()[0].state == "down", within=PATIENCE_S)
            return box.status()[0].last_error or ""
        finally:
            await box.close()


async def main() -> None:
    wire, url, number = sys.argv[1:]
    lower_bounds()
    for place in range(int(number)):
        forget_peak()
        before = read_peak()
        ended = await (open_session(f"{url}/{place}") if wire == "mcp" else read_answer(wire, f"{url}/{place}"))
        sys.stdout.write(json.dumps([read_peak() - before, ended[:200]]) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
