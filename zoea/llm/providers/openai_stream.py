"""Decodes the events of a chat completion into deltas and an `Answer`.

Accepts what compatible servers really send: calls without index or id, or all with index 0, names in every piece,
arguments as objects, content as parts, usage in any chunk or none, no `[DONE]`, and answers that are not streamed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any

from zoea.llm.messages import json_schema_tools
from zoea.llm.messages.call_pieces import CallPieces
from zoea.llm.messages.think_splitter import ThinkSplitter
from zoea.llm.transport.event_stream import PayloadDecoder, cut_body
from zoea.llm.transport.json_safety import as_mapping, as_mappings, as_text_value, parse
from zoea.llm.transport.provider_errors import error_from_stream, is_error, no_answer_error, provider_error
from zoea.model.enums import ErrorClass, Finish
from zoea.model.request import Answer, Delta, ReadProgress
from zoea.model.values import Native, Usage

MOST_TOKENS = 10**12
MOST_MONEY = 10**6
"""Plausible limits of one request; larger values would not fit into a database's sums."""
TIMED_TOKENS = 64
"""The least tokens read from which a server's reading speed is taken; fewer say little."""

_FINISH: dict[str, Finish] = {
    "stop": Finish.STOP,
    "eos": Finish.STOP,
    "end_turn": Finish.STOP,
    "tool_calls": Finish.CALLS,
    "function_call": Finish.CALLS,
    "tool_use": Finish.CALLS,
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "content_filter": Finish.FILTER,
    **dict.fromkeys(("safety", "recitation", "blocklist", "prohibited_content", "spii"), Finish.FILTER),
}
"""Reasons in lower case: gateways pass those of Gemini and Claude on, some with the name of their class before them."""


