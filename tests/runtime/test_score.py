"""`zoea world score`, and `zoea world` as the command line knows it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from zoea.cli import run
from zoea.model.errors import UsageError, WorldError
from zoea.runtime.world_scores import CaptainScore, compute_scores
from zoea.world.world_log import WorldLog


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def record(data: Path) -> Iterator[WorldLog]:
    """A world that runs, where alpha earned and beta did nothing."""
    made = WorldLog(data / "reef.db", seed=1)
    for name in ("Alpha", "beta"):
        made.reef.register(name, "")
        made.register(name, "")
    for tool, args in (("undock", {}), ("mine", {"times": 3}), ("dock", {}), ("sell", {})):
        made.reef.call("Alpha", tool, args)
        made.call("Alpha", tool, args)
    for _ in range(8):
        made.reef.tick()
        made.tick()
    made.commit()
    yield made
    made.close()


def test_a_running_world_is_scored_with_the_tokens_that_were_spent(record: WorldLog) -> None:
    first, second = compute_scores(record.reef.world, {"alpha": 2_000})
    assert (first.name, first.ore, first.tokens) == ("Alpha", 3, 2_000)
    assert first.per_thousand == round(first.earned / 2, 2) > 0
    assert (second.name, second.earned, second.per_thousand) == ("beta", 0, None)


def test_scores_are_sorted_by_earnings(record: WorldLog) -> None:
    assert [score.name for score in compute_scores(record.reef.world, {})] == ["Alpha", "beta"]


def test_without_tokens_there_is_no_rate() -> None:
    assert CaptainScore("a", 1, 1, 1, 1, 0).per_thousand is None


def test_the_command_prints_a_table(record: WorldLog, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["world", "score"]) == 0
    head, alpha, beta = capsys.readouterr().out.splitlines()
    assert head.split()[:6] == ["player", "credits", "earned", "ore", "distance", "tokens"]
    assert alpha.split()[0] == "Alpha"
    assert beta.split() == ["beta", "0", "0", "0", "0", "-", "-"]


def test_the_command_writes_json(record: WorldLog, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["world", "score", "--json", "--data", str(data)]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == ["Alpha", "beta"]
    assert rows[0]["credits_per_1000_tokens"] is None


def test_a_world_without_players_says_so(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    WorldLog(data / "reef.db").close()
    assert run(["world", "score"]) == 0
    assert "There are no players" in capsys.readouterr().out


def test_without_a_world_the_score_command_says_how_to_start_one() -> None:
    with pytest.raises(WorldError) as caught:
        run(["world", "score"])
    assert "zoea run --world reef" in caught.value.hint


def test_the_guide_lists_every_refusal() -> None:
    package = Path(str(resources.files("zoea.world")))
    codes = set(re.findall(r'ReefRefusal\(\s*"(\w+)"', "".join(f.read_text() for f in package.rglob("*.py"))))
    guide = (package.parent.parent / "documentation/guide/reef.md").read_text()
    assert len(codes) > 25
    assert [code for code in sorted(codes) if f"`{code}`" not in guide] == []


def test_options_out_of_range_are_refused() -> None:
    for wrong in (["--tick", "0"], ["--systems", "2"], ["--faults", "sloth=1"], ["--http", "nowhere"]):
        with pytest.raises(UsageError):
            run(["world", *wrong])
