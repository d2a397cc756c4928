"""Small requests for the tests of the providers, and readers of their answers."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from tests.fakes.llm_clock import LoopClock
from zoea.llm.provider_config import ProviderConfig, Timeouts
from zoea.llm.registry import make
from zoea.model.enums import Role
from zoea.model.ports import Provider
from zoea.model.request import Answer, Delta, ModelRequest, RequestCall, RequestMessage, StreamItem, ToolSpec
from zoea.model.values import Native

SCAN = ToolSpec(
    "scan", "Look around", {"type": "object", "properties": {"sector": {"type": "string"}}, "required": ["sector"]}
)
QUICK = Timeouts(connect=2.0, first=5.0, between=5.0)


def system(text: str = "You are a mysis.") -> RequestMessage:
    return RequestMessage(Role.SYSTEM, text)


def user(text: str = "Report.") -> RequestMessage:
    return RequestMessage(Role.USER, text)


def assistant(text: str = "", *calls: RequestCall, reasoning: str = "", native: Native | None = None) -> RequestMessage:
    return RequestMessage(Role.ASSISTANT, text, calls=calls, reasoning=reasoning, native=native)


def call(id: str = "c1", name: str = "scan", arguments: str = '{"sector":"a"}') -> RequestCall:
    return RequestCall(id, name, arguments)


def result(text: str = "ore", id: str = "c1", name: str = "scan", *, is_error: bool = False) -> RequestMessage:
    return RequestMessage(Role.TOOL, text, call_id=id, name=name, is_error=is_error)


def request(
    *messages: RequestMessage, tools: tuple[ToolSpec, ...] = (), model: str = "reef-1", **more: Any
) -> ModelRequest:
    return ModelRequest(model, messages or (system(), user()), tools, **more)


def provider(type: str, base_url: str, **more: Any) -> Provider:
    more.setdefault("timeouts", QUICK)
    return make("reefnet", ProviderConfig(type, base_url=base_url, **more), clock=LoopClock())


async def items(source: Provider, asked: ModelRequest | None = None) -> list[StreamItem]:
    async with aclosing(source.stream(asked or request())) as stream:
        return [item async for item in stream]


async def answer(source: Provider, asked: ModelRequest | None = None) -> Answer:
    """Return the answer, which is the last item. Check that it is the only one."""
    *before, last = await items(source, asked)
    assert isinstance(last, Answer)
    assert not any(isinstance(item, Answer) for item in before)
    return last


def streamed(found: list[StreamItem]) -> Delta:
    """Join all progress into one delta."""
    deltas = [item for item in found if isinstance(item, Delta)]
    return Delta(
        "".join(one.text for one in deltas),
        "".join(one.reasoning for one in deltas),
        "".join(one.call for one in deltas),
    )
