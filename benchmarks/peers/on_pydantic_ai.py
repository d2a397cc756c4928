"""pydantic-ai: one agent, each conversation handed on as its message history."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import Agent, Tool
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from benchmarks.peers.task import LOOK, MODEL, SYSTEM, arguments, prompt, run, seen


async def look(sector: str) -> str:
    return seen(sector)


async def main() -> None:
    asked = arguments()
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=asked.base_url, api_key="none"))
    agent = Agent(model, instructions=SYSTEM, tools=[Tool(look, description=LOOK)])
    before: dict[int, list[Any]] = {}

    async def turn(number: int, count: int) -> str:
        result = await agent.run(prompt(number, count), message_history=before.get(number))
        before[number] = result.all_messages()
        return str(result.output)

    await run(turn, asked.agents, asked.turns)


if __name__ == "__main__":
    asyncio.run(main())
