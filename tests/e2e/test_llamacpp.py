"""A real llama.cpp server with a real model, behind the `openai` and the `embedded` provider."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
from msgspec.structs import replace

from tests.fakes.real_model import real_local_models
from tests.waiting import until
from zoea.llm.local.embedded_provider import EmbeddedProvider
from zoea.llm.local.llama_server import LlamaServer, LlamaServerOptions
from zoea.llm.local.model_files import LocalModel, LocalModels
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.providers.openai_provider import OpenAIProvider
from zoea.model.enums import Finish, Role, ToolMode
from zoea.model.ports import Provider
from zoea.model.request import (
    Answer,
    Delta,
    ModelRequest,
    RequestCall,
    RequestHeld,
    RequestMessage,
    StreamItem,
    ToolSpec,
)
from zoea.process.clock import SystemClock

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.asyncio(loop_scope="module")  # one server for all tests

OPTIONS = LlamaServerOptions(context=4096, threads=1)
SEEDS = range(8) if os.environ.get("ZOEA_SOAK") else (3,)
"""Of the answers that vary; with 3 the model calls a tool. Each takes more than a second."""
BACK_TO_BACK = 8 if os.environ.get("ZOEA_SOAK") else 4
"""Equal requests; each ends its connection."""
GET_STATUS = ToolSpec(
    "get_status",
    "Tells where a ship is.",
    {
        "type": "object",
        "properties": {"ship": {"type": "string", "maxLength": 20}},
        "required": ["ship"],
        "additionalProperties": False,
    },
)
MINE = ToolSpec(
    "mine",
    "Mines ore.",
    {
        "type": "object",
        "properties": {
            "amount": {"type": "integer", "minimum": 1, "maximum": 9},
            "ore": {"enum": ["iron", "gold"]},
        },
        "required": ["amount", "ore"],
        "additionalProperties": False,
    },
)
TOOLS = (GET_STATUS, MINE)
GO = ToolSpec(
    "go",
    "Goes.",
    {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/P"}},
        "required": ["at"],
        "$defs": {"P": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
    },
)
"""Its schema has references of its own."""


@pytest.fixture(scope="session")
def local_models(tmp_path_factory: pytest.TempPathFactory) -> LocalModels:
    return real_local_models(tmp_path_factory)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(local_models: LocalModels) -> AsyncIterator[LlamaServer]:
    made = LlamaServer(local_models.get("smollm2").path, "smollm2", OPTIONS)
    await made.start()
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="module")
async def openai(server: LlamaServer) -> AsyncIterator[Provider]:
    config = ProviderConfig(
        "openai", base_url=f"{server.address}/v1", api_key=server.key, temperature=0.0, tool_mode=ToolMode.JSON_SCHEMA
    )
    provider = OpenAIProvider.open("local", config, SystemClock())
    yield provider
    await provider.close()


def asked(*prompts: str, tools: tuple[ToolSpec, ...] = (), tokens: int = 60) -> ModelRequest:
    system = RequestMessage(Role.SYSTEM, "You fly a ship.")
    users = [RequestMessage(Role.USER, prompt) for prompt in prompts]
    return ModelRequest("smollm2", (system, *users), tools, max_output_tokens=tokens)


async def items(provider: Provider, request: ModelRequest) -> list[StreamItem]:
    return [item async for item in provider.stream(request)]


def valid_call(answer: Answer) -> dict[str, Any]:
    """The arguments of the answer's one call, which must fit the schema of its tool."""
    (call,) = answer.calls
    assert call.broken == ""
    arguments = json.loads(call.arguments)
    assert isinstance(arguments, dict)
    match call.name:
        case "get_status":
            assert set(arguments) == {"ship"}
            assert len(arguments["ship"]) <= 20
        case "mine":
            assert set(arguments) == {"amount", "ore"}
            assert arguments["amount"] in range(1, 10)
            assert arguments["ore"] in ("iron", "gold")
        case "go":
            assert isinstance(arguments["at"]["x"], int)
        case _:
            pytest.fail(f"no tool is named {call.name}")
    return arguments


