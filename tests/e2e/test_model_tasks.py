"""A fake plays the tasks of `make bench-models` over each API. It behaves as a small real model did."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from benchmarks.models.tasks import TASKS
from tests.fakes.gguf import put_model
from tests.fakes.small_model import SmallAnthropicServer, SmallOpenAIServer
from zoea.llm.local.embedded_provider import EmbeddedProvider
from zoea.llm.local.llama_server import LlamaServer, LlamaServerOptions
from zoea.llm.local.model_files import LocalModel, LocalModels
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.registry import make
from zoea.model.ports import Provider
from zoea.process.clock import SystemClock

GGUF = b"GGUF" + (3).to_bytes(4, "little") + bytes(1000)


class StandingServer(LlamaServer):
    """A `LlamaServer` whose process is the fake."""

    def __init__(self, model: LocalModel, url: str) -> None:
        super().__init__(model.path, model.name)
        self.address = url

    @property
    def is_running(self) -> bool:
        return True

    async def start(self) -> None:
        """It runs already."""

    async def close(self) -> None:
        """It is closed by the test."""


@asynccontextmanager
async def small_model(kind: str, folder: Path) -> AsyncIterator[Provider]:
    """Open the provider of that type over the fake."""
    config = ProviderConfig(kind, concurrency=None)
    if kind == "anthropic":
        async with SmallAnthropicServer() as messages:
            made = make("near", ProviderConfig(kind, base_url=messages.url, concurrency=None), clock=SystemClock())
            yield made
            await made.close()
        return
    async with SmallOpenAIServer() as server:
        if kind == "openai":
            made = make("near", ProviderConfig(kind, base_url=server.base_url, concurrency=None), clock=SystemClock())
        else:
            models = LocalModels(folder / "models")
            put_model(models, "tiny")

            def start(model: LocalModel, _options: LlamaServerOptions) -> LlamaServer:
                return StandingServer(model, server.url)

            made = EmbeddedProvider("near", config, SystemClock(), models, start)
        yield made
        await made.close()


@pytest.mark.parametrize("task", ["time", "commits", "message"])
@pytest.mark.parametrize("kind", ["openai", "anthropic", "embedded"])
async def test_the_task_is_done_over_each_api(tmp_path: Path, kind: str, task: str) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    async with small_model(kind, tmp_path) as provider:
        result = await TASKS[task](provider, folder)
    assert (result.done, result.of, result.malformed) == (1, 1, 0)
    assert result.calls == (2 if task == "time" else 1)
