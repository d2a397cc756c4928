"""Serves myses as sessions of the Agent Client Protocol. A prompt is a message, a mode is a template."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from acp import PROTOCOL_VERSION, RequestError, helpers, schema

from zoea import __version__
from zoea.acp_server import session_updates as updates
from zoea.acp_server.prompt_follower import Editor, PromptFollower
from zoea.files.ownership import Ownership
from zoea.model.enums import ApprovalAnswer, MysisState
from zoea.model.errors import UsageError, ZoeaError
from zoea.model.swarm_api import SwarmApi
from zoea.model.values import MysisView, Receipt
from zoea.process.clock import read_wall_time
from zoea.queries.conversation import iterate_turns
from zoea.queries.search_reader import SwarmSearcher, parse_search
from zoea.queries.stored_swarm import open_database
from zoea.text.control_characters import reveal, reveal_line

MOST_REPLAYED = 2_000
"""Messages of a conversation that a loaded session begins with; older ones are shown in Zoea."""
MOST_HITS = 20
_PREFIX = "mysis-"
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_WORKTREE = "worktree of "
"""How a view says that the folder is not the one that a mysis changes."""
_COMMANDS = {
    "broadcast": ("Send a message to all myses", "the message"),
    "search": ("Search all that was said in the swarm", "words"),
    "fork": ("Make a mysis that knows this conversation", "its name, or nothing"),
}
_T = TypeVar("_T")


class _Session:
    """One mysis that an editor talks to.

    Attributes:
        question: The approval that the next prompt answers, and the message that led to it.
    """

    def __init__(self, mysis: MysisView, folder: str) -> None:
        self.mysis_id = mysis.id
        self.ref = f"#{mysis.id}"
        self.folder = folder
        self.running: PromptFollower | None = None
        self.receipt: Receipt | None = None
        self.question: tuple[int, Receipt] | None = None


def _translated(
    handler: Callable[..., Coroutine[Any, Any, _T]],
) -> Callable[..., Coroutine[Any, Any, _T]]:
    """Answer an error of Zoea's as an error of the protocol."""

    @wraps(handler)
    async def handle(*arguments: Any, **named: Any) -> _T:
        try:
            return await handler(*arguments, **named)
        except ZoeaError as error:
            about = {"title": error.title, "hint": reveal(error.hint)}
            raise RequestError(-32603, reveal(error.text), about) from None

    return handle