class ChatStreamDecoder(PayloadDecoder):
    """Decodes the body of a chat completion. Implements `StreamDecoder`."""

    def __init__(
        self,
        provider: str,
        model: str,
        *,
        is_structured: bool = False,
        secrets: tuple[str, ...] = (),
        tools: Collection[str] = (),
    ) -> None:
        super().__init__(provider, model, secrets)
        self._structured = is_structured
        self._think = ThinkSplitter()
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._reasoned = 0
        self._pieces = CallPieces(tools)
        self._details: list[dict[str, Any]] = []
        self._detail_pieces: dict[str, list[str]] = {}
        self._usage = Usage()
        self._reading_rate: float | None = None
        self._progress: ReadProgress | None = None
        self._finish = ""
        self._named = ""
        self._new: tuple[list[str], list[str], list[str]] = ([], [], [])
        self._has_choice = False

    @property
    def is_done(self) -> bool:
        return self._reader.is_done

    @property
    def is_complete(self) -> bool:
        """True once the model said that it has ended, even if the connection breaks afterwards."""
        return bool(self._finish) or (self.is_done and (self._has_choice or not self.words))

    def feed(self, data: bytes) -> Delta | ReadProgress | None:
        """Decode bytes. Return what the model said, else how much of the prompt the server has read."""
        self._progress = None
        return super().feed(data) or self._progress

    def end(self) -> Delta | None:
        """Return the text that was held back when the connection ended."""
        delta = super().end()
        text, reasoning = self._think.end()
        self._text.append(text)
        self._reasoning.append(reasoning)
        if text or reasoning:
            delta = delta or Delta()
            return Delta(delta.text + text, delta.reasoning + reasoning, delta.call)
        return delta

    def feed_whole(self, body: bytes) -> None:
        """Read a whole body, which was not streamed, or streamed under a document's content type."""
        try:
            self._payload(parse(body))
        except ValueError:
            for piece in cut_body(body):
                self.feed(piece)
            self.end()
            if not self._has_choice:
                hint = "Check the provider's base_url: it should end where the vendor's documentation says (often /v1)."
                raise no_answer_error(self._provider, body, hint, self._secrets) from None

    def answer(self) -> Answer:
        """Build the answer. Raises ProviderError (content filter) if a filter left no text."""
        text = "".join(self._text)
        reasoning = "".join(self._reasoning)
        text, orphan = self._think.orphan(text)
        reasoning = f"{reasoning}{orphan}".strip()
        calls = self._pieces.answer_calls(is_cut=self._is_cut)
        if self._structured and not calls:
            text, calls = json_schema_tools.read(text, is_cut=self._is_cut)
        finish = Finish.CALLS if calls else _FINISH.get(self._finish, Finish.UNKNOWN if self._finish else Finish.STOP)
        if finish is Finish.FILTER and not text.strip():
            raise provider_error(
                ErrorClass.CONTENT_FILTER, f"{self._provider} stopped the answer before its first word"
            )
        return Answer(
            text=text.strip("\n") if reasoning else text,
            reasoning=reasoning,
            calls=calls,
            native=self._native(),
            usage=self._usage,
            finish=finish,
            model=self._named or self._model,
            reading_rate=self._reading_rate,
        )

    @property
    def _is_cut(self) -> bool:
        return _FINISH.get(self._finish) is Finish.LENGTH

    def _native(self) -> Native | None:
        self._join_detail()
        blocks: list[dict[str, Any]] = [{"type": "detail", "detail": one} for one in self._details]
        blocks += [
            {"type": "extra", "position": position, "extra_content": call.extra}
            for position, call in enumerate(self._pieces.calls)
            if call.extra
        ]
        return Native(self._provider, self._model, json.dumps(blocks, ensure_ascii=False)) if blocks else None

    def _take(self, payloads: Iterable[Any]) -> Delta | None:
        self._new = ([], [], [])
        for payload in payloads:
            self._payload(payload)
        text, reasoning, call = map("".join, self._new)
        return Delta(text, reasoning, call) if text or reasoning or call else None

    def _payload(self, payload: Any) -> None:
        if isinstance(payload, list) and payload and isinstance(payload[0], dict) and payload[0].get("error"):
            payload = payload[0]  # as Gemini wraps its errors
        if not isinstance(payload, dict):
            return
        if payload.get("error") or ("choices" not in payload and is_error(payload)):
            raise error_from_stream(payload, provider=self._provider, secrets=self._secrets)
        usage = payload.get("usage")
        if not usage and "x_groq" in payload:
            usage = as_mapping(payload["x_groq"]).get("usage")
        self._note_usage(usage)
        model = payload.get("model")
        if isinstance(model, str):
            self._named = model
        if "prompt_progress" in payload:
            self._progress = progress_of(as_mapping(payload["prompt_progress"]))
        if "timings" in payload:
            self._reading_rate = reading_rate_of(as_mapping(payload["timings"]))
        choices = payload.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict) or choice.get("index"):
                continue
            self._has_choice = True
            if choice.get("error") or choice.get("finish_reason") == "error":
                reason = {"error": choice.get("error") or "no reason given"}
                raise error_from_stream(reason, provider=self._provider, secrets=self._secrets)
            delta = choice.get("delta") or choice.get("message")
            if isinstance(delta, dict):
                self._delta(delta)
            if choice.get("finish_reason"):
                self._finish = str(choice["finish_reason"]).rpartition(".")[2].lower() or "."
            if choice.get("usage"):  # as Moonshot
                self._note_usage(choice["usage"])

    def _note_usage(self, usage: Any) -> None:
        """Keep the reported tokens. A later report without any is none."""
        if isinstance(usage, dict) and ((told := usage_of(usage)).total or not self._usage.total):
            self._usage = told

    def _delta(self, delta: dict[str, Any]) -> None:
        content = delta.get("content")
        if isinstance(content, str):
            self._content(content)
            if len(delta) == 1:
                return  # the form of nearly every piece
        elif isinstance(content, list):
            for part in as_mappings(content):  # as Mistral streams: text, or thinking in parts of its own
                if isinstance(part.get("text"), str):
                    self._content(part["text"])
                for thought in (*as_mappings(part.get("thinking")), *as_mappings(part.get("summary"))):
                    if isinstance(thought.get("text"), str):
                        self._reason(thought["text"])
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(reasoning, str):
            self._reason(reasoning)
        if isinstance(delta.get("refusal"), str):
            self._content(delta["refusal"])
        for detail in as_mappings(delta.get("reasoning_details")):
            self._detail(detail)
            text = as_text_value(detail.get("text")) or as_text_value(detail.get("summary"))
            if text and not isinstance(reasoning, str):
                # MiniMax's hold all that was told before them.
                earlier = "".join(self._reasoning) if 0 < self._reasoned < len(text) else ""
                self._reason(text.removeprefix(earlier))
        pieces = as_mappings(delta.get("tool_calls"))
        if isinstance(delta.get("function_call"), dict):  # the form before there were several
            pieces = [*pieces, {"index": 0, "function": delta["function_call"]}]
        for piece in pieces:
            before = len(self._pieces.calls)
            name, arguments = self._pieces.add(piece)
            self._bounds.keep(arguments)
            if len(self._pieces.calls) > before or piece.get("extra_content"):
                self._bounds.keep_value(piece)
            self._new[2].append(f"{name} {arguments}" if name else arguments)

    def _content(self, content: str) -> None:
        text, reasoning = self._think.feed(content)
        if text:
            self._bounds.keep(text)
            self._text.append(text)
            self._new[2 if self._structured else 0].append(text)
        if reasoning:
            self._reason(reasoning)

    def _reason(self, text: str) -> None:
        self._bounds.keep(text)
        self._reasoning.append(text)
        self._reasoned += len(text)
        self._new[1].append(text)

    def _detail(self, detail: dict[str, Any]) -> None:
        """Add a piece of `reasoning_details`: pieces of one block share its index and type."""
        self._bounds.keep_value(detail)
        last = self._details[-1] if self._details else None
        if last is None or (last.get("index"), last.get("type")) != (detail.get("index"), detail.get("type")):
            self._join_detail()
            self._details.append(dict(detail))
            return
        for key, value in detail.items():
            if key in ("text", "summary", "data") and isinstance(value, str):
                self._detail_pieces.setdefault(key, [as_text_value(last.get(key))]).append(value)
            elif value is not None:
                last[key] = value

    def _join_detail(self) -> None:
        """Join the pieces of the last block, once."""
        for key, pieces in self._detail_pieces.items():
            self._details[-1][key] = "".join(pieces)
        self._detail_pieces.clear()


