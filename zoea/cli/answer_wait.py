"""Waits for the answers to a message, for `zoea send --wait` and `zoea broadcast --wait`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from contextlib import aclosing
from pathlib import Path

from msgspec import Struct

from zoea.cli.terminal_rows import state_word
from zoea.model.enums import Outcome
from zoea.model.errors import AnswerHeld, AnswerLate, NoRunningSwarm, NotAnswered
from zoea.model.request import EMPTY_ANSWER, NO_RESPONSE
from zoea.model.status import StatusWord
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import MysisView, Receipt, ReceiptLine, SwarmView
from zoea.process.clock import yield_with_pauses
from zoea.queries.stored_swarm import read_turn_answer
from zoea.text.control_characters import one_line

READ_AGAIN_S = 0.5
"""How long nothing changes until the receipt is read again, and until what hinders an answer counts."""
_SEE = "`zoea send --receipt {id}` shows its status, `zoea log {name}` the answer once it is there."
_KEPT = (StatusWord.WAITING, StatusWord.RETRYING, StatusWord.QUEUED)
_ENDS: dict[str, str] = {
    Outcome.CANCELLED: "its turn was stopped",
    Outcome.INTERRUPTED: "another message ended its turn",
}


class ReceivedAnswer(Struct, frozen=True):
    """What became of a message at one recipient.

    Attributes:
        status: `answered`, `not answered`, `skipped`, `withdrawn`, `held` until a person does something, or `late`.
        turn_id: The turn that took the message; None where none did.
        reason: Why there is no answer; empty for an answer.
    """

    mysis: str
    status: str
    text: str = ""
    turn_id: int | None = None
    reason: str = ""
    hint: str = ""

    @property
    def is_missing(self) -> bool:
        return self.status not in ("answered", "skipped")

    def error(self) -> NotAnswered:
        kinds = {"held": AnswerHeld, "late": AnswerLate}
        return kinds.get(self.status, NotAnswered)(self.reason, hint=self.hint)


async def wait_for_receipt(sending: Awaitable[Receipt]) -> Receipt:
    """Return the receipt of a message. An interruption reports that the message may be stored.

    Raises:
        NoRunningSwarm: The swarm ended first.
    """
    try:
        return await sending
    except NoRunningSwarm:
        hint = "The message may be stored; `zoea log NAME` shows it."
        raise NoRunningSwarm("the swarm ended before it gave a receipt", hint=hint) from None
    except asyncio.CancelledError:
        sys.stderr.write(
            "No longer waiting. There is no receipt yet, but the message may be stored; `zoea log NAME` shows it.\n"
        )
        raise


async def wait_for_answers(
    swarm: SwarmApi, receipt: Receipt, database: Path, timeout_s: float | None
) -> tuple[ReceivedAnswer, ...]:
    """Wait until all recipients have answered or need a person, or the time is over.

    Raises:
        NoRunningSwarm: The swarm ended first.
    """
    names = ", ".join(one_line(line.mysis) for line in receipt.lines[:5])
    see = _SEE.format(id=receipt.message_id, name=names if len(receipt.lines) == 1 else "NAME")
    wait = _AnswerWait(swarm, receipt, database)
    try:
        async with asyncio.timeout(timeout_s):
            await wait.run()
    except TimeoutError:
        return wait.answers(late=f"did not answer within {timeout_s:g} s and goes on")
    except NoRunningSwarm:
        raise NoRunningSwarm(
            f"the swarm ended before {names} answered",
            hint=f"The message is stored and is answered once the swarm runs again. {see}",
        ) from None
    except asyncio.CancelledError:
        sys.stderr.write(f"No longer waiting; {names} goes on with the message. {see}\n")
        raise
    return wait.answers()


class _AnswerWait:
    def __init__(self, swarm: SwarmApi, receipt: Receipt, database: Path) -> None:
        self._swarm = swarm
        self._receipt = receipt
        self._database = database
        self._view = SwarmView(0, False, "", ())
        self._myses: dict[str, MysisView] = {}
        self._hindered: dict[str, tuple[str, str]] = {}

    async def run(self) -> None:
        before: dict[str, tuple[str, str]] = {}
        stream = self._swarm.changes()
        async with aclosing(stream), aclosing(yield_with_pauses(stream, READ_AGAIN_S)) as views:
            async for view in views:
                if view is not None and not self._take(view):
                    continue
                self._receipt = await self._swarm.receipt(self._receipt.message_id)
                self._hindered = {line.mysis: why for line in self._receipt.lines if (why := self._hindrance(line))}
                # What hinders it may be over at once, so it counts only where it stands.
                lasting = {name for name, why in self._hindered.items() if view is None and before.get(name) == why}
                before = self._hindered
                if all(line.is_settled or line.mysis in lasting for line in self._receipt.lines):
                    return
        raise NoRunningSwarm("the swarm ended")

    def _take(self, view: SwarmView) -> bool:
        """Take what changed; return whether it concerns the message."""
        recipients = {line.mysis for line in self._receipt.lines}
        has_changed = view.held != self._view.held or any(one.name in recipients for one in view.myses)
        self._view = view
        self._myses |= {one.name: one for one in view.myses}
        removed = [name for name, one in self._myses.items() if one.id in view.removed]
        for name in removed:
            del self._myses[name]
        return has_changed or bool(removed)

    def _hindrance(self, line: ReceiptLine) -> tuple[str, str] | None:
        """Return why a mysis cannot answer without a person, and what to do. None where it goes on."""
        if line.is_settled:
            return None
        view, name = self._myses.get(line.mysis), one_line(line.mysis)
        see = _SEE.format(id=self._receipt.message_id, name=name)
        if view is None:
            return f"{name} was deleted before it answered", "`zoea undelete` restores it."
        match view.status:
            case StatusWord.ASKING:
                return f"{name} asks you something before it answers", "`zoea approvals` shows what; answer it there."
            case StatusWord.HELD:
                why = f": {one_line(self._view.hold_reason)}" if self._view.hold_reason else ""
                return f"the swarm is on hold{why}", f"`zoea hold --lift` lets it go on. {see}"
            case StatusWord.PAUSED:
                return f"{name} is paused", f"`zoea hold {name} --lift` lets it go on. {see}"
            case StatusWord.STOPPED:
                return f"{name} was stopped ({one_line(view.state_reason)})", f"`zoea start {name}` lets it answer."
            case StatusWord.ERRORED:
                title = view.failure.title if view.failure else view.state_reason
                return (
                    f"{name} failed ({one_line(title)})",
                    f"`zoea show {name}` says more; `zoea start {name}` retries.",
                )
        return None

    def answers(self, late: str = "") -> tuple[ReceivedAnswer, ...]:
        return tuple([self._answer(line, late) for line in self._receipt.lines])

    def _answer(self, line: ReceiptLine, late: str) -> ReceivedAnswer:
        name = one_line(line.mysis)
        if (why := self._hindered.get(line.mysis)) is not None:
            return ReceivedAnswer(line.mysis, "held", "", line.turn_id, *why)
        if not line.is_settled:
            see, view = _SEE.format(id=self._receipt.message_id, name=name), self._myses.get(line.mysis)
            keeps = f": it is {state_word(view)}" if view is not None and view.status in _KEPT else ""
            return ReceivedAnswer(line.mysis, "late", "", line.turn_id, f"{name} {late}{keeps}", see)
        if line.turn_id is None:
            reason = f"{name} did not answer: {line.reason or line.status}"
            return ReceivedAnswer(line.mysis, line.status, "", None, reason, "Send the message again.")
        answer = read_turn_answer(self._database, line.turn_id)
        if answer.outcome == Outcome.ITERATION_LIMIT:
            limit = f"{name} ended its turn without an answer, after the most requests of one"
            return ReceivedAnswer(
                line.mysis, "not answered", answer.text, line.turn_id, limit, "Raise turn.max_iterations."
            )
        if line.status == "answered" and answer.text not in ("", NO_RESPONSE):
            return ReceivedAnswer(line.mysis, "answered", answer.text, line.turn_id)
        if line.status == "answered" and not answer.text:
            cause, hint = "it ended its turn without a text", f"`zoea log {name}` shows the turn."
        elif line.status == "answered":
            cause, hint = EMPTY_ANSWER, "Send the message again, in other words."
        else:
            end = line.reason.removeprefix("not answered: ")
            cause = ": ".join(filter(None, (_ENDS.get(end, end), one_line(answer.failure))))
            start = "" if end == Outcome.INTERRUPTED else f", `zoea start {name}` relaunches it"
            hint = f"`zoea log {name}` shows the turn{start}; then send the message again."
            if line.mysis not in self._myses:
                hint = "`zoea undelete` restores it."
        return ReceivedAnswer(line.mysis, "not answered", "", line.turn_id, f"{name} did not answer: {cause}", hint)
