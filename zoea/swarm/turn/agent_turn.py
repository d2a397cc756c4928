"""Runs one turn of an external agent. Its updates become memories and calls as in Zoea's own loop.

A call of the agent is stored with an assistant message of its own, once it runs, asks or has ended, so that its
arguments are known. Its result is stored when the agent tells it; calls may overlap.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from zoea.agents import updates as up
from zoea.agents.agent_session import AgentSession, PromptEnd
from zoea.context.topics.agent_texts import write_repair
from zoea.model.enums import Activity, ErrorClass, Outcome, Role
from zoea.model.errors import AgentError, AgentLost, FilesError
from zoea.model.ports import Timer
from zoea.model.request import NO_RESPONSE, Answer, AnswerCall, ToolResult, ToolSpec
from zoea.model.values import Failure, Memory, Usage
from zoea.swarm.persistence import agent_ops
from zoea.swarm.rules import SECOND, to_micros
from zoea.swarm.turn import turn_types as t
from zoea.swarm.turn.agent_calls import AgentCalls, PermissionAnswered, PermissionAsked, answer_asked
from zoea.swarm.turn.agent_files import AgentFiles
from zoea.swarm.turn.agent_own_calls import OVER, OwnCalls, ToolAsked, ToolFinished, tell
from zoea.swarm.turn.agent_record import AgentRecord
from zoea.swarm.turn.budget_stage import leave_budget_queue
from zoea.swarm.turn.message_budget import used_up_failure
from zoea.swarm.turn.turn_close import describe_end, report_timeout
from zoea.swarm.turn.turn_failures import end_from, failure_from
from zoea.swarm.turn.turn_runner import TurnClosing
from zoea.text import estimate
from zoea.text.control_characters import reveal

_log = logging.getLogger(__name__)

END_S = 60
"""Time for an agent to end its turn by itself, after it called what ends it."""
MOST_MODES = 100
"""Changes of the mode that a turn notes."""
NO_END = "The agent told no end of its turn"
_REFUSAL = Failure("Refusal", "The agent refused", "it does not go on with what it was asked", "ask for something else")


class _Wakeup(Struct, frozen=True):
    """The prompt ended, the time passed, or a command came."""


_Input = up.AgentUpdate | PermissionAsked | PermissionAnswered | ToolAsked | ToolFinished | _Wakeup


class SessionSource(Protocol):
    """Opens the session of the mysis, and remembers what its agent was given."""

    async def ready(self, turn_id: int) -> tuple[AgentSession, list[str]]:
        """Return the open session with what it has to be told before the prompt. Raises AgentError."""
        ...

    async def note_prompted(self, turn_id: int) -> None: ...

    async def note_tools(self, record: AgentRecord) -> None:
        """Note once where the agent did not list Zoea's tools, after it was prompted."""
        ...


