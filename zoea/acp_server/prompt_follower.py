"""Follows a mysis from the prompt of an editor to its answer.

It streams the text, shows calls and asks for approvals.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

from acp import RequestError, helpers, schema
from msgspec.structs import replace

from zoea.acp_server import session_updates as updates
from zoea.model.enums import ApprovalAnswer, Outcome, Role
from zoea.model.errors import NoRunningSwarm, ZoeaError
from zoea.model.status import StatusWord
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import ApprovalView, Memory, MysisView, Receipt, SwarmView, ToolCall
from zoea.process.clock import yield_with_pauses
from zoea.queries.conversation import read_content, read_newest
from zoea.queries.events import read_newest_id, read_retries
from zoea.queries.stored_swarm import read_approval, read_turn_answer
from zoea.text.control_characters import reveal

_log = logging.getLogger(__name__)

READ_AGAIN_S = 0.5
"""How long nothing changes until the database is read again, and until a hindrance of the answer counts."""


class Editor(Protocol):
    """The client, as far as a prompt needs it."""

    async def session_update(self, *, session_id: str, update: updates.Update) -> None: ...

    async def request_permission(
        self, *, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> schema.RequestPermissionResponse: ...


class ShownStream:
    """How much of what a mysis writes an editor was shown."""

    def __init__(self) -> None:
        self._end = 0
        self._text = ""
        self._is_whole = True
        self._thoughts = ""
        self._stored = ("", "")

    def begin_at(self, view: MysisView) -> None:
        """Skip the text that the mysis wrote before this prompt."""
        self._end = view.streamed_before + len(view.streaming)

    def read(self, view: MysisView) -> tuple[str, str]:
        """Return the new text and the new thoughts since the last call."""
        text = thought = ""
        # A view may be older than the stored answer, and hold a part of it that was shown with it.
        is_old = not self._text and view.streaming in self._stored[0]
        if not is_old and view.streamed_before + len(view.streaming) > self._end:
            missed = view.streamed_before - self._end
            if missed > 0 and self._text:
                self._is_whole = False  # the rest follows with the stored answer
            elif self._is_whole:
                text = view.streaming[max(0, self._end - view.streamed_before) :]
                self._end = view.streamed_before + len(view.streaming)
                self._text += text
        is_old = not self._thoughts and view.thinking in self._stored[1]
        if not is_old and view.thinking.startswith(self._thoughts):  # else its beginning is cut off
            thought = view.thinking.removeprefix(self._thoughts)
            self._thoughts = view.thinking
        return text, thought

    def end(self, memory: Memory) -> tuple[str, str]:
        """Return the rest of a stored answer: text and thoughts. The next answer begins."""
        text = _find_rest(memory.content, self._text)
        thoughts = _find_rest(memory.reasoning, self._thoughts)
        self._text, self._thoughts, self._is_whole = "", "", True
        self._stored = memory.content, memory.reasoning
        return text, thoughts


def _find_rest(stored: str, shown: str) -> str:
    """Return the rest of a stored text, or all of it after a failed request."""
    if stored.startswith(shown):
        return stored.removeprefix(shown)
    return "" if stored in shown else f"\n\n{stored}"  # a call that was written as text is stored without that text


class PromptFollower:
    """One prompt of a session.

    Attributes:
        question: What the mysis asks for in words; the next prompt answers it.
        is_cancelled: The editor wants it to end.
    """

    def __init__(
        self, swarm: SwarmApi, database: Path, editor: Editor, session_id: str, mysis_id: int, folder: str
    ) -> None:
        self._swarm = swarm
        self._database = database
        self._editor = editor
        self._session_id = session_id
        self._mysis_id = mysis_id
        self._folder = folder
        self._shown = ShownStream()
        self._after = 0
        self._after_event = 0
        self._calls: dict[int, ToolCall] = {}
        self._asking: dict[int, asyncio.Task[None]] = {}
        self._view: MysisView | None = None
        self._told_waits: set[str] = set()
        self.question: ApprovalView | None = None
        self.is_cancelled = False

    async def begin(self) -> None:
        """Note the newest memory and event, so that only later ones are shown."""
        view = await self._swarm.mysis(f"#{self._mysis_id}")
        self._shown.begin_at(view)
        self._after_event = await asyncio.to_thread(read_newest_id, self._database, self._mysis_id)
        self._after = max([memory.id for memory in await self._read()], default=0)

    async def follow(self, receipt: Receipt) -> schema.StopReason:
        """Show what the mysis does until it has answered the message; return how that ended."""
        before = ""
        stream = self._swarm.changes()
        try:
            async with aclosing(stream), aclosing(yield_with_pauses(stream, READ_AGAIN_S)) as views:
                async for view in views:
                    if view is not None and not self._take(view):
                        continue
                    await self._show()
                    receipt = await self._swarm.receipt(receipt.message_id)
                    line = receipt.lines[0]
                    if line.is_settled:
                        await self._show()
                        return await self._end(line.turn_id, line.reason or line.status)
                    await self._ask()
                    if self.question is not None:
                        await self._say(updates.find_question(self.question))
                        return "end_turn"
                    if (mine := self._view) and mine.status is StatusWord.RETRYING and mine.attempt_at is None:
                        await self._tell_retry(mine.failure.title if mine.failure else mine.state_reason)
                    hindrance = self._find_hindrance()
                    if hindrance and hindrance == before and view is None:
                        await self._say(hindrance)
                        return "cancelled" if self.is_cancelled else "end_turn"
                    before = hindrance
        finally:
            for task in self._asking.values():
                task.cancel()
        raise NoRunningSwarm("the swarm ended")

    def _take(self, view: SwarmView) -> bool:
        """Take what changed; return whether the mysis did."""
        mine = next((one for one in view.myses if one.id == self._mysis_id), None)
        if mine is not None:
            self._view = mine
        return mine is not None

    async def _show(self) -> None:
        """Show the requests that failed, the new memories, then the streamed text."""
        # Stored events tell them, because a retry may begin at once, before any view shows it.
        for event_id, why in await asyncio.to_thread(read_retries, self._database, self._mysis_id, self._after_event):
            self._after_event = event_id
            await self._tell_retry(why)
        for memory in await self._read():
            if memory.id <= self._after:
                continue
            self._after = memory.id
            if memory.role is Role.ASSISTANT:
                text, thought = self._shown.end(memory)
                if thought:
                    await self._send(helpers.update_agent_thought_text(thought))
                if text:
                    await self._say(text)
            for call in memory.calls:
                self._calls[call.id] = call
            if memory.call_id is not None:
                self._calls.pop(memory.call_id, None)
            for update in updates.show_calls(memory, self._folder):
                await self._send(update)
        if self._view is not None:
            text, thought = self._shown.read(self._view)
            if thought:
                await self._send(helpers.update_agent_thought_text(thought))
            if text:
                await self._say(text)

    async def _read(self) -> list[Memory]:
        """Return the newest memories, whole, in the order in which they were stored."""

        def read() -> list[Memory]:
            page = read_newest(self._database, self._mysis_id)
            entries = [entry for turn in page.turns for entry in turn.entries]
            return [
                entry.memory
                if entry.chars == len(entry.memory.content) or entry.memory.id <= self._after
                else replace(entry.memory, content=read_content(self._database, entry.memory.id))
                for entry in sorted(entries, key=lambda entry: entry.memory.id)
            ]

        return await asyncio.to_thread(read)

    async def _ask(self) -> None:
        """Ask the editor about open approvals, and withdraw those that were answered elsewhere."""
        waits = self._view is not None and self._view.approvals
        mine = [one for one in await self._swarm.approvals() if one.mysis_id == self._mysis_id] if waits else []
        for gone in self._asking.keys() - {one.id for one in mine}:
            self._asking.pop(gone).cancel()
        for approval in mine:
            if updates.is_question(approval):
                self.question = await self._read_whole(approval)
            elif approval.id not in self._asking and not self.is_cancelled:
                self._asking[approval.id] = asyncio.create_task(self._ask_about(approval))

    async def _read_whole(self, approval: ApprovalView) -> ApprovalView | None:
        """Read an approval with all its arguments. None if it has been answered."""
        if not approval.is_cut:
            return approval
        return await asyncio.to_thread(read_approval, self._database, approval.id)

    async def _ask_about(self, approval: ApprovalView) -> None:
        """Let the editor answer one approval. Where it is cancelled, the approval stays open in Zoea."""
        try:
            if (whole := await self._read_whole(approval)) is None:
                return
            call, options = updates.describe_approval(whole, self._calls.values(), self._folder)
            response = await self._editor.request_permission(
                session_id=self._session_id, tool_call=call, options=options
            )
            # An editor may answer after it has cancelled the prompt, and before the turn has ended.
            if isinstance(response.outcome, schema.AllowedOutcome) and not self.is_cancelled:
                option_ids = {option.option_id for option in options}
                chosen = response.outcome.option_id if response.outcome.option_id in option_ids else "denied"
                await self._swarm.answer(approval.id, ApprovalAnswer(chosen))
        except ZoeaError as error:
            _log.warning("the answer to approval %d was not taken: %s", approval.id, error.what)
        except RequestError as error:  # some clients have no permissions
            _log.warning("the client refused to ask about approval %d: %s", approval.id, reveal(str(error)))
            words = f"Your editor cannot ask about {approval.tool}; `zoea approve {approval.mysis}` allows it.\n"
            await self._send(helpers.update_agent_thought_text(reveal(words)))
        except Exception:  # noqa: BLE001  whatever a client answers, the approval stays open in Zoea
            _log.exception("the client did not answer about approval %d", approval.id)

    async def _tell_retry(self, why: str) -> None:
        """Report a request that failed and is sent again, once for each cause."""
        if why not in self._told_waits:
            self._told_waits.add(why)
            await self._send(helpers.update_agent_thought_text(f"A request failed ({why}); Zoea sends it again.\n"))

    def _find_hindrance(self) -> str:
        """Return why the mysis cannot answer without a person, and what to do. Empty where it goes on."""
        view = self._view
        if view is None:
            return ""
        match view.status:
            case StatusWord.HELD:
                return "The swarm is on hold; `zoea hold --lift` lets it go on."
            case StatusWord.PAUSED:
                return f"{view.name} is paused; `zoea hold {view.name} --lift` lets it go on."
            case StatusWord.STOPPED:
                return f"{view.name} was stopped ({view.state_reason}); the next prompt starts it again."
            case StatusWord.ERRORED:
                title = view.failure.title if view.failure else view.state_reason
                return f"{view.name} failed: {title}. The next prompt tries again."
        return ""

    async def _end(self, turn_id: int | None, reason: str) -> schema.StopReason:
        if self.is_cancelled:
            return "cancelled"
        if turn_id is None:
            await self._say(f"Not answered: {reason}.")
            return "end_turn"
        answer = await asyncio.to_thread(read_turn_answer, self._database, turn_id)
        if answer.outcome == Outcome.ITERATION_LIMIT:
            return "max_turn_requests"
        if answer.outcome in (Outcome.CANCELLED, Outcome.INTERRUPTED):
            return "cancelled"
        if answer.failure:
            await self._say(f"Not answered: {answer.failure}.")
        return "end_turn"

    async def _say(self, text: str) -> None:
        await self._send(updates.say(text))

    async def _send(self, update: updates.Update) -> None:
        await self._editor.session_update(session_id=self._session_id, update=update)
