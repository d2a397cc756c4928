"""The calibration of a model stays within bounds, and an error for length raises it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.swarm.harness import Swarm, script, swarm
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError
from zoea.model.request import Answer
from zoea.model.values import Usage
from zoea.swarm.persistence import spend_ops


async def ratio(s: Swarm) -> float:
    found = await s.rows("SELECT ratio FROM calibration")
    return float(found[0]["ratio"])


@pytest.mark.parametrize(("reported", "kept"), [(1, 0.8), (10_000_000, 2.0)])
async def test_a_report_far_from_the_estimate_counts_as_the_nearest_bound(
    tmp_path: Path, reported: int, kept: float
) -> None:
    answer = Answer(text="done", usage=Usage(input_tokens=reported, output_tokens=1))
    async with swarm(tmp_path, script(answer)) as s:
        await s.ask("alpha", "go")
        assert await ratio(s) == kept


async def test_a_stored_calibration_out_of_bounds_is_read_as_the_nearest_bound(tmp_path: Path) -> None:
    async with swarm(tmp_path) as s:
        rows = "VALUES ('p', 'low', 0.3, 9, 0), ('p', 'high', 3.0, 9, 0)"
        insert = f"INSERT INTO calibration(provider, model, ratio, samples, updated_at) {rows}"
        await s.store.write(lambda conn: conn.execute(insert).rowcount)
        assert await s.store.write(lambda conn: spend_ops.calibration(conn, "p", "low")) == 0.8
        assert await s.store.write(lambda conn: spend_ops.calibration(conn, "p", "high")) == 2.0


async def test_an_error_for_length_raises_the_calibration(tmp_path: Path) -> None:
    long = ProviderError("too long", kind=ErrorClass.CONTEXT_LENGTH)
    async with swarm(tmp_path, script(long, Answer(text="done"))) as s:
        await s.ask("alpha", "go")
        assert await ratio(s) > 1.0
