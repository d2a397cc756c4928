"""A sample swarm with every kind of row, and helpers to compare exports without ids."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from tests.swarm.harness import call, script, swarm
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError
from zoea.model.request import Answer
from zoea.model.values import Usage
from zoea.queries.stored_swarm import open_database
from zoea.settings.schema import Settings
from zoea.store.blobs import put_blob
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.transfer import jsonl_import
from zoea.transfer.export import Format, swarm_pieces
from zoea.transfer.report import ImportReport

SETTINGS = Settings.model_validate({"nudge": {"enabled": False}})
PICTURE = bytes(range(256)) * 5000
_KINDS = {
    "mysis_id": "mysis",
    "scope_id": "mysis",
    "sender_id": "mysis",
    "session_id": "session",
    "turn_id": "turn",
    "message_id": "message",
    "request_id": "request",
    "memory_id": "memory",
    "result_memory_id": "memory",
    "tool_call_id": "tool_call",
    "blob_id": "blob_row",
}


async def make_sample_swarm(folder: Path) -> Path:
    """Two myses with calls, reasoning, an image, a failure, a broadcast, an approval, pending deliveries."""
    says = call("zoea_broadcast", "Iron [/] \u2028 in the belt")
    replies = script(
        Answer(
            text="let me look", reasoning="hm\ud800", calls=(call("look", "x"), call("act", "|:\n\0")), usage=Usage(9)
        ),
        Answer(calls=(says,)),
        Answer(text="done 鉄 🪨", usage=Usage(10, 2, 3)),
        Answer(text="heard"),
        Answer(calls=(call("burn", "all"),)),
        ProviderError("no such model", kind=ErrorClass.MODEL_MISSING),
    )
    async with swarm(folder, replies, settings=SETTINGS) as inner:
        commander = inner.commander
        await commander.create("alpha", tags=("miner", "red"), start=False)
        await commander.create("beta", start=False)
        await commander.send("alpha", "Mine\niron", idempotency_key="k-1")
        await inner.settled("alpha")
        await inner.settled("beta")
        await commander.send("alpha", "burn it")
        await inner.until(lambda: _asked(inner.path))
        await commander.stop("alpha")
        await commander.send("beta", "again")
        await inner.until(lambda: inner.state("beta") == "errored")
        await inner.store.write(_picture)
    return folder / "zoea.db"


def _asked(path: Path) -> bool:
    with open_database(path) as reader:
        return bool(reader.execute("SELECT 1 FROM approval").fetchone())


def _picture(conn: WriterConnection) -> None:
    """Add an image of a tool result, a note, and a pending message."""
    memory_id = conn.execute("SELECT id FROM memory WHERE role = 'tool' ORDER BY id LIMIT 1").fetchone()[0]
    for position, data in enumerate((PICTURE, b"small")):
        conn.execute(
            "INSERT INTO memory_blob(memory_id, position, blob_id, media_type, note) VALUES (?,?,?,'image/png','a')",
            (memory_id, position, put_blob(conn, data)),
        )
    conn.execute("INSERT INTO turn_note(turn_id, after_seq, kind, content) VALUES (1, 2, 'loop', 'You repeat')")
    conn.execute(
        "INSERT INTO message(kind, sender_kind, content, created_at) VALUES ('direct', 'client', 'wait for it', 5)"
    )
    conn.execute(
        "INSERT INTO approval(kind, turn_id, mysis_id, about, answer, asked_at, expires_at)"
        """ VALUES ('budget', 1, 1, '{"scope": "mysis", "used": 7, "limit": 5}', 'once', 5, 6)"""
    )
    conn.execute(
        "INSERT INTO delivery(message_id, mysis_id, mode, state, created_at)"
        " VALUES ((SELECT max(id) FROM message), 1, 'queue', 'pending', 5)"
    )
    conn.execute(
        "INSERT INTO message(kind, sender_kind, sender_id, sender_name, content, recipients_filter, created_at)"
        " VALUES ('direct', 'mysis', 1, 'alpha', 'Commander, I am rich', '{\"to\": \"commander\"}', 6)"
    )


def export_lines(path: Path, *myses: int, redact: bool | None = None) -> str:
    return "".join(swarm_pieces(path, myses, Format.JSONL, redact=redact))


async def import_files_into(database: Path, *files: Path, settings: Settings = SETTINGS) -> list[ImportReport]:
    """Import the files through a real store."""
    store = await Store.open(database, clock_now=lambda: 1_800_000_000_000_000)
    try:
        return [await store.write(partial(import_into, file=file, settings=settings)) for file in files]
    finally:
        await store.close()


def import_into(conn: WriterConnection, file: Path, settings: Settings = SETTINGS) -> ImportReport:
    return jsonl_import.import_file(conn, file, settings, lambda *_: None)


def parse_without_ids(text: str) -> list[dict[str, Any]]:
    """Parse every line and replace its ids by their order of occurrence."""
    lines = [json.loads(line) for line in text.split("\n") if line]
    places: dict[tuple[str, int], int] = {}
    for line in lines:  # rows before references, so that the order is that of the rows
        if "id" in line:
            _place(places, "mysis" if line["kind"] == "sender" else line["kind"], line["id"])
    return [_moved(line, places) for line in lines]


def _place(places: dict[tuple[str, int], int], kind: str, id_: int) -> int:
    return places.setdefault((kind, id_), sum(1 for known, _ in places if known == kind) + 1)


def _moved(line: dict[str, Any], places: dict[tuple[str, int], int]) -> dict[str, Any]:
    moved = dict(line)
    if "id" in line:
        moved["id"] = _place(places, "mysis" if line["kind"] == "sender" else line["kind"], line["id"])
    for name, kind in _KINDS.items():
        if line.get(name) is not None:
            moved[name] = _place(places, kind, line[name])
    if "frozen" in line:
        frozen = json.loads(line["frozen"])
        frozen["mysis_id"] = _place(places, "mysis", frozen["mysis_id"])
        frozen["turn_id"] = _place(places, "turn", frozen["turn_id"])
        frozen["before"] = _place(places, "memory", frozen["before"]) if frozen["before"] else 0
        moved["frozen"] = frozen
    if plan := line.get("plan"):
        moved["plan"] = {
            **plan,
            "steps": [{**step, "memory_id": _place(places, "memory", step["memory_id"])} for step in plan["steps"]],
            "messages": [
                {**one, **{key: _place(places, "memory", one[key]) for key in ("m", "id") if key in one}}
                for one in plan["messages"]
            ],
        }
    return moved


def read_rows(database: Path, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    with open_database(database) as reader:
        return [tuple(row) for row in reader.execute(sql, parameters)]


def write_lines(folder: Path, lines: Iterable[dict[str, Any]] | str) -> Path:
    """A file of these lines."""
    file = folder / "in.jsonl"
    text = lines if isinstance(lines, str) else "".join(json.dumps(line) + "\n" for line in lines)
    file.write_text(text, encoding="utf-8")
    return file


def count_rows(database: Path) -> dict[str, int]:
    """Count the rows of each table, to check that nothing changed."""
    with open_database(database) as reader, closing(reader.cursor()) as cursor:
        names = [row[0] for row in cursor.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()]
        plain = [name for name in names if "_exact" not in name and "_words" not in name and "sqlite_" not in name]
        return {name: cursor.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in plain}
