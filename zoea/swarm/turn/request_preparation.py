"""Plan the requests of a turn, and reserve their tokens in an op.

Planning stays out of the writer thread: there it would compete with the event loop for the
interpreter at each of the op's statements, which costs more than the op that it saves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from zoea.context import FrozenTurn, Need, NeedAnswer, Plan, TurnRecord, TurnReplay, TurnSoFar, encode, plan_next
from zoea.context.strategies import sliding_window
from zoea.llm.prices import ModelPrice
from zoea.model.errors import PlanError
from zoea.model.request import Catalogue, RequestMessage
from zoea.model.values import Event, Memory
from zoea.settings.schema import BudgetSettings
from zoea.store.writer_connection import WriterConnection
from zoea.swarm import budgets
from zoea.swarm.persistence import memory_ops, spend_ops, turn_ops, turn_records
from zoea.swarm.resolved_template import MysisProfile
from zoea.swarm.rules import MINUTE
from zoea.swarm.services import Services
from zoea.swarm.turn import prompt_budget
from zoea.swarm.turn import turn_types as t

APPROVAL_US = 30 * MINUTE
LARGE_PLAN_CHARS = 100_000
LARGE_PLAN_MEMORIES = 500
"""A plan over more than this would block the loop for over 5 ms, so it is made in a thread of its own."""
CACHE_ENDS = 2
"""Places for cache marks within the messages: Anthropic takes four marks, and the system text and the end have one."""
SMALLER = 0.75
"""The share of a request that was too long that the next one may have."""
WIDER = (1.0, 1.15, 1.3)
"""Shares of a limit that are tried; each leaves the request shorter than the one that was too long."""
WIDEST = (1.45, 1.6, 1.8, 2.0, 2.5)
"""Shares that are tried after the first such request, where only the answer's limit can be made shorter."""
WINDOW_SHARE = 0.9
"""Of the window that a refusal names: the estimate of what fits is not exact."""
LEAST_LIMIT = 256
"""Tokens below which a number in a refusal is no window."""
_MARGIN = 0.05  # of the estimate, reserved beside it: estimates are off by a few per cent


class RequestPreparation(Struct):
    """Plans and reserves the requests of one turn.

    Attributes:
        answers: What the strategy needs from before the turn.
        store_answers: Stores the answers that are new, in the op of the next reservation.
        known_catalogues: Hashes of the catalogues that the store has; others are stored with the request.
        price: Of the model; None where it is unknown.
        replay: Of the newest plan, for the next one.
        planned: The messages of the newest plan, which the next one begins with unless it is compacted.
    """

    info: memory_ops.TurnInfo
    frozen: FrozenTurn
    answers: dict[Need, NeedAnswer]
    catalogue: Catalogue
    max_output_tokens: int
    known_catalogues: set[str]
    price: ModelPrice | None = None
    store_answers: Callable[[WriterConnection], None] | None = None
    replay: TurnReplay | None = None
    planned: tuple[RequestMessage, ...] = ()

    async def plan(self, turn: t.TurnState, limit: int | None) -> Plan:
        """Plan the next request, in a thread where it is large. Raises PlanError."""
        if _is_large(turn.memories):
            return await asyncio.to_thread(self._plan_within, turn, limit)
        return self._plan_within(turn, limit)

    def _plan_within(self, turn: t.TurnState, limit: int | None) -> Plan:
        """Plan within a limit, or a little more where the required content needs it.

        The first request that cannot be made shorter may go out once more, because it asks for a shorter answer. What
        comes after it in the turn is as short as it can be, not whole again.
        """
        if limit is None:
            return self._plan(turn, None)
        for share in (*WIDER, *WIDEST) if turn.too_long == 1 else WIDER:
            with suppress(PlanError):
                return self._plan(turn, int(limit * share))
        return self._plan(turn, None if turn.too_long == 1 else limit)

    def output_limit(self, turn: t.TurnState) -> int:
        """Return the tokens that an answer may have. After a request that was too long they are fewer as well."""
        return self.max_output_tokens if turn.limit is None else min(self.max_output_tokens, output_within(turn.limit))

    def limit_after(self, plan: Plan, window: int | None) -> int:
        """Return the token limit after a request that was too long: below its size and the window.

        Args:
            window: As the refusal names it.
        """
        limit = int(plan.budget.final_tokens * SMALLER)
        if window is not None and window - output_within(window) >= LEAST_LIMIT:
            limit = min(limit, int((window - output_within(window)) * WINDOW_SHARE))
        return limit

    def _plan(self, turn: t.TurnState, limit: int | None) -> Plan:
        frozen = self.frozen if limit is None else self.frozen.tightened(limit)
        record = TurnRecord(turn.memories, turn.notes)
        plan, self.replay = plan_next(frozen, {**self.answers, TurnSoFar(turn.turn_id): record}, self.replay)
        sent, self.planned = self.planned, plan.messages
        if not sent or plan.messages[: len(sent)] != sent:
            return plan
        return replace(plan, cache_ends=(*plan.cache_ends, len(sent))[:CACHE_ENDS])

    def estimated_tokens(self, plan: Plan) -> int:
        """Return the estimate before calibration, which is compared with the reported tokens."""
        return max(1, int(plan.budget.final_tokens / self.frozen.calibration))

    def reservation(
        self, limits: spend_ops.Limits, turn_id: int, plan: Plan, effect: t.Reserve
    ) -> Callable[[WriterConnection], spend_ops.Reserved]:
        """Return the op that writes the request row and reserves its tokens."""
        estimated = plan.budget.final_tokens
        prompt = estimated + int(estimated * _MARGIN)
        ask = spend_ops.Reservation(
            turn_id=turn_id,
            iteration=effect.iteration,
            attempt=effect.attempt,
            plan=turn_ops.plan_text({**encode(plan), "turn_limit": limits.turn.limit}),
            catalogue_hash=self.catalogue.hash,
            estimated_tokens=self.estimated_tokens(plan),
            tokens=prompt + self.max_output_tokens,
            micros=None if self.price is None else self.price.cost(prompt, self.max_output_tokens),
        )

        store_answers, self.store_answers = self.store_answers, None

        def reserve(conn: WriterConnection) -> spend_ops.Reserved:
            if store_answers is not None:
                store_answers(conn)
            if self.catalogue.hash not in self.known_catalogues:
                spend_ops.store_catalogue(conn, self.catalogue.hash, self.catalogue.tools)
            reserved = spend_ops.reserve(conn, self.info, limits, ask)
            is_trimmed = plan.is_fitted or sliding_window.is_trimmed(self.frozen, self.answers)
            if is_trimmed and reserved.request_id and not reserved.scope:
                conn.emit("context.trimmed", self.info.mysis_id, turn=turn_id, request=reserved.request_id)
            return reserved

        return reserve