async def test_a_real_answer_streams_in_many_pieces_with_its_usage(openai: Provider) -> None:
    streamed = await items(openai, asked("Say hello to the crew.", tokens=12))
    deltas = [item for item in streamed if isinstance(item, Delta)]
    answer = streamed[-1]
    assert isinstance(answer, Answer)
    assert len(deltas) > 3
    assert "".join(delta.text for delta in deltas).strip() == answer.text.strip()
    assert answer.usage.input_tokens
    assert 0 < (answer.usage.output_tokens or 0) <= 12


async def test_a_real_tool_call_is_always_valid(openai: Provider) -> None:
    for seed in SEEDS:
        request = asked("Mine three units of gold.", tools=TOOLS, tokens=160)
        request = replace(request, options={"temperature": 1.3, "seed": seed})
        answer = (await items(openai, request))[-1]
        assert isinstance(answer, Answer)
        if answer.calls:
            assert answer.finish is Finish.CALLS
            valid_call(answer)
        else:
            assert answer.text


async def test_a_real_turn_goes_from_prompt_to_call_to_result_to_answer(openai: Provider) -> None:
    first = (await items(openai, asked("Use the tool mine now: 3 gold.", tools=TOOLS)))[-1]
    assert isinstance(first, Answer)
    valid_call(first)
    call = first.calls[0]
    messages = (
        *asked("Use the tool mine now: 3 gold.").messages,
        RequestMessage(Role.ASSISTANT, "", calls=(RequestCall("c1", call.name, call.arguments),)),
        RequestMessage(Role.TOOL, '{"mined": 3}', call_id="c1", name=call.name),
    )
    second = (await items(openai, ModelRequest("smollm2", messages, max_output_tokens=30)))[-1]
    assert isinstance(second, Answer)
    assert second.text.strip()


async def test_the_server_tells_its_model_and_its_window(openai: Provider) -> None:
    (model,) = await openai.models()
    assert (model.name, model.context_window) == ("smollm2", 4096)


async def test_a_stream_that_is_closed_leaves_the_server_free_for_the_next(openai: Provider) -> None:
    stream = cast("Any", openai.stream(asked("Count from one to one thousand.", tokens=2000)))
    async with aclosing(stream) as running:
        assert isinstance(await anext(running), Delta)
    answer = (await items(openai, asked("Say yes.", tokens=4)))[-1]
    assert isinstance(answer, Answer)


async def test_requests_back_to_back_all_succeed_though_the_server_ends_each_connection(openai: Provider) -> None:
    for _ in range(BACK_TO_BACK):
        answer = (await items(openai, asked("Say yes.", tokens=2)))[-1]
        assert isinstance(answer, Answer)


async def test_a_server_that_ignores_tools_is_detected(server: LlamaServer) -> None:
    config = ProviderConfig("openai", base_url=f"{server.address}/v1", api_key=server.key, temperature=0.0)
    provider = OpenAIProvider.open("local", config, SystemClock())
    answer = (await items(provider, asked("Use the tool mine now: 3 gold.", tools=TOOLS)))[-1]
    assert isinstance(answer, Answer)
    valid_call(answer)
    assert (await provider.info("any name")).context_window == 4096
    await provider.close()


async def test_the_server_refuses_requests_without_its_key(server: LlamaServer) -> None:
    config = ProviderConfig("openai", base_url=f"{server.address}/v1", api_key="a guess")
    stranger = OpenAIProvider.open("stranger", config, SystemClock())
    with pytest.raises(Exception, match=r"(?i)key"):
        await items(stranger, asked("Say hello."))
    await stranger.close()


