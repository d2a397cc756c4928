"""The beginning of requests stays the same for many turns, so that caches pay.

`benchmarks/prefix.py` measures it.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from benchmarks.prefix import PrefixReport, measure, play


async def report(folder: Path, keep: int | str, minimum: int, recall: int = 3) -> PrefixReport:
    return measure(str(keep), await play(folder, keep, cache_minimum=minimum, recall=recall), minimum)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("keep", "recall"), [(2, 3), (5, 0), (5, 3)])
async def test_with_earlier_turns_a_request_repeats_the_one_before_within_turns_and_between_cuts(
    tmp_path: Path, keep: int, recall: int
) -> None:
    found = await report(tmp_path, keep, 4_096, recall)

    assert found.within == 1.0
    cuts = [share for share in found.between if share < 0.7]
    assert len(found.between) == 29
    assert len(cuts) <= 29 // keep


@pytest.mark.timeout(120)
async def test_what_zoea_chooses_costs_at_most_little_more_than_the_form_of_the_seed(tmp_path: Path) -> None:
    with TemporaryDirectory(dir=tmp_path) as folder:
        seed = await play(Path(folder), 0)  # the same whatever a provider caches
    for minimum, most in ((4_096, 1.0), (1_024, 1.15)):
        with TemporaryDirectory(dir=tmp_path) as folder:
            chosen = await report(Path(folder), "auto", minimum)
        form = measure("0", seed, minimum)
        assert (form.within, chosen.within) == (1.0, 1.0), minimum
        assert chosen.price <= most * form.price, minimum
