"""autogen-agentchat: an assistant agent each, which keeps its own conversation."""

from __future__ import annotations

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ModelInfo
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient

from benchmarks.peers.task import LOOK, MODEL, SYSTEM, arguments, prompt, run, seen


async def look(sector: str) -> str:
    return seen(sector)


async def main() -> None:
    asked = arguments()
    info = ModelInfo(vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False)
    client = OpenAIChatCompletionClient(model=MODEL, base_url=asked.base_url, api_key="none", model_info=info)
    tool = FunctionTool(look, description=LOOK)
    agents = [
        AssistantAgent(
            f"scout_{number}", model_client=client, tools=[tool], system_message=SYSTEM, reflect_on_tool_use=True
        )
        for number in range(asked.agents + 1)
    ]

    async def turn(number: int, count: int) -> str:
        result = await agents[number].run(task=prompt(number, count))
        return str(getattr(result.messages[-1], "content", ""))

    await run(turn, asked.agents, asked.turns)


if __name__ == "__main__":
    asyncio.run(main())
