"""`SwarmApi`: what a front can ask of a running swarm, as small protocols.

`ref` is a mysis's name in any case, or `#id`. Every method raises SwarmError,
UsageError or StoreError; over the socket also NoRunningSwarm.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Protocol

from msgspec import Struct

from zoea.model.enums import ApprovalAnswer, DeliveryMode
from zoea.model.topics import EVERYONE, PublishReceipt
from zoea.model.values import (
    COMMANDER,
    ApprovalView,
    CommitQuestion,
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


class ReloadReport(Struct, frozen=True):
    """What a reload of the settings did.

    Attributes:
        upstreams: Names of upstreams that were opened, closed or opened again.
        waiting: Keys that changed and apply when the swarm is opened again, some with a reason in brackets.
        providers: Names of providers that use their changed settings or keys from the next turn on.
        problems: Providers that go on as they were, each with the reason, and files of a project without effect.
    """

    upstreams: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class MysisApi(Protocol):
    """Creates, changes, runs and watches myses."""

    async def create(
        self,
        name: str,
        *,
        template: str = "",
        provider: str = "",
        model: str = "",
        tags: tuple[str, ...] = (),
        start: bool = True,
        broadcast: int = 0,
        task: str = "",
        commit: str = "",
        allow_fresh: bool = False,
        on: str = "",
        worktree: bool = False,
        idempotency_key: str = "",
    ) -> MysisView:
        """Create a mysis. An empty name is generated; an empty template means the default one.

        With a `commit`, a revision such as `@alpha` or `ctx-1a2b3c4d`, it knows the conversation up to that commit
        and, unless they are given, has its template, provider and model. Where that conversation cannot be read it
        is refused, or, with `allow_fresh`, begins without it.

        A `task` is its first message and its goal: it is nudged until it reports that it is done. A `broadcast` of the
        commander, named by the id of its message, is delivered before the task; 0 is none.

        It works `on` a folder, else on that of its template, with a `worktree` in a git worktree of its own.

        A second call with the same `idempotency_key` returns the mysis that the first one made.
        """
        ...

    async def start(self, ref: str) -> MysisView: ...

    async def stop(self, ref: str) -> MysisView: ...

    async def delete(self, ref: str) -> MysisView:
        """Stop and archive a mysis. Its name becomes free, its memories stay; `undelete` reverts it."""
        ...

    async def undelete(self, mysis_id: int) -> MysisView: ...

    async def dismiss(self, ref: str) -> MysisView:
        """Remove the error from a mysis's row; the state stays."""
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
        """Change a mysis. While it runs this counts from the next turn, budgets from the next request.

        Empty and None leave a part unchanged. `settings` are keys of the sections that a template may set
        (`budget.mysis`); None as a value restores the general setting.

        Raises:
            TemplateError, ProviderError: besides those of every method.
        """
        ...

    async def hold(self, on: bool, *, ref: str = "", reason: str = "") -> None:
        """Set or lift the hold of the swarm, or of the mysis `ref`."""
        ...

    async def start_all(self, *, left_running: bool = False, again: bool = False, new: bool = False) -> int:
        """Start every idle mysis and return how many were started.

        With `left_running` only those that ran when the swarm ended last; this works once. With `again`
        only those that ran when Zoea was closed or killed and were not started since; with `new` only
        those that never ran; with both, either.
        """
        ...

    async def stop_all(self) -> int: ...

    async def view(self) -> SwarmView: ...

    async def mysis(self, ref: str) -> MysisView: ...

    async def wait(self, ref: str, *, timeout_s: float = 60.0) -> MysisView:
        """Wait until the mysis has no open turn and nothing pending. Raises UsageError at the timeout."""
        ...

    def changes(self) -> AsyncGenerator[SwarmView, None]:
        """Stream views as the swarm changes, at most 20 a second.

        The first view holds all myses, each later one only those that changed.
        """
        ...

    def events(self, after: int = 0) -> AsyncGenerator[Event | Lagged, None]:
        """Stream events with an id over `after`; `Lagged` if the reader was too slow."""
        ...

    async def shutdown(self) -> None:
        """Stop the swarm and its owner process, within 10 s."""
        ...


