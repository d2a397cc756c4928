"""Tool calls that wait for a person: who waits in this process, what was granted, when it expires.

The row is written in the op that stores the call; here is only what makes the
waiting turn go on. Source: memory.md, "Upstreams", policy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from zoea.model.errors import UsageError
from zoea.model.ports import Clock, Timer
from zoea.model.request import ToolSpec
from zoea.model.values import ApprovalView
from zoea.model.words import ApprovalAnswer
from zoea.store import Store, WriterConnection
from zoea.swarm import turn_ops
from zoea.text import clean

_log = logging.getLogger(__name__)

_OPEN = (
    "SELECT a.id, a.mysis_id, y.name AS mysis, a.tool_call_id, c.name AS tool, c.upstream, c.arguments, a.asked_at,"
    " a.expires_at, p.name AS template FROM approval a JOIN tool_call c ON c.id = a.tool_call_id"
    " JOIN mysis y ON y.id = a.mysis_id JOIN template p ON p.hash = y.template_hash WHERE a.answer IS NULL"
)

Post = Callable[[int, ApprovalAnswer, str], None]


@dataclass(slots=True)
class _Waiting:
    mysis_id: int
    spec: ToolSpec
    post: Post
    timer: Timer | None = None


class ApprovalDesk:
    """Asks and answers. Grants outlive the question: for a session, or for all myses of a template."""

    def __init__(self, store: Store, clock: Clock, touched: Callable[[int, int], None]) -> None:
        self._store = store
        self._clock = clock
        self._touched = touched
        self._waiting: dict[int, _Waiting] = {}
        self._session_grants: set[tuple[int, str, str, str]] = set()
        self._template_grants: set[tuple[str, str, str, str]] = set()

    async def load(self) -> None:
        """Grants for templates hold across restarts."""
        for row in await self._store.read("SELECT * FROM grant_ WHERE revoked_at IS NULL AND mysis_id IS NULL"):
            self._template_grants.add((row["template"], row["upstream"], row["tool"], row["schema_hash"]))

    def is_granted(self, mysis_id: int, template: str, spec: ToolSpec) -> bool:
        """True where a person allowed this very tool before: a changed schema asks again."""
        tool = (spec.upstream, spec.name, spec.schema_hash)
        return (mysis_id, *tool) in self._session_grants or (template, *tool) in self._template_grants

    def session_ended(self, mysis_id: int) -> None:
        self._session_grants = {grant for grant in self._session_grants if grant[0] != mysis_id}

    async def ask(self, call_id: int, mysis_id: int, spec: ToolSpec, post: Post) -> None:
        """Let a turn wait for the answer; `post` is called with it, once."""
        # Waiting before reading: an answer that comes meanwhile is posted, an earlier one stands in the row.
        waiting = self._waiting[call_id] = _Waiting(mysis_id, spec, post)
        self._count(mysis_id)
        found = await self._store.read(
            "SELECT expires_at, answer, sentence FROM approval WHERE tool_call_id = ? ORDER BY id DESC LIMIT 1",
            (call_id,),
        )
        if self._waiting.get(call_id) is not waiting:
            return
        if found and found[0]["answer"] is not None:
            self._post(call_id, ApprovalAnswer(found[0]["answer"]), found[0]["sentence"])
            return
        expires = found[0]["expires_at"] if found else self._clock.now()
        waiting.timer = self._clock.call_at(expires, lambda: self._post(call_id, ApprovalAnswer.EXPIRED, ""))

    def forget(self, call_ids: frozenset[int]) -> None:
        """A turn that ended waits no more."""
        for call_id in call_ids:
            self._take(call_id)

    def _take(self, call_id: int) -> _Waiting | None:
        waiting = self._waiting.pop(call_id, None)
        if waiting is not None:
            if waiting.timer is not None:
                waiting.timer.cancel()
            self._count(waiting.mysis_id)
        return waiting

    def _count(self, mysis_id: int) -> None:
        self._touched(mysis_id, sum(1 for waiting in self._waiting.values() if waiting.mysis_id == mysis_id))

    async def open(self) -> tuple[ApprovalView, ...]:
        """What waits now, oldest first."""
        rows = await self._store.read(f"{_OPEN} ORDER BY a.id")
        return tuple(
            ApprovalView(
                id=row["id"],
                mysis_id=row["mysis_id"],
                mysis=row["mysis"],
                tool=row["tool"],
                upstream=row["upstream"],
                arguments=row["arguments"],
                asked_at=row["asked_at"],
                expires_at=row["expires_at"],
            )
            for row in rows
            if row["tool_call_id"] in self._waiting
        )

    async def answer(self, approval_id: int, answer: ApprovalAnswer, sentence: str, by: str) -> None:
        """Raises UsageError where there is no such question, or it was answered before."""
        rows = await self._store.read(f"{_OPEN} AND a.id = ?", (approval_id,))
        if not rows:
            raise UsageError(f"approval {approval_id} does not wait for an answer")
        row = rows[0]
        waiting = self._waiting.get(row["tool_call_id"])
        spec = waiting.spec if waiting else ToolSpec(row["tool"], "", {}, upstream=row["upstream"])

        def op(conn: WriterConnection) -> bool:
            answered = turn_ops.answer_approval(conn, approval_id, answer, sentence, by)
            if answered is not None and answer in (ApprovalAnswer.SESSION, ApprovalAnswer.TEMPLATE):
                conn.execute(
                    "INSERT INTO grant_(template, mysis_id, upstream, tool, schema_hash, created_at)"
                    " VALUES (?,?,?,?,?,?)",
                    (
                        row["template"],
                        row["mysis_id"] if answer is ApprovalAnswer.SESSION else None,
                        spec.upstream,
                        spec.name,
                        spec.schema_hash,
                        conn.now(),
                    ),
                )
            return answered is not None

        if not await self._store.write(op):
            raise UsageError(f"approval {approval_id} was answered already")
        tool = (spec.upstream, spec.name, spec.schema_hash)
        if answer is ApprovalAnswer.SESSION:
            self._session_grants.add((row["mysis_id"], *tool))
        elif answer is ApprovalAnswer.TEMPLATE:
            self._template_grants.add((row["template"], *tool))
        self._post(row["tool_call_id"], answer, clean(sentence))

    def _post(self, call_id: int, answer: ApprovalAnswer, sentence: str) -> None:
        waiting = self._take(call_id)
        if waiting is not None:
            waiting.post(call_id, answer, sentence)
