"""One attempt at one answer: streams it, keeps the deadlines, and knows what was said so far."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from zoea.model.errors import ProviderError
from zoea.model.request import Answer, Delta, Held, ModelRequest, RequestMessage, ToolSpec
from zoea.model.words import ErrorClass, Finish
from zoea.swarm.agent import Agent
from zoea.swarm.services import Services

# Of the time between tokens, by which a silence may last longer: a timer moved at every delta costs more than it says.
_SLACK = 1 / 16


class ModelCall:
    """A request on its way. `partial` is what a stop in mid-stream keeps."""

    def __init__(
        self,
        services: Services,
        agent: Agent,
        messages: tuple[RequestMessage, ...],
        tools: tuple[ToolSpec, ...],
        progress: Callable[[], None],
    ) -> None:
        self._services = services
        self._agent = agent
        self._progress = progress
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self.is_held = False
        self.first_token_us: int | None = None
        """From the moment it was sent, µs; None before the first token."""
        self._request = ModelRequest(
            model=agent.model,
            messages=messages,
            tools=tools,
            max_output_tokens=agent.max_output_tokens,
            context_window=agent.window if agent.window_known else None,
            mysis=agent.name,
        )

    def partial(self) -> Answer | None:
        """What was streamed so far; None where nothing was."""
        if not self._text and not self._reasoning:
            return None
        return Answer(text="".join(self._text), reasoning="".join(self._reasoning), finish=Finish.UNKNOWN)

    async def run(self) -> Answer:
        """Raises ProviderError, also for a deadline that passed."""
        llm = self._agent.settings.llm
        loop = asyncio.get_running_loop()
        row = self._services.view.row(self._agent.mysis_id)
        row.hush()
        began = False
        sent_at = self._services.clock.now()
        moved_at = 0.0
        try:
            async with (
                asyncio.timeout(llm.timeout) as deadline,
                aclosing(
                    self._agent.provider.stream(self._request)  # type: ignore[type-var]  # every body is a generator
                ) as stream,
            ):
                async for item in stream:
                    match item:
                        case Delta():
                            if not began:
                                began = True
                                self.first_token_us = self._services.clock.now() - sent_at
                            self.is_held = False
                            now = loop.time()
                            if now - moved_at >= llm.between_tokens * _SLACK:
                                moved_at = now
                                deadline.reschedule(now + llm.between_tokens * (1 + _SLACK))
                            self._keep(item)
                            row.stream(item.text)
                            row.think(item.reasoning)
                            self._progress()
                        case Held():
                            # Waiting for the provider's gate counts for no deadline.
                            self.is_held = True
                            moved_at = 0.0
                            deadline.reschedule(None)
                        case Answer():
                            return item
        except TimeoutError as error:
            seconds = llm.between_tokens if began else llm.timeout
            what = "fell silent in the middle of its answer" if began else "gave no first token"
            raise ProviderError(
                f"{self._agent.provider.label} {what} within {seconds:g} s",
                kind=ErrorClass.TRANSIENT,
                hint="look at the provider, or raise llm.timeout",
            ) from error
        finally:
            self.is_held = False
        raise ProviderError(f"{self._agent.provider.label} ended without an answer", kind=ErrorClass.TRANSIENT)

    def _keep(self, delta: Delta) -> None:
        if delta.text:
            self._text.append(delta.text)
        if delta.reasoning:
            self._reasoning.append(delta.reasoning)
