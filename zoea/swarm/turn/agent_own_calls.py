"""Runs Zoea's own tools for an external agent during one turn.

They are stored, asked for and carried out like those of Zoea's own loop, with the same toolbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from zoea.agents import updates as up
from zoea.model.enums import DONE_TOOL, MASK, WAIT_TOOL, Activity, CallState, Finish
from zoea.model.request import AnswerCall, CallMeta, GivenAnswer, ToolResult, ToolSpec
from zoea.model.values import ToolCall
from zoea.swarm.turn import turn_types as t
from zoea.swarm.turn.agent_calls import (
    MOST_CALLS,
    AgentCalls,
    PermissionAnswered,
    PermissionAsked,
    TurnCall,
    describe_denial,
)
from zoea.swarm.turn.agent_record import AgentRecord
from zoea.swarm.turn.call_bounds import prepare_call
from zoea.swarm.turn.tool_calls import ToolCalls
from zoea.swarm.turn.turn_close import add_remark, state_of
from zoea.text.call_text import format_call

OVER = ToolResult("not called: the turn of this mysis is over", is_error=True)
_ENDING = ToolResult(
    "not called: you ended your turn. Write nothing but a last sentence, if you have one.", is_error=True
)
_LATE = "[note from Zoea] The call {name}, for which you did not wait, has ended:\n{result}"
_TOO_MANY = ToolResult(f"not called: a turn has at most {MOST_CALLS:,} calls", is_error=True)


class ToolAsked(Struct, frozen=True, eq=False):
    """A call that came over MCP."""

    call: AnswerCall
    answer: asyncio.Future[ToolResult]


class ToolFinished(Struct, frozen=True):
    call_id: int
    result: ToolResult


class _Open(Struct):
    """A call without a result yet."""

    call: TurnCall
    row: ToolCall
    spec: ToolSpec
    asked: ToolAsked
    given: GivenAnswer | None = None


class OwnCalls:
    """The calls of Zoea's own tools in one turn.

    Args:
        post: Puts into the queue of the turn what comes later.
        own: Takes a task; its failure ends the turn.

    Attributes:
        is_ending: One of them ends the turn: it reported the end, or waits.
        untold: What the agent has to be told of the calls for whose results it did not wait.
    """

    def __init__(
        self,
        record: AgentRecord,
        calls: AgentCalls,
        post: Callable[[ToolFinished | PermissionAnswered], None],
        own: Callable[[asyncio.Task[None]], None],
    ) -> None:
        self.is_ending = False
        self.untold: list[str] = []
        self._services, self._profile, self._masks = record.services, record.profile, record.masks
        self._record = record
        self._calls = calls
        self._post = post
        self._open: dict[int, _Open] = {}
        self._own = own
        self._running = ToolCalls(
            record.masks,
            record.services.late_calls,
            record.profile.settings.tool.timeout,
            lambda *ended: post(ToolFinished(*ended)),
        )

    @property
    def waits_for_person(self) -> bool:
        """Whether a call waits for the commander's answer, or runs after it."""
        return any(opened.call.asked is not None or opened.given is not None for opened in self._open.values())

    async def begin(self, asked: ToolAsked) -> None:
        """Store a call; run it, or ask for it where the template says so."""
        if asked.answer.done():
            return None
        refusal, spec = self._refuse(asked.call.name)
        if spec is None:
            return tell(asked, refusal)
        self._calls.served[spec.name] += 1
        answer = replace(self._calls.take_answer(), calls=(asked.call,), finish=Finish.CALLS)
        answer = await self._masks.conceal_answer(answer)
        (given,) = answer.calls
        profile, arguments = self._profile, self._masks.stored_arguments(given)
        is_granted = self._services.approvals.is_granted(profile.mysis_id, profile.template.grantee, spec, arguments)
        prepared = prepare_call(given, spec, arguments=arguments, granted=is_granted, skipped="")
        told = up.CallTold("", kind=spec.name, title=spec.name)
        call = TurnCall(up.MergedCall(told), is_own=True)
        state = CallState.APPROVAL if prepared.asks else CallState.SENT
        row = await self._calls.store_prepared(call, prepared, answer, state)
        opened = self._open[row.id] = _Open(call, row, spec, asked)
        if prepared.asks:
            await self._ask(opened)
        else:
            self._start(opened)
        return None

    def _refuse(self, name: str) -> tuple[ToolResult, ToolSpec | None]:
        tools = {tool.name: tool for tool in self._masks.own_tools()}
        if self.is_ending:
            return _ENDING, None
        if self._calls.is_crowded:
            return _TOO_MANY, None
        if name not in tools:
            return ToolResult(f"there is no tool {name[:100]}; there are: {', '.join(tools)}", is_error=True), None
        return OVER, tools[name]

    async def _ask(self, opened: _Open) -> None:
        call = opened.call
        call.asked = PermissionAsked(call.agent.told, (), asyncio.get_running_loop().create_future())
        shown = format_call(opened.row.name, opened.row.arguments, hidden=MASK)
        self._record.live.say(f"asks: {shown}", self._services.clock.now())
        self._record.show(Activity.ASKING)

        def answered(given: GivenAnswer) -> None:
            self._post(PermissionAnswered(call, given))

        approvals, conceal = self._services.approvals, self._masks.conceal_answer
        await approvals.ask_for_call(call.id, self._profile.mysis_id, answered, opened.spec, conceal)

    async def approved(self, call: TurnCall, given: GivenAnswer) -> None:
        """Carry out a call that waited for the commander, or refuse it."""
        call.asked = None
        self._record.note_progress()
        opened = self._open.get(call.id)
        if opened is None or call.is_over:
            return None
        if not given.answer.allows:
            return await self._end(opened, ToolResult(describe_denial(given), is_error=True), CallState.DENIED)
        if given.arguments:
            changed = self._masks.stored_arguments(AnswerCall(opened.row.name, given.arguments))
            given = replace(given, arguments=changed)
            opened.row = replace(opened.row, arguments=changed)
        opened.given = given
        await self._record.store(t.MarkSent((call.id,)))
        self._start(opened)
        return None

    def _start(self, opened: _Open) -> None:
        meta = CallMeta(
            mysis_id=self._profile.mysis_id,
            mysis=self._profile.name,
            turn_id=self._record.opened.turn_id,
            call_id=opened.row.id,
            hop=self._record.opened.hop,
            deadline_s=self._profile.settings.tool.timeout,
            offered=opened.spec,
        )
        self._record.show(Activity.TOOL)
        self._own(self._running.start(opened.row, meta, read_only=opened.spec.read_only))

    async def finish(self, ended: ToolFinished) -> None:
        """Store a result, and give it to the agent."""
        if (opened := self._open.get(ended.call_id)) is not None and not opened.call.is_over:
            result = add_remark(ended.result, opened.row, opened.given)
            self.is_ending |= opened.row.name in (DONE_TOOL, WAIT_TOOL) and not result.is_error
            await self._end(opened, result, state_of(result))

    async def _end(self, opened: _Open, result: ToolResult, state: CallState) -> None:
        del self._open[opened.row.id]
        await self._calls.end_call(opened.call, result, state)
        if opened.asked.answer.done():
            self.untold.append(_LATE.format(name=opened.row.name, result=result.content))
        tell(opened.asked, result)

    def close(self) -> frozenset[asyncio.Task[None]]:
        """Answer all open calls, as the turn is over; return the tasks that go on."""
        for opened in self._open.values():
            tell(opened.asked, OVER)
        return self._running.detach()


def tell(asked: ToolAsked, result: ToolResult) -> None:
    if not asked.answer.done():
        asked.answer.set_result(result)
