"""A smaller request, measured in what was sent, follows one that was too long.

Sources of the shared case: anomalyco/opencode#50187, earendil-works/pi#4574, anomalyco/opencode#50574.
"""

# ruff: noqa: E501  a refusal stands on one line, as its server sends it

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import Call, Fail, OpenAIServer, Say, Step
from tests.fakes.wire_server import Received
from tests.llm.sample_requests import provider
from tests.swarm.harness import OneProvider, call, swarm
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError
from zoea.model.request import Answer, ModelRequest
from zoea.settings.schema import Settings
from zoea.text import estimate


@dataclass
class Window:
    """A model that refuses what is longer than its window, whatever window the settings name.

    Attributes:
        sizes: Of each request, in tokens of the estimate, with the answer's limit.
        refused: The places of those that were too long.
    """

    window: int
    is_named: bool
    rounds: int = 6
    counts_output: bool = False
    sizes: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def reply(self, request: ModelRequest) -> Answer | ProviderError:
        size = sum(estimate.tokens(one.content) + sum(map(_size, one.calls)) for one in request.messages)
        size += sum(estimate.tokens(json.dumps([one.name, one.description, one.input_schema])) for one in request.tools)
        self.outputs.append(request.max_output_tokens)
        self.sizes.append(size)
        if size + (request.max_output_tokens if self.counts_output else 0) > self.window:
            self.refused.append(len(self.sizes) - 1)
            window = self.window if self.is_named else None
            return ProviderError("too long", kind=ErrorClass.CONTEXT_LENGTH, window=window)
        done = len(self.sizes) - len(self.refused)
        return (
            Answer(calls=(call("act", f"{done} " + "of a page " * 250),))
            if done <= self.rounds
            else Answer(text="Read.")
        )


def _size(one: object) -> int:
    return estimate.tokens(getattr(one, "arguments", ""))


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("window", [4_600, 3_600])
async def test_each_refusal_for_length_is_followed_by_a_smaller_request_and_the_turn_ends(
    tmp_path: Path, window: int, is_named: bool
) -> None:
    model = Window(window, is_named)
    async with swarm(tmp_path, model.reply, settings=Settings.model_validate({"loop": {"exempt": ["act"]}})) as s:
        await s.ask("alpha", "Read six pages.")
        assert await s.value("SELECT outcome FROM turn") == "answered"
        notes = await s.store.read("SELECT content FROM turn_note WHERE kind LIKE 'limit %'")
    assert model.refused
    assert all(model.sizes[place + 1] < model.sizes[place] for place in model.refused)
    assert len(model.refused) <= 3
    assert all("The requests that follow in this turn have at most" in row["content"] for row in notes)
    assert len(notes) == len(model.refused)


async def test_a_prompt_that_cannot_shrink_goes_out_once_more_with_less_room_for_the_answer(tmp_path: Path) -> None:
    model = Window(3_000, is_named=False, rounds=0, counts_output=True)
    settings = Settings.model_validate({"budget": {"max_output_tokens": 2_990}})
    async with swarm(tmp_path, model.reply, settings=settings) as s:
        await s.ask("alpha", "Say something.")
        assert await s.value("SELECT outcome FROM turn") == "answered"
    first, second = model.outputs
    assert (first, second < 1_500) == (2_990, True)


async def test_a_prompt_that_is_too_long_by_itself_ends_with_the_refusal_of_the_provider(tmp_path: Path) -> None:
    model = Window(20, is_named=True)
    async with swarm(tmp_path, model.reply) as s:
        receipt = await s.ask("alpha", "Go on. " * 200)
        assert await s.value("SELECT outcome FROM turn") == "failed"
        line = (await s.commander.receipt(receipt.message_id)).lines[0]
        assert "The model's provider failed" in line.reason
        notes = await s.store.read("SELECT kind FROM turn_note WHERE kind LIKE 'limit %' ORDER BY kind")
    assert len(model.sizes) == 2
    assert len(notes) == 2, "each refusal is noted, so that a restart sends none of them again"


SERVED = 3_600
"""Tokens of the window that the servers below have, where the settings assume 8,192."""


def said(status: int, body: Any) -> Callable[[int, int], Step]:
    """Make a refusal; PROMPT, OUTPUT, TOTAL and WINDOW stand for the sizes."""
    text = body if isinstance(body, str) else json.dumps(body)

    def refuse(prompt: int, output: int) -> Step:
        sizes = {"PROMPT": prompt, "OUTPUT": output, "TOTAL": prompt + output, "WINDOW": SERVED}
        filled = text
        for name, size in sizes.items():
            filled = filled.replace(f'"{name}"', str(size)).replace(name, str(size))
        return Fail(status, filled)

    return refuse


def streamed(body: Any) -> Callable[[int, int], Step]:
    return lambda prompt, output: Say(raw=(b"data: %b\n\n" % json.dumps(body).encode(),))


