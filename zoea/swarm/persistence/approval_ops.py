"""Questions to the commander as rows: about a tool call or an exceeded budget.

A question is asked, asked again and expired inside the op that leads to it, so that an
answer counts whether or not a turn waits for it in this process.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from zoea.model.enums import ApprovalAnswer
from zoea.model.errors import UsageError
from zoea.model.request import GivenAnswer
from zoea.model.values import ApprovalView, GrantView
from zoea.store.database_file import convert_row
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.rules import MINUTE

if TYPE_CHECKING:
    from zoea.swarm.turn.turn_types import PreparedCall  # loads what runs turns, which readers do not need

GRANTEE = """
p.name || coalesce(' (folder ' || CASE WHEN json_valid(p.body) THEN p.body ->> 'zoea_folder' END || ')', '')
"""
"""Whose myses a grant for a template covers, as `Template.grantee`."""
# Both kinds of question in the same columns.
ANY = f"""
SELECT a.id, a.mysis_id, y.name AS mysis, coalesce(c.name, 'go on beyond the budget') AS tool,
  coalesce(c.upstream, '') AS upstream, coalesce(c.arguments, a.about) AS arguments, a.asked_at, a.expires_at, a.kind,
  a.tool_call_id, a.turn_id, a.schema_hash, a.about ->> 'grant_scope' AS grant_scope, {GRANTEE} AS template, 0 AS is_cut
FROM approval a LEFT JOIN tool_call c ON c.id = a.tool_call_id
JOIN mysis y ON y.id = a.mysis_id JOIN template p ON p.hash = y.template_hash
"""
SENTENCE_OF_CALL = (
    "SELECT sentence FROM approval WHERE tool_call_id = ? AND mysis_id = ? AND answer = 'once' ORDER BY id DESC LIMIT 1"
)
"""What the commander answered to the question of a call."""
TEMPLATE_GRANTS = "SELECT * FROM grant_ WHERE revoked_at IS NULL AND mysis_id IS NULL"
CHANGED = "coalesce(a.about ->> 'arguments', '')"
"""Arguments of the commander in place of the model's."""
NEWEST_QUESTION = {
    column: "SELECT a.asked_at, a.expires_at, a.answer, a.sentence, a.schema_hash, c.name AS tool, c.upstream,"
    f" {CHANGED} AS changed FROM approval a LEFT JOIN tool_call c ON c.id = a.tool_call_id"
    f" WHERE a.{column} = ? ORDER BY a.answer IS NULL DESC, a.id DESC LIMIT 1"
    for column in ("tool_call_id", "turn_id")
}
"""The newest question about a call or a turn, an open one first, by the column that names it."""
ALLOWED = f"""
SELECT a.tool_call_id, a.answer, a.sentence, {CHANGED} AS changed FROM approval a
JOIN tool_call c ON c.id = a.tool_call_id JOIN memory m ON m.id = c.memory_id
WHERE m.turn_id = ? AND c.state = 'sent' AND a.answer IN ('once', 'session', 'template') ORDER BY a.id
"""
"""The answers that allowed calls of a turn which have no result."""
OPEN = f"{ANY}WHERE a.answer IS NULL\n"
OPEN_KEYS = "SELECT id, tool_call_id, turn_id FROM approval WHERE answer IS NULL ORDER BY id"
CUT_CHARS = 300
LISTED = f"""
WITH asked AS ({OPEN} AND a.id IN (SELECT value FROM json_each(:ids))),
  counted AS (
    SELECT asked.*, length(arguments) AS chars, sum(length(arguments)) OVER (ORDER BY id) AS total FROM asked
  ),
  marked AS (SELECT counted.*, total > :chars AND chars > {CUT_CHARS} AS cut FROM counted)
SELECT id, mysis_id, mysis, tool, upstream, asked_at, expires_at, kind, grant_scope, cut AS is_cut,
  CASE WHEN cut THEN substr(arguments, 1, {CUT_CHARS}) ELSE arguments END AS arguments
FROM marked ORDER BY id
"""
"""Open questions by their ids, oldest first. Long arguments are cut once all so far have `:chars` characters."""


SHOWN_AGAIN_US = 5 * MINUTE
"""For so long at least a question is shown that is asked again after a restart."""


def view(row: sqlite3.Row) -> ApprovalView:
    """Convert a row of `ANY`."""
    return convert_row(ApprovalView, row)


def given_answer(row: sqlite3.Row) -> GivenAnswer:
    """Convert an answered row of `NEWEST_QUESTION`."""
    return GivenAnswer(ApprovalAnswer(row["answer"]), row["sentence"], row["changed"])


class BudgetAnswer(Struct, frozen=True):
    """The answer to a question about a budget; neither allowed nor denied is still open."""

    allowed: bool = False
    denied: bool = False


