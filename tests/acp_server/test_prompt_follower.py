"""An editor is told all of a turn before its end, each thing in order.

That holds however few views of the mysis there were.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tests.acp_server.test_acp_tables import begin, say
from tests.acp_server.test_client_messages import _Client
from tests.swarm.harness import Swarm, call, swarm
from tests.waiting import until
from zoea.acp_server.acp_agent import ZoeaAgent
from zoea.acp_server.acp_stdio import serve_client
from zoea.llm.providers.scripted import Reply
from zoea.model.enums import ApprovalAnswer, ErrorClass
from zoea.model.errors import ProviderError
from zoea.model.request import Answer, Delta
from zoea.model.values import SwarmView
from zoea.tools import ToolPolicy

FAILED = ProviderError("overloaded", kind=ErrorClass.TRANSIENT, status=503)
LONG = "Where is it? " * 900
"""More than a view holds."""


class _LateViews:
    """A swarm whose views all come too late for what lasts a moment: a stream, and a wait until the next attempt."""

    def __init__(self, api: Any) -> None:
        self._api = api

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def changes(self) -> AsyncIterator[SwarmView]:
        async for view in self._api.changes():
            late = (replace(one, attempt_at=None, streaming="", thinking="") for one in view.myses)
            yield replace(view, myses=tuple(late))


@asynccontextmanager
async def served(
    folder: Path, replies: Iterable[Reply], *, is_late: bool, asks: bool = False
) -> AsyncIterator[tuple[Swarm, _Client]]:
    given = iter(replies)
    async with swarm(folder, lambda _: next(given), jitter=0.0, policy=ToolPolicy(ask_destructive=asks)) as s:
        client = _Client([])
        api: Any = _LateViews(s.api) if is_late else s.api
        agent = ZoeaAgent(api, s.path, templates=("default",))
        serving = asyncio.create_task(serve_client(agent, client.reader, client))  # type: ignore[arg-type]  # only what it calls
        yield s, client
        client.reader.feed_eof()
        await serving


def texts(messages: Iterable[dict[str, Any]], kind: str) -> list[str]:
    updates = [one["params"]["update"] for one in messages if one.get("method") == "session/update"]
    return [one["content"]["text"] for one in updates if one["sessionUpdate"] == kind]


def kinds(messages: Iterable[dict[str, Any]]) -> list[str]:
    return [one["params"]["update"]["sessionUpdate"] if "params" in one else "answer" for one in messages]


async def test_retries_and_thoughts_that_no_view_showed_are_told(tmp_path: Path) -> None:
    look = Answer(text="I look.", reasoning=LONG, calls=(call("scan"),))
    ore = Answer(text="Ore is here.", reasoning="I dig.")
    async with served(tmp_path, [FAILED, FAILED, look, ore], is_late=True) as (_s, client):
        session = await begin(client, tmp_path)
        assert await say(client, session, "Where?") == "end_turn"
        *told, end = client.sent
        assert "stopReason" in end["result"]
    retry = "A request failed (503); Zoea sends it again.\n"
    assert texts(told, "agent_thought_chunk") == [retry, LONG, "I dig."]
    assert texts(told, "agent_message_chunk") == ["I look.", "Ore is here."]


async def say_in_pieces(s: Swarm, client: _Client, folder: Path, *, after: int, seen: str) -> None:
    """Say something, and let its answer go on once the client has seen its begin."""
    session = await begin(client, folder)
    block = s.provider.block(after=after)
    saying = asyncio.create_task(say(client, session, "Where?"))
    await until(lambda: texts(client.sent, seen))
    block.release()
    assert await saying == "end_turn"


async def test_an_answer_is_told_whole_although_another_had_begun_and_failed(tmp_path: Path) -> None:
    begun: list[Any] = [Delta(reasoning="Iron, I"), Delta(text="Iron at"), FAILED]
    ore = Answer(text="Ore is here.", reasoning="I dig.")
    async with served(tmp_path, [begun, ore], is_late=False) as (s, client):
        await say_in_pieces(s, client, tmp_path, after=2, seen="agent_message_chunk")
    assert "".join(texts(client.sent, "agent_message_chunk")) == "Iron at\n\nOre is here."
    assert "I dig." in "".join(texts(client.sent, "agent_thought_chunk"))


async def test_thoughts_that_are_longer_than_a_view_are_told_once(tmp_path: Path) -> None:
    pieces = [Delta(reasoning=LONG[at : at + 3_000]) for at in range(0, len(LONG), 3_000)]
    async with served(tmp_path, [[*pieces, Answer(text="Ore.", reasoning=LONG)]], is_late=False) as (s, client):
        await say_in_pieces(s, client, tmp_path, after=1, seen="agent_thought_chunk")
    assert "".join(texts(client.sent, "agent_thought_chunk")) == LONG


async def test_a_session_hears_of_its_commands_after_its_conversation(tmp_path: Path) -> None:
    async with served(tmp_path, [Answer(text="Ore.")], is_late=False) as (_s, client):
        session = await begin(client, tmp_path)
        assert await say(client, session, "Where?") == "end_turn"
        client.sent.clear()
        await client.answer(client.send("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}))
        await until(lambda: "available_commands_update" in kinds(client.sent))
    assert kinds(client.sent) == ["user_message_chunk", "agent_message_chunk", "answer", "available_commands_update"]


async def test_a_client_without_permissions_is_told_where_to_answer(tmp_path: Path) -> None:
    burn = Answer(text="I burn.", calls=(call("burn"),))
    async with served(tmp_path, [burn, Answer(text="Burnt.")], is_late=False, asks=True) as (s, client):
        client.knows_permissions = False
        session = await begin(client, tmp_path)
        saying = asyncio.create_task(say(client, session, "Burn."))
        await until(lambda: texts(client.sent, "agent_thought_chunk"))
        [told] = texts(client.sent, "agent_thought_chunk")
        assert told == "Your editor cannot ask about burn; `zoea approve alpha` allows it.\n"
        [asked] = await s.commander.approvals()
        await s.commander.answer(asked.id, ApprovalAnswer.ONCE)
        assert await saying == "end_turn"
    assert texts(client.sent, "agent_message_chunk") == ["I burn.", "Burnt."]
