"""Write the summary that a turn waits for by a model, one request after another.

What the model wrote for a part is stored with the turn, in the op that settles its request, so that a turn that was cut
asks for no part again. The requests count in the spending of mysis and swarm, and not among those of the turn.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Callable
from contextlib import aclosing
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from zoea.context import FrozenTurn, request_limit
from zoea.context.window.conversation_shape import ConversationShape
from zoea.context.window.conversation_summary import read_digest
from zoea.context.window.summary_parts import ANSWER_FACTOR, LEAST_ROOM, SummaryPart, SummaryProse, find_next_part
from zoea.context.window.window_estimate import MARGIN, estimate_text
from zoea.llm.prices import ModelPrice
from zoea.model.enums import ErrorClass, Finish
from zoea.model.errors import ProviderError
from zoea.model.ports import Provider, ToolSession
from zoea.model.request import Answer, ModelRequest, RequestHeld, RequestSent
from zoea.model.values import Memory, Usage
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.budgets import BudgetLimit
from zoea.swarm.commit_capture import CommitCapture
from zoea.swarm.persistence import mysis_ops, spend_ops, turn_ops, turn_records
from zoea.swarm.resolved_template import MysisProfile
from zoea.swarm.rules import SECOND
from zoea.swarm.services import Services
from zoea.swarm.turn import turn_types as t
from zoea.swarm.turn.model_call import HeldBeforeSending
from zoea.swarm.turn.request_preparation import limits_of
from zoea.text.redact import redact_all
from zoea.text.sentences import split_sentences

_log = logging.getLogger(__name__)

PROSE_SHARE = 0.6
"""The share of a summary that its prose is asked to take; facts that it lost have the rest."""
MOST_PROGRESS = 4
"""How many times the deadline a summary may take whose model shows that it is at work."""
COPIED_SHARE, LONG_SHARE = 0.7, 0.5
"""The share of copied sentences, and the share of its source, above which an answer is an echo of it."""
NO_MODEL = "scripted"
"""A provider without a model: its script answers prompts of a person only."""
_KEY = "SummaryPart"


class SummaryModel(Struct, frozen=True):
    """The model that writes summaries, and what a request to it may take."""

    provider: Provider
    model: str
    window: int
    is_window_known: bool
    max_output_tokens: int


class SummaryStage:
    """The summary of one turn, or of a commit.

    Args:
        within_s: How long all its requests may take; else `context.summary_timeout`.

    Attributes:
        wanted: The request that has to be made before the summary can be written.
        failure: Why no model writes it, in a few words; empty while one may.
    """

    def __init__(
        self,
        services: Services,
        profile: MysisProfile,
        session: ToolSession,
        frozen: FrozenTurn,
        within_s: float | None = None,
    ) -> None:
        self._services = services
        self._within_s = within_s or profile.settings.context.summary_timeout
        self._profile = profile
        self._session = session
        self._frozen = frozen
        self._known: dict[str, str] | None = None
        self._model: SummaryModel | None = None
        self._until: int | None = None
        self._refusal = ""
        self.wanted: SummaryPart | None = None
        self.failure = ""

    @property
    def model_name(self) -> str:
        return "" if self._model is None else self._model.model or self._model.provider.name

    def give_up(self) -> None:
        """Let the lines that were chosen serve alone, for the rest of the turn."""
        self.failure = self.failure or self._refusal or "no answer"

    async def find_prose(self, shape: ConversationShape) -> str | None:
        """Return what the model wrote; None where `wanted` has to be asked for first.

        It is "" where no model writes.
        """
        model = None if self.failure else await self._find_model()
        if model is None:
            return ""
        earlier = read_digest(shape.ranges[-1].text, 0).prose if shape.ranges and shape.ranges[-1].is_open else ""
        closed = sum(not one.is_open for one in shape.ranges)
        prose_tokens = min(
            int(shape.summary_tokens * PROSE_SHARE) // (1 + closed), model.max_output_tokens // ANSWER_FACTOR
        )
        limit = request_limit(self._frozen).tokens
        room = min(limit, model.window - model.max_output_tokens) / max(1.0, self._frozen.calibration)
        if room < LEAST_ROOM:
            self.failure = f"the window of {model.model or model.provider.name} has no room for one"
            return ""
        if self._known is None:
            stored = await turn_records.read_answers(self._services.store, self._frozen.turn_id)
            keys = [(json.loads(need), answer) for need, answer in stored.items() if need.startswith(f'["{_KEY}"')]
            self._known = {key[1]: json.loads(answer) for key, answer in keys}
        part = await asyncio.to_thread(
            find_next_part, shape.middle, earlier, self._known, prose_tokens=prose_tokens, room=int(room)
        )
        if isinstance(part, SummaryProse):
            return part.text
        self.wanted = part
        return None

    async def _find_model(self) -> SummaryModel | None:
        """Return the model that the settings name; None where there is none.

        Where it cannot be reached, `failure` says why.
        """
        own = self._profile.settings.context
        provider, model = self._profile.provider, self._profile.model
        # A small model loses more facts than the chosen lines do: 11 of 18 in 610 s, where lines kept 12 in 31 s.
        has_no_writer = provider.kind == NO_MODEL or (self._profile.model_info.is_small and not own.summary_model)
        if own.summary == "extract" or (own.summary == "auto" and has_no_writer and not own.summary_provider):
            return None
        if self._model is None:
            window, is_known, output = self._profile.window, self._profile.window_known, self._profile.max_output_tokens
            if own.summary_provider or own.summary_model:
                try:
                    provider = self._services.providers.get(own.summary_provider) if own.summary_provider else provider
                    model = own.summary_model
                    async with asyncio.timeout(own.summary_timeout):
                        info = await provider.info(model)
                except (ProviderError, TimeoutError) as error:
                    self.failure = f"context.summary_model: {error}"
                    _log.warning("no model writes summaries for mysis #%d: %s", self._profile.mysis_id, error)
                    return None
                window, is_known = info.context_window or own.context_window, info.context_window is not None
                output, model = min(filter(None, (output, info.max_output, window // 4))), model or info.name
            self._model = SummaryModel(provider, model, window, is_known, output)
        return self._model

    async def write(self) -> t.TurnInput:
        """Ask for the wanted summary and store it with the turn. Cancelling this leaves its request reserved."""
        part, model = self.wanted, self._model
        assert part is not None
        assert model is not None
        services, clock = self._services, self._services.clock
        if self._until is None:
            self._until = clock.uptime() + int(self._within_s * SECOND)
        request = self._request(model, part)
        owner = spend_ops.PlainOwner(
            mysis_id=self._profile.mysis_id,
            provider=model.provider.name,
            model=model.model,
            metered=model.provider.metered,
            mission_id=self._frozen.mission_id,
            is_background=True,
        )
        ask = self._reservation(request, services.prices.find(model.provider.name, model.model))
        reserved = await services.write(partial(spend_ops.reserve, owner=owner, limits=self._limits(), ask=ask))
        if reserved.rest_us:
            await clock.sleep(reserved.rest_us)
        if reserved.scope:
            return self._failed(_describe_refusal(reserved))
        began = clock.uptime()
        try:
            answer = await self._ask(model.provider, request)
        except HeldBeforeSending:
            await self._fail(owner, reserved.request_id, ErrorClass.CANCELLED)
            return t.CallWithheld(clock.uptime())
        except TimeoutError:
            # It may have been read and written, so it counts as estimated.
            done = replace(owner, duration_us=clock.uptime() - began)
            await self._spend(partial(_settle, owner=done, request_id=reserved.request_id, answer=None))
            return self._failed(f"no answer within {self._within_s:g} s")
        except ProviderError as error:
            await self._fail(owner, reserved.request_id, error.kind)
            return self._failed(error.title, can_retry=error.kind.is_transient)
        answer = await self._session.conceal_answer(answer)
        text = redact_all(answer.text).strip()
        done = replace(owner, duration_us=clock.uptime() - began)
        is_good = not _find_fault(answer, text, request)
        stored = {json.dumps([_KEY, part.key]): json.dumps(text, ensure_ascii=False)} if is_good else {}
        await self._spend(
            partial(
                _settle,
                owner=done,
                request_id=reserved.request_id,
                answer=answer,
                turn_id=self._frozen.turn_id,
                stored=stored,
            )
        )
        if why := _find_fault(answer, text, request):
            return self._failed(why, can_retry=True)
        assert self._known is not None
        self._known[part.key] = text
        self.wanted = None
        return t.Summarised(clock.uptime())

    def _failed(self, why: str, *, can_retry: bool = False) -> t.SummaryFailed:
        _log.warning("a summary for mysis #%d was not written: %s", self._profile.mysis_id, why)
        self._refusal = why
        if not can_retry:
            self.failure = why
        return t.SummaryFailed(self._services.clock.uptime(), can_retry)

    async def _fail(self, owner: spend_ops.PlainOwner, request_id: int, kind: ErrorClass) -> None:
        await self._spend(partial(spend_ops.fail, owner=owner, request_id=request_id, usage=Usage(), error_class=kind))

    async def _spend(self, op: Callable[[WriterConnection], None]) -> None:
        """Write what ends a request, and show what the mysis has spent by now."""

        def write(conn: WriterConnection) -> sqlite3.Row:
            op(conn)
            return mysis_ops.tally(conn, self._profile.mysis_id)

        self._services.view.count(await self._services.write(write))

    async def _ask(self, provider: Provider, request: ModelRequest) -> Answer:
        """Return the answer. Raises ProviderError, TimeoutError, and HeldBeforeSending where a hold began."""
        hold, mysis_id = self._services.hold, self._profile.mysis_id
        left = ((self._until or 0) - self._services.clock.uptime()) / SECOND
        latest = asyncio.get_running_loop().time() + max(0.0, left) + (MOST_PROGRESS - 1) * self._within_s
        async with asyncio.timeout(max(0.0, left)) as limit, aclosing(provider.stream(request)) as stream:
            async for item in stream:
                # A server that reads or writes slowly is at work.
                limit.reschedule(min(latest, asyncio.get_running_loop().time() + self._within_s))
                if isinstance(item, Answer):
                    return self._services.prices.add_cost(item, provider.name, request.model)
                if isinstance(item, RequestHeld | RequestSent) and hold.holds(mysis_id):
                    raise HeldBeforeSending
        raise ProviderError(f"{provider.label} ended without an answer", kind=ErrorClass.TRANSIENT)

    def _request(self, model: SummaryModel, part: SummaryPart) -> ModelRequest:
        estimated = int(MARGIN * sum(estimate_text(message.content) for message in part.messages)) + 1
        return ModelRequest(
            model=model.model,
            messages=part.messages,
            max_output_tokens=min(model.max_output_tokens, part.answer_tokens),
            context_window=model.window if model.is_window_known else None,
            mysis=self._profile.name,
            estimated_tokens=estimated,
        )

    def _reservation(self, request: ModelRequest, price: ModelPrice | None) -> spend_ops.Reservation:
        return spend_ops.Reservation(
            turn_id=self._frozen.turn_id,
            iteration=0,
            attempt=1,
            plan=None,
            catalogue_hash="",
            estimated_tokens=request.estimated_tokens,
            tokens=request.estimated_tokens + request.max_output_tokens,
            micros=None if price is None else price.cost(request.estimated_tokens, request.max_output_tokens),
            purpose="summary",
        )

    def _limits(self) -> spend_ops.Limits:
        """Return the limits of summaries. No person is asked: without room no model writes."""
        limits = limits_of(self._services, self._profile.mysis_id, self._profile.settings.budget, 0, self._frozen)
        return replace(
            limits,
            turn=BudgetLimit(None, "soft"),
            mysis=_without_question(limits.mysis),
            swarm=_without_question(limits.swarm),
            mission=_without_question(limits.mission),
            mysis_money=_without_question(limits.mysis_money),
            swarm_money=_without_question(limits.swarm_money),
            background=BudgetLimit(self._services.settings.budget.background_tokens, "hard"),
        )


def _find_fault(answer: Answer, text: str, request: ModelRequest) -> str:
    """Return why an answer is no summary, in a few words. Empty where it is one."""
    if not text:
        return "an empty answer"
    if answer.finish is Finish.LENGTH:
        return "an answer that was cut"
    if answer.finish is Finish.FILTER:
        return "a refusal"
    if estimate_text(text) > request.estimated_tokens:
        return "an answer longer than what it sums up"
    source = " ".join(request.messages[-1].content.split())
    copied = sum(len(one) for one in split_sentences(text) if one in source)
    is_copy = copied > COPIED_SHARE * len(text) and len(text) > len(source) * LONG_SHARE
    return "a copy of what it sums up" if is_copy else ""


def _describe_refusal(reserved: spend_ops.Reserved) -> str:
    if reserved.scope != "background" or reserved.is_money:
        return f"the budget ({reserved.scope}) has no room for it"
    return f"it needs budget.background = {reserved.tokens}, which is {reserved.limit}"


def _without_question(bound: BudgetLimit) -> BudgetLimit:
    return replace(bound, enforcement="hard") if bound.enforcement == "approve" else bound


def _settle(
    conn: WriterConnection,
    *,
    owner: spend_ops.PlainOwner,
    request_id: int,
    answer: Answer | None,
    turn_id: int = 0,
    stored: dict[str, str] | None = None,
) -> None:
    """Settle the request, and store what it brought in the same op."""
    usage, finish = (Usage(), Finish.UNKNOWN) if answer is None else (answer.usage, answer.finish)
    spend_ops.settle(conn, owner, request_id, usage, finish=finish, model="" if answer is None else answer.model)
    if stored:
        turn_ops.store_answers(conn, turn_id, stored)


class OpenedTurnFacts(Struct, frozen=True):
    """A turn that is open and not planned yet.

    Attributes:
        prompts: The memories that the turn was opened with.
        summaries: Has a model write the turn's summary.
        capture: Commits a new summary.
    """

    services: Services
    frozen: FrozenTurn
    prompts: tuple[Memory, ...]
    summaries: SummaryStage
    capture: CommitCapture
