"""What every front of a swarm gives who lists, sends, broadcasts, waits, searches and reads.

`test_speaking.py` runs it against each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from zoea.model.swarm_api import SwarmApi
from zoea.model.values import MysisView, Receipt


class Refused(Exception):
    """A front said no, in these words."""


@dataclass(frozen=True)
class Heard:
    """What became of a message: by mysis, its status."""

    delivered: int
    statuses: dict[str, str]

    @classmethod
    def of(cls, receipt: Receipt) -> Heard:
        return cls(receipt.delivered, {line.mysis: line.status for line in receipt.lines})


class Front(Protocol):
    """The surface that the fronts share. A refusal is `Refused` with its words."""

    async def states(self) -> dict[str, str]: ...

    async def send(self, to: str, text: str) -> Heard: ...

    async def broadcast(self, text: str) -> Heard: ...

    async def wait(self, mysis: str, seconds: float) -> str:
        """The state of the mysis once it has nothing to do."""
        ...


@dataclass(frozen=True)
class Found:
    """What a search or a reading gave, in what all fronts say of it."""

    rows: tuple[dict[str, Any], ...] = ()
    text: str = ""
    on_from: int | None = None
    """The before_id, or the offset, that asks for what follows."""
    has_hint: bool = False


class ReadingFront(Protocol):
    """A front to everyone's memory. A refusal is `Refused` with its words."""

    async def find(self, tool: str, /, **arguments: Any) -> Found: ...

    async def read(self, **arguments: Any) -> Found: ...


def state_of(view: MysisView) -> str:
    return view.state.value


class SpeakingContract:
    """`swarm` prepares what the front, `front`, then meets."""

    async def test_everybody_is_listed_with_their_state(self, swarm: SwarmApi, front: Front) -> None:
        await swarm.create("alpha", start=False)
        await swarm.create("beta", start=False)
        await swarm.stop("beta")
        assert await front.states() == {"alpha": "idle", "beta": "stopped"}

    async def test_a_message_has_a_receipt(self, swarm: SwarmApi, front: Front) -> None:
        await swarm.create("alpha", start=False)
        heard = await front.send("ALPHA", "Mine the belt")
        assert (heard.delivered, list(heard.statuses)) == (1, ["alpha"])

    async def test_an_empty_message_is_refused(self, swarm: SwarmApi, front: Front) -> None:
        await swarm.create("alpha", start=False)
        with pytest.raises(Refused):
            await front.send("alpha", "  ")
        with pytest.raises(Refused):
            await front.broadcast("")

    async def test_a_mysis_that_is_not_there_is_named(self, swarm: SwarmApi, front: Front) -> None:
        with pytest.raises(Refused, match="nobody"):
            await front.send("nobody", "Mine")
        with pytest.raises(Refused, match="nobody"):
            await front.wait("nobody", 1.0)

    async def test_a_stopped_mysis_refuses_a_message(self, swarm: SwarmApi, front: Front) -> None:
        await swarm.create("alpha", start=False)
        await swarm.stop("alpha")
        with pytest.raises(Refused, match="mysis stopped"):
            await front.send("alpha", "Mine")

    async def test_a_broadcast_says_who_was_skipped(self, swarm: SwarmApi, front: Front) -> None:
        for name in ("alpha", "beta"):
            await swarm.create(name, start=False)
        await swarm.stop("beta")
        heard = await front.broadcast("Meet at the station")
        assert (heard.delivered, heard.statuses["beta"]) == (1, "skipped")

    async def test_a_receipt_says_which_myses_a_pause_or_a_hold_keeps_from_a_message(
        self, swarm: SwarmApi, front: Front
    ) -> None:
        for name in ("alpha", "beta"):
            await swarm.create(name, start=False)
        await swarm.hold(True, ref="beta")
        heard = await front.broadcast("Meet at the station")
        assert (heard.delivered, heard.statuses) == (2, {"alpha": "started", "beta": "waiting"})
        await swarm.hold(False, ref="beta")
        await swarm.create("gamma", start=False)
        await swarm.hold(True)
        for _ in range(2):  # the first message wakes it, as far as a hold allows that
            assert (await front.send("gamma", "Mine the belt")).statuses == {"gamma": "waiting"}
        await swarm.hold(False)
        await swarm.create("delta", start=False)
        assert (await front.send("delta", "Mine the belt")).statuses == {"delta": "started"}

    async def test_a_broadcast_without_recipients_is_refused(self, swarm: SwarmApi, front: Front) -> None:
        with pytest.raises(Refused, match="all stopped or errored"):
            await front.broadcast("Anybody there")

    async def test_waiting_ends_once_there_is_nothing_to_do(self, swarm: SwarmApi, front: Front) -> None:
        await swarm.create("alpha")
        await front.send("alpha", "Mine the belt")
        assert await front.wait("alpha", 30.0) == "running"


