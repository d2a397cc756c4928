"""Handles one request of an agent: admission, forwarding, the answer, and its usage."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from zoea.context import Plan
from zoea.llm.messages.wire_bodies import Wire, WireBody, parse_body, read_body
from zoea.llm.model_traits import Trait
from zoea.llm.providers.http_provider import (
    DOCUMENTS,
    ForwardedHead,
    ForwardedItem,
    ForwardedRequest,
    HttpProvider,
    StreamDecoder,
)
from zoea.llm.transport.refusal_tables import NO_MODEL
from zoea.model.enums import ErrorClass, Finish, MysisState
from zoea.model.errors import ProviderError, StoreError
from zoea.model.ports import Provider, ToolSession
from zoea.model.request import Answer, Delta, ModelRequest, RequestHeld, RequestSent
from zoea.model.values import Failure, Usage
from zoea.settings.schema import BudgetSettings
from zoea.store.writer_connection import WriterConnection
from zoea.swarm import budgets
from zoea.swarm.persistence import agent_requests, mysis_ops, spend_ops
from zoea.swarm.persistence.agent_requests import AgentSituation
from zoea.swarm.resolved_template import MysisProfile, build_profile
from zoea.swarm.runner import MysisRunner
from zoea.swarm.services import Services
from zoea.swarm.turn.request_preparation import RequestEvents, limits_of, lowest_limit
from zoea.text import estimate
from zoea.web.gateway_answers import AnswerReader, begin, in_thread_if_large, keep_headers, make_decoder, write
from zoea.web.gateway_bodies import UsageFilter, ask_for_usage, find_unsupported, set_model
from zoea.web.gateway_record import conceal_messages, record
from zoea.web.gateway_refusal import GatewayRefusal
from zoea.web.gateway_translation import find_loss, forward_translated, make_request

_log = logging.getLogger(__name__)

PATIENCE_S = 240.0
"""How long a client waits for a hold, a budget or a place; most give up after five minutes themselves."""
_MARGIN = 0.05
MOST_ANSWER = 1_000_000
"""Tokens of an answer of a model of which nothing is known: none writes more, whatever a request allows."""
_KEPT_REQUEST_HEADERS = ("anthropic-version", "anthropic-beta", "openai-beta")
_NO_PATH = (404, 405, 501)


class _NoSuchWire(Exception):
    """The server of a provider has no path for the wire."""


class GatewayLink(Struct, frozen=True):
    """What the requests of one mysis share.

    Attributes:
        session: Knows the secrets that may not be stored.
        questions: The budgets that a person is asked about, by turn; set when answered.
        settling: Writes that end a request, to be awaited when the gateway closes.
        missing: Wires that the servers of a provider turned out not to have, by its name.
        situations: What the newest request belonged to, by provider and model: the next one most likely does too.
    """

    services: Services
    runners: Mapping[int, MysisRunner]
    mysis_id: int
    session: ToolSession
    questions: dict[int, asyncio.Event]
    settling: set[asyncio.Task[None]]
    missing: set[tuple[str, Wire]]
    situations: dict[tuple[str, str], AgentSituation]

    @property
    def runner(self) -> MysisRunner:
        """The mysis as it runs now. Raises GatewayRefusal where it was deleted."""
        runner = self.runners.get(self.mysis_id)
        if runner is None:
            raise GatewayRefusal(403, "its mysis was deleted", code="not_running")
        return runner


class AgentCall:
    """A request of an agent on its way."""

    def __init__(self, link: GatewayLink, wire: Wire, headers: Mapping[str, str], query: str = "") -> None:
        self._link = link
        self._services = link.services
        self._runner = link.runner
        self._mysis_id = link.mysis_id
        self._live = link.services.view.row(self._mysis_id)
        self._wire = wire
        self._headers = {name: headers[name] for name in _KEPT_REQUEST_HEADERS if name in headers}
        self._query = query
        self._patience = asyncio.timeout(PATIENCE_S)
        self._waits_for = "its turn at the model"
        self._body: WireBody
        self._parsed: dict[str, Any]
        self._parts: dict[str, bytes]
        self._profile: MysisProfile
        self._own_budget: BudgetSettings
        self._provider: Provider
        self._translated: ModelRequest | None = None
        self._situation: AgentSituation
        self._owner: spend_ops.PlainOwner
        self._plan: Plan
        self._usual: tuple[int, int]
        self._decoder: StreamDecoder
        self._reader: AnswerReader | None = None
        self._response: web.StreamResponse | None = None
        self._request_id = 0
        self._sent_at: int | None = None
        self._reserved_at = 0
        self._first_token_us: int | None = None
        self._answer: Answer | None = None
        self._failure: ErrorClass | None = None
        self._text_tokens = 0
        self._is_waiting = False

    async def answer(self, content: bytes, request: web.Request) -> web.StreamResponse:
        """Carry the request out, and return what was answered. Raises GatewayRefusal."""
        parsed = self._parsed = await self._read(content)
        if why := find_unsupported(self._wire, parsed, self._body):
            raise GatewayRefusal(400, why, code="unsupported")
        await self._resolve(parsed)
        content = set_model(content, self._parts, self._profile.model)
        lacks_usage = self._wire is Wire.CHAT and self._body.is_stream and "stream_options" not in parsed
        if lacks_usage := lacks_usage and not self._refuses_stream_options():
            content = ask_for_usage(content)
        self._wait()
        try:
            async with self._patience:
                await self._admit()
                return await self._forward(content, request, UsageFilter() if lacks_usage else None)
        except TimeoutError:
            if not self._patience.expired():
                raise
            what = self._describe_hold() if self._services.hold.holds(self._mysis_id) else self._waits_for
            why = f"{self._runner.mysis.name} still waits for {what}; ask again"
            raise GatewayRefusal(429, why, code="held") from None
        finally:
            self._end_wait()
            self._services.budget_queue.leave(self._key)
            self._live.show_queue(0)
            if self._request_id:
                settled = asyncio.create_task(self._settle(), name="settlement of an agent's request")
                self._link.settling.add(settled)
                settled.add_done_callback(self._link.settling.discard)
                await asyncio.shield(settled)

    async def count(self, content: bytes, request: web.Request) -> web.StreamResponse:
        """Have the provider count the tokens of a request, which costs nothing. Raises GatewayRefusal."""
        await self._read(content)
        await self._resolve({})
        provider = self._speaking_provider
        if provider is None:
            raise GatewayRefusal(404, f"{self._provider.label} does not count tokens", code="not_found")
        forwarded = ForwardedRequest(
            path=f"{provider.wires[self._wire]}/count_tokens{self._query}",
            content=set_model(content, self._parts, self._profile.model),
            model=self._profile.model,
            estimated_tokens=0,
            headers=self._headers,
        )
        try:
            async with self._patience, aclosing(provider.forward(forwarded)) as items:
                head, pieces = None, []
                async for item in items:
                    head = item if isinstance(item, ForwardedHead) else head
                    pieces += [item] if isinstance(item, bytes) else []
        except ProviderError as error:
            raise _refuse_by(error) from None
        except TimeoutError:
            raise GatewayRefusal(429, "the provider has no place free; ask again", code="held") from None
        assert head is not None
        return web.Response(status=head.status, headers=keep_headers(head.headers), body=b"".join(pieces))

    @property
    def _key(self) -> tuple[int, int]:
        return self._mysis_id, id(self)

    # Before it is sent.

    async def _read(self, content: bytes) -> dict[str, Any]:
        try:
            parsed: dict[str, Any]
            parsed, self._parts, self._body = await in_thread_if_large(len(content), _read_whole, self._wire, content)
        except ValueError as problem:
            raise GatewayRefusal(400, str(problem), code="invalid_request") from None
        return parsed

    async def _resolve(self, parsed: Mapping[str, Any]) -> None:
        """Find the provider and model of the mysis, and what the request belongs to."""
        mysis = self._runner.mysis
        if mysis.state is not MysisState.RUNNING:
            raise GatewayRefusal(403, f"{mysis.name} is {mysis.state}; start it first", code="not_running")
        try:
            self._profile = await build_profile(mysis, self._runner.known, self._services.providers)
        except ProviderError as error:
            raise _refuse_by(error) from None
        self._provider = provider = self._profile.provider
        if not self._profile.model and isinstance(provider, HttpProvider):
            raise GatewayRefusal(
                400, f"{mysis.name} has no model; set one: zoea configure {mysis.name} --model NAME", code="no_model"
            )
        if self._speaking_provider is None and parsed:
            self._translate(parsed)
        situation = self._link.situations.get((provider.name, self._profile.model))
        if situation is None:
            rows = await self._services.store.read(agent_requests.SITUATION, self._situation_key)
            situation = agent_requests.read_situation(rows)
        self._belong_to(situation)
        self._decoder = make_decoder(self._wire, provider.name, self._profile.model, self._secrets)

    @property
    def _situation_key(self) -> tuple[int, str, str]:
        return self._mysis_id, self._provider.name, self._profile.model

    def _belong_to(self, situation: AgentSituation) -> None:
        self._situation = situation
        self._owner = spend_ops.PlainOwner(*self._situation_key, self._provider.metered, situation.mission_id)

    @property
    def _speaking_provider(self) -> HttpProvider | None:
        """The provider, where it speaks the wire of the client."""
        provider = self._provider
        if not isinstance(provider, HttpProvider) or (provider.name, self._wire) in self._link.missing:
            return None
        return provider if self._wire in provider.wires else None

    @property
    def _secrets(self) -> tuple[str, ...]:
        return self._provider.secrets if isinstance(self._provider, HttpProvider) else ()

    def _translate(self, parsed: Mapping[str, Any]) -> None:
        """Make the request one of Zoea's own. Raises GatewayRefusal where that would lose a part of it."""
        profile, kind = self._profile, f"{self._provider.label} ({self._provider.kind})"
        if loss := find_loss(self._wire, parsed):
            hint = f"give {self._runner.mysis.name} another provider, or its agent another API"
            what = f"{kind} does not speak {self._wire}, and {loss} cannot be translated; {hint}"
            raise GatewayRefusal(400, what, code="wire_not_supported")
        base = ModelRequest(
            model=profile.model,
            messages=(),
            max_output_tokens=profile.max_output_tokens,
            context_window=profile.window if profile.window_known else None,
            mysis=profile.name,
            estimated_tokens=self._body.tokens,
            traits=profile.traits,
        )
        self._translated = make_request(self._body, parsed, base)

    def _refuses_stream_options(self) -> bool:
        provider = self._speaking_provider
        return provider is not None and Trait.NO_STREAM_OPTIONS in provider.traits.of(self._profile.model)

    def _open(self, content: bytes) -> AsyncGenerator[ForwardedItem, None]:
        """Send the request as it is, or translated."""
        if (provider := self._speaking_provider) is None:
            assert self._translated is not None
            request = replace(self._translated, by_person=self._situation.by_person)
            return forward_translated(self._provider, request, self._wire, is_stream=self._body.is_stream)
        forwarded = ForwardedRequest(
            path=provider.wires[self._wire] + self._query,
            content=content,
            model=self._profile.model,
            estimated_tokens=self._plan.budget.final_tokens,
            headers=self._headers,
            by_person=self._situation.by_person,
        )
        return provider.forward(forwarded)

    async def _admit(self) -> None:
        """Reserve the tokens, as soon as holds and budgets let it. Raises GatewayRefusal."""
        ask = await self._prepare()
        while True:
            await self._await_lift()
            if self._own_budget != self._runner.known.settings.budget:
                ask = await self._prepare()  # it was changed while this request waited
            reserved = await self._services.write(partial(self._reserve, ask=ask), urgent=self._situation.by_person)
            if isinstance(reserved, AgentSituation):
                self._belong_to(reserved)
                ask = await self._prepare()
                continue
            if reserved.is_waiting:
                await self._wait_for_others(reserved)
                continue
            self._services.budget_queue.leave(self._key)
            if not reserved.scope:
                break
            # A budget that would do for an answer of the usual length is not spent, so the swarm goes on.
            least = reserved.tokens - reserved.asked + self._usual[reserved.is_money]
            if reserved.is_asked:
                if self._own_budget == self._runner.known.settings.budget:
                    await self._wait_for_person(reserved)
            elif reserved.scope == "swarm" and not reserved.is_unpriced and least > reserved.limit:
                reason = budgets.describe_spent_day(
                    reserved.used, reserved.tokens, reserved.limit, is_money=reserved.is_money
                )
                await self._services.hold_swarm(reason)
            else:
                raise self._refuse(reserved)
        self._request_id = reserved.request_id
        self._reserved_at = self._services.clock.uptime()
        await self._tell_prepared()
        if reserved.rest_us:
            await self._services.clock.sleep(reserved.rest_us)

    async def _prepare(self) -> spend_ops.Reservation:
        """Record the request as a plan, and say what it may take."""
        body, profile, calibration = self._body, self._profile, self._situation.calibration
        self._own_budget = self._runner.known.settings.budget
        messages = await conceal_messages(self._link.session, body.messages)
        plan, text = await in_thread_if_large(
            4 * body.tokens, record, body, messages, profile, calibration, self._turn_limit()
        )
        self._plan = plan
        prompt = plan.budget.final_tokens + int(plan.budget.final_tokens * _MARGIN)
        output = body.max_output_tokens or profile.max_output_tokens
        longest = profile.model_info.max_output or (profile.window if profile.window_known else MOST_ANSWER)
        output = min(output, longest)
        price = self._services.prices.find(self._provider.name, profile.model)
        usual = min(output, profile.max_output_tokens)
        self._usual = prompt + usual, (price and price.cost(prompt, usual)) or 0
        return spend_ops.Reservation(
            turn_id=self._situation.turn_id,
            iteration=1,
            attempt=1,
            plan=text,
            catalogue_hash=body.catalogue_hash,
            estimated_tokens=body.tokens,
            tokens=prompt + output,
            micros=None if price is None else price.cost(prompt, output),
        )

    def _turn_limit(self) -> int:
        return lowest_limit(self._own_budget.token_budget_per_task, self._situation.task_tokens)

    def _reserve(self, conn: WriterConnection, ask: spend_ops.Reservation) -> spend_ops.Reserved | AgentSituation:
        """Reserve the request, unless it belongs to something else by now, which is returned."""
        situation = agent_requests.read_situation(
            conn.execute(agent_requests.SITUATION, self._situation_key).fetchall()
        )
        self._link.situations[self._situation_key[1:]] = situation
        # A ratio that changed since changes no budget: the next request takes it.
        if replace(situation, calibration=self._situation.calibration) != self._situation:
            return situation
        if ask.catalogue_hash and ask.catalogue_hash not in self._services.known_catalogues:
            spend_ops.store_catalogue(conn, ask.catalogue_hash, self._body.tools)
        limits = limits_of(self._services, self._mysis_id, self._own_budget, 0, self._situation, self._key)
        if ask.turn_id is None:
            limits = replace(limits, turn=replace(limits.turn, limit=None))
        return agent_requests.reserve_for_agent(conn, self._owner, limits, ask)

    async def _tell_prepared(self) -> None:
        services, plan, turn_id = self._services, self._plan, self._situation.turn_id
        services.known_catalogues.add(self._body.catalogue_hash)
        self._live.show_context(plan.budget.final_tokens, plan.budget.max_tokens, len(plan.messages))
        self._live.turn_limit = self._turn_limit()
        services.view.touch(self._mysis_id)
        if turn_id is not None:
            RequestEvents(services, self._mysis_id, turn_id).tell_prepared(self._request_id, plan)

    # Waiting.

    def _wait(self) -> None:
        """Show that the agent is silent because this request waits."""
        self._is_waiting = True
        self._live.asks_waiting += 1

    def _end_wait(self) -> None:
        self._live.asked_at = self._services.clock.uptime()
        self._live.asks_waiting -= self._is_waiting
        self._is_waiting = False

    async def _await_lift(self) -> None:
        if self._services.hold.holds(self._mysis_id):
            await self._services.hold.lifted(self._mysis_id)

    def _describe_hold(self) -> str:
        """Say what a request waits for during a hold. A full disk begins one while it is written."""
        return f"the end of a hold{f' ({reason})' if (reason := self._services.hold.reason) else ''}"

    async def _wait_for_others(self, reserved: spend_ops.Reserved) -> None:
        """Wait until others settle what they reserved of the same budget."""
        queue, turn = self._services.budget_queue, asyncio.Event()
        queue.wait(self._key, reserved.asked, turn.set)
        if not reserved.by_others:
            queue.wake_smallest()
        self._show_queue(queue.place(self._key), "the budget", "")
        await turn.wait()

    async def _wait_for_person(self, reserved: spend_ops.Reserved) -> None:
        """Wait for the answer about a budget. The requests of one turn wait for the same answer."""
        turn_id, questions = self._situation.turn_id, self._link.questions
        assert turn_id is not None
        self._waits_for = "your answer about a budget"
        answered = questions.get(turn_id)
        if answered is None:
            answered = questions[turn_id] = asyncio.Event()
            post = partial(_answer_question, questions, turn_id)
            what = budgets.describe_excess(reserved.scope, reserved.tokens, reserved.limit, is_money=reserved.is_money)
            self._live.say(f"asks: go on? {what}", self._services.clock.now())
            await self._services.approvals.ask_for_budget(turn_id, self._mysis_id, post)
        await answered.wait()

    def _show_queue(self, place: int, name: str, why: str, until: int | None = None) -> None:
        self._waits_for = why or name
        self._live.show_queue(place, name, why, until)
        self._services.view.touch(self._mysis_id)

    def _refuse(self, reserved: spend_ops.Reserved) -> GatewayRefusal:
        """End the turn over its budget, and return the refusal."""
        scope, is_money = reserved.scope, reserved.is_money
        if reserved.is_unpriced:
            what, hint = budgets.describe_missing_price(scope, self._profile.model), ""
        else:
            what = budgets.describe_excess(scope, reserved.tokens, reserved.limit, reserved.used, is_money=is_money)
            hint = budgets.advise_after_refusal(scope, is_money=is_money)
            hint = hint or f"let its agent ask for answers of at most {self._profile.max_output_tokens:,} tokens"
        stops = scope == "mysis" or reserved.is_unpriced
        self._runner.end_over_budget(Failure("Budget", what, hint=hint), stops=stops)
        return GatewayRefusal(402, f"{what}{f'; {hint}' if hint else ''}", code="over_budget")

    # On its way.

    async def _forward(
        self, content: bytes, request: web.Request, usage_filter: UsageFilter | None
    ) -> web.StreamResponse:
        """Send the request, and give the answer back as it comes. Raises GatewayRefusal, also in its middle."""
        response: web.StreamResponse | None = None
        try:
            while response is None:
                await self._await_lift()
                try:
                    response = await self._try(content, request, usage_filter)
                except _NoSuchWire:
                    self._failure = ErrorClass.BAD_REQUEST
                    self._link.missing.add((self._provider.name, self._wire))
                    self._translate(self._parsed)
                    self._failure = None
        except ProviderError as error:
            self._failure = error.kind
            _log.warning("a request of the agent of mysis #%d failed: %s", self._mysis_id, error.what)
            raise _refuse_by(error) from None
        await response.write_eof()
        return response

    async def _try(
        self, content: bytes, request: web.Request, usage_filter: UsageFilter | None
    ) -> web.StreamResponse | None:
        """Send a request and forward its answer. Return None if a hold began before it was sent."""
        refused, is_refusable = False, self._wire is Wire.RESPONSES and self._translated is None
        reader = self._reader = AnswerReader(self._provider.name, self._decoder, self._secrets)
        async with aclosing(self._open(content)) as items:
            async for item in items:
                match item:
                    case RequestHeld() | RequestSent() if self._services.hold.holds(self._mysis_id):
                        return None
                    case RequestHeld():
                        self._show_queue(item.place, self._provider.label, item.reason, item.until)
                    case RequestSent():
                        self._note_sent()
                    case ForwardedHead():
                        # Many servers of chat completions have no responses; one that misses the model has them.
                        misses_model = item.error is not None and NO_MODEL.search(item.error.said)
                        if is_refusable and item.status in _NO_PATH and not misses_model:
                            raise _NoSuchWire
                        if item.error is not None and item.status < 400:
                            raise item.error  # a client could not follow it, because it is told no place
                        if self._sent_at is None:  # it did not have to wait
                            self._note_sent()
                        refused = item.error is not None
                        self._failure = None if item.error is None else item.error.kind
                        kind = item.headers.get("content-type", "").partition(";")[0].strip().lower()
                        reader.is_stream = kind not in DOCUMENTS
                        self._response = await begin(item, request)
                    case bytes():
                        assert self._response is not None
                        shown = item if usage_filter is None or refused else usage_filter.feed(item)
                        await write(self._response, request.transport, shown)
                        if not refused:
                            self._live.progress_at = self._services.clock.now()
                            self._live.asked_at = self._services.clock.uptime()
                            if self._first_token_us is None and self._sent_at is not None:
                                self._first_token_us = self._services.clock.uptime() - self._sent_at
                            self._hear(await reader.feed(item))
        if self._response is None:
            raise ProviderError(f"{self._provider.label} ended without an answer", kind=ErrorClass.TRANSIENT)
        if not refused:
            if usage_filter is not None:
                await write(self._response, request.transport, usage_filter.end())
            self._hear(await reader.flush())
            self._hear(await reader.end())
            self._answer = self._decoder.answer()
        return self._response

    def _note_sent(self) -> None:
        self._end_wait()
        self._sent_at = self._services.clock.uptime()
        self._patience.reschedule(None)
        self._live.show_queue(0)
        self._services.view.touch(self._mysis_id)

    def _hear(self, delta: Delta | None) -> None:
        if delta is not None:
            self._text_tokens += estimate.tokens(delta.text + delta.reasoning + delta.call)

    # Its end.

    async def _settle(self) -> None:
        """Store what the request used, or may have used where it broke off."""
        services, turn_id, request_id = self._services, self._situation.turn_id, self._request_id
        if self._answer is None and self._reader is not None:
            with suppress(ProviderError):
                self._hear(await self._reader.flush())
        duration = services.clock.uptime() - self._reserved_at
        owner = replace(self._owner, first_token_us=self._first_token_us, duration_us=duration)
        answer, failure, end = self._answer, self._failure, self._end_op(owner)

        def end_it(conn: WriterConnection) -> tuple[Any, int, int]:
            end(conn)
            (used, own), limit = agent_requests.read_used_in_turn(conn, turn_id, request_id), self._turn_limit()
            if turn_id is not None and budgets.has_crossed_warning(used - own, used, limit):
                conn.emit("budget.warning", self._mysis_id, scope="turn", used=used, limit=limit)
            return mysis_ops.tally(conn, self._mysis_id), used, own

        try:
            # Without this, after a loss of power, the next start settles the reservation by its estimate.
            tally, used, own = await services.write(end_it, is_synced=False)
        except StoreError as error:
            _log.warning("what an agent's request used was not stored; the next start does it: %s", error.what)
            return
        services.view.count(tally)
        services.budget_queue.wake_some()
        if turn_id is not None:
            self._live.turn_tokens = used
            if answer is not None and failure is None:
                events = RequestEvents(services, self._mysis_id, turn_id)
                most = self._plan.budget.max_tokens
                events.tell_used(request_id, own, most, used, self._turn_limit())

    def _end_op(self, owner: spend_ops.PlainOwner) -> Callable[[WriterConnection], None]:
        request_id, failure = self._request_id, self._failure
        if self._answer is not None and failure is None:
            answer = self._price(self._answer)
            return lambda conn: spend_ops.settle(
                conn, owner, request_id, answer.usage, finish=answer.finish, model=answer.model
            )
        if self._sent_at is None:
            why = failure or ErrorClass.CANCELLED
            return lambda conn: spend_ops.fail(conn, owner, request_id, Usage(), why, is_planned=False)
        is_refused = failure is not None and not self._text_tokens
        usage = Usage() if is_refused else self._price(Answer(usage=self._estimate_usage())).usage
        if failure is not None:
            return lambda conn: spend_ops.fail(conn, owner, request_id, usage, failure, is_planned=False)
        return lambda conn: spend_ops.settle(conn, owner, request_id, usage, finish=Finish.UNKNOWN, is_estimate=True)

    def _estimate_usage(self) -> Usage:
        """Return what was reported before the answer broke off, else what it took by estimate."""
        try:
            reported = self._decoder.answer().usage
        except ProviderError:
            reported = Usage()
        return replace(
            reported,
            input_tokens=reported.input_tokens or self._plan.budget.final_tokens,
            output_tokens=max(reported.output_tokens or 0, self._text_tokens),
        )

    def _price(self, answer: Answer) -> Answer:
        return self._services.prices.add_cost(answer, self._provider.name, self._profile.model)


def _read_whole(wire: Wire, content: bytes) -> tuple[dict[str, Any], dict[str, bytes], WireBody]:
    parsed, parts, entries = parse_body(content, wire)
    return parsed, parts, read_body(wire, parsed, parts.get("tools", b""), entries)


def _refuse_by(error: ProviderError) -> GatewayRefusal:
    """Return a failure of the provider as a refusal."""
    hint = f" ({error.hint})" if error.hint else ""
    status = 504 if isinstance(error.__cause__, TimeoutError) else 502 if error.kind.is_transient else 400
    return GatewayRefusal(status, f"{error.what}{hint}", code=str(error.kind))


def _answer_question(questions: dict[int, asyncio.Event], turn_id: int, _answer: object) -> None:
    if (answered := questions.pop(turn_id, None)) is not None:
        answered.set()