def ask_for_call(conn: WriterConnection, mysis_id: int, call_id: int, call: PreparedCall, within: int) -> None:
    """Store the question whether a call may run; it expires after `within` µs."""
    now = conn.now()
    about = "{}" if call.grant_scope is None else json.dumps({"grant_scope": call.grant_scope})
    approval_id = conn.insert(
        "INSERT INTO approval(kind, tool_call_id, mysis_id, about, schema_hash, asked_at, expires_at)"
        " VALUES ('tool',?,?,?,?,?,?)",
        (call_id, mysis_id, about, call.schema_hash, now, now + within),
    )
    conn.emit("approval.asked", mysis_id, approval=approval_id, call=call_id)


def ask_for_budget(
    conn: WriterConnection, mysis_id: int, turn_id: int, scope: str, used: int, limit: int, within: int
) -> BudgetAnswer:
    """Return this turn's answer about a budget; store the question where there is none.

    An answer counts for the rest of the turn; a question that was withdrawn has none. A denial for the swarm puts it
    on hold; once that is lifted, a new question is asked.
    """
    now = conn.now()
    row = conn.execute(
        "SELECT * FROM approval WHERE turn_id = ? AND about ->> 'budget' = ? AND NOT (answer IS 'expired'"
        " AND answered_at < expires_at) ORDER BY id DESC LIMIT 1",
        (turn_id, scope),
    ).fetchone()
    if row is not None and row["answer"] is None:
        if row["expires_at"] > now:
            return BudgetAnswer()
        conn.execute(
            "UPDATE approval SET answer = 'expired', answered_at = ? WHERE id = ? AND answer IS NULL",
            (conn.now(), row["id"]),
        )
        return BudgetAnswer(denied=True)
    if row is not None and ApprovalAnswer(row["answer"]).allows:
        return BudgetAnswer(allowed=True)
    if row is not None and not (scope == "swarm" and _lifted_since(conn, row["answered_at"])):
        return BudgetAnswer(denied=True)
    about = json.dumps({"budget": scope, "used": used, "limit": limit})
    approval_id = conn.insert(
        "INSERT INTO approval(kind, turn_id, mysis_id, about, asked_at, expires_at) VALUES ('budget',?,?,?,?,?)",
        (turn_id, mysis_id, about, now, now + within),
    )
    conn.emit("approval.asked", mysis_id, approval=approval_id, budget=scope)
    return BudgetAnswer()


def withdraw_for_budgets(conn: WriterConnection, turn_id: int, limits: Mapping[str, int | None]) -> None:
    """Expire a turn's open questions about budgets that are not among `limits`."""
    now = conn.now()
    for row in conn.execute(
        "SELECT id, about FROM approval WHERE turn_id = ? AND answer IS NULL", (turn_id,)
    ).fetchall():
        about = json.loads(row["about"])
        if limits.get(about["budget"]) != about["limit"]:
            # Before its end, unlike one that got no answer in time.
            sql = "UPDATE approval SET answer = 'expired', answered_at = ?1, expires_at = max(expires_at, ?1 + 1)"
            conn.execute(f"{sql} WHERE id = ?2", (now, row["id"]))


def _lifted_since(conn: sqlite3.Connection, at: int) -> bool:
    """True where the swarm's hold was lifted after this time."""
    row = conn.execute("SELECT value, updated_at FROM setting WHERE key = 'hold'").fetchone()
    return row is not None and row["updated_at"] >= at and not json.loads(row["value"])["on"]


def expire_of_call(conn: WriterConnection, call_id: int) -> None:
    """Expire the question of a call that has its result."""
    conn.execute(
        "UPDATE approval SET answer = 'expired', answered_at = ? WHERE tool_call_id = ? AND answer IS NULL",
        (conn.now(), call_id),
    )


def expire_of_turn(conn: WriterConnection, turn_id: int) -> None:
    """Expire the questions of a turn that has ended."""
    conn.execute(
        "UPDATE approval SET answer = 'expired', answered_at = ? WHERE turn_id = ? AND answer IS NULL",
        (conn.now(), turn_id),
    )


def ask_again(conn: WriterConnection, turn_id: int) -> None:
    """Ask the open questions of a turn that is resumed again.

    Their deadlines count from when they were asked, but `SHOWN_AGAIN_US` are left at least, because
    one that fell due while Zoea was closed could not be answered.
    """
    conn.execute(
        "UPDATE approval SET expires_at = max(expires_at, ?) WHERE answer IS NULL AND (turn_id = ? OR tool_call_id IN"
        " (SELECT c.id FROM tool_call c JOIN memory m ON m.id = c.memory_id WHERE m.turn_id = ?))",
        (conn.now() + SHOWN_AGAIN_US, turn_id, turn_id),
    )