REPORTS: tuple[tuple[str, bool, Callable[[int, int], Step]], ...] = (
    # report, whether the server counts the answer's limit too, how it refuses
    ("NousResearch/hermes-agent#89502", False, said(400, {"error": {"code": 400, "message": "request (PROMPT tokens) exceeds the available context size (WINDOW tokens), try increasing it", "type": "exceed_context_size_error", "n_prompt_tokens": "PROMPT", "n_ctx": "WINDOW"}})),
    ("CommandCodeAI/command-code#891", True, said(400, {"error": {"message": "This model's maximum context length is WINDOW tokens. However, you requested TOTAL tokens (PROMPT in the messages, OUTPUT in the completion).", "type": "invalid_request_error"}})),
    ("anthropics/claude-code#1531", True, said(400, {"type": "error", "error": {"type": "invalid_request_error", "message": "input length and `max_tokens` exceed context limit: PROMPT + OUTPUT > WINDOW, decrease input length or `max_tokens` and try again"}})),
    ("continuedev/continue#9797", False, said(400, {"error": {"code": 400, "message": "the request exceeds the available context size, try increasing it", "type": "invalid_request_error"}})),
    ("oobabooga/textgen#7257", False, said(200, {"error": {"code": 400, "message": "the request exceeds the available context size. try increasing the context size or enable context shift", "type": "exceed_context_size_error", "n_prompt_tokens": "PROMPT", "n_ctx": "WINDOW"}})),
    ("melagiri/code-insights#271", True, said(500, {"error": {"code": 500, "message": "the request exceeds the available context size. try increasing the context size or enable context shift", "type": "exceed_context_size_error"}})),
    ("CherryHQ/cherry-studio#20938, a gateway", False, said(413, "<html><head><title>413 Request Entity Too Large</title></head><body><center>openresty</center></body></html>")),
    ("CherryHQ/cherry-studio#20938, a server", False, said(413, "Failed to buffer the request body: length limit exceeded")),
    ("NousResearch/hermes-agent#88960", False, said(413, "Request Entity Too Large")),
    ("vybestack/llxprt-code#1843", False, said(413, "")),
    ("vllm-project/vllm#36197", True, said(400, {"error": {"message": "This model's maximum context length is WINDOW tokens. However, you requested OUTPUT output tokens and your prompt contains at least PROMPT input tokens, for a total of at least TOTAL tokens. Please reduce the length of the input prompt or the number of requested output tokens.", "type": "BadRequestError", "param": None, "code": 400}})),
    ("tya5/reyn#5699", False, said(400, {"error": {"message": "litellm.BadRequestError: OpenAIException - refused", "type": None, "param": None, "code": "context_length_exceeded"}})),
    ("ColeMurray/background-agents#1081", False, streamed({"error": {"message": "Your input exceeds the context window of this model.", "code": "context_length_exceeded"}})),
    ("agentscope-ai/QwenPaw#494", False, said(400, {"error": {"message": "Input tokens exceed the configured limit of WINDOW tokens. Your messages resulted in PROMPT tokens. Please reduce the length of the messages.", "localized_message": "Unknown error", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}})),
    ("evalstate/fast-agent#346", False, said(413, {"error": {"code": "tokens_limit_reached", "message": "Provider API error: Request body too large for gpt-4o model. Max size: WINDOW tokens."}})),
    ("NousResearch/hermes-agent#92211", True, said(400, {"error": {"message": "This model's maximum context length is WINDOW tokens. However, you requested OUTPUT output tokens and your prompt contains at least PROMPT input tokens, for a total of at least TOTAL tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=PROMPT)", "type": "BadRequestError", "param": "input_tokens", "code": 400}})),
    ("earendil-works/pi#8196", True, said(400, {"error": {"message": "This model's maximum context length is WINDOW tokens. However, you requested TOTAL tokens (PROMPT in the messages, OUTPUT in the completion).", "type": "invalid_request_error", "param": None, "code": "invalid_request_error"}})),
)  # fmt: skip


@pytest.mark.parametrize(("counts_output", "refuse"), [one[1:] for one in REPORTS], ids=[one[0] for one in REPORTS])
async def test_what_is_sent_after_a_refusal_for_its_length_is_smaller(
    tmp_path: Path, counts_output: bool, refuse: Callable[[int, int], Step]
) -> None:
    """In each report the client sent the refused request again.

    Or it gave up with most of it still to leave out.
    """
    sent: list[tuple[int, int, bool]] = []
    rounds = 2 if counts_output else 6  # beside an answer there is room for the newest call and a line for each other

    def reply(received: Received) -> Step:
        body = received.json
        prompt = estimate.tokens(json.dumps([body["messages"], body.get("tools", [])]))
        output = body.get("max_tokens") or body.get("max_completion_tokens") or 0
        is_refused = prompt + (output if counts_output else 0) > SERVED
        sent.append((prompt, output, is_refused))
        done = sum(not refused for _, _, refused in sent)
        if is_refused:
            return refuse(prompt, output)
        return (
            Say(calls=(Call("act", f'{{"what": "{done} {"of a page " * 150}"}}'),)) if done <= rounds else Say("Read.")
        )

    settings = Settings.model_validate({"loop": {"exempt": ["act"]}})
    async with OpenAIServer(otherwise=reply) as server:
        source = provider("openai", server.base_url, model="reef-1")
        async with swarm(tmp_path, providers=OneProvider(source), settings=settings) as s:
            await s.ask("alpha", "Read six pages.")
            outcome = await s.value("SELECT outcome FROM turn")
        await source.close()
    assert outcome == "answered", sent
    refused = [place for place, (_, _, is_refused) in enumerate(sent) if is_refused]
    assert 1 <= len(refused) <= 3
    for place in refused:
        (before, room, _), (after, less, _) = sent[place], sent[place + 1]
        assert after < before or (counts_output and (after, less < room) == (before, True))
