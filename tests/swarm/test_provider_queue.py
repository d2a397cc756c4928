"""A mysis shows its place at a provider and its retries. What a failing provider does to others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.fakes.openai_server import Fail, OpenAIServer, Say, Step
from tests.fakes.wire_server import Outgoing, Received
from tests.swarm.harness import Swarm, swarm
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.providers.openai_provider import OpenAIProvider
from zoea.model.enums import MysisState
from zoea.model.ports import Provider
from zoea.model.status import StatusWord
from zoea.process.clock import SystemClock
from zoea.settings.schema import Settings

SETTINGS = Settings.model_validate({"swarm": {"active_turns": 1}, "llm": {"retries": 4}})


class SlowServer(OpenAIServer):
    """Answers once its gate is open."""

    def __init__(self, otherwise: Callable[[Received], Step]) -> None:
        super().__init__(otherwise=otherwise)
        self.gate = asyncio.Event()

    async def handle(self, request: Received, out: Outgoing) -> None:
        if request.path.endswith("/chat/completions"):
            await self.gate.wait()
        await super().handle(request, out)


class NamedProviders:
    def __init__(self, **providers: Provider) -> None:
        self._providers = providers

    def get(self, name: str) -> Provider:
        return self._providers.get(name) or next(iter(self._providers.values()))

    def metered(self) -> dict[str, bool]:
        return dict.fromkeys(self._providers, True)


@asynccontextmanager
async def provider(name: str, server: OpenAIServer, *, concurrency: int = 2) -> AsyncIterator[Provider]:
    config = ProviderConfig(type="openai", base_url=server.base_url, model="reef-1", concurrency=concurrency)
    made = OpenAIProvider.open(name, config, SystemClock())
    try:
        yield made
    finally:
        await made.close()


async def ask(s: Swarm, name: str, of: str) -> None:
    await s.commander.create(name, provider=of, start=False)
    await s.commander.send(name, "go")


async def test_the_retries_of_a_failing_provider_hold_back_no_mysis_of_a_healthy_one(tmp_path: Path) -> None:
    sick = OpenAIServer(otherwise=lambda _: Fail.error(500, "overloaded"))
    async with (
        sick,
        OpenAIServer(otherwise=lambda _: Say("well")) as well,
        provider("sick", sick) as failing,
        provider("well", well) as healthy,
        swarm(tmp_path, settings=SETTINGS, providers=NamedProviders(sick=failing, well=healthy)) as s,
    ):
        for number in range(6):
            await ask(s, f"sick{number}", "sick")
        runners = [s.commander.swarm.runner(f"sick{number}") for number in range(6)]
        # The clock stands: each of them waits for its second attempt.
        await s.until(lambda: all(r.driver is not None and r.driver.phase == "resting" for r in runners))
        for number in range(6):
            await ask(s, f"well{number}", "well")
        for number in range(6):
            await s.settled(f"well{number}")
        assert await s.value("SELECT count(*) FROM turn WHERE outcome = 'answered'") == 6
        view = await s.commander.mysis("sick0")
        assert view.status is StatusWord.RETRYING
        assert (view.attempt, view.attempts, view.attempt_why) == (2, 5, "500")
        assert view.attempt_at is not None
        assert view.attempt_at > s.clock.now()
        await s.commander.stop("sick0")
        assert (await s.commander.mysis("sick0")).attempt_at is None


async def test_a_queued_mysis_says_its_place_and_its_provider(tmp_path: Path) -> None:
    async with (
        SlowServer(lambda _: Say("done")) as server,
        provider("ollama", server, concurrency=1) as only,
        swarm(tmp_path, settings=SETTINGS, providers=NamedProviders(ollama=only)) as s,
    ):
        for number in range(4):
            await ask(s, f"m{number}", "ollama")
            # The list of models is asked for too, and the first mysis has to be the first that asks the model.
            await s.until(lambda: any(one.path.endswith("/chat/completions") for one in server.received))
        rows = [s.commander.swarm.live_view.row(number) for number in (2, 3, 4)]
        await s.until(lambda: sorted(row.queue_place for row in rows) == [1, 2, 3])
        views = [await s.commander.mysis(f"m{number}") for number in (1, 2, 3)]
        assert {view.status for view in views} == {StatusWord.QUEUED}
        assert {view.queue_name for view in views} == {"ollama"}
        server.gate.set()
        for number in range(4):
            await s.settled(f"m{number}")
        assert [row.queue_place for row in rows] == [0, 0, 0]
        assert s.state("m3") is MysisState.RUNNING
