"""The vendors' own clients can talk to the fake servers.

The tests import them: they take seconds, and each worker of a run imports this module.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.anthropic_server import AnthropicServer, Text, Thinking, Use
from tests.fakes.anthropic_server import Say as Message
from tests.fakes.ollama_server import OllamaServer
from tests.fakes.ollama_server import Say as Chat
from tests.fakes.openai_server import Call, OpenAIServer, Say
from tests.llm.sample_requests import SCAN

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

ROOT = Path(__file__).parents[2]
ASK: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Report."}]
TOOL: ChatCompletionToolParam = {
    "type": "function",
    "function": {"name": "scan", "description": "Look around", "parameters": SCAN.input_schema},
}


async def test_openais_client_streams_text_calls_and_usage() -> None:
    import openai

    async with (
        OpenAIServer(Say("I look.", calls=(Call("scan", '{"sector": "a"}', pieces=4),))) as server,
        openai.AsyncOpenAI(base_url=server.base_url, api_key="reef-key") as client,
    ):
        stream = client.chat.completions.stream(
            model="reef-1", messages=ASK, tools=[TOOL], stream_options={"include_usage": True}
        )
        async with stream as events:
            found = await events.get_final_completion()
    message = found.choices[0].message
    assert message.content == "I look."
    assert message.tool_calls is not None
    assert message.tool_calls[0].function.arguments == '{"sector": "a"}'
    assert found.usage is not None
    assert found.usage.total_tokens > 0


async def test_openais_client_reads_whole_answers_models_and_errors() -> None:
    import openai

    async with (
        OpenAIServer(Say("All is well.")) as server,
        openai.AsyncOpenAI(base_url=server.base_url, api_key="reef-key", max_retries=0) as client,
    ):
        found = await client.chat.completions.create(model="reef-1", messages=ASK)
        assert found.choices[0].message.content == "All is well."
        assert [model.id async for model in client.models.list()] == ["reef-1"]
        server.outage(60)
        with pytest.raises(openai.RateLimitError) as caught:
            await client.chat.completions.create(model="reef-1", messages=ASK)
        assert caught.value.response.headers["retry-after"] == "2"


async def test_anthropics_client_streams_thinking_and_a_call_and_sends_them_back() -> None:
    import anthropic

    said = Message((Thinking("I must look."), Text("I look."), Use("scan", '{"sector": "a"}')))
    async with (
        AnthropicServer(said) as server,
        anthropic.AsyncAnthropic(base_url=server.url, api_key="reef-key", max_retries=0) as client,
    ):
        common: dict[str, Any] = {
            "model": "claude-reef-1",
            "max_tokens": 4000,
            "thinking": {"type": "enabled", "budget_tokens": 2000},
            "tools": [{"name": "scan", "input_schema": SCAN.input_schema}],
        }
        async with client.messages.stream(messages=[{"role": "user", "content": "Report."}], **common) as stream:
            found = await stream.get_final_message()
        assert [block.type for block in found.content] == ["thinking", "text", "tool_use"]
        assert found.usage.cache_read_input_tokens == 400
        result = {"type": "tool_result", "tool_use_id": "toolu_01reef", "content": "ore"}
        turn: list[Any] = [
            {"role": "user", "content": "Report."},
            {"role": "assistant", "content": found.content},
            {"role": "user", "content": [result]},
        ]
        after = await client.messages.create(messages=turn, **common)
        assert after.content[0].type == "text"
        without = [block for block in found.content if block.type != "thinking"]
        turn[1] = {"role": "assistant", "content": without}
        with pytest.raises(anthropic.BadRequestError, match="Expected `thinking`"):
            await client.messages.create(messages=turn, **common)


async def test_anthropics_client_reads_models_and_errors() -> None:
    import anthropic

    async with (
        AnthropicServer() as server,
        anthropic.AsyncAnthropic(base_url=server.url, api_key="reef-key", max_retries=0) as client,
    ):
        assert [model.id async for model in client.models.list()] == ["claude-reef-1"]
        server.key = "another"
        with pytest.raises(anthropic.AuthenticationError):
            await client.models.list()


@walk_cases(
    ("messages", "told"),
    [
        ([{"role": "assistant", "content": "x"}], "first message"),
        ([{"role": "user", "content": "x"}, {"role": "user", "content": "y"}], "alternate"),
        ([{"role": "user", "content": []}], "non-empty"),
        ([{"role": "user", "content": " "}], "non-whitespace"),
        ([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": ""}]}], "do not match"),
    ],
)
async def test_the_fake_refuses_what_anthropic_refuses(messages: list[Any], told: str) -> None:
    import anthropic

    async with (
        AnthropicServer() as server,
        anthropic.AsyncAnthropic(base_url=server.url, api_key="reef-key", max_retries=0) as client,
    ):
        with pytest.raises(anthropic.BadRequestError, match=told):
            await client.messages.create(model="claude-reef-1", max_tokens=9, messages=messages)


async def test_ollamas_client_streams_thinking_and_a_call() -> None:
    import ollama

    async with OllamaServer(Chat("I look.", "I must look.", (("scan", {"sector": "a"}),)), Chat("so")) as server:
        client = ollama.AsyncClient(host=server.url)
        stream = await client.chat("reef:1b", [{"role": "user", "content": "Report."}], think=True, stream=True)
        parts = [part async for part in stream]
        assert "".join(part.message.content or "" for part in parts) == "I look."
        assert "".join(part.message.thinking or "" for part in parts) == "I must look."
        calls = [call for part in parts for call in part.message.tool_calls or ()]
        assert [(one.function.name, one.function.arguments) for one in calls] == [("scan", {"sector": "a"})]
        assert parts[-1].eval_count == 9
        assert (await client.chat("reef:1b", [{"role": "user", "content": "x"}])).message.content == "so"
        await client.close()  # type: ignore[no-untyped-call]  # the vendor left it without types


async def test_ollamas_client_reads_models_details_and_errors() -> None:
    import ollama

    async with OllamaServer() as server:
        client = ollama.AsyncClient(host=server.url)
        assert [model.model for model in (await client.list()).models] == ["reef:1b"]
        assert (await client.show("reef:1b")).capabilities == ["completion", "tools", "thinking"]
        with pytest.raises(ollama.ResponseError, match="not found"):
            await client.chat("absent", [{"role": "user", "content": "x"}])
        await client.close()  # type: ignore[no-untyped-call]  # the vendor left it without types


@pytest.mark.usefixtures("forked_programs")
def test_the_fake_serves_from_a_process_of_its_own() -> None:
    import openai

    command = [sys.executable, "-m", "tests.fakes.openai_server", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        client = openai.OpenAI(base_url=url, api_key="reef-key")
        found = client.chat.completions.create(model="reef-1", messages=ASK, tools=[TOOL])
        client.close()
        process.stdin.close()
        assert process.wait(10) == 0
    assert found.choices[0].finish_reason == "tool_calls"
