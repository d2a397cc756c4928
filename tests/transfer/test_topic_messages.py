"""Messages of topics in exports, imports, retention, purge and redaction."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.swarm.harness import script, swarm
from tests.swarm.test_topics import publishing, with_topics
from tests.swarm.test_topics_strategy import PLAN, with_planner
from zoea.chain.entries import rewrite_texts
from zoea.model.request import Answer
from zoea.queries.conversation import read_newest
from zoea.settings.schema import Settings
from zoea.settings.template import parse_template
from zoea.store.database_file import open_reader
from zoea.store.redaction import redact_text
from zoea.store.retention import LEAST, RetentionRule, remove_mysis, remove_unused
from zoea.store.store import Store
from zoea.transfer.export import Format, export_pieces, swarm_pieces
from zoea.transfer.jsonl_import import import_file

DAY = 86_400 * 1_000_000
NOW = 1_700_000_000_000_000


async def worked(folder: Path) -> Path:
    """Wanda gets a plan and publishes what she did; Vera reads it."""
    answers = script(
        publishing("IMPLEMENTATION_READY", "It works.", data={"secret": "opal-4711"}), Answer(text="Done.")
    )
    async with with_topics(folder, answers) as s:
        await s.commander.create("wanda", template="worker")
        await s.commander.create("vera", template="validator")
        await s.commander.publish("PLAN_READY", "Build it with opal-4711.")
        await s.settled("wanda")
        await s.settled("vera")
        return folder / "zoea.db"


def rows(path: Path, sql: str, *given: object) -> list[dict[str, Any]]:
    with closing(open_reader(path)) as reader:
        return [dict(row) for row in reader.execute(sql, given)]


async def test_an_import_shows_the_topics_of_prompts_and_leaves_the_ledger_alone(tmp_path: Path) -> None:
    path = await worked(tmp_path)
    file = tmp_path / "all.jsonl"
    file.write_text("".join(swarm_pieces(path, [1, 2], Format.JSONL)), encoding="utf-8")
    other = tmp_path / "other.db"
    store = await Store.open(other, clock_now=lambda: NOW)
    try:
        await store.write(lambda conn: import_file(conn, file, Settings(), lambda *_: None))
    finally:
        await store.close()
    found = rows(other, "SELECT * FROM topic_message ORDER BY id")
    assert {row["cluster_id"] for row in found} == {-1}
    assert sorted(row["topic"] for row in found) == ["IMPLEMENTATION_READY", "PLAN_READY"]
    entry = read_newest(other, 2).turns[0].entries[0]
    assert (entry.topic, entry.memory.label) == (
        "IMPLEMENTATION_READY",
        "[topic IMPLEMENTATION_READY, from mysis wanda]",
    )
    markdown = "".join(export_pieces(other, 2, Format.MARKDOWN))
    assert "topic IMPLEMENTATION\\_READY from mysis wanda" in markdown


async def test_old_messages_go_by_age_and_the_newest_of_each_topic_stay(tmp_path: Path) -> None:
    path = tmp_path / "zoea.db"
    store = await Store.open(path, clock_now=lambda: NOW)
    insert = "INSERT INTO topic_message(topic, sender_kind, sender, content, created_at) VALUES (?,'zoea','z','x',?)"
    try:
        await store.write(lambda conn: conn.executemany(insert, [("NEWS", NOW - 9 * DAY)] * (LEAST + 5)))
        await store.write(lambda conn: conn.execute(insert, ("RARE", NOW - 9 * DAY)))
        removed = await store.write(lambda conn: remove_unused(conn, RetentionRule(days=5), now=NOW, who="test"))
    finally:
        await store.close()
    assert removed.characters == 5
    counts = {row["topic"]: row["n"] for row in rows(path, "SELECT topic, count(*) AS n FROM topic_message GROUP BY 1")}
    assert counts == {"NEWS": LEAST, "RARE": 1}


async def test_a_purge_removes_what_a_mysis_published_unless_others_got_it(tmp_path: Path) -> None:
    path = await worked(tmp_path)
    async with with_topics(tmp_path) as s:
        wanda = s.commander.builtin_backend._sender(1)
        await s.commander.publish("DIARY", "Only mine.", sender=wanda)
        await s.commander.delete("wanda")
        await s.store.write(lambda conn: remove_mysis(conn, 1, now=NOW, who="test"))
    topics = [row["topic"] for row in rows(path, "SELECT topic FROM topic_message WHERE sender_id = 1")]
    assert topics == ["IMPLEMENTATION_READY"]
    assert rows(path, "SELECT 1 FROM pragma_foreign_key_check") == []


async def test_a_redaction_replaces_a_text_in_the_ledger_and_in_prompts(tmp_path: Path) -> None:
    path = await worked(tmp_path)
    store = await Store.open(path, clock_now=lambda: NOW)
    try:
        await store.write(lambda conn: redact_text(conn, tmp_path, "opal-4711", rewrite_texts, now=NOW, who="test"))
    finally:
        await store.close()
    found = rows(path, "SELECT topic, content, data FROM topic_message")
    assert "opal-4711" not in json.dumps(found)
    assert {"content": "Build it with [REDACTED].", "topic": "PLAN_READY", "data": None} in found
    assert rows(path, "SELECT 1 FROM memory WHERE instr(content, 'opal-4711') > 0") == []


async def import_beside_others(folder: Path, ids: list[int]) -> Path:
    """Export these myses of a folder's swarm, and import them beside rows of another workspace."""
    file, other = folder / "some.jsonl", folder / "other"
    other.mkdir()
    file.write_text("".join(swarm_pieces(folder / "zoea.db", ids, Format.JSONL)), encoding="utf-8")
    async with with_planner(other, Answer(text=PLAN), Answer(text="One."), Answer(text="Two.")) as s:
        await s.commander.create("olga", template="planner", start=False)
        for text in ("Another issue.", "And one more."):
            await s.commander.publish("ISSUE_OPENED", text)
            await s.settled("olga")
        await s.store.write(lambda conn: conn.execute("UPDATE mysis SET uid = 'own'"))
        report = await s.store.write(lambda conn: import_file(conn, file, Settings(), lambda *_: None))
        assert len(report.arrivals) == len(ids)
    return other / "zoea.db"


