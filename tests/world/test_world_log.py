"""The world's file: replay gives the same state, a kill loses nothing, one process holds it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.model.errors import WorldError
from zoea.world.captain_actions import ACTIONS
from zoea.world.catalog import REEF_TOOLS, validate_arguments
from zoea.world.refusal import ReefRefusal
from zoea.world.world_log import WorldLog, connect_read_only, load_world
from zoea.world.world_queries import QUERIES, WRITES

IDS = st.one_of(
    st.integers(1, 130).map(lambda n: f"p{n}"), st.integers(1, 45).map(lambda n: f"s{n}"), st.text(max_size=9)
)
ITEMS = st.sampled_from(["iron", "iridium", "helium", "cargo_pod", "gold", ""])
VALUES = st.one_of(IDS, ITEMS, st.integers(-5, 50), st.none(), st.booleans(), st.text(max_size=20), st.floats())
NAMES = ("session_id", "poi_id", "system_id", "station_id", "item", "quantity", "times", "text", "to", "entry", "limit")
ARGS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)
PLAYED = sorted([*ACTIONS, *QUERIES])
SENSIBLE = st.fixed_dictionaries(
    {},
    optional={
        "poi_id": IDS,
        "system_id": IDS,
        "item": ITEMS,
        "times": st.integers(1, 20),
        "text": st.just("hi"),
        "entry": st.just("x"),
    },
)


def play(record: WorldLog, name: str, tool: str, args: dict[str, Any]) -> dict[str, Any]:
    """A call as the service makes it: done, then written down where it changes anything."""
    fields = REEF_TOOLS[tool].args.model_fields
    clean = validate_arguments(tool, {"session_id": "s", **{k: v for k, v in args.items() if k in fields}})
    del clean["session_id"]
    result = record.reef.call(name, tool, clean)
    if tool in ACTIONS or tool in WRITES:
        record.call(name, tool, clean)
    return result


def start(record: WorldLog, *names: str) -> None:
    for name in names:
        record.reef.register(name, "hash")
        record.register(name, "hash")


def tick(record: WorldLog, times: int = 1) -> None:
    for _ in range(times):
        record.reef.tick()
        record.tick()


@given(steps=st.lists(st.tuples(st.sampled_from(PLAYED), SENSIBLE, st.integers(0, 4), st.booleans()), max_size=60))
def test_replaying_the_log_gives_the_same_state_hash(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, dict[str, Any], int, bool]]
) -> None:
    path = tmp_path_factory.mktemp("world") / "reef.db"
    record = WorldLog(path, seed=5, systems=10)
    start(record, "a", "b")
    for tool, args, ticks, first in steps:
        before = record.reef.world.to_json()
        try:
            play(record, "a" if first else "b", tool, args)
        except ReefRefusal:
            assert record.reef.world.to_json() == before, "a refusal changes nothing"
        tick(record, ticks)
    record.commit()
    db = connect_read_only(path)
    assert load_world(db, whole=True).world.hash() == record.reef.world.hash()
    db.close()
    record.close()
    db = connect_read_only(path)
    assert load_world(db, whole=False).world.hash() == load_world(db, whole=True).world.hash()
    db.close()


@given(tool=st.one_of(st.sampled_from(sorted(REEF_TOOLS)), st.text(max_size=50)), args=ARGS)
def test_hostile_arguments_are_refused_with_a_reason(tool: str, args: dict[str, Any]) -> None:
    said, clean = _checked(tool, args)
    assert said in ("", "bad_arguments", "unknown_tool")
    assert said or set(clean) <= set(REEF_TOOLS[tool].args.model_fields)


def _checked(tool: str, args: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    try:
        return "", validate_arguments(tool, args)
    except ReefRefusal as refused:
        return refused.code, {}


@walk_cases("name", ["a\ud800", "", " ", "-x", "a" * 49, "a\nb", "a\0b"])
def test_names_that_would_break_a_screen_are_refused(name: str) -> None:
    with pytest.raises(ReefRefusal, match="name"):
        validate_arguments("register", {"name": name})


def test_a_world_continues_after_it_was_killed(tmp_path: Path) -> None:
    record = WorldLog(tmp_path / "reef.db", seed=3)
    start(record, "a")
    play(record, "a", "undock", {})
    play(record, "a", "mine", {"times": 3})
    tick(record, 5)
    record.commit()
    state = record.reef.world.hash()
    again = WorldLog(_as_after_a_kill(record, tmp_path))
    assert again.reef.world.hash() == state
    assert again.reef.world.players["a"].cargo == {"iron": 3}
    again.close()


def _as_after_a_kill(record: WorldLog, folder: Path) -> Path:
    """Copy the files of a folder as a kill would leave them now. The originals are closed in order."""
    (folder / "killed").mkdir()
    for file in folder.glob("reef.db*"):
        shutil.copy(file, folder / "killed")
    record.close()
    return folder / "killed" / "reef.db"


def test_uncommitted_rows_are_lost(tmp_path: Path) -> None:
    record = WorldLog(tmp_path / "reef.db")
    start(record, "a")
    record.commit()
    play(record, "a", "undock", {})
    again = WorldLog(_as_after_a_kill(record, tmp_path))
    assert again.reef.world.players["a"].docked
    again.close()


def test_ticks_between_calls_share_a_row(tmp_path: Path) -> None:
    record = WorldLog(tmp_path / "reef.db")
    start(record, "a")
    tick(record, 40)
    play(record, "a", "undock", {})
    tick(record, 2)
    record.close()
    db = connect_read_only(tmp_path / "reef.db")
    assert db.execute("SELECT kind, count FROM log ORDER BY id").fetchall() == [
        ("register", 1),
        ("ticks", 40),
        ("call", 1),
        ("ticks", 2),
    ]
    db.close()


def test_a_snapshot_is_stored_after_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoea.world.world_log.SNAPSHOT_EVERY", 3)
    record = WorldLog(tmp_path / "reef.db")
    for _ in range(2):
        start(record, "a")
        play(record, "a", "captains_log_add", {"entry": "x"})
        record.commit()
    db = connect_read_only(tmp_path / "reef.db")
    assert db.execute("SELECT log_id FROM snapshot").fetchall() == [(4,)]
    db.close()
    record.close()


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    record = WorldLog(tmp_path / "reef.db")
    with pytest.raises(WorldError, match="another process"):
        WorldLog(tmp_path / "reef.db")
    record.close()
    WorldLog(tmp_path / "reef.db").close()


@pytest.mark.parametrize(("given", "said"), [({"seed": 2}, "seed 1"), ({"systems": 50}, "systems 40")])
def test_another_seed_or_size_for_an_existing_world_is_refused(
    tmp_path: Path, given: dict[str, int], said: str
) -> None:
    WorldLog(tmp_path / "reef.db", seed=1).close()
    with pytest.raises(WorldError, match=said):
        WorldLog(tmp_path / "reef.db", **given)
    WorldLog(tmp_path / "reef.db", seed=1).close()


def test_a_foreign_file_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "reef.db"
    path.write_bytes(b"not a database at all, but long enough to be looked at" * 20)
    with pytest.raises(WorldError, match="cannot be opened"):
        WorldLog(path)
    path.unlink()
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE mine (x)")
    db.close()
    with pytest.raises(WorldError, match="not a world"):
        WorldLog(path)


def test_a_log_that_cannot_be_replayed_is_reported(tmp_path: Path) -> None:
    record = WorldLog(tmp_path / "reef.db")
    start(record, "a")
    record.call("a", "dock", {})
    record.commit()
    killed = _as_after_a_kill(record, tmp_path)
    with pytest.raises(WorldError, match="cannot be replayed") as refused:
        WorldLog(killed)
    assert refused.tb is not None  # it holds all that the failed one had
    assert not [one for one in Path("/proc/self/fd").iterdir() if one.resolve().is_relative_to(killed.parent)]


def test_without_a_world_there_is_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="no world"), closing(connect_read_only(tmp_path / "reef.db")):
        pass


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    WorldLog(tmp_path / "reef.db").close()
    assert (tmp_path / "reef.db").stat().st_mode & 0o777 == 0o600
