"""Writes imported myses into the workspace and resolves conflicts of names, senders and messages.

Used inside one op, over the op's connection. A sender that is not in the workspace becomes
an archived mysis with its name and uid, which is completed when its own conversation is
imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zoea.model.errors import StoreError, SwarmFull
from zoea.settings.template import Template
from zoea.store.retention import ONLY_A_SENDER
from zoea.store.writer_connection import WriterConnection

LONGEST_NAME = 40


class ImportTarget:
    """The workspace that one op imports into.

    Args:
        conn: The op's connection.
        max_myses: Limit of living myses (`swarm.max_myses`).
    """

    def __init__(self, conn: WriterConnection, max_myses: int) -> None:
        self.conn = conn
        self._max = max_myses
        self._living = {row[0].casefold() for row in conn.execute("SELECT name FROM mysis WHERE deleted_at IS NULL")}

    def known(self, uid: str) -> str | None:
        """Return the name of the mysis with this uid; None for a sender without conversation."""
        row = self.conn.execute("SELECT name, state_reason, deleted_at FROM mysis WHERE uid = ?", (uid,)).fetchone()
        if row is None or row["state_reason"] == ONLY_A_SENDER:
            return None
        return str(row["name"]) + (", which is deleted" if row["deleted_at"] is not None else "")

    def free_name(self, wanted: str) -> str:
        """Return the name, with the lowest free number appended if a living mysis has it."""
        name, number = wanted, 1
        while name.casefold() in self._living:
            number += 1
            ending = f"-{number}"
            name = wanted[: LONGEST_NAME - len(ending)].rstrip() + ending
        return name

    def admit(self, columns: Mapping[str, Any]) -> int:
        """Store a mysis and return its id. Its template must be stored and its name free.

        Raises:
            SwarmFull: if the limit of living myses is reached.
        """
        lives = columns.get("deleted_at") is None
        if lives and len(self._living) >= self._max:
            raise SwarmFull(
                f"max myses ({self._max}) reached: {columns['name']} does not fit in",
                hint="Delete a mysis, or raise swarm.max_myses in the settings, and import again.",
            )
        stub = self.conn.execute("SELECT id FROM mysis WHERE uid = ?", (columns["uid"],)).fetchone()
        if stub is not None:
            assignments = ", ".join(f"{name} = ?" for name in columns)
            self.conn.execute(f"UPDATE mysis SET {assignments} WHERE id = ?", (*columns.values(), stub[0]))
            mysis_id: int = stub[0]
        else:
            mysis_id = insert_with_id(self.conn, "mysis", columns)
            self.conn.execute("INSERT INTO tally(mysis_id) VALUES (?)", (mysis_id,))
        if lives:
            self._living.add(columns["name"].casefold())
        self.conn.emit("mysis.imported", mysis_id)
        return mysis_id

    def template(self, template: Template) -> bytes:
        """Store a template unless it exists; return its hash."""
        self.conn.execute(
            "INSERT OR IGNORE INTO template(hash, name, body, created_at) VALUES (?,?,?,?)",
            (template.hash, template.name, template.text, self.conn.now()),
        )
        return template.hash

    def sender(self, uid: str, name: str) -> int:
        """Return the id of the mysis with this uid; create an archived one if missing."""
        row = self.conn.execute("SELECT id FROM mysis WHERE uid = ?", (uid,)).fetchone()
        if row is not None:
            return int(row[0])
        now = self.conn.now()
        mysis_id = insert_with_id(
            self.conn,
            "mysis",
            {
                "uid": uid,
                "name": name,
                "template_hash": self.template(Template(name="default")),
                "provider": "",
                "model": "",
                "state": "stopped",
                "state_reason": ONLY_A_SENDER,
                "state_at": now,
                "created_at": now,
                "deleted_at": now,
            },
        )
        self.conn.execute("INSERT INTO tally(mysis_id) VALUES (?)", (mysis_id,))
        return mysis_id

    def message(self, columns: Mapping[str, Any], mysis_id: int, *, moment: int = 0) -> int:
        """Store a message, or find the same broadcast of another recipient; return its id.

        Args:
            columns: The message's columns, with the sender's id of this workspace.
            mysis_id: The recipient; a message is delivered to it once.
            moment: Largest difference in µs between the times of one broadcast.
        """
        if columns["kind"] == "broadcast":
            row = self.conn.execute(
                "SELECT id FROM message WHERE kind = 'broadcast' AND sender_kind = ? AND created_at BETWEEN ? AND ?"
                " AND content = ? AND sender_id IS ? AND sender_name = ? AND recipients_filter IS ?"
                " AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.message_id = message.id AND d.mysis_id = ?)"
                " ORDER BY abs(created_at - ?), id LIMIT 1",
                (
                    columns["sender_kind"],
                    columns["created_at"] - moment,
                    columns["created_at"] + moment,
                    columns["content"],
                    columns.get("sender_id"),
                    columns.get("sender_name", ""),
                    columns.get("recipients_filter"),
                    mysis_id,
                    columns["created_at"],
                ),
            ).fetchone()
            if row is not None:
                return int(row[0])
        key = columns.get("idempotency_key")
        if key and self.conn.execute("SELECT 1 FROM message WHERE idempotency_key = ?", (key,)).fetchone():
            columns = {**columns, "idempotency_key": None}  # a message of this workspace has the key
        return insert_with_id(self.conn, "message", columns)


def insert_row(conn: WriterConnection, table: str, columns: Mapping[str, Any]) -> int | None:
    """Insert a row of any table; return its SQLite row id. Names come from the schema, never from a file."""
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    return conn.execute(f"INSERT INTO {table}({names}) VALUES ({marks})", tuple(columns.values())).lastrowid


def insert_with_id(conn: WriterConnection, table: str, columns: Mapping[str, Any]) -> int:
    """Insert a row of a table with ids, as `insert_row`; return the id."""
    row_id = insert_row(conn, table, columns)
    if row_id is None:
        raise StoreError(f"nothing was inserted into {table}")
    return row_id
