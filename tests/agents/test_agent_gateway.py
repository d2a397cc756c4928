"""An agent behind the gateway: it is told the address alone, and budgets are those of the gateway's requests."""

from __future__ import annotations

from pathlib import Path

from tests.agents.agent_harness import agent_swarm, conversation, last_outcome, say
from zoea.model.enums import ApprovalAnswer, MysisState
from zoea.model.ports import AgentTools, GatewayAccess, ToolsAccess
from zoea.queries.request_inspection import inspect_request

_REFUSED = """
INSERT INTO request(mysis_id, turn_id, purpose, iteration, attempt, provider, model, catalogue_hash, estimated_tokens,
  state, reserved_tokens, created_at) VALUES (1, ?, 'turn', 1, 1, 'p', 'm', '', 1, 'refused', 0, 1)
"""


class _Gateway:
    def __init__(self) -> None:
        self.opened: list[int] = []
        self.closed: list[int] = []

    async def open(self, mysis_id: int) -> GatewayAccess:
        self.opened.append(mysis_id)
        return GatewayAccess("http://127.0.0.1:1/tok/v1", "http://127.0.0.1:1/tok", "tok")

    async def close(self, mysis_id: int) -> None:
        self.closed.append(mysis_id)

    async def serve_tools(self, tools: AgentTools) -> ToolsAccess:
        return ToolsAccess("http://127.0.0.1:1/mcp", "tools")

    async def end_tools(self, access: ToolsAccess) -> None:
        return None


async def test_an_agent_is_told_the_address_of_the_gateway_which_makes_the_request_rows(tmp_path: Path) -> None:
    gateway = _Gateway()
    async with agent_swarm(tmp_path, {"modes": ["default"]}, acp='agent = "qwen"') as s:
        s.commander.swarm.services.gateway = gateway
        await s.commander.create("alpha", model="echo", start=False)
        await say(s, ["env", "OPENAI_BASE_URL"], ["env", "OPENAI_MODEL"])
        await s.settled()
        text = "OPENAI_BASE_URL=http://127.0.0.1:1/tok/v1OPENAI_MODEL=echo"
        assert await conversation(s) == [("assistant", text)]
        assert await s.value("SELECT count(*) FROM request") == 0
        await s.commander.stop("alpha")
        await s.until(lambda: gateway.closed)
    assert set(gateway.opened) == {1}


async def test_a_request_that_the_gateway_refused_ends_the_turn_as_over_budget(tmp_path: Path) -> None:
    async with agent_swarm(tmp_path, {"modes": ["default"]}, acp='agent = "qwen"') as s:
        s.commander.swarm.services.gateway = _Gateway()
        await s.commander.create("alpha", model="echo", start=False)
        run = {"toolCallId": "a", "kind": "execute", "title": "x", "rawInput": {"command": "x"}}
        await say(s, ["ask", run], ["error", -32603, "402: over budget"])
        await s.until(lambda: s.commander.swarm.live_view.row(1).approvals)
        await s.store.write(lambda conn: conn.execute(_REFUSED, (1,)))
        [asked] = await s.commander.approvals()
        await s.commander.answer(asked.id, ApprovalAnswer.DENIED)
        await s.settled()
        assert await last_outcome(s) == "budget"
        assert s.state() is not MysisState.ERRORED


async def test_a_template_may_leave_the_gateway_aside(tmp_path: Path) -> None:
    gateway = _Gateway()
    async with agent_swarm(tmp_path, {"modes": ["default"]}, acp='agent = "qwen"\ngateway = false') as s:
        s.commander.swarm.services.gateway = gateway
        await say(s, ["env", "OPENAI_BASE_URL"])
        await s.settled()
        assert await conversation(s) == [("assistant", "OPENAI_BASE_URL=None")]
        [request] = await s.rows("SELECT id, mysis_id FROM request")
        assert gateway.opened == []
        shown = inspect_request(s.path, request["id"])
        assert shown.gone == "Its agent (qwen) asked a provider of its own: Zoea does not see what it sent."
