"""One attempt at one answer: stream, deadlines and partial text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from math import inf
from typing import assert_never

from zoea.model.enums import SEND_TOOL, ErrorClass, Finish
from zoea.model.errors import ProviderError
from zoea.model.ports import ToolSession
from zoea.model.request import (
    Answer,
    BytesReceived,
    Catalogue,
    Delta,
    ModelRequest,
    ReadProgress,
    RequestHeld,
    RequestMessage,
    RequestSent,
)
from zoea.swarm.resolved_template import MysisProfile
from zoea.swarm.services import Services

# Share of the time between tokens by which a silence may be longer: moving a timer at every delta is expensive.
_SLACK = 1 / 16


class HeldBeforeSending(Exception):
    """A hold began while the provider's gate delayed the request; it was not sent."""


class ModelCall:
    """A request in flight. A stop keeps what `partial` returns."""

    def __init__(
        self,
        services: Services,
        profile: MysisProfile,
        session: ToolSession,
        messages: tuple[RequestMessage, ...],
        catalogue: Catalogue,
        progress: Callable[[], None],
        *,
        by_person: bool = False,
        as_schema: bool = False,
        as_signatures: bool = False,
        is_warned: bool = False,
        estimated_tokens: int = 0,
        cache_ends: tuple[int, ...] = (),
        max_output_tokens: int | None = None,
    ) -> None:
        self._services = services
        self._profile = profile
        self._session = session
        self._progress = progress
        self._show_text: Callable[[str], str]
        self._show_reasoning: Callable[[str], str]
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._row = services.view.row(profile.mysis_id)
        self._loop = asyncio.get_running_loop()
        self._deadline = asyncio.timeout(profile.settings.llm.timeout)
        self._began = self._is_kept_back = False
        self._sent_at = 0
        self._first_s = profile.settings.llm.timeout
        self._moved_at = -inf
        self.is_unsent = False
        """Its provider keeps it back: it has not left."""
        self.is_held = False
        """It had to wait for its provider, and nothing came since: no deadline but the provider's own."""
        self.first_token_us: int | None = None
        """From the moment it was sent, µs; None before the first token."""
        self._request = ModelRequest(
            model=profile.model,
            messages=messages,
            tools=catalogue.tools,
            other_tools=tuple([tool.name for tool in catalogue.others]),
            max_output_tokens=max_output_tokens or profile.max_output_tokens,
            context_window=profile.window if profile.window_known else None,
            mysis=profile.name,
            by_person=by_person,
            as_schema=as_schema,
            as_signatures=as_signatures,
            recipients=tuple([row.mysis.name for row in services.view.rows() if row.mysis.id != profile.mysis_id])
            if catalogue.find(SEND_TOOL) is not None
            else (),
            is_warned=is_warned,
            estimated_tokens=estimated_tokens,
            cache_ends=cache_ends,
            traits=profile.traits,
        )

    def partial(self) -> Answer | None:
        """Return the streamed text so far; None where there is none."""
        if not self._text and not self._reasoning:
            return None
        return Answer(text="".join(self._text), reasoning="".join(self._reasoning), finish=Finish.UNKNOWN)

    async def run(self) -> Answer:
        """Return the answer. Raises ProviderError, also for a passed deadline, and HeldBeforeSending."""
        hold, mysis_id = self._services.hold, self._profile.mysis_id
        llm = self._profile.settings.llm
        self._row.clear_stream()
        self._show_text = await self._session.stream_mask()
        self._show_reasoning = await self._session.stream_mask()
        self._sent_at = self._services.clock.uptime()
        try:
            async with self._deadline, aclosing(self._profile.provider.stream(self._request)) as stream:
                with hold.on_hold(mysis_id, self._keep_back):
                    async for item in stream:
                        if isinstance(item, Answer):
                            return self._services.prices.add_cost(
                                item, self._profile.provider.name, self._profile.model
                            )
                        self._hear(item)
                        if isinstance(item, RequestHeld | RequestSent) and hold.holds(mysis_id):
                            raise HeldBeforeSending
        except TimeoutError as error:
            if self._is_kept_back:
                raise HeldBeforeSending from None
            name, seconds = ("between_tokens", llm.between_tokens) if self._began else ("timeout", self._first_s)
            what = "fell silent in the middle of its answer" if self._began else "gave no first token"
            raise ProviderError(
                f"{self._profile.provider.label} {what} within {seconds:g} s",
                kind=ErrorClass.TRANSIENT,
                hint=f"look at the provider, or raise llm.{name}",
            ) from error
        finally:
            self.is_held = False
            self._row.show_queue(0)
            self._row.reading = None
            self._row.prepares_model = False
        raise ProviderError(f"{self._profile.provider.label} ended without an answer", kind=ErrorClass.TRANSIENT)

    def _hear(self, item: Delta | BytesReceived | ReadProgress | RequestHeld | RequestSent) -> None:
        """Keep the streamed item and extend the deadline."""
        match item:
            case Delta():
                if not self._began:
                    self._began = True
                    self._row.reading = None
                    self.first_token_us = self._services.clock.uptime() - self._sent_at
                self.is_held = False
                self._extend_deadline()
                self._keep(item)
                self._row.stream(self._show_text(item.text))
                self._row.add_reasoning(self._show_reasoning(item.reasoning))
                self._progress()
            case ReadProgress():
                self.is_held = False
                if not self._began:
                    self._row.reading = item.percent
                    self._has_left()
                    self._deadline.reschedule(self._loop.time() + self._first_s)
                self._progress()
            case BytesReceived():
                # Before the first token its own deadline stays.
                self.is_held = False
                if self._began:
                    self._extend_deadline()
                self._progress()
            case RequestHeld():
                # Waiting for the provider's gate counts for no deadline.
                self.is_held = self.is_unsent = True
                self._moved_at = -inf
                self._deadline.reschedule(None)
                self._row.show_queue(item.place, self._profile.provider.label, item.reason, item.until)
                self._row.prepares_model = item.loads
                self._services.view.touch(self._profile.mysis_id)
            case RequestSent():
                # The provider may have to load its model first: until the first token its own deadline applies.
                self._has_left()
                self._row.prepares_model = False
                self._sent_at = self._services.clock.uptime()
                if item.first_s is None:
                    self._deadline.reschedule(None)
                else:
                    self._first_s = item.first_s
                    self._deadline.reschedule(self._loop.time() + item.first_s)
            case _:
                assert_never(item)

    def _extend_deadline(self) -> None:
        self._has_left()
        now, between = self._loop.time(), self._profile.settings.llm.between_tokens
        if now - self._moved_at >= between * _SLACK:
            self._moved_at = now
            self._deadline.reschedule(now + between * (1 + _SLACK))

    def _has_left(self) -> None:
        """Mark the request as in flight; a hold does not stop it."""
        if self.is_unsent:
            self._row.show_queue(0)
            self._services.view.touch(self._profile.mysis_id)
        self.is_unsent = self._is_kept_back = False

    def _keep_back(self) -> None:
        if self.is_unsent and not self._is_kept_back:
            self._is_kept_back = True
            self._deadline.reschedule(self._loop.time())

    def _keep(self, delta: Delta) -> None:
        if delta.text:
            self._text.append(delta.text)
        if delta.reasoning:
            self._reasoning.append(delta.reasoning)
