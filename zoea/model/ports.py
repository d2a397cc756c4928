"""The protocols by which a lower layer reaches what a higher one owns.

Nothing here does anything; `runtime/` hands the bodies in. A method that can fail
names the errors of `zoea.model.errors` it raises.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from zoea.model.enums import ApprovalAnswer, DeliveryMode
from zoea.model.request import AnswerCall, CallMeta, Catalogue, ModelInfo, ModelRequest, StreamItem, ToolResult
from zoea.model.values import (
    COMMANDER,
    ApprovalView,
    DeskFound,
    DeskSearch,
    Event,
    GrantView,
    Lagged,
    McpView,
    MysisView,
    ProviderView,
    Receipt,
    Recipients,
    Sender,
    SwarmView,
    ToolTrial,
    UpstreamView,
)


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


class SwarmDesk(Protocol):
    """What Zoea's own tools may do on behalf of the mysis that calls them.

    Every method takes the caller's `mysis_id`; a tool never reads it from its arguments.
    """

    async def desk_send(self, mysis_id: int, hop: int, to: str, text: str) -> Receipt:
        """Raises SwarmError (missing, state, rate) and UsageError (empty text)."""
        ...

    async def desk_broadcast(self, mysis_id: int, hop: int, text: str) -> Receipt: ...

    async def desk_answer(self, mysis_id: int, call_id: int) -> str:
        """What the commander answered to a question that this call asked; empty where nothing was said."""
        ...

    async def desk_list(self, mysis_id: int) -> tuple[MysisView, ...]: ...

    async def desk_read(
        self,
        mysis_id: int,
        memory_id: int,
        offset: int,
        max_chars: int,
        *,
        part: str = "content",
        position: int = 0,
        everyone: bool = False,
    ) -> dict[str, Any]:
        """One memory of this mysis, or of anyone's where `everyone`, cut.

        `part` is content, reasoning or call, and is the name of the text in the answer;
        `position` says which call. Raises UsageError where it is not its own, or has no
        such call.
        """
        ...

    async def desk_search(self, mysis_id: int, search: DeskSearch) -> DeskFound:
        """Newest first and case-sensitive, or ranked.

        Raises UsageError where the query is empty, or takes too long.
        """
        ...


class Outside(Protocol):
    """What a swarm reaches beyond itself, as a person looks at it and mends it. `SwarmApi` says what each does."""

    async def upstreams(self) -> tuple[UpstreamView, ...]: ...

    async def providers(self) -> tuple[ProviderView, ...]: ...

    async def reconnect(self, name: str) -> None: ...

    async def try_tool(self, upstream: str, tool: str, arguments: str) -> ToolTrial: ...

    async def mcp(self) -> McpView: ...

    async def serve_mcp(self, on: bool) -> McpView: ...


class SwarmApi(Protocol):
    """What any front can ask of a running swarm: here, or over the socket.

    `ref` is a mysis's name (any case) or `#id`. All methods raise SwarmError,
    UsageError or StoreError; the remote body also NoRunningSwarm.
    """

    async def create(
        self,
        name: str,
        *,
        template: str = "",
        provider: str = "",
        model: str = "",
        tags: tuple[str, ...] = (),
        start: bool = True,
        inherit_broadcast: bool = True,
    ) -> MysisView:
        """A new mysis. An empty name is chosen by Zoea; an empty template is the default one."""
        ...

    async def start(self, ref: str) -> MysisView: ...

    async def stop(self, ref: str) -> MysisView: ...

    async def delete(self, ref: str) -> MysisView:
        """Stop and archive: the name is freed, memories stay. Undone by `undelete`."""
        ...

    async def undelete(self, mysis_id: int) -> MysisView: ...

    async def dismiss(self, ref: str) -> MysisView:
        """Take the error off a row; the state stays."""
        ...

    async def configure(
        self,
        ref: str,
        *,
        template: str = "",
        provider: str = "",
        model: str = "",
        tags: tuple[str, ...] | None = None,
        settings: dict[str, Any] | None = None,
    ) -> MysisView:
        """Change what a mysis is while it does not run; what is empty or None stays.

        `settings` are of the sections that a template may set, by dotted key
        (`budget.mysis`); None as a value lets the general settings hold again.
        Raises also StateRefused, TemplateError and ProviderError.
        """
        ...

    async def send(
        self,
        ref: str,
        text: str,
        *,
        mode: DeliveryMode = DeliveryMode.QUEUE,
        sender: Sender = COMMANDER,
        idempotency_key: str = "",
    ) -> Receipt: ...

    async def broadcast(
        self,
        text: str,
        *,
        to: Recipients = Recipients(),
        mode: DeliveryMode = DeliveryMode.QUEUE,
        sender: Sender = COMMANDER,
        idempotency_key: str = "",
    ) -> Receipt: ...

    async def withdraw(self, delivery_id: int) -> None: ...

    async def receipt(self, message_id: int) -> Receipt: ...

    async def hold(self, on: bool, *, ref: str = "", reason: str = "") -> None:
        """Hold or lift the swarm, or one mysis where `ref` is given."""
        ...

    async def start_all(self, *, left_running: bool = False) -> int:
        """Start every idle mysis, or of these only who ran when the swarm ended last, once; how many were started."""
        ...

    async def stop_all(self) -> int: ...

    async def approvals(self) -> tuple[ApprovalView, ...]: ...

    async def answer(self, approval_id: int, answer: ApprovalAnswer, *, sentence: str = "") -> None: ...

    async def grants(self) -> tuple[GrantView, ...]:
        """What was allowed for whole templates and still holds, oldest first."""
        ...

    async def revoke(self, grant_id: int) -> GrantView:
        """Ask again from the next call on. Raises UsageError where no such grant holds."""
        ...

    async def view(self) -> SwarmView: ...

    async def mysis(self, ref: str) -> MysisView: ...

    async def wait(self, ref: str, *, timeout_s: float = 60.0) -> MysisView:
        """Return once the mysis has no open turn and nothing pending; raises UsageError at the timeout."""
        ...

    def changes(self) -> AsyncIterator[SwarmView]:
        """Views that differ from the last one given, at most 20 a second.

        Each holds only the myses that changed; the first holds all.
        """
        ...

    def events(self, after: int = 0) -> AsyncIterator[Event | Lagged]:
        """Events after the given id, as they are committed; `Lagged` where a reader was too slow."""
        ...

    async def upstreams(self) -> tuple[UpstreamView, ...]:
        """Every upstream as it stands now, with its tools, in the order of the settings."""
        ...

    async def providers(self) -> tuple[ProviderView, ...]:
        """Every configured provider and every one in use, each tried now, within seconds, at no cost."""
        ...

    async def reconnect(self, name: str) -> None:
        """Close an upstream's sessions and open it anew; calls in flight there are cut off. Returns at once."""
        ...

    async def try_tool(self, upstream: str, tool: str, arguments: str) -> ToolTrial:
        """Call a tool as its upstream names it, once, with a JSON object as text.

        A failing tool is a result. Raises UsageError where the arguments are no
        JSON object, or there is no such upstream or tool.
        """
        ...

    async def mcp(self) -> McpView:
        """Whether this swarm serves MCP clients over HTTP, and where."""
        ...

    async def serve_mcp(self, on: bool) -> McpView:
        """Begin or end to serve MCP clients over HTTP, until the swarm ends. Raises OwnerError where it cannot."""
        ...

    async def shutdown(self) -> None:
        """Stop the swarm and its owner process, within 10 s."""
        ...
