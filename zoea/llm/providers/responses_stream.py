"""Decodes answers of the Responses API as far as Zoea has to count them.

Source: https://platform.openai.com/docs/api-reference/responses-streaming. Unknown events are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from zoea.llm.providers.openai_stream import whole_number
from zoea.llm.transport.event_stream import PayloadDecoder
from zoea.llm.transport.json_safety import as_mapping, as_mappings, as_text_value, parse
from zoea.llm.transport.provider_errors import error_from_stream, no_answer_error
from zoea.model.enums import Finish
from zoea.model.request import Answer, Delta
from zoea.model.values import Usage

_ENDS = ("response.completed", "response.incomplete", "response.failed")


class ResponseStreamDecoder(PayloadDecoder):
    """Decodes the body of a response. Implements `StreamDecoder`; it keeps texts, no calls."""

    def __init__(self, provider: str, model: str, *, secrets: tuple[str, ...] = ()) -> None:
        super().__init__(provider, model, secrets)
        self._text: list[str] = []
        self._usage = Usage()
        self._finish = Finish.UNKNOWN
        self._has_call = False
        self.is_done = False

    @property
    def is_complete(self) -> bool:
        return self.is_done

    def feed_whole(self, body: bytes) -> None:
        """Read a response that is not streamed. Raises ProviderError where it is none, or an error."""
        try:
            response = parse(body)
        except ValueError:
            response = None
        if not isinstance(response, dict) or "output" not in response:
            raise no_answer_error(self._provider, body, "Check the provider's base_url in the settings.", self._secrets)
        for item in as_mappings(response["output"]):
            self._text += [as_text_value(part.get("text")) for part in as_mappings(item.get("content"))]
        self._close(response)

    def answer(self) -> Answer:
        finish = self._finish
        return Answer("".join(self._text), usage=self._usage, finish=finish, model=self._model)

    def _take(self, payloads: Iterable[Any]) -> Delta | None:
        pieces = [piece for event in payloads if isinstance(event, dict) and (piece := self._event(event))]
        self._text += pieces
        return Delta("".join(pieces)) if pieces else None

    def _event(self, event: dict[str, Any]) -> str:
        kind = as_text_value(event.get("type"))
        if kind == "error" or (not kind and event.get("error")):
            raise error_from_stream(
                {"error": event.get("error") or event}, provider=self._provider, secrets=self._secrets
            )
        if kind in _ENDS:
            self._close(as_mapping(event.get("response")))
            return ""
        if kind == "response.output_item.done":
            self._has_call = self._has_call or _is_call(as_mapping(event.get("item")))
        if not kind.endswith(".delta"):
            return ""
        piece = as_text_value(event.get("delta"))
        self._bounds.keep(piece)
        return piece

    def _close(self, response: dict[str, Any]) -> None:
        """Take how a response ended, and what it used. Raises ProviderError where it failed."""
        self.is_done = True
        self._model = as_text_value(response.get("model")) or self._model
        if isinstance(response.get("usage"), dict):
            self._usage = usage_of(response["usage"])
        match response.get("status"):
            case "failed":
                raise error_from_stream(
                    {"error": response.get("error") or "no reason given"},
                    provider=self._provider,
                    secrets=self._secrets,
                )
            case "incomplete":
                self._finish = Finish.LENGTH
            case "completed":
                # Some servers name no items at the end.
                has_call = self._has_call or any(map(_is_call, as_mappings(response.get("output"))))
                self._finish = Finish.CALLS if has_call else Finish.STOP


def _is_call(item: dict[str, Any]) -> bool:
    return item.get("type") in ("function_call", "custom_tool_call")


def usage_of(usage: dict[str, Any]) -> Usage:
    """Return the reported tokens; missing ones stay unknown."""
    return Usage(
        input_tokens=whole_number(usage.get("input_tokens")),
        cached_tokens=whole_number(as_mapping(usage.get("input_tokens_details")).get("cached_tokens")),
        output_tokens=whole_number(usage.get("output_tokens")),
        reasoning_tokens=whole_number(as_mapping(usage.get("output_tokens_details")).get("reasoning_tokens")),
    )
