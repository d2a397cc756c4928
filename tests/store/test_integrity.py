"""Indexes are merged, checked and rebuilt; retention rules remove whole turns and record it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.sample_memories import broadcast, check_indexes, database, remember, turn
from zoea.store import retention
from zoea.store.blobs import put_blob
from zoea.store.integrity import IntegrityFinding, inspect_database, unused_files
from zoea.store.retention import RemovedCounts, RetentionRule, remove_turns, remove_unused
from zoea.store.search import MemoryQuery, fts_index, search_memories

DAY = 86_400 * 1_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "zoea.db"


@pytest.fixture
def db(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(database(path)) as connection:
        yield connection


def problems(db: sqlite3.Connection, path: Path, *, whole: bool = True) -> list[str]:
    return [f.name for f in inspect_database(db, path.parent, whole=whole, report=lambda what: None) if f.problem]


class TestCheckup:
    def test_a_good_database_has_no_problem(self, db: sqlite3.Connection, path: Path) -> None:
        remember(db, "iron ore", calls=[("mine", "{}")])
        put_blob(db, b"small")
        said: list[str] = []
        found = list(inspect_database(db, path.parent, whole=True, report=said.append))
        assert found == [IntegrityFinding(f.name, "", f.hint) for f in found]
        assert len(said) == 4
        assert problems(db, path, whole=False) == []

    def test_an_index_with_missing_rows_is_reported_and_rebuilt(self, db: sqlite3.Connection, path: Path) -> None:
        remember(db, "iron ore")
        for name in ("memory", "call", "message"):
            db.execute(f"DROP TRIGGER {name}_search_insert")
        remember(db, "lost ore", calls=[("mine", "lost")])
        broadcast(db, "lost words")
        assert fts_index.find_damaged(db) == list(fts_index.INDEXES)
        assert problems(db, path) == ["search"]
        assert problems(db, path, whole=False) == ["search (a sample)"]
        done: list[tuple[int, int]] = []
        fts_index.rebuild(db, lambda *progress: done.append(progress))
        assert done == [(2, 2)]
        check_indexes(db)
        assert problems(db, path) == []

    def test_a_rebuild_that_fails_changes_nothing(self, db: sqlite3.Connection) -> None:
        remember(db, "iron ore")

        def fail(done: int, total: int) -> None:
            raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            fts_index.rebuild(db, fail)
        check_indexes(db)

    def test_an_empty_database_has_no_problem(self, db: sqlite3.Connection) -> None:
        assert fts_index.count_missing(db, 10, seed=1) == 0

    def test_an_index_that_cannot_be_read_is_an_error(self, db: sqlite3.Connection) -> None:
        db.execute("DROP TABLE memory_words")
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            fts_index.find_damaged(db)

    def test_broken_references_and_missing_files_are_named(self, db: sqlite3.Connection, path: Path) -> None:
        put_blob(db, bytes(range(256)) * 5_000)
        (file,) = (path.parent / "blobs").glob("??/*")
        stray = file.with_name("00ff.zst")
        stray.write_bytes(b"")
        assert unused_files(db, path.parent) == [stray]
        assert problems(db, path) == ["unused files"]
        file.unlink()
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute("INSERT INTO mysis_tag VALUES (99, 'lost')")
        assert problems(db, path) == ["references", "blobs", "unused files"]


def test_merging_leaves_one_segment_and_then_does_nothing(db: sqlite3.Connection) -> None:
    for number in range(200):
        remember(db, f"iron ore {number}")
    steps = 0
    is_more = fts_index.merge(db, 8, whole=True)
    while is_more:
        is_more = fts_index.merge(db, 8)
        steps += 1
    assert not fts_index.merge(db, 8)
    check_indexes(db)
    assert db.execute("SELECT count(DISTINCT segid) FROM memory_exact_idx").fetchone() == (1,)
    fts_index.optimize(db)
    check_indexes(db)


class TestRetention:
    @pytest.fixture(autouse=True)
    def _few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(retention, "LEAST", 2)

    @pytest.fixture
    def six_turns(self, db: sqlite3.Connection) -> sqlite3.Connection:
        """Create six turns of m1, one a day, and one old turn of m2.

        Each of the six has a prompt, a call and a result.
        """
        for day in range(6):
            turn_id = turn(db, 1, at=day * DAY)
            said = broadcast(db, f"order {day}", at=day * DAY)
            prompt = remember(db, f"order {day}", role="user", source="broadcast", at=day * DAY, turn_id=turn_id)
            db.execute("UPDATE memory SET message_id = ? WHERE id = ?", (said, prompt))
            db.execute(
                "INSERT INTO delivery(message_id, mysis_id, mode, state, turn_id, memory_id, created_at, taken_at)"
                " VALUES (?, 1, 'queue', 'taken', ?, ?, 1, 1)",
                (said, turn_id, prompt),
            )
            db.execute(
                "INSERT INTO delivery(message_id, mysis_id, mode, state, created_at)"
                " VALUES (?, 2, 'queue', 'skipped', 1)",
                (said,),
            )
            answer = remember(db, f"answer {day}", calls=[("mine", "{}")], at=day * DAY, turn_id=turn_id)
            result = remember(db, f"result {day}", role="tool", source="tool", at=day * DAY, turn_id=turn_id)
            db.execute("UPDATE tool_call SET result_memory_id = ? WHERE memory_id = ?", (result, answer))
            db.execute("INSERT INTO turn_note VALUES (?, 1, 'loop', 'stop')", (turn_id,))
            blob = put_blob(db, f"picture {day}".encode())
            db.execute("INSERT INTO memory_blob VALUES (?, 0, ?, 'image/png', '')", (result, blob))
        remember(db, "of m2", mysis=2, at=0)
        return db

    def days(self, db: sqlite3.Connection) -> list[str]:
        return [row[0] for row in db.execute("SELECT content FROM memory WHERE mysis_id = 1 AND role = 'user'")]

    def test_old_turns_are_removed_whole_and_recorded(self, six_turns: sqlite3.Connection) -> None:
        removed = remove_turns(six_turns, 1, RetentionRule(days=3), now=6 * DAY, who="a test")
        assert removed == RemovedCounts(turns=3 + 1, memories=9, characters=3 * (7 + 8 + 8 + 6 + 7))
        assert self.days(six_turns) == ["order 3", "order 4", "order 5"]
        row = six_turns.execute("SELECT kind, who, why, mysis_id, turns, memories, created_at FROM removal").fetchone()
        assert row == ("keep", "a test", "keep 3 days", 1, 4, 9, 6 * DAY)
        remove_unused(six_turns, RetentionRule(days=3), now=6 * DAY, who="a test")
        assert six_turns.execute("SELECT count(*) FROM message").fetchone() == (3,)
        assert six_turns.execute("SELECT count(*) FROM blob").fetchone() == (3,)
        assert six_turns.execute("PRAGMA foreign_key_check").fetchall() == []
        check_indexes(six_turns)
        assert search_memories(six_turns, MemoryQuery("answer 2")).hits == ()
        assert remove_turns(six_turns, 1, RetentionRule(days=3), now=6 * DAY, who="a test") == RemovedCounts()

    def test_the_given_number_of_memories_stays_in_whole_turns(self, six_turns: sqlite3.Connection) -> None:
        remove_turns(six_turns, 1, RetentionRule(memories=7), now=6 * DAY, who="a test")
        assert self.days(six_turns) == ["order 3", "order 4", "order 5"]
        assert six_turns.execute("SELECT count(*) FROM memory WHERE mysis_id = 1").fetchone() == (9,)
        assert six_turns.execute("SELECT why FROM removal").fetchone() == ("keep 7 memories",)

    def test_a_turn_is_removed_if_either_rule_allows_it(self, six_turns: sqlite3.Connection) -> None:
        remove_turns(six_turns, 1, RetentionRule(days=5, memories=6), now=6 * DAY, who="a test")
        assert self.days(six_turns) == ["order 4", "order 5"]

    def test_the_newest_memories_and_the_standing_order_always_stay(self, six_turns: sqlite3.Connection) -> None:
        for number in range(3):  # nudged turns without any order, long after
            turn_id = turn(six_turns, 1, at=(20 + number) * DAY)
            remember(six_turns, f"nudged {number}", at=(20 + number) * DAY, turn_id=turn_id)
        remove_turns(six_turns, 1, RetentionRule(days=1, memories=1), now=90 * DAY, who="a test")
        left = [row[0] for row in six_turns.execute("SELECT content FROM memory WHERE mysis_id = 1 ORDER BY id")]
        assert left == ["order 5", "answer 5", "result 5", "nudged 1", "nudged 2"]

    def test_an_open_turn_stays(self, six_turns: sqlite3.Connection) -> None:
        six_turns.execute("UPDATE turn SET outcome = NULL, ended_at = NULL WHERE mysis_id = 1 AND number = 2")
        remove_turns(six_turns, 1, RetentionRule(days=1), now=90 * DAY, who="a test")
        assert self.days(six_turns)[0] == "order 0"

    def test_a_step_removes_a_limited_number_of_turns(
        self, six_turns: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(retention, "TURNS", 2)
        assert remove_turns(six_turns, 1, RetentionRule(days=1), now=90 * DAY, who="a test").turns == 2

    def test_nothing_is_removed_without_a_rule(self, six_turns: sqlite3.Connection) -> None:
        assert RetentionRule().is_everything
        assert remove_turns(six_turns, 1, RetentionRule(), now=90 * DAY, who="a test") == RemovedCounts()
        assert remove_turns(six_turns, 2, RetentionRule(days=1), now=90 * DAY, who="a test") == RemovedCounts()

    def test_removal_uses_indexes_for_every_table(self, six_turns: sqlite3.Connection) -> None:
        goes = {
            "approval",
            "tool_call",
            "memory_blob",
            "delivery",
            "turn_note",
            "memory",
            "request",
            "turn",
            "message",
            "blob",
        }
        tables = [row[0] for row in six_turns.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        asked = 0
        for table in tables:
            for reference in six_turns.execute(f"SELECT * FROM pragma_foreign_key_list('{table}')").fetchall():
                parent, column = reference[2:4]
                if parent in goes:
                    asked += 1
                    (step,) = six_turns.execute(
                        f"EXPLAIN QUERY PLAN SELECT 1 FROM {table} WHERE {column} = 1"
                    ).fetchall()
                    assert step[3].startswith("SEARCH"), f"{table}.{column}: {step[3]}"
        assert asked > 10
