"""A session through a real Commander and store still shows what was said.

Few summaries are written.
"""

from __future__ import annotations

import os

import pytest

from benchmarks.sessions import MOST_SUMMARIES, SETS, STRONG, FactSet, Session, play, share_of, write_session

FACTS = FactSet.read(SETS / "a")
TURNS = 120 if os.environ.get("ZOEA_SOAK") else 60
"""A shorter session has as many facts among less talk, and two summaries or more."""
RECALLED = "zh"


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
    session = await play(write_session(FACTS, talk, TURNS, within=within), budget, writer, script=RECALLED)
    assert share_of(session, session.shown, ()) >= least
    assert share_of(session, session.shown, STRONG) >= strong
    assert 2 <= len(session.written) <= MOST_SUMMARIES * TURNS / 100
    assert session.most_in_100 <= MOST_SUMMARIES
    assert session.tokens <= budget
    assert recalled_share(session) >= 0.8


def recalled_share(session: Session) -> float:
    facts = [fact for fact in session.facts if fact.script == RECALLED]
    return sum(fact in session.found for fact in facts) / len(facts)
