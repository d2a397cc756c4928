"""Builds and decodes the JSON of Ollama's native chat. Pure.

Source: https://docs.ollama.com/api/chat. The native API is used because Ollama's OpenAI-compatible API cannot set the
size of the window.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from zoea.llm.messages import json_schema_tools
from zoea.llm.messages.argument_repair import repair
from zoea.llm.messages.message_rules import merge_users, result_text, settle, strict_object
from zoea.llm.messages.request_forms import fit_ids, fit_system, fit_tools
from zoea.llm.messages.think_splitter import ThinkSplitter
from zoea.llm.model_traits import Trait, Traits
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.providers.openai_request import tool_wire, uses_schema
from zoea.llm.providers.openai_stream import whole_number
from zoea.llm.transport.answer_bounds import AnswerBounds
from zoea.llm.transport.event_stream import MAX_WORDS, LineReader, cut_body
from zoea.llm.transport.json_safety import as_mapping, as_mappings, as_text_value, as_tool_name, parse
from zoea.llm.transport.provider_errors import error_from_stream, is_error, no_answer_error
from zoea.model.enums import Finish, Role
from zoea.model.request import Answer, AnswerCall, Delta, ModelRequest, RequestMessage
from zoea.model.values import Usage
from zoea.settings.schema import ContextSettings

WINDOW = ContextSettings().context_window


def body_of(
    request: ModelRequest, config: ProviderConfig, *, traits: Traits = frozenset(), without_thinking: bool = False
) -> dict[str, Any]:
    """Build the request's body, always with `num_ctx` and `num_predict`. `without_thinking` leaves out thinking."""
    request = replace(request, tools=fit_tools(request.tools, traits))
    system, messages = settle(request.messages)
    messages = fit_ids(messages, traits)
    model = request.model or config.model
    schema = uses_schema(config, traits, request)
    if schema:
        system, messages = json_schema_tools.as_text(system, messages, request, with_examples=bool(config.examples))
        messages = merge_users(messages)
    system, messages = fit_system(system, messages, traits)
    wire = [{"role": "system", "content": system}] if system else []
    wire.extend(_message(message, traits, without_thinking) for message in messages)
    options: dict[str, Any] = {
        "num_ctx": request.context_window or config.context_window or WINDOW,
        "num_predict": request.max_output_tokens,
    }
    temperature = config.temperature if request.temperature is None else request.temperature
    if temperature is not None:
        options["temperature"] = temperature
    body: dict[str, Any] = {"model": model, "messages": wire, "stream": True}
    if schema:
        body["format"] = json_schema_tools.answer_schema(request)
    elif request.tools:
        body["tools"] = [tool_wire(tool) for tool in request.tools]
    if config.thinking is not None and not without_thinking and Trait.NO_THINKING not in traits:
        body["think"] = think_of(config.thinking)
    for given in (config.options, request.options):
        rest = dict(given)
        options.update(rest.pop("options", {}))
        body.update(rest)
    body["options"] = options
    return body


def think_of(setting: bool | int | str) -> bool | str:
    """Return the setting as Ollama's `think`: on, off, or a level."""
    match setting:
        case bool():
            return setting
        case "off":
            return False
        case "low" | "medium" | "high":
            return setting
        case _:
            return True


def _message(message: RequestMessage, traits: Traits, without_thinking: bool) -> dict[str, Any]:
    match message.role:
        case Role.TOOL:
            return {
                "role": "tool",
                "content": result_text(message),
                "tool_name": message.name,
                "tool_call_id": message.call_id,
            }
        case Role.ASSISTANT:
            wire: dict[str, Any] = {"role": "assistant", "content": message.content}
            if message.calls:
                wire["tool_calls"] = [
                    {"id": call.id, "function": {"name": call.name, "arguments": strict_object(call.arguments) or {}}}
                    for call in message.calls
                ]
                if message.reasoning and not without_thinking and Trait.REASONING_BACK in traits:
                    wire["thinking"] = message.reasoning
            return wire
        case _:
            return {"role": "user", "content": message.content}


