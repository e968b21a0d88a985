"""OpenAI's Agents SDK over MCP: `costgym rank -- python examples/commands/openai_agents.py`.

Needs `pip install openai-agents`.
"""

import asyncio
import os

from agents.mcp import MCPServerStreamableHttp

from agents import Agent, Runner

SYSTEM = "Answer with the help of tools. Call finish with every fact that was asked for."


async def main() -> None:
    """Play the episode whose task and addresses stand in the environment."""
    async with MCPServerStreamableHttp({"url": os.environ["COSTGYM_MCP_URL"]}) as server:
        agent = Agent("costgym", instructions=SYSTEM, model="any", mcp_servers=[server])
        result = await Runner.run(agent, os.environ["COSTGYM_TASK"], max_turns=15)
    print(" ".join(str(result.final_output).split()))


asyncio.run(main())
