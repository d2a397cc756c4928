"""What the autopilot answers: a pure function of a request's messages and tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zoea.model.request import AnswerCall, RequestMessage, ToolSpec


@dataclass(frozen=True, slots=True)
class Said:
    """One answer: what it says, why, and the calls it wants."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[AnswerCall, ...] = ()


def answer(messages: Sequence[RequestMessage], tools: Sequence[ToolSpec]) -> Said:
    """The answer to these messages with these tools; the same for the same."""
    return Said(text=f"I am the autopilot, no model. I read {len(messages)} messages and see {len(tools)} tools.")
