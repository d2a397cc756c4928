"""Runs the turns of a mysis by an external agent, over ACP."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from msgspec.structs import replace

from zoea.agents.agent_launch import AgentLaunch, agent_name, build_launch
from zoea.agents.agent_session import AgentSession
from zoea.agents.updates import AgentUpdate, CallTold, PermissionOption, TextTold
from zoea.context import FrozenTurn, InheritedContext
from zoea.model.enums import CallState, Outcome
from zoea.model.errors import FilesError, MissingBlob
from zoea.model.ports import ToolsAccess
from zoea.model.request import Catalogue, RequestMessage
from zoea.settings.template import parse_template
from zoea.swarm.inherited_context import read_inherited
from zoea.swarm.persistence import agent_ops, turn_ops, turn_records
from zoea.swarm.persistence.agent_ops import StoredSession
from zoea.swarm.resolved_template import build_profile, offline_profile
from zoea.swarm.services import Services
from zoea.swarm.turn import shown_notes
from zoea.swarm.turn import turn_types as t
from zoea.swarm.turn.agent_files import AgentFiles
from zoea.swarm.turn.agent_record import AgentRecord, merge_memories
from zoea.swarm.turn.agent_tools import ProcessTools
from zoea.swarm.turn.agent_turn import AgentTurn, prompt_text
from zoea.swarm.turn.request_preparation import prepare_requests
from zoea.swarm.turn.runner_base import PreparedTurn, RunnerBase
from zoea.swarm.turn.turn_close import MAY_HAVE_RUN, NEVER_RAN
from zoea.swarm.turn.turn_runner import DrivenTurn, TurnClosing, TurnOwner

_log = logging.getLogger(__name__)

INHERITED_TOKENS = 10_000
"""Tokens of the conversation that a mysis was made from which its agent is told."""
MOST_LATE = 200
_NEW = "[note from Zoea] What was said before this session, oldest first; it is done, and only for you to know:\n\n"
_GO_ON = (
    "[note from Zoea] You were interrupted in the middle of your turn, because a process ended. What you were doing may"
    " be done in part: look before you repeat it, then go on."
)
_FORK = (
    "[note from Zoea] This session is a fork of that of the mysis {mysis}. From here on you are the mysis {name}."
    " {mysis} does not see what you do, but works in the same folder."
)
_FORKED_SESSION = "{agent} forked its session with {mysis}, which knows what was said before."
_NO_TOOLS = (
    "{agent} has not asked for Zoea's tools: it cannot search, write to others or report that its task is done. It"
    " rests after each answer."
)
_NEW_SESSION = "{agent} began a new session; it was told what was said before."


class AgentTurns(RunnerBase[AgentTurn]):
    """The `TurnRunner` of a mysis that an external agent plays. It is the client of the agent's session."""

    def __init__(self, services: Services, owner: TurnOwner, body: str) -> None:
        super().__init__(services, owner, body)
        self._agent: AgentSession | None = None
        self._tools: ProcessTools | None = None
        self._has_tools = True  # until an agent did not list them
        self._launch: AgentLaunch | None = None
        self._prepared: PreparedTurn | None = None
        self._late: list[AgentUpdate] = []

    def close(self) -> None:
        """See `TurnRunner.close`."""
        super().close()
        if self._agent is not None:
            self._services.agents.touch(self)

    async def end(self) -> None:
        """See `TurnRunner.end`."""
        try:
            await self.release()
        finally:
            self._services.agents.leave(self)
            if self._services.gateway is not None:
                await self._services.gateway.close(self._owner.mysis.id)
            await super().end()

    # The `PlaceHolder` of the pool.

    @property
    def is_idle(self) -> bool:
        return self.turn is None and not self._is_opening

    async def release(self) -> None:
        """End the process of the agent. The next prompt resumes its session."""
        session, tools = self._agent, self._tools
        if session is not None:
            await session.close()  # kept until then, so that another caller waits for its end too
            self._agent = None if self._agent is session else self._agent
        if tools is not None:
            await tools.end()

    # The turns.

    async def _prepare(self) -> PreparedTurn:
        services, resolved, mysis = self._services, self._read_template(), self._owner.mysis
        settings = resolved.template.acp
        gateway = services.gateway if settings.gateway else None
        access = None if gateway is None else await gateway.open(mysis.id)
        if services.files is None:
            raise FilesError(
                "an external agent has no folder to work in", hint="Name one in the template: `workbench`."
            )
        folder = await services.files.folder(mysis.uid, mysis.name, resolved.template)
        launch = build_launch(settings, folder, access, mysis.model)
        if launch.uses_gateway:
            with services.view.show_preparing(mysis.id):
                profile = await build_profile(mysis, resolved, services.providers)
        else:
            profile = offline_profile(mysis, resolved, services.providers)
        self._live.answered_by = launch.model or launch.name
        session = self._open_session()
        if self._is_old or (self._launch is not None and self._launch != launch):
            await self.release()
        self._is_old, self._launch = False, launch
        await self._load_capture()
        own = session.own_tools() if self._has_tools and services.gateway is not None else ()
        self._prepared = PreparedTurn(profile, session, Catalogue(own))
        return self._prepared

    async def _begin(self, prepared: PreparedTurn, about: DrivenTurn, turn: t.TurnState) -> TurnClosing:
        return await self._drive(prepared, about, turn, _prompts(about.frozen, turn))

    async def _go_on(self, prepared: PreparedTurn, stored: turn_records.OpenTurnRow) -> TurnClosing:
        services, profile = self._services, prepared.profile
        frozen = FrozenTurn.from_json(stored.frozen, system=parse_template(self._body).prompt)
        about = self._describe(stored, frozen)
        results = tuple(
            t.StoreResult(
                stored.turn_id,
                call.id,
                memory.seq + 1 + call.position,
                MAY_HAVE_RUN if call.state is CallState.SENT else NEVER_RAN,
                CallState.UNKNOWN if call.state is CallState.SENT else CallState.CANCELLED,
            )
            for memory in stored.memories
            for call in memory.calls
            if call.state.is_open
        )
        turn = t.TurnState(
            turn_id=stored.turn_id,
            rules=profile.turn_rules,
            rules_wait=profile.wait_rules,
            nudged=stored.nudged,
            at=services.clock.uptime(),
            memories=t.with_uptimes(stored.memories, services.clock.ahead),
            notes=stored.notes,
            resumed_at=services.clock.uptime(),
        )
        info = prepare_requests(services, profile, Catalogue(), stored.number, frozen, None).info
        ended = await services.write(lambda conn: turn_ops.carry_out(conn, info, t.ResumeTurn(stored.turn_id, results)))
        self._owner.capture.add(ended.memories)
        results_told = t.with_uptimes(ended.memories, services.clock.ahead)
        turn = replace(turn, memories=merge_memories(turn.memories, results_told, ended.calls))
        session = await agent_ops.read_session(services.store, profile.mysis_id)
        was_prompted = session.turn_id == stored.turn_id
        texts = [*([] if was_prompted and session.session_id else _prompts(frozen, turn))]
        return await self._drive(prepared, about, turn, [*texts, _GO_ON] if was_prompted else texts)

    async def _drive(
        self, prepared: PreparedTurn, about: DrivenTurn, turn: t.TurnState, texts: list[str]
    ) -> TurnClosing:
        assert self._launch is not None
        services, profile, launch = self._services, prepared.profile, self._launch
        self._live.turn_number = about.number
        info = prepare_requests(services, profile, Catalogue(), about.number, about.frozen, about.before).info
        if not launch.uses_gateway:
            info = replace(info, provider=launch.name, model=launch.model)
        assert services.files is not None
        closed = (*services.files.closed, *(launch.fence.hidden if launch.fence is not None else ()))
        files = AgentFiles(launch.name, str(launch.cwd), launch.uses_gateway, closed)
        record = AgentRecord(services, profile, info, about, self._owner, prepared.session, turn)
        steers = self._owner.waiting_steers()
        running = self._take(AgentTurn(record, self, files, steers, prepared.catalogue.tools))
        late, self._late = self._late, []
        for update in late:
            running.take_update(update)
        closing = await running.run(texts)
        if closing.end.outcome in (Outcome.FAILED, Outcome.TIMEOUT, Outcome.CRASHED):
            await self.release()
        return closing

    # The `SessionSource` of the turn.

    async def ready(self, turn_id: int) -> tuple[AgentSession, list[str]]:
        """See `SessionSource.ready`: a process that ended is started again, and its session gone on with."""
        assert self._launch is not None
        services, mysis_id, launch = self._services, self._owner.mysis.id, self._launch
        if self._agent is not None and not self._agent.is_open:
            await self.release()
        await services.agents.take(self, self._show_queue)
        if self._agent is not None:
            self._let_call()
            return self._agent, []
        stored = await agent_ops.read_session(services.store, mysis_id)
        session_id = stored.session_id if stored.agent == launch.name else ""
        fork_of = parent = ""
        if not session_id and (commit := self._owner.capture.inherited.commit):
            folder = None if launch.moves_forks else str(launch.cwd)
            fork_of, parent = await agent_ops.find_forked(services.store, commit, launch.name, folder)
        try:
            with services.view.show_preparing(mysis_id):
                assert services.files is not None
                fenced = await services.files.fence(self._owner.mysis.name, launch)
                tools = await self._serve_tools()
                async with services.agents.starting():
                    self._agent, begun = await AgentSession.open(fenced, self, session_id, fork_of=fork_of, tools=tools)
        except BaseException:
            services.agents.leave(self)
            if self._tools is not None:
                await self._tools.end()
            raise
        self._let_call()
        if not begun.is_new and not begun.is_fork:
            return self._agent, []
        stored = StoredSession(begun.session_id, launch.name, 0, str(launch.cwd))
        await services.write(lambda conn: agent_ops.store_session(conn, mysis_id, stored))
        return self._agent, await self._introduce(turn_id, parent if begun.is_fork else "")

    def _show_queue(self, place: int, most: int) -> None:
        self._live.show_queue(place, "an agent's process", f"acp.max_processes and the memory let {most} run at once")
        self._services.view.touch(self._owner.mysis.id)

    async def _serve_tools(self) -> ToolsAccess | None:
        """Let the process that starts now find Zoea's own tools."""
        assert self._prepared is not None
        if self._tools is not None:
            await self._tools.end()
        gateway = self._services.gateway
        self._tools = None if gateway is None else ProcessTools(gateway, self._prepared.session)
        return None if self._tools is None else await self._tools.serve()

    def _let_call(self) -> None:
        """Let calls of the process belong to the open turn."""
        if self._tools is not None:
            self._tools.turn, self._tools.session = self.turn, self._agent

    async def note_tools(self, record: AgentRecord) -> None:
        """See `SessionSource.note_tools`. Without them no goal is reached, so that it rests after each answer."""
        has_tools = self._tools is None or self._tools.were_listed
        if has_tools is not self._has_tools:
            self._has_tools = has_tools
            self._owner.note_tools(has_tools)
            if not has_tools:
                await record.note("tools", _NO_TOOLS.format(agent=self._launch_name))

    async def _introduce(self, turn_id: int, parent: str) -> list[str]:
        """Return the first text of a session: the template's prompt and the earlier conversation.

        A fork of the session of the mysis `parent` knows that.
        """
        assert self._prepared is not None
        services, profile = self._services, self._prepared.profile
        prompt = [text] if (text := profile.template.prompt.strip()) else []
        if parent:
            await self._note_session(turn_id, _FORKED_SESSION.format(agent=self._launch_name, mysis=parent))
            return [_FORK.format(mysis=parent, name=self._owner.mysis.name), *prompt]
        inherited: Sequence[RequestMessage] = ()
        if (origin := self._owner.capture.inherited).commit:
            need = InheritedContext(origin.commit, INHERITED_TOKENS, from_root=True)
            try:
                inherited = (await read_inherited(services.store, need, profile.mysis_id)).messages
            except MissingBlob as error:
                _log.warning("mysis #%d begins without what it was made from: %s", profile.mysis_id, error.what)
        narrative = await agent_ops.read_narrative(services.store, profile.mysis_id, turn_id, inherited)
        if narrative:
            await self._note_session(turn_id, _NEW_SESSION.format(agent=self._launch_name))
        return [*prompt, *([_NEW + narrative] if narrative else [])]

    async def _note_session(self, turn_id: int, text: str) -> None:
        """Say in the conversation how the session began."""
        note = t.StoreNote(turn_id, 0, f"{shown_notes.AGENT}session", text)
        await self._services.write(lambda conn: turn_ops.store_note(conn, self._owner.mysis.id, note))

    @property
    def _launch_name(self) -> str:
        return agent_name(self._owner.known.template.acp)

    async def note_prompted(self, turn_id: int) -> None:
        """Remember that the agent was given the prompt of a turn."""
        assert self._agent is not None
        assert self._launch is not None
        stored = StoredSession(self._agent.session_id, self._launch_name, turn_id, str(self._launch.cwd))
        await self._services.write(lambda conn: agent_ops.store_session(conn, self._owner.mysis.id, stored))

    # The `AgentClient` of the session.

    def take_update(self, update: AgentUpdate) -> None:
        """See `AgentClient.take_update`. Text that comes after a turn is shown with the next one."""
        if self.turn is not None and not self.turn.is_over:
            self.turn.take_update(update)
        elif isinstance(update, TextTold) and len(self._late) < MOST_LATE:
            self._late.append(update)

    async def ask_permission(self, call: CallTold, options: tuple[PermissionOption, ...]) -> str | None:
        """See `AgentClient.ask_permission`; between turns nothing is allowed."""
        if self.turn is None or self.turn.is_over:
            return None
        return await self.turn.ask_permission(call, options)

    async def read_file(self, path: str, line: int | None, limit: int | None) -> str:
        """See `AgentClient.read_file`."""
        return await self._open_turn().read_file(path, line, limit)

    async def write_file(self, path: str, content: str) -> None:
        """See `AgentClient.write_file`."""
        await self._open_turn().write_file(path, content)

    def _open_turn(self) -> AgentTurn:
        if self.turn is None or self.turn.is_over:
            raise FilesError("no turn is open")
        return self.turn


def _prompts(frozen: FrozenTurn, turn: t.TurnState) -> list[str]:
    """Return the texts that open a turn: the situation, notes of Zoea, and the prompts or the nudge."""
    prompts = [prompt_text(memory) for memory in turn.memories if memory.role == "user"]
    texts = (frozen.situation, *(note.content for note in turn.notes), *(prompts or (frozen.nudge_text,)))
    return [text for text in texts if text]