class ZoeaAgent:
    """The agent side of the protocol, over a swarm of this or another process.

    Args:
        templates: The names of the templates, which are the modes.
        mysis: The one mysis that every session is; empty lets each new session make one.
        template: Of new myses; the default one if empty.
    """

    def __init__(
        self,
        swarm: SwarmApi,
        database: Path,
        *,
        templates: tuple[str, ...],
        mysis: str = "",
        template: str = "",
    ) -> None:
        self._swarm = swarm
        self._database = database
        self._templates = templates
        self._mysis = mysis
        self._template = template
        self._sessions: dict[str, _Session] = {}
        self._editor: Editor
        self._notices: set[asyncio.Task[None]] = set()

    def on_connect(self, conn: Any) -> None:
        self._editor = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="zoea", title="Zoea", version=__version__),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=False, audio=False, embedded_context=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                    fork=schema.SessionForkCapabilities(),
                ),
            ),
            auth_methods=[],
        )

    async def authenticate(self, **_: Any) -> None:
        """Accept: there is nothing to log in to."""

    # Sessions.

    @_translated
    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        if self._mysis:
            mysis = await self._swarm.mysis(self._mysis)
        else:
            mysis = await self._swarm.create("", template=self._template, on=cwd)
        session_id = self._keep(mysis, cwd)
        return schema.NewSessionResponse(session_id=session_id, modes=self._modes(mysis))

    @_translated
    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        mysis = await self._find(session_id)
        memories = await asyncio.to_thread(self._read_all, mysis.id)
        for update in updates.replay(memories[-MOST_REPLAYED:], self._find_folder(mysis, cwd)):
            await self._editor.session_update(session_id=session_id, update=update)
        self._keep(mysis, cwd)  # at last, so that its notices do not stand in the conversation
        return schema.LoadSessionResponse(modes=self._modes(mysis))

    @_translated
    async def resume_session(self, cwd: str, session_id: str, **_: Any) -> schema.ResumeSessionResponse:
        mysis = await self._find(session_id)
        self._keep(mysis, cwd)
        return schema.ResumeSessionResponse(modes=self._modes(mysis))

    @_translated
    async def fork_session(self, cwd: str, session_id: str, **_: Any) -> schema.ForkSessionResponse:
        mysis = await self._find(session_id)
        made = await self._swarm.create("", commit=f"@{mysis.name}", on=_find_top(mysis))
        return schema.ForkSessionResponse(session_id=self._keep(made, cwd), modes=self._modes(made))

    @_translated
    async def list_sessions(self, cwd: str | None = None, **_: Any) -> schema.ListSessionsResponse:
        myses = (await self._swarm.view()).myses
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(
                    session_id=f"{_PREFIX}{one.id}",
                    cwd=_find_top(one) or cwd or str(Path.cwd()),
                    title=f"{one.name}: {reveal_line(one.goal.splitlines()[0][:80])}" if one.goal else one.name,
                    updated_at=time.strftime(_TIME, time.gmtime((one.text_at or one.state_at) // 1_000_000)),
                )
                for one in myses
                if cwd is None or _find_top(one) in ("", cwd)
            ]
        )

    @_translated
    async def close_session(self, session_id: str, **_: Any) -> None:
        """Forget a session; its mysis stays, without the turn of the last prompt."""
        if session_id in self._sessions:
            await self.cancel(session_id=session_id)
            self._sessions.pop(session_id, None)

    @_translated
    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> schema.SetSessionModeResponse:
        session = await self._session(session_id)
        if mode_id not in self._templates:
            raise UsageError(f"there is no template {mode_id!r}", hint="The modes are the templates of the workspace.")
        await self._swarm.configure(session.ref, template=mode_id)
        return schema.SetSessionModeResponse()

    async def set_config_option(self, **_: Any) -> None:
        raise RequestError.invalid_params({"details": "Zoea has no options of sessions; its modes are templates"})

    # Prompts.

    @_translated
    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> schema.PromptResponse:
        session = await self._session(session_id)
        if session.running is not None:
            raise UsageError("a prompt of this session is under way", hint="Cancel it first.")
        try:
            text = updates.read_prompt(prompt)
        except ValueError as problem:
            raise UsageError(str(problem)) from None
        if not text:
            raise UsageError("the prompt is empty")
        name, _space, rest = text.removeprefix("/").partition(" ")
        if text.startswith("/") and name in _COMMANDS:
            said = await self._run_command(session, name, rest.strip())
            await self._editor.session_update(session_id=session_id, update=updates.say(said))
            return schema.PromptResponse(stop_reason="end_turn")
        follower = session.running = PromptFollower(
            self._swarm, self._database, self._editor, session_id, session.mysis_id, session.folder
        )
        session.receipt = None
        try:
            await follower.begin()
            if session.running.is_cancelled:
                return schema.PromptResponse(stop_reason="cancelled")
            session.receipt = await self._deliver(session, text)
            if follower.is_cancelled:  # while it was delivered
                await self._take_back(session, session.receipt)
            reason = await follower.follow(session.receipt)
            if follower.question is not None:
                session.question = follower.question.id, session.receipt
        finally:
            session.running = None
        return schema.PromptResponse(stop_reason=reason)

    async def _deliver(self, session: _Session, text: str) -> Receipt:
        """Send the prompt to the mysis, as a message or the answer to its question."""
        asked, session.question = session.question, None
        if asked is not None:
            approval_id, receipt = asked
            if any(one.id == approval_id for one in await self._swarm.approvals()):
                await self._swarm.answer(approval_id, ApprovalAnswer.ONCE, sentence=text)
                return receipt
        mysis = await self._swarm.mysis(session.ref)
        if mysis.state in (MysisState.STOPPED, MysisState.ERRORED):
            await self._swarm.start(session.ref)
        return await self._swarm.send(session.ref, text)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """End the turn of the prompt that is under way. One that has not begun is taken back."""
        session = self._sessions.get(session_id)
        if session is None or session.running is None or session.running.is_cancelled:
            return
        session.running.is_cancelled = True
        if session.receipt is not None:  # else the prompt takes itself back, once it is delivered
            await self._take_back(session, session.receipt)

    async def _take_back(self, session: _Session, receipt: Receipt) -> None:
        line = (await self._swarm.receipt(receipt.message_id)).lines[0]
        if line.turn_id is None and line.delivery_id is not None:
            try:
                await self._swarm.withdraw(line.delivery_id)
                return
            except UsageError:  # it waits no longer
                line = (await self._swarm.receipt(receipt.message_id)).lines[0]
        if not line.is_settled:
            await self._swarm.stop(session.ref)

    async def _run_command(self, session: _Session, name: str, rest: str) -> str:
        match name:
            case "broadcast" if rest:
                receipt = await self._swarm.broadcast(rest)
                return f"Delivered to {receipt.delivered} of {len(receipt.lines)} myses."
            case "search" if rest:
                return await asyncio.to_thread(self._search, rest)
            case "fork":
                mysis = await self._swarm.mysis(session.ref)
                made = await self._swarm.create(rest, commit=f"@{mysis.name}", on=_find_top(mysis))
                return f"{made.name} knows this conversation; its session is {_PREFIX}{made.id}."
        return f"/{name} needs more: {_COMMANDS[name][1]}."

    def _search(self, words: str) -> str:
        searcher = SwarmSearcher(self._database)
        page = searcher.search(searcher.begin(), parse_search(words, read_wall_time()))
        hits = () if page is None else page.hits[:MOST_HITS]
        lines = [f"- **{hit.mysis}**, turn {hit.turn_number}: {' '.join(hit.text.split())[:300]}" for hit in hits]
        return "\n".join(lines) if lines else f"Nothing was found for {words}."

    # What sessions are made of.

    def _keep(self, mysis: MysisView, cwd: str) -> str:
        session_id = f"{_PREFIX}{mysis.id}"
        self._sessions.setdefault(session_id, _Session(mysis, self._find_folder(mysis, cwd)))
        notice = asyncio.create_task(self._begin(session_id, mysis))
        self._notices.add(notice)
        notice.add_done_callback(self._notices.discard)
        return session_id

    def _find_folder(self, mysis: MysisView, cwd: str) -> str:
        """Return the folder of a mysis: its worktree, its workbench, or the folder of the editor."""
        if mysis.works_on.startswith(_WORKTREE):
            return str(Ownership(self._database.parent).path(mysis.name))
        return mysis.works_on or cwd

    async def _begin(self, session_id: str, mysis: MysisView) -> None:
        """Send the editor the commands. If it shows another folder, send that of the mysis too."""
        await asyncio.sleep(0)  # the client hears of the session first
        commands = [
            schema.AvailableCommand(
                name=name,
                description=description,
                input=schema.AvailableCommandInput(root=schema.UnstructuredCommandInput(hint=hint)),
            )
            for name, (description, hint) in _COMMANDS.items()
        ]
        told: list[Any] = [helpers.update_available_commands(commands)]
        if mysis.works_on.startswith(_WORKTREE):
            where = f"{mysis.name} works in a {mysis.works_on}, apart from others: `zoea diff {mysis.name}` shows what"
            told.append(updates.say(f"{where} it changes, `zoea merge` brings it in.\n\n"))
        with suppress(ConnectionError):  # the editor has gone
            for update in told:
                await self._editor.session_update(session_id=session_id, update=update)

    async def _find(self, session_id: str) -> MysisView:
        number = session_id.removeprefix(_PREFIX)
        # One that is written in another way would be open under a name that no prompt finds.
        is_known = number.isascii() and number.isdecimal() and not number.startswith("0")
        if not session_id.startswith(_PREFIX) or not is_known:
            raise UsageError(f"there is no session {session_id!r}", hint="session/list names them.")
        return await self._swarm.mysis(f"#{number}")

    async def _session(self, session_id: str) -> _Session:
        if session_id not in self._sessions:
            raise UsageError(f"the session {session_id!r} is not open", hint="Load it, or make a new one.")
        return self._sessions[session_id]

    def _modes(self, mysis: MysisView) -> schema.SessionModeState:
        return updates.list_modes(self._templates, mysis.template)

    def _read_all(self, mysis_id: int) -> list[Any]:
        with open_database(self._database) as reader:
            return [entry.memory for turn in iterate_turns(reader, mysis_id) for entry in turn.entries]


def _find_top(mysis: MysisView) -> str:
    """Return the folder that a mysis was made for; empty for none."""
    return mysis.works_on.removeprefix(_WORKTREE)
