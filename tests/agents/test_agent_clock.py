"""A wall clock set during an agent's work ends no turn, question or hold."""

from __future__ import annotations

from pathlib import Path

from tests.agents.agent_harness import agent_swarm, last_outcome
from tests.agents.test_agent_permissions import RUN, ask
from tests.swarm.test_clock_jumps import JUMPS, set_clock
from zoea.model.enums import ApprovalAnswer
from zoea.settings.schema import Settings
from zoea.swarm.rules import SECOND


@JUMPS
async def test_a_clock_that_is_set_ends_no_turn_and_no_question_of_an_agent(tmp_path: Path, jump: int) -> None:
    async with agent_swarm(tmp_path, settings=Settings.model_validate({"turn": {"timeout": 60}})) as s:
        before = s.clock.now()
        asked = await ask(s, ["ask", RUN], ["told", "a", "completed"], ["say", "done"])
        await s.commander.hold(True)
        await set_clock(s, jump)
        s.clock.by(30)
        await s.run_due()
        assert [one.id for one in await s.commander.approvals()] == [asked]
        await s.commander.answer(asked, ApprovalAnswer.ONCE)
        await s.commander.hold(False)
        await s.settled()
        assert await last_outcome(s) == "answered"
        assert await s.value("SELECT ended_at FROM turn") - before >= jump * SECOND
