"""An external MCP client: the SDK's own in a process of its own, that searches as long as it is told.

`python -m tests.fakes.mcp_searcher URL TOKEN SEARCHES` writes one JSON object: how many were done, what failed, how
long they took.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

QUERIES = {
    "rare": {"query": "beryllium"},
    "common": {"query": "e"},
    "phrase": {"query": "Everybody: report your"},
    "absent": {"query": "no such words anywhere"},
    "ranked": {"query": "report hold", "match": "ranked"},
}


async def main(url: str, token: str, searches: int) -> None:
    took: dict[str, list[float]] = {name: [] for name in QUERIES}
    failed: list[str] = []
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60.0, verify=False) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        names = list(QUERIES)
        for number in range(searches):
            name = names[number % len(names)]
            began = time.monotonic()
            result = await client.call_tool("zoea_search_messages", {**QUERIES[name], "limit": 5})
            took[name].append((time.monotonic() - began) * 1_000)
            if result.is_error:
                failed.append(str(result.content))
    ms = {name: sorted(times) for name, times in took.items()}
    figures = {
        name: {"p50": round(times[len(times) // 2], 1), "p99": round(times[(len(times) * 99) // 100], 1)}
        for name, times in ms.items()
        if times
    }
    sys.stdout.write(json.dumps({"searches": searches, "failed": failed, "ms": figures}) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