OWNER = """
import asyncio, sys
from pathlib import Path
from zoea.llm.local.llama_server import LlamaServer, LlamaServerOptions

async def main():
    server = LlamaServer(Path(sys.argv[1]), "smollm2", LlamaServerOptions(context=512, threads=1))
    await server.start()
    print(server.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_model_ends_with_the_swarm_that_is_killed(local_models: LocalModels) -> None:
    owner = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", OWNER, str(local_models.get("smollm2").path)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert owner.stdout is not None
    child = int(await asyncio.wait_for(owner.stdout.readline(), 30))
    watched = os.pidfd_open(child)
    owner.kill()
    await owner.wait()
    ended, _, _ = await asyncio.to_thread(select.select, [watched], [], [], 10)
    os.close(watched)
    assert ended == [watched]


async def test_the_embedded_provider_loads_the_model_at_its_first_use_and_after_a_kill(
    local_models: LocalModels,
) -> None:
    """A schema with references of its own can be called, here at the first use."""
    servers: list[LlamaServer] = []

    def make_server(model: LocalModel, options: LlamaServerOptions) -> LlamaServer:
        servers.append(LlamaServer(model.path, model.name, options))
        return servers[-1]

    config = ProviderConfig("embedded", temperature=0.0, options={"context": 4096, "threads": 1})
    provider = EmbeddedProvider("local", config, SystemClock(), local_models, make_server)
    assert [model.context_window for model in await provider.models()] == [None]
    streamed = await items(provider, asked("Use go now.", tools=(GO,)))
    assert streamed[0] == RequestHeld("loading smollm2", loads=True)
    answer = streamed[-1]
    assert isinstance(answer, Answer)
    valid_call(answer)
    assert (await provider.info("smollm2")).context_window == 4096
    assert [model.context_window for model in await provider.models()] == [4096]

    assert servers[0].pid is not None
    os.kill(servers[0].pid, signal.SIGKILL)
    await until(lambda: not servers[0].is_running)
    answer = (await items(provider, asked("Say yes.", tokens=4)))[-1]
    assert isinstance(answer, Answer)
    assert len(servers) == 2
    await provider.close()


CADET = """
prompt = "You fly a ship."
opening = "Use the tool get_cargo now."
run = "once"

[tools]
allow = ["get_cargo"]
"""

SETTINGS = """
[swarm]
default_provider = "local"

[turn]
max_iterations = 1

[provider.local]
type = "openai"
base_url = "{address}/v1"
api_key = "env:LLAMA_KEY"
model = "smollm2"
tool_mode = "json_schema"
temperature = 0.0
max_output_tokens = 48
options.examples = false  # the server that ignores tools, above, is asked with examples
"""


def configured(folder: Path, server: LlamaServer) -> None:
    """A configuration directory that knows the server, and a template with few tools: the model is small."""
    (folder / "templates").mkdir(parents=True)
    (folder / "templates" / "cadet.toml").write_text(CADET)
    (folder / "config.toml").write_text(SETTINGS.format(address=server.address))


@pytest.mark.timeout(150)
async def test_a_whole_swarm_plays_reef_with_a_real_model(server: LlamaServer, tmp_path: Path) -> None:
    configured(tmp_path / "config", server)
    words = ("run", "--headless", "--json", "--world", "reef", "--myses", "2", "--template", "cadet", "--turns", "2")
    swarm = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "zoea", *words, "--for", "100s"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "LLAMA_KEY": server.key},
    )
    out, err = await asyncio.wait_for(swarm.communicate(), 140)
    assert swarm.returncode == 0, err.decode()
    events = [json.loads(line) for line in out.decode().splitlines()]
    summary = events[-1]
    assert summary["event"] == "summary"
    assert {mysis["turns"] for mysis in summary["myses"]} == {1}
    assert all(mysis["tool_calls"] >= 1 and mysis["tokens"] > 0 for mysis in summary["myses"])
    assert [mysis["errors"] for mysis in summary["myses"]] == [0, 0]
