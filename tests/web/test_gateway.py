"""External agents ask models through the gateway: handed on, counted, recorded, refused."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp
import pytest

from tests.case_tables import walk_cases
from tests.fakes import anthropic_server
from tests.fakes.openai_server import Call, Fail, Say
from tests.llm.test_stream_frames import BAD, GOOD
from tests.web.gateway_rig import KEY, MARK, AnthropicVendor, Rig, Vendor, rig
from zoea.llm.messages.wire_bodies import Asker, Wire, guess_asker, read_body
from zoea.llm.providers.http_provider import _KeyFilter
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.request import Answer, AnswerCall, Delta
from zoea.model.values import Usage
from zoea.process.module_imports import import_in_thread
from zoea.queries.request_difference import compare_requests
from zoea.queries.request_inspection import inspect_request
from zoea.queries.request_log import REQUEST_LINE_IDS, read_request_lines
from zoea.queries.stored_swarm import open_database
from zoea.runtime import compose
from zoea.runtime.compose import _LazyGateway

MESSAGES = [{"role": "system", "content": "You dig."}, {"role": "user", "content": f"Dig {MARK}."}]
TOOLS = [{"type": "function", "function": {"name": "dig", "description": "Digs.", "parameters": {"type": "object"}}}]


async def test_a_chat_completion_goes_on_as_it_is_but_for_the_model_and_the_key(tmp_path: Path) -> None:
    server = Vendor(Say("ore"))
    async with rig(tmp_path, server=server) as r:
        raw = (
            b'{ "model" : "gpt-9","x_odd":[1.50, 1e3], "messages":[{"role":"user","content":"' + MARK.encode() + b'"}]}'
        )
        headers = {"content-type": "application/json", "authorization": "Bearer anything"}
        async with r.http.post(f"{r.access.openai_url}/chat/completions", data=raw, headers=headers) as reply:
            assert (await reply.json())["choices"][0]["message"]["content"] == "ore"
        [sent] = server.asked
        assert sent.body == raw.replace(b'"gpt-9"', b'"reef-1"')
        assert sent.headers["authorization"] == f"Bearer {KEY}"


async def test_a_stream_is_given_back_byte_for_byte_and_settled_with_its_usage(tmp_path: Path) -> None:
    server = Vendor(Say("ore and more ore", calls=(Call("dig"),)))
    async with rig(tmp_path, server=server) as r:
        text = await r.stream(
            "/chat/completions",
            {"model": "gpt-9", "messages": MESSAGES, "tools": TOOLS, "stream_options": {"include_usage": True}},
        )
        assert text.endswith("data: [DONE]\n\n")
        assert '"usage": {"prompt_tokens"' in text
        [row] = await r.requests()
        assert (row["state"], row["finish_reason"], row["model"]) == ("settled", "calls", "reef-1")
        assert row["input_tokens"] > 0
        assert row["cached_tokens"] == 2
        assert row["first_token_us"] is not None
        assert (await r.s.value("SELECT used_tokens FROM spend WHERE scope = 'mysis'")) == (
            row["input_tokens"] + row["output_tokens"]
        )


async def test_usage_that_the_client_did_not_ask_for_is_counted_and_kept_from_it(tmp_path: Path) -> None:
    server = Vendor(Say("ore"))
    async with rig(tmp_path, server=server) as r:
        text = await r.stream("/chat/completions", {"model": "gpt-9", "messages": MESSAGES})
        assert "usage" not in text
        assert text.endswith("data: [DONE]\n\n")
        assert server.asked[0].json["stream_options"] == {"include_usage": True}
        [row] = await r.requests()
        assert (row["state"], row["output_tokens"]) == ("settled", 1)


@pytest.mark.parametrize("is_stream", [False, True])
async def test_responses_go_on_and_are_counted(tmp_path: Path, is_stream: bool) -> None:
    async with rig(tmp_path) as r:
        body = {"model": "gpt-9", "instructions": "Dig.", "input": f"Go {MARK}"}
        if is_stream:
            assert "response.completed" in await r.stream("/responses", body)
        else:
            assert (await r.post("/responses", body))[1]["status"] == "completed"
        [row] = await r.requests()
        assert (row["input_tokens"], row["cached_tokens"], row["output_tokens"]) == (90, 40, 7)
        assert (row["state"], row["finish_reason"]) == ("settled", "stop")


@pytest.mark.parametrize("is_stream", [False, True])
async def test_messages_go_on_and_are_counted(tmp_path: Path, is_stream: bool) -> None:
    server = AnthropicVendor(anthropic_server.Say((anthropic_server.Text("ore"),)))
    async with rig(tmp_path, server=server, model="claude-reef-1") as r:
        body = {"model": "claude-9", "max_tokens": 50, "messages": [{"role": "user", "content": f"Go {MARK}"}]}
        headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "reef-1", "x-api-key": r.access.token}
        address = f"{r.access.anthropic_url}/v1/messages?beta=true"
        async with r.http.post(address, json={**body, "stream": is_stream}, headers=headers) as reply:
            text = await reply.text()
            assert text.endswith('data: {"type": "message_stop"}\n\n') if is_stream else '"text": "ore"' in text
        [sent] = (
            server.asked if hasattr(server, "asked") else [one for one in server.chats if MARK.encode() in one.body]
        )
        assert (sent.path, sent.headers["x-api-key"]) == ("/v1/messages?beta=true", KEY)
        assert sent.headers["anthropic-beta"] == "reef-1"
        [row] = await r.requests()
        assert (row["input_tokens"], row["output_tokens"], row["state"]) == (442, 21, "settled")


async def test_the_vendor_counts_tokens_at_no_cost(tmp_path: Path) -> None:
    async with rig(tmp_path, server=AnthropicVendor(), model="claude-reef-1") as r:
        body = {"model": "claude-9", "messages": [{"role": "user", "content": MARK}]}
        assert await r.post("/messages/count_tokens", body) == (200, {"input_tokens": 77})
        assert await r.requests() == []


CHAT = {"model": "m", "messages": MESSAGES, "tools": TOOLS, "tool_choice": "auto", "temperature": 0.5}
MESSAGE: dict[str, Any] = {
    "model": "m",
    "max_tokens": 50,
    "system": [{"type": "text", "text": "You dig.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": f"Dig {MARK}."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "dig", "input": {"at": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ore"}]},
    ],
    "tools": [{"name": "dig", "description": "Digs.", "input_schema": {"type": "object"}}],
}


class TestTranslation:
    @pytest.mark.parametrize("is_stream", [False, True])
    async def test_a_message_is_answered_by_chat_completions(self, tmp_path: Path, is_stream: bool) -> None:
        from anthropic import AsyncAnthropic  # here, because each worker that collects would wait a second for it

        server = Vendor(Say("ore", calls=(Call("dig", '{"at": 2}'),)))
        async with rig(tmp_path, server=server) as r:
            client = AsyncAnthropic(base_url=r.access.anthropic_url, api_key=r.access.token, max_retries=0)
            async with client:
                if is_stream:
                    async with client.messages.stream(**MESSAGE) as stream:
                        answer = await stream.get_final_message()
                else:
                    answer = await client.messages.create(**MESSAGE)
            text, use = answer.content
            assert (text.type, text.type == "text" and text.text) == ("text", "ore")
            assert use.type == "tool_use"
            assert (use.name, use.input, answer.stop_reason) == ("dig", {"at": 2}, "tool_use")
            sent = server.asked[0].json
            assert [one["role"] for one in sent["messages"]] == ["system", "user", "assistant", "tool"]
            assert (sent["model"], sent["max_tokens"]) == ("reef-1", 50)
            [row] = await r.requests()
            assert (row["state"], row["finish_reason"], row["cached_tokens"]) == ("settled", "calls", 2)
            assert answer.usage.output_tokens == row["output_tokens"]

    @pytest.mark.parametrize("is_stream", [False, True])
    async def test_a_chat_completion_is_answered_by_messages(self, tmp_path: Path, is_stream: bool) -> None:
        server = AnthropicVendor(
            anthropic_server.Say((anthropic_server.Text("ore"), anthropic_server.Use("dig", '{"at": 2}')))
        )
        async with rig(tmp_path, server=server, model="claude-reef-1") as r:
            if is_stream:
                text = await r.stream("/chat/completions", CHAT)
                assert '"finish_reason": "tool_calls"' in text
                assert text.endswith("data: [DONE]\n\n")
                assert "usage" not in text
            else:
                message = (await r.post("/chat/completions", CHAT))[1]["choices"][0]["message"]
                assert message["content"] == "ore"
                assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"at": 2}
            [row] = await r.requests()
            assert (row["state"], row["input_tokens"], row["output_tokens"]) == ("settled", 442, 21)

    @pytest.mark.parametrize("is_stream", [False, True])
    async def test_a_response_is_answered_by_messages(self, tmp_path: Path, is_stream: bool) -> None:
        from openai import AsyncOpenAI

        server = AnthropicVendor(
            anthropic_server.Say((anthropic_server.Text("ore"), anthropic_server.Use("dig", '{"at": 2}')))
        )
        items: list[dict[str, Any]] = [
            {"role": "user", "content": [{"type": "input_text", "text": MARK}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I dig."}]},
            {"type": "function_call", "call_id": "c1", "name": "dig", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "ore"},
        ]
        tool: dict[str, Any] = {"type": "function", "name": "dig", "parameters": {"type": "object", "properties": {}}}
        async with rig(tmp_path, server=server, model="claude-reef-1") as r:
            async with AsyncOpenAI(base_url=r.access.openai_url, api_key="any", max_retries=0) as client:
                asked: Any = {"model": "m", "input": items, "tools": [tool], "store": False}
                if is_stream:
                    async with client.responses.stream(**asked) as stream:
                        response: Any = await stream.get_final_response()
                else:
                    response = await client.responses.create(**asked)
            assert response.output_text == "ore"
            assert (response.output[-1].name, json.loads(response.output[-1].arguments)) == ("dig", {"at": 2})
            sent = next(one for one in server.chats if MARK.encode() in one.body).json
            assert [one["role"] for one in sent["messages"]] == ["user", "assistant", "user"]
            [row] = await r.requests()
            assert (row["state"], row["input_tokens"], row["finish_reason"]) == ("settled", 442, "calls")

    @pytest.mark.parametrize("status", [404, 405, 501])
    async def test_a_server_without_responses_is_asked_for_chat_completions(self, tmp_path: Path, status: int) -> None:
        server = Vendor(Say("ore"), Say("more ore"))
        server.refuses_responses = status, {"error": "no such path"}
        async with rig(tmp_path, server=server) as r:
            body = {"model": "m", "instructions": "Dig.", "input": f"Go {MARK}"}
            assert (await r.post("/responses", body))[1]["output"][0]["content"][0]["text"] == "ore"
            assert "more ore" in (await r.stream("/responses", body)).replace('"delta": "', "").replace('", "', "")
            paths = [one.path.rpartition("/")[2] for one in server.asked]
            assert paths == ["responses", "completions", "completions"]
            status, said = await r.post("/responses", {**body, "tools": [{"type": "web_search"}]})
            assert (status, "the tool web_search cannot be translated" in said["error"]["message"]) == (400, True)
            assert [row["state"] for row in await r.requests()] == ["settled", "settled"]

    @pytest.mark.parametrize("said", ["The model `reef-1` does not exist.", "model 'reef-1' not found"])
    async def test_a_server_that_misses_the_model_has_responses(self, tmp_path: Path, said: str) -> None:
        server = Vendor()
        server.refuses_responses = 404, {"error": {"message": said, "type": "NotFoundError"}}
        async with rig(tmp_path, server=server) as r:
            body = {"model": "m", "input": f"Go {MARK}", "tools": [{"type": "web_search"}]}
            assert await r.post("/responses", body) == server.refuses_responses
            server.refuses_responses = None
            assert (await r.post("/responses", body))[0] == 200

    @pytest.mark.parametrize(
        ("more", "loss"),
        [
            ({"thinking": {"type": "enabled", "budget_tokens": 9}}, "thinking"),
            ({"top_k": 3}, "top_k"),
            ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "the tool web_search"),
            ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "image in a message"),
        ],
    )
    async def test_what_would_be_lost_is_refused_by_name(self, tmp_path: Path, more: dict[str, Any], loss: str) -> None:
        async with rig(tmp_path) as r:
            status, said = await r.post("/messages", {**MESSAGE, **more})
            assert (status, said["type"]) == (400, "error")
            assert said["error"]["message"] == (
                f"Zoea: reef (openai) does not speak messages, and {loss} cannot be translated; "
                "give alpha another provider, or its agent another API"
            )
            assert await r.requests() == []

    async def test_a_provider_without_http_answers_too(self, tmp_path: Path) -> None:
        scripted = ScriptedProvider(
            lambda request: Answer(text=f"{len(request.messages)} messages", usage=Usage(9, 0, 2)), metered=True
        )
        async with rig(tmp_path, provider=scripted, has_turn=False) as r:
            assert (await r.post("/chat/completions", CHAT))[1]["choices"][0]["message"]["content"] == "2 messages"
            assert "2 messages" in await r.stream("/responses", {"model": "m", "instructions": "Dig.", "input": MARK})
            await r.settled()
            rows = await r.s.rows("SELECT state FROM request")
            assert [row["state"] for row in rows] == ["settled", "settled"]

    async def test_a_provider_that_ends_without_an_answer_is_told(self, tmp_path: Path) -> None:
        scripted = ScriptedProvider(lambda _: (Delta(""),), metered=True)
        async with rig(tmp_path, provider=scripted, has_turn=False) as r:
            body = {"model": "m", "instructions": "Dig.", "input": MARK}
            assert (await r.post("/responses", body))[0] == 502
            await r.settled()
            [row] = await r.s.rows("SELECT state, error_class FROM request")
            assert (row["state"], row["error_class"]) == ("released", "transient")

    async def test_tokens_are_counted_only_by_a_provider_that_does(self, tmp_path: Path) -> None:
        async with rig(tmp_path) as r:
            assert (await r.post("/messages/count_tokens", MESSAGE))[0] == 404


async def test_the_models_are_the_one_of_the_mysis(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        async with r.http.get(f"{r.access.openai_url}/models") as reply:
            assert [one["id"] for one in (await reply.json())["data"]] == ["reef-1"]
        async with r.http.get(f"{r.access.openai_url}/models", headers={"anthropic-version": "x"}) as reply:
            assert (await reply.json())["last_id"] == "reef-1"


async def test_the_inspector_shows_what_the_agent_sent_and_what_for(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        history: list[dict[str, Any]] = [
            *MESSAGES,
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c9", "type": "function", "function": {"name": "dig", "arguments": '{"at": 1}'}}],
            },
            {"role": "tool", "tool_call_id": "c9", "content": "ore"},
        ]
        assert (await r.post("/chat/completions", {"model": "gpt-9", "messages": history, "tools": TOOLS}))[0] == 200
        title = [{"role": "system", "content": "Write a title."}, {"role": "user", "content": MARK}]
        assert (await r.post("/chat/completions", {"model": "gpt-9-nano", "messages": title}))[0] == 200
        first, second = [inspect_request(r.s.path, row["id"]) for row in await r.requests()]
        assert [(str(one.role), one.content) for one in first.messages] == [
            ("system", "You dig."),
            ("user", f"Dig {MARK}."),
            ("assistant", ""),
            ("tool", "ore"),
        ]
        assert [(call.name, call.arguments) for call in first.messages[2].calls] == [("dig", '{"at": 1}')]
        assert first.messages[3].name == "dig"
        assert [tool.name for tool in first.tools] == ["dig"]
        assert first.plan is not None
        assert first.plan.notes == ("Its agent asked for a turn, of the model gpt-9; it went to reef-1.",)
        assert second.plan is not None
        assert second.plan.notes[0].startswith("Its agent asked for a title, of the model gpt-9-nano")
        assert first.request.turn_number == 1
        assert first.request.iteration == 2


@walk_cases(
    ("system", "said", "tools", "asker"),
    [
        ("You are a title generator.", "Dig.", [], Asker.TITLE),
        ("", "Write a short title for: Dig.", [], Asker.TITLE),
        ("You summarize conversations.", "Dig.", [], Asker.COMPACTION),
        ("You dig.", "You are performing a CONTEXT CHECKPOINT COMPACTION.", TOOLS, Asker.COMPACTION),
        ("You dig.", "Your task is to create a detailed summary of the conversation so far.", TOOLS, Asker.COMPACTION),
        ("You dig. You summarize what you did under a title.", "Dig.", TOOLS, Asker.TURN),
        ("You dig.", "Dig.", [], Asker.TURN),
    ],
)
def test_what_a_request_is_for_is_told_by_its_texts(system: str, said: str, tools: list[Any], asker: Asker) -> None:
    messages = [{"role": role, "content": text} for role, text in (("system", system), ("user", said)) if text]
    body = {"model": "m", "messages": messages, "tools": tools}
    assert guess_asker(read_body(Wire.CHAT, body, json.dumps(tools).encode())) is asker


async def test_tools_in_the_input_are_tools_of_the_request(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        dig = {"type": "function", "name": "dig", "parameters": {"type": "object"}}
        offered = {"type": "additional_tools", "role": "developer", "tools": [dig]}
        compacts = {"role": "developer", "content": "You dig. You summarize what you did."}
        body = {"model": "gpt-9", "input": [offered, compacts, {"role": "user", "content": MARK}]}
        assert (await r.post("/responses", body))[0] == 200
        [row] = await r.requests()
        shown = inspect_request(r.s.path, row["id"])
        assert [tool.name for tool in shown.tools] == ["dig"]
        assert [one.content for one in shown.messages] == ["You dig. You summarize what you did.", MARK]
        assert shown.plan is not None
        assert shown.plan.notes[0].startswith("Its agent asked for a turn")


async def test_requests_outside_of_a_turn_are_shown_without_one(tmp_path: Path) -> None:
    async with rig(tmp_path, has_turn=False) as r:
        assert (await r.chat())[0] == 200
        [row] = await r.s.rows("SELECT * FROM request")
        assert row["turn_id"] is None
        await r.settled()
        with open_database(r.s.path) as reader:
            ids = [one["id"] for one in reader.execute(REQUEST_LINE_IDS)]
            lines = [line.meaning for line in read_request_lines(reader, ids)]
        assert lines[0].partition(" holds")[0] == f"Request {row['id']}, outside of a turn,"
        assert len(lines) == 2
        assert inspect_request(r.s.path, row["id"]).request.turn_number is None


async def test_two_requests_at_once_are_both_answered_and_counted(tmp_path: Path) -> None:
    server = Vendor(otherwise=lambda _: Say("ore"))
    async with rig(tmp_path, server=server) as r:
        server.gate.clear()
        both = asyncio.gather(r.chat("one"), r.chat("two"))
        await r.s.until(lambda: len(server.asked) == 2)
        assert await r.s.value("SELECT count(*) FROM request WHERE state = 'reserved'") == 3
        server.gate.set()
        assert [status for status, _ in await both] == [200, 200]
        assert [(row["state"], row["iteration"]) for row in await r.requests()] == [("settled", 2), ("settled", 3)]


async def test_a_refusal_of_the_vendor_is_given_on_without_the_key(tmp_path: Path) -> None:
    server = Vendor(Fail.error(401, f"Incorrect API key provided: {KEY}."), Fail.error(429, "Slow down", code="rate"))
    async with rig(tmp_path, server=server) as r:
        status, said = await r.chat()
        assert (status, said["error"]["message"]) == (401, "Incorrect API key provided: (the key).")
        assert (await r.chat())[0] == 429
        assert [(row["state"], row["error_class"]) for row in await r.requests()] == [
            ("released", "auth"),
            ("released", "transient"),
        ]


async def test_an_error_within_an_answer_is_given_on_and_logged_without_the_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    error = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}."}})
    server = Vendor(Fail(200, f"data: {error}\n\n", {"content-type": "text/event-stream"}))
    async with rig(tmp_path, server=server) as r:
        text = await r.stream("/chat/completions", {"model": "m", "messages": MESSAGES})
        await r.settled()
        assert "provided: (the key)." in text
        assert "API key provided" in caplog.text
        assert KEY not in text + caplog.text


@walk_cases("at", range(len(KEY) + 4))
def test_a_key_is_hidden_wherever_an_answer_is_cut(at: int) -> None:
    whole, filter_ = f"a: {KEY}{KEY[:3]}".encode(), _KeyFilter(KEY.encode())
    assert filter_.hide(whole[:at]) + filter_.hide(whole[at:]) + filter_.end() == b"a: (the key)sk-"


async def test_a_vendor_that_is_gone_is_told_in_the_vendors_form(tmp_path: Path) -> None:
    server = Vendor(Fail(0))
    async with rig(tmp_path, server=server) as r:
        status, said = await r.chat()
        assert (status, said["error"]["type"]) == (502, "api_error")
        assert said["error"]["message"].startswith("Zoea: ")
        [row] = await r.requests()
        assert row["error_class"] == "transient"


async def test_a_stream_that_the_vendor_breaks_off_ends_with_an_error(tmp_path: Path) -> None:
    server = Vendor(Say("ore " * 40, cut_after=5))
    async with rig(tmp_path, server=server) as r:
        text = await r.stream("/chat/completions", {"model": "m", "messages": MESSAGES})
        last = json.loads(text.strip().rpartition("data: ")[2])
        assert "Zoea" in last["error"]["message"]
        [row] = await r.requests()
        assert (row["state"], row["error_class"]) == ("released", "transient")
        assert row["output_tokens"] > 0
        assert row["input_tokens"] > 0


async def test_an_answer_in_any_frame_is_given_on_as_it_is_and_counted(tmp_path: Path) -> None:
    answers = [Fail(200, body, {"content-type": content_type}) for body, content_type in GOOD.values()]
    async with rig(tmp_path, server=Vendor(*answers)) as r:
        request = {"model": "m", "messages": MESSAGES, "stream": True, "stream_options": {"include_usage": True}}
        for count, (title, (body, _)) in enumerate(GOOD.items(), 1):
            async with r.http.post(f"{r.access.openai_url}/chat/completions", json=request) as reply:
                assert (reply.status, await reply.read()) == (200, body.encode()), title
            *_, row = rows = await r.requests()
            assert len(rows) == count, title
            assert (row["state"], row["error_class"], row["finish_reason"]) == ("estimated", None, "stop"), title


async def test_an_error_in_any_frame_is_counted_and_told_in_its_own_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [Fail(200, body, {"content-type": content_type}) for body, content_type, _ in BAD.values()]
    async with rig(tmp_path, server=Vendor(*answers)) as r:
        request = {"model": "m", "messages": MESSAGES, "stream": True}
        for count, (title, (_, _, words)) in enumerate(BAD.items(), 1):
            caplog.clear()
            with suppress(aiohttp.ClientPayloadError):  # what is no stream breaks off
                async with r.http.post(f"{r.access.openai_url}/chat/completions", json=request) as reply:
                    await reply.read()
            *_, row = rows = await r.requests()
            assert len(rows) == count, title
            assert (row["state"], row["error_class"]) == ("released", "transient"), title
            assert words in caplog.text, title


async def test_a_redirect_is_told_as_a_failure_because_no_client_could_follow_it(tmp_path: Path) -> None:
    statuses = (301, 303, 304, 307)
    head = {"location": "http://127.0.0.1:9/v1/chat/completions"}
    async with rig(tmp_path, server=Vendor(*(Fail(status, "", head) for status in statuses))) as r:
        for count, status in enumerate(statuses, 1):
            got, said = await r.chat()
            assert got in (400, 502), status
            assert f"reef answered {status}" in said["error"]["message"]
            assert [row["state"] for row in await r.requests()] == ["released"] * count, status


async def _gone(r: Rig, server: Vendor) -> None:
    body = {"model": "m", "messages": MESSAGES, "stream": True}
    async with r.http.post(f"{r.access.openai_url}/chat/completions", json=body) as reply:
        await reply.content.readany()


async def test_a_client_that_goes_away_pays_for_what_came(tmp_path: Path) -> None:
    server = Vendor(Say("ore " * 40, stall_after=6))
    async with rig(tmp_path, server=server) as r:
        await _gone(r, server)
        await server.asked[0].gone.wait()
        await r.s.until(lambda: r.s.value("SELECT count(*) FROM request WHERE state = 'estimated'"))
        [row] = await r.requests()
        assert row["state"] == "estimated"
        assert row["output_tokens"] > 0
        assert await r.s.value("SELECT count(*) FROM calibration") == 0
        spent = await r.s.value("SELECT used_tokens FROM spend WHERE scope = 'mysis'")
        assert spent == row["input_tokens"] + row["output_tokens"]


async def test_what_two_requests_begin_with_is_what_a_provider_may_cache(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        longer = [*MESSAGES, {"role": "assistant", "content": "Dug."}, {"role": "user", "content": "Again."}]
        for messages in (MESSAGES, longer):
            assert (await r.post("/chat/completions", {"model": "m", "messages": messages, "tools": TOOLS}))[0] == 200
        first, second = [inspect_request(r.s.path, row["id"]) for row in await r.requests()]
        found = compare_requests(first, second)
        assert (found.repeated, len(found.added), len(found.removed)) == (2, 2, 0)


async def test_secrets_that_zoea_knows_are_not_recorded(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        secret = "hunter2-hunter2-hunter2"
        call = AnswerCall("log_in", json.dumps({"password": secret}))
        await r.gateway._open[r.mysis_id].link.session.conceal_answer(Answer(calls=(call,)))
        assert (await r.chat(f"it is {secret}"))[0] == 200
        [row] = await r.requests()
        [message] = inspect_request(r.s.path, row["id"]).messages
        assert secret not in message.content


async def test_the_server_is_loaded_with_the_first_agent_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported: list[str] = []

    async def note(name: str) -> ModuleType:
        imported.append(name)
        return await import_in_thread(name)

    monkeypatch.setattr(compose, "import_in_thread", note)
    async with rig(tmp_path, has_turn=False) as r:
        lazy = _LazyGateway(r.s.commander.swarm)
        await lazy.close(r.mysis_id)
        assert lazy._server is None
        one, other = await asyncio.gather(lazy._load(), lazy._load())
        assert one is other
        access = await lazy.open(r.mysis_id)
        assert set(imported) == {"zoea.web.gateway"}
        async with r.http.get(f"{access.openai_url}/models") as reply:
            assert reply.status == 200
        await lazy.shut_down()
        with pytest.raises(aiohttp.ClientConnectionError):
            await r.http.get(f"{access.openai_url}/models")
