"""A mysis with the strategy `window` shows its conversation: first and newest messages, a summary of those between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.swarm.harness import Swarm, plain, script, swarm
from zoea.context.window.conversation_summary import TITLE
from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.errors import UsageError
from zoea.model.request import Answer, RequestMessage
from zoea.queries.request_inspection import inspect_request
from zoea.settings.schema import Settings


def settings(**session: Any) -> Settings:
    return Settings.model_validate(
        {
            "context": {"strategy": "window"},
            "nudge": {"enabled": False},
            "session": {"context_window_default": 5, "primers_count": 2, "recents_count": 4, **session},
        }
    )


async def talk(s: Swarm, first: int, last: int, text: str = "number") -> None:
    """Send prompts one after another and wait for each answer."""
    for number in range(first, last + 1):
        await s.ask("alpha", f"{text} {number}: keep record rec-{number:04d}x safe.")


def contents(messages: tuple[RequestMessage, ...]) -> list[str]:
    return [plain(message.content) for message in messages]


async def test_a_short_conversation_is_shown_whole(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*[Answer(text=f"answer {n}") for n in range(1, 4)]), settings=settings()) as s:
        await talk(s, 1, 3)

        shown = contents(s.provider.requests[-1].messages)[1:]
        assert [text[:8] for text in shown] == ["number 1", "answer 1", "number 2", "answer 2", "number 3"]


async def test_a_long_conversation_shows_its_first_and_newest_messages_and_a_summary_of_the_others(
    tmp_path: Path,
) -> None:
    answers = [Answer(text=f"answer {n}") for n in range(1, 8)]
    async with swarm(tmp_path, script(*answers), settings=settings()) as s:
        await talk(s, 1, 7)

        shown = contents(s.provider.requests[-1].messages)[1:]
        assert [text[:8] for text in shown[:2]] == ["number 1", "answer 1"]
        assert TITLE in shown[2]
        assert shown[-1].startswith("number 7")
        for number in range(1, 7):  # each record is shown, or told by the summary
            assert any(f"rec-{number:04d}x" in text for text in shown)
        assert sum(TITLE in text for text in shown) == 1
        events = await s.rows("SELECT data FROM event WHERE kind = 'context.summary'")
        assert events
        assert all("rec-" not in event["data"] for event in events)


async def test_a_summary_that_is_put_off_because_the_last_is_recent_is_an_event_once_a_turn(tmp_path: Path) -> None:
    rules = settings(context_window_default=200, compression_trigger_ratio=0.1).model_dump(exclude_unset=True)
    eager = Settings.model_validate({**rules, "budget": {"token_budget_per_agent": 8_000}})
    async with swarm(tmp_path, script(Answer(text="Noted. " * 10)), settings=eager) as s:
        await talk(s, 1, 32)

        found = await s.rows(
            "SELECT kind, count(*) AS times, count(DISTINCT data ->> '$.turn') AS turns FROM event"
            " WHERE kind LIKE 'context.summary%' GROUP BY 1 ORDER BY 1"
        )
        assert [row["kind"] for row in found] == ["context.summary", "context.summary_skipped"]
        assert all(row["times"] == row["turns"] for row in found)
        both = await s.value(
            "SELECT count(*) FROM event a JOIN event b ON a.data ->> '$.turn' = b.data ->> '$.turn'"
            " WHERE a.kind = 'context.summary' AND b.kind = 'context.summary_skipped'"
        )
        assert both == 0


async def test_messages_beyond_max_history_are_not_looked_at_and_stay_stored(tmp_path: Path) -> None:
    answers = [Answer(text=f"answer {n}") for n in range(1, 6)]
    bounded = settings(max_history=4, context_window_default=50)
    async with swarm(tmp_path, script(*answers), settings=bounded) as s:
        await talk(s, 1, 5)

        shown = contents(s.provider.requests[-1].messages)[1:]
        assert [text[:8] for text in shown] == ["number 3", "answer 3", "number 4", "answer 4", "number 5"]
        assert await s.value("SELECT count(*) FROM memory") == 10


async def test_messages_older_than_the_ttl_are_not_looked_at_and_stay_stored(tmp_path: Path) -> None:
    answers = [Answer(text=f"answer {n}") for n in range(1, 5)]
    bounded = settings(ttl="1h", context_window_default=50)
    async with swarm(tmp_path, script(*answers), settings=bounded) as s:
        await talk(s, 1, 2)
        s.clock.by(3_700)
        await talk(s, 3, 4)

        shown = contents(s.provider.requests[-1].messages)[1:]
        assert [text[:8] for text in shown] == ["number 3", "answer 3", "number 4"]
        assert await s.value("SELECT count(*) FROM memory") == 8


async def test_a_turn_that_goes_on_after_a_restart_shows_the_same_conversation(tmp_path: Path) -> None:
    answers = [Answer(text=f"answer {n}") for n in range(1, 8)]
    async with swarm(tmp_path, script(*answers), settings=settings()) as s:
        await talk(s, 1, 7)
        last = s.provider.block(after=0, when=lambda _: s.provider.calls == 8)
        await s.commander.send("alpha", "number 8: go on")
        await last.reached.wait()
        before = s.provider.requests[-1].messages
        summaries = await s.rows("SELECT count(*) AS n FROM summary")

    again = ScriptedProvider(script(Answer(text="done")), metered=True)
    async with swarm(tmp_path, provider=again, settings=settings(primers_count=0)) as s:
        await s.commander.start("alpha")
        await s.until(lambda: again.calls > 0)
        assert await s.rows("SELECT count(*) AS n FROM summary") == summaries

    assert any(TITLE in text for text in contents(before))
    assert again.requests[0].messages == before


async def test_a_summary_holds_no_secret_of_the_conversation(tmp_path: Path) -> None:
    answers = [Answer(text=f"answer {n}") for n in range(1, 8)]
    async with swarm(tmp_path, script(*answers), settings=settings()) as s:
        await s.ask("alpha", "hello")
        await s.commander.send("alpha", "Never mail jane.doe@example.com; the password = hunter22 is in vault v-77a.")
        await s.settled()
        await talk(s, 3, 7)

        told = (await s.rows("SELECT content FROM summary ORDER BY id DESC LIMIT 1"))[0]["content"]
        assert "[REDACTED_EMAIL]" in told
        assert "[REDACTED_PASSWORD]" in told
        assert "v-77a" in told
        assert "hunter22" not in told


async def test_a_prompt_may_override_the_window_and_the_budgets_of_its_turn(tmp_path: Path) -> None:
    answers = [Answer(text=f"answer {n}") for n in range(1, 12)]
    async with swarm(tmp_path, script(*answers), settings=settings()) as s:
        await s.commander.create("alpha", start=False)
        context = '{"history_window_size": "100", "token_budget_per_agent": 30000, "token_budget_per_task": 90000}'
        for number in range(1, 8):
            await s.commander.send("alpha", f"number {number}", limits=context)
            await s.settled()
        shown = contents(s.provider.requests[-1].messages)[1:]
        assert [text for text in shown if text.startswith("number")] == [f"number {n}" for n in range(1, 8)]
        frozen = (await s.rows("SELECT frozen FROM turn ORDER BY id DESC LIMIT 1"))[0]["frozen"]
        assert '"max_tokens":30000' in frozen
        assert '"task_tokens":90000' in frozen

        await s.ask("alpha", "number 8")
        assert any(TITLE in text for text in contents(s.provider.requests[-1].messages))


async def test_an_unknown_key_of_a_context_sends_nothing(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="never")), settings=settings()) as s:
        await s.commander.create("alpha", start=False)
        with pytest.raises(UsageError) as raised:
            await s.commander.send("alpha", "hello", limits='{"primer_count": 3}')
        assert "Did you mean primers_count?" in raised.value.hint
        assert await s.rows("SELECT id FROM message") == []


@pytest.mark.parametrize(
    ("limits", "unused"),
    [
        ({"history_window_size": 20, "token_budget_per_agent": 8000}, ""),
        ({"token_budget_per_agent": 50_001}, "token_budget_per_agent=50001 has no effect"),
        ({"token_budget_per_task": 1_000_000}, "token_budget_per_task=1000000 has no effect"),
        ({"token_budget_total": 1_000_000}, ""),
    ],
)
async def test_a_receipt_names_each_limit_that_changes_nothing_once(
    tmp_path: Path, limits: dict[str, int], unused: str
) -> None:
    async with swarm(tmp_path, script(*[Answer(text="done")] * 3), settings=settings()) as s:
        await s.create("alpha", "beta")
        sent = await s.commander.send("alpha", "go", limits=json.dumps(limits))
        assert [note.partition(",")[0] for note in sent.notes] == ([unused] if unused else [])
        shared = await s.commander.broadcast("go", limits=json.dumps(limits))
        assert [note.partition(",")[0] for note in shared.notes] == ([unused] if unused else [])
        await s.settled()


async def test_what_the_summary_lost_is_recalled_by_the_words_of_the_prompt_and_the_plan_says_what_it_shows(
    tmp_path: Path,
) -> None:
    answers = [Answer(text=f"answer {n}") for n in range(1, 12)]
    async with swarm(tmp_path, script(*answers), settings=settings(compression_target_ratio=0.1)) as s:
        await talk(s, 1, 1)
        await s.ask("alpha", "My grandmother grew heliotropes in a bathtub.")
        for number in range(3, 9):
            await s.ask("alpha", f"number {number}. " + "Never lose record rec-77, it is needed. " * 40)
        await s.ask("alpha", "Which heliotropes did my grandmother grow?")

        request = s.provider.requests[-1].messages
        assert "bathtub" in "".join(text for text in contents(request)[1:-1])
        newest = (await s.rows("SELECT max(id) AS id FROM request"))[0]["id"]
        plan = inspect_request(s.path, newest).plan
        assert plan is not None
        assert any(note.startswith("Window: the first 2 and the newest") for note in plan.notes)
