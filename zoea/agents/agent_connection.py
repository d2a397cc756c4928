"""Sends requests to one agent, each with a deadline.

Requests and updates of the agent are passed on to their sessions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

import zoea
from zoea.agents.agent_process import AgentProcess, read_processor_time
from zoea.agents.updates import AgentUpdate, CallTold, PermissionOption, read_call, read_update
from zoea.model.errors import AgentError, FilesError
from zoea.process.module_imports import import_in_thread
from zoea.text.control_characters import reveal

if TYPE_CHECKING:
    from acp import schema
    from acp.connection import Connection

INITIALIZE_S = 60.0
REQUEST_S = 60.0
"""Time for a request but a prompt. A session that waits for a login does not come."""
MOST_WAITS = 5
"""How often such a time begins again while the agent works, because its start takes minutes on a busy machine."""
_WORK_S = 0.5
"""Processor time of an agent that works, in `REQUEST_S`."""
NEVER = float("inf")
PROTOCOL_VERSION = 1
"""Higher ones are drafts; an agent that answers with another one is refused."""
MOST_EARLY = 1_000
"""Updates that are kept for sessions before their ids are known."""
AUTH_REQUIRED = -32000
_LOGIN = "Log in with it once in a terminal, or let it use Zoea's gateway."

A = TypeVar("A", bound=BaseModel)


class AgentClient(Protocol):
    """What an agent asks and tells in a session."""

    def take_update(self, update: AgentUpdate) -> None:
        """Take what the agent tells. Neither waits nor raises."""
        ...

    async def ask_permission(self, call: CallTold, options: tuple[PermissionOption, ...]) -> str | None:
        """Return the id of the chosen option; None where the turn was cancelled."""
        ...

    async def read_file(self, path: str, line: int | None, limit: int | None) -> str:
        """Read a text file. Raises FilesError."""
        ...

    async def write_file(self, path: str, content: str) -> None:
        """Replace a text file. Raises FilesError."""
        ...


class AgentConnection:
    """An initialized connection.

    Attributes:
        about: What the agent said of itself.
    """

    def __init__(self, process: AgentProcess) -> None:
        from acp.connection import Connection

        self.name = process.name
        self.process = process
        self.about: schema.InitializeResponse
        self._clients: dict[str, AgentClient] = {}
        self._early: deque[tuple[str, AgentUpdate]] = deque(maxlen=MOST_EARLY)
        self._rpc: Connection = Connection(self._handle, process)

    @classmethod
    async def open(
        cls, name: str, command: Iterable[str], env: Mapping[str, str], cwd: Path, *, fs: str = "none"
    ) -> AgentConnection:
        """Start an agent and initialize the connection. Raises AgentError."""
        await load_sdk()
        from acp import schema

        opened = cls(await AgentProcess.start(name, command, env, cwd))
        try:
            opened.about = await opened.request(
                "initialize",
                schema.InitializeRequest(
                    protocol_version=PROTOCOL_VERSION,
                    client_capabilities=schema.ClientCapabilities(
                        fs=schema.FileSystemCapabilities(
                            read_text_file=fs in ("read", "write"), write_text_file=fs == "write"
                        ),
                        terminal=False,
                    ),
                    client_info=schema.Implementation(name="zoea", title="Zoea", version=zoea.__version__),
                ),
                schema.InitializeResponse,
                within=INITIALIZE_S,
            )
            if (version := opened.about.protocol_version) != PROTOCOL_VERSION:
                raise AgentError(
                    f"{name} speaks version {version} of the protocol, Zoea version {PROTOCOL_VERSION}",
                    hint="Install a version of the agent that speaks it.",
                )
        except BaseException:
            await opened.close()
            raise
        return opened

    @property
    def is_open(self) -> bool:
        return not self.process.has_ended

    def attach(self, session_id: str, client: AgentClient, *, with_early: bool = True) -> None:
        """Pass the updates and requests of a session to a client, also earlier ones."""
        self._clients[session_id] = client
        early = [update for owner, update in self._early if owner == session_id]
        self._early = deque(((o, u) for o, u in self._early if o != session_id), maxlen=self._early.maxlen)
        for update in early if with_early else ():
            client.take_update(update)

    def detach(self, session_id: str) -> None:
        """Pass nothing of a session on any more."""
        self._clients.pop(session_id, None)

    def drop_early(self) -> None:
        """Discard the updates of unknown sessions from now on."""
        self._early = deque(maxlen=0)

    async def request(
        self, method: str, params: BaseModel, answer: type[A], *, within: float | None = None, waits: int = MOST_WAITS
    ) -> A:
        """Send a request and wait for its answer.

        Args:
            waits: How often the time begins again while the agent works.

        Raises:
            AgentError: It was refused, is malformed, or did not come within so many seconds, or `REQUEST_S`.
            AgentLost: The agent is gone.
        """
        from acp.exceptions import RequestError

        within = REQUEST_S if within is None else within
        sent = params.model_dump(mode="json", by_alias=True, exclude_none=True)
        try:
            raw = await self._await_answer(asyncio.ensure_future(self._rpc.send_request(method, sent)), within, waits)
        except TimeoutError as waited:
            errors = self.process.last_errors()
            raise AgentError(
                f"{self.name} did not answer {method} within {waited} s"
                + (f". The last it wrote:\n{errors}" if errors else ""),
                hint=self._advise_login(),
            ) from None
        except RequestError as error:
            raise self._refusal(method, error.code, str(error), error.data) from None
        except ConnectionError:
            raise self.process.describe_loss() from None
        try:
            return answer.model_validate(raw if isinstance(raw, dict) else {})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise AgentError(f"the answer of {self.name} to {method} is not valid: {where}: {first['msg']}") from None

    async def _await_answer(self, sending: asyncio.Future[Any], within: float, most: int) -> Any:
        """Wait for an answer as long as the agent works. Raises TimeoutError with the seconds that it waited."""
        used, waited = 0.0, 0
        sending.add_done_callback(lambda one: one.cancelled() or one.exception())  # also where nothing waits any more
        try:
            while waited < most:
                await asyncio.wait({sending}, timeout=within if within < NEVER else None)
                if sending.done():
                    return sending.result()
                waited += 1
                before, used = used, await asyncio.to_thread(read_processor_time, self.process.mark)
                if used - before < _WORK_S:
                    break
            raise TimeoutError(f"{waited * within:g}")
        finally:
            sending.cancel()

    async def notify(self, method: str, params: BaseModel) -> None:
        """Send a notification; one to an agent that is gone is dropped."""
        try:
            await self._rpc.send_notification(method, params.model_dump(mode="json", by_alias=True, exclude_none=True))
        except ConnectionError:
            return

    async def close(self) -> None:
        """End the agent with its processes."""
        await self.process.close()
        await self._rpc.close()

    def _refusal(self, method: str, code: Any, message: str, data: Any) -> AgentError:
        details = data.get("details") or data.get("message") if isinstance(data, dict) else data
        text = f"{message}: {details}" if details and str(details) not in message else message
        hint = self._advise_login() if code == AUTH_REQUIRED else ""
        title = "The external agent wants a login" if code == AUTH_REQUIRED else None
        return AgentError(f"{self.name} refused {method}: {reveal(text[:2_000])}", hint=hint, title=title)

    def _advise_login(self) -> str:
        about: schema.InitializeResponse | None = getattr(self, "about", None)
        methods = about.auth_methods if about is not None else None
        if not methods:
            return ""
        names = ", ".join(f"{one.name}{f' ({one.description})' if one.description else ''}" for one in methods)
        return f"It may wait for a login. Its ways to log in: {reveal(names[:500])}. {_LOGIN}"

    # What the agent asks and tells. An exception of the SDK's kind is an answer; nothing else may leave.

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:
        from acp import schema
        from acp.exceptions import RequestError

        if is_notification:
            if method == "session/update":
                self._take_update(params)
            return None
        match method:
            case "session/request_permission":
                return await self._ask_permission(schema.RequestPermissionRequest.model_validate(params))
            case "fs/read_text_file":
                read = schema.ReadTextFileRequest.model_validate(params)
                work = self._client(read.session_id).read_file(read.path, read.line, read.limit)
                return {"content": await _as_answer(work)}
            case "fs/write_text_file":
                write = schema.WriteTextFileRequest.model_validate(params)
                await _as_answer(self._client(write.session_id).write_file(write.path, write.content))
                return {}
            case _:
                raise RequestError.method_not_found(method)

    def _take_update(self, params: Any) -> None:
        from acp import schema

        try:
            notification = schema.SessionNotification.model_validate(params)
        except ValidationError:
            return  # of a later version of the protocol
        update = read_update(notification.update)
        if update is None:
            return
        if (client := self._clients.get(notification.session_id)) is not None:
            client.take_update(update)
        else:
            self._early.append((notification.session_id, update))

    async def _ask_permission(self, asked: schema.RequestPermissionRequest) -> dict[str, Any]:
        options = tuple(PermissionOption(one.option_id, one.name, str(one.kind)) for one in asked.options)
        chosen = await self._client(asked.session_id).ask_permission(read_call(asked.tool_call), options)
        if chosen is None:
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": chosen}}

    def _client(self, session_id: str) -> AgentClient:
        from acp.exceptions import RequestError

        if (client := self._clients.get(session_id)) is None:
            raise RequestError.resource_not_found(session_id)
        return client


async def _as_answer(work: Any) -> Any:
    """Wait for work on a file; its refusal becomes the answer."""
    from acp.exceptions import RequestError

    try:
        return await work
    except FilesError as error:
        raise RequestError.invalid_params({"details": error.text}) from None


async def load_sdk() -> None:
    """Import the SDK, which takes half a second and more, in a thread."""
    await import_in_thread("acp.connection")
