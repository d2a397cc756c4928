"""Facts about a model, learnt from answers and refusals."""

from __future__ import annotations

import sqlite3

from msgspec.structs import replace

from zoea.llm.model_traits import is_trait
from zoea.model.enums import ToolMode
from zoea.model.request import Answer
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.resolved_template import MysisProfile

TOOL_MODE = "tool_mode"
READING_RATE = "reading_rate"
CONTEXT_WINDOW = "context_window"
_LEARN = (
    "INSERT INTO model_fact(provider, model, name, value, learned_at) VALUES (?,?,?,?,?)"
    " ON CONFLICT(provider, model, name) DO UPDATE SET value = excluded.value, learned_at = excluded.learned_at"
    " WHERE value <> excluded.value"
)


def learn_from_answer(conn: WriterConnection, provider: str, model: str, answer: Answer) -> None:
    """Store what an answer shows of its model. A value that is known keeps its date."""
    if answer.needs_schema:
        conn.execute(_LEARN, (provider, model, TOOL_MODE, ToolMode.JSON_SCHEMA, conn.now()))
    if answer.reading_rate is not None:
        rate = f"{float(f'{answer.reading_rate:.2g}'):g}"  # two digits, so that the fact seldom changes
        conn.execute(_LEARN, (provider, model, READING_RATE, rate, conn.now()))
    for trait, sentence in answer.traits:
        conn.execute(_LEARN, (provider, model, trait, sentence, conn.now()))


def tool_mode(conn: sqlite3.Connection, provider: str, model: str) -> ToolMode | None:
    """Return the tool mode that this model needs; None where none was learnt."""
    row = conn.execute(
        "SELECT value FROM model_fact WHERE provider = ? AND model = ? AND name = ?", (provider, model, TOOL_MODE)
    ).fetchone()
    return None if row is None else ToolMode(row[0])


def learn_window(conn: WriterConnection, provider: str, model: str, window: int) -> None:
    """Store the context window that a refusal names, in tokens; the newest counts."""
    conn.execute(_LEARN, (provider, model, CONTEXT_WINDOW, str(window), conn.now()))


async def with_facts(store: Store, profile: MysisProfile) -> MysisProfile:
    """Return the profile with the stored facts of its model.

    These are its traits, each with the sentence of the refusal that taught it, and the window that a refusal named,
    where that is smaller than the one known so far.
    """
    rows = await store.read(
        "SELECT name, value FROM model_fact WHERE provider = ? AND model = ?", (profile.provider.name, profile.model)
    )
    facts = {row[0]: row[1] for row in rows}
    traits = tuple((name, value) for name, value in facts.items() if is_trait(name))
    window = int(facts.get(CONTEXT_WINDOW, profile.window))
    if window >= profile.window:
        return replace(profile, traits=traits)
    most_output = min(profile.max_output_tokens, max(64, window // 4))
    return replace(profile, traits=traits, window=window, window_known=True, max_output_tokens=most_output)


def forget(conn: WriterConnection, provider: str, model: str = "") -> int:
    """Delete all facts about a model, or about all models of a provider. Return how many."""
    return conn.execute(
        "DELETE FROM model_fact WHERE provider = ?1 AND (?2 = '' OR model = ?2)", (provider, model)
    ).rowcount
