"""Decodes the events of the messages API into deltas and an `Answer`.

Source: https://platform.claude.com/docs/en/build-with-claude/streaming. Unknown events and block types are ignored,
as the vendor asks of its clients.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any

from zoea.llm.messages.argument_repair import repair
from zoea.llm.messages.call_pieces import split_arguments
from zoea.llm.messages.json_schema_tools import read_unconstrained
from zoea.llm.providers.openai_stream import whole_number
from zoea.llm.transport.event_stream import PayloadDecoder, cut_body
from zoea.llm.transport.json_safety import as_mapping, as_mappings, as_text_value, as_tool_name, parse
from zoea.llm.transport.provider_errors import error_from_stream, is_error, no_answer_error, provider_error
from zoea.model.enums import ErrorClass, Finish
from zoea.model.request import Answer, AnswerCall, Delta
from zoea.model.values import Native, Usage

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
_USAGE = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "cache_creation",
    "output_tokens",
    "output_tokens_details",
)
_TEXTS = ("text", "thinking", "signature", "id", "name")


class MessageStreamDecoder(PayloadDecoder):
    """Decodes the body of a message. Implements `StreamDecoder`.

    `has_text_calls` means that the answer's text is one object: a call, or the text of the answer.
    """

    def __init__(
        self, provider: str, model: str, *, has_text_calls: bool = False, secrets: tuple[str, ...] = ()
    ) -> None:
        super().__init__(provider, model, secrets)
        self._has_text_calls = has_text_calls
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, list[str]] = {}
        self._places: dict[int, int] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._usage: dict[str, Any] = {}
        self._stop = ""
        self._named = ""
        self._new: tuple[list[str], list[str], list[str]] = ([], [], [])
        self.is_done = False

    @property
    def is_complete(self) -> bool:
        return self.is_done or bool(self._stop)

    def feed_whole(self, body: bytes) -> None:
        """Read a whole body, which was not streamed, or streamed under a document's content type."""
        try:
            message = parse(body)
        except ValueError:
            for piece in cut_body(body):
                self.feed(piece)
            self.end()
            if self.is_complete:
                return
            message = None
        if not self._is_whole(message):
            raise no_answer_error(self._provider, body, "Check the provider's base_url in the settings.", self._secrets)

    def _is_whole(self, message: Any) -> bool:
        """Take a message in one piece. Raises ProviderError where it is an error."""
        if not isinstance(message, dict):
            return False
        if is_error(message):
            raise error_from_stream(message, provider=self._provider, secrets=self._secrets)
        if not isinstance(message.get("content"), list):
            return False
        self._start(message)
        for index, block in enumerate(as_mappings(message["content"])):
            self._begin(index, block)
        self._stop = str(message.get("stop_reason") or "end_turn")
        return True

    def answer(self) -> Answer:
        """Build the answer. Raises ProviderError (content filter) if a refusal left no text."""
        for (index, key), pieces in self._pieces.items():
            self._blocks[index][key] = "".join([self._blocks[index].get(key, ""), *pieces])
        self._pieces.clear()
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        text = "".join(block.get("text", "") for block in blocks if block["type"] == "text")
        finish = _FINISH.get(self._stop, Finish.UNKNOWN)
        calls = tuple(self._call(index) for index in sorted(self._inputs))
        if self._has_text_calls and not calls:
            text, calls = read_unconstrained(text, is_cut=finish is Finish.LENGTH)
        if finish is Finish.FILTER and not text.strip() and not calls:
            raise provider_error(ErrorClass.CONTENT_FILTER, f"{self._provider} refused to answer")
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
        texts = split_arguments(self._inputs[index])
        arguments, broken = repair(texts[0] if len(texts) == 1 else "".join(self._inputs[index]), is_cut=is_cut)
        return AnswerCall(as_tool_name(block.get("name", "")), arguments, block.get("id", ""), broken)

    def _native(self, blocks: list[dict[str, Any]]) -> Native | None:
        """Keep the layout of the message: signed blocks and text, and a placeholder for each call."""
        if not any(block["type"] in _SIGNED for block in blocks):
            return None
        kept = [
            {"type": "tool_use"} if block["type"] == "tool_use" else block
            for block in blocks
            if block["type"] in (*_SIGNED, "tool_use") or (block["type"] == "text" and block.get("text", "").strip())
        ]
        return Native(self._provider, self._model, json.dumps(kept, ensure_ascii=False))

    def _take(self, payloads: Iterable[Any]) -> Delta | None:
        self._new = ([], [], [])
        for event in payloads:
            if isinstance(event, dict):
                self._event(event)
        text, reasoning, call = map("".join, self._new)
        return Delta(text, reasoning, call) if text or reasoning or call else None

    def _event(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "content_block_delta":
                self._delta(_index(event), as_mapping(event.get("delta")))
            case "content_block_start":
                self._begin(_index(event), as_mapping(event.get("content_block")))
            case "message_start":
                self._start(as_mapping(event.get("message")))
            case "message_delta":
                self._note_usage(as_mapping(event.get("usage")))
                self._stop = as_text_value(as_mapping(event.get("delta")).get("stop_reason")) or self._stop
            case "message_stop":
                self.is_done = True
            case "message" if isinstance(event.get("content"), list):
                self._is_whole(event)
            case _ if is_error(event):
                raise error_from_stream(event, provider=self._provider, secrets=self._secrets)

    def _start(self, message: dict[str, Any]) -> None:
        self._note_usage(as_mapping(message.get("usage")))
        self._named = as_text_value(message.get("model"))

    def _note_usage(self, usage: Mapping[str, Any]) -> None:
        """Keep the reported tokens, each as it was reported last. Some gateways report none of the input at the end."""
        counts = {key: usage[key] for key in _USAGE if usage.get(key) is not None}
        self._usage.update({key: count for key, count in counts.items() if count or not self._usage.get(key)})

    def _begin(self, index: int, block: dict[str, Any]) -> None:
        kind = as_text_value(block.get("type"))
        if not kind:
            return
        self._bounds.keep_value(block)
        block = {**block, **{key: as_text_value(block[key]) for key in _TEXTS if key in block}}
        place = max(index, len(self._blocks))  # some servers give every block the same index
        place = max(self._blocks) + 1 if place in self._blocks else place
        self._places[index] = place
        index = place
        self._blocks[index] = block
        if kind == "tool_use":
            arguments = block.get("input")
            self._inputs[index] = [json.dumps(arguments)] if arguments else []
            self._new[2].append(f"{block.get('name', '')} ")
        elif kind == "text":
            self._new[2 if self._has_text_calls else 0].append(block.setdefault("text", ""))

    def _delta(self, index: int, delta: dict[str, Any]) -> None:
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                self._add(self._find(index, "text"), "text", text)
                self._new[2 if self._has_text_calls else 0].append(text)
            case {"type": "thinking_delta", "thinking": str(thinking)}:
                self._add(self._find(index, "thinking"), "thinking", thinking)
                self._new[1].append(thinking)
            case {"type": "signature_delta", "signature": str(signature)}:
                if (place := self._find(index, "thinking", begins=False)) >= 0:
                    self._add(place, "signature", signature)
            case {"type": "input_json_delta", "partial_json": str(piece)}:
                place = self._places.get(index, max(self._places.values(), default=index))
                if place in self._inputs:
                    self._bounds.keep(piece)
                    self._inputs[place].append(piece)
                    self._new[2].append(piece)

    def _find(self, index: int, kind: str, *, begins: bool = True) -> int:
        """Return the place of the block that a piece belongs to, -1 for none.

        Args:
            begins: Begin a block where the one of the piece is of another kind, or was never begun.
        """
        place = self._places.get(index, max(self._places.values(), default=index))
        last = next(reversed(self._blocks), -1)
        own_place = next((one for one in (place, last) if self._blocks.get(one, {}).get("type") == kind), -1)
        if own_place < 0 and begins:
            own_place = max(self._blocks, default=-1) + 1
            self._blocks[own_place] = {"type": kind}
            self._bounds.keep_value(self._blocks[own_place])
        return own_place

    def _add(self, index: int, key: str, piece: str) -> None:
        """Keep a piece of a block's text, to be joined once."""
        self._bounds.keep(piece)
        self._pieces.setdefault((index, key), []).append(piece)


def _index(event: dict[str, Any]) -> int:
    """Return the position of an event's block in the message."""
    index = event.get("index", 0)
    return index if isinstance(index, int) else 0


def usage_of(usage: dict[str, Any]) -> Usage:
    """Return the reported tokens. The API counts cached input apart; `input_tokens` includes it."""
    fresh = whole_number(usage.get("input_tokens"))
    read = whole_number(usage.get("cache_read_input_tokens"))
    written = whole_number(usage.get("cache_creation_input_tokens"))
    for_hour = whole_number(as_mapping(usage.get("cache_creation")).get("ephemeral_1h_input_tokens")) or 0
    details = as_mapping(usage.get("output_tokens_details"))
    return Usage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        cached_tokens=read,
        output_tokens=whole_number(usage.get("output_tokens")),
        reasoning_tokens=whole_number(details.get("thinking_tokens", details.get("reasoning_tokens"))),
        # What is kept for five minutes costs a quarter more than input, for an hour twice as much.
        write_surcharge=None if written is None else ceil((written + 3 * min(written, for_hour)) / 4),
    )
