"""Behaves as Qwen2.5-Coder 0.5B did: it writes calls as text, in a fence, and answers with the results it sees.

It knows nothing but the request. The same answers go out by each API that llama.cpp speaks.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.fakes import anthropic_server, openai_server
from tests.fakes.llamacpp_server import LISTED, PROPS
from tests.fakes.wire_server import Received

_CITIES = ("Berlin", "Tokyo")
_FACT = re.compile(r"[A-Z][^.?!\n]*\.")
_WORD = re.compile(r"\w{4,}")


def answer_as_small_model(body: dict[str, Any]) -> str:
    """Return the answer text to a request in either API's form."""
    said = _messages(body)
    prompt = max(number for number, (role, _) in enumerate(said) if role == "user")
    asked, after = said[prompt][1], said[prompt + 1 :]
    results = "\n".join(text for role, text in after if role == "result")
    step = _next_call(asked, results)
    is_schema = "response_format" in body
    if step is None:
        text = results or _recall(asked, said[:prompt])
        return json.dumps({"answer": text}) if is_schema else text
    return json.dumps(step) if is_schema else f"```json\n{json.dumps(step)}\n```"


def _next_call(asked: str, results: str) -> dict[str, Any] | None:
    """Return the call that is still to be made. A small model makes one at a time."""
    if "What time" in asked:
        left = [city for city in _CITIES if city not in results]
        return {"name": "get_time", "arguments": {"city": left[0]}} if left else None
    if results:
        return None
    if "commits" in asked:
        return {"name": "list_commits", "arguments": {"count": 3}}
    if found := re.search(r"Tell (\w+) that (.+)", asked):
        return {"name": "zoea_send_message", "arguments": {"to": found[1], "text": found[2]}}
    return None


def _recall(asked: str, said: list[tuple[str, str]]) -> str:
    """Return the sentence of the request that shares most words with the question."""
    words = {word.lower() for word in _WORD.findall(asked)}
    sentences = [sentence for _, text in said for sentence in _FACT.findall(text)]
    return max(
        sentences, key=lambda one: len(words & {word.lower() for word in _WORD.findall(one)}), default="I do not know."
    )


def _messages(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the request's messages as (role, text); results of calls have the role `result`."""
    found: list[tuple[str, str]] = []
    for message in body["messages"]:
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        for part in parts:
            text = str(part.get("text") or part.get("content") or "")
            is_result = message["role"] == "tool" or part["type"] == "tool_result" or text.startswith("Result of ")
            found.append(("result" if is_result else message["role"], text))
    return found


class SmallOpenAIServer(openai_server.OpenAIServer):
    """The model behind llama.cpp's chat completions."""

    def __init__(self) -> None:
        super().__init__(otherwise=lambda request: openai_server.Say(answer_as_small_model(request.json)))
        self.models = [LISTED]
        self.props = {**PROPS, "default_generation_settings": {"n_ctx": 8192}}


class SmallAnthropicServer(anthropic_server.AnthropicServer):
    """The model behind llama.cpp's messages API."""

    def __init__(self) -> None:
        super().__init__()
        self.models = [LISTED]
        self.props = {**PROPS, "default_generation_settings": {"n_ctx": 8192}}

    def next_step(self, request: Received) -> anthropic_server.Step:
        return anthropic_server.Say((anthropic_server.Text(answer_as_small_model(request.json)),))
