"""Fakes for tests of the toolbox: configurations of faulty servers, and a swarm that records calls."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoea.model.enums import Activity, MysisState, Role, SenderKind, Source
from zoea.model.errors import MysisMissing
from zoea.model.request import AnswerCall, CallMeta
from zoea.model.topics import PublishReceipt, TopicMessage, TopicSummary
from zoea.model.values import MysisView, Receipt, ReceiptLine
from zoea.store.memory_reader import MemoryPart
from zoea.store.search import (
    BroadcastHit,
    BroadcastHits,
    BroadcastQuery,
    Excerpt,
    HitPlace,
    MemoryHit,
    MemoryHits,
    MemoryQuery,
)
from zoea.tools import UpstreamConfig
from zoea.tools.toolbox import ToolboxSession

FAULTY = Path(__file__).with_name("mcp_faulty.py")


def meta(mysis: str = "alpha", *, mysis_id: int = 1, deadline_s: float = 10.0, hop: int = 0) -> CallMeta:
    return CallMeta(mysis_id=mysis_id, mysis=mysis, turn_id=1, call_id=1, hop=hop, deadline_s=deadline_s)


def asked(name: str, /, **arguments: Any) -> AnswerCall:
    return AnswerCall(name=name, arguments=json.dumps(arguments))


async def with_catalogue(session: ToolboxSession) -> ToolboxSession:
    """Read the catalogue of a session, and return it."""
    await session.catalogue()
    return session


class Faulty:
    """One faulty server's configuration, and the journal of what its processes saw."""

    def __init__(self, folder: Path) -> None:
        self.journal = folder / "journal.jsonl"

    def config(self, name: str = "faulty", *, mode: str = "", **more: Any) -> UpstreamConfig:
        env = {"FAULTY_JOURNAL": str(self.journal), "FAULTY_MODE": mode, **more.pop("env", {})}
        more = {"backoff": 0.02, "backoff_max": 0.2, **more}
        return UpstreamConfig(name, command=sys.executable, args=("-I", str(FAULTY)), env=env, **more)

    def seen(self, what: str, **match: Any) -> list[dict[str, Any]]:
        if not self.journal.exists():
            return []
        lines = self.journal.read_text(encoding="utf-8").splitlines()
        entries = [json.loads(line) for line in lines if line.endswith("}")]
        return [one for one in entries if one["what"] == what and all(one.get(k) == v for k, v in match.items())]


class FakeBackend:
    """A `BuiltinBackend` that records its calls and answers from its attributes."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.memories = FakeMemories(self.calls)
        self.myses: tuple[MysisView, ...] = (BETA,)
        self.ledger: list[TopicMessage] = []

    async def send(self, mysis_id: int, hop: int, to: str, text: str) -> Receipt:
        self.calls.append(("send", mysis_id, hop, to, text))
        if to == "missing":
            raise MysisMissing("there is no mysis missing", hint="Use zoea_list_myses")
        return Receipt(1, (ReceiptLine(to, "delivered"),))

    async def broadcast(self, mysis_id: int, hop: int, text: str) -> Receipt:
        self.calls.append(("broadcast", mysis_id, hop, text))
        names = [f"mysis-{number}" for number in range(30)]
        lines = [ReceiptLine(name, "delivered") for name in names]
        return Receipt(1, (*lines, ReceiptLine("last", "skipped", "stopped")))

    async def publish(
        self, meta: CallMeta, topic: str, text: str, data: Mapping[str, Any] | None, receiver: str
    ) -> PublishReceipt:
        self.calls.append(("publish", meta.mysis_id, meta.hop, topic, text, data, receiver))
        lines = (ReceiptLine("beta", "started"),) if topic == "PLAN_READY" else ()
        return PublishReceipt(7, topic, lines)

    async def read_topic(self, topic: str, limit: int, before: int | None) -> tuple[TopicMessage, ...]:
        self.calls.append(("read_topic", topic, limit, before))
        found = [one for one in self.ledger if one.topic == topic and (before is None or one.id < before)]
        return tuple(found[-limit:])

    async def read_topics(self) -> tuple[TopicSummary, ...]:
        newest = {one.topic: one for one in self.ledger}
        return tuple(
            TopicSummary(topic, sum(one.topic == topic for one in self.ledger), one.id, one.sender, one.text, 0)
            for topic, one in newest.items()
        )

    async def read_answer(self, mysis_id: int, call_id: int) -> str:
        self.calls.append(("answer", mysis_id, call_id))
        return "" if call_id == 404 else "Sell at Halcyon"

    async def preserve(self, meta: CallMeta, memory_id: int | None, on: bool) -> int:
        return memory_id or 1

    def list_myses(self) -> tuple[MysisView, ...]:
        return self.myses


class FakeMemories:
    """A `MemorySource` that finds what a test gave it. Its memory 404 is missing."""

    def __init__(self, calls: list[tuple[Any, ...]]) -> None:
        self.calls = calls
        self.texts: dict[int, str] = {}
        """The content of each memory and broadcast, by id, newest first."""
        self.page: MemoryHits | None = None
        self.text = "what was said"

    async def search_memories(self, query: MemoryQuery) -> MemoryHits:
        self.calls.append(("search", query))
        if self.page is not None:
            return self.page
        ids = list(self.texts)
        hits = tuple(hit(number, self.texts[number]) for number in ids[: query.limit])
        return MemoryHits(hits, hits[-1].memory_id if len(hits) < len(ids) else None)

    async def search_broadcasts(self, query: BroadcastQuery) -> BroadcastHits:
        self.calls.append(("search", query))
        ids = list(self.texts)
        hits = tuple(
            BroadcastHit(number, SenderKind.COMMANDER, None, "", 0, whole(self.texts[number]))
            for number in ids[: query.limit]
        )
        return BroadcastHits(hits, hits[-1].message_id if len(hits) < len(ids) else None)

    async def read_part(
        self, memory_id: int, part: str, *, position: int, offset: int, max_chars: int, owner: int | None
    ) -> MemoryPart | None:
        self.calls.append(("read", memory_id, part, position, offset, max_chars, owner))
        if memory_id == 404:
            return None
        text = self.text[offset : offset + max_chars]
        return MemoryPart(memory_id, 1, "alpha", "user", "direct", 0, text, len(self.text))


BETA = MysisView(
    id=2,
    name="beta",
    template="t",
    provider="p",
    model="m",
    state=MysisState.RUNNING,
    state_reason="",
    state_at=0,
    activity=Activity.LLM,
    failure=None,
    retry_at=None,
    held=False,
    tags=("scout",),
)


def whole(text: str) -> Excerpt:
    return Excerpt(text, 0, len(text))


def hit(memory_id: int, text: str) -> MemoryHit:
    """A hit in the content of an answer of mysis 1."""
    return MemoryHit(
        memory_id=memory_id,
        mysis_id=1,
        mysis="alpha",
        is_deleted=False,
        turn_id=1,
        turn_number=1,
        role=Role.ASSISTANT,
        source=Source.LLM,
        created_at=0,
        spot=HitPlace.CONTENT,
        excerpt=whole(text),
        content=whole(text),
    )
