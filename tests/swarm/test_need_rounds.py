"""A strategy asks in rounds. What rows by id cannot answer is stored with the turn before its first plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.swarm.harness import call, script, swarm
from zoea.context import STRATEGIES, Answers, FrozenTurn, Need, OutsideNeed, Pack, Priority, StoredAnswer, Strategy
from zoea.context.strategies import turns
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.request import Answer
from zoea.swarm.turn.need_rounds import READERS
from zoea.swarm.turn.summary_stage import OpenedTurnFacts


class Rumour(OutsideNeed, frozen=True):
    """Wanted one after the other, up to `most`."""

    number: int


class Town:
    """Answers rumours, each time with other words."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.told: list[tuple[int, str]] = []

    async def tell(self, facts: OpenedTurnFacts, need: Rumour) -> StoredAnswer:
        self.told.append((need.number, facts.prompts[0].content))
        return StoredAnswer.of(f"rumour {need.number}, telling {len(self.told)}")

    def needs(self, frozen: FrozenTurn, answers: Answers) -> tuple[Need, ...]:
        heard = sum(isinstance(need, Rumour) for need in answers)
        rumours = tuple(Rumour(number) for number in range(1, min(heard + 1, self.most) + 1))
        return (*turns.needs(frozen, answers), *rumours)

    def packs(self, frozen: FrozenTurn, answers: Answers) -> tuple[Pack, ...]:
        text = "".join(f" {one.value}." for one in answers.values() if isinstance(one, StoredAnswer))
        system = Pack("system", "system", Priority.REQUIRED, frozen.system + text, preserve=True)
        return (system, *turns.packs(frozen, answers)[1:])


@pytest.fixture
def town(monkeypatch: pytest.MonkeyPatch) -> Town:
    town = Town(most=3)
    monkeypatch.setitem(STRATEGIES, "turns", Strategy("turns", town.needs, town.packs))
    rumour: type[OutsideNeed] = Rumour
    monkeypatch.setitem(READERS, rumour, town.tell)
    return town


async def test_each_need_is_answered_once_and_each_request_of_the_turn_has_the_answers(
    tmp_path: Path, town: Town
) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("look"),)), Answer(text="done"))) as s:
        await s.ask("alpha", "go")

        assert town.told == [(1, "go"), (2, "go"), (3, "go")]
        ends = [request.messages[0].content[-80:] for request in s.provider.requests]
        assert len(ends) == 2
        assert ends[0] == ends[1]
        assert ends[0].endswith(" rumour 1, telling 1. rumour 2, telling 2. rumour 3, telling 3.")
        stored = await s.rows("SELECT need, answer FROM turn_answer ORDER BY need")
        assert stored[2] == {"need": '["Rumour", 3]', "answer": '"rumour 3, telling 3"'}


async def test_a_turn_that_goes_on_after_a_restart_has_the_answers_it_was_opened_with(
    tmp_path: Path, town: Town
) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("look"),)), Answer(text="done"))) as s:
        second = s.provider.block(after=0, when=lambda _: s.provider.calls == 2)
        await s.tell("alpha", "go")
        await second.reached.wait()
        before = s.provider.requests[-1].messages
    assert len(town.told) == 3

    again = ScriptedProvider(script(Answer(text="done")), metered=True)
    async with swarm(tmp_path, provider=again) as s:
        await s.commander.start("alpha")
        await s.until(lambda: again.calls > 0)

    assert again.requests[0].messages == before
    assert len(town.told) == 3


async def test_a_strategy_that_always_wants_more_ends_the_turn_with_an_error_that_names_the_need(
    tmp_path: Path, town: Town
) -> None:
    town.most = 99

    async with swarm(tmp_path, script(Answer(text="never"))) as s:
        await s.tell("alpha", "go")
        await s.until(lambda: s.state() == "errored")

        failure = s.commander.swarm.runner("alpha").mysis.failure
        assert failure is not None
        assert failure.what == "The strategy turns still wants Rumour after 4 rounds."
        assert (len(town.told), s.provider.calls) == (4, 0)
