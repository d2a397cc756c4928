"""What happens to the context of a request stands in the events, in numbers and without any text."""

from __future__ import annotations

import json
from pathlib import Path

from tests.swarm.harness import Swarm, call, script, swarm
from zoea.model.request import Answer
from zoea.model.values import Event
from zoea.queries.phrases import event_sentence
from zoea.settings import Settings

CANARY = "xanthic-zebra-77"


async def told(s: Swarm, kind: str) -> list[str]:
    rows = await s.rows("SELECT * FROM event WHERE kind = ? ORDER BY id", kind)
    return [event_sentence(Event(row["id"], kind, row["mysis_id"], json.loads(row["data"]))) for row in rows]


async def test_recalled_memories_are_counted_in_an_event(tmp_path: Path) -> None:
    settings = Settings.model_validate({"context": {"recall_items": 5}, "nudge": {"enabled": False}})
    async with swarm(tmp_path, script(Answer(text="noted")), settings=settings) as s:
        await s.commander.create("alpha", start=False)
        for text in (f"The {CANARY} lies in bay four.", "Hello.", "It rains.", "Again.", f"Where is the {CANARY}?"):
            await s.commander.send("alpha", text)
            await s.settled()
        said = await told(s, "context.recalled")
        assert said
        assert said[-1].startswith("Memory recalled (")
        assert all(CANARY not in one["data"] for one in await s.rows("SELECT data FROM event"))


async def test_a_request_that_was_trimmed_has_one_event_and_one_that_fits_has_none(tmp_path: Path) -> None:
    settings = Settings.model_validate({"budget": {"token_budget_per_agent": 8_000}, "nudge": {"enabled": False}})
    answers = [Answer(text="hi"), *[Answer(calls=(call("look", f"{n}" * 3_000),)) for n in range(9)], Answer(text="x")]
    async with swarm(tmp_path, script(*answers), settings=settings) as s:
        await s.commander.create("alpha", start=False)
        await s.commander.send("alpha", "hello")
        await s.settled()
        assert await told(s, "context.trimmed") == []
        await s.commander.send("alpha", "look around")
        await s.settled()
        said = await told(s, "context.trimmed")
        assert set(said) == {"Context trimmed to stay within budget"}
        requests = [
            row["request"]
            for row in await s.rows(
                "SELECT json_extract(data, '$.request') AS request FROM event WHERE kind = 'context.trimmed'"
            )
        ]
        assert len(requests) == len(set(requests))