def usage_of(usage: dict[str, Any]) -> Usage:
    """Return the reported tokens; missing ones stay unknown."""
    prompt = as_mapping(usage.get("prompt_tokens_details"))
    completion = as_mapping(usage.get("completion_tokens_details"))
    cached = prompt.get("cached_tokens", usage.get("prompt_cache_hit_tokens"))
    cost = usage.get("cost")
    return Usage(
        input_tokens=whole_number(usage.get("prompt_tokens")),
        cached_tokens=whole_number(cached),
        output_tokens=whole_number(usage.get("completion_tokens")),
        reasoning_tokens=whole_number(completion.get("reasoning_tokens")),
        cost_micros=micros(cost),
    )


def progress_of(told: dict[str, Any]) -> ReadProgress | None:
    """Return llama.cpp's report of its reading; None if it is not plausible."""
    done, total = whole_number(told.get("processed")), whole_number(told.get("total"))
    return None if done is None or not total else ReadProgress(done, total)


def reading_rate_of(timings: dict[str, Any]) -> float | None:
    """Return the tokens of the prompt that llama.cpp read in a second. None where it read few or did not say."""
    read, rate = whole_number(timings.get("prompt_n")), timings.get("prompt_per_second")
    if not isinstance(rate, (int, float)) or isinstance(rate, bool) or not 0 < rate < MOST_TOKENS:
        return None
    return float(rate) if read is not None and read >= TIMED_TOKENS else None


def whole_number(value: Any) -> int | None:
    """Return a plausible count of tokens; any other value counts as not reported."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= MOST_TOKENS else None


def micros(cost: Any) -> int | None:
    """Return a reported price in millionths, or None if it is not plausible."""
    if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 <= cost <= MOST_MONEY:
        return None
    return round(cost * 1_000_000)
