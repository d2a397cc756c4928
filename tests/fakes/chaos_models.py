"""Model servers of all three wires with seeded random faults, which can be turned off."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import Any

from tests.fakes import anthropic_server, ollama_server, openai_server
from tests.fakes.wire_server import Outgoing, Received

LEFT_OUT = ("zoea_ask", "answer", "broadcast", "register", "login")
"""Tools that wait for words of a person, or speak to all."""
TEXT = "The scan is done; the belt holds ore, and the drone goes on to the station to sell it there. "


class ChaosPlan:
    """What the servers do: with `faults` in [0, 1] the share of requests that meet a fault."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.faults = 0.0
        self.drawn: Counter[str] = Counter()

    def draw(self, *names: str) -> str:
        """Draw a fault of these, or "" for none."""
        if self.random.random() >= self.faults:
            return ""
        name = self.random.choice(names)
        self.drawn[name] += 1
        return name

    async def disturb(self, out: Outgoing) -> bool:
        """Answer with a fault below the level of any wire. False where the request is answered as usual."""
        refusals = {"429": 429, "500": 500, "502": 502, "503": 503, "529": 529, "400": 400}
        match self.draw(*refusals, "cut", "hang", "slow", "garbage", "half", "stream cut", "stream error"):
            case "cut":
                out.cut()
            case "hang":
                # A server of this machine may take minutes to read a prompt. Peace sets the number itself, no event.
                while self.faults:  # noqa: ASYNC110  as above
                    await asyncio.sleep(0.2)
                out.cut()
            case "slow":
                await asyncio.sleep(self.random.uniform(0.2, 2.0))
                return False
            case "garbage":
                out.whole(200, b"\x00\xff not an answer", {"content-type": "application/json"})
            case "half":
                out.begin("text/event-stream", {})
                out.piece(b"data: {")
                out.cut()
            case status if status in refusals:
                headers = {"content-type": "application/json"}
                if status == "429" and self.random.random() < 0.5:
                    headers["retry-after"] = "1"
                out.whole(refusals[status], b'{"error": {"message": "of the chaos", "type": "chaos"}}', headers)
            case _:
                return False
        return True

    def answer(self, tools: dict[str, dict[str, Any]], *, has_result: bool) -> list[tuple[str, dict[str, Any]]]:
        """Return the calls of an answer; none for an answer in words."""
        known = [name for name in tools if not name.endswith(LEFT_OUT)]
        if not known or self.random.random() < (0.7 if has_result else 0.3):
            return []
        names = self.random.choices(known, k=self.random.choice((1, 1, 1, 2, 3)))
        return [(name, _fill(tools[name], self.random)) for name in names]

    def words(self) -> str:
        return f"{TEXT}{self.random.randrange(10**6)}"


def _fill(schema: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    plain = {"string": f"reef {chance.randrange(99)}", "integer": 2, "number": 0.2, "boolean": True}
    wanted = schema.get("properties", {})
    return {name: plain.get(wanted.get(name, {}).get("type", "string"), "x") for name in schema.get("required", [])}


class ChaosOpenAI(openai_server.OpenAIServer):
    def __init__(self, plan: ChaosPlan) -> None:
        super().__init__(otherwise=self._choose)
        self._plan = plan

    def _choose(self, request: Received) -> openai_server.Step:
        body = request.json
        functions = [tool["function"] for tool in body.get("tools") or []]
        tools = {function["name"]: function.get("parameters") or {} for function in functions}
        calls = self._plan.answer(tools, has_result=body["messages"][-1]["role"] == "tool")
        made = tuple(
            openai_server.Call(name, json.dumps(arguments), f"call_{self._plan.random.randrange(10**9)}")
            for name, arguments in calls
        )
        fault = self._plan.draw("cut", "error", "no end")
        return openai_server.Say(
            "" if made else self._plan.words(),
            calls=made,
            cut_after=2 if fault == "cut" else None,
            error_after=2 if fault == "error" else None,
            done=fault != "no end",
        )

    async def handle(self, request: Received, out: Outgoing) -> None:
        self.received.clear()
        if not request.path.endswith("/chat/completions") or not await self._plan.disturb(out):
            await super().handle(request, out)


class ChaosAnthropic(anthropic_server.AnthropicServer):
    def __init__(self, plan: ChaosPlan) -> None:
        super().__init__()
        self._plan = plan

    def _choose(self, body: dict[str, Any]) -> anthropic_server.Step:
        tools = {tool["name"]: tool.get("input_schema") or {} for tool in body.get("tools") or []}
        last = body["messages"][-1]["content"]
        has_result = not isinstance(last, str) and any(block["type"] == "tool_result" for block in last)
        calls = self._plan.answer(tools, has_result=has_result)
        blocks: tuple[anthropic_server.Text | anthropic_server.Use, ...] = tuple(
            anthropic_server.Use(name, json.dumps(arguments), f"toolu_{self._plan.random.randrange(10**9)}")
            for name, arguments in calls
        )
        fault = self._plan.draw("cut", "error", "none")
        return anthropic_server.Say(
            blocks or (anthropic_server.Text(self._plan.words()),),
            cut_after=2 if fault == "cut" else None,
            error_after=2 if fault == "error" else None,
        )

    async def handle(self, request: Received, out: Outgoing) -> None:
        self.received.clear()
        if request.path.startswith("/v1/messages"):
            if await self._plan.disturb(out):
                return
            self.script.clear()
            self.script.append(self._choose(request.json))
        await super().handle(request, out)


class ChaosOllama(ollama_server.OllamaServer):
    def __init__(self, plan: ChaosPlan) -> None:
        super().__init__()
        self._plan = plan

    def _choose(self, body: dict[str, Any]) -> ollama_server.Step:
        functions = [tool["function"] for tool in body.get("tools") or []]
        tools = {function["name"]: function.get("parameters") or {} for function in functions}
        calls = self._plan.answer(tools, has_result=body["messages"][-1]["role"] == "tool")
        fault = self._plan.draw("cut", "error", "none")
        return ollama_server.Say(
            "" if calls else self._plan.words(),
            calls=tuple(calls),
            cut_after=1 if fault == "cut" else None,
            error_after=1 if fault == "error" else None,
        )

    async def handle(self, request: Received, out: Outgoing) -> None:
        self.received.clear()
        if request.path == "/api/chat":
            if await self._plan.disturb(out):
                return
            self.script.clear()
            self.script.append(self._choose(request.json))
        await super().handle(request, out)
