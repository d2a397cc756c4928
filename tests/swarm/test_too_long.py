"""A request that was too long is followed by a smaller one, measured in what was sent.

Sources of the shared case: anomalyco/opencode#50187, earendil-works/pi#4574, anomalyco/opencode#50574.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.swarm.harness import call, swarm
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError
from zoea.model.request import Answer, ModelRequest
from zoea.settings import Settings
from zoea.text import estimate


@dataclass
class Window:
    """A model that refuses what is longer than its window, whatever window the settings name.

    Attributes:
        sizes: Of each request, in tokens of the estimate, with the answer's limit.
        refused: The places of those that were too long.
    """

    window: int
    is_named: bool
    rounds: int = 6
    counts_output: bool = False
    sizes: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def reply(self, request: ModelRequest) -> Answer | ProviderError:
        size = sum(estimate.tokens(one.content) + sum(map(_size, one.calls)) for one in request.messages)
        size += sum(estimate.tokens(json.dumps([one.name, one.description, one.input_schema])) for one in request.tools)
        self.outputs.append(request.max_output_tokens)
        self.sizes.append(size)
        if size + (request.max_output_tokens if self.counts_output else 0) > self.window:
            self.refused.append(len(self.sizes) - 1)
            window = self.window if self.is_named else None
            return ProviderError("too long", kind=ErrorClass.CONTEXT_LENGTH, window=window)
        done = len(self.sizes) - len(self.refused)
        return (
            Answer(calls=(call("act", f"{done} " + "of a page " * 250),))
            if done <= self.rounds
            else Answer(text="Read.")
        )


def _size(one: object) -> int:
    return estimate.tokens(getattr(one, "arguments", ""))


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("window", [4_600, 3_600])
async def test_each_refusal_for_length_is_followed_by_a_smaller_request_and_the_turn_ends(
    tmp_path: Path, window: int, is_named: bool
) -> None:
    model = Window(window, is_named)
    settings = Settings.model_validate({"loop": {"exempt": ["act"]}})
    async with swarm(tmp_path, model.reply, settings=settings) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.send("alpha", "Read six pages.")
        await s.settled()
        assert await s.value("SELECT outcome FROM turn") == "answered"
        notes = await s.store.read("SELECT content FROM turn_note WHERE kind LIKE 'limit %'")
    assert model.refused
    assert all(model.sizes[place + 1] < model.sizes[place] for place in model.refused)
    assert len(model.refused) <= 3
    assert all("The requests that follow in this turn have at most" in row["content"] for row in notes)
    assert len(notes) == len(model.refused)


async def test_a_prompt_that_cannot_shrink_goes_out_once_more_with_less_room_for_the_answer(tmp_path: Path) -> None:
    model = Window(3_000, is_named=False, rounds=0, counts_output=True)
    settings = Settings.model_validate({"budget": {"max_output_tokens": 2_990}})
    async with swarm(tmp_path, model.reply, settings=settings) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.send("alpha", "Say something.")
        await s.settled()
        assert await s.value("SELECT outcome FROM turn") == "answered"
    first, second = model.outputs
    assert (first, second < 1_500) == (2_990, True)


async def test_a_prompt_that_is_too_long_by_itself_ends_with_the_refusal_of_the_provider(tmp_path: Path) -> None:
    model = Window(20, is_named=True)
    async with swarm(tmp_path, model.reply) as s:
        await s.commander.create("alpha", start=False)
        receipt = await s.commander.send("alpha", "Go on. " * 200)
        await s.settled()
        assert await s.value("SELECT outcome FROM turn") == "failed"
        line = (await s.commander.receipt(receipt.message_id)).lines[0]
        assert "The model's provider failed" in line.reason
        notes = await s.store.read("SELECT kind FROM turn_note WHERE kind LIKE 'limit %' ORDER BY kind")
    assert len(model.sizes) == 2
    assert len(notes) == 2, "each refusal is noted, so that a restart sends none of them again"
