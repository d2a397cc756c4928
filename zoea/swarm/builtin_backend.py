"""The swarm for Zoea's own tools: the store, the live view and sending."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zoea.model.enums import SenderKind
from zoea.model.request import CallMeta
from zoea.model.topics import PublishReceipt, TopicMessage, TopicSummary
from zoea.model.values import MysisView, Receipt, Sender
from zoea.store.topic_reader import read_newest_messages, read_topics
from zoea.swarm.command_tasks import CommandTasks
from zoea.swarm.message_commands import MessageCommands
from zoea.swarm.persistence.approval_ops import SENTENCE_OF_CALL
from zoea.swarm.persistence.preserved_memories import NEWEST_PROMPT, preserve_memory
from zoea.swarm.swarm import Swarm
from zoea.swarm.topic_commands import TopicCommands
from zoea.tools.builtin.answer_size import ROOM


class SwarmBackend:
    """See `zoea.tools.builtin.mysis_tools.BuiltinBackend`."""

    def __init__(self, swarm: Swarm, messages: MessageCommands, topics: TopicCommands) -> None:
        self._store = swarm.services.store
        self._view = swarm.live_view
        self._messages = messages
        self._topics = topics
        self.memories = self._store.memory_reader()
        self._commands = CommandTasks()

    async def send(self, mysis_id: int, hop: int, to: str, text: str) -> Receipt:
        return await self._commands.run(self._messages.send_from_mysis(self._sender(mysis_id), hop + 1, to, text))

    async def broadcast(self, mysis_id: int, hop: int, text: str) -> Receipt:
        return await self._commands.run(self._messages.send_from_mysis(self._sender(mysis_id), hop + 1, None, text))

    async def publish(
        self, meta: CallMeta, topic: str, text: str, data: Mapping[str, Any] | None, receiver: str
    ) -> PublishReceipt:
        sender = self._sender(meta.mysis_id)
        return await self._commands.run(
            self._topics.publish(
                topic, text, data=data, sender=sender, receiver=receiver, hop=meta.hop + 1, turn_id=meta.turn_id or None
            )
        )

    async def read_topic(self, topic: str, limit: int, before: int | None) -> tuple[TopicMessage, ...]:
        return await self.memories.run(
            lambda reader: read_newest_messages(reader, topic, limit=limit, before=before, max_chars=ROOM)
        )

    async def read_topics(self) -> tuple[TopicSummary, ...]:
        return await self.memories.run(read_topics)

    async def read_answer(self, mysis_id: int, call_id: int) -> str:
        rows = await self._store.read(SENTENCE_OF_CALL, (call_id, mysis_id))
        return str(rows[0]["sentence"]) if rows else ""

    async def preserve(self, meta: CallMeta, memory_id: int | None, on: bool) -> int:
        if memory_id is None:
            rows = await self._store.read(NEWEST_PROMPT, (meta.mysis_id,))
            memory_id = rows[0]["id"] if rows else 0
        kept = memory_id
        write = self._store.write(lambda conn: preserve_memory(conn, kept, on, mysis_id=meta.mysis_id))
        await self._commands.run(write)
        return memory_id

    def list_myses(self) -> tuple[MysisView, ...]:
        return tuple(self._view.freeze(row.mysis.id) for row in self._view.rows())

    def _sender(self, mysis_id: int) -> Sender:
        return Sender(SenderKind.MYSIS, mysis_id, self._view.row(mysis_id).mysis.name)