class AgentTurn:
    """Runs one turn until it ends or breaks off. Its own task processes everything in order.

    Attributes:
        is_over: Nothing that the agent tells or asks belongs to it any more.
    """

    def __init__(
        self,
        record: AgentRecord,
        source: SessionSource,
        files: AgentFiles,
        steers: tuple[int, ...],
        own: tuple[ToolSpec, ...],
    ) -> None:
        self.is_over = False
        self._services, self._profile, self._opened = record.services, record.profile, record.opened
        self._live = record.live
        self._record = record
        self._source = source
        self._files = files
        self._inputs: asyncio.Queue[_Input] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: AgentSession | None = None
        self._prompting: asyncio.Task[PromptEnd] | None = None
        post = self._inputs.put_nowait
        self._calls = AgentCalls(record, files, post, own)
        self._own = OwnCalls(record, self._calls, post, self._keep)
        self._plan: up.PlanTold | None = None
        self._steers = steers
        self._cancel: Outcome | None = None
        self._woken = asyncio.Event()
        self._is_cut = False
        self._is_repaired = self._is_second = self._has_told = False
        self._texts: list[str] = []
        self._mode, self._modes = "", 0
        self._writes = count(1)
        self._mask: Callable[[str], str] = lambda text: text
        self._closing: TurnClosing | None = None
        self._broken: BaseException | None = None
        self._watchdog: Timer

    # Called by the runner and the session.

    async def run(self, texts: list[str]) -> TurnClosing:
        """Carry the turn to its end, and return the op that stores it. Cancelling this leaves the turn open."""
        self._watchdog = self._watch_later()
        try:
            self._mask = await self._record.masks.stream_mask()
            self._closing = await self._begin(texts)
            while self._closing is None:
                await self._process(await self._inputs.get())
            return self._closing
        except AgentError as error:
            return await self._break_off(error)
        except Exception as error:  # noqa: BLE001  the catch-all of I10: it becomes the mysis's own error
            _log.exception("the turn of mysis #%d failed", self._profile.mysis_id)
            return await self._break_off(error)
        finally:
            self.is_over = True
            self._watchdog.cancel()
            asked = self._calls.asks
            for task in self._tasks - self._own.close():
                task.cancel()
            # Answer all open questions as cancelled, because the turn is over
            self._calls.cancel_asked()
            for _ in self._iterate_left():
                pass
            leave_budget_queue(self._services, self._live)
            self._services.approvals.forget(self._opened.turn_id, asked)
            self._session = self._closing = None

    def take_update(self, update: up.AgentUpdate) -> None:
        """Take what the agent tells."""
        self._record.note_progress()
        self._has_told = True
        if isinstance(update, up.TextTold) and not self._calls.is_full:
            shown = self._mask(update.text)
            if update.is_thought:
                self._live.add_reasoning(shown)
            else:
                self._live.stream(shown)
        self._services.view.touch(self._profile.mysis_id)
        self._inputs.put_nowait(update)

    async def ask_permission(self, call: up.CallTold, options: tuple[up.PermissionOption, ...]) -> str | None:
        """Return the option that the template, a grant or the commander chose for a call."""
        self._has_told = True
        asked = PermissionAsked(call, options, asyncio.get_running_loop().create_future())
        self._inputs.put_nowait(asked)
        chosen = await asked.answer
        kind = next((one.kind for one in options if one.option_id == chosen), "")
        if kind.startswith("allow"):
            await self._services.hold.lifted(self._profile.mysis_id)
        return chosen

    async def call_tool(self, call: AnswerCall) -> ToolResult:
        """Carry out a call of one of Zoea's own tools."""
        await self._services.hold.lifted(self._profile.mysis_id)
        if self.is_over:
            return OVER
        self._has_told = True
        self._record.note_progress()
        asked = ToolAsked(call, asyncio.get_running_loop().create_future())
        self._inputs.put_nowait(asked)
        return await asked.answer

    async def read_file(self, path: str, line: int | None, limit: int | None) -> str:
        """Read a text file of the folder. Raises FilesError."""
        self._record.note_progress()
        return await self._files.read(path, line, limit)

    async def write_file(self, path: str, content: str) -> None:
        """Write a file of the folder. One that no allowed call names is asked for first. Raises FilesError."""
        self._record.note_progress()
        if self._files.may_write(path):
            return await self._files.write(path, content)
        await self._files.check(path)
        told = up.CallTold(
            f"zoea-write-{next(self._writes)}",
            is_start=True,
            title=f"write {path}",
            kind="edit",
            status="pending",
            arguments={"path": path, "content": content},
        )
        options = (up.PermissionOption("yes", "", "allow_once"), up.PermissionOption("no", "", "reject_once"))
        if await self.ask_permission(told, options) != "yes":
            raise FilesError(f"writing {path} was not allowed")
        try:
            await self._files.write(path, content)
        except FilesError as error:
            self.take_update(replace(told, is_start=False, status="failed", text=error.text))
            raise
        self.take_update(replace(told, is_start=False, status="completed", text=f"{len(content):,} characters written"))
        return None

    def steer(self, delivery_id: int) -> None:
        """Let a message join the turn. The agent is interrupted as soon as no call of it runs."""
        self._steers = (*self._steers, delivery_id)
        self._wake()

    def cancel(self, outcome: Outcome) -> None:
        """End the turn with this outcome."""
        if self._cancel is None:
            self._cancel = outcome
            self._wake()

    def _wake(self) -> None:
        self._woken.set()
        self._inputs.put_nowait(_Wakeup())

    # Beginning.

    async def _begin(self, texts: list[str]) -> TurnClosing | None:
        """Open the session and send the prompt. Return the closing of a turn that was cancelled or refused."""
        opening = asyncio.ensure_future(self._source.ready(self._opened.turn_id))
        if (closing := await self._leave_or_wait(opening)) is not None:
            return closing
        self._session, before = opening.result()
        if self._steers:
            texts = [*texts, *await self._take_steers()]
        self._texts = texts
        return await self._prompt([*before, *texts])

    async def _leave_or_wait(self, work: asyncio.Future[Any]) -> TurnClosing | None:
        """Wait for work. If the turn is cancelled before its end, drop the work and return the closing."""
        while not work.done() and self._cancel is None:
            self._woken.clear()
            woken = asyncio.create_task(self._woken.wait())
            try:
                await asyncio.wait({work, woken}, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                await _drop(work)
                raise
            finally:
                woken.cancel()
        if self._cancel is None:
            return None
        await _drop(work)
        return await self._leave_cancelled(self._cancel)

    async def _prompt(self, texts: list[str]) -> TurnClosing | None:
        assert self._session is not None
        admitted = asyncio.ensure_future(self._admit(sum(map(estimate.tokens, texts))))
        if (closing := await self._leave_or_wait(admitted)) is not None:
            return closing
        if (failure := admitted.result()) is not None:
            return await self._leave(Outcome.BUDGET, failure=failure)
        await self._source.note_prompted(self._opened.turn_id)
        self._is_cut = self._has_told = False
        self._record.show(Activity.LLM)
        self._record.note_progress()
        self._prompting = self._session.prompt(texts)
        self._prompting.add_done_callback(lambda _: self._inputs.put_nowait(_Wakeup()))
        return None

    async def _admit(self, tokens: int) -> Failure | None:
        """Wait for a lifted hold and, for requests outside the gateway, the budgets."""
        await self._services.hold.lifted(self._profile.mysis_id)
        return None if self._files.uses_gateway else await self._record.admit(tokens, self._spawn)

    @property
    def _has_news(self) -> bool:
        """Whether the agent has to be prompted once more in this turn."""
        return bool(self._steers or self._own.untold) and not self._own.is_ending

    async def _take_news(self) -> list[str]:
        untold, self._own.untold = self._own.untold, []
        return [*untold, *(await self._take_steers() if self._steers else ())]

    async def _take_steers(self) -> list[str]:
        """Store the messages that join the turn, and return their texts."""
        op = t.TakeSteers(self._opened.turn_id, self._steers, self._record.next_seq)
        self._steers = ()
        stored = await self._record.store(op)
        return [prompt_text(memory) for memory in stored.memories]

    # What the agent tells.

    async def _process(self, given: _Input) -> None:
        if self._broken is not None:
            raise self._broken
        match given:
            case up.TextTold():
                self._calls.add_text(given)
            case up.CallTold():
                await self._calls.take_call(given)
                await self._cut_if_steered()
            case up.UsageTold():
                self._record.take_usage(given)
            case up.ModeTold():
                await self._note_mode(given.mode)
            case up.PlanTold():
                self._plan = given
            case PermissionAsked():
                await self._calls.ask(given)
            case PermissionAnswered():
                await (self._own if given.call.is_own else self._calls).approved(given.call, given.given)
                await self._go_on()
            case ToolAsked():
                await self._own.begin(given)
            case ToolFinished():
                await self._own.finish(given)
                if self._own.is_ending:
                    self._services.clock.call_after(END_S * SECOND, self._cut)
                await self._go_on()
            case _Wakeup():
                await self._go_on()

    async def _note_mode(self, mode: str) -> None:
        """Note a mode that is another one than before, and not without end."""
        if mode != self._mode and self._modes < MOST_MODES:
            self._mode, self._modes = mode, self._modes + 1
            # A kind stands once at a place, and the last mode is the one that counts.
            await self._record.note(f"mode {self._modes:03}", f"The agent changed its mode to {mode}.")

    async def _go_on(self) -> None:
        """Look at what changed: a command, the end of the prompt, a message that joins."""
        if self._closing is not None:
            return
        if self._cancel is not None:
            self._closing = await self._end_by_cancel(self._cancel)
        elif self._prompting is not None and self._prompting.done():
            if self._inputs.qsize():
                self._inputs.put_nowait(_Wakeup())  # what came before the end is processed first
                return
            prompting, self._prompting = self._prompting, None
            if prompting.cancelled():  # it did not end for a message that joins, and its process was ended
                await self._calls.end_untold()
                texts = [] if self._own.is_ending else await self._take_steers()
                self._closing = await self._prompt_again(texts)
            elif isinstance(prompting.exception(), AgentLost) and not self._has_told and not self._is_second:
                # Prompt a new process, because the one before was gone when it was prompted
                self._is_second = True
                await self._record.settle_prompt(Usage())
                self._closing = await self._begin(self._texts)
            else:
                self._closing = await self._prompt_ended(prompting.result())
        elif self._prompting is None and self._has_news:
            self._closing = await self._prompt_again(await self._take_news())
        else:
            await self._cut_if_steered()

    async def _cut_if_steered(self) -> None:
        """Interrupt the agent for a message that joins, once no call runs."""
        if not self._steers or self._own.is_ending:
            return
        if not self._calls.open_calls():
            self._cut()

    def _cut(self) -> None:
        """Interrupt the agent, once for each prompt."""
        if not self._is_cut and self._prompting is not None and self._session is not None:
            self._is_cut = True
            self._spawn(_cancel(self._session))

    # Ends.

    async def _prompt_ended(self, end: PromptEnd) -> TurnClosing | None:
        """Return the closing of the turn, or None where it goes on with another prompt."""
        await self._record.settle_prompt(end.usage)
        await self._calls.store_untold()
        if self._has_news:
            return await self._prompt_again(await self._take_news())
        if self._own.waits_for_person and not self._own.is_ending and end.reason not in ("refusal", "cancelled"):
            await self._calls.end_untold(but_own=True)
            return None  # Agents wait a minute for a tool, people take longer: the answer comes with another prompt.
        await self._calls.end_untold()
        if self._plan is not None:
            lines = [f"- [{status}] {text}" for status, text in self._plan.entries]
            await self._record.note("plan", "\n".join(("The agent's plan:", *lines)))
        if self._files.uses_gateway and await agent_ops.was_refused(self._services.store, self._opened.turn_id):
            return await self._leave(Outcome.BUDGET, failure=used_up_failure())
        await self._source.note_tools(self._record)
        match end.reason:
            case _ if self._own.is_ending:
                pass
            case "refusal":
                return await self._leave(Outcome.FAILED, failure=_REFUSAL, error_class=ErrorClass.CONTENT_FILTER)
            case "cancelled":
                return await self._leave(Outcome.CANCELLED)
            case "max_turn_requests":
                return await self._leave(Outcome.ITERATION_LIMIT)
            case "max_tokens":
                await self._record.note("end", "The agent stopped because its answer reached the limit of its length.")
            case other if other != "end_turn":
                sentence = f"the end of its turn as {reveal(other[:100])!r}, which the protocol does not have"
                if not self._has_told:
                    raise AgentError(f"the agent told {sentence}, and nothing else")
                await self._record.note("end", f"The agent told {sentence}.")
        return await self._conclude()

    async def _prompt_again(self, texts: list[str]) -> TurnClosing | None:
        if self._calls.has_text:
            answer = await self._record.conceal(self._calls.take_answer())
            await self._record.store(t.StoreAnswer(self._opened.turn_id, 0, self._record.next_seq, answer))
        return await (self._begin(texts) if texts else self._conclude())

    async def _conclude(self) -> TurnClosing | None:
        """End the turn with its last text. One that misses its output schema is asked for once more."""
        answer = await self._record.conceal(self._calls.take_answer())
        output = self._record.outputs.check(answer.text)
        if output is not None and output.error and not self._is_repaired:
            self._is_repaired = True
            self._calls.put_back(answer.text)
            return await self._prompt_again([write_repair(output.error)])
        outcome, turn_id = Outcome.ANSWERED, self._opened.turn_id
        has_said = self._has_said(answer)
        self._record.turn = replace(self._record.turn, responded=has_said, outcome=outcome)
        if output is not None and output.error:
            failure = Failure("Output", "Its answer does not match the output schema", output.error)
            self._calls.put_back(answer.text)
            return await self._leave(Outcome.FAILED, failure=failure, error_class=ErrorClass.BAD_REQUEST)
        if not answer.text.strip() and has_said:
            return await self._leave(outcome)
        end = describe_end(self._record.turn, self._services.clock.uptime(), concludes=answer)
        op = t.StoreAnswer(
            turn_id,
            0,
            self._record.next_seq,
            answer if has_said else replace(answer, text=NO_RESPONSE),
            outcome=outcome,
            end=end,
            output="" if output is None else output.data,
        )
        return self._record.close(op, end)

    async def _end_by_cancel(self, outcome: Outcome) -> TurnClosing:
        """Tell the agent, which has some seconds to end its turn. Open permissions are answered at once."""
        session, prompting = self._session, self._prompting
        if outcome is Outcome.CRASHED or session is None or prompting is None:
            return await self._leave_cancelled(outcome)
        self._calls.cancel_asked()
        was_told = await session.cancel()
        for given in self._iterate_left():
            if not isinstance(given, PermissionAnswered | _Wakeup):
                await self._process(given)
        usage = Usage()
        if prompting.done() and not prompting.cancelled() and prompting.exception() is None:
            usage = prompting.result().usage
        await self._record.settle_prompt(usage)
        if not was_told:
            await self._record.note("end", f"{NO_END} within 5 s after it was cancelled; its process was ended.")
        return await self._leave_cancelled(outcome)

    async def _leave_cancelled(self, outcome: Outcome) -> TurnClosing:
        if outcome is Outcome.TIMEOUT:
            if self._calls.has_answer and not self._calls.open_calls():
                await self._record.note("end", f"{NO_END}: nothing came from it any more after this text.")
                closing = await self._conclude()
                if closing is not None:
                    return closing
            return await self._leave(
                outcome, failure=report_timeout(self._record.turn), breaks_off=not self._record.turn.nudged
            )
        return await self._leave(outcome, breaks_off=outcome is Outcome.CRASHED)

    async def _break_off(self, error: Exception) -> TurnClosing:
        """Return the closing after a failure: the turn stays open, and goes on at a relaunch."""
        end = end_from(error)
        error_class = ErrorClass.TRANSIENT if isinstance(error, AgentLost) else end.error_class
        try:
            for given in self._iterate_left():
                if isinstance(given, up.TextTold):
                    self._calls.add_text(given)
            await self._record.settle_prompt(Usage())
            if self._files.uses_gateway and await agent_ops.was_refused(self._services.store, self._opened.turn_id):
                return await self._leave(Outcome.BUDGET, failure=used_up_failure())
            failure = failure_from(error)
            return await self._leave(Outcome.FAILED, failure=failure, error_class=error_class, breaks_off=True)
        except Exception:  # noqa: BLE001  the first error is reported; the next start breaks the turn off
            _log.exception("the turn of mysis #%d could not be left in order", self._profile.mysis_id)
            return TurnClosing(end)

    async def _leave(
        self,
        outcome: Outcome,
        *,
        failure: Failure | None = None,
        error_class: ErrorClass | None = None,
        breaks_off: bool = False,
    ) -> TurnClosing:
        """Return the op that ends the turn without an answer, with the text that came."""
        partial_answer = await self._record.conceal(self._calls.take_answer())
        self._record.turn = replace(
            self._record.turn,
            outcome=outcome,
            failure=failure,
            error_class=error_class,
            responded=self._has_said(partial_answer),
            final=not breaks_off,
        )
        results = () if breaks_off else self._calls.final_results()
        end = describe_end(self._record.turn, self._services.clock.uptime())
        kind = t.BreakOffTurn if breaks_off else t.CloseTurn
        op = kind(
            turn_id=self._opened.turn_id,
            outcome=outcome,
            request_id=0,
            partial=partial_answer,
            seq=self._record.next_seq,
            results=results,
            failure=failure,
            error_class=error_class,
            end=end,
        )
        return self._record.close(op, end)

    def _iterate_left(self) -> Iterator[_Input]:
        """Yield the rest of the queue, and cancel its questions."""
        while not self._inputs.empty():
            match self._inputs.get_nowait():
                case PermissionAsked() as asked:
                    answer_asked(asked, None)
                case ToolAsked() as asked:
                    tell(asked, OVER)
                case given:
                    yield given

    def _has_said(self, answer: Answer) -> bool:
        """Return whether the turn has a text of the agent, with this last answer."""
        return bool(answer.text.strip()) or any(one.role is Role.ASSISTANT for one in self._record.turn.memories)

    # Time and tasks.

    def _watch_later(self) -> Timer:
        every = max(SECOND, to_micros(self._profile.settings.turn.timeout) // 10)
        return self._services.clock.call_after(every, self._watch)

    def _watch(self) -> None:
        """End a turn if its agent is silent. Questions, holds, and waits and answers of its model are progress."""
        live = self._record.live
        is_excused = (
            self._prompting is None
            or self._services.hold.holds(self._profile.mysis_id)
            or bool(self._calls.asks)
            or live.asks_waiting > 0
        )
        now = self._services.clock.uptime()
        if is_excused:
            self._record.progress_at = now
        elif now - max(self._record.progress_at, live.asked_at) >= to_micros(self._profile.settings.turn.timeout):
            self.cancel(Outcome.TIMEOUT)
        self._watchdog = self._watch_later()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._keep(asyncio.create_task(work))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken = error
            self._wake()


async def _cancel(session: AgentSession) -> None:
    await session.cancel()


async def _drop(work: asyncio.Future[Any]) -> None:
    """Cancel a task and wait until it has ended. Ignores how it ended."""
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


def prompt_text(memory: Memory) -> str:
    """Return a prompt for the agent, below its sender unless that is the commander."""
    return f"{memory.label}\n{memory.content}" if memory.label else memory.content
