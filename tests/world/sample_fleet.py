"""Run a fleet of captains over the simulation, with requests of the strategy `turns`.

A request costs a tick. What a captain asks next follows from the request alone; the
fleet holds the conversation, waits as the swarm waits, and carries broadcasts.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from zoea.model.enums import Role, Source
from zoea.model.request import RequestCall, RequestMessage, ToolSpec
from zoea.world.autopilot.decisions import AutopilotAnswer, build_answer
from zoea.world.catalog import REEF_TOOLS, validate_arguments
from zoea.world.reef import Reef
from zoea.world.refusal import ReefRefusal
from zoea.world.world_map import WorldMap

Pilot = Callable[[Sequence[RequestMessage], Sequence[ToolSpec]], AutopilotAnswer]
NUDGE = "Continue your mission. Check notifications and coordinate with the swarm."
BROADCASTS = 4


def toolbox(*, share: bool) -> tuple[ToolSpec, ...]:
    """The tools a mysis sees: Reef's without the accounts, and maybe Zoea's broadcast."""
    tools = [
        ToolSpec(name=spec.name, description=spec.what, input_schema=spec.schema(), upstream="reef", origin=spec.name)
        for spec in REEF_TOOLS.values()
        if spec.name not in ("register", "login", "logout")
    ]
    if share:
        tools.append(ToolSpec(name="zoea_broadcast", description="Tell all.", input_schema={"type": "object"}))
    return tuple(tools)


@dataclass
class Captain:
    """One mysis, as far as its requests go."""

    name: str
    inbox: list[RequestMessage] = field(default_factory=list)
    order: str = ""
    before: list[RequestMessage] = field(default_factory=list)
    said: str = ""
    turn: list[RequestMessage] = field(default_factory=list)
    wait_until: int = 0
    told: int = 0
    turns: int = 0
    requests: int = 0
    errors: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


class Fleet:
    """Captains in one Reef.

    Args:
        seed: Of the map.
        names: One captain each.
        share: Whether they may broadcast.
        history: Whether requests hold the history pack.
        pilot: What answers; the autopilot by default.
    """

    def __init__(
        self, seed: int, names: Sequence[str], *, share: bool, history: bool = True, pilot: Pilot = build_answer
    ) -> None:
        self.reef = Reef(WorldMap(seed))
        self.tools = toolbox(share=share)
        self.history = history
        self.pilot = pilot
        self.captains = [Captain(name) for name in names]
        self._calls = 0
        for name in names:
            self.reef.register(name, "")

    @property
    def earned(self) -> int:
        return sum(player.earned for player in self.reef.world.players.values())

    def run(self, ticks: int) -> int:
        """Let ticks pass, each with a request of each captain that does not wait. Return the credits earned."""
        for _ in range(ticks):
            for captain in self.captains:
                self.step(captain)
            self.reef.tick()
        return self.earned

    def say(self, text: str, sender: str = "") -> None:
        """A broadcast of the commander, or of a captain to all others."""
        label = f"[broadcast from mysis {sender}]\n" if sender else ""
        for captain in self.captains:
            if captain.name != sender:
                captain.inbox.append(RequestMessage(Role.USER, label + text, Source.BROADCAST))

    def step(self, captain: Captain) -> None:
        if not captain.turn:
            if not captain.inbox and self.reef.tick_now < captain.wait_until:
                return
            self._open(captain)
        captain.requests += 1
        said = self.pilot(self.request(captain), self.tools)
        captain.texts.append(said.text)
        if not said.calls:
            self._close(captain, said.text)
            return
        self._carry_out(captain, said)

    def request(self, captain: Captain) -> list[RequestMessage]:
        messages = [RequestMessage(Role.SYSTEM, "You are a captain in Reef.")]
        nudged = captain.turn[0].source is Source.SYSTEM
        if nudged and captain.order:
            messages.append(RequestMessage(Role.USER, f"# Standing order\n{captain.order}"))
        if self.history:
            messages += captain.before
        if captain.said:
            messages.append(RequestMessage(Role.ASSISTANT, captain.said, Source.LLM))
        return messages + captain.turn

    def _open(self, captain: Captain) -> None:
        captain.turns += 1
        captain.turn = captain.inbox or [RequestMessage(Role.USER, NUDGE)]
        if captain.inbox:
            captain.order = captain.inbox[-1].content
        captain.inbox = []

    def _close(self, captain: Captain, text: str) -> None:
        ahead = [self.reef.tick_now + 1]
        starts = [i for i, m in enumerate(captain.turn) if m.calls]
        if starts:
            captain.before = captain.turn[starts[-1] :]
            for message in captain.before[1:]:
                result = json.loads(message.content)
                ahead.append(result.get("arrival_tick", 0))
                ahead.append(
                    result["current_tick"] + result.get("cooldown_ticks", 0) if "current_tick" in result else 0
                )
        captain.wait_until = max(ahead)
        captain.said, captain.turn = text, []

    def _carry_out(self, captain: Captain, said: AutopilotAnswer) -> None:
        calls = []
        results = []
        for call in said.calls:
            self._calls += 1
            wire = f"c{self._calls}"
            calls.append(RequestCall(wire, call.name, call.arguments))
            text, is_error = self._call(captain, call.name, json.loads(call.arguments))
            if is_error:
                captain.errors.append(f"{self.reef.tick_now} {call.name} {call.arguments} {text[:120]}")
            results.append(
                RequestMessage(Role.TOOL, text, Source.TOOL, call_id=wire, name=call.name, is_error=is_error)
            )
        captain.turn.append(RequestMessage(Role.ASSISTANT, said.text, Source.LLM, calls=tuple(calls)))
        captain.turn += results

    def _call(self, captain: Captain, tool: str, args: dict[str, Any]) -> tuple[str, bool]:
        if tool == "zoea_broadcast":
            if captain.told >= BROADCASTS:
                return json.dumps({"code": "rate", "message": "Try again in 900 seconds."}), True
            captain.told += 1
            self.say(args["text"], captain.name)
            return json.dumps({"delivered": len(self.captains) - 1}), False
        try:
            clean = validate_arguments(tool, {**args, "session_id": "x"})
            del clean["session_id"]
            return json.dumps(self.reef.call(captain.name, tool, clean)), False
        except ReefRefusal as refused:
            return json.dumps({**refused.as_dict(), "current_tick": self.reef.tick_now}), True


def random_pilot(seed: int) -> Pilot:
    """A player that calls any tool with arguments that are at least well formed."""
    dice = random.Random(seed)

    def choose(messages: Sequence[RequestMessage], tools: Sequence[ToolSpec]) -> AutopilotAnswer:
        from zoea.model.request import AnswerCall

        if messages[-1].role is Role.TOOL and dice.random() < 0.5:
            return AutopilotAnswer(text="That will do.")
        tool = dice.choice([tool for tool in tools if tool.name != "zoea_broadcast"])
        args: dict[str, Any] = {}
        properties = tool.input_schema.get("properties", {})
        if "poi_id" in properties:
            args["poi_id"] = f"p{dice.randrange(1, 121)}"
        if "system_id" in properties:
            args["system_id"] = f"s{dice.randrange(1, 41)}"
        if "times" in properties:
            args["times"] = dice.randrange(1, 21)
        if tool.name == "buy":
            args["item"] = dice.choice(["iron", "cargo_pod"])
        for key in ("text", "entry"):
            if key in properties:
                args[key] = "hello"
        return AutopilotAnswer(text="Let us see.", calls=(AnswerCall(tool.name, json.dumps(args)),))

    return choose
