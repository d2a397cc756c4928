"""Under a running swarm a database is moved, or a lock file removed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.zoea_process import PATIENCE_S, ask, find_owner, spawn, zoea
from tests.waiting import until_true
from zoea.model.errors import StoreMoved, WorkspaceHeld
from zoea.process.lock import LOCK_NAME
from zoea.settings.paths import places

pytestmark = pytest.mark.usefixtures("own_runtime")


@pytest.fixture
def owner() -> Iterator[int]:
    """The process of a swarm of one mysis."""
    with spawn("run", "--headless", "--myses", "1", "--provider", "scripted") as process:
        # A start that cannot be stored ends; from then on the swarm waits for its file.
        until_true(lambda: ask("SELECT 1 FROM event WHERE kind = 'mysis.state'"))
        yield until_true(find_owner)
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def test_a_moved_database_holds_the_swarm_and_says_so_on_every_front(owner: int) -> None:
    database = places("").database
    away = database.with_name("away.db")
    database.rename(away)
    refused = zoea("send", "alpha", "hello")
    assert refused.returncode == StoreMoved.exit_code
    for text in (StoreMoved.title, "was removed while Zoea has it open", "Put the file that was there back"):
        assert text in refused.stderr
    assert "Delivered" not in refused.stdout
    assert f"The swarm is on hold: {StoreMoved.reason}. It goes on by itself" in zoea("list").stdout
    read = zoea("log", "alpha")
    assert read.returncode == StoreMoved.exit_code
    assert "a swarm has it open" in read.stderr
    away.rename(database)
    assert zoea("send", "alpha", "hello again").returncode == 0
    assert "on hold" not in zoea("list").stdout
    said = zoea("log", "alpha").stdout
    assert "hello again" in said
    assert said.count("hello") == 1


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_removed_lock_file_lets_no_second_swarm_in_and_comes_back(owner: int, is_replaced: bool) -> None:
    lock = places("").data / LOCK_NAME
    lock.unlink()
    if is_replaced:
        lock.touch()
    at_once = zoea("send", "alpha", "hello at once")
    assert at_once.returncode == 0, at_once.stderr
    lock.unlink()
    if is_replaced:
        lock.touch()
    second = zoea("run", "--headless", "--for", "1s")
    assert second.returncode == WorkspaceHeld.exit_code
    assert "running this workspace" in second.stderr
    assert until_true(find_owner) == owner
    assert zoea("send", "alpha", "hello").returncode == 0
