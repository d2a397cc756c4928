"""What a turn held is let go with its end: nothing of it waits for Python's collector of cycles."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

from tests.swarm.harness import call, script, swarm
from zoea.model.request import Answer
from zoea.swarm.turn.driver import TurnDriver


async def test_a_turn_that_ended_leaves_no_cycle_behind(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(calls=(call("look"),)), Answer(text="done"))) as s:
        await s.commander.create("alpha", start=False)
        block = s.provider.block()
        await s.commander.send("alpha", "go")
        await block.reached.wait()
        driver = s.commander.swarm.runner("alpha").driver
        assert isinstance(driver, TurnDriver)
        turn = weakref.ref(driver)
        del driver
        gc.disable()
        try:
            block.release()
            await s.settled()
            await s.store.probe()  # until then the writer has the turn's last op in hand
            await s.until(lambda: turn() is None)
        finally:
            gc.enable()
