"""What fronts ask of questions and grants: `ApprovalApi` over the running swarm."""

from __future__ import annotations

import json
import sqlite3

from zoea.model.enums import ASK_TOOL, ApprovalAnswer
from zoea.model.errors import UsageError
from zoea.model.request import GivenAnswer
from zoea.model.values import ApprovalView, GrantView
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import approval_ops
from zoea.swarm.swarm import SwarmCommands
from zoea.text import clean

ONLY_ONCE = (
    "A grant covers a simple command with its arguments, and no line that a shell may read as more: no pipes, several "
    "commands, substitutions, patterns, variables or programs that run others."
)
MOST_LISTED = 5_000
LISTED_CHARS = 2_000_000
"""Questions of the list, and characters of their arguments, because it is sent to fronts in one frame."""


class ApprovalCommands(SwarmCommands):
    """The bodies of the methods of `ApprovalApi`."""

    async def approvals(self) -> tuple[ApprovalView, ...]:
        """Return the questions that wait now, the `MOST_LISTED` oldest first, with `LISTED_CHARS` of arguments."""
        services = self.swarm.services
        rows = await services.store.read(approval_ops.OPEN_KEYS)
        ids = [row["id"] for row in rows if services.approvals.waits_for(row)][:MOST_LISTED]
        listed = await services.store.read(approval_ops.LISTED, {"ids": json.dumps(ids), "chars": LISTED_CHARS})
        return tuple(approval_ops.view(row) for row in listed)

    async def answer(
        self, approval_id: int, answer: ApprovalAnswer, *, sentence: str = "", arguments: str = ""
    ) -> None:
        """Store an answer and pass it to the turn that waits.

        Raises UsageError where the question does not exist, is answered, or cannot be answered so.
        """
        services = self.swarm.services
        rows = await services.store.read(f"{approval_ops.OPEN} AND a.id = ?", (approval_id,))
        if not rows:
            raise UsageError(
                f"approval {approval_id} does not wait for an answer", hint="`zoea approvals` lists those that do."
            )
        row, asked = rows[0], approval_ops.view(rows[0])
        if answer in (ApprovalAnswer.SESSION, ApprovalAnswer.TEMPLATE) and asked.why_once:
            raise UsageError(asked.why_once, hint=ONLY_ONCE)
        if answer is ApprovalAnswer.TEMPLATE and asked.why_no_grant:
            raise UsageError(
                asked.why_no_grant, hint="Allow it once or until this mysis stops, or raise the template's budget."
            )
        if arguments and answer is not ApprovalAnswer.ONCE:
            raise UsageError("changed arguments can be allowed only once", hint="Leave out what allows or denies more.")
        if arguments:
            arguments = await services.approvals.read_changed(row, arguments)
        verdict = GivenAnswer(answer, clean(sentence), arguments)
        in_words = answer is ApprovalAnswer.DENIED or (answer is ApprovalAnswer.ONCE and sentence.strip())
        if row["tool"] == ASK_TOOL and not row["upstream"] and not in_words:
            raise UsageError("it asks a question", hint=f"Answer it in words: zoea answer {approval_id} TEXT.")

        def write(conn: WriterConnection) -> list[sqlite3.Row] | None:
            if not approval_ops.answer(conn, row, verdict, "commander"):
                return None
            return approval_ops.answer_covered(conn, row, answer)

        covered = await self.swarm.write(write)
        if covered is None:
            raise UsageError(f"approval {approval_id} was answered already")
        services.approvals.take_answer(row, verdict, covered)

    async def grants(self) -> tuple[GrantView, ...]:
        rows = await self.swarm.services.store.read(approval_ops.GRANTS)
        return tuple(approval_ops.grant_view(row) for row in rows)

    async def revoke(self, grant_id: int) -> GrantView:
        row = await self.swarm.write(lambda conn: approval_ops.revoke(conn, grant_id))
        self.swarm.services.approvals.revoke(row)
        return approval_ops.grant_view(row)
