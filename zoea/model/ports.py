"""Protocols between layers; `runtime/` joins users and implementations.

A protocol that one module needs usually stands beside it instead. A method that can fail names the errors of
`zoea.model.errors` that it raises.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Protocol, runtime_checkable

from msgspec import Struct

from zoea.model.request import (
    Answer,
    AnswerCall,
    CallMeta,
    Catalogue,
    ModelInfo,
    ModelRequest,
    StreamItem,
    ToolResult,
    ToolSpec,
)
from zoea.model.values import Throttle


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """Source of time for all layers above `store`, in µs.

    Durations are differences of `uptime`, or delays, and times in memory are uptimes. `now` is for people, for what is
    stored, and for times that were given as wall times.
    """

    def now(self) -> int:
        """Return the wall time since the epoch, UTC. It goes on evenly but for `follow`."""
        ...

    def uptime(self) -> int:
        """Return the time since the machine started, suspended time included; it cannot be set."""
        ...

    @property
    def ahead(self) -> int:
        """By how much the wall time is ahead of the uptime; only `follow` changes it."""
        ...

    def follow(self) -> int:
        """Apply to `now` what the system's wall clock was set by, and return it. 0 if it was not set.

        Only the swarm calls it, which then moves the stored times that are still ahead by as much.
        """
        ...

    def call_after(self, delay: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` on the event loop after `delay` or soon after."""
        ...

    async def sleep(self, delay: int) -> None: ...


class Ids(Protocol):
    """Source of unique ids (uids, idempotency keys) and of random jitter."""

    def uid(self) -> str: ...

    def jitter(self) -> float:
        """A number in [0, 1)."""
        ...


class Provider(Protocol):
    """A source of models; one instance serves all myses.

    Attributes:
        kind: Type in the settings, a value of `ProviderType` (`settings/endpoints.py`).
        label: Name that fronts show.
        metered: False if its tokens do not count against budgets.
    """

    name: str
    kind: str
    label: str
    metered: bool

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        """Make one attempt, and give one `Answer` at its end.

        Before it come `RequestHeld`s and a `RequestSent` if it had to wait, then `Delta`s and `BytesReceived`.
        Does not retry after a failure. A server that refuses an option is asked again without it, a few times at most.
        Closing the iterator closes the connection at once.

        Raises:
            ProviderError: with the error class that decides the next step.
        """
        ...

    async def models(self) -> tuple[ModelInfo, ...]:
        """List its models. Raises ProviderError if it cannot be reached."""
        ...

    async def info(self, model: str) -> ModelInfo:
        """Describe one model; unknown fields are None."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Throttled(Protocol):
    """A provider with a server that limits the rate of requests."""

    def throttles(self) -> tuple[Throttle, ...]:
        """Return the rate limits that keep requests back now."""
        ...


class ToolSession(Protocol):
    """The tools of one mysis while it runs."""

    async def catalogue(self) -> Catalogue:
        """List the tools it may call now, cached; waits for upstreams that are still opening."""
        ...

    def own_tools(self) -> tuple[ToolSpec, ...]:
        """List those of Zoea itself; waits for nothing."""
        ...

    async def call(self, call: AnswerCall, *, meta: CallMeta) -> ToolResult:
        """Carry out one call; a failing tool is a result, not an exception.

        Fills in injected arguments and masks their values in the result.
        """
        ...

    async def conceal_answer(self, answer: Answer) -> Answer:
        """Return the answer with marks for the secrets of its calls' arguments. Their values are kept."""
        ...

    async def conceal_partial(self, answer: Answer) -> Answer:
        """Return the part of an answer that was broken off, with marks for known secrets."""
        ...

    async def stream_mask(self) -> Callable[[str], str]:
        """Return a function that masks known secrets in the pieces of one text.

        It takes each piece as it comes, and returns what may be shown; a secret may be cut by the end of a piece.
        """
        ...

    def stored_arguments(self, call: AnswerCall) -> str:
        """Return the arguments in the form that may be stored: injected ones as `‹account›`."""
        ...

    async def close(self) -> None: ...


class ToolFactory(Protocol):
    """Makes tool sessions according to each template's policy."""

    def session(self, mysis_id: int, mysis: str, template: str, *, uid: str = "") -> ToolSession:
        """Open a session. Accounts belong to the `uid`, because a name can be used again after a deletion."""
        ...

    def forget(self, uid: str) -> None:
        """Drop the cached state of a deleted mysis; its stored accounts stay."""
        ...


class GatewayAccess(Struct, frozen=True):
    """The addresses of the gateway for one mysis; the token stands in each path.

    Attributes:
        openai_url: Base of chat completions and responses, ends with `/v1`.
        anthropic_url: Base of Anthropic messages, without `/v1`.
        token: Also taken as a bearer token or `x-api-key`.
    """

    openai_url: str
    anthropic_url: str
    token: str


class ToolsAccess(Struct, frozen=True):
    """Address and bearer token of Zoea's own MCP server for one agent process."""

    url: str
    token: str


class AgentTools(Protocol):
    """Zoea's own tools, as one process of an agent may call them."""

    @property
    def is_open(self) -> bool:
        """Whether that process still runs."""
        ...

    def list_tools(self) -> tuple[ToolSpec, ...]: ...

    async def call_tool(self, name: str, arguments: str) -> ToolResult:
        """Carry out a call, with its arguments as JSON. A refusal is a result too."""
        ...


class ModelGateway(Protocol):
    """Lets external agents call models within the budgets of their myses, and Zoea's own tools."""

    async def open(self, mysis_id: int) -> GatewayAccess:
        """Return the access of a mysis; the first call opens the listener. Raises ZoeaError."""
        ...

    async def close(self, mysis_id: int) -> None:
        """Withdraw the access of a mysis."""
        ...

    async def serve_tools(self, tools: AgentTools) -> ToolsAccess:
        """Serve tools to an agent's process at its own address and token. Raises ZoeaError."""
        ...

    async def end_tools(self, access: ToolsAccess) -> None:
        """Withdraw them, because the process has gone; calls under way are broken off."""
        ...
