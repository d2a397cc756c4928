"""Commits the files of a turn, and publishes its output on topics."""

from __future__ import annotations

import json

from msgspec import Struct, field

from zoea.context import TopicRules
from zoea.context.topics.output_check import OutputCheck, check_output
from zoea.model.enums import Outcome, SenderKind
from zoea.model.errors import RateExceeded, UsageError
from zoea.model.request import NO_COMMIT, FileCommit
from zoea.model.topics import EVERYONE
from zoea.model.values import Delivery, Sender
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import topic_ops, turn_ops
from zoea.swarm.resolved_template import MysisProfile
from zoea.swarm.services import Services
from zoea.swarm.turn import turn_types as t
from zoea.swarm.turn.shown_notes import NOT_PUBLISHED
from zoea.text import clean

_SUMMARY = "summary"
"""The key of an output that is published as the text of the message too."""


class OutputStage(Struct):
    """The outputs of one turn.

    Attributes:
        published: Deliveries to hand over once the op is stored.
        is_idle_report: The mysis reports its task as done and changed no file of its worktree.
    """

    services: Services
    profile: MysisProfile
    rules: TopicRules | None
    hop: int
    published: tuple[Delivery, ...] = field(default=())
    is_idle_report: bool = False

    def check(self, text: str) -> OutputCheck | None:
        """Check an answer without calls; None where its role has no output schema."""
        schema = self.profile.template.output_schema
        return None if self.rules is None or schema is None else check_output(text, schema)

    def conclude(self, conn: WriterConnection, op: t.TurnOp) -> None:
        """Publish the output of a turn's last op, and store the place in the ledger."""
        if self.rules is None or not isinstance(op, t.StoreAnswer | t.CloseTurn) or op.outcome is not Outcome.ANSWERED:
            return
        topic = self.profile.template.publishes
        if isinstance(op, t.StoreAnswer) and op.output and topic:
            self._publish(conn, op, topic)
        topic_ops.end_task(conn, self.profile.mysis_id, self.rules.cluster_id)

    async def commit_files(self, op: t.TurnOp, end: t.TurnEnd) -> FileCommit:
        """Commit the turn's changes in its worktree, with the mysis's last words as the message."""
        files = self.services.files
        if files is None or isinstance(op, t.BreakOffTurn):
            return NO_COMMIT
        message = end.summary or next(reversed(end.said), "") or f"{self.profile.name}: {end.outcome.value}"
        made = await files.commit(self.profile.uid, self.profile.name, self.profile.template, message)
        self.is_idle_report = end.done and made.is_unchanged
        return made

    def _publish(self, conn: WriterConnection, op: t.StoreAnswer, topic: str) -> None:
        data = json.loads(op.output)
        text = data.get(_SUMMARY)
        try:
            outgoing = topic_ops.OutgoingTopicMessage(
                topic,
                clean(text) if isinstance(text, str) else "",
                topic_ops.checked_data(data),
                Sender(SenderKind.MYSIS, self.profile.mysis_id, self.profile.name),
                EVERYONE,
                hop=self.hop + 1,
                turn_id=op.turn_id,
                cluster_id=self.rules.cluster_id if self.rules is not None else 0,
            )
            if self.profile.template.send != "swarm":
                raise UsageError("the template does not let it write to other myses")
            topic_ops.check_size(outgoing, self.services.topics.room_on(topic))
            self.published = self.services.topics.publish_in(conn, outgoing).deliveries
        except (UsageError, RateExceeded) as error:
            note = t.StoreNote(op.turn_id, op.seq, NOT_PUBLISHED, f"not published on {topic}: {error.what}")
            turn_ops.store_note(conn, self.profile.mysis_id, note)

    def hand_over(self) -> None:
        """Hand a published output to its subscribers."""
        published, self.published = self.published, ()
        self.services.topics.hand_over(published)
