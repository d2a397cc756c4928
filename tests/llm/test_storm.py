"""500 myses and a provider that answers 429: no storm of requests, and all get their answer.

The retry loop here does what the turn machine does.
"""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_left

from tests.fakes.llm_clock import LoopClock
from tests.fakes.openai_server import OpenAIServer, Say
from tests.llm.sample_requests import items, provider, request, system, user
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError
from zoea.model.ports import Provider
from zoea.model.request import Answer, RequestHeld

RETRIES = 4
MYSES = 500
CONCURRENCY = 32


def rest_s(attempt: int, retry_after: float | None) -> float:
    """Seconds until the next attempt, as the turn machine waits: full jitter on top of `Retry-After`."""
    return (retry_after or 0.0) + random.random() * min(20.0, 0.5 * 2.0 ** (attempt - 1))


async def persist(source: Provider, clock: LoopClock, seen: list[int]) -> int:
    """Send one mysis's request with its retries; return the number of attempts."""
    for attempt in range(1, RETRIES + 2):
        try:
            found = await items(source, request(system(), user()))
        except ProviderError as error:
            if error.kind is not ErrorClass.TRANSIENT or attempt > RETRIES:
                raise
            await clock.sleep(round(rest_s(attempt, error.retry_after) * 1e6))
            continue
        assert isinstance(found[-1], Answer)
        seen.append(sum(isinstance(item, RequestHeld) for item in found))
        return attempt
    raise AssertionError("unreachable")


def busiest(times: list[float], span: float = 0.1) -> int:
    """Return the most requests that came within any `span` seconds."""
    return max(index - bisect_left(times, at - span) + 1 for index, at in enumerate(times))


async def test_five_hundred_myses_outlast_an_outage_without_a_storm() -> None:
    clock = LoopClock()
    async with OpenAIServer(otherwise=lambda _: Say("All is well.")) as server:
        server.outage(5.0, status=429, retry_after="2")
        source = provider("openai", server.base_url, concurrency=CONCURRENCY)
        held: list[int] = []
        async with asyncio.timeout(40):
            attempts = await asyncio.gather(*(persist(source, clock, held) for _ in range(MYSES)))
        await source.close()
    assert len(attempts) == MYSES
    assert max(attempts) <= RETRIES
    assert busiest([chat.at for chat in server.chats]) <= CONCURRENCY * 1.1
    assert len(server.chats) < MYSES + 2 * CONCURRENCY
    assert server.connections <= CONCURRENCY * 2
    assert any(held)


async def test_a_crowd_against_a_fast_server_is_bounded_too() -> None:
    async with OpenAIServer(otherwise=lambda _: Say("x")) as server:
        source = provider("openai", server.base_url, concurrency=20)
        await asyncio.gather(*(items(source) for _ in range(100)))
        await source.close()
    assert busiest([chat.at for chat in server.chats]) <= 20


async def test_requests_go_out_in_the_order_in_which_they_came() -> None:
    async with OpenAIServer(otherwise=lambda _: Say("x")) as server:
        source = provider("openai", server.base_url, concurrency=1)
        await asyncio.gather(*(items(source, request(user(str(number)))) for number in range(8)))
        await source.close()
    assert [chat.json["messages"][0]["content"] for chat in server.chats] == [str(number) for number in range(8)]


async def test_a_cancelled_request_at_the_gate_does_not_affect_others() -> None:
    async with OpenAIServer(otherwise=lambda _: Say("x")) as server:
        source = provider("openai", server.base_url, concurrency=1)
        tasks = [asyncio.create_task(items(source, request(user(str(number))))) for number in range(6)]
        await server.requests(1)
        tasks[2].cancel()
        tasks[4].cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        await source.close()
    assert [isinstance(one, list) for one in found] == [True, True, False, True, False, True]
    assert len(server.chats) == 4
