"""The log file: repeated lines are counted, and links are not followed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from zoea.model.errors import StoreError
from zoea.process import logs
from zoea.process.logs import PrivateLogHandler, RepeatFilter, logging_to


class Hands:
    """A clock that the test sets."""

    now = 0.0

    def read(self) -> float:
        return self.now


def write(log: logging.Logger, text: str, *, times: int = 1) -> None:
    for _ in range(times):
        log.warning("the upstream says %s", text)


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def log(tmp_path: Path, hands: Hands) -> Iterator[logging.Logger]:
    made = logging.Logger("zoea.test")
    handler = PrivateLogHandler(tmp_path / "zoea.log", RepeatFilter(hands.read))
    handler.setFormatter(logging.Formatter("%(message)s"))
    made.addHandler(handler)
    yield made
    handler.close()


def lines(tmp_path: Path) -> list[str]:
    return (tmp_path / "zoea.log").read_text(encoding="utf-8").splitlines()


def test_a_repeated_line_is_written_once_and_then_counted(log: logging.Logger, hands: Hands, tmp_path: Path) -> None:
    write(log, "no", times=10_000)
    assert lines(tmp_path) == ["the upstream says no"]
    hands.now = 61
    write(log, "yes")
    assert lines(tmp_path)[1:] == ["9,999 more of this line in 61 s: the upstream says no", "the upstream says yes"]
    write(log, "no")
    assert lines(tmp_path)[-1] == "the upstream says no"


def test_a_place_that_writes_many_different_lines_is_limited(log: logging.Logger, hands: Hands, tmp_path: Path) -> None:
    for number in range(5_000):
        write(log, f"{number} of many")
    assert len(lines(tmp_path)) == logs.LINES_OF_A_PLACE
    log.warning("another place still writes")
    assert lines(tmp_path)[-1] == "another place still writes"
    for handler in log.handlers:
        handler.close()
    assert lines(tmp_path)[-1].startswith("4,900 more of lines like this in 0 s: the upstream says 4999 of many")


def test_the_counts_take_bounded_memory(hands: Hands) -> None:
    repeats = RepeatFilter(hands.read)
    for number in range(5_000):
        for _ in range(2):
            repeats.filter(logging.LogRecord("zoea", logging.INFO, f"place {number}", number, "a line", None, None))
        repeats.due()
    assert 0 < len(repeats.due(everything=True)) <= logs.MAX_COUNTED


def test_a_record_that_cannot_be_formatted_raises_nothing(log: logging.Logger, tmp_path: Path) -> None:
    raises, logging.raiseExceptions = logging.raiseExceptions, False
    log.warning("%d", "no number")
    logging.raiseExceptions = raises
    write(log, "so")
    assert lines(tmp_path) == ["the upstream says so"]


def test_a_log_that_is_a_link_is_refused_and_its_target_unchanged(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "zoea.log").symlink_to(target)
    with pytest.raises(StoreError, match="symbolic link"), logging_to(tmp_path / "zoea.log", "info"):
        logging.getLogger("zoea.x").warning("hello")
    assert target.read_text() == "mine"
