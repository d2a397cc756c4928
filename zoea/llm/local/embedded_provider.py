"""The embedded provider: serves any GGUF file of the local models with llama.cpp.

A model is loaded when it is first used, once for all myses, into a server for this process only. The `openai` provider
speaks to it as to any llama.cpp server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from zoea.llm.local.llama_server import LlamaServer, LlamaServerOptions, engine_is_installed, missing_extra
from zoea.llm.local.model_files import LocalModel, LocalModels
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.providers.openai_provider import OpenAIProvider
from zoea.llm.transport.cached_json import fetch
from zoea.llm.transport.http_client import HttpClient
from zoea.model.enums import ErrorClass, ToolMode
from zoea.model.errors import ProviderError, UsageError
from zoea.model.ports import Clock, Provider
from zoea.model.request import ModelInfo, ModelRequest, RequestHeld, RequestSent, StreamItem
from zoea.settings.endpoints import ProviderType

FIRST_S = 900.0
_SERVER_OPTIONS = frozenset({"context", "threads", "parallel"})

MakeServer = Callable[[LocalModel, LlamaServerOptions], LlamaServer]


class LoadedModel(Struct, frozen=True):
    """A model in memory: its server, the provider that speaks to it, and its details."""

    server: LlamaServer
    provider: Provider
    info: ModelInfo


class EmbeddedProvider:
    """Implements `zoea.model.ports.Provider`.

    `config.options` may hold `context` (tokens), `threads` and `parallel`; other options go into the body of each
    request. `config.context_window` is used if `context` is not given. With `tool_mode` auto, a model with tools in
    its chat template calls them natively; any other answers by JSON schema, which llama.cpp's grammar enforces, and
    is shown examples unless `config.examples` is False.
    """

    kind = "embedded"

    def __init__(
        self,
        name: str,
        config: ProviderConfig,
        clock: Clock,
        local_models: LocalModels,
        make_server: MakeServer = lambda model, options: LlamaServer(model.path, model.name, options),
    ) -> None:
        self.name = name
        self.label = config.label or "embedded (llama.cpp)"
        self.metered = config.metered
        self._config = config
        self._clock = clock
        self._local_models = local_models
        self._make_server = make_server
        self._loading: dict[str, asyncio.Task[LoadedModel]] = {}
        self._is_closed = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        """See the port. Yield `RequestHeld` while the model loads, then `RequestSent`.

        A process that ended is a transient failure.
        """
        model = self._local(request.model)
        task = self._task(model)
        if not task.done():
            yield RequestHeld(f"loading {model.name}", loads=True)
            await asyncio.shield(task)
            yield RequestSent()
        loaded = await asyncio.shield(task)
        named = replace(request, model=model.name)
        try:
            async with aclosing(loaded.provider.stream(named)) as items:
                async for item in items:
                    yield item
        except ProviderError as error:
            if loaded.server.is_running:
                raise
            raise loaded.server.lost() from error

    async def models(self) -> tuple[ModelInfo, ...]:
        """Return the local models. Loads none: details that only a loaded model has are None.

        Raises ProviderError if the engine is not installed.
        """
        if not engine_is_installed():
            raise missing_extra()
        return tuple(self._known(model) for model in self._local_models.list() if not model.is_missing)

    async def info(self, model: str) -> ModelInfo:
        """Load the model and return its details."""
        return (await asyncio.shield(self._task(self._local(model)))).info

    async def close(self) -> None:
        """End the processes of all models."""
        self._is_closed = True
        tasks, self._loading = list(self._loading.values()), {}
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(_end(result) for result in results if isinstance(result, LoadedModel)))

    def _local(self, name: str) -> LocalModel:
        name = name or self._config.model or self._only_one()
        try:
            return self._local_models.get(name)
        except UsageError as error:
            raise ProviderError(
                error.what, kind=ErrorClass.MODEL_MISSING, hint=error.hint, title="No such local model"
            ) from error

    def _only_one(self) -> str:
        names = [model.name for model in self._local_models.list()]
        if len(names) > 1:
            raise ProviderError(
                f"no model is named, and there are {len(names)} local ones",
                kind=ErrorClass.MODEL_MISSING,
                title="No model chosen",
                hint=f"Name one of them as the provider's model: {', '.join(names)}",
            )
        return names[0] if names else "a model"

    def _known(self, model: LocalModel) -> ModelInfo:
        task = self._loading.get(model.name)
        if task is not None and task.done() and not task.cancelled() and task.exception() is None:
            return task.result().info
        return ModelInfo(model.name)

    def _task(self, model: LocalModel) -> asyncio.Task[LoadedModel]:
        """Return the one task that loads a model. A new one if the last failed or its process ended."""
        if self._is_closed:
            raise ProviderError("the embedded provider is closed", kind=ErrorClass.CANCELLED)
        task = self._loading.get(model.name)
        if task is None or _is_spent(task):
            previous = task
            task = self._loading[model.name] = asyncio.create_task(self._load(model, previous))
            task.add_done_callback(_retrieve)
        return task

    async def _load(self, model: LocalModel, previous: asyncio.Task[LoadedModel] | None) -> LoadedModel:
        if previous is not None and not previous.cancelled() and previous.exception() is None:
            await _end(previous.result())
        own = {name: value for name, value in self._config.options.items() if name in _SERVER_OPTIONS}
        if self._config.context_window is not None:
            own.setdefault("context", self._config.context_window)
        options = LlamaServerOptions.of(own)
        server = self._make_server(model, options)
        await server.start()
        try:
            props = await self._props(server)
            inner = OpenAIProvider.open(self.name, self._inner_config(server, options, props), self._clock)
            parameters = (await inner.info(server.alias)).parameters
        except BaseException:
            await server.close()
            raise
        window = (props.get("default_generation_settings") or {}).get("n_ctx")
        info = ModelInfo(
            model.name,
            context_window=window if isinstance(window, int) else None,
            tools=True,
            slots=options.parallel,
            parameters=parameters,
            takes_schema=True,
        )
        return LoadedModel(server, inner, info)

    async def _props(self, server: LlamaServer) -> dict[str, Any]:
        key = {"authorization": f"Bearer {server.key}"}
        http = HttpClient(server.address, name=self.name, headers=key, timeouts=self._config.timeouts)
        try:
            props = await fetch(http, "GET", "/props", provider=self.name, clock=self._clock, secrets=(server.key,))
        finally:
            await http.close()
        return props if isinstance(props, dict) else {}

    def _inner_config(self, server: LlamaServer, options: LlamaServerOptions, props: dict[str, Any]) -> ProviderConfig:
        """Configure the provider for the server. Requests it cannot answer at once wait at the gate."""
        caps = props.get("chat_template_caps") or {}
        mode = self._config.tool_mode
        if mode is ToolMode.AUTO and not caps.get("supports_tools"):
            mode = ToolMode.JSON_SCHEMA
        wanted = self._config.concurrency or (options.parallel if server.has_gpu else 1)
        own = self._config.timeouts
        return self._config.replace(
            type=ProviderType.OPENAI,
            base_url=f"{server.address}/v1",
            api_key=server.key,
            model=server.alias,
            headers={"connection": "close"},  # llama.cpp ends each streamed connection, and says that it keeps it
            concurrency=max(1, min(wanted, options.parallel)),
            context_window=None,
            tool_mode=mode,
            examples=self._config.examples is not False,
            options={name: value for name, value in self._config.options.items() if name not in _SERVER_OPTIONS},
            timeouts=replace(own, first=max(own.first, FIRST_S)),
            label=self.label,
        )


async def _end(loaded: LoadedModel) -> None:
    await loaded.provider.close()
    await loaded.server.close()


def _is_spent(task: asyncio.Task[LoadedModel]) -> bool:
    if not task.done():
        return False
    return task.cancelled() or task.exception() is not None or not task.result().server.is_running


def _retrieve(task: asyncio.Task[LoadedModel]) -> None:
    """Mark a failure as seen: waiting tasks raise it, but there may be none."""
    if not task.cancelled():
        task.exception()
