"""Runs one session with an agent, to see that it works. The agent is allowed nothing."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from zoea.agents.agent_launch import AgentLaunch
from zoea.agents.agent_session import AgentSession
from zoea.agents.updates import AgentUpdate, CallTold, PermissionOption, TextTold
from zoea.model.errors import AgentError, FilesError
from zoea.process.group_guard import find_marked

PROMPT_S = 120.0
GREETING = "Say hello in one short sentence. Use no tools."
_ABILITIES = ("resume", "close", "list", "fork", "delete")


class AgentTrial(Struct, frozen=True):
    """What a trial found.

    Attributes:
        agent: Its name and version, as it says.
        begin_s, answer_s: Seconds to a session, and to the end of the prompt.
        abilities: What it can do with sessions: `load`, `resume`, `close`, `list`, `fork`, `delete`.
        logins: Its ways to log in.
        memory: Bytes of its processes; None where the system does not tell.
    """

    agent: str
    begin_s: float
    answer_s: float
    abilities: tuple[str, ...]
    modes: tuple[str, ...]
    mode: str
    models: tuple[str, ...]
    logins: tuple[str, ...]
    answer: str
    end: str
    asked: tuple[str, ...]
    memory: int | None


class _Listener:
    """Collects the texts of the agent and refuses each permission."""

    def __init__(self) -> None:
        self.text = ""
        self.asked: list[str] = []

    def take_update(self, update: AgentUpdate) -> None:
        if isinstance(update, TextTold) and not update.is_thought:
            self.text += update.text

    async def ask_permission(self, call: CallTold, options: tuple[PermissionOption, ...]) -> str | None:
        self.asked.append(call.title or call.kind or call.call_id)
        return next((one.option_id for one in options if one.kind.startswith("reject")), None)

    async def read_file(self, path: str, line: int | None, limit: int | None) -> str:
        raise FilesError("a trial reads no files")

    async def write_file(self, path: str, content: str) -> None:
        raise FilesError("a trial writes no files")


async def try_agent(launch: AgentLaunch, prompt: str = GREETING) -> AgentTrial:
    """Begin a session, ask one prompt, and end the agent. Raises AgentError."""
    listener, began = _Listener(), time.monotonic()
    session, _ = await AgentSession.open(replace(launch, fs="none"), listener)
    try:
        begun = time.monotonic()
        try:
            async with asyncio.timeout(PROMPT_S):
                end = await session.prompt([prompt])
        except TimeoutError:
            raise AgentError(f"{launch.name} did not answer within {PROMPT_S:g} s") from None
        about = session.connection.about
        can = about.agent_capabilities
        sessions = None if can is None else can.session_capabilities
        return AgentTrial(
            agent=f"{about.agent_info.name} {about.agent_info.version}" if about.agent_info else "unnamed",
            begin_s=round(begun - began, 2),
            answer_s=round(time.monotonic() - begun, 2),
            abilities=(
                *(["load"] if can is not None and can.load_session else []),
                *(name for name in _ABILITIES if getattr(sessions, name, None) is not None),
            ),
            modes=session.modes,
            mode=session.mode,
            models=session.models,
            logins=tuple(one.name for one in about.auth_methods or ()),
            answer=listener.text,
            end=end.reason,
            asked=tuple(listener.asked),
            memory=await asyncio.to_thread(_read_memory, session.connection.process.mark),
        )
    finally:
        await session.close()


def _read_memory(mark: str) -> int | None:
    """Return the resident bytes of the processes with a mark, from /proc."""
    total = 0
    for pid in find_marked(mark):
        with suppress(OSError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return total or None