def answer(conn: WriterConnection, asked: sqlite3.Row, given: GivenAnswer, by: str, *, by_grant: bool = False) -> bool:
    """Store the answer to a row of `OPEN` and its grant. False where it was answered before.

    Args:
        by_grant: The grant of another question answers it.
    """
    now = conn.now()
    row = conn.execute(
        "UPDATE approval SET answer = :answer, sentence = :sentence, answered_by = :by, answered_at = :now,"
        " about = CASE WHEN :arguments = '' THEN about ELSE json_set(about, '$.arguments', :arguments) END"
        " WHERE id = :id AND answer IS NULL RETURNING id",
        {**asdict(given), "by": by, "now": now, "id": asked["id"]},
    ).fetchone()
    if row is None:
        return False
    more = {key: True for key, holds in (("changed", given.arguments), ("by_grant", by_grant)) if holds}
    conn.emit("approval.answered", asked["mysis_id"], approval=asked["id"], answer=str(given.answer), **more)
    if given.answer in (ApprovalAnswer.SESSION, ApprovalAnswer.TEMPLATE):
        upstream, tool, schema_hash = grant_key(asked)
        mysis_id = asked["mysis_id"] if given.answer is ApprovalAnswer.SESSION else None
        conn.execute(
            "INSERT INTO grant_(template, mysis_id, upstream, tool, schema_hash, created_at) VALUES (?,?,?,?,?,?)",
            (asked["template"], mysis_id, upstream, tool, schema_hash, now),
        )
    return True


def answer_covered(conn: WriterConnection, asked: sqlite3.Row, how: ApprovalAnswer) -> list[sqlite3.Row]:
    """Allow the other open questions that a new grant covers. Returns their rows of `OPEN`, oldest first."""
    if how not in (ApprovalAnswer.SESSION, ApprovalAnswer.TEMPLATE):
        return []
    of_whom = "mysis_id" if how is ApprovalAnswer.SESSION else "template"
    waiting = conn.execute(f"{OPEN} AND a.expires_at > ? ORDER BY a.id", (conn.now(),)).fetchall()
    return [
        row
        for row in waiting
        if row[of_whom] == asked[of_whom]
        and row["kind"] == asked["kind"]
        and grant_key(row) == grant_key(asked)
        and answer(conn, row, GivenAnswer(ApprovalAnswer.ONCE), "commander", by_grant=True)
    ]


# Rows that allow the same are one grant, and are revoked together.
GRANTS = """
SELECT min(id) AS id, template, upstream, tool, min(created_at) AS granted_at FROM grant_
WHERE revoked_at IS NULL AND mysis_id IS NULL GROUP BY template, upstream, tool, schema_hash ORDER BY min(id)
"""


def grant_view(row: sqlite3.Row) -> GrantView:
    """Convert a row of `GRANTS`."""
    return convert_row(GrantView, row)


def revoke(conn: WriterConnection, grant_id: int) -> sqlite3.Row:
    """Revoke a grant of a template and return it. Raises UsageError for an unknown one."""
    row: sqlite3.Row | None = conn.execute(
        "SELECT *, created_at AS granted_at FROM grant_ WHERE id = ? AND revoked_at IS NULL AND mysis_id IS NULL",
        (grant_id,),
    ).fetchone()
    if row is None:
        raise UsageError(f"no grant {grant_id} holds", hint="`zoea grants` lists those that do.")
    conn.execute(
        "UPDATE grant_ SET revoked_at = ? WHERE revoked_at IS NULL AND mysis_id IS NULL"
        " AND template = ? AND upstream = ? AND tool = ? AND schema_hash = ?",
        (conn.now(), row["template"], row["upstream"], row["tool"], row["schema_hash"]),
    )
    conn.emit("grant.revoked", None, grant=grant_id)
    return row


def revoke_of(conn: WriterConnection, mysis_id: int) -> None:
    """Revoke the session grants of a mysis."""
    conn.execute("UPDATE grant_ SET revoked_at = ? WHERE mysis_id = ? AND revoked_at IS NULL", (conn.now(), mysis_id))


def revoke_of_all(conn: WriterConnection) -> None:
    """Revoke the session grants of all myses; grants of templates stay."""
    conn.execute("UPDATE grant_ SET revoked_at = ? WHERE mysis_id IS NOT NULL AND revoked_at IS NULL", (conn.now(),))


def grant_key(asked: sqlite3.Row) -> tuple[str, str, str]:
    """Return what a grant for a row of `OPEN` is bound to.

    That is upstream, tool with the command that it may run, and schema hash, or the scope of the budget.
    """
    if asked["kind"] == "budget":
        return budget_grant_key(json.loads(asked["arguments"])["budget"])
    return asked["upstream"], name_granted(asked["tool"], asked["grant_scope"]), asked["schema_hash"]


def name_granted(tool: str, scope: str | None) -> str:
    """Return the name of a grant: the tool's, with its command if it takes one."""
    return tool if scope is None else f"{tool}: {scope}"


def budget_grant_key(scope: str) -> tuple[str, str, str]:
    """Return the grant key of a budget; no tool can have this name."""
    return "", f"budget:{scope}", ""
