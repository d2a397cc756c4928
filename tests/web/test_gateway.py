"""External agents ask models through the gateway: handed on, counted, recorded, refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.fakes import anthropic_server
from tests.fakes.openai_server import Call, Fail, Say
from tests.web.gateway_rig import KEY, MARK, AnthropicVendor, Rig, Vendor, rig
from zoea.model.request import Answer, AnswerCall
from zoea.queries.request_difference import compare_requests
from zoea.queries.request_inspection import inspect_request
from zoea.queries.request_log import REQUEST_LINE_IDS, read_request_lines
from zoea.queries.stored_swarm import open_database
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


async def test_a_wire_that_its_provider_does_not_speak_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        status, said = await r.post("/messages", {"model": "m", "max_tokens": 1, "messages": []})
        assert status == 400
        assert said["type"] == "error"
        assert said["error"]["message"] == (
            "Zoea: reef (openai) does not speak messages; give alpha another provider, or its agent another API"
        )


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
    import asyncio

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


async def test_the_server_is_loaded_with_the_first_agent(tmp_path: Path) -> None:
    async with rig(tmp_path, has_turn=False) as r:
        lazy = _LazyGateway(r.s.commander.swarm)
        await lazy.close(r.mysis_id)
        assert lazy._server is None
        access = await lazy.open(r.mysis_id)
        async with r.http.get(f"{access.openai_url}/models") as reply:
            assert reply.status == 200
        await lazy.shut_down()
        with pytest.raises(aiohttp.ClientConnectionError):
            await r.http.get(f"{access.openai_url}/models")
