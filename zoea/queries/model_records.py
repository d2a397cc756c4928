"""Reads the stored facts of models, and how estimates of tokens compare with reports."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from zoea.model.errors import StoreMissing
from zoea.queries.stored_swarm import open_database
from zoea.store.database_file import convert_row

_CALIBRATIONS = """
SELECT c.provider, c.model, c.ratio, c.samples, coalesce(sum(q.estimated_tokens), 0), coalesce(sum(q.input_tokens), 0),
  coalesce(max(abs(q.estimated_tokens * coalesce(t.frozen ->> 'calibration', 1.0) / q.input_tokens - 1)), 0)
FROM calibration c LEFT JOIN request q ON q.provider = c.provider AND q.model = c.model AND q.input_tokens > 0
  AND q.created_at > (SELECT coalesce(max(created_at), 0) FROM request) - 604800000000
LEFT JOIN turn t ON t.id = q.turn_id
GROUP BY c.provider, c.model ORDER BY c.provider, c.model
"""


class Calibration(Struct, frozen=True):
    """A comparison of token estimates for a model with the counts of its provider.

    Attributes:
        factor: What estimates are multiplied by, 0.8 to 2.
        samples: Reports that the factor was learnt from; it holds from three on.
        estimated, reported: Input tokens of the requests of the last week, before calibration and as reported.
        largest_error: The largest relative error of a calibrated estimate among them.
    """

    provider: str
    model: str
    factor: float
    samples: int
    estimated: int
    reported: int
    largest_error: float


def read_calibrations(database: Path) -> tuple[Calibration, ...]:
    """Read how the estimates of each model compare with what its provider reported. Raises StoreError."""
    with open_database(database) as reader:
        rows = reader.execute(_CALIBRATIONS).fetchall()
    return tuple(Calibration(*row) for row in rows)


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
    return tuple(convert_row(ModelFact, row) for row in rows)
