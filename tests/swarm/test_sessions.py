"""A session through a real Commander and store still shows what was said.

Few summaries are written.
"""

from __future__ import annotations

import pytest

from benchmarks.sessions import MOST_SUMMARIES, SETS, STRONG, FactSet, Session, play, share_of, write_session

FACTS = FactSet.read(SETS / "a")


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("budget", "talk", "writer", "within", "least", "strong"),
    [
        (8_000, "dense", "dull", False, 0.6, 0.8),
        (25_000, "plain", "extract", False, 0.9, 0.95),
        (25_000, "noisy", "extract", True, 0.95, 0.9),
    ],
)
async def test_a_session_keeps_its_facts_with_few_summaries(
    budget: int, talk: str, writer: str, within: bool, least: float, strong: float
) -> None:
    session = await play(write_session(FACTS, talk, 120, within=within), budget, writer)
    assert share_of(session, session.shown, ()) >= least
    assert share_of(session, session.shown, STRONG) >= strong
    assert session.most_in_100 <= MOST_SUMMARIES
    assert session.tokens <= budget
    assert recalled_share(session, "zh") >= 0.8


def recalled_share(session: Session, script: str) -> float:
    facts = [fact for fact in session.facts if fact.script == script]
    return sum(fact in session.found for fact in facts) / len(facts)
