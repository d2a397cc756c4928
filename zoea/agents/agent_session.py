"""The session of one mysis with its agent.

It is begun, resumed or loaded, gets its mode, and is asked turn by turn.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct
from pydantic import Field

from zoea.agents import tools_bridge
from zoea.agents.agent_connection import NEVER, AgentClient, AgentConnection
from zoea.agents.agent_launch import AgentLaunch
from zoea.agents.updates import SERVER, AgentUpdate, CallTold, ModeTold, PermissionOption, is_count
from zoea.model.errors import AgentError, FilesError
from zoea.model.ports import ToolsAccess
from zoea.model.values import Usage

if TYPE_CHECKING:
    from acp import schema

CANCEL_S = 5.0
"""Time for an agent to end a turn that was cancelled, before its process is ended."""
QUIET_S = 0.1
"""Silence after the answer to a prompt, within which updates still belong to its turn."""
MOST_QUIET_S = 1.0
"""Time for an agent to tell a mode other than the one that it was given."""
_CLOSE_S = 2.0


class PromptEnd(Struct, frozen=True):
    """How the agent ended a turn: `end_turn`, `max_tokens`, `max_turn_requests`, `refusal`, `cancelled`, or another."""

    reason: str
    usage: Usage = Usage()


class Begun(Struct, frozen=True):
    """A session that can be prompted. `is_new` where the agent knows nothing of the conversation."""

    session_id: str
    is_new: bool
    is_fork: bool = False


class AgentSession:
    """One process with one session. Not used again once it is lost or closed.

    Attributes:
        mode: The mode of the session as the agent told it last; empty where it has none.
        modes, models: Ids that the agent offers.
    """

    def __init__(
        self, connection: AgentConnection, launch: AgentLaunch, client: AgentClient, tools: ToolsAccess | None = None
    ) -> None:
        self.connection = connection
        self.session_id = ""
        self.mode = ""
        self.modes: tuple[str, ...] = ()
        self.models: tuple[str, ...] = ()
        self._launch = launch
        self._client = client
        self._tools = tools
        self._is_replaying = True
        self._last_update = 0.0
        self._open_asks: set[asyncio.Future[str | None]] = set()
        self._is_cancelled = self._is_closing = False
        self._prompting: asyncio.Task[PromptEnd] | None = None

    @classmethod
    async def open(
        cls,
        launch: AgentLaunch,
        client: AgentClient,
        known: str = "",
        *,
        fork_of: str = "",
        tools: ToolsAccess | None = None,
    ) -> tuple[AgentSession, Begun]:
        """Start the agent and begin its session, or go on with a known one.

        Args:
            fork_of: The session to fork where none is known, if the agent can.
            tools: Where it finds Zoea's own tools.

        Raises:
            AgentError: It cannot be started, wants a login, or does not keep to its mode.
        """
        connection = await AgentConnection.open(launch.name, launch.command, launch.env, launch.cwd, fs=launch.fs)
        session = cls(connection, launch, client, tools)
        try:
            return session, await session._begin(known, fork_of)
        except BaseException:
            await session.close()
            raise

    @property
    def is_open(self) -> bool:
        """Whether it can be prompted: it is neither lost nor being closed."""
        return self.connection.is_open and not self._is_closing

    # Beginning.

    async def _begin(self, known: str, fork_of: str) -> Begun:
        await self._set_provider()
        state, is_new = await self._find_session(known), False
        is_fork = state is None and bool(fork_of) and (state := await self._fork_session(fork_of)) is not None
        if state is None:
            state, is_new = await self._new_session(), True
        self._note_choices(state)
        self.connection.drop_early()
        await self._set_mode()
        await self._set_model()
        if not is_new:  # some agents tell the conversation again only after they have answered
            await self._await_quiet(is_silent=True)
        self._is_replaying = False
        return Begun(self.session_id, is_new, is_fork)

    async def _new_session(self) -> Any:
        from acp import schema

        asked = schema.NewSessionRequest(cwd=str(self._launch.cwd), mcp_servers=self._servers())
        return self._attach_new(await self.connection.request("session/new", asked, schema.NewSessionResponse))

    async def _fork_session(self, of: str) -> Any:
        """Fork a session of the same agent. Return None where it cannot, or does not know it."""
        from acp import schema

        can = self.connection.about.agent_capabilities
        if can is None or can.session_capabilities is None or can.session_capabilities.fork is None:
            return None
        asked = schema.ForkSessionRequest(session_id=of, cwd=str(self._launch.cwd), mcp_servers=self._servers())
        with suppress(AgentError):
            made = await self.connection.request("session/fork", asked, schema.ForkSessionResponse)
            return self._attach_new(made, replays=True)
        if not self.is_open:
            raise self.connection.process.describe_loss()
        return None

    def _attach_new(self, made: Any, *, replays: bool = False) -> Any:
        """Receive the updates of a session. With `replays`, drop early ones, which may repeat the conversation."""
        self.session_id = made.session_id
        self._is_replaying = replays
        self.connection.attach(self.session_id, _Watched(self), with_early=not replays)
        return made

    def _servers(self) -> list[Any]:
        """Return Zoea's own MCP server as a session is begun with it: over HTTP where the agent takes that."""
        from acp import schema

        if (tools := self._tools) is None:
            return []
        can = self.connection.about.agent_capabilities
        if can is not None and can.mcp_capabilities is not None and can.mcp_capabilities.http:
            token = schema.HttpHeader(name="Authorization", value=f"Bearer {tools.token}")
            return [schema.HttpMcpServer(type="http", name=SERVER, url=tools.url, headers=[token])]
        env = [
            schema.EnvVariable(name=tools_bridge.URL, value=tools.url),
            schema.EnvVariable(name=tools_bridge.TOKEN, value=tools.token),
        ]
        # -P, because the agent's folder may hold modules of any names.
        args = ["-P", "-m", tools_bridge.__name__]
        return [schema.McpServerStdio(name=SERVER, command=sys.executable, args=args, env=env)]

    async def _find_session(self, known: str) -> Any:
        """Go on with a session, without its replay; None where the agent cannot."""
        from acp import schema

        can = self.connection.about.agent_capabilities or schema.AgentCapabilities()
        sessions = can.session_capabilities
        if not known:
            return None
        self.session_id = known
        self.connection.attach(known, _Watched(self), with_early=False)
        cwd = str(self._launch.cwd)
        with suppress(AgentError):
            if sessions is not None and sessions.resume is not None:
                asked = schema.ResumeSessionRequest(cwd=cwd, session_id=known, mcp_servers=self._servers())
                return await self._go_on_with("session/resume", asked)
        with suppress(AgentError):
            if can.load_session:
                load = schema.LoadSessionRequest(cwd=cwd, session_id=known, mcp_servers=self._servers())
                return await self._go_on_with("session/load", load)
        if not self.is_open:
            raise self.connection.process.describe_loss()
        self.connection.detach(known)  # what still comes for it is of no turn
        return None

    async def _go_on_with(self, method: str, asked: Any) -> Any:
        """Return the state of a session that goes on. Its id may change, which the protocol does not foresee."""
        from acp import schema

        class Found(schema.LoadSessionResponse):
            session_id: Annotated[Any, Field(alias="sessionId")] = None

        session = await self.connection.request(method, asked, Found)
        if isinstance(session.session_id, str) and session.session_id not in ("", self.session_id):
            self.connection.detach(self.session_id)
            self._attach_new(session, replays=True)
        return session

    async def _set_provider(self) -> None:
        """Point the agent at the gateway, where it takes that over the protocol."""
        from acp import schema

        if (provider := self._launch.provider) is None:
            return
        asked = schema.SetProviderRequest(
            provider_id=provider.provider_id,
            api_type=provider.api_type,
            base_url=provider.base_url,
            headers=dict(provider.headers),
        )
        await self.connection.request("providers/set", asked, schema.SetProviderResponse)

    def _note_choices(self, state: Any) -> None:
        if (modes := state.modes) is not None:
            self.mode = self.mode or modes.current_mode_id
            self.modes = tuple(one.id for one in modes.available_modes)
        if (mode := _find_option(state.config_options, "mode")) is not None:
            self.mode, self.modes = mode.current_value, _option_values(mode)
        if (model := _find_option(state.config_options, "model")) is not None:
            self.models = _option_values(model)
        self._options = {one.category: one.id for one in state.config_options or () if isinstance(one.category, str)}

    async def _set_mode(self) -> None:
        """Set the mode and read it back. The default mode of some agents edits without asking."""
        from acp import schema

        wanted = self._launch.mode
        if not wanted or (wanted == self.mode and wanted in self.modes):
            return
        if wanted not in self.modes:
            raise AgentError(
                f"{self._launch.name} has no mode {wanted!r}; it has: {', '.join(self.modes) or 'none'}",
                hint="Name one of them as `mode` in the template.",
            )
        if "mode" in self._options:
            self.mode = await self._set_option("mode", wanted)
        else:
            self.mode = wanted  # what the agent tells from now on overwrites it
            mode = schema.SetSessionModeRequest(session_id=self.session_id, mode_id=wanted)
            await self.connection.request("session/set_mode", mode, schema.SetSessionModeResponse)
            await asyncio.sleep(0)
        if self.mode != wanted:
            raise AgentError(
                f"{self._launch.name} is in the mode {self.mode!r}, although it was set to {wanted!r}",
                hint="It may do what that mode does not allow; choose another mode in the template.",
            )

    async def _set_model(self) -> None:
        wanted = self._launch.model
        if wanted and wanted in self.models and "model" in self._options:
            await self._set_option("model", wanted)
        elif wanted and self.models and self._launch.chooses_model:
            raise AgentError(
                f"{self._launch.name} has no model {wanted!r}; it has: {', '.join(self.models[:20])}",
                hint="Name one of them as `model` of `[acp]` in the template.",
            )

    async def _set_option(self, category: str, value: str) -> str:
        """Set an option and return the value that the agent has now."""
        from acp import schema

        option = self._options[category]
        asked = schema.SetSessionConfigOptionSelectRequest(session_id=self.session_id, config_id=option, value=value)
        method = "session/set_config_option"
        state = await self.connection.request(method, asked, schema.SetSessionConfigOptionResponse)
        setting = _find_option(state.config_options, category)
        return value if setting is None else str(setting.current_value)

    # A turn.

    def prompt(self, texts: list[str]) -> asyncio.Task[PromptEnd]:
        """Begin a turn. The task is done when the agent has ended it, and what it still told has come.

        It raises AgentError where the agent refuses, AgentLost where it is gone.
        """
        self._is_cancelled = False
        self._prompting = asyncio.create_task(self._prompt(texts), name=f"prompt of {self._launch.name}")
        # Its exception counts as retrieved, because a turn that was cancelled does not look at it.
        self._prompting.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._prompting

    async def _prompt(self, texts: list[str]) -> PromptEnd:
        from acp import schema

        before = self._last_update
        blocks: list[Any] = [schema.TextContentBlock(type="text", text=text) for text in texts]
        asked = schema.PromptRequest(session_id=self.session_id, prompt=blocks)

        answered = await self.connection.request("session/prompt", asked, _tolerant_end(), within=NEVER)
        await self._await_quiet(is_silent=self._last_update == before)
        return PromptEnd(str(answered.stop_reason), _read_usage(answered.usage))

    async def _await_quiet(self, *, is_silent: bool = False) -> None:
        """Wait until nothing more comes that belongs to what the agent has just answered.

        Args:
            is_silent: It told nothing before, so that all may be still to come.
        """
        loop = asyncio.get_running_loop()
        until, since = loop.time() + MOST_QUIET_S, loop.time() if is_silent else 0.0
        while (quiet := loop.time() - max(self._last_update, since)) < QUIET_S and loop.time() < until:
            await asyncio.wait({asyncio.ensure_future(asyncio.sleep(QUIET_S - quiet))})

    async def cancel(self) -> bool:
        """Cancel the turn, and answer all open permissions. Return whether the agent ended it in time.

        Otherwise its process is ended.
        """
        from acp import schema

        self._is_cancelled = True
        for ask in tuple(self._open_asks):
            if not ask.done():
                ask.set_result(None)
        with suppress(TimeoutError):  # an agent that reads no more takes no cancellation
            async with asyncio.timeout(CANCEL_S):
                await self.connection.notify("session/cancel", schema.CancelNotification(session_id=self.session_id))
        if self._prompting is not None:
            await asyncio.wait({self._prompting}, timeout=CANCEL_S)
            if not self._prompting.done():
                await self.close()
                return False
        return True

    async def close(self) -> None:
        """End the session where the agent can, and its process."""
        is_first, self._is_closing = not self._is_closing, True
        is_idle = self._prompting is None or self._prompting.done()
        if self.session_id and is_first and self.connection.is_open and is_idle:
            await self._close_session()
        if self._prompting is not None:
            self._prompting.cancel()
            await asyncio.wait({self._prompting})
        await self.connection.close()

    async def _close_session(self) -> None:
        from acp import schema

        can = self.connection.about.agent_capabilities
        if can is not None and can.session_capabilities is not None and can.session_capabilities.close is not None:
            asked = schema.CloseSessionRequest(session_id=self.session_id)
            with suppress(AgentError):
                await self.connection.request(
                    "session/close", asked, schema.CloseSessionResponse, within=_CLOSE_S, waits=1
                )

    # Called by the connection, through `_Watched`.

    def note_update(self, update: AgentUpdate) -> None:
        self._last_update = asyncio.get_running_loop().time()
        if isinstance(update, ModeTold):
            self.mode = update.mode
        if not self._is_replaying:
            self._client.take_update(update)

    async def answer_permission(self, call: CallTold, options: tuple[PermissionOption, ...]) -> str | None:
        """Ask the client; a turn that is cancelled in between counts first."""
        if self._is_cancelled:
            return None
        answer = asyncio.ensure_future(self._client.ask_permission(call, options))
        self._open_asks.add(cancelled := asyncio.get_running_loop().create_future())
        try:
            await asyncio.wait({answer, cancelled}, return_when=asyncio.FIRST_COMPLETED)
            return None if cancelled.done() else await answer
        finally:
            self._open_asks.discard(cancelled)
            answer.cancel()
            cancelled.cancel()


