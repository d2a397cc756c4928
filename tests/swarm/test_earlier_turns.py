"""A follow-up question goes out with the turns before it. What is older is recalled for it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from benchmarks.prefix import CachingProvider
from tests.swarm.harness import Swarm, call, plain, script, swarm
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.enums import Role
from zoea.model.request import Answer, ModelRequest
from zoea.settings.schema import Settings
from zoea.swarm.turn import need_rounds


def settings(keep: int | str, *, recall: int = 0, **budget: Any) -> Settings:
    context = {"keep_turns": keep, "recall_items": recall}
    return Settings.model_validate(
        {"context": context, "budget": {"swarm_per_day": "none", **budget}, "nudge": {"without_goal": False}}
    )


async def ask(s: Swarm, *texts: str) -> None:
    for text in texts:
        await s.ask("alpha", text)


def last(s: Swarm) -> list[str]:
    """The newest request without its system message, calls as their names."""
    return [
        " ".join([plain(message.content), *(f"{one.name}()" for one in message.calls)]).strip()
        for message in s.provider.requests[-1].messages[1:]
    ]


async def test_a_follow_up_goes_out_with_the_whole_turns_before_it(tmp_path: Path) -> None:
    replies = script(Answer(calls=(call("look", "Paris"),)), Answer(text="18 degrees."), Answer(text="16 degrees."))
    async with swarm(tmp_path, replies, settings=settings(2)) as s:
        await s.commander.create("alpha", start=False)
        await ask(s, "How warm is it in Paris?", "And in Berlin?")

        paris = ["How warm is it in Paris?", "look()", "look did Paris", "18 degrees."]
        assert last(s) == [*paris, "And in Berlin?"]


async def test_earlier_turns_grow_up_to_their_number_and_then_only_the_newest_remains(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="yes")), settings=settings(2)) as s:
        await s.commander.create("alpha", start=False)
        seen = []
        for number in range(1, 7):
            await ask(s, f"q{number}")
            seen.append([text for text in last(s) if text.startswith("q")])

        assert seen == [["q1"], ["q1", "q2"], ["q1", "q2", "q3"], ["q3", "q4"], ["q3", "q4", "q5"], ["q5", "q6"]]


async def test_a_turn_that_takes_more_than_half_of_what_is_free_is_shown_with_prompt_and_answer(tmp_path: Path) -> None:
    long = call("look", "y" * 12_000)
    replies = script(Answer(calls=(long,)), Answer(text="All seen."), Answer(text="Yes."))
    budget = {"token_budget_per_agent": 10_000}
    async with swarm(tmp_path, replies, settings=settings(2, **budget)) as s:
        await s.commander.create("alpha", start=False)
        await ask(s, "Look at everything.", "Anything odd?")

        assert last(s)[:2] == ["Look at everything.", "All seen."]
        assert await s.value("SELECT frozen -> '$.earlier' FROM turn ORDER BY id DESC LIMIT 1") == "[[1,false]]"


async def test_a_nudged_turn_has_no_earlier_turns(tmp_path: Path) -> None:
    nudging = settings(2).model_copy(update={"nudge": Settings().nudge.model_copy(update={"without_goal": True})})
    async with swarm(tmp_path, script(Answer(text="yes")), settings=nudging) as s:
        await s.commander.create("alpha", start=False)
        await ask(s, "one", "two")
        s.clock.by(40)
        await s.until(lambda: s.provider.calls == 3)
        await s.settled()

        assert "one" not in last(s)
        assert any("standing order" in text for text in last(s))


@pytest.mark.parametrize(
    ("least", "metered", "tokens", "why"),
    [
        (None, True, 2_000, "and 2,000 tokens, because it is not known whether the model caches them"),
        (1_024, True, 4_000, "and 4,000 tokens, because the model caches them"),
        (None, False, 0, "half of what is free; then the older half goes at once"),
    ],
)
async def test_auto_keeps_fewer_tokens_where_requests_cost_money(
    tmp_path: Path, least: int | None, metered: bool, tokens: int, why: str
) -> None:
    chosen = Settings.model_validate({"context": {"keep_turns": "auto", "recall_items": 0}})
    model = CachingProvider(lambda _: Answer(text="yes"), metered=metered, cache_minimum=least)
    async with swarm(tmp_path, provider=model, settings=chosen) as s:
        await s.commander.create("alpha", provider="scripted", start=False)
        await ask(s, "one")

        assert await s.value("SELECT frozen ->> '$.earlier_tokens' FROM turn") == tokens
        assert why in await s.value("SELECT frozen ->> '$.keep_turns_why' FROM turn")


async def test_auto_shows_a_chat_from_its_beginning_and_then_its_newer_half(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> Answer:
        if request.messages[-1].role is Role.TOOL:
            return Answer(text="It is calm there. " * 4)
        return Answer(calls=(call("look", f"harbour {len(request.messages)} " + "wind and tide " * 10),))

    model = ScriptedProvider(answer, metered=False, context_window=8_192)
    async with swarm(tmp_path, provider=model, settings=settings("auto")) as s:
        await s.commander.create("alpha", provider="scripted", start=False)
        shown = []
        for number in range(40):
            await ask(s, f"q{number} {'about the harbour ' * 8}")
            shown.append(sum(text.startswith("q") for text in last(s)))
    assert shown[:8] == list(range(1, 9))
    cuts = [now for before, now in itertools.pairwise(shown) if now <= before]
    assert cuts
    assert all(max(shown) // 3 <= one <= max(shown) * 2 // 3 + 1 for one in cuts)
    assert len(cuts) <= 3
    sent = [[plain(message.content) for message in request.messages] for request in s.provider.requests]
    reused = [_common(before, after) / sum(map(len, after)) for before, after in itertools.pairwise(sent)]
    assert sum(reused) / len(reused) > 0.9


def _common(before: list[str], after: list[str]) -> int:
    """Count the characters of the messages that two requests begin with."""
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    return sum(len(one) for one, _ in pairs)


async def test_what_was_said_long_ago_is_put_before_a_question_about_it(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="Noted.")), settings=settings(2, recall=3)) as s:
        await s.commander.create("alpha", start=False)
        await ask(s, "The harbour master is called Ortrud.", *(f"Count to {number}." for number in range(5)))
        await ask(s, "Who is the harbour master?")

        recalled = [text for text in last(s) if text.startswith("[data: what you were told in turn 1]")]
        assert recalled == ["[data: what you were told in turn 1]\nThe harbour master is called Ortrud."]
        assert last(s)[-1] == "Who is the harbour master?"
        assert await s.value("SELECT count(*) FROM turn_answer WHERE turn_id = 7") == 1


async def test_nothing_is_searched_while_everything_is_shown(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="Noted.")), settings=settings(2, recall=3)) as s:
        await s.commander.create("alpha", start=False)
        await ask(s, "one", "two", "three")

        assert await s.value("SELECT count(*) FROM turn_answer") == 0


async def test_a_search_that_takes_too_long_leaves_the_pack_empty_and_the_plan_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(need_rounds, "RECALL_S", 0.000001)
    async with swarm(tmp_path, script(Answer(text="Noted.")), settings=settings(0, recall=3)) as s:
        await s.commander.create("alpha", start=False)
        await ask(s, "one", "two", "three")

        answers = await s.rows("SELECT answer FROM turn_answer")
        assert {one["answer"] for one in answers} == {'{"hits": [], "late": true}'}


async def test_a_conversation_of_thirty_turns_is_answered_from_each_request_alone(tmp_path: Path) -> None:
    """The model knows only its request: it reads the newest colour and the number of the asked ship from it."""
    ships = [f"Ship {name} carries {number} crates." for number, name in enumerate(("Ada", "Bo", "Cy", "Di", "Ed"), 40)]

    def answer(request: ModelRequest) -> Answer:
        asked = plain(request.messages[-1].content)
        texts = [plain(message.content) for message in request.messages[1:-1]]
        if asked.startswith("Paint it"):
            return Answer(text=f"It is {asked.split()[-1]}")
        if asked == "Which colour is it now?":
            return Answer(text=next(text for text in reversed(texts) if text.startswith("It is ")))
        if asked.startswith("How many crates"):
            name = asked.split()[-1].rstrip("?")
            return Answer(text=next((text for text in texts if f"Ship {name} carries" in text), "unknown"))
        return Answer(text="Noted.")

    provider = ScriptedProvider(answer, metered=True)
    async with swarm(tmp_path, provider=provider, settings=settings("auto", recall=3)) as s:
        await s.commander.create("alpha", start=False)
        await ask(s, *ships)
        for number in range(10):
            await ask(s, f"Paint it {'red' if number % 2 else 'blue'}.", "Which colour is it now?")
        for ship in ships:
            await ask(s, f"How many crates has {ship.split()[1]}?")

        said = [row["content"] for row in await s.rows("SELECT content FROM memory WHERE role = 'assistant'")]
    assert len(said) == 30
    colours = [f"It is {'red' if number % 2 else 'blue'}." for number in range(10) for _ in range(2)]
    assert said[5:25] == colours
    assert [answer.rpartition("\n")[2] for answer in said[25:]] == ships


async def test_a_provider_is_told_where_the_earlier_turns_and_the_request_before_end(tmp_path: Path) -> None:
    replies = script(Answer(text="one"), Answer(calls=(call("look"),)), Answer(text="two"))
    async with swarm(tmp_path, replies, settings=settings(2)) as s:
        await s.commander.create("alpha", start=False)
        await ask(s, "first", "second")

        # The system message, the first turn (2), the second prompt, then a call with its result.
        assert [request.cache_ends for request in s.provider.requests] == [(), (3,), (3, 4)]


async def test_an_earlier_turn_of_many_blocks_keeps_the_former_end_too(tmp_path: Path) -> None:
    many = tuple(call("look", str(number)) for number in range(12))
    replies = script(Answer(text="one"), Answer(calls=many), Answer(text="two"), Answer(text="three"))
    async with swarm(tmp_path, replies, settings=settings(5)) as s:
        await s.commander.create("alpha", start=False)
        await ask(s, "first", "second", "third")

        last = s.provider.requests[-1]
        assert last.cache_ends == (3, len(last.messages) - 1)
