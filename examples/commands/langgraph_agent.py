"""LangGraph's ReAct agent over MCP: `costgym rank -- python examples/commands/langgraph_agent.py`.

Needs `pip install langchain langchain-openai langchain-mcp-adapters`.
"""

import asyncio
import os

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI

SYSTEM = "Answer with the help of tools. Call finish with every fact that was asked for."


async def main() -> None:
    """Play the episode whose task and addresses stand in the environment."""
    servers = {"costgym": {"transport": "streamable_http", "url": os.environ["COSTGYM_MCP_URL"]}}
    tools = await MultiServerMCPClient(servers).get_tools()
    agent = create_agent(ChatOpenAI(model="any"), tools, system_prompt=SYSTEM)
    task = {"messages": [("user", os.environ["COSTGYM_TASK"])]}
    answer = await agent.ainvoke(task, {"recursion_limit": 30})
    print(" ".join(str(answer["messages"][-1].text).split()))


asyncio.run(main())
