"""What a fork or a question costs is said before: the tokens of the request that is sent then."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.queries.test_commit_history import add_commits
from tests.queries.test_reading_cost import make_conversation
from tests.swarm.harness import Swarm, call, script, swarm
from tests.swarm.test_builtin_backend import templates
from tests.swarm.test_commit_capture import read_chain
from tests.swarm.test_forks import TALK, fork, talk
from tests.swarm.test_resume_and_ask import contexts
from zoea.chain import chain_reader
from zoea.chain.chain_reader import ChainReader
from zoea.chain.commit import ContextCommit
from zoea.chain.commit_rows import count_known, read_commit, read_refs
from zoea.chain.materialize import MaterializedContext, materialize
from zoea.model.errors import TemplateError
from zoea.model.request import Answer
from zoea.model.values import MysisOverrides
from zoea.queries import fork_costs
from zoea.queries.fork_costs import ForkCost, read_fork_cost
from zoea.runtime.first_request_estimate import estimate_from_commit
from zoea.settings.paths import places
from zoea.settings.schema import Settings
from zoea.settings.template_library import Templates
from zoea.store.database_file import connect_reader
from zoea.swarm.inherited_context import build_inherited
from zoea.text.estimate import tokens

LONG = "Check every line of the plan, and name the line where it is wrong. " * 40


def read_cost(s: Swarm, found: Templates, text: str, **changed: str) -> ForkCost:
    with closing(connect_reader(s.path)) as conn:
        return read_fork_cost(
            conn, read_chain(s.path, "@alpha")[-1], text, Settings(), found, MysisOverrides(**changed)
        )


async def newest_estimate(s: Swarm) -> int:
    """Return the tokens of the newest request, with the calibration of its turn."""
    sql = "SELECT q.estimated_tokens * (t.frozen ->> 'calibration') FROM request q JOIN turn t ON t.id = q.turn_id"
    return int(await s.value(f"{sql} ORDER BY q.id DESC LIMIT 1"))


async def test_a_fork_into_another_template_costs_what_that_template_sends(tmp_path: Path) -> None:
    found = templates(tmp_path, reviewer='[tools]\ncontexts = "command"')
    file = tmp_path / "templates" / "reviewer.toml"
    file.write_text(file.read_text().replace("You are a mysis.", LONG), encoding="utf-8")
    async with swarm(tmp_path, script(*TALK), templates=found) as s:
        await talk(s)
        own, before = read_cost(s, found, "go on"), read_cost(s, found, "go on", template="reviewer")
        await fork(s, "@alpha", "go on", template="reviewer")
        sent = await newest_estimate(s)
        after = read_cost(s, found, "go on", template="reviewer")
    assert (own.has_own_tools, before.has_own_tools, after.has_own_tools) == (True, False, True)
    longer = tokens(LONG) - tokens(found.get("default").prompt)
    assert before.tokens - own.tokens == pytest.approx(longer, rel=0.05), "its prompt counts"
    assert abs(after.tokens - sent) <= 0.05 * sent


async def test_a_fork_counts_the_messages_of_its_commit_without_those_that_zoea_adds(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("look", "ore"),)), Answer(text="Iron at 7."))) as s:
        await talk(s, "find iron")
        asked = read_chain(s.path, "@alpha")[0]  # ends with a call that has no result yet
        with closing(connect_reader(s.path)) as conn:
            cost = read_fork_cost(conn, asked, "go on", Settings(), Templates())
            known, _ = count_known(conn, asked.seq)
            whole = ChainReader(conn).materialize(asked)
    assert (cost.messages, cost.shown, known) == (2, 2, 2)
    assert (len(whole.entries), whole.repaired) == (3, 1)


async def test_the_cost_of_a_long_conversation_is_estimated_from_its_newest_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await make_conversation(tmp_path)
    add_commits(path, 2_000)
    read: list[int] = []

    def materialized(chain: Sequence[ContextCommit], *arguments: Any, **more: Any) -> MaterializedContext:
        read.append(len(chain))
        return materialize(chain, *arguments, **more)

    monkeypatch.setattr(chain_reader, "materialize", materialized)
    settings = Settings.model_validate({"inherited": {"max_tokens": 500}})
    with closing(connect_reader(path)) as conn:
        tip = read_commit(conn, read_refs(conn)["@alpha"])
        assert tip is not None
        cost = read_fork_cost(conn, tip, "go on", settings, Templates())
        assert sum(read) < 500, "of 2,000 commits"
        monkeypatch.setattr(fork_costs, "estimate_inherited", build_inherited)
        exact = read_fork_cost(conn, tip, "go on", settings, Templates())
    assert max(read) > 2_000
    assert (cost.messages, cost.shown, cost.tier) == (exact.messages, exact.shown, exact.tier)
    assert exact.tokens <= cost.tokens <= exact.tokens + 125, "its summary counts with its full length"


async def test_a_fork_is_priced_by_the_provider_and_model_that_it_gets(tmp_path: Path) -> None:
    settings = Settings.model_validate({"provider": {"dear": {"type": "openai", "model": "gpt-5"}}})
    found = templates(tmp_path, reviewer='provider = "dear"')
    async with swarm(tmp_path, script(*TALK)) as s:
        await talk(s)
        tip = read_chain(s.path, "@alpha")[-1]
        with closing(connect_reader(s.path)) as conn:

            def chosen(**changed: str) -> tuple[str, str]:
                cost = read_fork_cost(conn, tip, "go on", settings, found, MysisOverrides(**changed))
                return cost.provider, cost.model

            own = await s.rows("SELECT provider, model FROM mysis")
            assert [chosen()] == [(row["provider"], row["model"]) for row in own]
            assert chosen(template="reviewer") == ("dear", "gpt-5")
            assert chosen(provider="dear", model="gpt-5-mini") == ("dear", "gpt-5-mini")
            with pytest.raises(TemplateError, match="nosuch"):
                chosen(template="nosuch")


async def test_a_question_in_a_thread_costs_what_its_newest_commit_holds(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(*TALK)) as s:
        await talk(s)
        asked = read_chain(s.path, "@alpha")[0]
        for question in ("Why? " * 100, "And then? " * 100):
            one = await contexts(s).ask(asked.id, question, thread="plan")
            await s.settled(one.mysis.name)

        def estimate(thread: str) -> tuple[int, int]:
            said = estimate_from_commit(places(""), s.path, asked.seq, "Sure?", thread=thread)
            return said.cost.messages, said.cost.tokens

        first, goes_on = [await asyncio.to_thread(estimate, thread) for thread in ("other", "plan")]
        await contexts(s).ask(asked.id, "Sure?", thread="plan")
        await s.settled(one.mysis.name)
        sent = await newest_estimate(s)
    assert (first[0], goes_on[0]) == (2, 6)
    assert abs(goes_on[1] - sent) <= 0.05 * sent
