"""openai-agents: its runner over chat completions, tracing off, each conversation carried from result to result."""

from __future__ import annotations

import asyncio
from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from benchmarks.peers.task import LOOK, MODEL, SYSTEM, arguments, prompt, run, seen


async def look(sector: str) -> str:
    return seen(sector)


async def main() -> None:
    asked = arguments()
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=asked.base_url, api_key="none")
    agent = Agent(
        name="scout",
        instructions=SYSTEM,
        model=OpenAIChatCompletionsModel(model=MODEL, openai_client=client),
        tools=[function_tool(look, description_override=LOOK)],
    )
    before: dict[int, list[Any]] = {}

    async def turn(number: int, count: int) -> str:
        said = [*before.get(number, ()), {"role": "user", "content": prompt(number, count)}]
        result = await Runner.run(agent, said)
        before[number] = result.to_input_list()
        return str(result.final_output)

    await run(turn, asked.agents, asked.turns)


if __name__ == "__main__":
    asyncio.run(main())