def output_within(tokens: int) -> int:
    """Return the tokens of an answer that suit a window or limit of so many."""
    return max(LEAST_LIMIT, tokens // 4)


def _is_large(memories: tuple[Memory, ...]) -> bool:
    return len(memories) > LARGE_PLAN_MEMORIES or sum(len(memory.content) for memory in memories) > LARGE_PLAN_CHARS


def prepare_requests(
    services: Services,
    profile: MysisProfile,
    catalogue: Catalogue,
    number: int,
    frozen: FrozenTurn,
    before: turn_records.BeforeTurn | None,
) -> RequestPreparation:
    """Bind what all requests of a turn share. Without `before` the answers are read later."""
    info = memory_ops.TurnInfo(
        mysis_id=profile.mysis_id,
        turn_number=number,
        provider=profile.provider.name,
        model=profile.model,
        metered=profile.provider.metered,
        volatile=profile.settings.loop.volatile,
        approval_expiry=APPROVAL_US,
        prompt_room=prompt_budget.room_for_prompts(frozen),
        mission_id=frozen.mission_id,
    )
    return RequestPreparation(
        info=info,
        frozen=frozen,
        answers={} if before is None else before.answers,
        catalogue=catalogue,
        max_output_tokens=profile.max_output_tokens,
        known_catalogues=services.known_catalogues,
        price=services.prices.find(profile.provider.name, profile.model),
    )


class TurnShare(Protocol):
    """What its prompts let a turn use: `FrozenTurn`, or the same read from its row."""

    @property
    def task_tokens(self) -> int | None: ...
    @property
    def mission_tokens(self) -> int | None: ...


def lowest_limit(setting: int, of_prompts: int | None) -> int:
    """Return the tokens of a turn: the setting, or what its prompts allow if that is less."""
    return min(setting, of_prompts or setting)


def limits_of(
    services: Services,
    mysis_id: int,
    own: BudgetSettings,
    turn_used: int,
    frozen: TurnShare,
    waiting_as: Hashable = None,
) -> spend_ops.Limits:
    """The template's budgets for the turn and the mysis, the workspace's for the day.

    Args:
        own: The budgets of the template as they are now.
        waiting_as: Its key in the queue for the budget; its mysis by default.
    """
    swarm = services.settings.budget

    def bound(scope: str, limit: int | None, enforcement: str, *, is_money: bool = False) -> budgets.BudgetLimit:
        if limit is None:
            return spend_ops.NO_LIMIT
        key = budgets.question_key(scope, is_money=is_money)
        is_granted = services.approvals.may_exceed(mysis_id, key)
        return budgets.BudgetLimit(limit, enforcement, is_granted, is_money)

    return spend_ops.Limits(
        turn=bound("turn", lowest_limit(own.token_budget_per_task, frozen.task_tokens), own.enforcement),
        turn_used=turn_used,
        mysis=bound("mysis", own.mysis, own.enforcement),
        swarm=bound("swarm", swarm.swarm_per_day, swarm.swarm_enforcement),
        answer_within=APPROVAL_US,
        mission=bound("mission", frozen.mission_tokens, own.enforcement),
        mysis_money=bound("mysis", budgets.as_micros(own.mysis_money), own.enforcement, is_money=True),
        swarm_money=bound(
            "swarm", budgets.as_micros(swarm.swarm_money_per_day), swarm.swarm_enforcement, is_money=True
        ),
        smallest_waiting=services.budget_queue.smallest_other(mysis_id if waiting_as is None else waiting_as),
    )


class RequestEvents(Struct, frozen=True):
    """Tells of the requests of one turn."""

    services: Services
    mysis_id: int
    turn_id: int

    def tell_prepared(self, request_id: int, plan: Plan) -> None:
        self._tell("request.prepared", request=request_id, messages=len(plan.messages), tokens=plan.budget.final_tokens)

    def tell_used(self, request_id: int, used: int, limit: int, turn_used: int, turn_limit: int) -> None:
        """Tell what a settled request used of its budget, and all of its turn together."""
        self._tell("budget.used", request=request_id, scope="request", used=used, limit=limit)
        self._tell("budget.used", request=request_id, scope="turn", used=turn_used, limit=turn_limit)

    def _tell(self, kind: str, **data: int | str) -> None:
        events = self.services.events
        if events.is_heard:
            events.tell(Event(0, kind, self.mysis_id, {"turn": self.turn_id, **data}, self.services.clock.now()))