LONG = "".join(f"[{number:06}]" for number in range(1_500))


class ReadingContract:
    """`swarm` prepares what the front, `reading`, then finds."""

    async def test_every_front_finds_the_same(self, swarm: SwarmApi, reading: ReadingFront) -> None:
        await self._told(swarm)
        found = await reading.find("zoea_search_messages", query="beryllium", role="user")
        assert [row["content"] for row in found.rows] == ["More Beryllium, beryllium!", "The vein of beryllium"]
        assert [row["mysis"] for row in found.rows] == ["beta", "alpha"]
        assert [(row["role"], row["source"]) for row in found.rows] == [("user", "direct")] * 2
        assert all(row["created_at"].endswith("+00:00") for row in found.rows)
        first = await reading.find("zoea_search_messages", query="beryllium", role="user", limit=1)
        assert first.on_from == found.rows[0]["id"]
        rest = await reading.find("zoea_search_messages", query="beryllium", role="user", before_id=first.on_from)
        assert (first.rows + rest.rows, rest.on_from) == (found.rows, None)
        ranked = await reading.find("zoea_search_messages", query="BERYLLIUM", match="ranked", role="user")
        assert [row["id"] for row in ranked.rows] == [row["id"] for row in found.rows]
        (call,) = (await reading.find("zoea_search_messages", query='"wolframite"}', role="assistant")).rows
        assert (call["call"], call["position"]) == ('zoea_send_message({"to": "commander", "text": "wolframite"})', 0)
        thoughts = await reading.find("zoea_search_reasoning", query="wants it so", limit=100)
        assert {row["reasoning"] for row in thoughts.rows} == {"The commander wants it so."}
        (told,) = (await reading.find("zoea_search_broadcasts", query="Station")).rows
        assert (told["sender"], told["content"]) == ("commander", "To the Station")
        nothing = await reading.find("zoea_search_messages", query="beryllium", until="2001-01-01")
        assert (nothing.rows, nothing.has_hint) == ((), True)
        (cut,) = (await reading.find("zoea_search_messages", query="[001400]", role="user", max_chars=100)).rows
        assert (len(cut["content"]), "[001400]" in cut["content"]) == (100, True)
        assert LONG[cut["from_char"] :].startswith(cut["content"])

    async def test_every_front_reads_the_same(self, swarm: SwarmApi, reading: ReadingFront) -> None:
        await self._told(swarm)
        (long,) = (await reading.find("zoea_search_messages", query="[001400]", role="user")).rows
        first = await reading.read(id=long["id"])
        assert (first.text, first.on_from) == (LONG[:10_000], 10_000)
        rest = await reading.read(id=long["id"], offset=first.on_from)
        assert (rest.text, rest.on_from) == (LONG[10_000:], None)
        (call,) = (await reading.find("zoea_search_messages", query='"wolframite"}', role="assistant")).rows
        assert (await reading.read(id=call["id"], part="call")).text == call["call"]
        (listed,) = (await reading.read(id=call["id"])).rows
        assert (listed["name"], listed["arguments"]) == (
            "zoea_send_message",
            '{"to": "commander", "text": "wolframite"}',
        )
        (thought, *_) = (await reading.find("zoea_search_reasoning", query="wants it so")).rows
        assert (await reading.read(id=thought["id"], part="reasoning")).text == "The commander wants it so."

    async def test_missing_memories_are_refused_in_the_same_way(self, swarm: SwarmApi, reading: ReadingFront) -> None:
        await swarm.create("alpha", start=False)
        for arguments, why in (
            ({"query": ""}, "query cannot be empty"),
            ({"query": "q", "limit": 101}, "limit must be from 1 to 100, not 101"),
            ({"query": "q", "max_chars": 99}, "max_chars must be from 100 to 10000, not 99"),
            ({"query": "q", "regex": True}, "regex is not an argument of this tool"),
        ):
            for tool in ("zoea_search_messages", "zoea_search_reasoning", "zoea_search_broadcasts"):
                with pytest.raises(Refused, match=why):
                    await reading.find(tool, **arguments)
        with pytest.raises(Refused, match="there is no memory 999"):
            await reading.read(id=999)
        with pytest.raises(Refused, match="part must be one of content, reasoning, call"):
            await reading.read(id=1, part="all")

    async def _told(self, swarm: SwarmApi) -> None:
        for name in ("alpha", "beta"):
            await swarm.create(name)
        for to, text in (("alpha", "The vein of beryllium"), ("beta", "More Beryllium, beryllium!"), ("alpha", LONG)):
            await swarm.send(to, text)
            await swarm.wait(to, timeout_s=30)
        await swarm.broadcast("To the Station")
        await swarm.send("beta", "Who is there")
        for name in ("alpha", "beta"):
            await swarm.wait(name, timeout_s=30)
