"""Bytes that are no part of an answer are progress: its deadline between tokens begins again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path

import pytest

from tests.fakes.llm_clock import HandClock
from tests.swarm.harness import swarm
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.request import Answer, BytesReceived, Delta, ModelRequest, StreamItem
from zoea.settings.schema import Settings

BETWEEN_S = 60.0


class SlowModel(ScriptedProvider):
    """Gives a first word, then only keep-alives for several times the deadline, then its answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, sends_keep_alives: bool) -> None:
        super().__init__(clock=HandClock(1), metered=True)
        self.has_ended = asyncio.Event()
        self._patch = monkeypatch
        self._sends_keep_alives = sends_keep_alives

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        loop = asyncio.get_running_loop()
        real = loop.time
        try:
            yield Delta(text="Well")
            for ahead in (0.6, 1.2, 1.8, 2.4):
                self._patch.setattr(loop, "time", partial(_ahead_of, real, ahead * BETWEEN_S))
                for _ in range(3):  # rounds of the loop, in which a deadline that has passed takes effect
                    await asyncio.sleep(0)
                if self._sends_keep_alives:
                    yield BytesReceived()
            yield Answer(text="Well then")
        finally:
            self._patch.setattr(loop, "time", real)
            self.has_ended.set()


def _ahead_of(real: Callable[[], float], seconds: float) -> float:
    return real() + seconds


@pytest.mark.parametrize(("sends_keep_alives", "outcome"), [(True, "answered"), (False, None)])
async def test_keep_alives_after_the_first_token_extend_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sends_keep_alives: bool, outcome: str | None
) -> None:
    model = SlowModel(monkeypatch, sends_keep_alives=sends_keep_alives)
    settings = Settings.model_validate({"llm": {"between_tokens": BETWEEN_S, "retries": 0}})
    async with swarm(tmp_path, provider=model, settings=settings) as s:
        await s.tell("alpha", "go")
        await model.has_ended.wait()
        await s.settled()
        assert await s.value("SELECT outcome FROM turn") == outcome
