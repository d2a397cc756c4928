"""The protocols by which a lower layer reaches what a higher one owns.

Nothing here does anything; `runtime/` hands the bodies in. A method that can fail
names the errors of `zoea.model.errors` it raises.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from zoea.model.request import AnswerCall, CallMeta, Catalogue, ModelInfo, ModelRequest, StreamItem, ToolResult


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """The only source of time above `store`. Times are µs since the epoch, UTC."""

    def now(self) -> int: ...

    def call_at(self, at: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` on the loop at `at`, or as soon after as the loop can."""
        ...

    async def sleep_until(self, at: int) -> None: ...


class Ids(Protocol):
    """Makes what must not repeat (uids, idempotency keys) and the randomness of jitter."""

    def uid(self) -> str: ...

    def jitter(self) -> float:
        """A number in [0, 1)."""
        ...


class Provider(Protocol):
    """One source of models. One instance serves all myses.

    `kind` is the setting that made it (`openai`, `anthropic`, `ollama`,
    `embedded`, `autopilot`, `scripted`); `label` is what fronts show; `metered`
    is False where its tokens do not count against any budget.
    """

    name: str
    kind: str
    label: str
    metered: bool

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """One attempt: `Delta`s, then exactly one `Answer`; before them `Held`s, then `Sent`, where it had to wait.

        No retries here, except one without thinking blocks after a 400 that names
        them. Closing the iterator closes the connection at once.

        Raises:
            ProviderError: with the class that decides what happens next.
        """
        ...

    async def models(self) -> tuple[ModelInfo, ...]:
        """The models it offers. Raises ProviderError where it cannot be reached."""
        ...

    async def info(self, model: str) -> ModelInfo:
        """What is known of one model; unknown fields are None, never guessed."""
        ...

    async def close(self) -> None: ...


class ToolSession(Protocol):
    """The toolbox of one mysis while it runs."""

    async def catalogue(self) -> Catalogue:
        """The tools it may call now, cached; waits for upstreams that are still opening."""
        ...

    async def call(self, call: AnswerCall, *, meta: CallMeta) -> ToolResult:
        """Carry out one call. Never raises for a failing tool: that is a result.

        Injected arguments are filled in here, and their values replaced in the result.
        """
        ...

    def stored_arguments(self, call: AnswerCall) -> str:
        """The arguments as they may be stored: injected ones as `‹account›`."""
        ...

    async def close(self) -> None: ...


class ToolFactory(Protocol):
    """Makes the toolbox of a mysis after its template's policy."""

    def session(self, mysis_id: int, mysis: str, template: str, *, uid: str = "") -> ToolSession:
        """Its accounts go by its `uid`: a name is given anew once its mysis is deleted."""
        ...

    def forget(self, uid: str) -> None:
        """The mysis is deleted: what is known of it here goes; what is kept of its accounts stays kept."""
        ...
