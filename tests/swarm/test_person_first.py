"""What a person did goes first in the writer's queue, up to the first request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.swarm.harness import Swarm, script, swarm
from tests.tui.cockpit import QUIET
from zoea.model.enums import SenderKind
from zoea.model.request import Answer
from zoea.model.values import Sender


async def _record_until_first_request(s: Swarm, monkeypatch: pytest.MonkeyPatch, sender: Sender) -> list[bool]:
    """Return for each write of the swarm whether it went first."""
    await s.commander.create("alpha", start=False)
    block = s.provider.block()
    urgent: list[bool] = []
    write = s.store.write

    async def record(op: Any, **options: Any) -> Any:
        urgent.append(bool(options.get("urgent")))
        return await write(op, **options)

    with monkeypatch.context() as patched:
        patched.setattr(s.store, "write", record)
        await s.commander.send("alpha", "go", sender=sender)
        await block.reached.wait()
    block.release()
    await s.settled()
    return urgent


async def test_every_write_between_a_person_s_prompt_and_its_request_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with swarm(tmp_path, script(Answer(text="heard")), settings=QUIET) as s:
        urgent = await _record_until_first_request(s, monkeypatch, Sender())
    assert len(urgent) >= 4  # the message, the state, the turn, the reservation
    assert all(urgent)


async def test_a_message_of_another_mysis_waits_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with swarm(tmp_path, script(Answer(text="heard")), settings=QUIET) as s:
        beta = await s.commander.create("beta", start=False)
        sender = Sender(SenderKind.MYSIS, beta.id, "beta")
        urgent = await _record_until_first_request(s, monkeypatch, sender)
    assert not any(urgent)
