"""What the tests of the toolbox share: its peers as configurations, and a desk that remembers."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zoea.model.enums import Activity, MysisState
from zoea.model.errors import MysisMissing, UsageError
from zoea.model.request import AnswerCall, CallMeta
from zoea.model.values import DeskFound, DeskSearch, MysisView, Receipt, ReceiptLine
from zoea.tools import UpstreamConfig

FAULTY = Path(__file__).with_name("mcp_faulty.py")
HTTP_PEER = Path(__file__).with_name("mcp_http.py")


def meta(mysis: str = "alpha", *, mysis_id: int = 1, deadline_s: float = 10.0, hop: int = 0) -> CallMeta:
    return CallMeta(mysis_id=mysis_id, mysis=mysis, turn_id=1, call_id=1, hop=hop, deadline_s=deadline_s)


def asked(name: str, /, **arguments: Any) -> AnswerCall:
    return AnswerCall(name=name, arguments=json.dumps(arguments))


async def wait_until(predicate: Callable[[], bool], *, within: float = 15.0) -> None:
    """Return once the predicate holds; fail at the deadline."""
    async with asyncio.timeout(within):
        while not predicate():  # noqa: ASYNC110 - what is waited for happens in another process
            await asyncio.sleep(0.01)


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


class Desk:
    """A `SwarmDesk` that remembers what it was asked and answers from what it was given."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.rows: list[dict[str, Any]] = []
        self.said = "what was said"
        self.found: DeskFound | None = None
        self.myses: tuple[MysisView, ...] = ()

    async def desk_send(self, mysis_id: int, hop: int, to: str, text: str) -> Receipt:
        self.asked.append(("send", mysis_id, hop, to, text))
        if to == "nobody":
            raise MysisMissing("there is no mysis nobody", hint="Use zoea_list_myses")
        return Receipt(1, (ReceiptLine(to, "delivered"),))

    async def desk_broadcast(self, mysis_id: int, hop: int, text: str) -> Receipt:
        self.asked.append(("broadcast", mysis_id, hop, text))
        names = [f"mysis-{number}" for number in range(30)]
        lines = [ReceiptLine(name, "delivered") for name in names]
        return Receipt(1, (*lines, ReceiptLine("last", "skipped", "stopped")))

    async def desk_list(self, mysis_id: int) -> tuple[MysisView, ...]:
        self.asked.append(("list", mysis_id))
        return self.myses or (
            MysisView(
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
            ),
        )

    async def desk_answer(self, mysis_id: int, call_id: int) -> str:
        self.asked.append(("answer", mysis_id, call_id))
        return "" if call_id == 404 else "Sell at Halcyon"

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
        self.asked.append(("read", mysis_id, memory_id, offset, max_chars, part, position, everyone))
        if memory_id == 404:
            raise UsageError("memory 404 is not yours")
        return {"id": memory_id, part: self.said[offset : offset + max_chars], "offset": offset, "next_offset": None}

    async def desk_search(self, mysis_id: int, search: DeskSearch) -> DeskFound:
        self.asked.append(("search", mysis_id, search))
        if self.found is not None:
            return self.found
        page = self.rows[: search.limit]
        return DeskFound(tuple(page), page[-1]["id"] if len(page) < len(self.rows) else None)
