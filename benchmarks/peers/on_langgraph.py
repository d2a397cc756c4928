"""langgraph: a prebuilt ReAct agent, its conversations in the in-memory checkpointer."""

from __future__ import annotations

import asyncio

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent

from benchmarks.peers.task import LOOK, MODEL, SYSTEM, arguments, prompt, run, seen


async def look(sector: str) -> str:
    return seen(sector)


async def main() -> None:
    asked = arguments()
    model = ChatOpenAI(model=MODEL, base_url=asked.base_url, api_key="none")
    look_tool = tool(look, description=LOOK)
    agent = create_react_agent(model, [look_tool], prompt=SYSTEM, checkpointer=InMemorySaver())

    async def turn(number: int, count: int) -> str:
        said = {"messages": [{"role": "user", "content": prompt(number, count)}]}
        result = await agent.ainvoke(said, {"configurable": {"thread_id": str(number)}})
        return str(result["messages"][-1].content)

    await run(turn, asked.agents, asked.turns)


if __name__ == "__main__":
    asyncio.run(main())
