"""Measure real work with real models: success, calls, malformed calls, tokens, cached tokens and seconds.

    python -m benchmarks.models FILE.gguf [FILE.gguf …] [--modes auto,json_schema] [--types embedded,openai,anthropic]
        [--tasks time,commits,message,recall,reef] [--save NEW.json] [--beside OLD.json]

`--beside` puts the figures of an earlier commit, saved by `--save`, next to those of this one. For the types `openai`
and `anthropic` the same engine is served on a loopback port.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.models.tasks import TASKS, TaskResult
from zoea.llm.local.llama_server import LlamaServer, LlamaServerOptions
from zoea.llm.local.model_files import LocalModels
from zoea.llm.provider_config import ProviderConfig, Timeouts
from zoea.llm.registry import make, makers
from zoea.model.enums import ToolMode
from zoea.model.ports import Provider
from zoea.process.clock import SystemClock

ROOT = Path(__file__).parents[2]
PATIENT = Timeouts(first=1800.0, between=600.0)


@dataclass(frozen=True, slots=True)
class MeasuredSetup:
    """A model, the API it is spoken to by, and its tool mode."""

    model: str
    type: str
    mode: str

    @property
    def title(self) -> str:
        return f"{self.model}, {self.type}, {self.mode}"


@asynccontextmanager
async def opened(file: Path, setup: MeasuredSetup, context: int, temperature: float | None) -> AsyncIterator[Provider]:
    """Serve the file, and open a provider that speaks to it."""
    config = ProviderConfig(
        setup.type,
        model=setup.model,
        tool_mode=ToolMode(setup.mode),
        concurrency=None,
        temperature=temperature,
        timeouts=PATIENT,
    )
    with tempfile.TemporaryDirectory(prefix="zoea-models-") as folder:
        models = LocalModels(Path(folder))
        models.folder.mkdir(exist_ok=True)
        models.add(file, setup.model)
        if setup.type == "embedded":
            config = config.replace(options={"context": context})
            provider = make("bench", config, clock=SystemClock(), makers=makers(models))
            try:
                yield provider
            finally:
                await provider.close()
            return
        server = LlamaServer(file, setup.model, LlamaServerOptions(context=context))
        await server.start()
        headers = {"authorization": f"Bearer {server.key}", "connection": "close"}
        base = f"{server.address}/v1" if setup.type == "openai" else server.address
        provider = make("bench", config.replace(base_url=base, headers=headers), clock=SystemClock())
        try:
            yield provider
        finally:
            await provider.close()
            await server.close()


async def measure(
    file: Path, setup: MeasuredSetup, tasks: list[str], context: int, temperature: float | None
) -> list[TaskResult]:
    """Play each task, with the model served anew only once."""
    found = []
    with tempfile.TemporaryDirectory(prefix="zoea-tasks-") as folder:
        for task in tasks:
            (Path(folder) / task).mkdir()
            async with opened(file, setup, context, temperature) as provider:
                result = await TASKS[task](provider, Path(folder) / task)
            sys.stderr.write(f"{setup.title}: {result}\n")
            found.append(result)
    return found


def table(setup: str, now: list[TaskResult], before: dict[str, TaskResult], commit: str) -> list[str]:
    """Format the figures of one setup; those of the earlier commit stand in brackets."""
    lines = [
        f"## {setup}" + (f" (in brackets: {commit})" if before else ""),
        "",
        "| task | done | calls | malformed | prompt tokens | of them cached | seconds |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for one in now:
        cells, old = _cells(one), _cells(before[one.task]) if one.task in before else []
        cells = [f"{cell} ({other})" for cell, other in zip(cells, old, strict=True)] if old else cells
        lines.append(f"| {one.task} | {' | '.join(cells)} |")
    return [*lines, ""]


def _cells(one: TaskResult) -> list[str]:
    counts = (one.calls, one.malformed, one.tokens, one.cached)
    return [f"{one.done} of {one.of}", *(f"{count:,}" for count in counts), f"{one.seconds:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.models", description="Real work with real models.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.gguf")
    parser.add_argument("--modes", default="auto,json_schema")
    parser.add_argument("--types", default="embedded")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--context", type=int, default=8192, help="tokens of the window")
    parser.add_argument("--temperature", type=float, help="unset is the model's own; 0 makes runs alike")
    parser.add_argument("--save", type=Path, help="write the figures to this file, for --beside")
    parser.add_argument("--beside", type=Path, help="figures of an earlier commit")
    asked = parser.parse_args()
    old: dict[str, Any] = json.loads(asked.beside.read_text()) if asked.beside else {"commit": "", "setups": {}}
    commit = subprocess.run(
        ("git", "rev-parse", "--short", "HEAD"), cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    setups: dict[str, list[dict[str, object]]] = {}
    for file in asked.files:
        for kind in asked.types.split(","):
            for mode in asked.modes.split(","):
                setup = MeasuredSetup(file.stem, kind, mode)
                found = asyncio.run(measure(file, setup, asked.tasks.split(","), asked.context, asked.temperature))
                setups[setup.title] = [asdict(one) for one in found]
                before = {one["task"]: TaskResult(**one) for one in old["setups"].get(setup.title, [])}
                sys.stdout.write("\n".join(table(setup.title, found, before, old["commit"])) + "\n")
                sys.stdout.flush()
                if asked.save:
                    asked.save.write_text(json.dumps({"commit": commit, "setups": setups}, indent=1))


if __name__ == "__main__":
    main()
