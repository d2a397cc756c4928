"""Steps of the cockpit's tests are taken: one that no test names would prove nothing."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path


def test_every_step_of_a_cockpit_is_taken_by_a_test() -> None:
    files = (Path(__file__).parents[1] / "tui").glob("test_*.py")
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    steps = re.findall(r"^async def (?!test_)(\w+)\(stage: Stage\) -> None:", text, re.MULTILINE)
    times = Counter(re.findall(r"\w+", text))
    assert len(steps) > 20
    assert [step for step in steps if times[step] < 2] == []
