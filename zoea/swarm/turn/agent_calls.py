"""Stores the texts, calls and questions of an external agent in one turn.

A call is stored with an assistant message of its own, once it runs, asks or has ended, so that its arguments are known.
Its result is stored when the agent tells it; calls may overlap.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from zoea.agents import updates as up
from zoea.model.enums import MASK, Activity, ApprovalAnswer, CallState, Finish
from zoea.model.request import Answer, AnswerCall, GivenAnswer, ToolResult, ToolSpec
from zoea.model.values import ToolCall
from zoea.swarm.persistence import agent_ops
from zoea.swarm.turn import agent_policy
from zoea.swarm.turn import turn_types as t
from zoea.swarm.turn.agent_files import AgentFiles
from zoea.swarm.turn.agent_record import AgentRecord
from zoea.swarm.turn.fingerprint import of_call
from zoea.swarm.turn.turn_close import MAY_HAVE_RUN, NEVER_RAN, state_of
from zoea.text.call_text import format_call

MOST_TEXT = 1_000_000
"""Characters of one answer that are kept."""
MOST_CALLS = 2_000
"""Calls of one turn that are stored; an agent that makes more has lost its way."""
NOT_TOLD = "unknown: the agent ended its turn without saying how this ended"
_FORBIDDEN = "denied: the template does not allow {name} calls"
_TOO_LONG = f"denied: nobody can look through a call of over {up.MOST_ARGUMENT_CHARS:,} characters"
_ONLY_ALWAYS = "the agent offers only to allow this always; answer for the session to allow it"


class PermissionAsked(Struct, frozen=True):
    call: up.CallTold
    options: tuple[up.PermissionOption, ...]
    answer: asyncio.Future[str | None]


class PermissionAnswered(Struct, frozen=True):
    call: TurnCall
    given: GivenAnswer


class TurnCall(Struct, eq=False):
    """A call of this turn; `id` is 0 until it is stored. `is_own` where Zoea itself carries it out."""

    agent: up.MergedCall
    id: int = 0
    seq: int = 0
    is_over: bool = False
    is_own: bool = False
    asked: PermissionAsked | None = None
    shown: up.MergedCall | None = None
    """As it was when it asked: the agent may tell more of it while the question is open."""

    def close(self) -> None:
        """Note that the call is over. An open question about it is answered as cancelled, else its agent hangs."""
        if self.asked is not None:
            answer_asked(self.asked, None)
        self.is_over, self.asked = True, None
        self.agent, self.shown = up.MergedCall(up.CallTold(self.agent.told.call_id)), None  # its texts may be large


class AgentCalls:
    """The text since the last call, and the calls, of one turn.

    Args:
        post: Puts into the queue of the turn what comes later: an answer, or the same question again.
        own: Zoea's own tools, as far as the agent has them.

    Attributes:
        served: How often each of those was called; the agent tells of these calls too.
    """

    def __init__(
        self,
        record: AgentRecord,
        files: AgentFiles,
        post: Callable[[PermissionAsked | PermissionAnswered], None],
        own: tuple[ToolSpec, ...] = (),
    ) -> None:
        self.served: Counter[str] = Counter()
        self._services, self._profile, self._live = record.services, record.profile, record.live
        self._record = record
        self._files = files
        self._post = post
        self._own = own
        self._calls: dict[str | int, TurnCall] = {}
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._size = 0
        self._message_id = ""

    @property
    def is_full(self) -> bool:
        """Whether no more text of this answer is kept."""
        return self._size >= MOST_TEXT

    @property
    def is_crowded(self) -> bool:
        """Whether the turn has so many calls that no more are stored."""
        return len(self._calls) >= MOST_CALLS

    @property
    def has_text(self) -> bool:
        return bool(self._text or self._thoughts)

    @property
    def has_answer(self) -> bool:
        """Whether the agent wrote a text after its last call."""
        return any(part.strip() for part in self._text)

    @property
    def asks(self) -> frozenset[int]:
        """The ids of the calls that wait for an answer."""
        return frozenset(call.id for call in self._calls.values() if call.asked is not None)

    def add_text(self, told: up.TextTold) -> None:
        if self._size >= MOST_TEXT:
            return
        parts = self._thoughts if told.is_thought else self._text
        if told.message_id != self._message_id and parts and not told.is_thought:
            parts.append("\n\n")
        self._message_id = told.message_id
        self._size += len(told.text)
        parts.append(told.text if self._size < MOST_TEXT else "\n[… the rest is left out]")
        if self._live.activity is not Activity.LLM and not self.open_calls():
            self._record.show(Activity.LLM)

    async def take_call(self, told: up.CallTold) -> None:
        call = self._find_call(told)
        if call is None or self._is_served(call, is_over=told.status in up.ENDED):
            return
        status = call.agent.told.status
        tells_arguments = not told.is_start and call.agent.has_arguments and told.arguments is not None
        if not call.id and (status not in (None, "pending") or tells_arguments):
            await self._store_call(call)
        if call.id and status in up.ENDED and call.asked is None:
            await self.end_call(call, ToolResult(call.agent.write_result(), is_error=status == "failed"))

    def _find_call(self, told: up.CallTold) -> TurnCall | None:
        """Return the open call of an update, merged with it. Ids may be used again after an end."""
        call = self._calls.get(told.call_id)
        if call is None or (call.is_over and told.is_start):
            if self.is_crowded:
                return None
            if call is not None:
                self._calls[f"{told.call_id} {call.id}"] = call
            call = self._calls[told.call_id] = TurnCall(up.MergedCall(told))
        elif not call.is_over:
            call.agent.merge(told)
        return None if call.is_over else call

    def _is_served(self, call: TurnCall, *, is_over: bool) -> bool:
        """Return whether a call is one of Zoea's own tools, stored as Zoea runs it.

        One that the agent ended without calling the tool is a call like any other.
        """
        own = None if call.id or call.asked is not None else agent_policy.find_own(call.agent, self._own)
        if own is None or not is_over:
            return own is not None
        call.is_over = self.served[own.name] > 0
        self.served[own.name] -= call.is_over
        return call.is_over

    async def _store_call(self, call: TurnCall, *, state: CallState = CallState.SENT, scope: str | None = None) -> None:
        """Store a call and the text before it, as sent, asking or never run."""
        asks = state is CallState.APPROVAL
        prepared, answer = await self._prepare(call, self.take_answer(), asks=asks, scope=scope)
        await self.store_prepared(call, prepared, answer, state)

    async def store_prepared(
        self, call: TurnCall, prepared: t.PreparedCall, answer: Answer, state: CallState
    ) -> ToolCall:
        """Store a call with its answer, and return its row."""
        seq = self._record.next_seq
        start = (0,) if state is CallState.SENT else ()
        stored = await self._record.store(
            t.StoreAnswer(self._record.turn.turn_id, 0, seq, answer, (prepared,), start=start)
        )
        row = stored.memories[0].calls[0]
        call.id, call.seq = row.id, seq
        self._live.say(f"⚙ {format_call(row.name, row.arguments, hidden=MASK)}", self._services.clock.now())
        if start:
            self._record.show(Activity.TOOL)
        if call.is_own:
            self._calls[call.id] = call
        return row

    async def _prepare(
        self, call: TurnCall, answer: Answer, *, asks: bool, scope: str | None
    ) -> tuple[t.PreparedCall, Answer]:
        """Return a call and its answer as they are stored, without values of secrets."""
        asked = AnswerCall(call.agent.name, call.agent.write_arguments(asks=asks), call.agent.told.call_id)
        answer = await self._record.masks.conceal_answer(replace(answer, calls=(asked,), finish=Finish.CALLS))
        (concealed,) = answer.calls
        prepared = t.PreparedCall(
            name=concealed.name,
            arguments=concealed.arguments,
            upstream=self._files.agent,
            provider_call_id=concealed.provider_call_id,
            fingerprint=of_call(concealed.name, concealed.arguments),
            asks=asks,
            schema_hash=agent_policy.SCHEMA_HASH,
            grant_scope=scope,
        )
        return prepared, answer

    def put_back(self, text: str) -> None:
        """Put a text back, because the turn does not end with it."""
        self._text.append(text)

    def take_answer(self) -> Answer:
        """Take the text that was written since the last call."""
        answer = Answer("".join(self._text), "".join(self._thoughts), model=self._record.info.model)
        self._text, self._thoughts, self._size, self._message_id = [], [], 0, ""
        return answer

    async def end_call(self, call: TurnCall, result: ToolResult, state: CallState | None = None) -> None:
        masked = await self._record.conceal(Answer(result.content))
        result = replace(result, content=masked.text)
        call.close()
        state = state or state_of(result)
        await self._record.store(t.StoreResult(self._record.turn.turn_id, call.id, call.seq + 1, result, state))
        if not self.open_calls():
            self._record.show(Activity.LLM)

    def open_calls(self) -> list[TurnCall]:
        return [call for call in self._calls.values() if call.id and not call.is_over]

    # Permissions.

    async def ask(self, asked: PermissionAsked) -> None:
        """Decide by the template and the grants, else ask the commander."""
        call = self._find_call(asked.call)
        if call is None:  # it is over for Zoea: denied before, or too many
            return answer_asked(asked, agent_policy.choose_option(ApprovalAnswer.DENIED, asked.options))
        if agent_policy.find_own(call.agent, self._own) is not None and not call.id:
            # The template decides when the call comes to Zoea.
            return answer_asked(asked, agent_policy.choose_option(ApprovalAnswer.SESSION, asked.options))
        if len(call.agent.write_arguments(asks=True)) > up.MOST_ARGUMENT_CHARS:
            return await self._deny(call, asked, ApprovalAnswer.DENIED, _TOO_LONG)
        if call.asked is not None:  # the same call asks twice: one after the other
            call.asked.answer.add_done_callback(lambda _: self._post(asked))
            return None
        tools, approvals = self._profile.template.tools, self._services.approvals
        spec = agent_policy.apply_template(
            agent_policy.describe_tool(call.agent, self._files.agent, self._files.folder), tools
        )
        if spec is None:
            why = _FORBIDDEN.format(name=call.agent.name)
            return await self._deny(call, asked, ApprovalAnswer.DENIED, why)
        scope = agent_policy.find_scope(call.agent) if spec.takes_command else None
        is_granted = (
            not spec.asks
            or agent_policy.is_covered(call.agent, self._files.folder, tools)
            or approvals.is_granted(
                self._profile.mysis_id, self._profile.template.grantee, spec, call.agent.write_scope()
            )
        )
        if is_granted:
            if not call.id:
                await self._store_call(call)
            return self._allow(call.agent, asked, ApprovalAnswer.SESSION)
        if call.id:
            prepared, _ = await self._prepare(call, Answer(), asks=True, scope=scope)
            row = await self._services.write(
                lambda conn: agent_ops.ask_for_stored(conn, self._record.info, call.id, prepared)
            )
            self._record.merge((), (row,))
        else:
            await self._store_call(call, state=CallState.APPROVAL, scope=scope)
        call.asked, call.shown = asked, up.MergedCall(call.agent.told)
        self._live.say(f"asks: {call.agent.title}", self._services.clock.now())
        self._record.show(Activity.ASKING)
        await approvals.ask_for_call(
            call.id, self._profile.mysis_id, lambda given: self._post(PermissionAnswered(call, given))
        )
        return None

    async def approved(self, call: TurnCall, given: GivenAnswer) -> None:
        asked, call.asked = call.asked, None
        self._record.note_progress()
        if asked is None or call.is_over:
            return
        option = agent_policy.choose_option(given.answer, asked.options)
        kind = next((one.kind for one in asked.options if one.option_id == option), "")
        if given.answer.allows and kind.startswith("allow"):
            await self._record.store(t.MarkSent((call.id,)))
            self._record.show(Activity.TOOL)
            self._allow(call.shown or call.agent, asked, given.answer)
            if call.agent.told.status in up.ENDED:
                await self.take_call(call.agent.told)
            return
        answer = ApprovalAnswer.DENIED if given.answer.allows else given.answer
        why = f"{answer}: {_ONLY_ALWAYS}" if given.answer.allows else describe_denial(given)
        await self._deny(call, asked, answer, why)

    def _allow(self, agent: up.MergedCall, asked: PermissionAsked, answer: ApprovalAnswer) -> None:
        self._files.allow(agent)
        answer_asked(asked, agent_policy.choose_option(answer, asked.options))

    async def _deny(self, call: TurnCall, asked: PermissionAsked, answer: ApprovalAnswer, why: str) -> None:
        if not call.id:
            await self._store_call(call, state=CallState.PENDING)
        await self.end_call(call, ToolResult(why, is_error=True), CallState.DENIED)
        answer_asked(asked, agent_policy.choose_option(answer, asked.options))

    def cancel_asked(self) -> None:
        """Answer all open questions as cancelled, because the turn is over."""
        for call in self._calls.values():
            if call.asked is not None:
                answer_asked(call.asked, None)

    async def store_untold(self) -> None:
        """Store the calls that were only announced."""
        for call in tuple(self._calls.values()):
            if not call.id and not call.is_over and not self._is_served(call, is_over=True):
                await self._store_call(call)

    async def end_untold(self, *, but_own: bool = False) -> None:
        """End the calls that the agent left open or no longer awaits."""
        for call in self.open_calls():
            if call.is_own and but_own:
                continue
            if call.is_own:
                await self._record.store(self._final_result(call))
            elif call.asked is not None:
                await self.end_call(call, NEVER_RAN, CallState.CANCELLED)
            else:
                await self.end_call(call, ToolResult(NOT_TOLD, is_error=True, is_unknown=True), CallState.UNKNOWN)

    def final_results(self) -> tuple[t.StoreResult, ...]:
        """Return the results of the open calls of a turn that ends without the agent."""
        return tuple(map(self._final_result, self.open_calls()))

    def _final_result(self, call: TurnCall) -> t.StoreResult:
        never_ran = call.asked is not None
        result, state = (NEVER_RAN, CallState.CANCELLED) if never_ran else (MAY_HAVE_RUN, CallState.UNKNOWN)
        call.close()
        return t.StoreResult(self._record.turn.turn_id, call.id, call.seq + 1, result, state)


def describe_denial(given: GivenAnswer) -> str:
    """Return the result of a call that was not allowed."""
    expired = given.answer is ApprovalAnswer.EXPIRED
    reason = given.sentence or ("nobody answered in time" if expired else "the commander said no")
    return f"{given.answer}: {reason}"


def answer_asked(asked: PermissionAsked, option: str | None) -> None:
    if not asked.answer.done():
        asked.answer.set_result(option)