class MessageApi(Protocol):
    """Sends messages and reports their delivery."""

    async def send(
        self,
        ref: str,
        text: str,
        *,
        mode: DeliveryMode = DeliveryMode.QUEUE,
        is_task: bool = False,
        sender: Sender = COMMANDER,
        idempotency_key: str = "",
        limits: str = "",
    ) -> Receipt:
        """Send a message to one mysis; with `is_task` it replaces its goal.

        Args:
            limits: JSON of what it overrides for the turn that it opens (`context/window/prompt_context.py`).
        """
        ...

    async def broadcast(
        self,
        text: str,
        *,
        to: Recipients = Recipients(),
        mode: DeliveryMode = DeliveryMode.QUEUE,
        sender: Sender = COMMANDER,
        idempotency_key: str = "",
        limits: str = "",
    ) -> Receipt:
        """Store a message, and deliver it to each mysis that takes messages. `limits` as of `send`."""
        ...

    async def find_short_budgets(self, text: str, *, to: Recipients = Recipients()) -> tuple[str, ...]:
        """Return a sentence for each budget with less left than a broadcast probably needs."""
        ...

    async def withdraw(self, delivery_id: int) -> None: ...

    async def preserve(self, memory_id: int, on: bool = True) -> None:
        """Keep a message verbatim in the strategy `window`, or no longer. Raises UsageError if there is none."""
        ...

    async def receipt(self, message_id: int) -> Receipt: ...


class TopicApi(Protocol):
    """Publishes on topics; the ledger itself is read from the database."""

    async def publish(
        self,
        topic: str,
        text: str = "",
        *,
        data: dict[str, Any] | None = None,
        receiver: str = EVERYONE,
        is_raw: bool = False,
        sender: Sender = COMMANDER,
        idempotency_key: str = "",
    ) -> PublishReceipt:
        """Store a message on a topic, then deliver it to the topic's subscribers.

        Args:
            receiver: The name of one subscriber; all of them if left out.
            is_raw: Only store it; no prompt ever holds it.
        """
        ...


class ApprovalApi(Protocol):
    """Lists and answers approvals, and revokes grants."""

    async def approvals(self) -> tuple[ApprovalView, ...]: ...

    async def answer(
        self, approval_id: int, answer: ApprovalAnswer, *, sentence: str = "", arguments: str = ""
    ) -> None:
        """Answer a question; the mysis reads the sentence with it.

        Args:
            arguments: Run the call with this JSON object instead of the model's arguments; only where it is allowed
                once.
        """
        ...

    async def grants(self) -> tuple[GrantView, ...]:
        """List the grants for whole templates that are in force, oldest first."""
        ...

    async def revoke(self, grant_id: int) -> GrantView:
        """Ask again from the next call on. Raises UsageError if no such grant is in force."""
        ...