def read_frozen(path: Path, mysis: str) -> list[dict[str, Any]]:
    """Read what the turns of a mysis froze, with texts of rows for their ids."""

    def text(table: str, row_id: int) -> str:
        (row,) = rows(path, f"SELECT content FROM {table} WHERE id = ?", row_id) or [{"content": ""}]
        return str(row["content"])

    def opening(turn_id: int) -> str:
        sql = "SELECT content FROM memory WHERE turn_id = ? ORDER BY seq LIMIT 1"
        return str(rows(path, sql, turn_id)[0]["content"])

    turns = []
    sql = "SELECT t.frozen FROM turn t JOIN mysis y ON y.id = t.mysis_id WHERE y.name = ? ORDER BY t.number"
    for row in rows(path, sql, mysis):
        frozen = json.loads(row["frozen"])
        frozen["mysis_id"] = rows(path, "SELECT name FROM mysis WHERE id = ?", frozen["mysis_id"])
        frozen["turn_id"] = opening(frozen["turn_id"])
        frozen["before"] = text("memory", frozen["before"])
        frozen["earlier"] = [(opening(turn_id), whole) for turn_id, whole in frozen["earlier"]]
        if frozen.get("mission_id"):
            frozen["mission_id"] = text("message", frozen["mission_id"])
        if (topics := frozen.get("topics")) is not None:
            topics["triggers"] = [(text("topic_message", number), topic) for number, topic in topics["triggers"]]
            for name in ("cluster_id", "until", "last_task_end", "last_agent_start"):
                del topics[name]
        turns.append(frozen)
    return turns


async def test_a_turn_of_the_strategy_topics_is_imported_beside_another_ledger(tmp_path: Path) -> None:
    async with with_planner(tmp_path, Answer(text=PLAN), Answer(text="Noted."), Answer(text="Noted too.")) as s:
        await s.commander.create("petra", template="planner", start=False)
        for text in ("The login fails.", "The logout fails too."):
            await s.commander.publish("ISSUE_OPENED", text)
            await s.settled("petra")
    other = await import_beside_others(tmp_path, [1])
    before, after = (read_frozen(path, "petra") for path in (tmp_path / "zoea.db", other))
    assert after == before
    assert [turn["topics"]["triggers"] for turn in after] == [
        [("The login fails.", "ISSUE_OPENED")],
        [("The logout fails too.", "ISSUE_OPENED")],
    ]
    # What a plan reads of the ledger ends before this swarm's, and is what came with the mysis.
    ledger = "SELECT t.frozen ->> '$.topics.cluster_id' AS part, t.frozen ->> '$.topics.until' AS until FROM turn t"
    (first, second) = rows(other, f"{ledger} JOIN mysis y ON y.id = t.mysis_id WHERE y.name = 'petra' ORDER BY t.id")
    came = "SELECT id FROM topic_message WHERE cluster_id = -1 AND content = ?"
    assert [first["part"], second["part"]] == [-1, -1]
    assert first["until"] == rows(other, came, "The login fails.")[0]["id"]
    assert second["until"] >= rows(other, came, "The logout fails too.")[0]["id"]
    body = rows(other, "SELECT body FROM template WHERE body LIKE '%planner%'")[0]["body"]
    assert parse_template(body).output_schema is not None


@pytest.mark.parametrize("context", [{"strategy": "window"}, {"keep_turns": 2}])
async def test_a_conversation_of_another_strategy_is_imported_beside_others(
    tmp_path: Path, context: dict[str, Any]
) -> None:
    settings = Settings.model_validate({"context": context, "nudge": {"enabled": False}})
    async with swarm(tmp_path, script(Answer(text="Aye.")), settings=settings) as s:
        await s.commander.create("alpha", start=False)
        for text in ("one", "two", "three"):
            await s.commander.send("alpha", text, limits='{"token_budget_total": 100000}')
            await s.settled("alpha")
    other = await import_beside_others(tmp_path, [1])
    before, after = (read_frozen(path, "alpha") for path in (tmp_path / "zoea.db", other))
    assert after == before
    assert any(turn.get("window") or turn["earlier"] for turn in after)
    assert [turn["mission_id"] for turn in after] == ["one", "two", "three"]