class _Watched:
    """The client of a session, as its connection calls it."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session

    def take_update(self, update: AgentUpdate) -> None:
        self._session.note_update(update)

    async def ask_permission(self, call: CallTold, options: tuple[PermissionOption, ...]) -> str | None:
        return await self._session.answer_permission(call, options)

    async def read_file(self, path: str, line: int | None, limit: int | None) -> str:
        if self._session._launch.fs not in ("read", "write"):
            raise FilesError("the template lets the agent read no files through Zoea")
        return await self._session._client.read_file(path, line, limit)

    async def write_file(self, path: str, content: str) -> None:
        if self._session._launch.fs != "write":
            raise FilesError("the template lets the agent write no files through Zoea")
        await self._session._client.write_file(path, content)


def _find_option(options: Any, category: str) -> Any:
    return next((one for one in options or () if one.category == category and one.type == "select"), None)


def _option_values(option: Any) -> tuple[str, ...]:
    values: list[str] = []
    for one in option.options:  # values, or groups of them
        values += [inner.value for inner in one.options] if hasattr(one, "options") else [one.value]
    return tuple(values)


@cache  # a model is built in milliseconds
def _tolerant_end() -> type[schema.PromptResponse]:
    from acp import schema

    class Ended(schema.PromptResponse):  # an end of another name loses nothing of the turn
        stop_reason: Annotated[Any, Field(alias="stopReason")] = ""

    return Ended


def _read_usage(usage: schema.Usage | None) -> Usage:
    if usage is None:
        return Usage()
    cached, written, thought = (
        count or 0 for count in (usage.cached_read_tokens, usage.cached_write_tokens, usage.thought_tokens)
    )
    if not is_count(usage.input_tokens, usage.output_tokens, cached, written, thought):
        return Usage()
    return Usage(
        input_tokens=usage.input_tokens + cached + written,
        cached_tokens=cached or None,
        output_tokens=usage.output_tokens + thought,
        reasoning_tokens=usage.thought_tokens,
    )
