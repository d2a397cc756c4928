"""From the events of the messages API to deltas and an `Answer`.

Source: https://platform.claude.com/docs/en/build-with-claude/streaming. Unknown
events and block types are passed over, as the vendor asks of its clients.
"""

from __future__ import annotations

import json
from typing import Any

from zoea.llm.arguments import repair
from zoea.llm.errors import failure, from_stream, said
from zoea.llm.openai_stream import whole_number
from zoea.llm.sse import EventReader
from zoea.model.request import Answer, AnswerCall, Delta
from zoea.model.values import Native, Usage
from zoea.model.words import ErrorClass, Finish

_FINISH: dict[str, Finish] = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "pause_turn": Finish.STOP,
    "tool_use": Finish.CALLS,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "refusal": Finish.FILTER,
}
_SIGNED = ("thinking", "redacted_thinking")


class MessageFold:
    """Feed it the body's bytes; it gives progress, and the answer in the end."""

    def __init__(self, provider: str, model: str, *, secrets: tuple[str, ...] = ()) -> None:
        self._provider = provider
        self._model = model
        self._secrets = secrets
        self._reader = EventReader()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, list[str]] = {}
        self._usage: dict[str, Any] = {}
        self._stop = ""
        self._named = ""
        self._new: tuple[list[str], list[str], list[str]] = ([], [], [])
        self.is_done = False

    @property
    def is_complete(self) -> bool:
        return self.is_done or bool(self._stop)

    def feed(self, data: bytes) -> Delta | None:
        return self._take(self._reader.feed(data))

    def end(self) -> Delta | None:
        return self._take(self._reader.end())

    def whole(self, body: bytes) -> None:
        """An answer that was not streamed although that was asked for."""
        try:
            message = json.loads(body)
        except ValueError:
            message = None
        if isinstance(message, dict) and message.get("type") == "error":
            raise from_stream(message, provider=self._provider, secrets=self._secrets)
        if not isinstance(message, dict) or not isinstance(message.get("content"), list):
            raise failure(
                ErrorClass.BAD_REQUEST,
                f"{self._provider} sent {said(body)[0] or 'nothing'}",
                secrets=self._secrets,
                title="The provider sent no answer",
                hint="Check the provider's base_url in the settings.",
            )
        self._start(message)
        for index, block in enumerate(message["content"]):
            self._blocks[index] = dict(block)
            if block.get("type") == "tool_use":
                self._inputs[index] = [json.dumps(block.get("input") or {})]
        self._stop = str(message.get("stop_reason") or "end_turn")

    def answer(self) -> Answer:
        """Raises ProviderError (content filter) where a refusal left nothing."""
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        finish = _FINISH.get(self._stop, Finish.UNKNOWN)
        calls = tuple(self._call(index) for index in sorted(self._inputs))
        if finish is Finish.FILTER and not text.strip() and not calls:
            raise failure(ErrorClass.CONTENT_FILTER, f"{self._provider} refused to answer")
        return Answer(
            text=text,
            reasoning="".join(block.get("thinking", "") for block in blocks if block["type"] == "thinking"),
            calls=calls,
            native=self._native(blocks),
            usage=usage_of(self._usage),
            finish=Finish.CALLS if calls and finish is not Finish.LENGTH else finish,
            model=self._named or self._model,
        )

    def _call(self, index: int) -> AnswerCall:
        block = self._blocks[index]
        is_cut = _FINISH.get(self._stop) is Finish.LENGTH and index == max(self._blocks)
        arguments, broken = repair("".join(self._inputs[index]), is_cut=is_cut)
        return AnswerCall(block["name"], arguments, block.get("id", ""), broken)

    def _native(self, blocks: list[dict[str, Any]]) -> Native | None:
        """The layout of the message: signed blocks and text as they are, a placeholder for each call."""
        if not any(block["type"] in _SIGNED for block in blocks):
            return None
        kept = [
            {"type": "tool_use"} if block["type"] == "tool_use" else block
            for block in blocks
            if block["type"] in (*_SIGNED, "tool_use") or (block["type"] == "text" and block["text"].strip())
        ]
        return Native(self._provider, self._model, json.dumps(kept, ensure_ascii=False))

    def _take(self, events: list[tuple[str, str]]) -> Delta | None:
        self._new = ([], [], [])
        for _, data in events:
            try:
                event = json.loads(data)
            except ValueError:
                continue  # nothing the vendor sends; a stream of nothing else is found incomplete
            if isinstance(event, dict):
                self._event(event)
        text, reasoning, call = map("".join, self._new)
        return Delta(text, reasoning, call) if text or reasoning or call else None

    def _event(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "content_block_delta":
                self._delta(event.get("index", 0), event.get("delta") or {})
            case "content_block_start":
                self._begin(event.get("index", 0), dict(event.get("content_block") or {}))
            case "message_start":
                self._start(event.get("message") or {})
            case "message_delta":
                self._usage.update({k: v for k, v in (event.get("usage") or {}).items() if v is not None})
                self._stop = str((event.get("delta") or {}).get("stop_reason") or self._stop)
            case "message_stop":
                self.is_done = True
            case "error":
                raise from_stream(event, provider=self._provider, secrets=self._secrets)

    def _start(self, message: dict[str, Any]) -> None:
        self._usage.update(message.get("usage") or {})
        self._named = str(message.get("model") or "")

    def _begin(self, index: int, block: dict[str, Any]) -> None:
        if "type" not in block:
            return
        self._blocks[index] = block
        if block["type"] == "tool_use":
            given = block.get("input")
            self._inputs[index] = [json.dumps(given)] if given else []
            self._new[2].append(f"{block.get('name', '')} ")
        elif block["type"] == "text":
            self._new[0].append(block.setdefault("text", ""))

    def _delta(self, index: int, delta: dict[str, Any]) -> None:
        block = self._blocks.get(index)
        if block is None:
            return
        match delta.get("type"):
            case "text_delta":
                block["text"] = block.get("text", "") + delta["text"]
                self._new[0].append(delta["text"])
            case "thinking_delta":
                block["thinking"] = block.get("thinking", "") + delta["thinking"]
                self._new[1].append(delta["thinking"])
            case "signature_delta":
                block["signature"] = block.get("signature", "") + delta["signature"]
            case "input_json_delta" if index in self._inputs:
                self._inputs[index].append(delta["partial_json"])
                self._new[2].append(delta["partial_json"])


def usage_of(usage: dict[str, Any]) -> Usage:
    """Tokens as reported. The API counts cached input apart; here `input_tokens` holds all of it."""
    fresh = whole_number(usage.get("input_tokens"))
    read = whole_number(usage.get("cache_read_input_tokens"))
    written = whole_number(usage.get("cache_creation_input_tokens"))
    details = usage.get("output_tokens_details") or {}
    return Usage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        cached_tokens=read,
        output_tokens=whole_number(usage.get("output_tokens")),
        reasoning_tokens=whole_number(details.get("thinking_tokens", details.get("reasoning_tokens"))),
    )