class CommitApi(Protocol):
    """Works with commits of what myses know. A revision is `@alpha`, `alpha~3` or `ctx-1a2b3c4d`, without a time."""

    async def name_commit(self, name: str, revision: str) -> str:
        """Let the ref `tag/NAME` name a commit, and return the ref. An empty revision removes it.

        A ticket, such as `tkt-7`, has the ref `ticket/tkt-7`.

        Raises:
            RevisionError, UsageError: There is no such commit or ref, or the name cannot be one.
        """
        ...

    async def keep_commit(self, revision: str, policy: str, *, days: float = 0.0, whole: bool = False) -> int:
        """Set how long the texts of a commit stay. Return how many commits that is.

        Args:
            policy: `pin` keeps it and all before it, `ephemeral` lets go of its texts after `days`, and `default`
                keeps it as long as a ref reaches it.
            whole: Also those of all commits before it.

        Raises:
            RevisionError, UsageError: There is no such commit or policy.
        """
        ...

    async def checkpoint(self, ref: str, *, summary: str = "", timeout_s: float = 20.0) -> str:
        """Commit what a mysis knows now; return the commit's id, "" where nothing is new.

        In a turn, it is made with the next answer or result; UsageError where none comes within `timeout_s`.
        """
        ...

    async def annotate(self, revision: str, *, summary: str | None = None, tags: tuple[str, ...] | None = None) -> str:
        """Change the summary or the tags of a commit, and return its id. None leaves a part unchanged."""
        ...

    async def snapshot(self, revision: str) -> str:
        """Store the conversation up to a commit as one snapshot commit, and return its id.

        On the tip of a mysis it goes on the branch; else the ref `snapshot/ID` names it.
        """
        ...

    async def pick(self, revision: str, ref: str) -> str:
        """Add the messages of a commit to what a mysis knows; return the new commit.

        Its next turn begins with its whole conversation, as after `resume`.

        Raises:
            MysisMissing, RevisionError: There is no such mysis or commit.
            UsageError: The mysis knows the commit already, or it holds no messages.
            StateRefused: A turn is open.
            MissingBlob: A part of the commit is gone.
        """
        ...

    async def compact(self, revision: str, *, extract: bool = False, payer: str = "", timeout_s: float = 300.0) -> str:
        """Store a summary of a conversation as a commit beside the branch. Returns its id.

        The ref `compact/ID` names it. A model writes the summary; it counts as background work of a mysis.

        Args:
            extract: Choose lines without a model, at no cost.
            payer: Another mysis that pays, with its model; else the commit's own.

        Raises:
            MysisMissing: The commit's mysis is gone, and no payer is named.
            UsageError: The model wrote none.
        """
        ...

    async def summarise(self, revision: str, *, payer: str = "", timeout_s: float = 300.0) -> str:
        """Have a model write the summary of one commit, and return it. The earlier one stays as history.

        It counts as background work of a mysis, and says the model's name. Arguments and errors as `compact`.
        """
        ...

    async def resume(self, ref: str, *, name: str = "", allow_fresh: bool = False) -> MysisView:
        """Start a mysis again with the conversation up to its newest commit.

        The branch of a deleted mysis (`@alpha`, `deleted/alpha-3`) makes a new mysis instead, under its old name
        where that is free, else under `name` or a number.

        Args:
            allow_fresh: Start without the conversation where it cannot be read.

        Raises:
            MysisMissing, RevisionError: There is no such mysis or branch, or it has no commit yet.
            StateRefused: A turn is open.
            MissingBlob: A part of the conversation is gone.
        """
        ...

    async def ask(
        self, revision: str, question: str, *, thread: str = "", ticket: str = "", sender: Sender = COMMANDER
    ) -> CommitQuestion:
        """Ask what a mysis knew at a commit. One with the commit's template answers, then rests.

        Its branch is `thread/THREAD/TEMPLATE`; the next question in the thread goes on from its newest commit.
        Returns at once: `wait` for the mysis.

        Args:
            thread: Letters and digits; a new one is chosen where it is empty.
            ticket: The ticket that the commits of a new discussion name, such as `tkt-7`; empty for the commit's.

        Raises:
            RevisionError, MissingBlob: There is no such commit, or a part of it is gone.
            SwarmFull, UsageError: No mysis can be made, or the question is empty or too long.
        """
        ...


class ConnectionApi(Protocol):
    """Shows, tests and repairs the connections of a swarm: upstreams, providers, MCP server."""

    async def upstreams(self) -> tuple[UpstreamView, ...]:
        """Return the state of every upstream with its tools, in the order of the settings."""
        ...

    async def providers(self) -> tuple[ProviderView, ...]:
        """Probe every configured provider and every one in use, within seconds, at no cost."""
        ...

    async def forget_facts(self, provider: str, model: str = "") -> int:
        """Delete the learnt facts of a provider's model, or of all its models. Return their number."""
        ...

    async def reconnect(self, name: str) -> None:
        """Close an upstream's sessions and open new ones; calls in flight are cut off. Returns at once."""
        ...

    async def reload(self) -> ReloadReport:
        """Read the settings and keys again, and apply what can be applied while myses run.

        Nudges and waits change at once, providers, limits and rules of turns with the next turn of each mysis.

        Raises:
            SettingsError: if the settings are invalid; nothing changed then.
        """
        ...

    async def try_tool(self, upstream: str, tool: str, arguments: str) -> ToolTrial:
        """Call a tool once by its upstream's name, with a JSON object as text.

        A failing tool is a result.

        Raises:
            UsageError: if the arguments are no JSON object, or the upstream or tool does not exist.
        """
        ...

    async def mcp(self) -> McpView:
        """Report whether this swarm serves MCP clients over HTTP, and the address."""
        ...

    async def serve_mcp(self, on: bool) -> McpView:
        """Start or stop serving MCP clients over HTTP, until the swarm ends. Raises OwnerError if it cannot."""
        ...


class CoreSwarmApi(MysisApi, MessageApi, TopicApi, ApprovalApi, Protocol):
    """The part of `SwarmApi` that needs no connections."""


class SwarmApi(CoreSwarmApi, CommitApi, ConnectionApi, Protocol):
    """All that a front asks of a swarm.

    Implemented by `runtime.compose.RunningSwarm`, `ipc.remote_swarm.RemoteSwarm` and `ipc.read_only`.
    """
