"""What a refusal taught is stored with its date and told in the conversation.

It is used after a restart and undone by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.fakes.openai_server import Fail, OpenAIServer, Say, Step
from tests.fakes.wire_server import Received
from tests.llm.sample_requests import provider
from tests.swarm.harness import OneProvider, swarm
from zoea.swarm.persistence import model_facts


def without_system(received: Received) -> Step:
    has_system = any(one["role"] == "system" for one in received.json["messages"])
    return Fail.error(400, "System role not supported") if has_system else Say("done")


async def run_a_turn(folder: Path, server: OpenAIServer, text: str) -> list[dict[str, Any]]:
    """Run one turn of a new process, and return the bodies of its requests."""
    before = len(server.chats)
    source = provider("openai", server.base_url, model="reef-1")
    async with swarm(folder, providers=OneProvider(source)) as s:
        if not any(view.name == "alpha" for view in (await s.commander.view()).myses):
            await s.commander.create("alpha", start=False)
        await s.ask("alpha", text)
    await source.close()
    return [chat.json for chat in server.chats[before:]]


async def test_a_trait_is_learnt_once_kept_over_a_restart_and_forgotten_by_hand(tmp_path: Path) -> None:
    async with OpenAIServer(otherwise=without_system) as server:
        assert len(await run_a_turn(tmp_path, server, "One.")) == 2
        assert len(await run_a_turn(tmp_path, server, "Two.")) == 1
        async with swarm(tmp_path) as s:
            (fact,) = await s.rows("SELECT provider, model, name, value FROM model_fact WHERE name = 'no_system'")
            notes = await s.value("SELECT group_concat(content) FROM turn_note")
            assert await s.store.write(lambda conn: model_facts.forget(conn, "reefnet", "reef-1")) == 1
        assert fact == {
            "provider": "reefnet",
            "model": "reef-1",
            "name": "no_system",
            "value": "System role not supported",
        }
        assert notes == "reef-1 on reefnet gets its instructions in the first user message"
        assert len(await run_a_turn(tmp_path, server, "Three.")) == 2


async def test_the_window_that_a_refusal_names_bounds_the_next_turns_also_after_a_restart(tmp_path: Path) -> None:
    """Without it each turn whose request is long would begin with a refusal."""
    too_long = Fail.error(400, "This model's maximum context length is 4000 tokens.")
    async with OpenAIServer(too_long, otherwise=lambda _: Say("done")) as server:
        assert len(await run_a_turn(tmp_path, server, "Go on.")) == 2
        assert len(await run_a_turn(tmp_path, server, "Go on.")) == 1
        async with swarm(tmp_path) as s:
            facts = await s.rows("SELECT name, value FROM model_fact")
            assert facts == [{"name": "context_window", "value": "4000"}]
            assert await s.store.write(lambda conn: model_facts.forget(conn, "reefnet", "reef-1")) == 1
        assert len(await run_a_turn(tmp_path, server, "Go on.")) == 1
        async with swarm(tmp_path) as s:
            frozen = [json.loads(row["frozen"]) for row in await s.rows("SELECT frozen FROM turn ORDER BY id")]
        before, bounded, forgotten = (one["context_window"] for one in frozen)
        assert bounded == 4_000 < before == forgotten
