"""The fake OpenAI-compatible server in its own process, with a line to steer it.

`python -m benchmarks.model_server` prints its address, then answers each JSON line on
its input with one on its output, until the input ends. Benchmarks use `ModelServer`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from tests.fakes.openai_server import OpenAIServer

ROOT = Path(__file__).parents[1]


class ModelServer:
    """The server's process, from outside."""

    def __init__(self, process: Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input = process.stdin
        self._output = process.stdout
        self.pid = process.pid
        self.base_url = self._output.readline().strip()

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        """Send one command; see `_obey` for what there is."""
        self._input.write(json.dumps({"do": do, **more}) + "\n")
        self._input.flush()
        answer: dict[str, Any] = json.loads(self._output.readline())
        return answer


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """A server that runs while the block does."""
    command = [sys.executable, "-m", "benchmarks.model_server"]
    with Popen(command, cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True) as process:
        try:
            yield ModelServer(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=10)


def _obey(server: OpenAIServer, do: str, more: dict[str, Any]) -> dict[str, Any]:
    """Carry out a command. `outage` refuses for `seconds`; `report` gives the times of all chats and forgets them."""
    match do:
        case "outage":
            server.outage(more["seconds"], retry_after=more["retry_after"])
            return {}
        case "report":
            times = [chat.at for chat in server.chats]
            connections, server.connections = server.connections, 0
            server.received.clear()
            return {"times": times, "connections": connections}
    raise ValueError(f"no command {do!r}")


async def _serve() -> None:
    async with OpenAIServer() as server:
        print(server.base_url, flush=True)
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            command = json.loads(line)
            print(json.dumps(_obey(server, command.pop("do"), command)), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve())