class OllamaStreamDecoder:
    """Decodes the lines of a chat. Implements `StreamDecoder`."""

    def __init__(
        self, provider: str, model: str, *, is_structured: bool = False, secrets: tuple[str, ...] = ()
    ) -> None:
        self._provider = provider
        self._model = model
        self._structured = is_structured
        self._secrets = secrets
        self._bounds = AnswerBounds(provider)
        self._reader = LineReader()
        self._think = ThinkSplitter()
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[AnswerCall] = []
        self._last: dict[str, Any] = {}
        self.is_done = False
        self.words = ""

    @property
    def is_complete(self) -> bool:
        return self.is_done

    def feed(self, data: bytes) -> Delta | None:
        return self._take(self._reader.feed(data))

    def end(self) -> Delta | None:
        delta = self._take(self._reader.end()) or Delta()
        text, reasoning = self._think.end()
        self._text.append(text)
        self._reasoning.append(reasoning)
        delta = Delta(delta.text + text, delta.reasoning + reasoning, delta.call)
        return delta if delta != Delta() else None

    def feed_whole(self, body: bytes) -> None:
        """Read an answer in one piece, from a server that does not stream."""
        try:
            self._payload(parse(body), ([], [], []))
        except ValueError:
            for piece in cut_body(body + b"\n"):
                self.feed(piece)
        if not self.is_done:
            hint = "Check the provider's base_url: Ollama's is usually http://127.0.0.1:11434."
            raise no_answer_error(self._provider, body, hint, self._secrets)

    def answer(self) -> Answer:
        text, orphan = self._think.orphan("".join(self._text))
        reasoning = f"{''.join(self._reasoning)}{orphan}".strip()
        calls = tuple(self._calls)
        reason = as_text_value(self._last.get("done_reason")) or "stop"
        finish = {"stop": Finish.STOP, "length": Finish.LENGTH}.get(reason, Finish.UNKNOWN)
        if self._structured and not calls:
            text, calls = json_schema_tools.read(text, is_cut=finish is Finish.LENGTH)
        return Answer(
            text=text.strip("\n") if reasoning else text,
            reasoning=reasoning,
            calls=calls,
            usage=Usage(
                input_tokens=whole_number(self._last.get("prompt_eval_count")),
                output_tokens=whole_number(self._last.get("eval_count")),
            ),
            finish=Finish.CALLS if calls else finish,
            model=str(self._last.get("model") or self._model),
        )

    def _take(self, lines: list[str]) -> Delta | None:
        new: tuple[list[str], list[str], list[str]] = ([], [], [])
        for line in lines:
            try:
                self._payload(parse(line), new)
            except ValueError:
                if line[:1] not in ("{", "[") and len(self.words) < MAX_WORDS:
                    self.words = f"{self.words}\n{line}".strip()[:MAX_WORDS]
        text, reasoning, call = map("".join, new)
        return Delta(text, reasoning, call) if text or reasoning or call else None

    def _payload(self, payload: Any, new: tuple[list[str], list[str], list[str]]) -> None:
        if not isinstance(payload, dict):
            return
        if is_error(payload):
            raise error_from_stream(payload, provider=self._provider, secrets=self._secrets)
        self._message(as_mapping(payload.get("message")), new)
        if payload.get("done"):
            self._last = payload
            self.is_done = True

    def _message(self, message: dict[str, Any], new: tuple[list[str], list[str], list[str]]) -> None:
        text, reasoning = self._think.feed(as_text_value(message.get("content")))
        reasoning = as_text_value(message.get("thinking")) + reasoning
        if text:
            self._bounds.keep(text)
            self._text.append(text)
            new[2 if self._structured else 0].append(text)
        if reasoning:
            self._bounds.keep(reasoning)
            self._reasoning.append(reasoning)
            new[1].append(reasoning)
        for call in as_mappings(message.get("tool_calls")):
            function = as_mapping(call.get("function"))
            given = function.get("arguments")
            arguments, broken = repair(given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False))
            name = as_tool_name(function.get("name"))
            self._bounds.keep_value([name, arguments, broken, call.get("id")])
            self._calls.append(AnswerCall(name, arguments, str(call.get("id") or ""), broken))
            new[2].append(f"{name} {arguments}")
