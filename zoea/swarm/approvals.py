"""Questions to the commander that wait for an answer in this process.

The row of a question is written in the op that leads to it; this module makes the waiting
turn continue.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Awaitable, Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from zoea.model.enums import ASK_TOOL, ApprovalAnswer
from zoea.model.errors import UsageError
from zoea.model.ports import Clock, Timer
from zoea.model.request import Answer, AnswerCall, GivenAnswer, ToolSpec
from zoea.store.store import Store
from zoea.swarm.persistence import approval_ops
from zoea.text.command_lines import find_grant_scope
from zoea.tools.toolbox import read_call

CHANGED = "its server changed this tool since the question was asked; look at its arguments and call it again"
_Key = tuple[str, int]
"""The column of `approval` that says what is asked about, and the row it names."""


Post = Callable[[GivenAnswer], None]
Conceal = Callable[[Answer], Awaitable[Answer]]
"""Puts marks in the place of secrets in the calls of an answer."""


class _OpenQuestion(Struct):
    mysis_id: int
    post: Post
    spec: ToolSpec | None = None
    conceal: Conceal | None = None
    timer: Timer | None = None
    wants_words: bool = False


class ApprovalQueue:
    """Asks questions, takes answers and holds the grants.

    A grant holds for a session, or for all myses of a template. `touched` is called with the id
    of a mysis, the number of its open questions, and how many of those want words.
    """

    def __init__(self, store: Store, clock: Clock, touched: Callable[[int, int, int], None]) -> None:
        self._store = store
        self._clock = clock
        self._touched = touched
        self._waiting: dict[_Key, _OpenQuestion] = {}
        self._session_grants: set[tuple[int, str, str, str]] = set()
        self._template_grants: set[tuple[str, str, str, str]] = set()

    async def load(self) -> None:
        """Load the grants for templates; they hold across restarts."""
        for row in await self._store.read(approval_ops.TEMPLATE_GRANTS):
            self._template_grants.add((row["template"], row["upstream"], row["tool"], row["schema_hash"]))

    def is_granted(self, mysis_id: int, template: str, spec: ToolSpec, arguments: str = "{}") -> bool:
        """Whether a person allowed this tool with the same schema and command before."""
        scope = find_grant_scope(arguments) if spec.takes_command else None
        if scope == "":
            return False
        tool = (spec.upstream, approval_ops.name_granted(spec.name, scope), spec.schema_hash)
        return (mysis_id, *tool) in self._session_grants or (template, *tool) in self._template_grants

    def may_exceed(self, mysis_id: int, scope: str) -> bool:
        """True where a person let this mysis exceed that budget until it stops."""
        return (mysis_id, *approval_ops.budget_grant_key(scope)) in self._session_grants

    def session_ended(self, mysis_id: int) -> None:
        """Drop the session grants of a mysis that was stopped."""
        self._session_grants = {grant for grant in self._session_grants if grant[0] != mysis_id}

    async def ask_for_call(
        self, call_id: int, mysis_id: int, post: Post, spec: ToolSpec | None = None, conceal: Conceal | None = None
    ) -> None:
        """Wait for the answer about a call; `post` is called with it once.

        A question that was asked before a restart, about another form of the tool than `spec`, is denied.
        """
        await self._ask(("tool_call_id", call_id), mysis_id, post, spec, conceal)

    async def ask_for_budget(self, turn_id: int, mysis_id: int, post: Post) -> None:
        """Wait for the answer about a budget; `post` is called with it once."""
        await self._ask(("turn_id", turn_id), mysis_id, post)

    def review_budgets(self, mysis_id: int) -> None:
        """Let turns that wait for an answer about a budget reserve again."""
        for key in [key for key, one in self._waiting.items() if key[0] == "turn_id" and one.mysis_id == mysis_id]:
            self._post(
                key, GivenAnswer(ApprovalAnswer.EXPIRED)
            )  # the turn reads the answer from its row, which has none

    def waits_for_budget(self, turn_id: int) -> bool:
        return ("turn_id", turn_id) in self._waiting

    async def _ask(
        self, key: _Key, mysis_id: int, post: Post, spec: ToolSpec | None = None, conceal: Conceal | None = None
    ) -> None:
        self._take(key)
        # Registered before reading, so that an answer given during the read is posted.
        waiting = self._waiting[key] = _OpenQuestion(mysis_id, post, spec, conceal)
        self._count(mysis_id)
        began, began_at = self._clock.uptime(), self._clock.now()
        column, row_id = key
        rows = await self._store.read(approval_ops.NEWEST_QUESTION[column], (row_id,))
        if self._waiting.get(key) is not waiting:
            return
        if rows and spec is not None and spec.upstream and rows[0]["schema_hash"] != spec.schema_hash:
            self._post(key, GivenAnswer(ApprovalAnswer.DENIED, CHANGED))
            return
        if rows and rows[0]["answer"] is not None:
            self._post(key, approval_ops.given_answer(rows[0]))
            return
        if rows and rows[0]["tool"] == ASK_TOOL and not rows[0]["upstream"]:
            waiting.wants_words = True
            self._count(mysis_id)
        whole = rows[0]["expires_at"] - rows[0]["asked_at"] if rows else 0
        rest = rows[0]["expires_at"] - began_at if rows else 0
        # A rest that cannot be: the clock was set since, and the row was moved with it.
        lasts = rest if 0 < rest <= whole else whole
        left = began + lasts - self._clock.uptime()
        waiting.timer = self._clock.call_after(left, lambda: self._post(key, GivenAnswer(ApprovalAnswer.EXPIRED)))

    def forget(self, turn_id: int, call_ids: frozenset[int]) -> None:
        """Drop the questions of a turn that ended."""
        self._take(("turn_id", turn_id))
        for call_id in call_ids:
            self._take(("tool_call_id", call_id))

    def _take(self, key: _Key) -> _OpenQuestion | None:
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            if waiting.timer is not None:
                waiting.timer.cancel()
            self._count(waiting.mysis_id)
        return waiting

    def _count(self, mysis_id: int) -> None:
        of_it = [waiting for waiting in self._waiting.values() if waiting.mysis_id == mysis_id]
        self._touched(mysis_id, len(of_it), sum(waiting.wants_words for waiting in of_it))

    def waits_for(self, row: sqlite3.Row) -> bool:
        """Return whether the question of a row of `OPEN` waits in this process."""
        return any((column, row[column]) in self._waiting for column in ("tool_call_id", "turn_id"))

    async def read_changed(self, row: sqlite3.Row, text: str) -> str:
        """Return changed arguments as sent, with marks for secrets, so they may be stored.

        Raises:
            UsageError: The call cannot run with them.
        """
        if row["kind"] == "budget" or (row["tool"] == ASK_TOOL and not row["upstream"]):
            raise _refuse_change("only the arguments of a tool call can be changed")
        waiting = self._waiting.get(_key_of(row))
        if waiting is None or waiting.spec is None:
            raise _refuse_change("its mysis does not run; start it before you change the arguments of its call")
        call = AnswerCall(row["tool"], text)
        arguments, refusal = read_call(waiting.spec, call)
        if refusal:
            raise _refuse_change(refusal)
        # Stored, told and sent alike: of equal keys the last one, and no lone surrogates.
        call = replace(call, arguments=json.dumps(arguments, ensure_ascii=False))
        if waiting.conceal is not None:
            (call,) = (await waiting.conceal(Answer(calls=(call,)))).calls
        return call.arguments

    def take_answer(self, row: sqlite3.Row, given: GivenAnswer, covered: Iterable[sqlite3.Row]) -> None:
        """Keep a grant, and pass the answer to its turn and those of `covered` questions."""
        grant = approval_ops.grant_key(row)
        if given.answer is ApprovalAnswer.SESSION:
            self._session_grants.add((row["mysis_id"], *grant))
        elif given.answer is ApprovalAnswer.TEMPLATE:
            self._template_grants.add((row["template"], *grant))
        self._post(_key_of(row), given)
        for other in covered:
            self._post(_key_of(other), GivenAnswer(ApprovalAnswer.ONCE))

    def revoke(self, row: sqlite3.Row) -> None:
        """Hold a grant for a template no longer."""
        self._template_grants.discard((row["template"], row["upstream"], row["tool"], row["schema_hash"]))

    def _post(self, key: _Key, given: GivenAnswer) -> None:
        waiting = self._take(key)
        if waiting is not None:
            waiting.post(given)


def _refuse_change(reason: str) -> UsageError:
    return UsageError(reason, hint="Give the arguments as one JSON object.")


def _key_of(row: sqlite3.Row) -> _Key:
    """Return the key under which a row of `OPEN` is waited for."""
    column = "turn_id" if row["kind"] == "budget" else "tool_call_id"
    return column, row[column]
