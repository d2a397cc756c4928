"""What every door of a swarm gives who lists, sends, broadcasts and waits. `test_speaking.py` runs it against each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pytest

from zoea.model.ports import SwarmApi
from zoea.model.values import MysisView, Receipt


class Refused(Exception):
    """A door said no, in these words."""


@dataclass(frozen=True)
class Heard:
    """What became of a message: by mysis, its status."""

    delivered: int
    statuses: dict[str, str]

    @classmethod
    def of(cls, receipt: Receipt) -> Heard:
        return cls(receipt.delivered, {line.mysis: line.status for line in receipt.lines})


class Door(Protocol):
    """The surface that the doors share. A refusal is `Refused` with its words."""

    async def states(self) -> dict[str, str]: ...

    async def send(self, to: str, text: str) -> Heard: ...

    async def broadcast(self, text: str) -> Heard: ...

    async def wait(self, mysis: str, seconds: float) -> str:
        """The state of the mysis once it has nothing to do."""
        ...


def state_of(view: MysisView) -> str:
    return view.state.value


class SpeakingContract:
    """`swarm` prepares what the door, `door`, then meets."""

    async def test_everybody_is_listed_with_their_state(self, swarm: SwarmApi, door: Door) -> None:
        await swarm.create("alpha", start=False)
        await swarm.create("beta", start=False)
        await swarm.stop("beta")
        assert await door.states() == {"alpha": "idle", "beta": "stopped"}

    async def test_a_message_has_a_receipt(self, swarm: SwarmApi, door: Door) -> None:
        await swarm.create("alpha", start=False)
        heard = await door.send("ALPHA", "Mine the belt")
        assert (heard.delivered, list(heard.statuses)) == (1, ["alpha"])

    async def test_an_empty_message_is_refused(self, swarm: SwarmApi, door: Door) -> None:
        await swarm.create("alpha", start=False)
        with pytest.raises(Refused):
            await door.send("alpha", "  ")
        with pytest.raises(Refused):
            await door.broadcast("")

    async def test_a_mysis_that_is_not_there_is_named(self, swarm: SwarmApi, door: Door) -> None:
        with pytest.raises(Refused, match="nobody"):
            await door.send("nobody", "Mine")
        with pytest.raises(Refused, match="nobody"):
            await door.wait("nobody", 1.0)

    async def test_a_stopped_mysis_refuses_a_message(self, swarm: SwarmApi, door: Door) -> None:
        await swarm.create("alpha", start=False)
        await swarm.stop("alpha")
        with pytest.raises(Refused, match="press 'r' to relaunch"):
            await door.send("alpha", "Mine")

    async def test_a_broadcast_says_who_was_skipped(self, swarm: SwarmApi, door: Door) -> None:
        for name in ("alpha", "beta"):
            await swarm.create(name, start=False)
        await swarm.stop("beta")
        heard = await door.broadcast("Meet at the station")
        assert (heard.delivered, heard.statuses["beta"]) == (1, "skipped")

    async def test_a_broadcast_that_nobody_can_hear_is_refused(self, swarm: SwarmApi, door: Door) -> None:
        with pytest.raises(Refused, match="all stopped or errored"):
            await door.broadcast("Anybody there")

    async def test_waiting_ends_once_there_is_nothing_to_do(self, swarm: SwarmApi, door: Door) -> None:
        await swarm.create("alpha")
        await door.send("alpha", "Mine the belt")
        assert await door.wait("alpha", 30.0) == "running"
