"""Reads what Zoea has learnt of models from their answers."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from zoea.model.errors import StoreMissing
from zoea.queries.stored_swarm import open_database


class ModelFact(Struct, frozen=True):
    """One fact about a model of a provider: `tool_mode`, or `reading_rate` in tokens a second. Time in µs UTC."""

    provider: str
    model: str
    name: str
    value: str
    learned_at: int


def read_model_facts(database: Path) -> tuple[ModelFact, ...]:
    """Return all facts by provider and model; none where there is no database yet. Raises StoreError."""
    try:
        with open_database(database) as reader:
            rows = reader.execute("SELECT * FROM model_fact ORDER BY provider, model, name").fetchall()
    except StoreMissing:
        return ()
    return tuple(ModelFact(row["provider"], row["model"], row["name"], row["value"], row["learned_at"]) for row in rows)
