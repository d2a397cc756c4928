"""The events tell in numbers what happens to a request's context. They hold no text."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

from tests.swarm.harness import Swarm, call, script, swarm
from zoea.model.request import Answer
from zoea.model.values import Event, Usage
from zoea.queries.phrases import event_sentence
from zoea.settings.schema import Settings

CANARY = "xanthic-zebra-77"


async def told(s: Swarm, kind: str) -> list[str]:
    rows = await s.rows("SELECT * FROM event WHERE kind = ? ORDER BY id", kind)
    return [event_sentence(Event(row["id"], kind, row["mysis_id"], json.loads(row["data"]))) for row in rows]


async def test_recalled_memories_are_counted_in_an_event(tmp_path: Path) -> None:
    settings = Settings.model_validate({"context": {"recall_items": 5}, "nudge": {"enabled": False}})
    async with swarm(tmp_path, script(Answer(text="noted")), settings=settings) as s:
        await s.commander.create("alpha", start=False)
        for text in (f"The {CANARY} lies in bay four.", "Hello.", "It rains.", "Again.", f"Where is the {CANARY}?"):
            await s.ask("alpha", text)
        said = await told(s, "context.recalled")
        assert said
        assert said[-1] == "Memory recalled (1 item)"
        assert all(CANARY not in one["data"] for one in await s.rows("SELECT data FROM event"))


async def test_a_request_that_was_trimmed_has_one_event_and_one_that_fits_has_none(tmp_path: Path) -> None:
    settings = Settings.model_validate({"budget": {"token_budget_per_agent": 8_000}, "nudge": {"enabled": False}})
    answers = [Answer(text="hi"), *[Answer(calls=(call("look", f"{n}" * 3_000),)) for n in range(9)], Answer(text="x")]
    async with swarm(tmp_path, script(*answers), settings=settings) as s:
        await s.ask("alpha", "hello")
        assert await told(s, "context.trimmed") == []
        await s.ask("alpha", "look around")
        said = await told(s, "context.trimmed")
        assert set(said) == {"Context trimmed to stay within budget"}
        requests = [
            row["request"]
            for row in await s.rows(
                "SELECT json_extract(data, '$.request') AS request FROM event WHERE kind = 'context.trimmed'"
            )
        ]
        assert len(requests) == len(set(requests))


async def test_a_conversation_that_is_summarised_to_save_tokens_is_said_to_be_trimmed(tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {
            "context": {"strategy": "window", "summary": "extract"},
            "session": {"primers_count": 1, "recents_count": 4, "compression_trigger_ratio": 0.1},
            "budget": {"token_budget_per_agent": 9_000},
            "nudge": {"enabled": False},
        }
    )
    async with swarm(tmp_path, script(Answer(text="noted " * 40)), settings=settings) as s:
        await s.commander.create("alpha", start=False)
        for number in range(11):
            await s.ask("alpha", f"message {number} " * 12)
        assert await told(s, "context.summary") == []
        assert await told(s, "context.trimmed") == []
        await s.ask("alpha", "and one more")
        assert await told(s, "context.trimmed") == ["Context trimmed to stay within budget"]
        assert len(await told(s, "context.summary")) == 1


async def test_each_request_tells_its_size_and_what_it_used_to_those_who_listen(tmp_path: Path) -> None:
    settings = Settings.model_validate({"nudge": {"enabled": False}})
    usage = Usage(input_tokens=6_000, output_tokens=200)
    replies = script(Answer(calls=(call("look"),), usage=usage), Answer(text=CANARY, usage=usage))
    async with swarm(tmp_path, replies, settings=settings) as s:
        await s.commander.create("alpha", start=False)
        newest = s.commander.swarm.services.events.last_id
        heard: list[Event] = []

        async def listen() -> None:
            async for item in s.commander.events(newest):
                assert isinstance(item, Event)
                heard.append(item)

        listener = asyncio.create_task(listen())
        await s.until(lambda: s.commander.swarm.services.events.is_heard)
        await s.commander.send("alpha", f"Where is the {CANARY}?")
        await s.until(lambda: any(event.kind == "turn.ended" for event in heard))
        listener.cancel()
        told_live = [event for event in heard if not event.id]
        assert [event.kind for event in told_live] == ["request.prepared", "budget.used", "budget.used"] * 2
        said = [event_sentence(event) for event in told_live]
        plans = await s.rows("SELECT id, estimated_tokens FROM request ORDER BY id")
        assert [event.data["request"] for event in told_live[::3]] == [row["id"] for row in plans]
        assert re.fullmatch(r"Preparing context \(\d+ msgs, ~[\d.]+k? tokens\)", said[0])
        assert said[1:3] == ["Budget used: 6.2k/7.2k", "Budget used: 6.2k/200k"]
        assert said[4:] == ["Budget used: 6.2k/7.2k", "Budget used: 12.4k/200k"]
        assert all(CANARY not in json.dumps(event.data) for event in heard)
        kinds = {row["kind"] for row in await s.rows("SELECT DISTINCT kind FROM event")}
        assert not kinds & {"request.prepared", "budget.used"}
